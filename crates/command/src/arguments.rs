//! Arguments that several families have: bounded integers and timeouts, with Redis's error texts.

use crate::ctx::Ctx;
use crate::error::Error;
use clocks::UnixMs;
use object::long_double::LongDouble;
use object::number::parse_i64;

const TIMEOUT_RANGE: Error = Error::new("ERR timeout is out of range");

/// Checks that `n` is in the range of Redis's `int`, as numbers of databases must be.
///
/// # Errors
///
/// `n` is out of that range.
pub fn check_i32(n: i64) -> Result<(), Error> {
    let outside = || format!("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX);
    i32::try_from(n).map(drop).map_err(|_| Error::text(outside()))
}

impl Ctx<'_> {
    /// Argument `i` as an integer from `-i64::MAX` on, so that it can be negated.
    pub(crate) fn negatable(&self, i: usize) -> Result<i64, Error> {
        match self.int(i)? {
            i64::MIN => Err(Error::text(format!(
                "ERR value is out of range, value must between {} and {}",
                -i64::MAX,
                i64::MAX
            ))),
            n => Ok(n),
        }
    }

    /// Argument `i` as an integer of at least `min`; `error` for anything else, text included.
    pub(crate) fn at_least(&self, i: usize, min: i64, error: Error) -> Result<u64, Error> {
        let n = parse_i64(self.arg(i)).filter(|n| *n >= min).ok_or(error)?;
        Ok(n as u64)
    }

    /// The time at which a command stops waiting. Its timeout in seconds, possibly with a
    /// fraction, is argument `i`. `None` for never (a timeout of 0).
    pub(crate) fn deadline(&self, i: usize) -> Result<Option<UnixMs>, Error> {
        let ms = milliseconds(self.arg(i)).ok_or(Error::new("ERR timeout is not a float or out of range"))?;
        match ms {
            Milliseconds::Never => Ok(None),
            Milliseconds::Negative => Err(Error::new("ERR timeout is negative")),
            Milliseconds::TooMany => Err(TIMEOUT_RANGE),
            Milliseconds::Some(ms) => {
                let deadline = self.now.checked_add(ms).filter(|at| i64::try_from(at.0).is_ok());
                deadline.map(Some).ok_or(TIMEOUT_RANGE)
            }
        }
    }

    /// The time at which a command stops waiting whose timeout in milliseconds is argument `i`: as [`Self::deadline`].
    pub(crate) fn deadline_ms(&self, i: usize) -> Result<Option<UnixMs>, Error> {
        let ms = parse_i64(self.arg(i)).ok_or(Error::new("ERR timeout is not an integer or out of range"))?;
        match u64::try_from(ms) {
            Ok(0) => Ok(None),
            Ok(ms) => {
                let deadline = self.now.checked_add(ms).filter(|at| i64::try_from(at.0).is_ok());
                deadline.map(Some).ok_or(TIMEOUT_RANGE)
            }
            Err(_) => Err(Error::new("ERR timeout is negative")),
        }
    }
}

/// A timeout that was given in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Milliseconds {
    /// Zero: there is no limit.
    Never,
    Some(u64),
    Negative,
    TooMany,
}

/// Redis computes timeouts in `long double` and rounds up, so that a short one is not endless.
fn milliseconds(text: &[u8]) -> Option<Milliseconds> {
    let seconds = LongDouble::parse(text)?;
    let ms = seconds.times(1000).ceil();
    Some(match ms.map(u64::try_from) {
        Some(Ok(0)) => Milliseconds::Never,
        Some(Ok(ms)) => Milliseconds::Some(ms),
        None if !seconds.is_negative() => Milliseconds::TooMany,
        Some(Err(_)) | None => Milliseconds::Negative,
    })
}

#[cfg(test)]
mod tests {
    use super::Milliseconds::{Negative, Never, Some as Ms, TooMany};
    use super::*;

    /// Each tried on Redis 8.8.
    #[test]
    fn timeouts_in_seconds() {
        for (text, ms) in [
            ("0", Never),
            ("0.0", Never),
            ("-0", Never),
            ("0e5", Never),
            ("0x0p9", Never),
            ("-0.0005", Never),
            ("0.1", Ms(100)),
            ("0.057", Ms(57)),
            ("1e-9", Ms(1)),
            ("1e-400", Ms(1)),
            ("0.0004", Ms(1)),
            ("1.0005", Ms(1001)),
            ("0x10", Ms(16_000)),
            ("0x.8p1", Ms(1000)),
            ("9223372036854775.807", Ms(i64::MAX as u64)),
            ("9223372036854775.808", TooMany),
            ("1e400", TooMany),
            ("inf", TooMany),
            ("-1", Negative),
            ("-1e400", Negative),
            ("-inf", Negative),
        ] {
            assert_eq!(milliseconds(text.as_bytes()), Some(ms), "{text}");
        }
        for text in ["", "abc", "0x", "0xg", "nan", " 1", "1 ", "1e-5000", "1e5000"] {
            assert_eq!(milliseconds(text.as_bytes()), None, "{text}");
        }
    }
}
