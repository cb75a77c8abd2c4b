//! BLPOP, BRPOP, BLMPOP, BLMOVE, BLMOVEM, BRPOPLPUSH: they do the same as the commands without B, or wait if the lists
//! are empty.

use super::end_at;
use super::pop::{mpop, parse_mpop, pop_one};
use super::transfer::{Several, transfer, transfer_several};
use crate::ctx::{Block, Ctx, Nil, Outcome};
use crate::error::Error;
use clocks::UnixMs;
use keyspace::Kind;
use object::List;
use object::list::End;

pub(super) fn blpop(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    blocking_pop(ctx, End::Front)
}

pub(super) fn brpop(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    blocking_pop(ctx, End::Back)
}

fn wait(keys: std::ops::Range<usize>, deadline: Option<UnixMs>, nil: Nil) -> Outcome {
    Outcome::Block(Block::new(keys.collect(), Kind::List, deadline, nil))
}

fn blocking_pop(ctx: &mut Ctx<'_>, end: End) -> Result<Outcome, Error> {
    let last = ctx.args.len() - 1;
    let deadline = ctx.deadline(last)?;
    for i in 1..last {
        let key = ctx.key(i);
        match ctx.db.peek(&key) {
            Some(entry) => entry.collection::<List>()?,
            None => continue,
        };
        ctx.out.array(2);
        ctx.out.bulk(key.bytes);
        pop_one(ctx, &key, end)?;
        return Ok(Outcome::Done);
    }
    Ok(wait(1..last, deadline, Nil::Array))
}

pub(super) fn blmpop(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let what = parse_mpop(ctx, 2)?;
    let deadline = ctx.deadline(1)?;
    if mpop(ctx, &what)? {
        return Ok(Outcome::Done);
    }
    Ok(wait(what.first..what.end, deadline, Nil::Array))
}

pub(super) fn blmove(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (from, to) = (end_at(ctx, 3)?, end_at(ctx, 4)?);
    blocking_transfer(ctx, from, to, 5)
}

pub(super) fn blmovem(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let what = Several::parse(ctx, 6)?;
    let deadline = ctx.deadline(5)?;
    if transfer_several(ctx, what)? {
        return Ok(Outcome::Done);
    }
    Ok(wait(1..2, deadline, Nil::Array))
}

pub(super) fn brpoplpush(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    blocking_transfer(ctx, End::Back, End::Front, 3)
}

fn blocking_transfer(ctx: &mut Ctx<'_>, from: End, to: End, timeout_at: usize) -> Result<Outcome, Error> {
    let deadline = ctx.deadline(timeout_at)?;
    if transfer(ctx, from, to)? {
        return Ok(Outcome::Done);
    }
    Ok(wait(1..2, deadline, Nil::Bulk))
}
