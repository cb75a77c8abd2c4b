//! The 80-bit extended precision of x87, in software.
//!
//! INCRBYFLOAT and HINCRBYFLOAT compute in C's `long double` and store the output of `%.17Lf`, trailing zeros removed.
//! Clients see those digits (`1.23 - 1.1` is `0.13`, not a double's `0.1299999999999999`), so they must come out on
//! every machine. Numbers have a 64-bit significand and a 15-bit exponent, and every step rounds to nearest even.

use crate::long_double::natural::Natural;

mod natural;
mod text;

pub(crate) use text::Scanned;

/// Longest text that Redis reads as a long double, in bytes.
pub const TEXT_MAX: usize = 5 * 1024 - 1;

/// The exponent of the lowest significand bit: of denormal numbers, and of the largest finite ones.
const EXPONENT_MIN: i32 = -16445;
const EXPONENT_MAX: i32 = 16320;

/// A number of x87's extended format; not-a-number is left out, as nothing stored may become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    magnitude: Magnitude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magnitude {
    /// `significand * 2^exponent`, the highest bit of the significand set unless the number is zero or denormal.
    Finite {
        significand: u64,
        exponent: i32,
    },
    Infinite,
}

/// `INCRBYFLOAT` left without a finite result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFinite;

impl LongDouble {
    /// Zero, the value that a missing key is incremented from.
    pub const ZERO: Self = Self::zero(false);

    const fn zero(negative: bool) -> Self {
        Self { negative, magnitude: Magnitude::Finite { significand: 0, exponent: EXPONENT_MIN } }
    }

    /// The number that the whole of `text` represents, as `strtold` reads it under Redis's `string2ld`. It is decimal
    /// or hexadecimal with optional sign, point and exponent, or `inf` / `infinity`. Refused: spaces, `nan`, more than
    /// [`TEXT_MAX`] bytes, and numbers that overflow to infinity or underflow to zero.
    pub fn parse(text: &[u8]) -> Option<Self> {
        text::parse(text)
    }

    /// True if the number is finite.
    pub fn is_finite(self) -> bool {
        self.magnitude != Magnitude::Infinite
    }

    /// True if there is a minus before it.
    pub fn is_negative(self) -> bool {
        self.negative
    }

    /// The largest finite number.
    pub const MAX: Self =
        Self { negative: false, magnitude: Magnitude::Finite { significand: u64::MAX, exponent: EXPONENT_MAX } };

    /// The number with the opposite sign.
    pub fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// True if the number is less than another one.
    pub fn is_below(self, other: Self) -> bool {
        // Numbers are normalised, so the pair orders magnitudes.
        let magnitude = |number: Self| match number.magnitude {
            Magnitude::Infinite => (i32::MAX, u64::MAX),
            Magnitude::Finite { significand, exponent } => (exponent, significand),
        };
        let is_zero = |number: Self| matches!(number.magnitude, Magnitude::Finite { significand: 0, .. });
        match (self.negative, other.negative) {
            _ if is_zero(self) && is_zero(other) => false,
            (false, false) => magnitude(self) < magnitude(other),
            (true, true) => magnitude(self) > magnitude(other),
            (negative, _) => negative,
        }
    }

    /// The sum, rounded once to nearest even; [`NotFinite`] where INCRBYFLOAT refuses it.
    ///
    /// # Errors
    ///
    /// The sum is no finite number.
    pub fn checked_add(self, other: Self) -> Result<Self, NotFinite> {
        let (
            Magnitude::Finite { significand: a, exponent: a_exponent },
            Magnitude::Finite { significand: b, exponent: b_exponent },
        ) = (self.magnitude, other.magnitude)
        else {
            return Err(NotFinite);
        };
        // Numbers are normalised, so the pair orders magnitudes.
        let ((large, large_exponent, negative), (small, small_exponent)) = if (a_exponent, a) >= (b_exponent, b) {
            ((a, a_exponent, self.negative), (b, b_exponent))
        } else {
            ((b, b_exponent, other.negative), (a, a_exponent))
        };
        // 62 guard bits below the larger number leave two above it; bits that the smaller one loses are jammed into its
        // lowest bit.
        let large = u128::from(large) << 62;
        let small = shift_right_jam(u128::from(small) << 62, (large_exponent - small_exponent).unsigned_abs());
        let sum = if self.negative == other.negative { large + small } else { large - small };
        let negative = if sum == 0 { self.negative && other.negative } else { negative };
        let sum = Self::round(negative, sum, large_exponent - 62, false);
        if sum.is_finite() { Ok(sum) } else { Err(NotFinite) }
    }

