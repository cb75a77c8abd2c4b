//! Blocks in their places.

use super::frame::{FRAME_HEAD, Frame, Kind, Name, has_sound_head};
use super::{BODY_MAX, Broken, Format, Numbers, RawRecord, crc};
use crate::Lsn;

/// Bytes of a place: what is before a frame.
pub(super) const PLACE: usize = 32;
/// Up to version 3, in the length of a block: it is a part of a record.
const IS_PART: u32 = 1 << 31;
/// Up to version 3, bytes of a block before its body.
const OLD_HEADER: usize = 40;

/// The meaning of a block in its folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Mark {
    /// A block of the log.
    Block = 0,
    /// It is no block of the log: a life of the folder begins. Blocks of the log behind the one that it names are
    /// dropped.
    Life = 1,
    /// The same, and all blocks are dropped: the log begins behind the block that it names.
    Reset = 2,
    /// It is no block of the log: the stream was stopped in order.
    End = 3,
}

impl Mark {
    fn from(number: u8) -> Result<Self, Broken> {
        match number {
            0 => Ok(Mark::Block),
            1 => Ok(Mark::Life),
            2 => Ok(Mark::Reset),
            3 => Ok(Mark::End),
            _ => Err(Broken("a mark that this version does not know")),
        }
    }
}

/// A place in a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) mark: Mark,
    /// The folder's life: up to version 3 the incarnation of the process.
    pub(crate) life: u64,
    /// The number in the stream's folder, from 1.
    pub(crate) number: u64,
    /// How far this folder was known to be synced when the block was written (rule L10): the number of its last block
    /// that was; up to version 3 the cut of that.
    pub(crate) synced: u64,
}

/// A block in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block<'a> {
    pub(crate) place: Place,
    pub(crate) frame: Frame<'a>,
}

impl Format {
    /// Bytes of a block before its body.
    pub(crate) fn header(self) -> usize {
        match self {
            Format::Three => OLD_HEADER,
            Format::Four => PLACE + FRAME_HEAD,
        }
    }

    /// Bytes of a block with a body of so many bytes.
    pub(crate) fn size(self, body: usize) -> usize {
        (self.header() + body).next_multiple_of(8)
    }
}

impl<'a> Block<'a> {
    /// Appends it to `out`. Its body is at most [`BODY_MAX`] bytes.
    pub(crate) fn encode(&self, format: Format, out: &mut Vec<u8>) {
        debug_assert!(self.frame.body.len() <= BODY_MAX, "a block of at most 1 GiB");
        match format {
            Format::Three => self.encode_old(out),
            Format::Four => {
                let mut header = [0; PLACE + FRAME_HEAD];
                header[4] = self.place.mark as u8;
                header[8..16].copy_from_slice(&self.place.life.to_le_bytes());
                header[16..24].copy_from_slice(&self.place.number.to_le_bytes());
                header[24..32].copy_from_slice(&self.place.synced.to_le_bytes());
                header[PLACE..].copy_from_slice(&self.frame.head());
                let sum = crc(&[&header[4..PLACE + 4]]);
                header[..4].copy_from_slice(&sum.to_le_bytes());
                out.extend_from_slice(&header);
                out.extend_from_slice(self.frame.body);
            }
        }
        out.resize(out.len().next_multiple_of(8), 0);
    }

    fn encode_old(&self, out: &mut Vec<u8>) {
        let Self { place, frame } = self;
        let mut header = [0; OLD_HEADER];
        let kind = if frame.is_part() { IS_PART } else { 0 };
        header[4..8].copy_from_slice(&(frame.body.len() as u32 | kind).to_le_bytes());
        header[8..16].copy_from_slice(&place.life.to_le_bytes());
        header[16..24].copy_from_slice(&place.number.to_le_bytes());
        header[24..32].copy_from_slice(&frame.cut.0.to_le_bytes());
        header[32..].copy_from_slice(&place.synced.to_le_bytes());
        let sum = crc(&[&header[4..], frame.body]);
        header[..4].copy_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(frame.body);
    }

