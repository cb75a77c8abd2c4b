//! The bytes of the log, version 3. All numbers are little-endian; `docs/formats.md` says what they are for.
//!
//! ```text
//! segment  := header (512 bytes), blocks, anything
//! header   := magic "HOLDLOG1" · crc u32 (of what follows, up to byte 512) · version u32 (3)
//!             · node 16 bytes · stream u16 · streams u16 · size u32 (lower half) · number u64 · incarnation u64 · base u64
//!             · reach u64 · size u32 (upper half) · zeros
//! block    := crc u32 (of what follows, body included) · length u31 (of the body) · is a part u1 · incarnation u64 · sequence u64
//!             · cut u64 · synced u64 · body · zeros up to a multiple of 8
//! body     := records, or one part
//! record   := length varint (of what follows) · lsn u64 · dependencies u8 · lsn u64 each · effects
//! part     := lsn u64 · length u64 (of the record and its length) · offset u64 (of these bytes in there) · bytes
//! varint   := LEB128, maybe with bytes to spare (0x80 ... 0x00 is 0)
//! ```
//!
//! Segments of a stream are numbered from 1, and so are blocks over all segments. A segment is recycled: blocks of its
//! earlier life may stand behind its last block. Sequence and incarnation tell them apart: a block follows another only
//! if its sequence is one more and its incarnation not less. CRC is CRC32C.
//!
//! *Assumed of the disk*: a sector of 512 bytes is written whole or not at all. Writing the same bytes into a synced
//! sector again does not change it. Synced bytes stay.

use crate::Lsn;
use crate::intake::LARGE_RECORD;

/// Bytes of a segment's header: a sector.
pub const SEGMENT_HEADER: usize = 512;
/// Bytes of a block before its body.
pub const BLOCK_HEADER: usize = 40;
/// The first bytes of a segment.
const MAGIC: &[u8; 8] = b"HOLDLOG1";
/// Of the format.
const VERSION: u32 = 3;
/// The oldest version that is read. Up to 1 a block began where the one before it ended. Up to 2 records were whole,
/// and no file said how far the earlier segments reach.
const OLDEST: u32 = 1;
/// In the length of a block: it is a part of a record.
const IS_PART: u32 = 1 << 31;
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

/// The header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// Identity of the data the log belongs to.
    pub node: [u8; 16],
    /// The stream of the node.
    pub stream: u16,
    /// How many streams the node has: a missing one must be noticed (rule L11).
    pub streams: u16,
    /// Bytes of the segment, its header included.
    pub size: u64,
    /// Its number in the stream, from 1.
    pub number: u64,
    /// Of the process that began the segment.
    pub incarnation: u64,
    /// Every record that begins in it has a higher LSN.
    pub base: Lsn,
    /// Every record that counts in the earlier segments, or a part of one, has this LSN or a lower one.
    pub reach: Lsn,
    /// True if there has been a [`CleanEnd`] beside it since before it got its name: if so, its absence is an error.
    pub has_end: bool,
}

