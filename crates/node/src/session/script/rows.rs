//! The rows of subcommands.

use command::{Row, Spec};

use super::super::SessionRun;

/// A subcommand of SCRIPT or FUNCTION.
pub(super) const fn sub(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    syntax: &'static str,
    summary: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    Row {
        spec: Spec { name, arity, flags, group: "scripting", since, summary, syntax, ..Spec::NEW },
        run,
        subcommands: &[],
    }
}
