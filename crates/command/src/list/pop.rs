//! LPOP, RPOP, LMPOP.

use super::effect::{POP, end_byte};
use super::{end_at, write_elem};
use crate::ctx::{Ctx, Outcome};
use crate::effects::op;
use crate::error::Error;
use crate::notify::class;
use keyspace::Key;
use object::List;
use object::list::End;

pub(super) fn lpop(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    pop(ctx, End::Front, "lpop")
}

pub(super) fn rpop(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    pop(ctx, End::Back, "rpop")
}

fn pop(ctx: &mut Ctx<'_>, end: End, name: &'static str) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    match ctx.args.len() {
        2 => {
            if !pop_one(ctx, &key, end)? {
                ctx.out.null();
            }
        }
        3 => {
            let count = ctx.at_least(2, 0, Error::new("ERR value is out of range, must be positive"))?;
            if count > 0 {
                if !pop_many(ctx, &key, end, count)? {
                    ctx.out.null_array();
                }
            } else {
                match ctx.db.peek(&key) {
                    Some(entry) => {
                        entry.collection::<List>()?;
                        ctx.out.array(0);
                    }
                    None => ctx.out.null_array(),
                }
            }
        }
        _ => return Err(Error::arity(name)),
    }
    Ok(Outcome::Done)
}

/// Pops an element and replies with it. False, and nothing is written: there is no list.
pub(super) fn pop_one(ctx: &mut Ctx<'_>, key: &Key<'_>, end: End) -> Result<bool, Error> {
    let Some(mut list) = ctx.db.get_mut::<List>(key)? else { return Ok(false) };
    let out = &mut ctx.out;
    list.pop(end, &ctx.tunables.limits, |elem| write_elem(out, elem));
    let emptied = list.is_empty();
    drop(list);
    popped(ctx, key, end, 1, emptied);
    Ok(true)
}

/// Pops up to `count` elements and replies with an array of them. False, and nothing is written: there is no list.
pub(super) fn pop_many(ctx: &mut Ctx<'_>, key: &Key<'_>, end: End, count: u64) -> Result<bool, Error> {
    let Some(mut list) = ctx.db.get_mut::<List>(key)? else { return Ok(false) };
    let count = count.min(list.len());
    ctx.out.array(count as usize);
    let elems = match end {
        End::Front => list.range(0, count),
        End::Back => list.range_back(list.len(), count),
    };
    elems.for_each(|elem| write_elem(&mut ctx.out, elem));
    if ctx.out.is_refused() {
        return Err(Error::OOM);
    }
    list.drop_end(end, count, &ctx.tunables.limits);
    let emptied = list.is_empty();
    drop(list);
    popped(ctx, key, end, count, emptied);
    Ok(true)
}

/// The steps after `count` elements were popped: effect, notification, removal of an empty list.
pub(super) fn popped(ctx: &mut Ctx<'_>, key: &Key<'_>, end: End, count: u64, emptied: bool) {
    ctx.fx.dirty += count - 1;
    let event = if end == End::Front { "lpop" } else { "rpop" };
    ctx.notify(class::LIST, event, key);
    if emptied {
        remove(ctx, key);
    } else {
        ctx.effect(POP, key, |w| {
            w.u8(end_byte(end));
            w.varint(count);
        });
    }
}

/// Removes a list that became empty.
pub(super) fn remove(ctx: &mut Ctx<'_>, key: &Key<'_>) {
    ctx.db.remove(key);
    ctx.effect(op::DELETE, key, |_| {});
    ctx.notify(class::GENERIC, "del", key);
}

/// The arguments of LMPOP and BLMPOP.
pub(super) struct Mpop {
    /// Position of the first key.
    pub first: usize,
    /// Position after the last key.
    pub end: usize,
    pub from: End,
    pub count: u64,
}

/// Parses `numkeys key [key ...] <LEFT | RIGHT> [COUNT count]` from argument `at` on.
pub(super) fn parse_mpop(ctx: &Ctx<'_>, at: usize) -> Result<Mpop, Error> {
    let keys = ctx.at_least(at, 1, Error::new("ERR numkeys should be greater than 0"))?;
    let argc = ctx.args.len();
    let first = at + 1;
    let end = usize::try_from(keys).ok().and_then(|n| first.checked_add(n)).filter(|end| *end < argc);
    let end = end.ok_or(Error::SYNTAX)?;
    let from = end_at(ctx, end)?;
    let mut count = None;
    let mut i = end + 1;
    while i < argc {
        if count.is_some() || !ctx.is(i, "count") || i + 1 == argc {
            return Err(Error::SYNTAX);
        }
        count = Some(ctx.at_least(i + 1, 1, Error::new("ERR count should be greater than 0"))?);
        i += 2;
    }
    Ok(Mpop { first, end, from, count: count.unwrap_or(1) })
}

/// Pops from the first key that has a list and replies with key and elements. False, and nothing is written: none has.
pub(super) fn mpop(ctx: &mut Ctx<'_>, what: &Mpop) -> Result<bool, Error> {
    for i in what.first..what.end {
        let key = ctx.key(i);
        match ctx.db.peek(&key) {
            Some(entry) => entry.collection::<List>()?,
            None => continue,
        };
        ctx.out.array(2);
        ctx.out.bulk(key.bytes);
        return pop_many(ctx, &key, what.from, what.count);
    }
    Ok(false)
}

pub(super) fn lmpop(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let what = parse_mpop(ctx, 1)?;
    if !mpop(ctx, &what)? {
        ctx.out.null_array();
    }
    Ok(Outcome::Done)
}
