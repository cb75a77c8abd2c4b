//! The bytes of the log, version 4, and version 3, which is read and can be written. All numbers are little-endian;
//! `docs/formats.md` says what they are for.
//!
//! ```text
//! segment  := header (512 bytes), blocks, anything
//! header   := magic "HOLDLOG1" · crc u32 (of what follows, up to byte 512) · version u32 (4)
//!             · node 16 bytes · stream u16 · streams u16 · size u32 (lower half) · number u64 · life u64 · base u64
//!             · reach u64 · size u32 (upper half) · has an end u8 · 3 zeros
//!             · acceptor 16 bytes · shard u32 · last term u32 · last sequence u64 · last number u64 · zeros
//! block    := place · frame · zeros up to a multiple of 8
//! place    := crc u32 (of what follows, and of the frame's first crc) · mark u8 · 3 zeros · life u64 · number u64 · synced u64
//! frame    := head · body
//! head     := crc u32 (of the rest of the head) · crc u32 (of the body) · length u32 (of the body) · kind u8 · 0 u8
//!             · stream u16 · shard u32 · term u32 · term before u32 · 4 zeros · sequence u64 · cut u64 · reach u64
//! body     := records, or one part
//! record   := length varint (of what follows) · lsn u64 · dependencies u8 · lsn u64 each · effects
//! part     := lsn u64 · length u64 (of the record and its length) · offset u64 (of these bytes in there) · bytes
//! varint   := LEB128, maybe with bytes to spare (0x80 ... 0x00 is 0)
//!
//! version 3: the header of a segment has zeros behind "has an end", and
//! block    := crc u32 (of what follows, body included) · length u31 (of the body) · is a part u1 · life u64 · number u64
//!             · cut u64 · synced u64 · body · zeros up to a multiple of 8
//! ```
//!
//! Segments of a stream are numbered from 1, and so are blocks over all segments of its folder. A segment is recycled:
//! blocks of its earlier use may stand behind its last block. Number and life tell them apart: a block follows another
//! only if its number is one more and its life not less. CRC is CRC32C.
//!
//! A frame is the same at every copy of the stream, and can be verified without its place. The place is the folder's
//! own.
//!
//! *Assumed of the disk*: a sector of 512 bytes is written whole or not at all. Writing the same bytes into a synced
//! sector again does not change it. Synced bytes stay.

mod block;
mod frame;
mod segment;
#[cfg(test)]
mod tests;

pub(crate) use block::{Block, Head, Mark, Place, has_sound_header};
pub use frame::{FRAME_HEAD, Frame, Kind, Name};
pub(crate) use segment::{CleanEnd, END_SIZE, SEGMENT_HEADER, SegmentHeader};

use crate::Lsn;
use crate::intake::LARGE_RECORD;

/// The format of a segment's blocks. Versions 1 and 2 have blocks as version 3 has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Format {
    /// Blocks with one identity.
    Three,
    /// Blocks whose frames are the same at every copy.
    Four,
}

impl Format {
    /// The version that segments name.
    fn version(self) -> u32 {
        match self {
            Format::Three => 3,
            Format::Four => 4,
        }
    }
}

/// Bytes of the length of a record that was not known before it was written: enough for 4 TB.
const LONG_LENGTH: usize = 6;
/// Bytes of a part before those of its record.
pub(crate) const PART_HEADER: usize = 24;
/// Longest body of a block in bytes.
pub(crate) const BODY_MAX: usize = 1 << 30;

/// The error for bytes that are no segment, block or record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken(pub &'static str);

fn crc(bytes: &[&[u8]]) -> u32 {
    if let [bytes] = bytes {
        // Most are short, and a digest costs more to set up than they cost to sum.
        return crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32;
    }
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    bytes.iter().for_each(|bytes| digest.update(bytes));
    digest.finalize() as u32
}

/// Reads numbers one after the other.
struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Broken("cut short"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, Broken> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, Broken> {
        self.bytes().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Broken> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Broken> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn lsn(&mut self) -> Result<Lsn, Broken> {
        self.u64().map(Lsn)
    }

    fn varint(&mut self) -> Result<u64, Broken> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Broken("a length that is too long"))
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Broken> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(Broken("cut short"))?;
        self.0 = rest;
        Ok(head)
    }
}

/// A part of a record that is too long for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part<'a> {
    /// The record's.
    pub(crate) lsn: Lsn,
    /// Bytes of the whole record, encoded.
    pub(crate) length: u64,
    /// Their place in the record.
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Part<'a> {
    /// Appends it to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.lsn.0, self.length, self.offset] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(self.bytes);
    }

    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Broken> {
        let mut numbers = Numbers(body);
        let (lsn, length, offset) = (numbers.lsn()?, numbers.u64()?, numbers.u64()?);
        let end = offset.checked_add(numbers.0.len() as u64);
        if numbers.0.is_empty() || end.is_none_or(|end| end > length) {
            return Err(Broken("a part beyond the end of its record"));
        }
        Ok(Self { lsn, length, offset, bytes: numbers.0 })
    }

    /// Where it ends in the record.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// True if it is the record's last.
    pub(crate) fn is_last(&self) -> bool {
        self.end() == self.length
    }
}

