//! Geo: positions in sorted sets. The grid and the formulas are in [`object::geo`].

mod add;
mod options;
mod read;
mod rows;
mod search;
#[cfg(test)]
mod tests;

pub use rows::ROWS;

use object::ZSet;
use object::geo::Position;
use object::number::parse_f64;
use resp::Reply;

use crate::ctx::Ctx;
use crate::error::Error;

/// Arguments `i` and `i + 1` as longitude and latitude.
fn position(ctx: &Ctx<'_>, i: usize) -> Result<Position, Error> {
    let degrees = |i: usize| ctx.args.get(i).and_then(parse_f64).ok_or(Error::NOT_FLOAT);
    let (longitude, latitude) = (degrees(i)?, degrees(i + 1)?);
    Position::new(longitude, latitude)
        .ok_or_else(|| Error::text(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")))
}

/// Metres per unit of length, which is argument `i`.
fn unit(ctx: &Ctx<'_>, i: usize) -> Result<f64, Error> {
    const UNITS: [(&str, f64); 4] = [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)];
    let found = UNITS.iter().find(|(name, _)| ctx.is(i, name));
    found.map(|(_, metres)| *metres).ok_or(Error::new("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// Where a member is.
fn position_of(set: &ZSet, member: &[u8]) -> Option<Position> {
    set.score(member).map(Position::of_score)
}

/// Writes a distance: four digits behind the point, whatever the unit.
fn write_distance(out: &mut Reply<'_>, distance: f64) {
    // Ten thousandths stay below 2^53: no distance on Earth has so many.
    let units = (distance * 10_000.0).round_ties_even() as u64;
    out.bulk(format!("{}.{:04}", units / 10_000, units % 10_000));
}

/// Writes a position as a pair.
fn write_position(out: &mut Reply<'_>, position: Position) {
    out.array(2);
    out.double(position.longitude);
    out.double(position.latitude);
}
