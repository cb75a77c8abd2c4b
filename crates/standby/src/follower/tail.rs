//! One stream of a standby: blocks that are read, what of them is settled, and what is applied.

use std::collections::VecDeque;

use quorum::{BlockId, Cut, Term};

use super::Block;

/// A block that was read, and its records that are not applied.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Waiting {
    id: BlockId,
    cut: Cut,
    is_start: bool,
    records: VecDeque<Cut>,
}

/// A stream as a standby reads it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Tail {
    /// Blocks that have records to apply, or are not settled.
    blocks: VecDeque<Waiting>,
    /// The last block that was read.
    read: BlockId,
    /// The last block that is known to be committed. It may not have been read.
    mark: BlockId,
    /// A majority has everything up to here on the disk, but for what the start of its term makes void.
    synced: BlockId,
    /// The last block that is read, committed, and behind the start of the mark's term.
    settled: BlockId,
    /// Behind the settled block no record comes at or below this.
    passed: Cut,
    /// The owner's word: behind the block no record gets an LSN at or below the cut.
    quiet: (BlockId, Cut),
    /// The last block of which a record is applied, and the record.
    applied: (BlockId, Cut),
    /// Applied records that no majority has on the disk: their blocks, and the first record of each.
    unsynced: VecDeque<(BlockId, Cut)>,
    /// Memory had records up to here at first.
    had: Cut,
    /// A record is applied that the log has not any more.
    pub has_lost: bool,
}

impl Tail {
    /// Of a stream that begins behind a block which ends at `cut`.
    pub fn new(id: BlockId, cut: Cut, had: Cut) -> Self {
        Self {
            blocks: VecDeque::new(),
            read: id,
            mark: id,
            synced: id,
            settled: id,
            passed: cut,
            quiet: (id, cut),
            applied: (BlockId::default(), Cut::default()),
            unsynced: VecDeque::new(),
            had,
            has_lost: false,
        }
    }

    pub fn block(&mut self, block: Block) {
        if block.id.sequence == self.read.sequence + 1 && block.id.term >= self.read.term {
            let Block { id, cut, is_start, records } = block;
            let had = records.partition_point(|lsn| *lsn <= self.had);
            let mut records = VecDeque::from(records);
            records.drain(..had);
            self.read = id;
            self.blocks.push_back(Waiting { id, cut, is_start, records });
        }
    }

    /// True if a block was not read.
    pub fn lacks(&self, id: BlockId) -> bool {
        id.sequence > self.read.sequence
    }

    /// Begins behind a block which ends at `cut`, where it lacks that one: all records up to there are applied.
    pub fn begins(&mut self, id: BlockId, cut: Cut) {
        self.blocks.clear();
        (self.read, self.settled, self.passed) = (id, id, cut);
        self.mark = self.mark.max(id);
        self.synced(id);
    }

    /// Drops what was read behind a place.
    pub fn dropped(&mut self, keeps: u64) {
        if keeps >= self.read.sequence {
            return;
        }
        self.has_lost |= self.applied.0.sequence > keeps;
        // What was said of these blocks was said below `always`: the next block of their place is another one.
        let is_void = self.mark.sequence > keeps && self.mark.term <= self.read.term;
        self.blocks.retain(|block| block.id.sequence <= keeps);
        let term = self.blocks.back().map_or(Term::ZERO, |block| block.id.term);
        self.read = BlockId { term, sequence: keeps };
        for place in [&mut self.settled, &mut self.synced] {
            if place.sequence > keeps {
                *place = self.read;
            }
        }
        if is_void {
            self.mark = self.read;
        }
    }

    pub fn committed(&mut self, upto: BlockId) {
        self.mark = self.mark.max(upto);
    }

    pub fn synced(&mut self, upto: BlockId) {
        self.synced = self.synced.max(upto);
    }