/// A record in a body: where it begins, and where it ends.
pub(crate) struct RawRecord {
    pub(crate) lsn: Lsn,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl RawRecord {
    /// The record that these bytes are, and nothing else.
    pub(crate) fn whole(bytes: &[u8]) -> Result<Self, Broken> {
        let mut rest = Numbers(bytes);
        let record = Self::decode(&mut rest, bytes.len())?;
        if rest.0.is_empty() { Ok(record) } else { Err(Broken("length of a record")) }
    }

    fn decode(rest: &mut Numbers<'_>, size: usize) -> Result<Self, Broken> {
        let from = size - rest.0.len();
        let length = usize::try_from(rest.varint()?).map_err(|_| Broken("length of a record"))?;
        let mut record = Numbers(rest.take(length)?);
        let to = size - rest.0.len();
        let lsn = record.lsn()?;
        let count = usize::from(record.u8()?);
        record.take(count * 8)?;
        Ok(Self { lsn, from, to })
    }
}

/// The dependencies and the effects of a [`RawRecord`].
pub(crate) fn split_record(bytes: &[u8]) -> (impl Iterator<Item = Lsn> + Clone, &[u8]) {
    let length = bytes.iter().position(|byte| byte & 0x80 == 0).map_or(bytes.len(), |last| last + 1);
    let bytes = bytes.get(length + 8..).unwrap_or_default();
    let (count, rest) = bytes.split_first().map_or((0, bytes), |(count, rest)| (usize::from(*count), rest));
    let (dependencies, effects) = rest.split_at_checked(count * 8).unwrap_or((&[], rest));
    (dependencies.as_chunks::<8>().0.iter().map(|bytes| Lsn(u64::from_le_bytes(*bytes))), effects)
}

/// The effects of one command, block or script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Its position.
    pub lsn: Lsn,
    /// Records of other streams that must survive if this one is to (rule L4).
    pub dependencies: Vec<Lsn>,
    /// The effects, for others to read.
    pub effects: &'a [u8],
}

impl<'a> Record<'a> {
    /// Appends it to `out`.
    ///
    /// # Panics
    /// With more than 255 dependencies: there is at most one per other stream.
    pub fn encode(lsn: Lsn, dependencies: &[Lsn], effects: &[u8], out: &mut Vec<u8>) {
        let count = u8::try_from(dependencies.len()).expect("at most one dependency per stream");
        let length_of_rest = 8 + 1 + dependencies.len() * 8 + effects.len();
        let mut length = length_of_rest as u64;
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        if effects.len() >= LARGE_RECORD {
            out.reserve_exact(length_of_rest);
        }
        out.extend_from_slice(&lsn.0.to_le_bytes());
        out.push(count);
        for dependency in dependencies {
            out.extend_from_slice(&dependency.0.to_le_bytes());
        }
        out.extend_from_slice(effects);
    }

    /// As [`Self::encode`], for effects that are written only now: their length is known afterwards, so the length
    /// before them has bytes to spare.
    ///
    /// # Panics
    ///
    /// As [`Self::encode`].
    pub fn encode_with(lsn: Lsn, dependencies: &[Lsn], effects: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        let count = u8::try_from(dependencies.len()).expect("at most one dependency per stream");
        let before = out.len();
        out.extend_from_slice(&[0; LONG_LENGTH]);
        out.extend_from_slice(&lsn.0.to_le_bytes());
        out.push(count);
        for dependency in dependencies {
            out.extend_from_slice(&dependency.0.to_le_bytes());
        }
        effects(out);
        let mut length = (out.len() - before - LONG_LENGTH) as u64;
        for (place, byte) in out[before..before + LONG_LENGTH].iter_mut().enumerate() {
            *byte = length as u8 & 0x7f | if place < LONG_LENGTH - 1 { 0x80 } else { 0 };
            length >>= 7;
        }
    }

    /// The records of a body, which is no part.
    ///
    /// # Errors
    ///
    /// A record that is longer than the body, or impossible.
    pub fn all(body: &'a [u8]) -> impl Iterator<Item = Result<Record<'a>, Broken>> + use<'a> {
        let mut rest = Numbers(body);
        std::iter::from_fn(move || {
            if rest.0.is_empty() {
                return None;
            }
            let record = Record::decode(&mut rest);
            if record.is_err() {
                rest.0 = &[];
            }
            Some(record)
        })
    }

    fn decode(from: &mut Numbers<'a>) -> Result<Self, Broken> {
        let length = usize::try_from(from.varint()?).map_err(|_| Broken("length of a record"))?;
        let mut record = Numbers(from.take(length)?);
        let lsn = record.lsn()?;
        let count = record.u8()?;
        let mut dependencies = Vec::with_capacity(count.into());
        for _ in 0..count {
            dependencies.push(record.lsn()?);
        }
        Ok(Self { lsn, dependencies, effects: record.0 })
    }
}
