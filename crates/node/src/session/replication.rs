//! SYNC, PSYNC, REPLCONF: a client gets a snapshot of one moment in Redis's format. No changes follow it.

use command::{Error, Row, Spec, flags::*};

use super::{Flow, SessionCtx, SessionRun};
use crate::worker::jobs::{Parts, Task};

const REPLICATION: u32 = NO_ASYNC_LOADING | ADMIN | NO_MULTI | NOSCRIPT;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    (syntax, summary): (&'static str, &'static str),
    run: SessionRun,
) -> Row<SessionRun> {
    let spec = Spec { name, arity, flags, group: "server", since, syntax, summary, ..Spec::NEW };
    Row { spec, run, subcommands: &[] }
}

const SUMMARY: &str = "An internal command used in replication.";

const fn complexity(mut row: Row<SessionRun>, complexity: &'static str) -> Row<SessionRun> {
    row.spec.complexity = complexity;
    row
}

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[
    row("sync", 1, REPLICATION, "1.0.0", ("", SUMMARY), sync),
    row("psync", -3, REPLICATION, "2.8.0", ("replicationid offset", SUMMARY), psync),
    complexity(
        row(
            "replconf",
            -1,
            ADMIN | NOSCRIPT | LOADING | STALE | ALLOW_BUSY,
            "3.0.0",
            ("", "An internal command for configuring the replication stream."),
            replconf,
        ),
        "O(1)",
    ),
];

fn sync(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    send(ctx, false)
}

/// There is no stream of changes to go on with, so every PSYNC begins with a snapshot.
fn psync(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.int(2)?;
    send(ctx, true)
}

fn send(ctx: &mut SessionCtx<'_>, full_resync: bool) -> Result<Flow, Error> {
    let task = Task::Send { parts: ctx.session.snapshot_parts, full_resync };
    let job = ctx.node.snapshots.jobs.join(task);
    job.map(Flow::Job).ok_or(Error::new("ERR this server has no thread that makes snapshots"))
}

fn replconf(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.args.len().is_multiple_of(2) {
        return Err(Error::SYNTAX);
    }
    for at in (1..ctx.args.len()).step_by(2) {
        match ctx.arg(at).to_ascii_lowercase().as_slice() {
            b"ack" | b"getack" => return Ok(Flow::Done),
            b"listening-port" => drop(ctx.int(at + 1)?),
            b"ip-address" | b"capa" | b"version" | b"main-ch-client-id" => {}
            b"rdb-only" | b"rdb-channel" => {
                if !(0..=1).contains(&ctx.int(at + 1)?) {
                    return Err(Error::new("ERR value is out of range, value must between 0 and 1"));
                }
            }
            b"rdb-filter-only" => ctx.session.snapshot_parts = parts(ctx.arg(at + 1))?,
            _ => return Err(Error::text([b"ERR Unrecognized REPLCONF option: ", ctx.arg(at)].concat())),
        }
    }
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// The parts of a snapshot that these words name. Without any it is empty.
fn parts(words: &[u8]) -> Result<Parts, Error> {
    let mut parts = Parts { keys: false, functions: false };
    for word in words.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
        if !word.eq_ignore_ascii_case(b"functions") {
            return Err(Error::text([b"ERR Unsupported rdb-filter-only option: ", word].concat()));
        }
        parts.functions = true;
    }
    Ok(parts)
}
