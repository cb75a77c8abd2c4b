//! The HELP of commands with subcommands.

use resp::Reply;

/// Answers `COMMAND HELP` as Redis does: the form of calls, `lines` (a call and, indented, its effect), HELP itself.
pub fn write_help(out: &mut Reply<'_>, command: &str, lines: &[&str]) {
    out.array(lines.len() + 3);
    out.simple(format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for line in lines {
        out.simple(line);
    }
    out.simple("HELP");
    out.simple("    Print this help.");
}
