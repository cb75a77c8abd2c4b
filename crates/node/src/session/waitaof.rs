//! WAITAOF: waits until everything written so far is on the disk, whatever `appendfsync` promises.

use command::{Error, Row, Spec, flags::*};
use resp::{Protocol, Reply};

use super::{Flow, SessionCtx, SessionRun};

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "waitaof",
        arity: 4,
        flags: BLOCKING,
        group: "generic",
        categories: &["connection"],
        since: "7.2.0",
        summary: "Blocks until all of the preceding write commands sent by the connection are written to the append-only \
                  file of the master and/or replicas.",
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        syntax: "numlocal numreplicas timeout",
        ..Spec::NEW
    },
    run: waitaof,
    subcommands: &[],
}];

/// The reply: how many servers have it on their disks, this one if `synced`, and no replica.
pub(crate) fn answer(out: &mut Vec<u8>, protocol: Protocol, synced: bool) {
    let mut reply = Reply::new(out, protocol);
    reply.array(2);
    reply.integer(synced.into());
    reply.integer(0);
}

fn waitaof(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let local = ctx.int(1)?;
    if !(0..=1).contains(&local) {
        return Err(Error::new("ERR value is out of range, value must between 0 and 1"));
    }
    if ctx.int(2)? < 0 {
        return Err(Error::new("ERR value is out of range, must be positive"));
    }
    let timeout = ctx.int(3).map_err(|_| Error::new("ERR timeout is not an integer or out of range"))?;
    let timeout = u64::try_from(timeout).map_err(|_| Error::new("ERR timeout is negative"))?;
    let until = ctx.engine.now().checked_add(timeout).filter(|until| i64::try_from(until.0).is_ok());
    let until = until.ok_or(Error::new("ERR timeout is out of range"))?;
    let Some(durable) = ctx.log else {
        if local > 0 {
            return Err(Error::new("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."));
        }
        answer(ctx.out, ctx.session.protocol, false);
        return Ok(Flow::Done);
    };
    let ends = ctx.engine.ends();
    let synced = durable.is_synced(&ends);
    // There are no replicas to wait for. A block waits for nothing.
    if synced || local == 0 || ctx.block.is_some() {
        answer(ctx.out, ctx.session.protocol, synced);
        return Ok(Flow::Done);
    }
    Ok(Flow::AwaitSync { ends, until: (timeout > 0).then_some(until) })
}
