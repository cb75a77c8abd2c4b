//! ZCARD, ZSCORE, ZMSCORE, ZRANK, ZREVRANK, ZCOUNT, ZLEXCOUNT.

use super::bounds;
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use object::ZSet;
use std::ops::Range;

pub(super) fn zcard(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let len = ctx.db.read_as::<ZSet>(&ctx.key(1))?.map_or(0, ZSet::len);
    ctx.out.count(len);
    Ok(Outcome::Done)
}

pub(super) fn zscore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let set = ctx.db.read_as::<ZSet>(&ctx.key(1))?;
    match set.and_then(|set| set.score(ctx.arg(2))) {
        Some(score) => ctx.out.double(score),
        None => ctx.out.null(),
    }
    Ok(Outcome::Done)
}

pub(super) fn zmscore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let set = ctx.db.read_as::<ZSet>(&ctx.key(1))?;
    ctx.out.array(ctx.args.len() - 2);
    for member in ctx.args.iter().skip(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => ctx.out.double(score),
            None => ctx.out.null(),
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn zrank(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    rank(ctx, false)
}

pub(super) fn zrevrank(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    rank(ctx, true)
}

fn rank(ctx: &mut Ctx<'_>, reverse: bool) -> Result<Outcome, Error> {
    let with_score = match ctx.args.len() {
        3 => false,
        4 if ctx.is(3, "withscore") => true,
        4 => return Err(Error::SYNTAX),
        _ => return Err(Error::arity(if reverse { "zrevrank" } else { "zrank" })),
    };
    let set = ctx.db.read_as::<ZSet>(&ctx.key(1))?;
    let found = set.and_then(|set| Some((set.rank(ctx.arg(2))?, set.len())));
    match found {
        Some(((rank, score), len)) => {
            let rank = if reverse { len - 1 - rank } else { rank };
            if with_score {
                ctx.out.array(2);
            }
            ctx.out.count(rank);
            if with_score {
                ctx.out.double(score);
            }
        }
        None if with_score => ctx.out.null_array(),
        None => ctx.out.null(),
    }
    Ok(Outcome::Done)
}

pub(super) fn zcount(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let range = bounds::scores(ctx, 2, 3)?;
    count(ctx, |set| set.score_range(&range))
}

pub(super) fn zlexcount(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let range = bounds::members(ctx, 2, 3)?;
    count(ctx, |set| set.lex_range(&range))
}

fn count(ctx: &mut Ctx<'_>, ranks: impl FnOnce(&ZSet) -> Range<u64>) -> Result<Outcome, Error> {
    let ranks = ctx.db.read_as::<ZSet>(&ctx.key(1))?.map_or(0..0, ranks);
    ctx.out.count(ranks.end - ranks.start);
    Ok(Outcome::Done)
}
