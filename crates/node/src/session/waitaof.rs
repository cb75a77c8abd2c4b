//! WAIT and WAITAOF: how many copies have everything written so far, and on how many disks it is, whatever `appendfsync`
//! promises. Where a log has copies, those beside the owner's own are its replicas.

use clocks::UnixMs;
use command::{Error, Row, Spec, flags::*};

use super::{Flow, SessionCtx, SessionRun};
use crate::durability::awaited::{AwaitedCopies, Wants};
use crate::durability::durable::Having;

const WAIT: Spec = Spec {
    flags: BLOCKING,
    group: "generic",
    categories: &["connection"],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    ..Spec::NEW
};

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[
    Row {
        spec: Spec {
            name: "wait",
            arity: 3,
            since: "3.0.0",
            summary: "Blocks until the asynchronous replication of all preceding write commands sent by the connection is \
                      completed.",
            syntax: "numreplicas timeout",
            ..WAIT
        },
        run: wait,
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "waitaof",
            arity: 4,
            since: "7.2.0",
            summary: "Blocks until all of the preceding write commands sent by the connection are written to the append-only \
                      file of the master and/or replicas.",
            syntax: "numlocal numreplicas timeout",
            ..WAIT
        },
        run: waitaof,
        subcommands: &[],
    },
];

fn wait(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let copies = usize::try_from(ctx.int(1)?).unwrap_or(0);
    let until = timeout(ctx, 2)?;
    Ok(go(ctx, Wants::Received(copies), until))
}

fn waitaof(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let local = ctx.int(1)?;
    if !(0..=1).contains(&local) {
        return Err(Error::new("ERR value is out of range, value must between 0 and 1"));
    }
    let copies = usize::try_from(ctx.int(2)?).map_err(|_| Error::new("ERR value is out of range, must be positive"))?;
    let until = timeout(ctx, 3)?;
    if local > 0 && ctx.log.is_none() {
        return Err(Error::new("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."));
    }
    Ok(go(ctx, Wants::OnDisks { local: local > 0, copies }, until))
}

/// The time limit that argument `i` gives in milliseconds. None: 0, which is no limit.
fn timeout(ctx: &SessionCtx<'_>, i: usize) -> Result<Option<UnixMs>, Error> {
    let timeout = ctx.int(i).map_err(|_| Error::new("ERR timeout is not an integer or out of range"))?;
    let timeout = u64::try_from(timeout).map_err(|_| Error::new("ERR timeout is negative"))?;
    let until = ctx.engine.now().checked_add(timeout).filter(|until| i64::try_from(until.0).is_ok());
    let until = until.ok_or(Error::new("ERR timeout is out of range"))?;
    Ok((timeout > 0).then_some(until))
}

/// Answers at once what is there already. A block waits for nothing, and without a log there is nothing to wait for.
fn go(ctx: &mut SessionCtx<'_>, wants: Wants, until: Option<UnixMs>) -> Flow {
    let Some(log) = ctx.log else {
        wants.write(Having::default(), false, ctx.out, ctx.session.protocol);
        return Flow::Done;
    };
    let awaited = AwaitedCopies { ends: ctx.engine.ends(), until, wants };
    let now = if ctx.block.is_some() { UnixMs::NEVER } else { ctx.engine.now() };
    match awaited.answer(log, now, ctx.out, ctx.session.protocol) {
        true => Flow::Done,
        false => Flow::AwaitSync(Box::new(awaited)),
    }
}
