//! Text to long double and back, exact in both directions.

use super::{EXPONENT_MIN, LongDouble, Magnitude, Natural, TEXT_MAX};

/// Digits after the point that Redis keeps: `%.17Lf`.
const FRACTION_DIGITS: u32 = 17;

pub(super) fn parse(text: &[u8]) -> Option<LongDouble> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
        return Some(LongDouble { negative, magnitude: Magnitude::Infinite });
    }
    let (number, zero) = match rest {
        [b'0', b'x' | b'X', digits @ ..] => {
            let scanned = Scanned::of(digits, 16, b'p')?;
            (scanned.binary(negative), scanned.is_zero())
        }
        digits => {
            let scanned = Scanned::of(digits, 10, b'e')?;
            (scanned.decimal(negative), scanned.is_zero())
        }
    };
    // Overflow and complete underflow are range errors of strtold, which Redis refuses.
    let underflow = !zero && matches!(number.magnitude, Magnitude::Finite { significand: 0, .. });
    (number.is_finite() && !underflow).then_some(number)
}

/// A number's digits without point and surrounding zeros: value = digits * radix^scale (* 2^power for hexadecimal).
pub(crate) struct Scanned<'a> {
    /// The significant stretch of the text, which may contain the point.
    digits: &'a [u8],
    /// Digits in it.
    len: usize,
    /// Power of the radix of the last digit, the exponent not included.
    scale: i64,
    /// The digits after `e` or `p`.
    exponent: i64,
}

impl<'a> Scanned<'a> {
    /// Reads digits with an optional point, and an exponent behind `mark`; `None`: it is something else.
    pub(crate) fn of(text: &'a [u8], radix: u32, mark: u8) -> Option<Self> {
        let end = text.iter().position(|byte| byte.to_ascii_lowercase() == mark).unwrap_or(text.len());
        let (mantissa, exponent) = text.split_at(end);
        let point = mantissa.iter().position(|&byte| byte == b'.');
        let all = mantissa.len() - usize::from(point.is_some());
        let valid =
            mantissa.iter().enumerate().all(|(index, &byte)| char::from(byte).is_digit(radix) || Some(index) == point);
        if all == 0 || !valid {
            return None;
        }
        let exponent = match exponent {
            [] => 0,
            [_, rest @ ..] => scan_exponent(rest)?,
        };
        let significant = |byte: &u8| !matches!(byte, b'0' | b'.');
        let (Some(first), Some(last)) = (mantissa.iter().position(significant), mantissa.iter().rposition(significant))
        else {
            return Some(Self { digits: &[], len: 0, scale: 0, exponent: 0 });
        };
        let digits = &mantissa[first..=last];
        let scale = match point {
            // The stretch ends at or before the point: zeros between them count up.
            Some(point) if last < point => (point - 1 - last) as i64,
            Some(point) => -((last - point) as i64),
            None => (mantissa.len() - 1 - last) as i64,
        };
        Some(Self { digits, len: digits.iter().filter(|&&byte| byte != b'.').count(), scale, exponent })
    }

