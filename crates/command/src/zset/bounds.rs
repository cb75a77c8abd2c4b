//! Ranges as clients write them: by rank (`0 -1`), by score (`(1 +inf`), by member (`[a (b`).

use crate::ctx::Ctx;
use crate::error::Error;
use object::number::parse_bound;
use object::zset::{LexBound, LexRange, ScoreBound, ScoreRange};

/// The ranks from `start` to `stop`, both inclusive and counted from the end if negative, among `len` members.
pub(super) fn ranks(start: i64, stop: i64, len: u64) -> std::ops::Range<u64> {
    let from_front = |i: i64| if i >= 0 { Some(i as u64) } else { len.checked_sub(i.unsigned_abs()) };
    let start = from_front(start).unwrap_or(0);
    let end = from_front(stop).map_or(0, |stop| stop.saturating_add(1)).min(len);
    if start < end { start..end } else { 0..0 }
}

/// Arguments `min` and `max` as a range of scores.
pub(super) fn scores(ctx: &Ctx<'_>, min: usize, max: usize) -> Result<ScoreRange, Error> {
    const BAD: Error = Error::new("ERR min or max is not a float");
    let bound = |i| score(ctx.arg(i)).ok_or(BAD);
    Ok(ScoreRange { min: bound(min)?, max: bound(max)? })
}

fn score(text: &[u8]) -> Option<ScoreBound> {
    match text.strip_prefix(b"(") {
        Some(text) => parse_bound(text).map(ScoreBound::Exclusive),
        None => parse_bound(text).map(ScoreBound::Inclusive),
    }
}

/// Arguments `min` and `max` as a range of members.
pub(super) fn members<'a>(ctx: &Ctx<'a>, min: usize, max: usize) -> Result<LexRange<'a>, Error> {
    const BAD: Error = Error::new("ERR min or max not valid string range item");
    let bound = |i| member(ctx.arg(i)).ok_or(BAD);
    Ok(LexRange { min: bound(min)?, max: bound(max)? })
}

fn member(text: &[u8]) -> Option<LexBound<'_>> {
    match text {
        b"-" => Some(LexBound::Min),
        b"+" => Some(LexBound::Max),
        [b'[', member @ ..] => Some(LexBound::Inclusive(member)),
        [b'(', member @ ..] => Some(LexBound::Exclusive(member)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_count_from_either_end() {
        for (start, stop, expected) in [
            (0, -1, 0..5),
            (1, 1, 1..2),
            (-2, -1, 3..5),
            (-100, 1, 0..2),
            (0, 100, 0..5),
            (3, 2, 0..0),
            (5, 9, 0..0),
            (0, -6, 0..0),
            (i64::MIN, i64::MAX, 0..5),
        ] {
            assert_eq!(ranks(start, stop, 5), expected, "{start} {stop}");
        }
        assert_eq!(ranks(0, -1, 0), 0..0);
    }

    #[test]
    fn bounds() {
        assert_eq!(score(b"1.5"), Some(ScoreBound::Inclusive(1.5)));
        assert_eq!(score(b"(-inf"), Some(ScoreBound::Exclusive(f64::NEG_INFINITY)));
        assert_eq!(score(b"("), Some(ScoreBound::Exclusive(0.0)));
        assert_eq!(score(b"(  1"), Some(ScoreBound::Exclusive(1.0)));
        assert_eq!(score(b" 0x10"), Some(ScoreBound::Inclusive(16.0)));
        assert_eq!(score(b"1e400"), Some(ScoreBound::Inclusive(f64::INFINITY)));
        assert_eq!([score(b"nan"), score(b"((1"), score(b"[1"), score(b" (1"), score(b"1 ")], [None; 5]);
        assert_eq!(member(b"["), Some(LexBound::Inclusive(b"")));
        assert_eq!(member(b"(a"), Some(LexBound::Exclusive(b"a")));
        assert_eq!([member(b""), member(b"a"), member(b"-a"), member(b"+x")], [None; 4]);
    }
}
