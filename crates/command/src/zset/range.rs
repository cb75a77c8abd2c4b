//! ZRANGE and its older relatives; ZRANGESTORE.

use super::{bounds, store, write_all, write_length, write_one};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::rest::{Rest, is_long, write_step};
use object::zset::{LexRange, ScoreRange};
use object::{Limits, ZSet};
use resp::Reply;
use std::ops::Range;

/// The form of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// A parsed range.
enum Bounds<'a> {
    Ranks(i64, i64),
    Scores(ScoreRange),
    Members(LexRange<'a>),
}

/// The request.
struct Query<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    scores: bool,
    /// Members to leave out first; negative: leave out all.
    offset: i64,
    /// Most members; negative: no limit.
    limit: i64,
}

pub(super) fn zrange(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let query = parse(ctx, 1, None, None)?;
    reply(ctx, &query)
}

pub(super) fn zrevrange(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let query = parse(ctx, 1, Some(By::Rank), Some(true))?;
    reply(ctx, &query)
}

pub(super) fn zrangebyscore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let query = parse(ctx, 1, Some(By::Score), Some(false))?;
    reply(ctx, &query)
}

pub(super) fn zrevrangebyscore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let query = parse(ctx, 1, Some(By::Score), Some(true))?;
    reply(ctx, &query)
}

pub(super) fn zrangebylex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let query = parse(ctx, 1, Some(By::Lex), Some(false))?;
    reply(ctx, &query)
}

pub(super) fn zrevrangebylex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let query = parse(ctx, 1, Some(By::Lex), Some(true))?;
    reply(ctx, &query)
}

/// Parses `key start stop [option ...]` from argument `at` on. Options that `by` and `reverse` replace are no options
/// any more.
fn parse<'a>(ctx: &Ctx<'a>, at: usize, by: Option<By>, reverse: Option<bool>) -> Result<Query<'a>, Error> {
    let (mut chosen_by, mut chosen_reverse) = (by, reverse);
    let (mut scores, mut offset, mut limit) = (false, 0, -1);
    let mut i = at + 3;
    while i < ctx.args.len() {
        if at == 1 && ctx.is(i, "withscores") {
            scores = true;
        } else if ctx.is(i, "limit") && i + 2 < ctx.args.len() {
            (offset, limit) = (ctx.int(i + 1)?, ctx.int(i + 2)?);
            i += 2;
        } else if reverse.is_none() && !chosen_reverse.unwrap_or(false) && ctx.is(i, "rev") {
            chosen_reverse = Some(true);
        } else if chosen_by.is_none() && ctx.is(i, "bylex") {
            chosen_by = Some(By::Lex);
        } else if chosen_by.is_none() && ctx.is(i, "byscore") {
            chosen_by = Some(By::Score);
        } else {
            return Err(Error::SYNTAX);
        }
        i += 1;
    }
    let (by, reverse) = (chosen_by.unwrap_or(By::Rank), chosen_reverse.unwrap_or(false));
    if limit != -1 && by == By::Rank {
        return Err(Error::new(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if scores && by == By::Lex {
        return Err(Error::new("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
    }
    // Backwards the greater bound comes first.
    let (min, max) = if reverse { (at + 2, at + 1) } else { (at + 1, at + 2) };
    let bounds = match by {
        By::Rank => Bounds::Ranks(ctx.int(at + 1)?, ctx.int(at + 2)?),
        By::Score => Bounds::Scores(bounds::scores(ctx, min, max)?),
        By::Lex => Bounds::Members(bounds::members(ctx, min, max)?),
    };
    Ok(Query { bounds, reverse, scores, offset, limit })
}

impl Query<'_> {
    /// The ranks of the wanted members.
    fn ranks(&self, set: &ZSet) -> Range<u64> {
        let all = match &self.bounds {
            Bounds::Ranks(start, stop) => {
                let ranks = bounds::ranks(*start, *stop, set.len());
                // Backwards ranks are counted from the greatest score.
                return if self.reverse { set.len() - ranks.end..set.len() - ranks.start } else { ranks };
            }
            Bounds::Scores(range) => set.score_range(range),
            Bounds::Members(range) => set.lex_range(range),
        };
        let count = all.end - all.start;
        let skip = u64::try_from(self.offset).map_or(count, |offset| offset.min(count));
        let take = u64::try_from(self.limit).map_or(u64::MAX, |limit| limit).min(count - skip);
        if self.reverse { all.end - skip - take..all.end - skip } else { all.start + skip..all.start + skip + take }
    }
}

fn reply(ctx: &mut Ctx<'_>, query: &Query<'_>) -> Result<Outcome, Error> {
    match ctx.db.read_as::<ZSet>(&ctx.key(1))? {
        Some(set) => {
            let ranks = query.ranks(set);
            Ok(show(&mut ctx.out, set, ranks, query.scores, query.reverse))
        }
        None => {
            ctx.out.array(0);
            Ok(Outcome::Done)
        }
    }
}

/// Answers the members of these ranks.
pub(super) fn show(out: &mut Reply<'_>, set: &ZSet, mut ranks: Range<u64>, scores: bool, reverse: bool) -> Outcome {
    let count = ranks.end - ranks.start;
    if is_long(count, set.len(), set.memory()) {
        let set = set.clone();
        write_length(out, count as usize, scores);
        return Outcome::Rest(Rest::new(move |out| {
            let members = set.iter(ranks.clone(), reverse);
            let (written, done) = write_step(out, members, |out, member| write_one(out, member, scores));
            if reverse {
                ranks.end -= written;
            } else {
                ranks.start += written;
            }
            !done
        }));
    }
    write_all(out, set.iter(ranks, reverse), scores);
    Outcome::Done
}

pub(super) fn zrangestore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let query = parse(ctx, 2, None, None)?;
    let result = match ctx.prepared(std::iter::once(2)) {
        Some(result) => result,
        None => match ctx.db.read_as::<ZSet>(&ctx.key(2))? {
            Some(set) => {
                let (ranks, limits) = (query.ranks(set), ctx.tunables.limits.clone());
                // Only then Redis knows the number of members beforehand.
                let expects = matches!(query.bounds, Bounds::Ranks(..));
                if ctx.works_aside(ranks.end - ranks.start) {
                    let set = set.clone();
                    return Ok(ctx.aside(std::iter::once(2), move || part(&set, ranks, expects, &limits)));
                }
                part(set, ranks, expects, &limits)
            }
            None => ZSet::new(),
        },
    };
    let key = ctx.key(1);
    store(ctx, &key, result, "zrangestore");
    Ok(Outcome::Done)
}

/// A set with the members of these ranks.
fn part(set: &ZSet, ranks: Range<u64>, expects: bool, limits: &Limits) -> ZSet {
    let mut result = ZSet::new();
    if expects {
        result.expect((ranks.end - ranks.start) as usize, 0, limits);
    }
    for (member, score) in set.iter(ranks, false) {
        // Scores in a set are numbers.
        let _ = result.insert(score, member, limits);
    }
    result
}
