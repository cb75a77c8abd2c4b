//! Reads the records of one stream in the order of their LSNs, from blocks that come from anywhere.

use crate::Lsn;
use crate::format::{Block, Broken, Part, RawRecord, split_record};
use crate::recover::Damage;

/// A block that a [`Cursor`] reads.
pub(crate) struct Found<'a> {
    /// Its body is a part of a record.
    pub(crate) is_part: bool,
    /// Every record of the stream up to here is in this block or an earlier one.
    pub(crate) cut: Lsn,
    /// Records of it above this are void.
    pub(crate) limit: Lsn,
    pub(crate) body: &'a [u8],
}

/// The blocks of a stream, in their order: on a disk, or in memory.
pub(crate) trait Blocks {
    /// The next one.
    fn next(&mut self) -> Result<Option<Found<'_>>, Damage>;
    /// The error for the block that [`Self::next`] gave last.
    fn damage(&self, broken: Broken) -> Damage;
    /// No record is longer than so many bytes.
    fn most(&self) -> u64;
}

/// A record some parts of which have not come.
pub(crate) struct Partial {
    lsn: Lsn,
    length: u64,
    /// Where the next part begins in it.
    next: u64,
}

impl Partial {
    /// The bytes that follow a part.
    pub(crate) fn behind(part: &Part<'_>) -> Option<Self> {
        (!part.is_last()).then(|| Self { lsn: part.lsn, length: part.length, next: part.end() })
    }

    pub(crate) fn goes_on_with(&self, part: &Part<'_>) -> bool {
        (self.lsn, self.length, self.next) == (part.lsn, part.length, part.offset)
    }
}

/// Records that were taken at once: all are above those of the group before.
#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    /// Of each record: where it begins in the bytes, and where it ends.
    records: Vec<(Lsn, usize, usize)>,
    /// The begin of the next record.
    next: usize,
    /// A record some parts of which have come: its begin in the bytes, and the bytes left.
    partial: Option<(usize, Partial)>,
}

impl Group {
    fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        (self.next, self.partial) = (0, None);
    }

    fn add(&mut self, block: &Found<'_>, most: u64) -> Result<(), Broken> {
        if block.is_part {
            let part = Part::decode(block.body)?;
            if let Some(begin) = self.add_part(&part, most) {
                let record = RawRecord::whole(&self.bytes[begin..])?;
                if record.lsn != part.lsn {
                    return Err(Broken("a part of another record"));
                }
                if record.lsn <= block.limit {
                    self.records.push((record.lsn, begin + record.from, begin + record.to));
                }
            }
            return Ok(());
        }
        let base = self.bytes.len();
        self.bytes.extend_from_slice(block.body);
        for record in Block::raw_records_of(block.body) {
            let record = record?;
            if record.lsn <= block.limit {
                self.records.push((record.lsn, base + record.from, base + record.to));
            }
        }
        Ok(())
    }

    /// Takes the next part of a record, of which at most `most` bytes can follow. Returns where the record begins, if
    /// it was the last part.
    fn add_part(&mut self, part: &Part<'_>, most: u64) -> Option<usize> {
        let begin = match self.partial.take() {
            Some((begin, partial)) if partial.goes_on_with(part) => begin,
            _ if part.offset == 0 => {
                // The system may have no memory for twice the longest record.
                self.bytes.reserve_exact(usize::try_from(part.length.min(most)).unwrap_or(0));
                self.bytes.len()
            }
            // It began in a segment that is not needed, so it is not needed itself.
            _ => return None,
        };
        self.bytes.extend_from_slice(part.bytes);
        self.partial = Partial::behind(part).map(|partial| (begin, partial));
        part.is_last().then_some(begin)
    }
}

/// Reads a stream's valid records in the order of their LSNs.
pub(crate) struct Cursor<'a> {
    blocks: Box<dyn Blocks + 'a>,
    /// Of the last block.
    cut: Lsn,
    group: Group,
}

impl<'a> Cursor<'a> {
    /// Behind the cut `cut`.
    pub(crate) fn new(blocks: Box<dyn Blocks + 'a>, cut: Lsn) -> Self {
        Self { blocks, cut, group: Group::default() }
    }

    /// The LSN of the next record.
    pub(crate) fn peek(&mut self) -> Result<Option<Lsn>, Damage> {
        while self.group.next == self.group.records.len() {
            if !self.load()? {
                return Ok(None);
            }
        }
        Ok(Some(self.group.records[self.group.next].0))
    }

    /// The record whose LSN [`Self::peek`] gave: its dependencies, and its effects. Moves on to the next one.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub(crate) fn next(&mut self) -> (impl Iterator<Item = Lsn> + Clone + use<'_>, &[u8]) {
        let (_, from, to) = self.group.records[self.group.next];
        self.group.next += 1;
        split_record(&self.group.bytes[from..to])
    }

    /// The record whose LSN [`Self::peek`] gave, as it was written, and whether another of the same LSN follows. Moves
    /// on to the next one.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub(crate) fn next_whole(&mut self) -> (&[u8], bool) {
        let (lsn, from, to) = self.group.records[self.group.next];
        self.group.next += 1;
        // Records outside of the group are above it.
        let is_followed = self.group.records.get(self.group.next).is_some_and(|(next, ..)| *next == lsn);
        (&self.group.bytes[from..to], is_followed)
    }

    /// The dependencies of other workers' records with the LSN that [`Self::peek`] gave.
    pub(crate) fn dependencies_of_others(&self) -> impl Iterator<Item = Lsn> {
        let rest = self.group.records.get(self.group.next..).unwrap_or_default();
        let lsn = rest.first().map(|(lsn, ..)| *lsn);
        let others = rest.iter().skip(1).take_while(move |(other, ..)| Some(*other) == lsn);
        others.flat_map(|(_, from, to)| split_record(&self.group.bytes[*from..*to]).0)
    }

    /// Loads the next group: blocks that were split from one, of which only the last has the cut. False at the end.
    fn load(&mut self) -> Result<bool, Damage> {
        self.group.clear();
        let most = self.blocks.most();
        while let Some(block) = self.blocks.next()? {
            let (cut, added) = (block.cut, self.group.add(&block, most));
            added.map_err(|broken| self.blocks.damage(broken))?;
            let complete = cut != self.cut;
            self.cut = cut;
            if complete {
                self.group.records.sort_unstable_by_key(|(lsn, ..)| *lsn);
                return Ok(true);
            }
        }
        Ok(false)
    }
}
