//! The headers of segments, and the file that says how far a stream goes.

use super::{Broken, Format, Name, Numbers, crc};
use crate::Lsn;

/// Bytes of a segment's header: a sector.
pub const SEGMENT_HEADER: usize = 512;
/// The first bytes of a segment.
const MAGIC: &[u8; 8] = b"HOLDLOG1";
/// The oldest version that is read. Up to 1 a block began where the one before it ended. Up to 2 records were whole,
/// and no file said how far the earlier segments reach.
const OLDEST: u32 = 1;

/// The header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    /// Of its blocks.
    pub(crate) format: Format,
    /// Identity of the data the log belongs to.
    pub(crate) node: [u8; 16],
    /// The stream of the node.
    pub(crate) stream: u16,
    /// How many streams the node has: a missing one must be noticed (rule L11).
    pub(crate) streams: u16,
    /// Bytes of the segment, its header included.
    pub(crate) size: u64,
    /// Its number in the stream, from 1.
    pub(crate) number: u64,
    /// Of the folder when the segment was begun: up to version 3 the incarnation of the process.
    pub(crate) life: u64,
    /// Every record that begins in it has a higher LSN.
    pub(crate) base: Lsn,
    /// Every record that counts in the earlier segments, or a part of one, has this LSN or a lower one.
    pub(crate) reach: Lsn,
    /// True if there has been a [`CleanEnd`] beside it since before it got its name: if so, its absence is an error.
    pub(crate) has_end: bool,
    /// The acceptor whose folder it is; zeros if it is none's. From version 4 on, as what follows.
    pub(crate) acceptor: [u8; 16],
    /// The shard of the log; 0 if it belongs to none yet.
    pub(crate) shard: u32,
    /// The last block of the log before it.
    pub(crate) last: Name,
    /// The number of the folder's last block before it.
    pub(crate) block: u64,
}

impl SegmentHeader {
    /// As bytes.
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER);
        bytes.extend_from_slice(&self.format.version().to_le_bytes());
        bytes.extend_from_slice(&self.node);
        bytes.extend_from_slice(&self.stream.to_le_bytes());
        bytes.extend_from_slice(&self.streams.to_le_bytes());
        bytes.extend_from_slice(&(self.size as u32).to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.life.to_le_bytes());
        bytes.extend_from_slice(&self.base.0.to_le_bytes());
        bytes.extend_from_slice(&self.reach.0.to_le_bytes());
        bytes.extend_from_slice(&((self.size >> 32) as u32).to_le_bytes());
        bytes.extend_from_slice(&[self.has_end.into(), 0, 0, 0]);
        if self.format == Format::Four {
            bytes.extend_from_slice(&self.acceptor);
            bytes.extend_from_slice(&self.shard.to_le_bytes());
            bytes.extend_from_slice(&self.last.term.to_le_bytes());
            bytes.extend_from_slice(&self.last.sequence.to_le_bytes());
            bytes.extend_from_slice(&self.block.to_le_bytes());
        }
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
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Broken> {
        let whole = bytes.first_chunk::<SEGMENT_HEADER>().ok_or(Broken("shorter than the header of a segment"))?;
        let mut numbers = Numbers(whole);
        if numbers.bytes::<8>()? != *MAGIC {
            return Err(Broken("not a segment of a log"));
        }
        if numbers.u32()? != crc(&[&whole[12..]]) {
            return Err(Broken("checksum of a segment's header"));
        }
        let version = numbers.u32()?;
        let format = match version {
            OLDEST..=3 => Format::Three,
            4 => Format::Four,
            _ => return Err(Broken("a format this version does not know")),
        };
        let mut header = Self {
            format,
            node: numbers.bytes()?,
            stream: numbers.u16()?,
            streams: numbers.u16()?,
            size: numbers.u32()?.into(),
            number: numbers.u64()?,
            life: numbers.u64()?,
            base: numbers.lsn()?,
            reach: numbers.lsn()?,
            has_end: false,
            acceptor: [0; 16],
            shard: 0,
            last: Name::default(),
            block: 0,
        };
        header.size |= u64::from(numbers.u32()?) << 32;
        header.has_end = numbers.bytes::<4>()?[0] != 0;
        if format == Format::Four {
            (header.acceptor, header.shard) = (numbers.bytes()?, numbers.u32()?);
            header.last = Name { term: numbers.u32()?, sequence: numbers.u64()? };
            header.block = numbers.u64()?;
        }
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
