//! Writes a stream: blocks into segments that are made ahead and used again.

use std::collections::VecDeque;
use std::io;

use crate::disk::{Disk, File};
use crate::format::{BLOCK_HEADER, BODY_MAX, Block, SEGMENT_HEADER, SegmentHeader};
use crate::{Lsn, Taken};

/// Most bytes of a block that could be split: larger ones hold a single record.
const BLOCK: usize = 16 << 20;

/// How a stream is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a segment.
    pub segment: u32,
    /// Segments kept to be used again.
    pub spares: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { segment: 64 << 20, spares: 2 }
    }
}

/// Who a log belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Identity of the node's data.
    pub node: [u8; 16],
    /// Which stream.
    pub stream: u16,
    /// Of how many.
    pub streams: u16,
    /// Of this process: higher than that of every earlier one.
    pub incarnation: u64,
}

/// A segment that is full.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Full {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Every record in it is at or below this.
    pub(crate) end: Lsn,
}

/// The writer of one stream. After an error nothing is known of what was written since the last sync: it must not be used on
/// (rule L9).
pub struct Writer<D: Disk> {
    disk: D,
    identity: Identity,
    limits: Limits,
    file: D::File,
    name: String,
    size: u64,
    at: u64,
    /// Of the present segment.
    number: u64,
    /// Of the last block.
    sequence: u64,
    /// Up to where everything is written, and synced.
    cut: Lsn,
    synced: Lsn,
    full: VecDeque<Full>,
    spares: Vec<String>,
    buffer: Vec<u8>,
}

/// Where a stream goes on.
pub(crate) struct Position {
    pub(crate) number: u64,
    pub(crate) sequence: u64,
    pub(crate) cut: Lsn,
    pub(crate) full: VecDeque<Full>,
    pub(crate) spares: Vec<String>,
}

pub(crate) fn name(number: u64) -> String {
    format!("{number:016x}.log")
}

pub(crate) fn is_spare(name: &str) -> bool {
    name.starts_with("spare-")
}

impl<D: Disk> Writer<D> {
    /// Begins a new segment behind what was recovered, with a block that says what of that is valid (rule L5). It is synced.
    pub(crate) fn begin(disk: D, identity: Identity, limits: Limits, position: Position) -> io::Result<Self> {
        let Position { number, sequence, cut, full, mut spares } = position;
        let number = number + 1;
        let (file, name, size) = segment(&disk, &identity, &limits, &mut spares, number, cut, 0)?;
        let at = SEGMENT_HEADER as u64;
        let mut writer = Self {
            disk,
            identity,
            limits,
            file,
            name,
            size,
            at,
            number,
            sequence,
            cut,
            synced: cut,
            full,
            spares,
            buffer: Vec::new(),
        };
        writer.block(&[], cut)?;
        writer.sync()?;
        Ok(writer)
    }

    /// Up to where everything is durable: the watermark.
    pub fn synced(&self) -> Lsn {
        self.synced
    }

    /// Up to where everything is written.
    pub fn written(&self) -> Lsn {
        self.cut
    }

    /// Bytes of all segments in use.
    pub fn size(&self) -> u64 {
        self.size + self.full.iter().map(|full| full.size).sum::<u64>()
    }

    /// Writes what was taken. [`Self::sync`] makes it durable.
    pub fn write(&mut self, bytes: &[u8], taken: &Taken) -> io::Result<()> {
        let (mut from, mut to) = (0, 0);
        for &end in &taken.ends {
            if end - from > BLOCK && to > from {
                self.block(&bytes[from..to], self.cut)?;
                from = to;
            }
            to = end;
        }
        self.block(&bytes[from..to], taken.cut)
    }

    fn block(&mut self, body: &[u8], cut: Lsn) -> io::Result<()> {
        if body.len() > BODY_MAX {
            return Err(io::Error::other("a record longer than a block can be"));
        }
        if self.at + Block::size(body.len()) as u64 > self.size {
            self.next_segment(body.len())?;
        }
        self.sequence += 1;
        let block =
            Block { incarnation: self.identity.incarnation, sequence: self.sequence, cut, synced: self.synced, body };
        self.buffer.clear();
        block.encode(&mut self.buffer);
        self.file.write(self.at, &self.buffer)?;
        self.at += self.buffer.len() as u64;
        self.buffer.shrink_to(2 * BLOCK);
        self.cut = cut;
        Ok(())
    }

    fn next_segment(&mut self, body: usize) -> io::Result<()> {
        // What is in the old one must not be less durable than what follows.
        self.file.sync()?;
        let (file, name, size) =
            segment(&self.disk, &self.identity, &self.limits, &mut self.spares, self.number + 1, self.cut, body)?;
        self.number += 1;
        self.file = file;
        let name = std::mem::replace(&mut self.name, name);
        let size = std::mem::replace(&mut self.size, size);
        self.full.push_back(Full { name, size, end: self.cut });
        self.at = SEGMENT_HEADER as u64;
        Ok(())
    }

    /// Makes everything written durable. The watermark after it.
    pub fn sync(&mut self) -> io::Result<Lsn> {
        self.file.sync()?;
        self.synced = self.cut;
        Ok(self.synced)
    }

    /// Gives up segments whose records are all at or below `end`: they are durable elsewhere (rule C3). Some are kept to be
    /// used again.
    pub fn truncate(&mut self, end: Lsn) -> io::Result<()> {
        while self.full.front().is_some_and(|full| full.end <= end)
            && let Some(full) = self.full.pop_front()
        {
            if self.spares.len() < self.limits.spares && full.size == u64::from(self.limits.segment) {
                let spare = format!("spare-{}", full.name);
                self.disk.rename(&full.name, &spare)?;
                self.spares.push(spare);
            } else {
                self.disk.remove(&full.name)?;
            }
        }
        Ok(())
    }

    /// Makes a segment ahead, if there is none: in a quiet moment, so that nobody has to wait for it.
    pub fn prepare(&mut self) -> io::Result<()> {
        if self.spares.is_empty() {
            let spare = format!("spare-{}", name(self.number + 1));
            self.disk.create(&spare, self.limits.segment.into())?;
            self.spares.push(spare);
        }
        Ok(())
    }
}

/// Makes segment `number`, with room for a body of `body` bytes at least: of a spare, if one will do.
fn segment<D: Disk>(
    disk: &D,
    identity: &Identity,
    limits: &Limits,
    spares: &mut Vec<String>,
    number: u64,
    base: Lsn,
    body: usize,
) -> io::Result<(D::File, String, u64)> {
    let needed = (SEGMENT_HEADER + BLOCK_HEADER + body).next_multiple_of(4096) as u64;
    let size = needed.max(limits.segment.into());
    let name = name(number);
    let spare = if size == u64::from(limits.segment) { spares.pop() } else { None };
    let (file, spare) = match spare {
        Some(spare) => (disk.open(&spare)?, spare),
        None => {
            let spare = format!("spare-{name}");
            (disk.create(&spare, size)?, spare)
        }
    };
    let header = SegmentHeader {
        node: identity.node,
        stream: identity.stream,
        streams: identity.streams,
        size: u32::try_from(size).map_err(io::Error::other)?,
        number,
        incarnation: identity.incarnation,
        base,
    };
    file.write(0, &header.encode())?;
    file.sync()?;
    // It gets its name when it is what that says.
    disk.rename(&spare, &name)?;
    disk.sync()?;
    Ok((file, name, size))
}
