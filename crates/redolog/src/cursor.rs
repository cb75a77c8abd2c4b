//! Reads the records of one stream in the order of their LSNs, from blocks that come from anywhere.

use crate::Lsn;
use crate::format::{Block, Broken, Frame, Kind, Part, RawRecord, split_record};
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
    /// The last record whose first part did not come.
    lacks: Option<Lsn>,
}

impl Group {
    fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        (self.next, self.partial, self.lacks) = (0, None, None);
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
            _ => {
                self.lacks = Some(part.lsn);
                return None;
            }
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

/// Most bytes that a record gets at once before its parts have come.
const AT_ONCE: u64 = 64 << 20;

/// Finds the records in blocks of one stream that are in memory, for a standby. The blocks come in their order. Blocks that
/// were split from one give their records together: with the last of them.
pub struct Gather {
    /// Of the last block.
    cut: Lsn,
    group: Group,
}

impl Gather {
    /// Behind a block that ends at `cut`.
    #[must_use]
    pub fn new(cut: Lsn) -> Self {
        Self { cut, group: Group::default() }
    }

    /// Takes the next block. `None`: it is a start, or more blocks belong to it. Records that a start block finds
    /// incomplete are void: no block has said that they are all.
    ///
    /// # Errors
    /// The block has other bytes than records.
    pub fn add(&mut self, frame: &Frame<'_>) -> Result<Option<Gathered>, Broken> {
        let is_complete = frame.cut != self.cut;
        self.cut = frame.cut;
        if frame.kind == Kind::Start {
            self.group.clear();
            return Ok(None);
        }
        let block = Found { is_part: frame.is_part(), cut: frame.cut, limit: Lsn::MAX, body: frame.body };
        self.group.add(&block, AT_ONCE)?;
        if !is_complete {
            return Ok(None);
        }
        let mut group = std::mem::take(&mut self.group);
        group.records.sort_unstable_by_key(|(lsn, ..)| *lsn);
        Ok(Some(Gathered(group)))
    }
}

/// Records of one stream in the order of their LSNs, which were taken at once: all are above those of before.
pub struct Gathered(Group);

impl Gathered {
    /// The LSNs of the records. Records of workers that have seen nothing of each other may have the same.
    pub fn lsns(&self) -> impl ExactSizeIterator<Item = Lsn> + DoubleEndedIterator {
        self.0.records.iter().map(|(lsn, ..)| *lsn)
    }

    /// A record by its place among these: its LSN, and its effects.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<(Lsn, &[u8])> {
        let (lsn, from, to) = *self.0.records.get(at)?;
        Some((lsn, split_record(self.0.bytes.get(from..to)?).1))
    }

    /// Bytes that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes.len() + self.0.records.len() * size_of::<(Lsn, usize, usize)>()
    }

    /// A record whose beginning lies before the first block that came: it is not among these.
    #[must_use]
    pub fn lacks(&self) -> Option<Lsn> {
        self.0.lacks
    }
}
