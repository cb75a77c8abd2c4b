//! Reads one stream: which of its blocks are valid, and where it ends.

use std::collections::VecDeque;
use std::io;

use crate::Lsn;
use crate::disk::{Disk, File};
use crate::format::{Block, Broken, Record, SEGMENT_HEADER, SegmentHeader};
use crate::recover::Damage;
use crate::writer::{Full, is_spare};

/// A valid block.
#[derive(Clone, Copy, Debug)]
struct Place {
    segment: usize,
    at: usize,
    cut: Lsn,
    /// Records above this are void: a later incarnation said so.
    limit: Lsn,
}

/// A segment that is there.
struct Segment {
    name: String,
    header: SegmentHeader,
    size: u64,
}

/// A record, out of its block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Owned {
    pub(crate) lsn: Lsn,
    pub(crate) dependencies: Vec<Lsn>,
    pub(crate) effects: Box<[u8]>,
}

/// What is in the folder of a stream.
pub(crate) struct Scan<D> {
    pub(crate) disk: D,
    segments: Vec<Segment>,
    blocks: Vec<Place>,
    pub(crate) spares: Vec<String>,
    /// Sequence and incarnation of the last valid block.
    pub(crate) sequence: u64,
    pub(crate) incarnation: u64,
    /// Up to where the stream is valid.
    pub(crate) end: Lsn,
    /// The highest LSN or cut in any valid block, void or not.
    pub(crate) highest: Lsn,
    /// Bytes of a tail that was torn, and where: for the log.
    pub(crate) torn: Option<(String, usize)>,
}

fn read<D: Disk>(disk: &D, segment: &Segment) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(segment.size).map_err(io::Error::other)?];
    disk.open(&segment.name)?.read(0, &mut bytes)?;
    Ok(bytes)
}

impl<D: Disk> Scan<D> {
    /// Reads a stream's folder.
    pub(crate) fn new(disk: D) -> Result<Self, Damage> {
        let mut segments = Vec::new();
        let mut spares = Vec::new();
        for name in disk.list()? {
            if is_spare(&name) {
                spares.push(name);
            } else if name.ends_with(".log") {
                segments.push(open(&disk, name)?);
            }
        }
        segments.sort_by_key(|segment| segment.header.number);
        if let Some(pair) = segments.windows(2).find(|pair| pair[0].header.number + 1 != pair[1].header.number) {
            return Err(Damage::at(&pair[1].name, 0, "the segment before this one is missing"));
        }
        // What was to become a segment and is not one yet, or has another size: not worth keeping apart.
        for spare in spares.drain(..) {
            disk.remove(&spare)?;
        }
        let mut scan = Self {
            disk,
            segments,
            blocks: Vec::new(),
            spares,
            sequence: 0,
            incarnation: 0,
            end: 0,
            highest: 0,
            torn: None,
        };
        scan.follow()?;
        scan.limit();
        Ok(scan)
    }

