//! Blocks of the log without a place in a folder: the same at every copy of the stream.

use super::{BODY_MAX, Broken, Numbers, crc};
use crate::Lsn;

/// Bytes of a frame before its body.
pub const FRAME_HEAD: usize = 56;

/// The name of a block in its stream of the log. Two blocks of one name are the same block, and so are all before them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Name {
    /// The term whose owner made the block.
    pub term: u32,
    /// The block's place in the stream, counted from 1. 0 is the place before the first block.
    pub sequence: u64,
}

impl Name {
    /// The highest term: 24 bits.
    pub const TERM_MAX: u32 = (1 << 24) - 1;

    /// The term that a life of a log counts as: its upper 24 bits.
    pub(crate) const fn term_of(life: u64) -> u32 {
        (life >> 40) as u32
    }
}

/// The contents of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Records, or nothing.
    Records = 0,
    /// A part of a record.
    Part = 1,
    /// Nothing: it starts a term. Records of earlier blocks above its cut are void for ever.
    Start = 2,
}

impl Kind {
    fn from(number: u8) -> Result<Self, Broken> {
        match number {
            0 => Ok(Kind::Records),
            1 => Ok(Kind::Part),
            2 => Ok(Kind::Start),
            _ => Err(Broken("a kind of block that this version does not know")),
        }
    }
}

/// A block of the log without a place in a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// The contents.
    pub kind: Kind,
    /// The shard of the log; 0 if it belonged to none yet.
    pub shard: u32,
    /// The stream.
    pub stream: u16,
    /// The block's name.
    pub name: Name,
    /// The term of the block before it.
    pub before: u32,
    /// Every record of the stream up to here is in this block or an earlier one.
    pub cut: Lsn,
    /// No record of which it has anything is above this.
    pub reach: Lsn,
    /// Its records, encoded.
    pub body: &'a [u8],
    /// The checksum of the body, if it is known.
    pub sum: Option<u32>,
}

impl<'a> Frame<'a> {
    /// With the checksum of its body, for several uses of it.
    pub(crate) fn summed(mut self) -> Self {
        self.sum.get_or_insert_with(|| crc(&[self.body]));
        self
    }

    /// True if its body is a part of a record.
    pub(crate) fn is_part(&self) -> bool {
        self.kind == Kind::Part
    }

    /// The bytes before its body. The body's checksum is made if it is not known.
    pub(crate) fn head(&self) -> [u8; FRAME_HEAD] {
        let mut head = [0; FRAME_HEAD];
        head[4..8].copy_from_slice(&self.sum.unwrap_or_else(|| crc(&[self.body])).to_le_bytes());
        head[8..12].copy_from_slice(&(self.body.len() as u32).to_le_bytes());
        head[12] = self.kind as u8;
        head[14..16].copy_from_slice(&self.stream.to_le_bytes());
        head[16..20].copy_from_slice(&self.shard.to_le_bytes());
        head[20..24].copy_from_slice(&self.name.term.to_le_bytes());
        head[24..28].copy_from_slice(&self.before.to_le_bytes());
        head[32..40].copy_from_slice(&self.name.sequence.to_le_bytes());
        head[40..48].copy_from_slice(&self.cut.0.to_le_bytes());
        head[48..].copy_from_slice(&self.reach.0.to_le_bytes());
        let sum = crc(&[&head[4..]]);
        head[..4].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// Appends it to `out`, for another host.
    ///
    /// # Errors
    ///
    /// The body is longer than a block's can be.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.body.len() > BODY_MAX {
            return Err(Broken("longer than a block can be"));
        }
        out.extend_from_slice(&self.head());
        out.extend_from_slice(self.body);
        Ok(())
    }

    /// Reads one, and verifies both checksums. Bytes behind it are ignored.
    ///
    /// # Errors
    /// The bytes are too few, of another format, or do not match their checksums.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Broken> {
        if !has_sound_head(bytes) {
            return Err(Broken("checksum of a block's head"));
        }
        let frame = Self::decode_checked(bytes)?;
        if frame.sum != Some(crc(&[frame.body])) {
            return Err(Broken("checksum of a block's body"));
        }
        Ok(frame)
    }

    /// As [`Self::decode`], for a frame whose checksums were verified.
    ///
    /// # Errors
    /// The bytes are too few, or of another format.
    pub fn decode_checked(bytes: &'a [u8]) -> Result<Self, Broken> {
        let mut numbers = Numbers(bytes);
        numbers.u32()?;
        let (sum, length) = (numbers.u32()?, numbers.u32()? as usize);
        let (kind, _) = (Kind::from(numbers.u8()?)?, numbers.u8()?);
        let (stream, shard, term, before, _) =
            (numbers.u16()?, numbers.u32()?, numbers.u32()?, numbers.u32()?, numbers.u32()?);
        let name = Name { term, sequence: numbers.u64()? };
        let (cut, reach) = (numbers.lsn()?, numbers.lsn()?);
        if length > BODY_MAX {
            return Err(Broken("longer than a block can be"));
        }
        let body = numbers.take(length)?;
        Ok(Self { kind, shard, stream, name, before, cut, reach, body, sum: Some(sum) })
    }
}

/// True if a frame begins here whose head matches its checksum.
pub(super) fn has_sound_head(bytes: &[u8]) -> bool {
    let Some(head) = bytes.first_chunk::<FRAME_HEAD>() else { return false };
    head[..4] == crc(&[&head[4..]]).to_le_bytes()
}
