//! `holdfast completions` and `holdfast man`: what a package installs beside the binary. Both are made of the
//! definitions that `--help` prints.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command, CommandFactory, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;
use node::config::{Kind, Row, SECTIONS, explain};

use crate::server::log_server;

/// Prints a completion script for a shell
#[derive(Args)]
pub struct CompletionsOptions {
    /// The shell
    shell: Shell,
}

/// Writes man pages of holdfast and of each of its commands into a directory
#[derive(Args)]
pub struct ManOptions {
    /// The directory, which is made if it is not there
    dir: PathBuf,
}

/// Prints the script.
///
/// # Errors
/// Standard output is closed.
pub fn completions(options: &CompletionsOptions) -> Result<(), String> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut whole(), "holdfast", &mut script);
    io::stdout().write_all(&script).map_err(|why| format!("standard output: {why}"))
}

/// Writes the pages.
///
/// # Errors
/// The system's error.
pub fn man(options: &ManOptions) -> Result<(), String> {
    let mut command = whole().disable_help_subcommand(true);
    command.build();
    let written = fs::create_dir_all(&options.dir).and_then(|()| write_pages(&command, &options.dir));
    written.map_err(|why| format!("{}: {why}", options.dir.display()))
}

fn write_pages(command: &Command, dir: &Path) -> io::Result<()> {
    command.get_subcommands().try_for_each(|inner| write_pages(inner, dir))?;
    let source = concat!("Holdfast ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).manual("Holdfast").generate_to(dir).map(drop)
}

/// All commands, with the settings as options of `server`, which reads its command line itself.
fn whole() -> Command {
    let help = Arg::new("help").short('h').long("help").num_args(0).help("Explains every setting");
    let version = Arg::new("version").short('v').long("version").num_args(0).help("Prints the version");
    let settings = SECTIONS.iter().flat_map(|section| section.rows).filter(|row| !row.hidden).map(setting);
    let dirs = Arg::new("dirs").long("dirs").num_args(1..).value_name("DIR").value_hint(ValueHint::DirPath);
    let of_log_server = [help.clone(), dirs.help("Directories for copies of logs, one for each disk")];
    crate::Arguments::command()
        .mut_subcommand("server", |server| {
            server.override_usage("holdfast server [FILE] [--NAME VALUE ...] [-]").args([help, version]).args(settings)
        })
        .mut_subcommand("log-server", |server| {
            server
                .override_usage(
                    "holdfast log-server [FILE] --dirs DIR [DIR ...] --cluster-seeds SEEDS [--NAME VALUE ...]",
                )
                .args(of_log_server)
                .args(log_server::settings().map(setting))
        })
}

fn setting(row: &Row) -> Arg {
    let arg = Arg::new(row.name).long(row.name).value_name("VALUE").help(row.help).long_help(explain(row).join("\n"));
    let arg = arg.hide_possible_values(true);
    match row.kind {
        Kind::Bool => arg.value_parser(["yes", "no"]),
        Kind::Enum(words) => arg.value_parser(words.to_vec()),
        _ => arg,
    }
}
