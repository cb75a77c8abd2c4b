//! Numbers as C prints (`%.14g`) and reads (`strtod`) them.

/// Appends a finite number with so many significant digits, at least one, without trailing zeros (`%.*g`).
pub(super) fn append(out: &mut Vec<u8>, number: f64, precision: usize) {
    let precision = precision.clamp(1, 17);
    // Whole numbers of at most 14 digits are themselves, if the precision is enough.
    if precision >= 14 && number.fract() == 0.0 && number.abs() < 1e14 && !(number == 0.0 && number.is_sign_negative())
    {
        out.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
        return;
    }
    let text = format!("{number:.*e}", precision - 1);
    let Some((mantissa, exponent)) = text.split_once('e') else { return };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let kept = digits.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..kept];
    out.extend_from_slice(sign.as_bytes());
    if exponent < -4 || exponent >= precision as i32 {
        out.extend_from_slice(&digits[..1]);
        if kept > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(format!("e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()).as_bytes());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', exponent.unsigned_abs() as usize - 1));
        out.extend_from_slice(digits);
    } else {
        let whole = exponent as usize + 1;
        let (front, back) = digits.split_at(whole.min(kept));
        out.extend_from_slice(front);
        out.extend(std::iter::repeat_n(b'0', whole.saturating_sub(kept)));
        if !back.is_empty() {
            out.push(b'.');
            out.extend_from_slice(back);
        }
    }
}

/// The number at the front and its length; `None` if there is none. Also reads forms that JSON does not allow: signs,
/// hexadecimal digits, infinities.
pub(super) fn read(text: &[u8]) -> Option<(f64, usize)> {
    let at = |index: usize| text.get(index).copied().unwrap_or(0);
    let sign = usize::from(matches!(at(0), b'+' | b'-'));
    let signed = |value: f64| if at(0) == b'-' { -value } else { value };
    let word = |word: &[u8]| text.get(sign..sign + word.len()).is_some_and(|front| front.eq_ignore_ascii_case(word));
    if word(b"infinity") {
        return Some((signed(f64::INFINITY), sign + 8));
    }
    if word(b"inf") {
        return Some((signed(f64::INFINITY), sign + 3));
    }
    if word(b"nan") {
        return Some((f64::NAN, sign + 3));
    }
    if at(sign) == b'0' && at(sign + 1) | 0x20 == b'x' && (at(sign + 2).is_ascii_hexdigit() || at(sign + 2) == b'.') {
        return hexadecimal(text, sign + 2).map(|(value, end)| (signed(value), end));
    }
    let mut end = sign;
    let digits = |mut end: usize| {
        while at(end).is_ascii_digit() {
            end += 1;
        }
        end
    };
    end = digits(end);
    let mut found = end - sign;
    if at(end) == b'.' {
        let fraction = digits(end + 1);
        found += fraction - end - 1;
        end = fraction;
    }
    if found == 0 {
        return None;
    }
    if at(end) | 0x20 == b'e' {
        let sign = usize::from(matches!(at(end + 1), b'+' | b'-'));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    let number = std::str::from_utf8(text.get(..end)?).ok()?.parse().ok()?;
    Some((number, end))
}

/// Hexadecimal digits from `start` on, with a fraction and a binary exponent perhaps.
fn hexadecimal(text: &[u8], start: usize) -> Option<(f64, usize)> {
    let at = |index: usize| text.get(index).copied().unwrap_or(0);
    let (mut value, mut scale, mut end, mut found) = (0.0, 0i32, start, false);
    let mut point = false;
    loop {
        match at(end) {
            b'.' if !point => point = true,
            digit => {
                let Some(digit) = char::from(digit).to_digit(16) else { break };
                value = value * 16.0 + f64::from(digit);
                scale -= 4 * i32::from(point);
                found = true;
            }
        }
        end += 1;
    }
    if at(end) | 0x20 == b'p' {
        let sign = usize::from(matches!(at(end + 1), b'+' | b'-'));
        let mut last = end + 1 + sign;
        let mut exponent = 0i32;
        while at(last).is_ascii_digit() {
            exponent = exponent.saturating_mul(10).saturating_add(i32::from(at(last) - b'0'));
            last += 1;
        }
        if last > end + 1 + sign {
            scale = scale.saturating_add(if at(end + 1) == b'-' { -exponent } else { exponent });
            end = last;
        }
    }
    found.then(|| (value * 2f64.powi(scale), end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(number: f64, precision: usize) -> String {
        let mut out = Vec::new();
        append(&mut out, number, precision);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn as_c_prints() {
        for (number, precision, expected) in [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (1.0, 14, "1"),
            (-17.0, 14, "-17"),
            (0.1, 14, "0.1"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (1.0 / 3.0, 3, "0.333"),
            (123456.0, 3, "1.23e+05"),
            (120000.0, 6, "120000"),
            (1e14, 14, "1e+14"),
            (99999999999999.0, 14, "99999999999999"),
            (1.5e300, 14, "1.5e+300"),
            (0.0001, 14, "0.0001"),
            (0.00001, 14, "1e-05"),
            (100.0, 1, "1e+02"),
            (2.5, 14, "2.5"),
        ] {
            assert_eq!(text(number, precision), expected);
        }
    }

    #[test]
    fn as_c_reads() {
        for (text, expected) in [
            ("1.5e3,", Some((1500.0, 5))),
            ("-.5", Some((-0.5, 3))),
            ("1e", Some((1.0, 1))),
            ("0x1F", Some((31.0, 4))),
            ("0x.8p1", Some((1.0, 6))),
            ("-inf", Some((f64::NEG_INFINITY, 4))),
            ("Infinity]", Some((f64::INFINITY, 8))),
            ("-", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(read(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn seventeen_digits_read_back(number in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
            let text = text(number, 17);
            prop_assert_eq!(read(text.as_bytes()), Some((number, text.len())));
        }
    }
}