    /// The product with a small number, rounded once to nearest even; beyond the range infinity.
    pub fn times(self, factor: u32) -> Self {
        match self.magnitude {
            Magnitude::Infinite => self,
            Magnitude::Finite { significand, exponent } => {
                Self::round(self.negative, u128::from(significand) * u128::from(factor), exponent, false)
            }
        }
    }

    /// The least integer that is not below the number. `None`: it is no `i64`.
    pub fn ceil(self) -> Option<i64> {
        let Magnitude::Finite { significand, exponent } = self.magnitude else { return None };
        let whole = match exponent {
            0.. => u128::from(significand)
                .checked_shl(exponent.unsigned_abs())
                .filter(|n| n >> exponent == u128::from(significand))?,
            _ => u128::from(significand.checked_shr(exponent.unsigned_abs()).unwrap_or(0)),
        };
        let fraction =
            exponent < 0 && (exponent <= -64 || significand & ((1 << -exponent) - 1) != 0) && significand != 0;
        let whole = i128::try_from(whole).ok()?;
        let rounded = if self.negative { -whole } else { whole + i128::from(fraction) };
        i64::try_from(rounded).ok()
    }

    /// Appends the text that INCRBYFLOAT stores: plain decimal, at most 17 digits after the point, no trailing zeros,
    /// no `-0`.
    pub fn write(self, out: &mut Vec<u8>) {
        text::write(self, out);
    }

    /// The nearest number to `(significand + s) * 2^exponent`, `0 < s < 1` if `sticky` and else 0. With `sticky` the
    /// significand must have at least 66 bits, or be zero.
    fn round(negative: bool, significand: u128, exponent: i32, sticky: bool) -> Self {
        if significand == 0 {
            return Self::zero(negative);
        }
        let bits = 128 - significand.leading_zeros() as i32;
        let shift = (bits - 64).max(EXPONENT_MIN.saturating_sub(exponent));
        let mut exponent = exponent.saturating_add(shift);
        let significand = if shift <= 0 {
            (significand << -shift) as u64
        } else {
            let (mut kept, rest, half) = match shift {
                ..=127 => (significand >> shift, significand & ((1 << shift) - 1), 1 << (shift - 1)),
                128 => (0, significand, 1 << 127),
                _ => return Self::zero(negative),
            };
            if rest > half || (rest == half && (sticky || kept & 1 == 1)) {
                kept += 1;
            }
            match u64::try_from(kept) {
                Ok(kept) => kept,
                Err(_) => {
                    exponent += 1;
                    (kept >> 1) as u64
                }
            }
        };
        let magnitude = if exponent > EXPONENT_MAX {
            Magnitude::Infinite
        } else if significand == 0 {
            return Self::zero(negative);
        } else {
            Magnitude::Finite { significand, exponent }
        };
        Self { negative, magnitude }
    }

    /// The nearest number to `natural * 2^exponent`, with `sticky` as in [`Self::round`].
    fn round_natural(negative: bool, natural: &Natural, exponent: i32, sticky: bool) -> Self {
        let (top, dropped_bits, dropped) = natural.top_128();
        Self::round(negative, top, exponent.saturating_add(dropped_bits as i32), sticky || dropped)
    }
}

/// `value >> count`, the lowest bit also set if a set bit was lost.
fn shift_right_jam(value: u128, count: u32) -> u128 {
    if count == 0 {
        value
    } else if count < 128 {
        value >> count | u128::from(value & ((1 << count) - 1) != 0)
    } else {
        u128::from(value != 0)
    }
}

#[cfg(test)]
mod tests;
