//! ZREM, ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX.

use super::effect::{REMOVE, REMOVE_RANKS};
use super::{bounds, remove_key};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::notify::class;
use keyspace::Key;
use object::ZSet;
use smallvec::SmallVec;
use std::ops::Range;

pub(super) fn zrem(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let mut removed = SmallVec::<[&[u8]; 8]>::new();
    let mut empty = false;
    if let Some(mut set) = ctx.db.get_mut::<ZSet>(&key)? {
        for member in ctx.args.iter().skip(2) {
            if set.remove(member).is_some() {
                removed.push(member);
            }
        }
        empty = set.is_empty();
    }
    ctx.out.count(removed.len() as u64);
    if removed.is_empty() {
        return Ok(Outcome::Done);
    }
    ctx.notify(class::ZSET, "zrem", &key);
    ctx.fx.dirty += removed.len() as u64 - 1;
    if empty {
        remove_key(ctx, &key);
    } else {
        ctx.effect(REMOVE, &key, |w| {
            w.varint(removed.len() as u64);
            removed.iter().for_each(|member| w.bytes(member));
        });
    }
    Ok(Outcome::Done)
}

pub(super) fn zremrangebyrank(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (start, stop) = (ctx.int(2)?, ctx.int(3)?);
    remove_range(ctx, "zremrangebyrank", |set| bounds::ranks(start, stop, set.len()))
}

pub(super) fn zremrangebyscore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let range = bounds::scores(ctx, 2, 3)?;
    remove_range(ctx, "zremrangebyscore", |set| set.score_range(&range))
}

pub(super) fn zremrangebylex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let range = bounds::members(ctx, 2, 3)?;
    remove_range(ctx, "zremrangebylex", |set| set.lex_range(&range))
}

fn remove_range(
    ctx: &mut Ctx<'_>,
    event: &'static str,
    ranks: impl FnOnce(&ZSet) -> Range<u64>,
) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let mut removed = 0..0;
    let mut empty = false;
    if let Some(mut set) = ctx.db.get_mut::<ZSet>(&key)? {
        removed = ranks(&set);
        set.remove_range(removed.clone());
        empty = set.is_empty();
    }
    let count = removed.end - removed.start;
    ctx.out.count(count);
    if count > 0 {
        ctx.notify(class::ZSET, event, &key);
        removed_ranks(ctx, &key, removed, empty);
    }
    Ok(Outcome::Done)
}

/// The steps after members of these ranks, at least one, were removed: effect, and removal of an empty key.
pub(super) fn removed_ranks(ctx: &mut Ctx<'_>, key: &Key<'_>, ranks: Range<u64>, empty: bool) {
    let count = ranks.end - ranks.start;
    ctx.fx.dirty += count - 1;
    if empty {
        remove_key(ctx, key);
    } else {
        ctx.effect(REMOVE_RANKS, key, |w| {
            w.varint(ranks.start);
            w.varint(count);
        });
    }
}
