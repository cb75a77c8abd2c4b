//! Passwords: only their SHA-256 is kept.

use sha2::{Digest, Sha256};

use crate::ordered::Named;

/// The SHA-256 of a password.
#[derive(Clone, Copy, Debug)]
pub struct PasswordHash(pub(crate) [u8; 32]);

impl PasswordHash {
    /// The hash of a password.
    pub fn of(password: &[u8]) -> PasswordHash {
        PasswordHash(Sha256::digest(password).into())
    }

    /// Reads what [`PasswordHash::hex`] writes: exactly 64 digits, letters in lower case.
    pub fn parse(hex: &[u8]) -> Option<PasswordHash> {
        let mut hash = [0; 32];
        if hex.len() != 64 {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(hex.chunks_exact(2)) {
            let [high, low] = pair else { return None };
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(PasswordHash(hash))
    }

    /// The hash itself.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 hexadecimal digits in lower case.
    pub fn hex(&self) -> String {
        hex(&self.0)
    }
}

impl Named for PasswordHash {
    fn name(&self) -> &[u8] {
        &self.0
    }
}

impl From<[u8; 32]> for PasswordHash {
    fn from(hash: [u8; 32]) -> PasswordHash {
        PasswordHash(hash)
    }
}

impl PartialEq for PasswordHash {
    /// Takes the same time for equal and different hashes, so that time reveals nothing about a password.
    fn eq(&self, other: &PasswordHash) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

impl Eq for PasswordHash {}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(b"0123456789abcdef".get(usize::from(digit)).copied().unwrap_or(b'0'))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_as_everybody_does() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(PasswordHash::of(b"abc").hex(), abc);
        assert_eq!(PasswordHash::parse(abc.as_bytes()), Some(PasswordHash::of(b"abc")));
        assert_eq!(PasswordHash::parse(abc.to_uppercase().as_bytes()), None);
        assert_eq!(PasswordHash::parse(&abc.as_bytes()[1..]), None);
        assert_ne!(PasswordHash::of(b"abc"), PasswordHash::of(b"abd"));
    }
}
