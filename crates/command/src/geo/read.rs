//! GEODIST, GEOHASH, GEOPOS.

use object::ZSet;
use object::geo::{distance, geohash};

use super::{position_of, unit, write_distance, write_position};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;

pub(super) fn geodist(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let unit = match ctx.args.len() {
        4 => 1.0,
        5 => unit(ctx, 4)?,
        _ => return Err(Error::SYNTAX),
    };
    let set = ctx.db.read_as::<ZSet>(&ctx.key(1))?;
    let of = |i: usize| position_of(set?, ctx.arg(i));
    match of(2).zip(of(3)) {
        Some((a, b)) => write_distance(&mut ctx.out, distance(a, b) / unit),
        None => ctx.out.null(),
    }
    Ok(Outcome::Done)
}

pub(super) fn geohash_command(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let set = ctx.db.read_as::<ZSet>(&ctx.key(1))?;
    ctx.out.array(ctx.args.len() - 2);
    for member in ctx.args.iter().skip(2) {
        ctx.out.bulk_or_null(set.and_then(|set| position_of(set, member)).map(geohash));
    }
    Ok(Outcome::Done)
}

pub(super) fn geopos(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let set = ctx.db.read_as::<ZSet>(&ctx.key(1))?;
    ctx.out.array(ctx.args.len() - 2);
    for member in ctx.args.iter().skip(2) {
        match set.and_then(|set| position_of(set, member)) {
            Some(position) => write_position(&mut ctx.out, position),
            None => ctx.out.null_array(),
        }
    }
    Ok(Outcome::Done)
}
