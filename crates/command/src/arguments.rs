//! Arguments that several families have: bounded integers and timeouts, with Redis's error texts.

use crate::ctx::Ctx;
use crate::error::Error;
use object::number::{parse_f64, parse_i64};

const TIMEOUT_RANGE: Error = Error::new("ERR timeout is out of range");

/// Whether `n` is in the range of Redis's `int`, as numbers of databases must be.
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

    /// When a command ends to wait whose timeout in seconds, possibly with a fraction, is argument `i`: unix milliseconds,
    /// `None` for never (a timeout of 0).
    pub(crate) fn deadline(&self, i: usize) -> Result<Option<u64>, Error> {
        let seconds = parse_seconds(self.arg(i)).ok_or(Error::new("ERR timeout is not a float or out of range"))?;
        let ms = whole_ms(seconds * 1000.0);
        if ms >= i64::MAX as f64 {
            return Err(TIMEOUT_RANGE);
        }
        if ms < 0.0 {
            return Err(Error::new("ERR timeout is negative"));
        }
        if ms == 0.0 {
            return Ok(None);
        }
        let deadline = self.now.checked_add(ms as u64).filter(|at| i64::try_from(*at).is_ok());
        deadline.map(Some).ok_or(TIMEOUT_RANGE)
    }

    /// When a command ends to wait whose timeout in milliseconds is argument `i`: as [`Self::deadline`].
    pub(crate) fn deadline_ms(&self, i: usize) -> Result<Option<u64>, Error> {
        let ms = parse_i64(self.arg(i)).ok_or(Error::new("ERR timeout is not an integer or out of range"))?;
        match u64::try_from(ms) {
            Ok(0) => Ok(None),
            Ok(ms) => {
                let deadline = self.now.checked_add(ms).filter(|at| i64::try_from(*at).is_ok());
                deadline.map(Some).ok_or(TIMEOUT_RANGE)
            }
            Err(_) => Err(Error::new("ERR timeout is negative")),
        }
    }
}

/// Redis reads timeouts with `strtold`, which knows hexadecimal numbers too.
fn parse_seconds(text: &[u8]) -> Option<f64> {
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"));
    let Some(digits) = digits else {
        let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
        // What is too small for a double is not nothing, which would be for ever.
        let tiny = || mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9'));
        return parse_f64(text)
            .map(|seconds| if seconds == 0.0 && tiny() { f64::MIN_POSITIVE.copysign(seconds) } else { seconds });
    };
    let hex = |value: f64, digit: &u8| Some(value * 16.0 + f64::from(char::from(*digit).to_digit(16)?));
    (!digits.is_empty()).then(|| digits.iter().try_fold(0.0, hex)).flatten()
}

/// Rounds up, but not for what the conversion from decimal alone added.
fn whole_ms(ms: f64) -> f64 {
    let near = ms.round();
    if near != 0.0 && (ms - near).abs() < 1e-6 { near } else { ms.ceil() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds() {
        for (text, ms) in
            [("0", 0.0), ("0.1", 100.0), ("0.057", 57.0), ("1e-9", 1.0), ("1.0005", 1001.0), ("0x10", 16e3)]
        {
            assert_eq!(parse_seconds(text.as_bytes()).map(|s| whole_ms(s * 1000.0)), Some(ms), "{text}");
        }
        for text in ["", "abc", "0x", "0xg", "nan", " 1"] {
            assert_eq!(parse_seconds(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn short_timeouts_are_not_endless() {
        for text in ["1e-400", "0.1e-500", "1e-320", "0.0004"] {
            let seconds = parse_seconds(text.as_bytes()).unwrap();
            assert_eq!(whole_ms(seconds * 1000.0), 1.0, "{text}");
        }
        for text in ["0", "0.0", "-0", "0e5", "0e1"] {
            assert_eq!(parse_seconds(text.as_bytes()), Some(0.0), "{text}");
        }
    }
}
