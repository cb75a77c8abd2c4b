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
mod run;

use command::{Error, KeySpec, Row, Spec, flags::*, key_flags};
use engine::Begin;
use resp::Args;
use script::{Flags, LogLevel, Running, Source};

use super::suspended::{Rules, ScriptRun};
use super::{Block, Flow, SessionCtx, SessionRun, container, help};
pub use machines::Machines;

use crate::admission::memory;
use crate::limits::system::fault_of_disk;
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

/// Writes a line of `redis.log`.
fn log(level: LogLevel, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    match level {
        LogLevel::Debug => tracing::debug!(target: "script", cause = %text, "{text}"),
        LogLevel::Verbose | LogLevel::Notice => tracing::info!(target: "script", cause = %text, "{text}"),
        LogLevel::Warning => tracing::warn!(target: "script", cause = %text, "{text}"),
    }
}

/// The number of keys, which is argument 2. `not_a_number` is the error if it is no number.
fn numkeys(ctx: &SessionCtx<'_>, not_a_number: Error) -> Result<usize, Error> {
    let count = keyspace::canonical_int(ctx.arg(2)).ok_or(not_a_number)?;
    if count > ctx.args.len() as i64 - 3 {
        return Err(Error::new("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| Error::new("ERR Number of keys can't be negative"))
}

/// The rules of the script, by its declared flags (`None`: a script without a shebang) and by the command that runs it.
fn rules(ctx: &SessionCtx<'_>, flags: Option<Flags>) -> Result<Rules, Error> {
    let read_only = ctx.command.spec.has(READONLY);
    let short = ctx.session.short_of_memory;
    let Some(flags) = flags else { return Ok(Rules { read_only, no_memory: short, allow_oom: false }) };
    if read_only && !flags.no_writes {
        return Err(Error::new("ERR Can not execute a script with write flag using *_ro command."));
    }
    if short && !flags.allow_oom && !flags.no_writes {
        let fault = fault_of_disk(ctx.node, ctx.log, ctx.settings);
        return Err(fault.map_or(Error::new(memory::NO_ALLOW_OOM), |fault| Error::text(ctx.signed(fault))));
    }
    let (read_only, allow_oom) = (read_only || flags.no_writes, flags.allow_oom);
    Ok(Rules { read_only, no_memory: short && !allow_oom, allow_oom })
}

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

/// Runs a script in a block of its own or in the present one. `begin` makes it from a machine, keys and arguments.
fn start(
    ctx: &mut SessionCtx<'_>,
    numkeys: usize,
    rules: Rules,
    function: Option<&str>,
    begin: impl FnOnce(&mut SessionCtx<'_>) -> Result<Running, Error>,
) -> Result<Flow, Error> {
    let mut own = if ctx.block.is_some() {
        None
    } else {
        let db = ctx.session.db;
        let declared: smallvec::SmallVec<[_; 8]> = ctx.args.iter().skip(3).take(numkeys).map(|key| (db, key)).collect();
        let again = ctx.session.again.take();
        let how = Begin {
            declared: &declared,
            may_widen: true,
            stays_undoable: ctx.may_go_over(),
            again: again.as_deref().map(|retry| &retry.again),
            ..Begin::default()
        };
        match ctx.engine.begin_block(&how, ctx.token) {
            Ok(block) => block.map(|block| Block::new(block, ctx, again.as_deref())),
            Err(busy) => {
                ctx.session.again = again;
                return Ok(Flow::Busy(busy));
            }
        }
    };
    if ctx.monitored {
        // Before the commands that it calls.
        let (node, db, args) = (ctx.node, ctx.session.db, ctx.args);
        let client = ctx.session.client.clone();
        if let Some(block) = own.as_mut().or(ctx.block.as_deref_mut()) {
            block.show(node, db, &client.peer.address, args);
        }
    }
    match begin(ctx) {
        Ok(running) => {
            let run = Box::new(ScriptRun::new(ctx, running, function, own, rules));
            Ok(run.go_on(ctx))
        }
        Err(error) => {
            if let Some(block) = own {
                block.end(ctx);
            }
            Err(error)
        }
    }
}

/// A subcommand of SCRIPT or FUNCTION.
const fn sub(
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
