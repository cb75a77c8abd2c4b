//! A shard's log as one thing: what `quorum` makes of several copies. Its own models look at how.

use std::collections::BTreeSet;

use quorum::{Base, BlockId, Cut, History, Run, Term};

use crate::Block;

/// A record, which stands on another one or on nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Record {
    pub lsn: Cut,
    pub term: Term,
    /// The client's command that made it.
    pub command: u8,
    pub on: Option<Cut>,
}

pub fn stream_of(lsn: Cut) -> usize {
    (lsn.0 % 16) as usize
}

/// A block with its records.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Filled {
    pub block: Block,
    pub records: Vec<Record>,
}

/// A stream, at the acceptors or in a standby's folder.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Stream {
    pub base: (BlockId, Cut),
    pub blocks: Vec<Filled>,
}

impl Stream {
    pub fn last(&self) -> BlockId {
        self.blocks.last().map_or(self.base.0, |filled| filled.block.id)
    }

    pub fn history(&self) -> History {
        let mut runs: Vec<Run> = Vec::new();
        for Filled { block, .. } in &self.blocks {
            if runs.last().is_none_or(|run| run.term != block.id.term) {
                runs.push(Run { first: block.id.sequence, term: block.id.term });
            }
        }
        let base = Base { id: self.base.0, cut: self.base.1 };
        History::from_runs(base, runs, self.last().sequence).expect("a chain")
    }

    /// Records that no later start has made void.
    fn valid(&self) -> Vec<Record> {
        let (mut valid, mut most) = (Vec::new(), Cut(u64::MAX));
        for Filled { block, records } in self.blocks.iter().rev() {
            valid.extend(records.iter().filter(|record| record.lsn <= most));
            if block.is_start {
                most = most.min(block.cut);
            }
        }
        valid
    }

    pub fn push(&mut self, term: Term, cut: Cut, records: Vec<Record>, is_start: bool) {
        let id = BlockId { term, sequence: self.last().sequence + 1 };
        let block = Block { id, cut, is_start, records: records.iter().map(|record| record.lsn).collect() };
        self.blocks.push(Filled { block, records });
    }

    /// Forgets the blocks that the log has given up, as far as this copy has the same.
    pub fn follow_cut(&mut self, log: &Self, history: &History) {
        let is_gone = |of: &&Filled| of.block.id.sequence <= log.base.0.sequence && history.has(of.block.id);
        let many = self.blocks.iter().take_while(is_gone).count();
        if many > 0 && self.blocks[many - 1].block.id == log.base.0 {
            self.blocks.drain(..many);
            self.base = log.base;
        }
    }

    /// Forgets blocks of which nothing lies above the floor.
    fn cut(&mut self, upto: BlockId, floor: Cut) -> Vec<Record> {
        let is_below = |filled: &&Filled| {
            let ends = filled.records.iter().map(|record| record.lsn).max().max(Some(filled.block.cut));
            filled.block.id.sequence <= upto.sequence && ends <= Some(floor)
        };
        let many = self.blocks.iter().take_while(is_below).count();
        let valid = self.valid();
        let mut gone = Vec::new();
        for Filled { block, records } in self.blocks.drain(..many) {
            self.base = (block.id, self.base.1.max(block.cut));
            gone.extend(records);
        }
        gone.retain(|record| valid.contains(record));
        gone
    }
}

/// All streams, and what a majority has of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Log {
    /// The term that was sealed last.
    pub term: Term,
    pub streams: Vec<Stream>,
    /// What a majority has on the disk of each stream.
    pub synced: Vec<BlockId>,
    /// Valid records that were cut.
    pub gone: BTreeSet<Record>,
}

impl Log {
    pub fn new(streams: usize) -> Self {
        let (synced, gone) = (vec![BlockId::default(); streams], BTreeSet::new());
        Self { term: Term::ZERO, streams: vec![Stream::default(); streams], synced, gone }
    }

    /// All records that are valid, those that were cut among them.
    pub fn valid(&self) -> BTreeSet<Record> {
        self.streams.iter().flat_map(Stream::valid).chain(self.gone.iter().copied()).collect()
    }

    /// True if a majority has the record on the disk.
    pub fn has_synced(&self, record: &Record) -> bool {
        let at = stream_of(record.lsn);
        let blocks = self.streams[at].blocks.iter().filter(|of| of.block.id.sequence <= self.synced[at].sequence);
        self.gone.contains(record) || blocks.flat_map(|of| &of.records).any(|other| other == record)
    }

    /// True if a majority has the start blocks of the term that was sealed last.
    pub fn is_led(&self) -> bool {
        self.synced.iter().all(|id| id.term == self.term)
    }

    /// A majority has one more block of a stream.
    pub fn sync(&mut self, at: usize) -> bool {
        let next = self.streams[at].blocks.iter().map(|of| of.block.id);
        let next = next.into_iter().find(|id| id.sequence > self.synced[at].sequence);
        next.into_iter().for_each(|id| self.synced[at] = id);
        next.is_some()
    }

    /// Seals a term, with `kept` blocks of each stream beyond those that a majority has. Records that stand on something
    /// lost end their streams (rule L5). Returns the chosen log as `quorum` names it.
    pub fn seal(&mut self, term: Term, kept: &[usize]) -> Vec<(History, Cut)> {
        self.term = term;
        for (at, stream) in self.streams.iter_mut().enumerate() {
            let synced = stream.blocks.iter().filter(|of| of.block.id.sequence <= self.synced[at].sequence).count();
            stream.blocks.truncate(synced + kept[at]);
        }
        let all = self.valid();
        let mut survived: BTreeSet<Cut> = BTreeSet::new();
        let mut ends: Vec<Option<Cut>> = vec![None; self.streams.len()];
        for record in &all {
            let at = stream_of(record.lsn);
            let stands = record.on.is_none_or(|on| survived.contains(&on));
            if ends[at].is_none() && stands {
                survived.insert(record.lsn);
            } else {
                ends[at].get_or_insert(Cut(record.lsn.0 - 1));
            }
        }
        let mut chosen = Vec::new();
        for (at, stream) in self.streams.iter_mut().enumerate() {
            let last = survived.iter().filter(|lsn| stream_of(**lsn) == at).max().copied().unwrap_or_default();
            let cut = last.max(stream.base.1);
            chosen.push((stream.history(), cut));
            stream.push(term, cut, Vec::new(), true);
        }
        chosen
    }

    /// Cuts all streams.
    pub fn cut(&mut self, floor: Cut) {
        for (stream, synced) in self.streams.iter_mut().zip(&self.synced) {
            self.gone.extend(stream.cut(*synced, floor));
        }
    }

    /// The highest LSN, void ones included.
    pub fn highest(&self) -> Cut {
        let records = self.streams.iter().flat_map(|s| &s.blocks).flat_map(|of| &of.records).map(|r| r.lsn);
        records.chain(self.gone.iter().map(|record| record.lsn)).max().unwrap_or_default()
    }
}
