//! Text as a double, by the rules of `strtod` as Redis 8.8 uses it.
//!
//! Redis converts most numbers itself and leaves the rest to the C library: hexadecimal ones, long ones, and extreme
//! exponents. Only the library reports a range error, so `2e308` is infinite for Redis and `1e400` is refused.

use super::parse_i64;
use crate::long_double::Scanned;

/// Exponents, the digits behind the point taken off, that Redis converts itself.
const OWN_EXPONENTS: std::ops::RangeInclusive<i64> = -342..=308;
/// Significant digits that Redis converts itself.
const OWN_DIGITS: usize = 19;

/// The double that the whole of `text` represents, as Redis accepts scores, increments, weights and coordinates. It is
/// decimal or hexadecimal with optional sign, point and exponent, or `inf` / `infinity` in any case. Refused: blanks,
/// `nan`, and numbers that are out of range for the C library.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    // Scores are mostly integers: below 2^53 these are exact.
    if text.len() <= 15
        && let Some(integer) = parse_i64(text)
    {
        return Some(integer as f64);
    }
    let value = convert(text)?;
    let extreme = value == 0.0 || value.is_infinite();
    (!extreme || !is_out_of_range(text)).then_some(value)
}

/// The double that a bound of a range of scores names. Redis is more lenient here than in [`parse_f64`]. Blanks may
/// come first, a zero byte ends the text, an empty text is zero, and a number out of range is infinite or zero.
pub fn parse_bound(text: &[u8]) -> Option<f64> {
    let end = memchr::memchr(0, text).unwrap_or(text.len());
    let text = text.get(..end)?;
    if text.is_empty() {
        return Some(0.0);
    }
    let first = text.iter().position(|&byte| !is_space(byte))?;
    convert(text.get(first..)?)
}

/// `isspace` of C.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// The nearest double; beyond the range infinity or zero.
fn convert(text: &[u8]) -> Option<f64> {
    match hexadecimal(text) {
        Some((negative, digits)) => {
            let value = hex_value(&Scanned::of(digits, 16, b'p')?);
            Some(if negative { -value } else { value })
        }
        None => fast_float2::parse::<f64, _>(text).ok().filter(|value: &f64| !value.is_nan()),
    }
}

/// True if the number is negative, and the digits behind `0x`.
fn hexadecimal(text: &[u8]) -> Option<(bool, &[u8])> {
    let (negative, rest) = unsigned(text);
    match rest {
        [b'0', b'x' | b'X', digits @ ..] => Some((negative, digits)),
        _ => None,
    }
}

fn unsigned(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    }
}

/// True if Redis leaves this number, which is zero or infinite as a double, to the C library and hears of a range
/// error.
#[cold]
fn is_out_of_range(text: &[u8]) -> bool {
    let (hex, digits) = match hexadecimal(text) {
        Some((_, digits)) => (true, digits),
        None => (false, unsigned(text).1),
    };
    let (radix, mark) = if hex { (16, b'p') } else { (10, b'e') };
    // `inf` has no digits, and zero is in range however it is written.
    let Some(scanned) = Scanned::of(digits, radix, mark).filter(|scanned| !scanned.is_zero()) else { return false };
    if hex {
        return true;
    }
    let mantissa = digits.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    let behind_point = mantissa.iter().rposition(|&byte| byte == b'.').map_or(0, |point| mantissa.len() - point - 1);
    let leading = |byte: &&u8| matches!(byte, b'0' | b'.');
    let significant = mantissa.iter().skip_while(leading).filter(|&&byte| byte != b'.').count();
    let exponent = scanned.exponent().saturating_sub(behind_point as i64);
    significant > OWN_DIGITS || !OWN_EXPONENTS.contains(&exponent)
}

/// The nearest double to a number of hexadecimal digits, ties to even.
fn hex_value(scanned: &Scanned<'_>) -> f64 {
    const MANTISSA_BITS: i64 = 53;
    const LEAST: i64 = -1074;
    let (mut significand, mut lost, mut exponent) = (0u64, false, scanned.binary_exponent());
    for digit in scanned.values(16) {
        if significand >> 60 == 0 {
            significand = significand << 4 | digit;
        } else {
            lost |= digit != 0;
            exponent = exponent.saturating_add(4);
        }
    }
    if significand == 0 {
        return 0.0;
    }
    let bits = i64::from(64 - significand.leading_zeros());
    let shift = (bits - MANTISSA_BITS).max(LEAST.saturating_sub(exponent)).max(0);
    let kept = match shift {
        0 => significand,
        1..=63 => {
            let (kept, rest, half) = (significand >> shift, significand & ((1 << shift) - 1), 1u64 << (shift - 1));
            kept + u64::from(rest > half || (rest == half && (lost || kept & 1 == 1)))
        }
        // Exactly half of the least double is nearer to zero, which is even.
        64 => u64::from(significand > 1 << 63 || (significand == 1 << 63 && lost)),
        _ => 0,
    };
    scale(kept, exponent.saturating_add(shift))
}

