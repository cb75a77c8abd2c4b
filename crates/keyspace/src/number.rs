//! Which strings are stored as integers.

/// The integer whose decimal text is exactly `bytes`: no sign but `-`, no leading zeros, no "-0" (Redis `string2ll`).
#[inline]
pub fn canonical_int(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let mut n = 0u64;
    for &d in digits {
        let d = d.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        n = n.checked_mul(10)?.checked_add(u64::from(d))?;
    }
    if negative { 0i64.checked_sub_unsigned(n) } else { i64::try_from(n).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_text() {
        for text in ["", "-", "-0", "01", "+1", " 1", "1 ", "9223372036854775808", "-9223372036854775809", "1a"] {
            assert_eq!(canonical_int(text.as_bytes()), None, "{text}");
        }
        for n in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(canonical_int(n.to_string().as_bytes()), Some(n));
        }
    }
}
