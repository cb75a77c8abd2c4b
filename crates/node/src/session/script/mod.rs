//! EVAL, EVALSHA, FCALL and their read-only forms; SCRIPT and FUNCTION.
//!
//! A script runs in a block of its own, or in EXEC's (see [`run`]): under the latches of the keys that it declares, and
//! of other keys that it uses.

mod call;
mod eval;
mod fcall;
mod function;
mod kill;
mod machines;
mod rows;
mod run;
mod start;

use command::{KeySpec, Row, Spec, flags::*, key_flags};
use resp::Args;
use script::Source;

use super::{SessionRun, container};
pub(super) use eval::take_text;
pub use machines::Machines;

use crate::node::Node;
use crate::table::Command;

const RUN_FLAGS: u32 = NOSCRIPT | SKIP_MONITOR | MAY_REPLICATE | NO_MANDATORY_KEYS | STALE | RUNS_SCRIPT;
const READ_FLAGS: u32 = NOSCRIPT | SKIP_MONITOR | NO_MANDATORY_KEYS | STALE | READONLY | RUNS_SCRIPT;
const RW_KEYS: &[KeySpec] = &[KeySpec::counted(2, key_flags::RW | key_flags::ACCESS | key_flags::UPDATE)];
const RO_KEYS: &[KeySpec] = &[KeySpec::counted(2, key_flags::RO | key_flags::ACCESS)];

const fn runs(
    name: &'static str,
    read_only: bool,
    since: &'static str,
    syntax: &'static str,
    summary: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    Row {
        spec: Spec {
            name,
            arity: -3,
            flags: if read_only { READ_FLAGS } else { RUN_FLAGS },
            keys: if read_only { RO_KEYS } else { RW_KEYS },
            group: "scripting",
            since,
            complexity: "Depends on the script that is executed.",
            summary,
            syntax,
            ..Spec::NEW
        },
        run,
        subcommands: &[],
    }
}

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[
    runs("eval", false, "2.6.0", EVAL, "Executes a server-side Lua script.", eval::eval),
    runs("eval_ro", true, "7.0.0", EVAL, "Executes a read-only server-side Lua script.", eval::eval),
    runs("evalsha", false, "2.6.0", SHA, "Executes a server-side Lua script by SHA1 digest.", eval::evalsha),
    runs(
        "evalsha_ro",
        true,
        "7.0.0",
        SHA,
        "Executes a read-only server-side Lua script by SHA1 digest.",
        eval::evalsha,
    ),
    runs("fcall", false, "7.0.0", FUNCTION, "Invokes a function.", fcall::fcall),
    runs("fcall_ro", true, "7.0.0", FUNCTION, "Invokes a read-only function.", fcall::fcall),
    Row {
        spec: Spec {
            name: "script",
            arity: -2,
            group: "scripting",
            since: "2.6.0",
            complexity: "Depends on subcommand.",
            summary: "A container for Lua scripts management commands.",
            ..Spec::NEW
        },
        run: container,
        subcommands: eval::SUBCOMMANDS,
    },
    Row {
        spec: Spec {
            name: "function",
            arity: -2,
            group: "scripting",
            since: "7.0.0",
            complexity: "Depends on subcommand.",
            summary: "A container for function commands.",
            ..Spec::NEW
        },
        run: container,
        subcommands: function::SUBCOMMANDS,
    },
];

const EVAL: &str = "script numkeys [key [key ...]] [arg [arg ...]]";
const SHA: &str = "sha1 numkeys [key [key ...]] [arg [arg ...]]";
const FUNCTION: &str = "function numkeys [key [key ...]] [arg [arg ...]]";

/// True if a command runs a script that is declared not to write.
pub(crate) fn is_read_only(node: &Node, command: &Command, args: Args<'_>) -> bool {
    let arg = args.get(1).unwrap_or_default();
    let declared = match command.spec.name {
        "eval" => Source::parse(arg).ok().and_then(|source| source.flags()),
        "evalsha" => eval::digest(arg).and_then(|digest| node.scripts.find(&digest)).and_then(|s| s.source.flags()),
        "fcall" => std::str::from_utf8(arg)
            .ok()
            .and_then(|name| node.scripts.libraries().function(name).map(|(_, function)| function.flags)),
        name => return matches!(name, "eval_ro" | "evalsha_ro" | "fcall_ro"),
    };
    declared.is_some_and(|flags| flags.no_writes)
}
