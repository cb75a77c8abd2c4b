//! GEOSEARCH, GEOSEARCHSTORE, GEORADIUS, GEORADIUSBYMEMBER and the forms of these that only read.

use std::cmp::Ordering;

use object::geo::{Position, integer_of_score};
use object::zset::{ScoreBound, ScoreRange};
use object::{Limits, ZSet};
use resp::Reply;

use super::options::{Form, Options, Order, Storing};
use super::{write_distance, write_position};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::zset;

pub(super) fn georadius(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    run(ctx, Form::Around, Storing::Maybe)
}

pub(super) fn georadius_ro(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    run(ctx, Form::Around, Storing::Never)
}

pub(super) fn georadiusbymember(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    run(ctx, Form::AroundMember, Storing::Maybe)
}

pub(super) fn georadiusbymember_ro(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    run(ctx, Form::AroundMember, Storing::Never)
}

pub(super) fn geosearch(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    run(ctx, Form::Search, Storing::Never)
}

pub(super) fn geosearchstore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    run(ctx, Form::Search, Storing::Always)
}

/// A member inside the shape.
struct Found<'a> {
    member: &'a [u8],
    score: f64,
    position: Position,
    /// Metres from the centre.
    distance: f64,
    /// How many were found before.
    order: usize,
}

fn run(ctx: &mut Ctx<'_>, form: Form, storing: Storing) -> Result<Outcome, Error> {
    let source = if storing == Storing::Always { 2 } else { 1 };
    let set = ctx.db.read_as::<ZSet>(&ctx.key(source))?;
    let options = Options::parse(ctx, form, storing, set)?;
    let mut found = match set {
        Some(set) => find(set, &options),
        None => Vec::new(),
    };
    arrange(&mut found, &options);
    let Some(store) = options.store else {
        ctx.out.array(found.len());
        found.iter().for_each(|found| write(&mut ctx.out, found, &options));
        return Ok(Outcome::Done);
    };
    let result = to_set(&found, &options, &ctx.tunables.limits);
    let key = ctx.key(store);
    ctx.fx.dirty += result.len().saturating_sub(1);
    zset::store(ctx, &key, result, if form == Form::Search { "geosearchstore" } else { "georadiusstore" });
    Ok(Outcome::Done)
}

/// The members inside the shape, in the order of the squares and the scores in them.
fn find<'a>(set: &'a ZSet, options: &Options) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    let Some(search) = options.search() else { return found };
    let inside = |position| options.polygon.as_ref().is_none_or(|polygon| polygon.contains(position));
    let enough = if options.any { options.count } else { usize::MAX };
    for (low, high) in search.ranges() {
        let range = ScoreRange { min: ScoreBound::Inclusive(low), max: ScoreBound::Exclusive(high) };
        let ranks = set.score_range(&range);
        if ranks.is_empty() {
            continue;
        }
        for (member, score) in set.iter(ranks, false) {
            let position = Position::of_score(score);
            if let Some(distance) = search.find(position)
                && inside(position)
            {
                found.push(Found { member, score, position, distance, order: found.len() });
                if found.len() >= enough {
                    return found;
                }
            }
        }
    }
    found
}

/// Sorts, if wanted, and keeps as many as wanted.
fn arrange(found: &mut Vec<Found<'_>>, options: &Options) {
    let nearest_by_default = options.count > 0 && !options.any;
    let order = options.order.or(nearest_by_default.then_some(Order::NearestFirst));
    let count = if options.count == 0 { found.len() } else { options.count.min(found.len()) };
    if let Some(order) = order {
        let by_distance = |a: &Found<'_>, b: &Found<'_>| -> Ordering {
            let nearer = a.distance.total_cmp(&b.distance);
            let ordering = if order == Order::NearestFirst { nearer } else { nearer.reverse() };
            ordering.then(a.order.cmp(&b.order))
        };
        if count < found.len() {
            found.select_nth_unstable_by(count, by_distance);
            found.truncate(count);
        }
        found.sort_unstable_by(by_distance);
    }
    found.truncate(count);
}

fn write(out: &mut Reply<'_>, found: &Found<'_>, options: &Options) {
    let more =
        [options.with_distance, options.with_hash, options.with_position].into_iter().filter(|with| *with).count();
    if more > 0 {
        out.array(1 + more);
    }
    out.bulk(found.member);
    if options.with_distance {
        write_distance(out, found.distance / options.unit);
    }
    if options.with_hash {
        out.integer(integer_of_score(found.score));
    }
    if options.with_position {
        write_position(out, found.position);
    }
}

fn to_set(found: &[Found<'_>], options: &Options, limits: &Limits) -> ZSet {
    let mut set = ZSet::new();
    set.expect(found.len(), found.iter().map(|found| found.member.len()).max().unwrap_or(0), limits);
    for found in found {
        let score = if options.store_distance { found.distance / options.unit } else { found.score };
        // Never NaN: scores are not, and distances are those of an arc.
        let _ = set.insert(score, found.member, limits);
    }
    set
}
