//! The `holdfast` binary.

mod agent;
mod backup;
mod bench;
mod check;
mod client;
mod cluster;
mod dev_cluster;
mod export;
mod import;
mod install;
mod memory;
mod ping;
mod server;
mod tls;

#[global_allocator]
static ALLOCATOR: memory::Counted = memory::Counted;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// A Redis-compatible multi-core database.
#[derive(Parser)]
#[command(name = "holdfast", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Backup(backup::Options),
    Bench(Box<bench::Options>),
    Check(check::Options),
    Cluster(cluster::Options),
    Completions(install::CompletionsOptions),
    DevCluster(dev_cluster::Options),
    Export(export::Options),
    Import(import::Options),
    /// Runs a log-server: `holdfast log-server --dirs DIR [DIR ...] --cluster-seeds SEEDS [--name value ...]`. It holds
    /// copies of the logs of a cluster's nodes, and no keys. `--help` explains its settings.
    #[command(disable_help_flag = true)]
    LogServer {
        /// A configuration file and settings, as `holdfast server` takes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    Man(install::ManOptions),
    Ping(ping::Options),
    Restore(backup::RestoreOptions),
    /// Runs a server: `holdfast server [FILE] [--name value ...]`. `--help` explains every setting.
    #[command(disable_help_flag = true)]
    Server {
        /// A configuration file and settings, as redis-server takes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Where `-h` names a host, a `-h` with nothing behind it asks for help, as with redis-cli.
fn help_if_no_host(mut words: Vec<OsString>) -> Vec<OsString> {
    let all = Arguments::command();
    let mut command = &all;
    for word in words.iter().skip(1) {
        let Some(inner) = word.to_str().and_then(|word| command.find_subcommand(word)) else { break };
        command = inner;
    }
    let names_a_host = command.get_arguments().any(|option| option.get_short() == Some('h'));
    if let Some(last) = words.last_mut().filter(|last| names_a_host && *last == "-h") {
        *last = "--help".into();
    }
    words
}

fn main() -> ExitCode {
    let result = match Arguments::parse_from(help_if_no_host(std::env::args_os().collect())).command {
        Command::Backup(options) => backup::run(&options).map_err(|error| error.to_string()),
        Command::Restore(options) => backup::restore(&options).map_err(|error| error.to_string()),
        Command::Bench(options) => bench::run(&options),
        Command::Cluster(options) => cluster::run(&options),
        Command::Completions(options) => install::completions(&options),
        Command::DevCluster(options) => dev_cluster::run(&options),
        Command::Export(options) => export::run(&options),
        Command::Import(options) => import::run(&options),
        Command::Man(options) => install::man(&options),
        Command::Ping(options) => ping::run(&options),
        Command::Check(options) => check::run(&options).map_err(|error| error.to_string()),
        Command::Server { arguments } => {
            let arguments: Vec<Vec<u8>> = arguments.into_iter().map(|a| a.into_encoded_bytes()).collect();
            return server::run(&arguments);
        }
        Command::LogServer { arguments } => {
            let arguments: Vec<Vec<u8>> = arguments.into_iter().map(|a| a.into_encoded_bytes()).collect();
            return server::log_server::run(&arguments);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdfast: {error}");
            ExitCode::FAILURE
        }
    }
}
