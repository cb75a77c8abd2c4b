//! A standby's side: which records of its shard's log it may apply, in which order, and what its store may keep.
//!
//! It reads the blocks of its own acceptor, one stream at a time, and hears which are committed. A record is applied
//! when it is the lowest one of all streams, and no stream can bring a lower one any more (rule S1):
//!
//! - each stream is *settled* beyond it: committed blocks, with the start block of the newest term among them. A start
//!   says which records before it are void;
//! - all streams are settled in the same term, the newest that one of them is settled in. What an owner has said about
//!   LSNs that it will not give binds no successor; below `always`, neither does what it has called committed.
//!
//! Batches are the gate of what must not see half of one: readers of several keys and the checkpointer pass between two.

mod tail;

use quorum::{BlockId, Cut, History, StreamId};

use self::tail::Tail;
use crate::planted::{Mistake, Planted};

/// A block of a stream, as the standby reads it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Block {
    /// Its name.
    pub id: BlockId,
    /// Where it ends: its owner gives no later record of the stream an LSN at or below. Of a start block: where what is
    /// valid before it ends.
    pub cut: Cut,
    /// True if it starts a term.
    pub is_start: bool,
    /// The LSNs of its records, ascending.
    pub records: Vec<Cut>,
}

/// A record to be applied.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Apply {
    /// Its stream.
    pub stream: StreamId,
    /// Its LSN.
    pub lsn: Cut,
}

/// The standby's log begins behind what its store covers: it has to begin anew, from a checkpoint of the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap;

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the log begins behind what the store covers")
    }
}

impl std::error::Error for Gap {}

/// A batch is being applied: what must not see half of it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a batch is being applied")
    }
}

impl std::error::Error for Busy {}

/// What a memory has of a shard's log: of each stream the last block of which it has a record, and the last record.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Memory(pub Vec<(BlockId, Cut)>);

impl Memory {
    /// True if a sealed log has all of it (rule S8): `log` are the chosen blocks of each stream and where what is valid
    /// of them ends. Then a standby goes on with its memory, and a fenced owner becomes a standby in place. Otherwise
    /// the process starts again, from its store.
    #[must_use]
    pub fn is_within(&self, log: &[(History, Cut)]) -> bool {
        let has = |(block, record): &(BlockId, Cut), (history, cut): &(History, Cut)| {
            *record == Cut::default() || record <= cut && (history.has(*block) || *block <= history.base().id)
        };
        self.0.len() == log.len() && self.0.iter().zip(log).all(|(memory, of)| has(memory, of))
    }
}

/// A standby that follows.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Follower {
    tails: Vec<Tail>,
    /// The LSN of the last record that is applied, or what memory had at first.
    applied: Cut,
    covered: Cut,
    is_busy: bool,
    must_start_again: bool,
    pub(crate) planted: Planted,
}

impl Follower {
    /// One whose memory has everything up to `applied`, and whose store has everything up to `covered`. For a process
    /// that has started they are the same; an owner that becomes a standby in place has more in memory. Its acceptor's
    /// streams begin there: behind a block, and at its end.
    ///
    /// # Errors
    /// It lacks what the log has given up.
    pub fn new(applied: Cut, covered: Cut, begins: &[(BlockId, Cut)]) -> Result<Self, Gap> {
        if begins.iter().any(|(_, cut)| *cut > applied) {
            return Err(Gap);
        }
        let tails = begins.iter().map(|(id, cut)| Tail::new(*id, *cut, applied)).collect();
        let planted = Planted::default();
        Ok(Self { tails, applied, covered, is_busy: false, must_start_again: false, planted })
    }

    /// The next block of a stream. One that does not follow the last one is ignored.
    pub fn block(&mut self, stream: StreamId, block: Block) {
        self.change(stream, |tail| tail.block(block));
    }

    /// The acceptor's stream begins behind this block now, which ends at `cut`: it was cut, or reset. Blocks up to there
    /// that were not read do not come.
    ///
    /// # Errors
    /// Memory lacks what the log has given up.
    pub fn begins(&mut self, stream: StreamId, id: BlockId, cut: Cut) -> Result<(), Gap> {
        let applied = self.applied;
        let Some(tail) = self.tails.get_mut(usize::from(stream.0)).filter(|tail| tail.lacks(id)) else { return Ok(()) };
        if cut > applied {
            return Err(Gap);
        }
        tail.begins(id, cut);
        Ok(())
    }

    /// The acceptor has dropped the blocks behind a place: another log was chosen.
    pub fn dropped(&mut self, stream: StreamId, keeps: u64) {
        self.change(stream, |tail| tail.dropped(keeps));
    }

    /// A stream is committed up to a block: so is all before it. It may not be there yet.
    pub fn committed(&mut self, stream: StreamId, upto: BlockId) {
        self.change(stream, |tail| tail.committed(upto));
    }

    /// A majority has a stream on the disk up to a block. With `always` that is what is committed.
    pub fn synced(&mut self, stream: StreamId, upto: BlockId) {
        self.change(stream, |tail| tail.synced(upto));
    }

