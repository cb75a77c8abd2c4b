//! One stream of an acceptor: its blocks, the writes under way, and the folder's lives.

use std::collections::VecDeque;

use super::{Found, Keep, Mark, Op, Output, Told};
use crate::planted::{Mistake, Planted};
use crate::{Base, Block, BlockId, Cut, FolderLife, History, StreamId, Term};

/// Most blocks under way to the disk. An owner sends fewer ahead ([`crate::Limits`]).
const FLIGHTS_MAX: usize = 64;

/// Most blocks that wait for a new life.
const QUEUE_MAX: usize = 64;

/// Most blocks that one read gives.
const READ_MAX: u64 = 64;

/// A block to take.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Append {
    pub before: BlockId,
    pub through: bool,
    pub block: Block,
}

/// A write under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Flight {
    sequence: u64,
    through: bool,
    has_landed: bool,
}

/// A life that is to begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Turn {
    /// When all writes of the present one have landed.
    Wanted(Keep),
    /// The disk is beginning it.
    UnderWay(Keep),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Stream {
    life: FolderLife,
    /// All blocks: on the disk, written, under way.
    history: History,
    /// The writes under way, in order. A write may have landed before an earlier one.
    flights: VecDeque<Flight>,
    /// The place up to which all writes have landed.
    written: u64,
    /// The place up to which everything is on the disk.
    synced: u64,
    /// From here to `written` every block was written past the cache.
    through_from: u64,
    /// The place that a sync under way is for.
    syncing: Option<u64>,
    /// The place up to which blocks are to be put on the disk when they are written.
    sync_to: u64,
    turn: Option<Turn>,
    queue: VecDeque<Append>,
    /// The place up to which blocks are known to be those of the present term's owner.
    matched: u64,
    /// The place up to which that owner has everything committed.
    claimed: u64,
    /// The place up to which blocks are here and committed. It never falls.
    committed: u64,
    /// That owner's word: behind the place no record gets an LSN at or below the cut.
    quiet: (u64, Cut),
    told: Told,
}

