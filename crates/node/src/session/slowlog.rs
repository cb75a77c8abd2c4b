//! SLOWLOG: slow commands.

use command::{Error, Row, Spec, flags::*};

use super::{Flow, SessionCtx, SessionRun, container, help};
use crate::figures::slowlog::SlowCommand;

const FLAGS: u32 = ADMIN | LOADING | STALE;
/// Entries of SLOWLOG GET without a count.
const USUAL: usize = 10;

#[expect(clippy::too_many_arguments, reason = "a row in one line each")]
const fn sub(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    (complexity, syntax): (&'static str, &'static str),
    summary: &'static str,
    tips: &'static [&'static str],
    run: SessionRun,
) -> Row<SessionRun> {
    let spec = Spec { name, arity, flags, group: "server", since, complexity, syntax, summary, tips, ..Spec::NEW };
    Row { spec, run, subcommands: &[] }
}

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "slowlog",
        arity: -2,
        group: "server",
        since: "2.2.12",
        complexity: "Depends on subcommand.",
        summary: "A container for slow log commands.",
        ..Spec::NEW
    },
    run: container,
    subcommands: &[
        sub(
            "get",
            -2,
            FLAGS,
            "2.2.12",
            ("O(N) where N is the number of entries returned", "[count]"),
            "Returns the slow log's entries.",
            &["request_policy:all_nodes", "nondeterministic_output"],
            get,
        ),
        sub(
            "help",
            2,
            LOADING | STALE,
            "6.2.0",
            ("O(1)", ""),
            "Returns helpful text about the different subcommands.",
            &[],
            help,
        ),
        sub(
            "len",
            2,
            FLAGS,
            "2.2.12",
            ("O(1)", ""),
            "Returns the number of entries in the slow log.",
            &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
            len,
        ),
        sub(
            "reset",
            2,
            FLAGS,
            "2.2.12",
            ("O(N) where N is the number of entries in the slowlog", ""),
            "Clears all entries from the slow log.",
            &["request_policy:all_nodes", "response_policy:all_succeeded"],
            reset,
        ),
    ],
}];

const BAD_COUNT: Error = Error::new("ERR count should be greater than or equal to -1");

fn get(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let count = match ctx.args.len() {
        2 => USUAL,
        3 => match ctx.int(2) {
            Ok(-1) => usize::MAX,
            Ok(count) => usize::try_from(count).map_err(|_| BAD_COUNT)?,
            Err(_) => return Err(BAD_COUNT),
        },
        _ => {
            return Err(Error::new("ERR unknown subcommand or wrong number of arguments for 'get'. Try SLOWLOG HELP."));
        }
    };
    let chosen: Vec<SlowCommand> = ctx.node.slow_log.entries().iter().take(count).cloned().collect();
    let mut reply = ctx.reply();
    reply.array(chosen.len());
    for entry in chosen {
        reply.array(6);
        reply.count(entry.id);
        reply.count(entry.time);
        reply.count(entry.micros);
        reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| reply.bulk(arg));
        reply.bulk(entry.client.0);
        reply.bulk(entry.client.1);
    }
    Ok(Flow::Done)
}

fn len(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let len = ctx.node.slow_log.entries().len();
    ctx.reply().count(len as u64);
    Ok(Flow::Done)
}

fn reset(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.node.slow_log.entries().clear();
    ctx.reply().ok();
    Ok(Flow::Done)
}
