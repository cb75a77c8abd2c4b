//! Reading the RDB primitives: lengths, strings, times, doubles.

use clocks::UnixMs;

use super::walk::{self, Prefix, Source};
use super::{EMPTY, lzf};
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

    /// Bytes that are not taken yet.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
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
        walk::length(self)
    }

    /// A length that has to be positive: Redis has no empty collections.
    pub(super) fn count(&mut self) -> Result<u64, Corrupt> {
        match self.length()? {
            0 => Err(EMPTY),
            count => Ok(count),
        }
    }

    /// A string: verbatim, an integer, or compressed.
    pub(super) fn string(&mut self) -> Result<Cow<'a, [u8]>, Corrupt> {
        let integer = |value: i64| Cow::Owned(number::I64Text::new(value).as_bytes().to_vec());
        Ok(match walk::prefix(self)? {
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

    /// A time, little-endian.
    pub(super) fn unix_ms(&mut self) -> Result<UnixMs, Corrupt> {
        Ok(UnixMs(u64::from_le_bytes(self.array()?)))
    }
}

impl Source for Input<'_> {
    type Error = Corrupt;

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        Input::array(self)
    }

    fn pass(&mut self, count: u64) -> Result<(), Corrupt> {
        self.take(to_usize(count)?).map(|_| ())
    }
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