    /// The headers of its segments.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &SegmentHeader)> {
        self.segments.iter().map(|segment| (segment.name.as_str(), &segment.header))
    }

    /// Follows the chain of blocks to its end.
    fn follow(&mut self) -> Result<(), Damage> {
        let Some(first) = self.segments.first() else { return Ok(()) };
        (self.end, self.highest) = (first.header.base, first.header.base);
        let mut broken: Option<(usize, usize)> = None;
        for index in 0..self.segments.len() {
            let bytes = read(&self.disk, &self.segments[index])?;
            let mut at = SEGMENT_HEADER;
            while let Ok(block) = Block::decode(&bytes[at.min(bytes.len())..]) {
                let begins = self.blocks.is_empty();
                let follows = block.sequence == self.sequence + 1 && block.incarnation >= self.incarnation;
                if !begins && !follows || block.incarnation > self.segments[index].header.incarnation {
                    break;
                }
                self.take(index, at, &block)?;
                at += Block::size(block.body.len());
                broken = None;
            }
            // The chain may go on in the next segment; if it does not, this is where it ended. A segment that was begun at the end
            // of the chain says that nothing is missing before it.
            let begun_here = self.segments[index].header.base == self.end;
            broken = if begun_here { Some((index, at)) } else { broken.or(Some((index, at))) };
        }
        match broken {
            Some(end) => self.look_behind(end),
            None => Ok(()),
        }
    }

    fn take(&mut self, segment: usize, at: usize, block: &Block<'_>) -> Result<(), Damage> {
        for record in block.records() {
            let record = record.map_err(|broken| Damage::at(&self.segments[segment].name, at, broken.0))?;
            self.highest = self.highest.max(record.lsn);
        }
        self.blocks.push(Place { segment, at, cut: block.cut, limit: Lsn::MAX });
        (self.sequence, self.incarnation) = (block.sequence, block.incarnation);
        self.end = block.cut;
        self.highest = self.highest.max(block.cut);
        Ok(())
    }

    /// The chain ends at this place: nothing behind it may have been synced (rule L10).
    fn look_behind(&mut self, (segment, at): (usize, usize)) -> Result<(), Damage> {
        for index in segment..self.segments.len() {
            let bytes = read(&self.disk, &self.segments[index])?;
            let mut place = if index == segment { at } else { SEGMENT_HEADER };
            while place + 8 <= bytes.len() {
                if let Ok(block) = Block::decode(&bytes[place..])
                    && block.sequence > self.sequence
                    && block.incarnation >= self.incarnation
                {
                    if block.synced > self.end {
                        let name = &self.segments[segment].name;
                        return Err(Damage::at(name, at, "damaged, though it had been synced"));
                    }
                    self.torn = Some((self.segments[segment].name.clone(), at));
                }
                place += 8;
            }
        }
        Ok(())
    }

    /// What later incarnations said of the records before them: the first block of each says up to where those are valid.
    fn limit(&mut self) {
        let mut limit = Lsn::MAX;
        let mut next = Lsn::MAX;
        for place in self.blocks.iter_mut().rev() {
            // Within an incarnation cuts do not fall.
            if next < place.cut {
                limit = limit.min(next);
            }
            place.limit = limit;
            next = place.cut;
        }
    }

    /// Calls `f` with the valid records, group by group: all of a group are above those of the group before.
    pub(crate) fn groups(&self, mut f: impl FnMut(Vec<Owned>) -> Result<(), Damage>) -> Result<(), Damage> {
        let mut group: Vec<Owned> = Vec::new();
        let mut cut = 0;
        let mut bytes = Vec::new();
        let mut loaded = usize::MAX;
        for place in &self.blocks {
            let segment = &self.segments[place.segment];
            if loaded != place.segment {
                bytes = read(&self.disk, segment)?;
                loaded = place.segment;
            }
            let damaged = |broken: Broken| Damage::at(&segment.name, place.at, broken.0);
            for record in Block::decode(&bytes[place.at..]).map_err(damaged)?.records() {
                let record = record.map_err(damaged)?;
                if record.lsn <= place.limit.min(self.end) {
                    let Record { lsn, dependencies, effects } = record;
                    group.push(Owned { lsn, dependencies, effects: effects.into() });
                }
            }
            // Blocks of which only the last has the cut were one that was split.
            if place.cut != cut && !group.is_empty() {
                group.sort_by_key(|record| record.lsn);
                f(std::mem::take(&mut group))?;
            }
            cut = place.cut;
        }
        Ok(())
    }

    /// The segments as the writer keeps them: each holds nothing above the base of the next.
    pub(crate) fn full(&self) -> VecDeque<Full> {
        let ends = self.segments.iter().skip(1).map(|next| next.header.base).chain([self.highest]);
        let named = self.segments.iter().zip(ends);
        named.map(|(segment, end)| Full { name: segment.name.clone(), size: segment.size, end }).collect()
    }

    /// Number of the last segment.
    pub(crate) fn number(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.header.number)
    }
}

fn open<D: Disk>(disk: &D, name: String) -> Result<Segment, Damage> {
    let file = disk.open(&name)?;
    let size = file.size()?;
    let mut header = [0; SEGMENT_HEADER];
    if size < SEGMENT_HEADER as u64 {
        return Err(Damage::at(&name, 0, "shorter than the header of a segment"));
    }
    file.read(0, &mut header)?;
    let header = SegmentHeader::decode(&header).map_err(|broken| Damage::at(&name, 0, broken.0))?;
    if u64::from(header.size) != size || crate::writer::name(header.number) != name {
        return Err(Damage::at(&name, 0, "not the segment that its header describes"));
    }
    Ok(Segment { name, header, size })
}
