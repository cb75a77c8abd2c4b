//! Facts that no machine of the world knows: all that was told, shown and made. Invariants are checked against them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Host;
use crate::{Base, Block, BlockId, Cut, StreamId, Term};

/// A record as the model has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Record {
    pub lsn: u64,
    pub stream: u16,
    pub term: Term,
    pub process: u8,
    /// The record of another stream that it stands on: stream, LSN, term.
    pub on: Option<(u16, u64, Term)>,
}

impl Record {
    pub fn body(&self) -> Arc<[u8]> {
        let (stream, lsn, term) = self.on.unwrap_or((u16::MAX, 0, Term::ZERO));
        let numbers = [self.lsn, u64::from(self.term.get()), u64::from(stream), lsn, u64::from(term.get())];
        numbers.into_iter().map(|number| number as u8).chain([self.process]).collect()
    }

    pub fn of(stream: u16, block: &Block) -> Option<Self> {
        let [lsn, term, on_stream, on_lsn, on_term, process] = block.body[..] else { return None };
        let term_of = |number: u8| Term::new(u32::from(number)).expect("a term");
        let on = (on_stream != u8::MAX).then(|| (u16::from(on_stream), u64::from(on_lsn), term_of(on_term)));
        Some(Self { lsn: u64::from(lsn), stream, term: term_of(term), process, on })
    }

    fn is_named_by(&self, on: (u16, u64, Term)) -> bool {
        (self.stream, self.lsn, self.term) == on
    }
}

