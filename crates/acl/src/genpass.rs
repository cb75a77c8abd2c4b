//! ACL GENPASS.

use crate::password::hex;

/// Longest password that GENPASS makes, in bits.
pub const GENPASS_BITS_MAX: i64 = 4096;

/// The reason why GENPASS makes no password.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GenpassError {
    /// The argument is not a number.
    NoNumber,
    /// The argument is out of bounds.
    OutOfBounds,
}

impl GenpassError {
    /// The reply, with its code.
    pub fn reply(self) -> &'static str {
        match self {
            GenpassError::NoNumber => "ERR value is not an integer or out of range",
            GenpassError::OutOfBounds => {
                "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"
            }
        }
    }
}

/// A password of this many bits, as hexadecimal digits (256 without an argument, `None` if that is not a number).
/// `fill` gives random bytes that cannot be guessed.
///
/// # Errors
///
/// The argument is no number of bits from 1 to 4096.
pub fn genpass(bits: Option<Option<i64>>, fill: impl FnOnce(&mut [u8])) -> Result<String, GenpassError> {
    let bits = bits.unwrap_or(Some(256)).ok_or(GenpassError::NoNumber)?;
    if !(1..=GENPASS_BITS_MAX).contains(&bits) {
        return Err(GenpassError::OutOfBounds);
    }
    let digits = usize::try_from((bits + 3) / 4).unwrap_or(0);
    let mut random = vec![0; digits.div_ceil(2)];
    fill(&mut random);
    let mut password = hex(&random);
    password.truncate(digits);
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_as_many_digits_as_bits_need() {
        let made = |bits| genpass(bits, |bytes| bytes.fill(0xa5));
        assert_eq!(made(None).unwrap(), "a5".repeat(32));
        assert_eq!(made(Some(Some(1))).unwrap(), "a");
        assert_eq!(made(Some(Some(9))).unwrap(), "a5a");
        assert_eq!(made(Some(Some(4096))).unwrap().len(), 1024);
        for bits in [0, -1, 4097, i64::MIN, i64::MAX] {
            assert_eq!(made(Some(Some(bits))), Err(GenpassError::OutOfBounds), "{bits}");
        }
        assert_eq!(made(Some(None)), Err(GenpassError::NoNumber));
    }
}
