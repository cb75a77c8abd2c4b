//! GEOADD.

use object::zset::AddOptions;
use smallvec::SmallVec;

use super::position;
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::zset::{Members, add_members};

pub(super) fn geoadd(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let mut options = AddOptions::default();
    let mut changed = false;
    let mut first = 2;
    while first < ctx.args.len() {
        if ctx.is(first, "nx") {
            options.if_absent = true;
        } else if ctx.is(first, "xx") {
            options.if_present = true;
        } else if ctx.is(first, "ch") {
            changed = true;
        } else {
            break;
        }
        first += 1;
    }
    let words = ctx.args.len() - first;
    if words == 0 || !words.is_multiple_of(3) || (options.if_absent && options.if_present) {
        return Err(Error::SYNTAX);
    }
    let scores = (first..ctx.args.len()).step_by(3).map(|i| Ok(position(ctx, i)?.score()));
    let scores = scores.collect::<Result<SmallVec<[f64; 4]>, Error>>()?;
    add_members(ctx, &scores, Members { first: first + 2, step: 3 }, options, changed)
}