    /// The owner of the term of `after` says: behind that block of a stream no record gets an LSN at or below `cut`. An
    /// owner says so of streams that are idle.
    pub fn quiet(&mut self, stream: StreamId, after: BlockId, cut: Cut) {
        self.change(stream, |tail| tail.quiet(after, cut));
    }

    fn change(&mut self, stream: StreamId, change: impl FnOnce(&mut Tail)) {
        let planted = self.planted;
        if let Some(tail) = self.tails.get_mut(usize::from(stream.0)) {
            change(tail);
            tail.settle(planted.is(Mistake::AppliesUncommitted));
            self.must_start_again |= tail.has_lost && !planted.is(Mistake::GoesOn);
        }
    }

    /// The next records to apply, at most so many. Until [`Self::done`] there is no further batch.
    pub fn next(&mut self, most: usize) -> Vec<Apply> {
        let mut batch = Vec::new();
        while !self.is_busy && !self.must_start_again && batch.len() < most {
            let Some((at, upto)) = self.lowest() else { break };
            let Some(tail) = self.tails.get_mut(at) else { break };
            let (before, stream) = (batch.len(), StreamId(at as u16));
            tail.take(upto, most - before, |lsn| batch.push(Apply { stream, lsn }));
            let Some(last) = batch.last().filter(|_| batch.len() > before) else { break };
            self.applied = self.applied.max(last.lsn);
        }
        self.is_busy |= !batch.is_empty();
        batch
    }

    /// The stream whose next records may be applied, and up to where: to the next record of another stream at most.
    fn lowest(&self) -> Option<(usize, Cut)> {
        let heads = || self.tails.iter().enumerate().filter_map(|(at, tail)| Some((tail.head()?, at)));
        if self.planted.is(Mistake::AppliesStreamsApart) {
            return heads().min_by_key(|(_, at)| *at).map(|(lsn, at)| (at, lsn));
        }
        let (lsn, at) = heads().min()?;
        let other = heads().filter(|(_, other)| *other != at).map(|(lsn, _)| lsn).min();
        let passed = self.tails.iter().map(Tail::passed).min()?;
        let newest = self.tails.iter().map(Tail::settled_term).max()?;
        let mixes = self.planted.is(Mistake::MixesTerms);
        let is_settled = |tail: &Tail| mixes || tail.settled_term() == newest;
        let upto = other.map_or(passed, |other| passed.min(other).max(lsn));
        (passed >= lsn && self.tails.iter().all(is_settled)).then_some((at, upto))
    }

    /// The batch is applied.
    pub fn done(&mut self) {
        self.is_busy = false;
    }

    /// True if the process has to start again, from its store: it has applied what a seal did not keep (rule S8). Only
    /// below `always` can that be.
    #[must_use]
    pub fn must_start_again(&self) -> bool {
        self.must_start_again
    }

    /// The LSN of the last record that is applied. Memory has all records of the shard up to there, and no other.
    #[must_use]
    pub fn applied(&self) -> Cut {
        self.applied
    }

    /// All records up to here are applied, and no other one comes at or below. A store may have parts of records behind
    /// what it covers: memory is as of one moment when this is beyond them.
    ///
    /// # Errors
    /// A batch is being applied.
    pub fn passed(&self) -> Result<Cut, Busy> {
        if self.is_busy {
            return Err(Busy);
        }
        let newest = self.tails.iter().map(Tail::settled_term).max();
        let passed = |tail: &Tail| tail.head().map_or(tail.passed(), |head| tail.passed().min(Cut(head.0 - 1)));
        let all = self.tails.iter().map(|tail| (Some(tail.settled_term()) == newest).then(|| passed(tail)));
        Ok(all.min().flatten().unwrap_or_default().max(self.applied))
    }

    /// What memory has of each stream.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory(self.tails.iter().map(Tail::applied).collect())
    }

    /// A checkpoint begins. Returns what it covers: the last record. An owner's word about LSNs that it will not give
    /// is not covered, as a successor may give them.
    ///
    /// # Errors
    /// A batch is being applied.
    pub fn checkpoint(&self) -> Result<Cut, Busy> {
        if self.is_busy {
            return Err(Busy);
        }
        let passed = || self.tails.iter().map(Tail::passed).min().unwrap_or_default();
        Ok(if self.planted.is(Mistake::QuietCovers) { self.applied.max(passed()) } else { self.applied })
    }

    /// What the store may make durable: a majority has all of it on the disk (rule G7).
    #[must_use]
    pub fn flushable(&self) -> Cut {
        if self.planted.is(Mistake::FlushesAhead) || self.planted.is(Mistake::QuietCovers) {
            return Cut(u64::MAX);
        }
        let unsynced = self.tails.iter().filter_map(Tail::first_unsynced).min();
        unsynced.map_or(self.applied, |lsn| Cut(lsn.0 - 1).min(self.applied))
    }

    /// The store covers this durably.
    pub fn durable(&mut self, covered: Cut) {
        self.covered = self.covered.max(covered);
    }

    /// What the store covers durably.
    #[must_use]
    pub fn covered(&self) -> Cut {
        self.covered
    }
}
