//! Sorted sets: ZADD to ZUNIONSTORE.

mod add;
mod bounds;
mod combine;
mod effect;
mod pop;
mod random;
mod range;
mod read;
mod remove;
mod rows;
mod rows_of_several;
mod scan;
#[cfg(test)]
mod tests;

pub(crate) use add::{Members, add_members};
pub use effect::replay;
pub use rows::ROWS;
pub use rows_of_several::ROWS_OF_SEVERAL;

use crate::ctx::Ctx;
use crate::effects::op;
use crate::error::Error;
use crate::notify::class;
use keyspace::{Expiry, Key};
use object::ZSet;
use object::number::parse_f64;
use resp::Reply;

/// Argument `i` as a score, an increment or a weight.
fn float(ctx: &Ctx<'_>, i: usize) -> Result<f64, Error> {
    parse_f64(ctx.arg(i)).ok_or(Error::NOT_FLOAT)
}

/// Writes members, with their scores if asked: pairs in RESP3, one flat array in RESP2.
fn write_all<'a>(out: &mut Reply<'_>, members: impl ExactSizeIterator<Item = (&'a [u8], f64)>, scores: bool) {
    write_length(out, members.len(), scores);
    members.for_each(|member| write_one(out, member, scores));
}

/// The header of so many members.
fn write_length(out: &mut Reply<'_>, members: usize, scores: bool) {
    out.array(if scores && !out.is_resp3() { members.saturating_mul(2) } else { members });
}

fn write_one(out: &mut Reply<'_>, (member, score): (&[u8], f64), scores: bool) {
    if scores && out.is_resp3() {
        out.array(2);
    }
    out.bulk(member);
    if scores {
        out.double(score);
    }
}

/// Removes a sorted set that became empty.
fn remove_key(ctx: &mut Ctx<'_>, key: &Key<'_>) {
    ctx.db.remove(key);
    ctx.effect(op::DELETE, key, |_| {});
    ctx.notify(class::GENERIC, "del", key);
}

/// The end of ZRANGESTORE, ZUNIONSTORE and their like: the result replaces the value at `key`, or the key is deleted if
/// there is no result. The reply is the number of members.
pub(crate) fn store(ctx: &mut Ctx<'_>, key: &Key<'_>, set: ZSet, event: &'static str) {
    ctx.out.count(set.len());
    if set.is_empty() {
        if ctx.db.peek(key).is_some() {
            remove_key(ctx, key);
        }
        return;
    }
    let before = ctx.kind_before(key);
    ctx.db.set_value(key, set.into(), Expiry::Clear);
    ctx.contents_effect(effect::STORE, key);
    ctx.tell_replaced(key, before);
    ctx.notify(class::ZSET, event, key);
}
