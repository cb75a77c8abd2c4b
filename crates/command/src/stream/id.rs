//! IDs as clients write them: `ms-seq`, `ms`, and for ranges `-`, `+` and `(id`.

use object::number::parse_i64;
use object::stream::Id;

use crate::error::Error;

const INVALID: Error = Error::new("ERR Invalid stream ID specified as stream command argument");

/// Longest text that is read, as in Redis.
const TEXT_MAX: usize = 127;

/// An ID; `-` and `+` are none. Without a sequence number it has `missing_seq`.
pub(super) fn parse(text: &[u8], missing_seq: u64) -> Result<Id, Error> {
    match split(text)? {
        (ms, None) => Ok(Id::new(number(ms)?, missing_seq)),
        (ms, Some(seq)) => Ok(Id::new(number(ms)?, number(seq)?)),
    }
}

/// An ID, or `-` for the smallest and `+` for the greatest.
pub(super) fn parse_or_end(text: &[u8], missing_seq: u64) -> Result<Id, Error> {
    match text {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        _ => parse(text, missing_seq),
    }
}

/// The ID of an entry to be added: a sequence number of `*` is left to the stream.
pub(super) fn parse_new(text: &[u8]) -> Result<NewId, Error> {
    match split(text)? {
        (ms, Some(b"*")) => Ok(NewId::Within(number(ms)?)),
        _ => parse(text, 0).map(NewId::Exact),
    }
}

/// The argument of XADD for the new entry's ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NewId {
    /// `*`
    Auto,
    /// `ms-*`
    Within(u64),
    /// `ms-seq`
    Exact(Id),
}

/// The begin of a range: `(` leaves the ID itself out.
pub(super) fn parse_start(text: &[u8]) -> Result<Id, Error> {
    match exclusive(text) {
        Some(text) => parse(text, 0)?.next().ok_or(Error::new("ERR invalid start ID for the interval")),
        None => parse_or_end(text, 0),
    }
}

/// The end of a range: `(` leaves the ID itself out.
pub(super) fn parse_end(text: &[u8]) -> Result<Id, Error> {
    match exclusive(text) {
        Some(text) => parse(text, u64::MAX)?.previous().ok_or(Error::new("ERR invalid end ID for the interval")),
        None => parse_or_end(text, u64::MAX),
    }
}

fn exclusive(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"(").filter(|rest| !rest.is_empty())
}

fn split(text: &[u8]) -> Result<(&[u8], Option<&[u8]>), Error> {
    if text.len() > TEXT_MAX {
        return Err(INVALID);
    }
    Ok(match text.iter().position(|b| *b == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    })
}

/// A number as Redis reads it: a canonical one, or any text that `strtoull` takes. That allows blanks in front, a sign
/// (a negative number wraps around) and leading zeros.
fn number(text: &[u8]) -> Result<u64, Error> {
    if let Some(n) = parse_i64(text) {
        return u64::try_from(n).map_err(|_| INVALID);
    }
    let blanks = text.iter().take_while(|b| matches!(b, b' ' | b'\t'..=b'\r')).count();
    let (negative, digits) = match &text[blanks..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return Err(INVALID);
    }
    let add = |n: u64, digit: &u8| {
        let digit = char::from(*digit).to_digit(10)?;
        n.checked_mul(10)?.checked_add(u64::from(digit))
    };
    let n = digits.iter().try_fold(0, add).ok_or(INVALID)?;
    Ok(if negative { n.wrapping_neg() } else { n })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        let max = u64::MAX.to_string();
        for (text, id) in [("1-2", (1, 2)), ("5", (5, 9)), ("0-0", (0, 0)), ("007-+1", (7, 1)), (" 1-1", (1, 1))] {
            assert_eq!(parse(text.as_bytes(), 9), Ok(Id::new(id.0, id.1)), "{text}");
        }
        assert_eq!(parse(max.as_bytes(), 0), Ok(Id::new(u64::MAX, 0)));
        for text in ["", "-", "+", "1-", "-1", "a", "1-2-3", "1-*", "18446744073709551616", "1 ", "1- ", "1-0x1"] {
            assert_eq!(parse(text.as_bytes(), 0), Err(INVALID), "{text}");
        }
        assert_eq!(parse_new(b"5-*"), Ok(NewId::Within(5)));
        assert_eq!(parse_new(b"5"), Ok(NewId::Exact(Id::new(5, 0))));
    }

    #[test]
    fn ends_of_ranges() {
        assert_eq!(parse_start(b"-"), Ok(Id::MIN));
        assert_eq!(parse_end(b"+"), Ok(Id::MAX));
        assert_eq!(parse_start(b"(1-1"), Ok(Id::new(1, 2)));
        assert_eq!(parse_end(b"(1"), Ok(Id::new(1, u64::MAX - 1)));
        assert_eq!(parse_end(b"3"), Ok(Id::new(3, u64::MAX)));
        assert!(parse_start(b"(-").is_err() && parse_start(b"(").is_err());
        assert_eq!(parse_end(b"(0-0"), Err(Error::new("ERR invalid end ID for the interval")));
    }
}
