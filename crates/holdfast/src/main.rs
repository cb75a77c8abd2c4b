//! The `holdfast` binary.

mod bench;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A Redis-compatible multi-core database.
#[derive(Parser)]
#[command(name = "holdfast", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Bench(options) => bench::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdfast: {error}");
            ExitCode::FAILURE
        }
    }
}
