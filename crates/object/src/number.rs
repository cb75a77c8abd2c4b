//! Redis's number rules for stored text: which bytes are an integer or a double, and how either is written back.
//!
//! Everything here is about *storage and arguments*; the protocol's own encodings live in `resp`. The 80-bit arithmetic
//! of INCRBYFLOAT is in [`crate::long_double`].

mod float;

pub use float::{parse_bound, parse_f64};

/// Bytes of the longest text of an `i64`: `-9223372036854775808`.
pub const I64_TEXT_MAX: usize = 20;

/// The integer that `text` strictly represents, as Redis's `string2ll` accepts it: an optional `-`, then digits without
/// leading zeros; no `+`, no spaces, no `-0`. Hence `write_i64` of the result gives `text` back, byte for byte.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    // 19 digits never overflow a u64, so the loop needs no checks; a 20-digit text is beyond any i64.
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    if digits[0] == b'0' {
        return (text == b"0").then_some(0);
    }
    let mut magnitude: u64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative {
        (magnitude <= i64::MIN.unsigned_abs()).then(|| (magnitude as i64).wrapping_neg())
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// The unsigned integer that `text` represents; strict like [`parse_i64`], over the whole range of `u64`.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 || (text[0] == b'0' && text.len() > 1) {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Appends the decimal text of `value`.
#[inline]
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(I64Text::new(value).as_bytes());
}

/// The decimal text of an `i64` on the stack.
pub struct I64Text {
    buffer: [u8; I64_TEXT_MAX],
    len: u8,
}

impl I64Text {
    /// Formats `value`.
    #[inline]
    pub fn new(value: i64) -> Self {
        let mut digits = itoa::Buffer::new();
        let text = digits.format(value).as_bytes();
        let mut buffer = [0; I64_TEXT_MAX];
        buffer[..text.len()].copy_from_slice(text);
        Self { buffer, len: text.len() as u8 }
    }

    /// The text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[..usize::from(self.len)]
    }
}

/// How many bytes the decimal text of `value` takes.
pub fn i64_text_len(value: i64) -> usize {
    let digits = value.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
    digits + usize::from(value < 0)
}

/// Appends `value` as Redis stores a score (`d2string`): the shortest text that reads back as the same double. Integers
/// have no point; `inf`, `-inf`, `nan`, `-0`; an exponent (`1e+21`, `1.5e-9`) only where the plain form would be long.
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if value.is_infinite() {
        return out.extend_from_slice(if value < 0.0 { b"-inf" } else { b"inf" });
    }
    if value == 0.0 {
        return out.extend_from_slice(if value.is_sign_negative() { b"-0" } else { b"0" });
    }
    if let Some(integer) = exact_i64(value) {
        return write_i64(out, integer);
    }
    let mut buffer = zmij::Buffer::new();
    let decimal = Decimal::of(buffer.format_finite(value.abs()).as_bytes());
    if value < 0.0 {
        out.push(b'-');
    }
    decimal.write(out);
}

/// The integer equal to `value`, if there is one of a magnitude where every double step is safe to convert.
pub fn exact_i64(value: f64) -> Option<i64> {
    const BOUND: f64 = (i64::MAX / 2) as f64;
    if !(-BOUND..=BOUND).contains(&value) {
        return None;
    }
    let integer = value as i64;
    (integer as f64 == value).then_some(integer)
}

/// Significant digits and a power of ten: value = digits * 10^exponent.
struct Decimal {
    digits: [u8; 24],
    len: usize,
    exponent: i32,
}

impl Decimal {
    /// Takes apart the text of a positive finite double in any of the usual notations.
    fn of(text: &[u8]) -> Self {
        let mut decimal = Decimal { digits: [0; 24], len: 0, exponent: 0 };
        let mut point = false;
        let mut bytes = text.iter().copied();
        for byte in bytes.by_ref() {
            match byte {
                b'.' => point = true,
                b'e' | b'E' => break,
                digit => {
                    decimal.exponent -= i32::from(point);
                    if decimal.len == 0 && digit == b'0' {
                        continue;
                    }
                    // A double's shortest text has at most 17 digits, but its plain form may end in zeros.
                    if decimal.len < decimal.digits.len() {
                        decimal.digits[decimal.len] = digit;
                        decimal.len += 1;
                    } else {
                        decimal.exponent += 1;
                    }
                }
            }
        }
        let (mut written, mut negative) = (0i32, false);
        for byte in bytes {
            match byte {
                b'-' => negative = true,
                b'+' => {}
                digit => written = written * 10 + i32::from(digit - b'0'),
            }
        }
        decimal.exponent += if negative { -written } else { written };
        while decimal.len > 1 && decimal.digits[decimal.len - 1] == b'0' {
            decimal.len -= 1;
            decimal.exponent += 1;
        }
        decimal
    }

