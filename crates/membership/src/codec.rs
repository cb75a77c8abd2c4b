//! Little-endian numbers and short texts in bytes. The reader names the bound of everything that has a length.

use std::fmt;

use crc_fast::{CrcAlgorithm, checksum};

/// Bytes that are not in this format, with what was expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// CRC32C of the parts, one behind the other.
pub fn crc(parts: &[&[u8]]) -> u32 {
    let sum = match parts {
        [one] => checksum(CrcAlgorithm::Crc32Iscsi, one),
        _ => {
            let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
            parts.iter().for_each(|part| digest.update(part));
            digest.finalize()
        }
    };
    (sum & 0xffff_ffff) as u32
}

/// The bytes that are still to be read.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads `bytes` from their beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// True if all has been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Malformed("more bytes"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next bytes, as many as the array has.
    ///
    /// # Errors
    /// There are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// One byte.
    ///
    /// # Errors
    /// There is none.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|a| a[0])
    }

    /// Two bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A byte that is 0 or 1.
    ///
    /// # Errors
    /// There is none, or it is another one.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag")),
        }
    }

    /// A u32 that says how many items follow, at most `max`.
    ///
    /// # Errors
    ///
    /// It is more, or there are too few bytes.
    pub fn count(&mut self, max: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        if count > max { Err(Malformed("a smaller number")) } else { Ok(count) }
    }

    /// A u32 and as many bytes, at most `max`.
    ///
    /// # Errors
    /// There are more, or fewer than it says.
    pub fn bytes(&mut self, max: usize) -> Result<&'a [u8], Malformed> {
        let length = self.count(max)?;
        self.take(length)
    }

    /// A text of at most `max` bytes.
    ///
    /// # Errors
    /// It is longer, no UTF-8, or not whole.
    pub fn text(&mut self, max: usize) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes(max)?).map_err(|_| Malformed("a text in UTF-8"))
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    ///
    /// Some are.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("the end")) }
    }
}

/// Appends `bytes` behind their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends a number of items.
///
/// # Panics
///
/// With 2^32 of them, which no memory holds.
pub fn put_count(out: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("a number of things in memory");
    out.extend_from_slice(&count.to_le_bytes());
}