impl Stream {
    pub fn new(found: Found) -> Self {
        let last = found.history.last().sequence;
        Self {
            life: found.life,
            history: found.history,
            flights: VecDeque::new(),
            written: last,
            synced: 0,
            through_from: last + 1,
            syncing: None,
            sync_to: 0,
            turn: None,
            queue: VecDeque::new(),
            matched: 0,
            claimed: 0,
            committed: 0,
            quiet: (0, Cut(0)),
            told: Told::default(),
        }
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Takes the reports that are to be sent.
    pub fn tells(&mut self) -> Told {
        std::mem::take(&mut self.told)
    }

    /// Wants a new life. Blocks that are dropped are void when it has begun.
    pub fn begin(&mut self, id: StreamId, keep: Keep, out: &mut Vec<Output>) {
        self.turn = Some(Turn::Wanted(keep));
        self.turn(id, out);
    }

    /// Begins the life that is wanted, if nothing is under way: a block that is kept may be in the air.
    fn turn(&mut self, id: StreamId, out: &mut Vec<Output>) {
        let Some(Turn::Wanted(keep)) = self.turn else { return };
        if !self.flights.is_empty() || self.syncing.is_some() {
            return;
        }
        self.life = FolderLife(self.life.0 + 1);
        match keep {
            Keep::UpTo(sequence) => self.history.keep(sequence),
            Keep::Nothing(base) => self.history = History::new(base),
        }
        self.turn = Some(Turn::UnderWay(keep));
        out.push(Output::Disk(Op::Begin { stream: id, life: self.life, keep }));
    }

    /// A life has begun: the kept blocks are on the disk, and the stream takes the blocks that waited.
    pub fn begun(&mut self, id: StreamId, life: FolderLife, out: &mut Vec<Output>) {
        if life != self.life || !matches!(self.turn, Some(Turn::UnderWay(_))) {
            return;
        }
        self.turn = None;
        let last = self.history.last().sequence;
        (self.written, self.synced, self.through_from) = (last, last, last + 1);
        for append in std::mem::take(&mut self.queue) {
            self.append(id, append, Planted::default(), out);
        }
        self.acknowledge();
    }

    /// Rule G3: the stream takes a block behind the block that it names, and drops other blocks there. If it has the
    /// block, it keeps it, with all blocks behind it.
    pub fn append(&mut self, id: StreamId, append: Append, planted: Planted, out: &mut Vec<Output>) {
        if self.turn.is_some() {
            if self.queue.len() < QUEUE_MAX {
                self.queue.push_back(append);
            } else {
                self.told.missed = Some(self.history.last());
            }
            return;
        }
        let (before, block) = (append.before, append.block.id);
        let follows = before.sequence.checked_add(1) == Some(block.sequence) && before.term <= block.term;
        if follows && (self.history.has(block) || block.sequence <= self.history.base().id.sequence) {
            if planted.is(Mistake::StaleAppendCuts) && block.sequence < self.history.last().sequence {
                self.begin(id, Keep::UpTo(block.sequence.max(self.history.base().id.sequence)), out);
            }
            if self.history.has(block) {
                self.matched = self.matched.max(block.sequence);
            }
            return self.acknowledge();
        }
        if !follows || !self.history.has(before) || self.flights.len() >= FLIGHTS_MAX {
            self.told.missed = Some(self.history.last());
            return;
        }
        if self.history.last() == before {
            return self.write(id, append, out);
        }
        if planted.is(Mistake::DropsInPlace) {
            self.history.keep(before.sequence);
            self.flights.retain(|flight| flight.sequence <= before.sequence);
            self.written = self.written.min(before.sequence);
            self.synced = self.synced.min(before.sequence);
            return self.write(id, append, out);
        }
        self.queue.push_back(append);
        self.begin(id, Keep::UpTo(before.sequence), out);
    }

    fn write(&mut self, id: StreamId, append: Append, out: &mut Vec<Output>) {
        let Append { through, block, .. } = append;
        if !self.history.push(block.id) {
            self.told.missed = Some(self.history.last());
            return;
        }
        self.matched = self.matched.max(block.id.sequence);
        self.flights.push_back(Flight { sequence: block.id.sequence, through, has_landed: false });
        out.push(Output::Disk(Op::Write { stream: id, life: self.life, through, block }));
    }

    /// A write has returned. It counts when all writes before it have returned.
    pub fn landed(&mut self, id: StreamId, life: FolderLife, sequence: u64, out: &mut Vec<Output>) {
        if life != self.life {
            return;
        }
        if let Some(flight) = self.flights.iter_mut().find(|flight| flight.sequence == sequence) {
            flight.has_landed = true;
        }
        let before = self.written;
        while let Some(flight) = self.flights.front().copied().filter(|flight| flight.has_landed) {
            self.flights.pop_front();
            self.written = flight.sequence;
            if flight.through {
                // It counts when those before it are on the disk, which may lie in the cache.
                self.sync_to = self.sync_to.max(flight.sequence);
            } else {
                self.through_from = flight.sequence + 1;
            }
        }
        if self.written > before {
            self.settle();
            self.acknowledge();
        }
        self.turn(id, out);
        self.go_on_syncing(id, out);
    }

    /// Blocks that were written past the cache are on the disk, if all blocks before them are.
    fn settle(&mut self) {
        if self.through_from <= self.synced + 1 {
            self.synced = self.written;
        }
    }

    /// Has all blocks that are here put on the disk: those that are being written when they are.
    pub fn sync(&mut self, id: StreamId, out: &mut Vec<Output>) {
        let waiting = self.queue.back().map_or(0, |append| append.block.id.sequence);
        self.sync_to = self.history.last().sequence.max(waiting);
        self.go_on_syncing(id, out);
    }

    fn go_on_syncing(&mut self, id: StreamId, out: &mut Vec<Output>) {
        if self.synced < self.sync_to {
            self.sync_written(id, out);
        }
    }

    /// Has written blocks put on the disk, unless a sync is under way: another one follows it if it is needed.
    fn sync_written(&mut self, id: StreamId, out: &mut Vec<Output>) {
        if self.syncing.is_none() && self.turn.is_none() && self.synced < self.written {
            self.syncing = Some(self.written);
            out.push(Output::Disk(Op::Sync { stream: id, life: self.life, upto: self.written }));
        }
    }

    pub fn synced_up_to(&mut self, id: StreamId, life: FolderLife, upto: u64, out: &mut Vec<Output>) {
        if life != self.life || self.syncing != Some(upto) {
            return;
        }
        self.syncing = None;
        self.synced = self.synced.max(upto);
        self.settle();
        self.acknowledge();
        self.turn(id, out);
        self.go_on_syncing(id, out);
    }

    /// True if nothing is under way and all is on the disk. Otherwise it takes the next step to that.
    pub fn comes_to_rest(&mut self, id: StreamId, out: &mut Vec<Output>) -> bool {
        self.turn(id, out);
        if !self.flights.is_empty() || self.turn.is_some() {
            return false;
        }
        self.sync_written(id, out);
        self.synced >= self.written
    }

    /// Another term is promised: nothing is known of its owner's log, and blocks that wait for a new life are dropped.
    pub fn begin_term(&mut self, planted: Planted) {
        self.queue.clear();
        (self.matched, self.claimed, self.sync_to) = (0, 0, 0);
        if !planted.is(Mistake::KeepsQuiet) {
            self.quiet = (0, Cut(0));
        }
    }

    /// The planted mistake [`Mistake::SealsInFlight`]: writes under way count as if they had never departed.
    pub fn forget_flights(&mut self) {
        self.flights.clear();
        self.history.keep(self.written);
    }

    /// The owner has everything committed up to a place. Blocks there may still be others than the owner's.
    pub fn advance(&mut self, committed: u64) {
        self.claimed = self.claimed.max(committed);
        self.committed = self.committed.max(self.claimed.min(self.matched).min(self.synced));
    }

    /// The present term's owner says how far a standby may go. A block that is named is the owner's, with all before it: no
    /// append need say so.
    pub fn note_mark(&mut self, committed: BlockId, quiet: (u64, Cut)) {
        if self.turn.is_none() && self.history.has(committed) {
            self.matched = self.matched.max(committed.sequence);
        }
        self.quiet = self.quiet.max(quiet);
        self.advance(committed.sequence);
    }

    /// How far a standby may go, in the term that is promised.
    pub fn mark(&self, promised: Term, planted: Planted) -> Option<Mark> {
        let upto = if planted.is(Mistake::ShowsUncommitted) { self.synced } else { self.committed };
        // What the stream begins behind is committed, or no owner would have cut it.
        let committed = self.history.at(upto.max(self.history.base().id.sequence))?;
        let (after, cut) = self.quiet;
        let after = BlockId { term: promised, sequence: after };
        let is_here = after.sequence <= committed.sequence && self.history.has(after);
        Some(Mark { committed, quiet: is_here.then_some((after, cut)) })
    }

    /// Gives blocks that are on the disk, and stay if a life is to begin.
    pub fn read(&mut self, id: StreamId, term: Term, from: u64, most: u32, out: &mut Vec<Output>) {
        let stays = match self.turn {
            None => u64::MAX,
            Some(Turn::Wanted(Keep::UpTo(place)) | Turn::UnderWay(Keep::UpTo(place))) => place,
            Some(Turn::Wanted(Keep::Nothing(_)) | Turn::UnderWay(Keep::Nothing(_))) => 0,
        };
        let last = self.synced.min(stays);
        if from <= self.history.base().id.sequence || from > last || most == 0 {
            self.told.lacks = true;
            return;
        }
        let upto = last.min(from.saturating_add(u64::from(most).min(READ_MAX) - 1));
        out.push(Output::Disk(Op::Read { stream: id, term, from, upto }));
    }

    /// Rule G12: the owner says up to where every copy that counts has the records in its store.
    pub fn cut(&mut self, id: StreamId, base: Base, out: &mut Vec<Output>) {
        let is_here = base.id.sequence <= self.synced && self.history.has(base.id);
        if is_here && self.turn.is_none() && base.id != self.history.base().id {
            self.history.begin_at(base);
            out.push(Output::Disk(Op::Cut { stream: id, base }));
        }
    }

    /// Rule G9: a reset goes forward only. A folder that went back would have forgotten what it acknowledged.
    pub fn reset(&mut self, id: StreamId, base: Base, planted: Planted, out: &mut Vec<Output>) {
        if self.turn.is_some() {
            // The owner finds out what is here then.
            self.told.missed = Some(self.history.last());
            return;
        }
        if base.id > self.history.last() || planted.is(Mistake::ResetsBackwards) {
            self.begin(id, Keep::Nothing(base), out);
        } else {
            self.acknowledge();
        }
    }

    /// Reports how far it is. It names no blocks that are being dropped: the next life reports when it has begun.
    fn acknowledge(&mut self) {
        if self.turn.is_some() {
            return;
        }
        self.advance(0);
        let written = self.history.at(self.written);
        let synced = self.history.at(self.synced.max(self.history.base().id.sequence));
        if let (Some(written), Some(synced)) = (written, synced) {
            self.told.ack = Some((written, synced));
        }
    }
}