    /// True if no digit is but zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.len == 0
    }

    /// The exponent after the mark; 0 for a number that is zero.
    pub(crate) fn exponent(&self) -> i64 {
        self.exponent
    }

    /// The power of two of the last of [`Self::values`], if the digits are hexadecimal.
    pub(crate) fn binary_exponent(&self) -> i64 {
        self.scale.saturating_mul(4).saturating_add(self.exponent)
    }

    /// The significant digits.
    pub(crate) fn values(&self, radix: u32) -> impl Iterator<Item = u64> {
        self.digits.iter().filter_map(move |&byte| char::from(byte).to_digit(radix)).map(u64::from)
    }

    fn decimal(&self, negative: bool) -> LongDouble {
        let scale = self.scale.saturating_add(self.exponent);
        // Beyond these the result is infinite or zero whatever the digits are; within them `scale` is small.
        let magnitude = scale.saturating_add(self.len as i64);
        if self.is_zero() || magnitude < -4970 {
            return LongDouble::zero(negative);
        }
        if magnitude > 4940 {
            return LongDouble { negative, magnitude: Magnitude::Infinite };
        }
        if self.len <= 19 {
            let digits = self.values(10).fold(0, |value, digit| value * 10 + digit);
            match scale {
                0..=19 => return LongDouble::round(negative, u128::from(digits) * 10u128.pow(scale as u32), 0, false),
                -18..0 => {
                    // At least 128 - 60 bits of quotient: enough for rounding with a sticky bit.
                    let shift = digits.leading_zeros() + 64;
                    let (numerator, divisor) = (u128::from(digits) << shift, 10u128.pow(-scale as u32));
                    let sticky = numerator % divisor != 0;
                    return LongDouble::round(negative, numerator / divisor, -(shift as i32), sticky);
                }
                _ => {}
            }
        }
        let mut natural = Natural::new(0);
        let (mut group, mut count) = (0, 0);
        for digit in self.values(10) {
            (group, count) = (group * 10 + digit, count + 1);
            if count == 19 {
                natural.multiply_add(10u64.pow(19), group);
                (group, count) = (0, 0);
            }
        }
        natural.multiply_add(10u64.pow(count), group);
        if scale >= 0 {
            natural.multiply_power(5, scale as usize);
            return LongDouble::round_natural(negative, &natural, scale as i32, false);
        }
        // A quotient by 5^n of at least 130 bits: 2322/1000 is just above log2(5).
        let power = scale.unsigned_abs() as usize;
        let shift = (power * 2322 / 1000 + 131).saturating_sub(natural.bits());
        natural.shift_left(shift);
        let sticky = natural.divide_power(5, power);
        LongDouble::round_natural(negative, &natural, scale as i32 - shift as i32, sticky)
    }

    fn binary(&self, negative: bool) -> LongDouble {
        let mut exponent = self.binary_exponent();
        let (mut significand, mut sticky) = (0u128, false);
        for digit in self.values(16) {
            if significand >> 124 == 0 {
                significand = significand << 4 | u128::from(digit);
            } else {
                sticky |= digit != 0;
                exponent = exponent.saturating_add(4);
            }
        }
        let exponent = exponent.clamp(i64::from(i32::MIN / 2), i64::from(i32::MAX / 2)) as i32;
        LongDouble::round(negative, significand, exponent, sticky)
    }
}

/// The digits behind an exponent mark, saturating: a text of 5 KB never needs more than the saturated value.
fn scan_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(1 << 40));
    Some(if negative { -value } else { value })
}

pub(super) fn write(number: LongDouble, out: &mut Vec<u8>) {
    let start = out.len();
    if number.negative {
        out.push(b'-');
    }
    let Magnitude::Finite { significand, exponent } = number.magnitude else {
        return out.extend_from_slice(b"inf");
    };
    if exponent > 0 {
        let mut natural = Natural::new(significand);
        natural.shift_left(exponent as usize);
        return natural.write_decimal(out);
    }
    let below = exponent.unsigned_abs();
    let integer = significand.checked_shr(below).unwrap_or(0);
    let fraction = if below < 64 { significand & ((1 << below) - 1) } else { significand };
    // Exact: a fraction has at most 64 bits, 10^17 has 57.
    let scaled = u128::from(fraction) * 10u128.pow(FRACTION_DIGITS);
    let (mut digits, rest, half) = match below {
        0 => (0, 0, 1),
        1..=127 => (scaled >> below, scaled & ((1 << below) - 1), 1u128 << (below - 1)),
        // Below half of the last digit: 2^121 / 2^128.
        _ => (0, 0, 1),
    };
    debug_assert!(below <= EXPONENT_MIN.unsigned_abs());
    if rest > half || (rest == half && digits & 1 == 1) {
        digits += 1;
    }
    let one = 10u128.pow(FRACTION_DIGITS);
    let integer = u128::from(integer) + digits / one;
    digits %= one;
    if integer == 0 && digits == 0 {
        out.truncate(start);
        return out.push(b'0');
    }
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(buffer.format(integer).as_bytes());
    if digits > 0 {
        // The leading one keeps the zeros in front.
        out.push(b'.');
        let text = buffer.format(one + digits).as_bytes();
        out.extend_from_slice(text[1..].trim_ascii_end_zeros());
    }
}

/// Trailing zeros off.
trait TrimZeros {
    fn trim_ascii_end_zeros(&self) -> &[u8];
}

impl TrimZeros for [u8] {
    fn trim_ascii_end_zeros(&self) -> &[u8] {
        let end = self.iter().rposition(|&byte| byte != b'0').map_or(0, |last| last + 1);
        &self[..end]
    }
}
