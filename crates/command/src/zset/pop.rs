//! ZPOPMIN, ZPOPMAX, ZMPOP and their blocking forms.

use super::remove::removed_ranks;
use super::write_all;
use crate::ctx::{Block, Ctx, Nil, Outcome};
use crate::error::Error;
use crate::notify::class;
use clocks::UnixMs;
use keyspace::{Key, Kind};
use object::ZSet;
use std::ops::Range;

/// The end from which members are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

/// Takes up to `count` members; `write` replies with them first. `count` is positive, the set not empty.
fn take(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    end: End,
    count: u64,
    write: impl FnOnce(&mut resp::Reply<'_>, object::zset::Iter<'_>),
) -> Result<(), Error> {
    let Some(mut set) = ctx.db.get_mut::<ZSet>(key)? else { return Ok(()) };
    let len = set.len();
    let count = count.min(len);
    let ranks = if end == End::Min { 0..count } else { len - count..len };
    write(&mut ctx.out, set.iter(ranks.clone(), end == End::Max));
    if ctx.out.is_refused() {
        return Err(Error::OOM);
    }
    set.remove_range(ranks.clone());
    let empty = set.is_empty();
    drop(set);
    ctx.notify(class::ZSET, if end == End::Min { "zpopmin" } else { "zpopmax" }, key);
    removed_ranks(ctx, key, ranks, empty);
    Ok(())
}

pub(super) fn zpopmin(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    pop(ctx, End::Min)
}

pub(super) fn zpopmax(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    pop(ctx, End::Max)
}

fn pop(ctx: &mut Ctx<'_>, end: End) -> Result<Outcome, Error> {
    let count = match ctx.args.len() {
        2 => None,
        3 => Some(ctx.at_least(2, 0, Error::new("ERR value is out of range, must be positive"))?),
        _ => return Err(Error::SYNTAX),
    };
    let key = ctx.key(1);
    let present = ctx.db.peek(&key).map(|entry| entry.collection::<ZSet>()).transpose()?.is_some();
    match count {
        Some(0) => ctx.out.array(0),
        _ if !present => ctx.out.array(0),
        Some(count) => take(ctx, &key, end, count, |out, members| write_all(out, members, true))?,
        // A single member is a flat pair in RESP3 too.
        None => take(ctx, &key, end, 1, |out, members| {
            out.array(2);
            write_flat(out, members);
        })?,
    }
    Ok(Outcome::Done)
}

fn write_flat(out: &mut resp::Reply<'_>, members: object::zset::Iter<'_>) {
    for (member, score) in members {
        out.bulk(member);
        out.double(score);
    }
}

/// The first of the keys at these arguments that is there; it must be a sorted set.
fn first_present<'a>(ctx: &Ctx<'a>, keys: Range<usize>) -> Result<Option<Key<'a>>, Error> {
    for i in keys {
        let key = ctx.key(i);
        if let Some(entry) = ctx.db.peek(&key) {
            entry.collection::<ZSet>()?;
            return Ok(Some(key));
        }
    }
    Ok(None)
}

fn wait(keys: Range<usize>, deadline: Option<UnixMs>) -> Outcome {
    Outcome::Block(Block::new(keys.collect(), Kind::ZSet, deadline, Nil::Array))
}

pub(super) fn bzpopmin(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    blocking_pop(ctx, End::Min)
}

pub(super) fn bzpopmax(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    blocking_pop(ctx, End::Max)
}

fn blocking_pop(ctx: &mut Ctx<'_>, end: End) -> Result<Outcome, Error> {
    let last = ctx.args.len() - 1;
    let deadline = ctx.deadline(last)?;
    let Some(key) = first_present(ctx, 1..last)? else { return Ok(wait(1..last, deadline)) };
    take(ctx, &key, end, 1, |out, members| {
        out.array(3);
        out.bulk(key.bytes);
        write_flat(out, members);
    })?;
    Ok(Outcome::Done)
}

/// The arguments of ZMPOP and BZMPOP.
struct Mpop {
    /// Positions of the keys.
    keys: Range<usize>,
    end: End,
    count: u64,
}

/// Parses `numkeys key [key ...] <MIN | MAX> [COUNT count]` from argument `at` on.
fn parse_mpop(ctx: &Ctx<'_>, at: usize) -> Result<Mpop, Error> {
    let keys = ctx.at_least(at, 1, Error::new("ERR numkeys should be greater than 0"))?;
    let argc = ctx.args.len();
    let first = at + 1;
    let after = usize::try_from(keys).ok().and_then(|n| first.checked_add(n)).filter(|after| *after < argc);
    let after = after.ok_or(Error::SYNTAX)?;
    let end = if ctx.is(after, "min") {
        End::Min
    } else if ctx.is(after, "max") {
        End::Max
    } else {
        return Err(Error::SYNTAX);
    };
    let mut count = None;
    let mut i = after + 1;
    while i < argc {
        if count.is_some() || !ctx.is(i, "count") || i + 1 == argc {
            return Err(Error::SYNTAX);
        }
        count = Some(ctx.at_least(i + 1, 1, Error::new("ERR count should be greater than 0"))?);
        i += 2;
    }
    Ok(Mpop { keys: first..after, end, count: count.unwrap_or(1) })
}

/// Takes from the first key that is there and replies with it and pairs, nested in either protocol. False: there is
/// none.
fn mpop(ctx: &mut Ctx<'_>, what: &Mpop) -> Result<bool, Error> {
    let Some(key) = first_present(ctx, what.keys.clone())? else { return Ok(false) };
    take(ctx, &key, what.end, what.count, |out, members| {
        out.array(2);
        out.bulk(key.bytes);
        out.array(members.len());
        for (member, score) in members {
            out.array(2);
            out.bulk(member);
            out.double(score);
        }
    })?;
    Ok(true)
}

pub(super) fn zmpop(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let what = parse_mpop(ctx, 1)?;
    if !mpop(ctx, &what)? {
        ctx.out.null_array();
    }
    Ok(Outcome::Done)
}

pub(super) fn bzmpop(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let what = parse_mpop(ctx, 2)?;
    let deadline = ctx.deadline(1)?;
    if mpop(ctx, &what)? { Ok(Outcome::Done) } else { Ok(wait(what.keys, deadline)) }
}