impl SegmentHeader {
    /// As bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.node);
        bytes.extend_from_slice(&self.stream.to_le_bytes());
        bytes.extend_from_slice(&self.streams.to_le_bytes());
        bytes.extend_from_slice(&(self.size as u32).to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.incarnation.to_le_bytes());
        bytes.extend_from_slice(&self.base.0.to_le_bytes());
        bytes.extend_from_slice(&self.reach.0.to_le_bytes());
        bytes.extend_from_slice(&((self.size >> 32) as u32).to_le_bytes());
        bytes.push(self.has_end.into());
        bytes.resize(SEGMENT_HEADER - 12, 0);
        let mut whole = [0; SEGMENT_HEADER];
        whole[..8].copy_from_slice(MAGIC);
        whole[8..12].copy_from_slice(&crc(&[&bytes]).to_le_bytes());
        whole[12..].copy_from_slice(&bytes);
        whole
    }

    /// Reads one.
    ///
    /// # Errors
    /// The bytes are too few, of another format, or do not match their checksum.
    pub fn decode(bytes: &[u8]) -> Result<Self, Broken> {
        let whole = bytes.first_chunk::<SEGMENT_HEADER>().ok_or(Broken("shorter than the header of a segment"))?;
        let mut numbers = Numbers(whole);
        if numbers.bytes::<8>()? != *MAGIC {
            return Err(Broken("not a segment of a log"));
        }
        if numbers.u32()? != crc(&[&whole[12..]]) {
            return Err(Broken("checksum of a segment's header"));
        }
        let version = numbers.u32()?;
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(Broken("a format this version does not know"));
        }
        let mut header = Self {
            node: numbers.bytes()?,
            stream: numbers.u16()?,
            streams: numbers.u16()?,
            size: numbers.u32()?.into(),
            number: numbers.u64()?,
            incarnation: numbers.u64()?,
            base: numbers.lsn()?,
            reach: numbers.lsn()?,
            has_end: false,
        };
        header.size |= u64::from(numbers.u32()?) << 32;
        header.has_end = numbers.bytes::<1>()? != [0];
        if version < 3 {
            header.reach = header.base;
        }
        Ok(header)
    }
}

/// Bytes of a [`CleanEnd`].
pub(crate) const END_SIZE: usize = 64;
const END_MAGIC: &[u8; 8] = b"HOLDEND1";

/// Says how far a stream goes at least: all of that must be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CleanEnd {
    /// The node of the stream.
    pub(crate) node: [u8; 16],
    /// Which.
    pub(crate) stream: u16,
    /// Number of the last segment.
    pub(crate) number: u64,
    /// Number of the last block.
    pub(crate) sequence: u64,
}

impl CleanEnd {
    pub(crate) fn encode(&self) -> [u8; END_SIZE] {
        let mut whole = [0; END_SIZE];
        whole[..8].copy_from_slice(END_MAGIC);
        whole[12..16].copy_from_slice(&1u32.to_le_bytes());
        whole[16..32].copy_from_slice(&self.node);
        whole[32..34].copy_from_slice(&self.stream.to_le_bytes());
        whole[40..48].copy_from_slice(&self.number.to_le_bytes());
        whole[48..56].copy_from_slice(&self.sequence.to_le_bytes());
        let sum = crc(&[&whole[12..]]);
        whole[8..12].copy_from_slice(&sum.to_le_bytes());
        whole
    }

    pub(crate) fn decode(bytes: &[u8; END_SIZE]) -> Result<Self, Broken> {
        let mut numbers = Numbers(bytes);
        if numbers.bytes::<8>()? != *END_MAGIC || numbers.u32()? != crc(&[&bytes[12..]]) {
            return Err(Broken("checksum of what says where the log ended"));
        }
        if numbers.u32()? != 1 {
            return Err(Broken("a format this version does not know"));
        }
        let (node, stream) = (numbers.bytes()?, numbers.u16()?);
        numbers.take(6)?;
        Ok(Self { node, stream, number: numbers.u64()?, sequence: numbers.u64()? })
    }
}

/// The records that were written and synced at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block<'a> {
    /// Of the process that wrote it.
    pub incarnation: u64,
    /// Its number in the stream, from 1.
    pub sequence: u64,
    /// Every record of the stream up to here is in this block or an earlier one.
    pub cut: Lsn,
    /// The highest cut known to be synced when it was written (rule L10).
    pub synced: Lsn,
    /// Its body is a [`Part`].
    pub is_part: bool,
    /// Its records, encoded.
    pub body: &'a [u8],
}

impl<'a> Block<'a> {
    /// Bytes it takes in a segment.
    pub fn size(body: usize) -> usize {
        (BLOCK_HEADER + body).next_multiple_of(8)
    }

