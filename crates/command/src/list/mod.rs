//! Lists: LPUSH to BLMPOP.

mod blocking;
mod change;
mod effect;
mod pop;
mod push;
mod read;
mod rows;
#[cfg(test)]
mod tests;
mod transfer;

pub use effect::replay;
pub(crate) use read::show;
pub use rows::ROWS;

use crate::ctx::Ctx;
use crate::error::Error;
use object::block::Elem;
use object::list::End;
use resp::Reply;

/// Writes an element as a bulk string.
#[inline]
fn write_elem(out: &mut Reply<'_>, elem: Elem<'_>) {
    match elem {
        Elem::Bytes(bytes) => out.bulk(bytes),
        Elem::Int(int) => out.bulk_integer(int),
    }
}

/// Argument `i` as an end of a list: LEFT or RIGHT.
fn end_at(ctx: &Ctx<'_>, i: usize) -> Result<End, Error> {
    if ctx.is(i, "left") {
        Ok(End::Front)
    } else if ctx.is(i, "right") {
        Ok(End::Back)
    } else {
        Err(Error::SYNTAX)
    }
}

/// The index among `len` elements that a client means: negative ones count from the end. `None` before the first
/// element; it may be beyond the last.
fn index_of(index: i64, len: u64) -> Option<u64> {
    if index >= 0 { Some(index as u64) } else { len.checked_sub(index.unsigned_abs()) }
}

/// The indexes from `start` to `stop`, both inclusive and possibly negative, of what is there among `len` elements.
fn range_of(start: i64, stop: i64, len: u64) -> std::ops::Range<u64> {
    let start = index_of(start, len).unwrap_or(0);
    let end = index_of(stop, len).map_or(0, |stop| stop.saturating_add(1)).min(len);
    if start < end { start..end } else { 0..0 }
}
