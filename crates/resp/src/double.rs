//! Doubles as text, the way Redis prints them.

/// Appends `value` as Redis prints a double in a reply, a score or a dump (`d2string`): the shortest text that reads
/// back as the same number. `3`, `0.1`, `1e+21`, `-0`, `inf`, `-inf`, `nan`. At most 32 bytes.
///
/// Redis's own shortest-digits algorithm (Grisu2) misses the shortest form of about one number in a thousand. This one
/// never does, so the last digit of such a number may differ. Both read back as the same number.
pub fn append_double(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.extend_from_slice(b"nan");
    } else if value.is_infinite() {
        out.extend_from_slice(if value < 0.0 { b"-inf" } else { b"inf" });
    } else if value == 0.0 {
        out.extend_from_slice(if value.is_sign_negative() { b"-0" } else { b"0" });
    } else if let Some(integer) = as_integer(value) {
        out.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
    } else {
        append_decimal(out, value);
    }
}

/// Appends `value` as Redis's digests take it (`fpconv_dtoa`): as [`append_double`], but large integers have an
/// exponent, as in `1e+17`.
pub fn append_floating(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() && value != 0.0 {
        append_decimal(out, value);
    } else {
        append_double(out, value);
    }
}

fn append_decimal(out: &mut Vec<u8>, value: f64) {
    let mut digits = Digits::of(value);
    digits.strip_zeros();
    digits.append_to(out);
}

/// The integer that `value` is, if it is one and within half of the range of `i64`, where the conversion is exact
/// (Redis's `double2ll`).
fn as_integer(value: f64) -> Option<i64> {
    const BOUND: f64 = (i64::MAX / 2) as f64;
    let integer = value as i64;
    (value.abs() <= BOUND && integer as f64 == value).then_some(integer)
}

/// `0.d1d2d3... * 10^point`, negative or not.
struct Digits {
    digits: [u8; DIGITS_MAX],
    len: usize,
    point: i32,
    negative: bool,
}

/// Room for the text of zmij, which writes small exponents out: 17 digits and some zeros.
const DIGITS_MAX: usize = 40;

impl Digits {
    /// The shortest digits that read back as `value`, which is finite.
    fn of(value: f64) -> Self {
        let mut buffer = zmij::Buffer::new();
        let mut this = Self { digits: [0; DIGITS_MAX], len: 0, point: 0, negative: false };
        let mut text = buffer.format_finite(value).as_bytes();
        if let [b'-', rest @ ..] = text {
            this.negative = true;
            text = rest;
        }
        let mut exponent = 0;
        let mut after_point = false;
        let mut bytes = text.iter();
        for byte in bytes.by_ref() {
            match byte {
                b'.' => after_point = true,
                b'e' => break,
                // Zeros in front of the first digit only move the point.
                b'0' if this.len == 0 => this.point -= i32::from(after_point),
                digit => {
                    if let Some(slot) = this.digits.get_mut(this.len) {
                        *slot = *digit;
                        this.len += 1;
                    }
                    this.point += i32::from(!after_point);
                }
            }
        }
        let mut negative_exponent = false;
        for byte in bytes {
            match byte {
                b'-' => negative_exponent = true,
                b'0'..=b'9' => exponent = exponent * 10 + i32::from(byte - b'0'),
                _ => {}
            }
        }
        this.point += if negative_exponent { -exponent } else { exponent };
        this
    }

    fn strip_zeros(&mut self) {
        while self.len > 1 && self.digits[self.len - 1] == b'0' {
            self.len -= 1;
        }
    }

    /// Plain up to seven zeros on either side, else with an exponent: the layout of Redis's `fpconv`.
    fn append_to(&self, out: &mut Vec<u8>) {
        let digits = &self.digits[..self.len];
        let len = self.len as i32;
        // The number is `digits * 10^scale`; the exponent is that of its first digit.
        let scale = self.point - len;
        let exponent = self.point - 1;
        if self.negative {
            out.push(b'-');
        }
        if scale >= 0 && exponent < len + 7 {
            out.extend_from_slice(digits);
            out.extend(std::iter::repeat_n(b'0', scale as usize));
        } else if scale < 0 && (scale > -7 || exponent.abs() < 4) {
            if self.point <= 0 {
                out.extend_from_slice(b"0.");
                out.extend(std::iter::repeat_n(b'0', self.point.unsigned_abs() as usize));
                out.extend_from_slice(digits);
            } else {
                // 0 < point < len, because scale < 0.
                let (whole, fraction) = digits.split_at(self.point as usize);
                out.extend_from_slice(whole);
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
        } else {
            let (first, rest) = digits.split_at(1);
            out.extend_from_slice(first);
            if !rest.is_empty() {
                out.push(b'.');
                out.extend_from_slice(rest);
            }
            out.push(b'e');
            out.push(if exponent < 0 { b'-' } else { b'+' });
            out.extend_from_slice(itoa::Buffer::new().format(exponent.unsigned_abs()).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        append_double(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn golden() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-3.0, "-3"),
            (0.1, "0.1"),
            (-0.1, "-0.1"),
            (1.1, "1.1"),
            (10.5, "10.5"),
            (5.0e-5, "0.00005"),
            (1.0e-7, "1e-7"),
            (1.5e-9, "1.5e-9"),
            (0.1 + 0.2, "0.30000000000000004"),
            (std::f64::consts::PI, "3.141592653589793"),
            (17179869184.0, "17179869184"),
            (1e15, "1000000000000000"),
            (1e17, "100000000000000000"),
            (4e18, "4000000000000000000"),
            (1e19, "1e+19"),
            (1e20, "1e+20"),
            (1e21, "1e+21"),
            (1.234e21, "1.234e+21"),
            (1.2345678901234568e22, "12345678901234568000000"),
            (-1.2345678901234566e25, "-1.2345678901234566e+25"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (5e-324, "5e-324"),
            (1e-100, "1e-100"),
            (1e100, "1e+100"),
            (0.001234, "0.001234"),
            (0.0001234567890123456, "1.234567890123456e-4"),
            (9007199254740992.0, "9007199254740992"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    proptest! {
        #[test]
        fn reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(!value.is_nan());
            let text = text(value);
            prop_assert!(text.len() <= 32);
            prop_assert_eq!(text.parse::<f64>().unwrap(), value);
        }
    }
}