/// `significand * 2^exponent`, which is a double or too large for one.
fn scale(significand: u64, exponent: i64) -> f64 {
    match exponent {
        -1074..=-1023 => significand as f64 * f64::from_bits(1 << (exponent + 1074)),
        -1022..=1023 => significand as f64 * f64::from_bits(((exponent + 1023) as u64) << 52),
        // Only a significand of zero gets below the least exponent.
        ..-1074 => 0.0,
        _ if significand == 0 => 0.0,
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INF: f64 = f64::INFINITY;

    #[test]
    fn doubles_as_redis_accepts_them() {
        for (text, value) in [
            ("1.5", Some(1.5)),
            ("+1.5", Some(1.5)),
            ("-0", Some(-0.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("1e3", Some(1000.0)),
            ("1E+3", Some(1000.0)),
            ("inf", Some(INF)),
            ("+INF", Some(INF)),
            ("-Infinity", Some(-INF)),
            ("9007199254740993", Some(9007199254740992.0)),
            ("0x0a", Some(10.0)),
            ("0X0A", Some(10.0)),
            ("-0x1p4", Some(-16.0)),
            ("+0x.8", Some(0.5)),
            ("0x1.8P-1", Some(0.75)),
            ("0x10", Some(16.0)),
            ("0x0p99999", Some(0.0)),
            ("0x1p1023", Some(2f64.powi(1023))),
            ("0x1p-1074", Some(5e-324)),
            ("0x1.fffffffffffff8p0", Some(2.0)),
            ("0x1.fffffffffffff7p0", Some(1.999_999_999_999_999_8)),
            ("0x1.00000000000008p0", Some(1.0)),
            ("0x1.000000000000080000000001p0", Some(1.000_000_000_000_000_2)),
            ("nan", None),
            ("-nan", None),
            ("nan(1)", None),
            ("", None),
            ("-", None),
            ("+", None),
            (".", None),
            ("1e", None),
            (" 1", None),
            ("1 ", None),
            ("\t1", None),
            ("1\0", None),
            ("infi", None),
            ("a", None),
            ("0x", None),
            ("0x.", None),
            ("0xg", None),
            ("0x1p", None),
            ("0x1 ", None),
            ("- 1", None),
            ("1_0", None),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), value, "{text:?}");
        }
        assert!(parse_f64(b"-0").unwrap().is_sign_negative());
    }

    /// Each tried on Redis 8.8.
    #[test]
    fn only_what_redis_leaves_to_the_c_library_is_out_of_range() {
        for (text, value) in [
            ("1e400", None),
            ("-1e400", None),
            ("1e309", None),
            ("2e308", Some(INF)),
            ("-999e307", Some(-INF)),
            ("12345678901234567890e300", None),
            ("00000000000000000000002e308", Some(INF)),
            ("1e-330", Some(0.0)),
            ("1e-342", Some(0.0)),
            ("1e-343", None),
            ("1e-400", None),
            ("0.1e-342", None),
            ("4e-324", Some(5e-324)),
            ("0e-400", Some(0.0)),
            ("0.0e999999999999999999999", Some(0.0)),
            ("0x1p1024", None),
            ("0x1p-1076", None),
            ("0x1p-99999999999999999999", None),
            ("0x1p99999999999999999999", None),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn bounds_are_lenient() {
        for (text, value) in [
            (&b""[..], Some(0.0)),
            (b"  1", Some(1.0)),
            (b"\t\n\x0b\x0c\r-0x10", Some(-16.0)),
            (b"1e400", Some(INF)),
            (b"1e-400", Some(0.0)),
            (b"-inf", Some(-INF)),
            (b"1\0abc", Some(1.0)),
            (b"\0abc", Some(0.0)),
            (b"1 ", None),
            (b"  ", None),
            (b"nan", None),
            (b"(1", None),
            (b"x", None),
        ] {
            assert_eq!(parse_bound(text), value, "{}", text.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn hexadecimal_texts_are_read_back(bits: u64) {
            let value = f64::from_bits(bits & !(1 << 63));
            prop_assume!(value.is_finite());
            let exponent = (value.to_bits() >> 52) as i64;
            let mantissa = value.to_bits() & ((1 << 52) - 1);
            let text = match exponent {
                0 => format!("0x{mantissa:x}p-1074"),
                _ => format!("0x1.{mantissa:013x}p{}", exponent - 1023),
            };
            prop_assert_eq!(parse_f64(text.as_bytes()), Some(value), "{}", text);
        }

        #[test]
        fn rounding_agrees_with_the_conversion_of_an_integer(significand: u128) {
            let hex = format!("0x{significand:x}");
            prop_assert_eq!(parse_f64(hex.as_bytes()), Some(significand as f64));
        }

        #[test]
        fn parsing_never_panics(text in "[-+ 0-9a-fA-FxXpPinN.\\x00]{0,40}") {
            let _ = (parse_f64(text.as_bytes()), parse_bound(text.as_bytes()));
        }
    }
}
