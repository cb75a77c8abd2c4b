//! LSET, LINSERT, LREM, LTRIM.
//!
//! They read first and write then, so that a command that changes nothing leaves the entry's version alone.

use super::effect::{INSERT, REMOVE, SET, TRIM, end_byte};
use super::{index_of, pop::remove, range_of};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::notify::class;
use keyspace::Key;
use object::List;
use object::list::End;

/// The list at `key`, only for reading.
fn look<'c>(ctx: &'c Ctx<'_>, key: &Key<'_>) -> Result<Option<&'c List>, Error> {
    Ok(ctx.db.peek(key).map(|entry| entry.collection::<List>()).transpose()?)
}

pub(super) fn lset(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let list = look(ctx, &key)?.ok_or(Error::NO_SUCH_KEY)?;
    let len = list.len();
    let index = index_of(ctx.int(2)?, len).filter(|index| *index < len).ok_or(Error::OUT_OF_RANGE)?;
    let item = ctx.arg(3);
    if let Some(mut list) = ctx.db.get_mut::<List>(&key)? {
        list.set(index, item, &ctx.tunables.limits);
    }
    ctx.effect(SET, &key, |w| {
        w.varint(index);
        w.bytes(item);
    });
    ctx.notify(class::LIST, "lset", &key);
    ctx.out.ok();
    Ok(Outcome::Done)
}

pub(super) fn linsert(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let after = match () {
        () if ctx.is(2, "after") => 1,
        () if ctx.is(2, "before") => 0,
        () => return Err(Error::SYNTAX),
    };
    let key = ctx.key(1);
    let Some(list) = look(ctx, &key)? else {
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    };
    let Some(pivot) = list.find(ctx.arg(3)) else {
        ctx.out.integer(-1);
        return Ok(Outcome::Done);
    };
    let (index, item, len) = (pivot + after, ctx.arg(4), list.len() + 1);
    if let Some(mut list) = ctx.db.get_mut::<List>(&key)? {
        list.insert(index, item, &ctx.tunables.limits);
    }
    ctx.effect(INSERT, &key, |w| {
        w.varint(index);
        w.bytes(item);
    });
    ctx.notify(class::LIST, "linsert", &key);
    ctx.out.count(len);
    Ok(Outcome::Done)
}

pub(super) fn lrem(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let count = ctx.negatable(2)?;
    let from = if count < 0 { End::Back } else { End::Front };
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let key = ctx.key(1);
    let item = ctx.arg(3);
    if look(ctx, &key)?.and_then(|list| list.find(item)).is_none() {
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    }
    let Some(mut list) = ctx.db.get_mut::<List>(&key)? else { return Ok(Outcome::Done) };
    let removed = list.remove_equal(from, item, most, &ctx.tunables.limits);
    let emptied = list.is_empty();
    drop(list);
    ctx.fx.dirty += removed - 1;
    ctx.notify(class::LIST, "lrem", &key);
    if emptied {
        remove(ctx, &key);
    } else {
        ctx.effect(REMOVE, &key, |w| {
            w.u8(end_byte(from));
            w.varint(most);
            w.bytes(item);
        });
    }
    ctx.out.count(removed);
    Ok(Outcome::Done)
}

pub(super) fn ltrim(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (start, stop) = (ctx.int(2)?, ctx.int(3)?);
    let key = ctx.key(1);
    let Some(len) = look(ctx, &key)?.map(List::len) else {
        ctx.out.ok();
        return Ok(Outcome::Done);
    };
    let keep = range_of(start, stop, len);
    let removed = len - (keep.end - keep.start);
    ctx.notify(class::LIST, "ltrim", &key);
    if keep.is_empty() {
        ctx.fx.dirty += removed - 1;
        remove(ctx, &key);
    } else if removed > 0 {
        ctx.fx.dirty += removed - 1;
        if let Some(mut list) = ctx.db.get_mut::<List>(&key)? {
            list.trim(keep.clone(), &ctx.tunables.limits);
        }
        ctx.effect(TRIM, &key, |w| {
            w.varint(keep.start);
            w.varint(keep.end);
        });
    }
    ctx.out.ok();
    Ok(Outcome::Done)
}
