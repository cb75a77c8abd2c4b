//! ZRANDMEMBER.

use super::write_all;
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::sample::{self, Sieve};
use object::ZSet;

/// Members of a set up to this number are walked rather than looked up by rank one by one.
const WALKED_MAX: u64 = 128;

pub(super) fn zrandmember(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let count = if ctx.args.len() > 2 { Some(ctx.negatable(2)?) } else { None };
    let with_scores = ctx.args.len() == 4 && ctx.is(3, "withscores");
    if ctx.args.len() > 4 || (ctx.args.len() == 4 && !with_scores) {
        return Err(Error::SYNTAX);
    }
    if with_scores && count.is_some_and(|count| count.unsigned_abs() > i64::MAX as u64 / 2) {
        return Err(Error::new("ERR value is out of range"));
    }
    let set = ctx.db.read_as::<ZSet>(&ctx.key(1))?;
    let Some(count) = count else {
        let member = set.and_then(|set| set.get(ctx.rng.below(set.len())));
        ctx.out.bulk_or_null(member.map(|(member, _)| member));
        return Ok(Outcome::Done);
    };
    let Some(set) = set.filter(|_| count != 0) else {
        ctx.out.array(0);
        return Ok(Outcome::Done);
    };
    let len = set.len();
    if count < 0 {
        let number = count.unsigned_abs();
        let start = ctx.out.written();
        let pairs = with_scores && ctx.out.is_resp3();
        ctx.out.array(number as usize * if with_scores && !pairs { 2 } else { 1 });
        let walked: Vec<_> = if len <= WALKED_MAX { set.iter(0..len, false).collect() } else { Vec::new() };
        for _ in 0..number {
            let rank = ctx.rng.below(len);
            let Some((member, score)) = walked.get(rank as usize).copied().or_else(|| set.get(rank)) else { break };
            if pairs {
                ctx.out.array(2);
            }
            ctx.out.bulk(member);
            if with_scores {
                ctx.out.double(score);
            }
            sample::check_size(ctx.out.written(), start)?;
        }
        return Ok(Outcome::Done);
    }
    let number = len.min(count as u64);
    let chosen: Vec<_> = if len <= WALKED_MAX || number > len / 4 {
        let mut sieve = Sieve::new(len, number);
        set.iter(0..len, false).filter(|_| sieve.next(ctx.rng)).collect()
    } else {
        sample::distinct(ctx.rng, len, number).into_iter().filter_map(|rank| set.get(rank)).collect()
    };
    write_all(&mut ctx.out, chosen.into_iter(), with_scores);
    Ok(Outcome::Done)
}