/// The result of a start from these streams (rule L5): the records that it applies, where each stream ends, and the
/// highest LSN of all, void ones included.
pub fn merge(log: &[Vec<Block>], bases: &[Base], store: &BTreeSet<Record>) -> (BTreeSet<Record>, Vec<u64>, u64) {
    let (mut records, mut ends, mut highest) = (BTreeSet::new(), Vec::new(), 0);
    for (stream, (blocks, base)) in log.iter().zip(bases).enumerate() {
        let mut valid: Vec<Record> = Vec::new();
        let mut end = base.cut.0;
        for block in blocks {
            end = block.cut.0;
            highest = highest.max(end);
            match Record::of(stream as u16, block) {
                Some(record) => valid.push(record),
                None => valid.retain(|record| record.lsn <= end),
            }
        }
        records.extend(valid);
        ends.push(end);
    }
    let mut applied = store.clone();
    let mut is_over = vec![false; log.len()];
    for record in records {
        let stream = usize::from(record.stream);
        if is_over[stream] {
            continue;
        }
        if record.on.is_some_and(|(on, lsn, _)| lsn > ends[usize::from(on)]) {
            ends[stream] = record.lsn - 1;
            is_over[stream] = true;
        } else {
            applied.insert(record);
        }
    }
    let stored = store.iter().map(|record| record.lsn).max().unwrap_or(0);
    (applied, ends, highest.max(stored))
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ghosts {
    /// The first thing that does not hold.
    pub broken: Option<&'static str>,
    /// Records that clients were told of.
    pub acknowledged: BTreeSet<Record>,
    /// The records that each term that led began with: it showed them, and that there are no others.
    pub shown: BTreeMap<(Term, u8), BTreeSet<Record>>,
    /// Records that every copy has in its store.
    pub store: BTreeSet<Record>,
    /// All blocks that were ever made, and the block before each.
    made: BTreeMap<(StreamId, BlockId), (Block, BlockId)>,
    /// The block at each place of which an owner said that it is committed.
    committed: BTreeMap<(StreamId, u64), BlockId>,
    /// The owner has heard what a folder that was set back still has.
    pub is_set_back_known: bool,
    /// Versions that were shown, and by which term.
    versions: BTreeMap<u64, Term>,
}

impl Ghosts {
    pub fn break_on(&mut self, why: &'static str) {
        self.broken.get_or_insert(why);
    }

    /// An owner makes a block: no two have one name.
    pub fn make(&mut self, stream: StreamId, block: &Block, before: BlockId) {
        let made = (block.clone(), before);
        if self.made.insert((stream, block.id), made.clone()).is_some_and(|other| other != made) {
            self.break_on("two blocks have one name");
        }
    }

    /// A start has read chains out of a folder: each is one that was written.
    pub fn check_chains(&mut self, chains: &[Vec<BlockId>]) {
        for (stream, chain) in chains.iter().enumerate() {
            let is_right = |two: &[BlockId]| {
                self.made.get(&(StreamId(stream as u16), two[1])).is_none_or(|(_, before)| *before == two[0])
            };
            if !chain.windows(2).all(is_right) {
                self.break_on("a folder has a chain that never was");
            }
        }
    }

    /// A term begins to serve.
    pub fn lead(&mut self, host: &Host) {
        let (term, mine) = (host.owner.term(), &host.began_with);
        let stands = |record: &Record| record.on.is_none_or(|on| mine.iter().any(|other| other.is_named_by(on)));
        if !mine.iter().all(stands) {
            self.break_on("a record is served without what it stands on");
        }
        if !self.acknowledged.iter().all(|record| record.term >= term || mine.contains(record)) {
            self.break_on("something acknowledged is lost");
        }
        for ((other, _), shown) in &self.shown {
            let (older, earlier, later) = if *other < term { (*other, shown, mine) } else { (term, mine, shown) };
            if *other != term && !later.iter().filter(|record| record.term < older).eq(earlier) {
                return self.break_on("something shown has come to be otherwise");
            }
        }
        self.shown.insert((term, host.process), mine.clone());
    }

    /// An owner says that its log is committed up to its marks: no two say other things.
    pub fn commit(&mut self, host: &Host) {
        for (at, log) in host.log.iter().enumerate() {
            for block in log.iter().filter(|block| block.id.sequence <= host.marks[at]) {
                let place = (StreamId(at as u16), block.id.sequence);
                if *self.committed.entry(place).or_insert(block.id) != block.id {
                    self.break_on("two blocks are committed at one place");
                }
            }
        }
    }

    /// An acceptor says that a block is committed: a standby applies it.
    pub fn check_committed(&mut self, stream: StreamId, id: BlockId) {
        if id.sequence > 0 && self.committed.get(&(stream, id.sequence)) != Some(&id) {
            self.break_on("an acceptor takes a block for committed that is not");
        }
    }

    /// An owner has said that behind a block of its own no record gets an LSN at or below the cut.
    pub fn check_quiet(&mut self, stream: StreamId, after: BlockId, cut: Cut) {
        let of_term = (stream, after)..=(stream, BlockId { sequence: u64::MAX, ..after });
        let mut behind = self.made.range(of_term).skip(1);
        if behind.any(|(_, (block, _))| block.cut <= cut) {
            self.break_on("a record comes where its owner has said that none does");
        }
    }

    /// A watermark has moved: a record passes it if all that it stands on has (rule L5).
    pub fn acknowledge(&mut self, host: &Host) {
        let term = host.owner.term();
        let below = host.log.iter().enumerate().flat_map(|(stream, log)| {
            let passed = log.iter().filter(move |block| block.id.sequence <= host.marks[stream]);
            passed.filter_map(move |block| Record::of(stream as u16, block))
        });
        let records: BTreeSet<Record> =
            below.filter(|record| record.term == term || host.began_with.contains(record)).collect();
        let mut waits = vec![false; host.log.len()];
        for record in records {
            let is_known = |on| self.acknowledged.iter().any(|other| other.is_named_by(on));
            // Records behind one that waits for another stream wait as well.
            waits[usize::from(record.stream)] |= !record.on.is_none_or(is_known);
            if self.acknowledged.contains(&record) || waits[usize::from(record.stream)] {
                continue;
            }
            let lost =
                |((other, _), shown): (&(Term, u8), &BTreeSet<Record>)| *other > term && !shown.contains(&record);
            if self.shown.iter().any(lost) {
                self.break_on("something is acknowledged that a later term does not have");
            }
            self.acknowledged.insert(record);
            self.show_version(record.lsn, record.term);
        }
    }

    pub fn show_version(&mut self, lsn: u64, term: Term) {
        self.versions.entry(lsn).or_insert(term);
    }

    /// A term gives a version: nobody was shown it as another one.
    pub fn give_version(&mut self, lsn: u64, term: Term) {
        if self.versions.get(&lsn).is_some_and(|other| *other < term) {
            self.break_on("a version is given that was shown as another one");
        }
    }
}
