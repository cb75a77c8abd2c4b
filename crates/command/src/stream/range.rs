//! XLEN, XRANGE, XREVRANGE.

use object::stream::{Entry, Stream};

use super::{id, write_entry};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use resp::Reply;

pub(super) fn xlen(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let len = ctx.db.read_as::<Stream>(&key)?.map_or(0, Stream::len);
    ctx.out.count(len);
    Ok(Outcome::Done)
}

pub(super) fn xrange(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    range(ctx, false)
}

pub(super) fn xrevrange(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    range(ctx, true)
}

fn range(ctx: &mut Ctx<'_>, back: bool) -> Result<Outcome, Error> {
    let (from, to) = if back { (3, 2) } else { (2, 3) };
    let (start, end) = (id::parse_start(ctx.arg(from))?, id::parse_end(ctx.arg(to))?);
    let mut count = None;
    let mut i = 4;
    while i < ctx.args.len() {
        if !ctx.is(i, "count") || i + 1 == ctx.args.len() {
            return Err(Error::SYNTAX);
        }
        count = Some(ctx.int(i + 1)?.max(0) as usize);
        i += 2;
    }
    let key = ctx.key(1);
    let Some(stream) = ctx.db.read_as::<Stream>(&key)? else {
        ctx.out.array(0);
        return Ok(Outcome::Done);
    };
    match count {
        Some(0) => ctx.out.null_array(),
        _ if start > end => ctx.out.array(0),
        _ if back => write_entries(&mut ctx.out, stream.log.range_back(start, end).take(count.unwrap_or(usize::MAX))),
        _ => write_entries(&mut ctx.out, stream.log.range(start, end).take(count.unwrap_or(usize::MAX))),
    }
    Ok(Outcome::Done)
}

/// Writes entries as an array.
pub(super) fn write_entries<'a>(out: &mut Reply<'_>, entries: impl Iterator<Item = Entry<'a>>) {
    let array = out.deferred_array();
    let mut count = 0;
    for entry in entries {
        write_entry(out, &entry);
        count += 1;
    }
    out.finish(array, count);
}