    /// True if a majority has what is applied of a block on the disk. Before the start of the mark's term is settled,
    /// nobody knows which records before it are void.
    fn is_synced(&self, block: BlockId) -> bool {
        block <= self.synced && self.synced.term <= self.settled.term && !self.has_lost
    }

    pub fn quiet(&mut self, after: BlockId, cut: Cut) {
        self.quiet = self.quiet.max((after, cut));
    }

    /// Looks how far the stream is settled. `any`: the planted mistake P10, which takes what is read for committed.
    pub fn settle(&mut self, any: bool) {
        // Before the start of the mark's term is read, nobody knows which records before it are void.
        let upto = match any {
            true => self.read.sequence,
            false if self.read.term >= self.mark.term => self.mark.sequence.min(self.read.sequence),
            false => return,
        };
        while let Some(first) = self.blocks.front().map(|block| block.id.sequence) {
            let at = (self.settled.sequence + 1).saturating_sub(first) as usize;
            // A late word of an earlier term says nothing about blocks of a later one.
            let is_meant = |block: &&Waiting| block.id.sequence <= upto && (any || block.id.term <= self.mark.term);
            let Some(block) = self.blocks.get(at).filter(is_meant) else { break };
            (self.settled, self.passed) = (block.id, block.cut);
            if block.is_start {
                let cut = block.cut;
                self.void_above(at, cut);
            }
        }
        while self.unsynced.front().is_some_and(|(block, _)| self.is_synced(*block)) {
            self.unsynced.pop_front();
        }
        let settled = self.settled.sequence;
        while self.blocks.front().is_some_and(|block| block.records.is_empty() && block.id.sequence <= settled) {
            self.blocks.pop_front();
        }
    }

    /// A start block says that records above `cut` in the blocks before it are void.
    fn void_above(&mut self, start: usize, cut: Cut) {
        self.has_lost |= self.applied.1 > cut;
        for block in self.blocks.iter_mut().take(start) {
            block.records.retain(|lsn| *lsn <= cut);
        }
    }

    /// The next record to apply.
    pub fn head(&self) -> Option<Cut> {
        let mut settled = self.blocks.iter().take_while(|block| block.id.sequence <= self.settled.sequence);
        settled.find_map(|block| block.records.front().copied())
    }

    /// Takes the next records up to an LSN, at most so many.
    pub fn take(&mut self, upto: Cut, most: usize, mut taken: impl FnMut(Cut)) {
        let settled = self.settled.sequence;
        let (synced, is_known) = (self.synced, self.synced.term <= self.settled.term && !self.has_lost);
        let mut left = most;
        for block in self.blocks.iter_mut().take_while(|block| block.id.sequence <= settled) {
            while left > 0
                && let Some(lsn) = block.records.pop_front_if(|lsn| *lsn <= upto)
            {
                // Records of workers that have seen nothing of each other may have one LSN.
                while block.records.pop_front_if(|other| *other == lsn).is_some() {}
                let id = block.id;
                let is_synced = id <= synced && is_known;
                if !is_synced && self.unsynced.back().is_none_or(|(block, _)| *block != id) {
                    self.unsynced.push_back((id, lsn));
                }
                self.applied = (id, lsn);
                left -= 1;
                taken(lsn);
            }
            if left == 0 || !block.records.is_empty() {
                break;
            }
        }
        self.settle(false);
    }

    /// No record comes at or below this any more, in the settled term.
    pub fn passed(&self) -> Cut {
        let (after, cut) = self.quiet;
        let holds = after.term == self.settled.term && after.sequence <= self.settled.sequence;
        if holds { self.passed.max(cut) } else { self.passed }
    }

    pub fn settled_term(&self) -> Term {
        self.settled.term
    }

    pub fn applied(&self) -> (BlockId, Cut) {
        self.applied
    }

    /// The first applied record that no majority has on the disk.
    pub fn first_unsynced(&self) -> Option<Cut> {
        self.unsynced.front().map(|(_, lsn)| *lsn)
    }
}