    /// Reads the block at the beginning of `bytes`.
    ///
    /// # Errors
    /// The bytes are too few, of another format, or do not match their checksums.
    pub(crate) fn decode(format: Format, bytes: &'a [u8]) -> Result<Self, Broken> {
        let block = Self::decode_checked(format, bytes)?;
        let is_sound = match format {
            Format::Three => {
                bytes[..4] == crc(&[bytes.get(4..OLD_HEADER).unwrap_or_default(), block.frame.body]).to_le_bytes()
            }
            Format::Four => has_sound_header(bytes) && block.frame.sum == Some(crc(&[block.frame.body])),
        };
        if is_sound { Ok(block) } else { Err(Broken("checksum of a block")) }
    }

    /// As [`Self::decode`], for a block whose checksums were verified.
    pub(crate) fn decode_checked(format: Format, bytes: &'a [u8]) -> Result<Self, Broken> {
        let mut numbers = Numbers(bytes);
        numbers.u32()?;
        if format == Format::Four {
            let mark = Mark::from(numbers.u8()?)?;
            numbers.bytes::<3>()?;
            let place = Place { mark, life: numbers.u64()?, number: numbers.u64()?, synced: numbers.u64()? };
            return Ok(Self { place, frame: Frame::decode_checked(numbers.0)? });
        }
        let length = numbers.u32()?;
        let kind = if length & IS_PART == 0 { Kind::Records } else { Kind::Part };
        let (life, number, cut, synced) = (numbers.u64()?, numbers.u64()?, numbers.lsn()?, numbers.u64()?);
        let body = numbers.take((length & !IS_PART) as usize)?;
        // Such a log was nobody's copy: its life tells its term, as the lives of a log rise.
        let name = Name { term: Name::term_of(life), sequence: number };
        let place = Place { mark: Mark::Block, life, number, synced };
        let frame = Frame { kind, shard: 0, stream: 0, name, before: name.term, cut, reach: cut, body, sum: None };
        Ok(Self { place, frame })
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
}

/// The beginning of a block, unchecked.
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) life: u64,
    pub(crate) number: u64,
    pub(crate) cut: Lsn,
    pub(crate) synced: u64,
    /// A life may begin with it.
    pub(crate) opens: bool,
}

impl Head {
    /// Reads what it says. It may be anything, also in a block that is not there.
    pub(crate) fn decode(format: Format, bytes: &[u8]) -> Option<Self> {
        let mut numbers = Numbers(bytes.get(4..format.header())?);
        if format == Format::Three {
            let length = (numbers.u32().ok()? & !IS_PART) as usize;
            let (life, number) = (numbers.u64().ok()?, numbers.u64().ok()?);
            let (cut, synced) = (numbers.lsn().ok()?, numbers.u64().ok()?);
            return Some(Self { length, life, number, cut, synced, opens: length == 0 });
        }
        let mark = numbers.bytes::<4>().ok()?[0];
        let (life, number, synced) = (numbers.u64().ok()?, numbers.u64().ok()?, numbers.u64().ok()?);
        let mut frame = Numbers(numbers.0.get(8..)?);
        let (length, kind) = (frame.u32().ok()? as usize, frame.u8().ok()?);
        let mut rest = Numbers(numbers.0.get(40..)?);
        let begins = mark == Mark::Life as u8 || mark == Mark::Reset as u8 || kind == Kind::Start as u8;
        Some(Self { length, life, number, cut: rest.lsn().ok()?, synced, opens: begins && length == 0 })
    }
}

/// True if a block of version 4 begins here whose place and frame's head match their checksums, whatever its body is.
pub(crate) fn has_sound_header(bytes: &[u8]) -> bool {
    let Some(place) = bytes.first_chunk::<{ PLACE + 4 }>() else { return false };
    place[..4] == crc(&[&place[4..]]).to_le_bytes() && has_sound_head(&bytes[PLACE..])
}
