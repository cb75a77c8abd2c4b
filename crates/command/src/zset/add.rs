//! ZADD, ZINCRBY.

use super::effect::SET;
use super::float;
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::notify::class;
use object::ZSet;
use object::zset::{AddOptions, Added};
use smallvec::SmallVec;

const NOT_A_NUMBER: Error = Error::new("ERR resulting score is not a number (NaN)");

pub(super) fn zincrby(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let options = AddOptions { increment: true, ..AddOptions::default() };
    add(ctx, 2, options, false)
}

pub(super) fn zadd(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let mut options = AddOptions::default();
    let mut changed = false;
    let mut i = 2;
    while i < ctx.args.len() {
        if ctx.is(i, "nx") {
            options.if_absent = true;
        } else if ctx.is(i, "xx") {
            options.if_present = true;
        } else if ctx.is(i, "gt") {
            options.if_greater = true;
        } else if ctx.is(i, "lt") {
            options.if_less = true;
        } else if ctx.is(i, "ch") {
            changed = true;
        } else if ctx.is(i, "incr") {
            options.increment = true;
        } else {
            break;
        }
        i += 1;
    }
    add(ctx, i, options, changed)
}

/// Adds the pairs of scores and members from argument `first` on. `changed`: reply with the number of members whose
/// score has changed, not only of the new ones.
fn add(ctx: &mut Ctx<'_>, first: usize, options: AddOptions, changed: bool) -> Result<Outcome, Error> {
    let pairs = (ctx.args.len() - first) / 2;
    if pairs == 0 || !(ctx.args.len() - first).is_multiple_of(2) {
        return Err(Error::SYNTAX);
    }
    if options.if_absent && options.if_present {
        return Err(Error::new("ERR XX and NX options at the same time are not compatible"));
    }
    if [options.if_absent, options.if_greater, options.if_less].into_iter().filter(|&o| o).count() > 1 {
        return Err(Error::new("ERR GT, LT, and/or NX options at the same time are not compatible"));
    }
    if options.increment && pairs > 1 {
        return Err(Error::new("ERR INCR option supports a single increment-element pair"));
    }
    let scores = (0..pairs).map(|p| float(ctx, first + 2 * p)).collect::<Result<SmallVec<[f64; 4]>, _>>()?;
    add_members(ctx, &scores, Members { first: first + 1, step: 2 }, options, changed)
}

/// The arguments that are members.
pub(crate) struct Members {
    /// The first of them.
    pub first: usize,
    /// From one to the next.
    pub step: usize,
}

/// Adds members with these scores, of which there is at least one, and replies.
pub(crate) fn add_members(
    ctx: &mut Ctx<'_>,
    scores: &[f64],
    members: Members,
    options: AddOptions,
    changed: bool,
) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let limits = &ctx.tunables.limits;
    let mut set = if options.if_present {
        match ctx.db.get_mut::<ZSet>(&key)? {
            Some(set) => set,
            None => {
                if options.increment {
                    ctx.out.null();
                } else {
                    ctx.out.integer(0);
                }
                return Ok(Outcome::Done);
            }
        }
    } else {
        ctx.db.get_or_create::<ZSet>(&key)?
    };
    let longest = if set.is_empty() { ctx.args.get(members.first).map_or(0, <[u8]>::len) } else { 0 };
    set.expect(scores.len(), longest, limits);

    let (mut added, mut updated) = (0, 0);
    let mut result = None;
    // Positions of the members that were added or changed, with their scores.
    let mut done = SmallVec::<[(f64, usize); 4]>::new();
    for (p, &score) in scores.iter().enumerate() {
        let at = members.first + members.step * p;
        let member = ctx.args.get(at).unwrap_or_default();
        match set.add(score, member, options, limits) {
            // Only an increment fails, and it is alone.
            Err(_) => return Err(NOT_A_NUMBER),
            Ok(Added::Refused) => {}
            Ok(Added::Same(score)) => result = Some(score),
            Ok(Added::New(score)) => {
                added += 1;
                result = Some(score);
                done.push((score, at));
            }
            Ok(Added::Changed(score)) => {
                updated += 1;
                result = Some(score);
                done.push((score, at));
            }
        }
    }
    drop(set);
    if !done.is_empty() {
        let args = ctx.args;
        ctx.fx.dirty += done.len() as u64 - 1;
        ctx.effect(SET, &key, |w| {
            w.varint(done.len() as u64);
            for (score, at) in done {
                w.f64(score);
                w.bytes(args.get(at).unwrap_or_default());
            }
        });
        ctx.notify(class::ZSET, if options.increment { "zincr" } else { "zadd" }, &key);
    }
    if options.increment {
        match result {
            Some(score) => ctx.out.double(score),
            None => ctx.out.null(),
        }
    } else {
        ctx.out.integer(if changed { added + updated } else { added });
    }
    Ok(Outcome::Done)
}