    /// Appends it to `out`.
    ///
    /// # Panics
    /// If the body is longer than 1 GiB: the writer does not make such blocks.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.body.len() <= BODY_MAX, "a block of at most 1 GiB");
        let mut header = Vec::with_capacity(BLOCK_HEADER - 4);
        let kind = if self.is_part { IS_PART } else { 0 };
        header.extend_from_slice(&(self.body.len() as u32 | kind).to_le_bytes());
        for number in [self.incarnation, self.sequence, self.cut.0, self.synced.0] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&crc(&[&header, self.body]).to_le_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(self.body);
        out.resize(out.len().next_multiple_of(8), 0);
    }

    /// Reads the block at the beginning of `bytes`.
    ///
    /// # Errors
    /// The bytes are too few, of another format, or do not match their checksum.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Broken> {
        let mut numbers = Numbers(bytes);
        let sum = numbers.u32()?;
        let length = (numbers.u32()? & !IS_PART) as usize;
        let checked = bytes.get(4..BLOCK_HEADER + length).ok_or(Broken("cut short"))?;
        if length > BODY_MAX || sum != crc(&[checked]) {
            return Err(Broken("checksum of a block"));
        }
        Self::decode_checked(bytes)
    }

    /// As [`Self::decode`], for a block whose checksum was verified.
    pub(crate) fn decode_checked(bytes: &'a [u8]) -> Result<Self, Broken> {
        let mut numbers = Numbers(bytes);
        numbers.u32()?;
        let length = numbers.u32()?;
        let (is_part, length) = (length & IS_PART != 0, (length & !IS_PART) as usize);
        Ok(Self {
            incarnation: numbers.u64()?,
            sequence: numbers.u64()?,
            cut: numbers.lsn()?,
            synced: numbers.lsn()?,
            is_part,
            body: numbers.take(length)?,
        })
    }

    /// The part that it is, if it is one.
    pub(crate) fn part(&self) -> Result<Option<Part<'a>>, Broken> {
        if self.is_part { Part::decode(self.body).map(Some) } else { Ok(None) }
    }

    /// The place of its records in its body, which is no part.
    pub(crate) fn raw_records(&self) -> impl Iterator<Item = Result<RawRecord, Broken>> + use<'a> {
        Self::raw_records_of(self.body)
    }

    /// The place of the records in this body, which is no part.
    pub(crate) fn raw_records_of(body: &'a [u8]) -> impl Iterator<Item = Result<RawRecord, Broken>> + use<'a> {
        let mut rest = Numbers(body);
        let size = body.len();
        std::iter::from_fn(move || {
            if rest.0.is_empty() {
                return None;
            }
            let record = RawRecord::decode(&mut rest, size);
            if record.is_err() {
                rest.0 = &[];
            }
            Some(record)
        })
    }

    /// Its records; it must be no part.
    ///
    /// # Errors
    ///
    /// A record that is longer than the block, or impossible.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<'a>, Broken>> + use<'a> {
        let mut rest = Numbers(self.body);
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
}

/// A block without a place in a folder: it is the same at every copy of the stream.
pub(crate) struct Frame<'a> {
    /// Its body is a [`Part`].
    pub(crate) is_part: bool,
    /// Every record of the stream up to here is in this block or an earlier one.
    pub(crate) cut: Lsn,
    /// No record of which it has anything is above this.
    pub(crate) reach: Lsn,
    /// Its records, encoded.
    pub(crate) body: &'a [u8],
}

impl Frame<'_> {
    /// Appends it to `out` as the block of this number in a life of the folder. `synced`: the cut known to be synced
    /// there.
    pub(crate) fn place(&self, incarnation: u64, sequence: u64, synced: Lsn, out: &mut Vec<u8>) {
        let &Self { is_part, cut, body, .. } = self;
        Block { incarnation, sequence, cut, synced, is_part, body }.encode(out);
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

/// The beginning of a block, unchecked.
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) incarnation: u64,
    pub(crate) sequence: u64,
    pub(crate) cut: Lsn,
}

impl Head {
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut numbers = Numbers(bytes.get(4..BLOCK_HEADER)?);
        Some(Self {
            length: (numbers.u32().ok()? & !IS_PART) as usize,
            incarnation: numbers.u64().ok()?,
            sequence: numbers.u64().ok()?,
            cut: numbers.lsn().ok()?,
        })
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

#[cfg(test)]
mod tests;
