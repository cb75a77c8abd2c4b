//! CLIENT PAUSE and UNPAUSE.

use clocks::UnixMs;
use command::Error;

use super::{Flow, SessionCtx};
use crate::worker::pause::Pause;

pub fn pause(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let all = match ctx.args.get(3) {
        None => true,
        Some(_) if ctx.args.len() > 4 => return Err(super::too_many("pause")),
        Some(word) if word.eq_ignore_ascii_case(b"all") => true,
        Some(word) if word.eq_ignore_ascii_case(b"write") => false,
        Some(_) => return Err(Error::new("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let wait =
        keyspace::canonical_int(ctx.arg(2)).ok_or(Error::new("ERR timeout is not an integer or out of range"))?;
    let wait = u64::try_from(wait).map_err(|_| Error::new("ERR timeout is negative"))?;
    let until = ctx.node.clock.unix_us().div_ceil(1000).checked_add(wait).filter(|until| *until < 1 << 62);
    let until = until.ok_or(Error::new("ERR timeout is out of range"))?;
    ctx.node.pauses.pause(if all { Pause::All } else { Pause::Write }, UnixMs(until));
    ctx.node.look_all();
    ctx.reply().ok();
    Ok(Flow::Done)
}

pub fn unpause(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.node.pauses.unpause();
    ctx.node.look_all();
    ctx.reply().ok();
    Ok(Flow::Done)
}