    /// The notation of Redis's `fpconv_dtoa`.
    fn write(&self, out: &mut Vec<u8>) {
        let digits = &self.digits[..self.len];
        let len = self.len as i32;
        let scientific = self.exponent + len - 1;
        if self.exponent >= 0 && scientific < len + 7 {
            out.extend_from_slice(digits);
            out.extend(std::iter::repeat_n(b'0', self.exponent as usize));
        } else if self.exponent < 0 && (self.exponent > -7 || scientific.abs() < 4) {
            let before_point = len + self.exponent;
            if before_point <= 0 {
                out.extend_from_slice(b"0.");
                out.extend(std::iter::repeat_n(b'0', before_point.unsigned_abs() as usize));
                out.extend_from_slice(digits);
            } else {
                let (integer, fraction) = digits.split_at(before_point as usize);
                out.extend_from_slice(integer);
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
        } else {
            out.push(digits[0]);
            if digits.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            out.extend_from_slice(if scientific < 0 { b"e-" } else { b"e+" });
            write_i64(out, i64::from(scientific.abs()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn f64_text(value: f64) -> String {
        let mut out = Vec::new();
        write_f64(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_are_strict() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("17179869184", Some(17179869184)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("18446744073709551615", None),
            ("99999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            ("00", None),
            ("-01", None),
            (" 1", None),
            ("1 ", None),
            ("1.0", None),
            ("1e3", None),
            ("0x10", None),
            ("1\0", None),
            (":1", None),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), value, "{text:?}");
        }
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"00"), None);
        assert_eq!(parse_u64(b"0"), Some(0));
        assert_eq!(parse_u64(b"-1"), None);
    }

    #[test]
    fn doubles_are_written_as_redis_writes_scores() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-3.0, "-3"),
            (0.1, "0.1"),
            (1.5, "1.5"),
            (-1.25, "-1.25"),
            (3.0e15, "3000000000000000"),
            (1e18, "1000000000000000000"),
            (4.6e18, "4600000000000000000"),
            (1e19, "1e+19"),
            (1.5e22, "1.5e+22"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (0.0001, "0.0001"),
            (0.000001, "0.000001"),
            (0.0000001, "1e-7"),
            (0.00012345678, "1.2345678e-4"),
            (1.2345e-9, "1.2345e-9"),
            (123456789.125, "123456789.125"),
            (12345678901234.568, "12345678901234.568"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(f64_text(value), text);
        }
    }

    proptest! {
        #[test]
        fn integers_round_trip(value: i64) {
            let mut out = Vec::new();
            write_i64(&mut out, value);
            prop_assert_eq!(out.len(), i64_text_len(value));
            prop_assert_eq!(parse_i64(&out), Some(value));
        }

        #[test]
        fn a_parsed_text_is_the_canonical_one(text in "[-+ 0-9]{0,21}") {
            let std = text.parse::<i64>().ok().filter(|value| value.to_string() == text);
            prop_assert_eq!(parse_i64(text.as_bytes()), std);
        }

        #[test]
        fn doubles_round_trip(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(!value.is_nan());
            let text = f64_text(value);
            prop_assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(bits), "{}", text);
        }

        #[test]
        fn short_doubles_keep_their_digits(mantissa in -1_000_000_000i64..1_000_000_000, scale in 0u32..6) {
            let text = format!("{}", mantissa as f64 / 10f64.powi(scale as i32));
            prop_assert_eq!(f64_text(text.parse().unwrap()), if text == "-0" { "-0".into() } else { text });
        }

        #[test]
        fn parsing_never_panics(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (parse_i64(&text), parse_u64(&text), parse_f64(&text));
        }
    }
}
