//! The names of all blocks of a stream, in a few numbers: the terms of a chain never fall, so runs of one term suffice.

use crate::{Base, BlockId, Term};

/// Blocks of one term that follow one another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Run {
    /// The place of the first one.
    pub first: u64,
    /// The term that made them.
    pub term: Term,
}

/// The names of the blocks of a stream, from its base to its end.
///
/// It takes a few bytes for each term that the retained log has blocks of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct History {
    base: Base,
    /// Both places and terms rise.
    runs: Vec<Run>,
    last: u64,
}

/// The first and the last block of a stream in a folder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Extent {
    /// Where it begins.
    pub base: Base,
    /// The last block, or the base.
    pub last: BlockId,
}

impl History {
    /// A history without blocks.
    #[must_use]
    pub fn new(base: Base) -> Self {
        Self { base, runs: Vec::new(), last: base.id.sequence }
    }

    /// A history of these runs; `None` if they contradict one another.
    #[must_use]
    pub fn from_runs(base: Base, runs: Vec<Run>, last: u64) -> Option<Self> {
        let begins = runs.first().map_or(last, |run| run.first.wrapping_sub(1)) == base.id.sequence;
        let rises = runs.windows(2).all(|two| two[0].first < two[1].first && two[0].term < two[1].term);
        let in_range = runs.first().is_none_or(|run| run.first > 0 && run.term >= base.id.term)
            && runs.last().is_none_or(|run| run.first <= last);
        (begins && rises && in_range).then_some(Self { base, runs, last })
    }

    /// Where it begins.
    #[must_use]
    pub fn base(&self) -> Base {
        self.base
    }

    /// Its runs, the lowest first.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The name of the last block, or of the base.
    #[must_use]
    pub fn last(&self) -> BlockId {
        BlockId { term: self.runs.last().map_or(self.base.id.term, |run| run.term), sequence: self.last }
    }

    /// Its first and its last block.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent { base: self.base, last: self.last() }
    }

    /// The name of the block at a place, the base included.
    #[must_use]
    pub fn at(&self, sequence: u64) -> Option<BlockId> {
        if sequence == self.base.id.sequence {
            return Some(self.base.id);
        }
        if sequence < self.base.id.sequence || sequence > self.last {
            return None;
        }
        let run = self.runs.partition_point(|run| run.first <= sequence).checked_sub(1)?;
        Some(BlockId { term: self.runs.get(run)?.term, sequence })
    }

    /// True if it has the block, or begins behind it.
    #[must_use]
    pub fn has(&self, id: BlockId) -> bool {
        self.at(id.sequence) == Some(id)
    }

    /// Appends the next block. Returns false, and changes nothing, if the name does not follow the last one.
    pub fn push(&mut self, id: BlockId) -> bool {
        let last = self.last();
        if last.sequence.checked_add(1) != Some(id.sequence) || id.term < last.term {
            return false;
        }
        if self.runs.last().is_none_or(|run| run.term != id.term) {
            self.runs.push(Run { first: id.sequence, term: id.term });
        }
        self.last = id.sequence;
        true
    }

    /// Drops the blocks behind a place.
    pub fn keep(&mut self, sequence: u64) {
        self.last = sequence.clamp(self.base.id.sequence, self.last);
        while self.runs.last().is_some_and(|run| run.first > self.last) {
            self.runs.pop();
        }
    }

    /// Begins behind a block that it has. Returns false, and changes nothing, if it does not have that.
    pub fn begin_at(&mut self, base: Base) -> bool {
        if !self.has(base.id) {
            return false;
        }
        if base.id == self.base.id {
            return true;
        }
        self.base = base;
        let first = base.id.sequence + 1;
        let gone = self.runs.partition_point(|run| run.first <= first).saturating_sub(1);
        self.runs.drain(..gone);
        if let Some(run) = self.runs.first_mut() {
            run.first = first;
        }
        if self.last < first {
            self.runs.clear();
        }
        true
    }

    /// The place of the last block that both have, or behind which one of them begins. `None` if they do not meet.
    #[must_use]
    pub fn common(&self, other: &Self) -> Option<u64> {
        let mut at = self.last.min(other.last);
        loop {
            let (mine, its) = (self.at(at)?, other.at(at)?);
            if mine == its {
                return Some(at);
            }
            // The chain with the higher term has no block of the lower one from where that term begins.
            let higher = if mine.term > its.term { self } else { other };
            let run = higher.runs.iter().rev().find(|run| run.first <= at)?;
            at = run.first.checked_sub(1)?;
        }
    }
}
