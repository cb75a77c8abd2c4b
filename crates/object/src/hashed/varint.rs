//! Lengths in base 128, lowest digit first, every digit but the last marked by the high bit.

/// Longest encoding of a 64-bit number.
const BYTES_MAX: usize = 10;

/// The digits of a number.
#[inline]
pub(crate) fn digits(mut number: u64) -> ([u8; BYTES_MAX], usize) {
    let mut digits = [0; BYTES_MAX];
    let mut n = 0;
    while number >= 0x80 {
        digits[n] = number as u8 | 0x80;
        number >>= 7;
        n += 1;
    }
    digits[n] = number as u8;
    (digits, n + 1)
}

/// Appends a number.
pub(crate) fn write(out: &mut Vec<u8>, number: u64) {
    let (digits, n) = digits(number);
    out.extend_from_slice(&digits[..n]);
}

/// The number at the front and how many bytes it takes; None if it is cut short or too large.
#[inline]
pub(crate) fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0u64;
    for (n, digit) in bytes.iter().take(BYTES_MAX).enumerate() {
        let value = u64::from(digit & 0x7f);
        if value.leading_zeros() < 7 * n as u32 {
            return None;
        }
        number |= value << (7 * n);
        if digit & 0x80 == 0 {
            return Some((number, n + 1));
        }
    }
    None
}

/// Takes a length and as many bytes from the front.
pub(crate) fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, n) = read(bytes)?;
    let (taken, rest) = bytes[n..].split_at_checked(usize::try_from(len).ok()?)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
            let mut out = Vec::new();
            write(&mut out, number);
            assert_eq!(read(&out), Some((number, out.len())));
            assert_eq!(read(&out[..out.len() - 1]), None);
        }
        assert_eq!(read(&[0xff; 11]), None);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), None, "65 bits");
    }
}
