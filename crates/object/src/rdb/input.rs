//! Reading the RDB primitives: lengths, strings, times, doubles.

use super::lzf;
use crate::{Corrupt, number};
use std::borrow::Cow;

/// The bytes of a payload not read yet. Nothing is allocated for a length before the bytes it announces are seen.
pub(super) struct Input<'a> {
    rest: &'a [u8],
}

const CUT_SHORT: Corrupt = Corrupt("payload cut short");

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Nothing may follow a value.
    pub(super) fn finish(self) -> Result<(), Corrupt> {
        if self.rest.is_empty() { Ok(()) } else { Err(Corrupt("bytes after the value")) }
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Corrupt> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Corrupt> {
        Ok(self.array::<1>()?[0])
    }

    /// A length or a count.
    pub(super) fn length(&mut self) -> Result<u64, Corrupt> {
        match self.prefix()? {
            Prefix::Length(length) => Ok(length),
            Prefix::Encoded(_) => Err(Corrupt("an encoded string where a length belongs")),
        }
    }

    /// A length that has to be positive: Redis has no empty collections.
    pub(super) fn count(&mut self) -> Result<u64, Corrupt> {
        match self.length()? {
            0 => Err(Corrupt("empty collection")),
            count => Ok(count),
        }
    }

    fn prefix(&mut self) -> Result<Prefix, Corrupt> {
        let first = self.byte()?;
        Ok(match first {
            0x00..=0x3f => Prefix::Length(u64::from(first)),
            0x40..=0x7f => Prefix::Length(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            0x80 => Prefix::Length(u64::from(u32::from_be_bytes(self.array()?))),
            0x81 => Prefix::Length(u64::from_be_bytes(self.array()?)),
            0xc0..=0xff => Prefix::Encoded(first & 0x3f),
            _ => return Err(Corrupt("unknown length encoding")),
        })
    }

    /// A string: verbatim, an integer, or compressed.
    pub(super) fn string(&mut self) -> Result<Cow<'a, [u8]>, Corrupt> {
        let integer = |value: i64| Cow::Owned(number::I64Text::new(value).as_bytes().to_vec());
        Ok(match self.prefix()? {
            Prefix::Length(length) => Cow::Borrowed(self.take(to_usize(length)?)?),
            Prefix::Encoded(0) => integer(i64::from(i8::from_le_bytes(self.array()?))),
            Prefix::Encoded(1) => integer(i64::from(i16::from_le_bytes(self.array()?))),
            Prefix::Encoded(2) => integer(i64::from(i32::from_le_bytes(self.array()?))),
            Prefix::Encoded(3) => {
                let compressed = to_usize(self.length()?)?;
                let length = to_usize(self.length()?)?;
                Cow::Owned(lzf::decompress(self.take(compressed)?, length)?)
            }
            Prefix::Encoded(_) => return Err(Corrupt("unknown string encoding")),
        })
    }

    /// A double in binary (RDB_TYPE_ZSET_2).
    pub(super) fn binary_double(&mut self) -> Result<f64, Corrupt> {
        score(f64::from_le_bytes(self.array()?))
    }

    /// A double as text behind a length byte (RDB_TYPE_ZSET, before Redis 4).
    pub(super) fn text_double(&mut self) -> Result<f64, Corrupt> {
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Err(NOT_A_NUMBER),
            length => text_score(self.take(usize::from(length))?),
        }
    }

    /// Milliseconds, little-endian.
    pub(super) fn milliseconds(&mut self) -> Result<u64, Corrupt> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}

enum Prefix {
    Length(u64),
    Encoded(u8),
}

const NOT_A_NUMBER: Corrupt = Corrupt("a score that is not a number");

fn score(value: f64) -> Result<f64, Corrupt> {
    if value.is_nan() { Err(NOT_A_NUMBER) } else { Ok(value) }
}

/// A score as text.
pub(super) fn text_score(text: &[u8]) -> Result<f64, Corrupt> {
    number::parse_f64(text).ok_or(NOT_A_NUMBER)
}

fn to_usize(length: u64) -> Result<usize, Corrupt> {
    usize::try_from(length).map_err(|_| CUT_SHORT)
}
