//! A round of the checkpointer: every slot that has changed, and then all of it at once.

use std::sync::Arc;

use clocks::UnixMs;
use keyspace::{Databases, Held, PhysicalKey, SLOTS, Waiter};
use redolog::Lsn;
use store::{Error, Store};

use super::copied::Copied;
use super::counts::Counts;
use super::format::{self, CHUNKS, Header, SLOTS_PER_CHUNK};
use super::load::Loaded;
use super::output::Output;
use super::walk::{Hold, SlotWalk};
use crate::engine::Shared;
use crate::record::{lsn_of, version_of};

/// Attempts at a busy latch before it is left to its holder, about a microsecond.
const SPINS: u32 = 40;
/// Unchanged slots that are visited in one step.
const CLEAN_PER_STEP: usize = if cfg!(test) { 4096 } else { 64 };
/// Tombstones that are visited in one hold when they are dropped.
const DROPPED_PER_HOLD: usize = if cfg!(test) { 2 } else { 256 };

/// Holds of latches are meant to be shorter than this, in nanoseconds. Other work on the core may make them longer.
pub const LONG_HOLD_NS: u64 = 100_000;

/// The checkpointer's surroundings.
pub trait World {
    /// For each stream of the log, the LSN of its last record, committed or not.
    fn left(&self) -> Vec<Lsn>;

    /// For each stream, the LSN up to which it is on the disk, whatever replies promise; with copies, on a majority's
    /// (rule G7). A store that is ahead of it after a power failure would have halves of lost records.
    fn committed(&self) -> Vec<Lsn>;

    /// For each stream, an LSN up to which all of it is in memory: a round that begins now covers that. `None`: memory
    /// is as of no moment yet, and no round may begin. An owner's memory has what is committed, a standby's what it has
    /// applied (rule S2).
    fn applied(&self) -> Option<Vec<Lsn>> {
        Some(self.committed())
    }

    /// Asks for each stream to be on the disk up to this LSN, soon.
    fn want(&mut self, ends: &[Lsn]) {
        let _ = ends;
    }

    /// For each stream, the LSN up to which no record is needed any more: the store has it (rule C3).
    fn cut(&mut self, covered: &[Lsn]);

    /// Wakes a connection that waits for a latch which is free now.
    fn wake(&mut self, waiter: Waiter);

    /// The present libraries of functions, as FUNCTION DUMP gives them.
    fn libraries(&self) -> Vec<u8>;

    /// The time.
    fn now(&self) -> UnixMs;

    /// A time in nanoseconds that never goes back.
    fn nanos(&self) -> u64;
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// No round is under way.
    Idle,
    /// It did something, and there is more.
    More,
    /// A latch is busy: again, in a moment.
    Busy,
    /// The log has to commit records first: again, in a while.
    Waiting,
    /// A round has ended, and is durable.
    Done,
}

/// The checkpointer's figures since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Rounds that have ended well.
    pub rounds: u64,
    /// Slots that were written in the last of them.
    pub slots: u64,
    /// Bytes of keys and values written in the last of them.
    pub bytes: u64,
    /// Changes of keys written in the last of them.
    pub changes: u64,
    /// When it was made; that of an earlier run if there was none in this.
    pub saved_at: UnixMs,
    /// How many of the slots the round under way has looked at.
    pub progress: u64,
    /// How often a latch was held, since the start.
    pub holds: u64,
    /// How often longer than [`LONG_HOLD_NS`].
    pub long_holds: u64,
    /// The longest time, in nanoseconds.
    pub longest_hold: u64,
}

/// See the module's text. One per keyspace.
pub struct Checkpointer {
    shared: Arc<Shared>,
    seed: u64,
    /// C(s) of every slot, as it is durable.
    covered: Box<[Lsn]>,
    /// Of every slot, the highest version of a key that was copied.
    reach: Box<[Lsn]>,
    /// The store's figures when all copies are written.
    counts: Counts,
    /// No version in the store is above this one.
    highest: Lsn,
    round: Option<Round>,
    /// The log up to here is not needed: the store has it, durably. Empty: it has nothing yet.
    cut: Vec<Lsn>,
    copied: Copied,
    output: Output,
    figures: Figures,
    #[cfg(test)]
    pub(super) planted: Planted,
}

/// Mistakes that tests must notice.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Planted {
    #[default]
    None,
    /// C(s) is the slot's last LSN at the end of the walk.
    LateStart,
    /// Tombstones go before the store's deletion is durable.
    EarlyDrop,
    /// The store does not wait for the log.
    NoWait,
    /// The log is cut to its end when the round ends.
    EarlyCut,
    /// Deletions during a walk are not copied.
    DeafWalk,
    /// Copies are dropped when the disk is full.
    Forget,
}

struct Round {
    stage: Stage,
    /// The log up to here is not needed once the round is durable.
    cut: Vec<Lsn>,
    /// The databases when it began.
    databases: Databases,
    /// C(s) of every slot, as the round leaves it.
    covered: Box<[Lsn]>,
    /// Slots it has written.
    slots: Vec<u16>,
    /// Groups of slots of which the checkpoint has moved.
    chunks: [bool; CHUNKS],
}

enum Stage {
    /// Slots from here on were not visited; of these the latch was busy.
    Walking { next: usize, busy: Vec<u16>, walk: Option<SlotWalk> },
    /// Everything has been copied: the log has to commit up to here.
    Waiting { left: Vec<Lsn>, header: Header },
    /// It is durable: tombstones are dropped, in the slots from this one on.
    Dropping { at: usize, after: Option<PhysicalKey> },
}

impl Checkpointer {
    /// The checkpointer of a keyspace that hashes with `seed`. `loaded`: the findings about this store; `None` if it is
    /// empty.
    pub fn new(shared: Arc<Shared>, store: Arc<dyn Store>, seed: u64, loaded: Option<Loaded>) -> Self {
        let epoch = loaded.as_ref().map_or(1, |loaded| loaded.header.epoch);
        let cut = loaded.as_ref().map(|loaded| loaded.header.covered.clone()).unwrap_or_default();
        let (covered, reach, counts, highest) = match loaded {
            Some(loaded) => (loaded.covered, loaded.reach, loaded.counts, loaded.highest),
            None => {
                shared.keyspace.void_marks();
                (vec![Lsn::ZERO; SLOTS].into(), vec![Lsn::ZERO; SLOTS].into(), Counts::default(), Lsn::ZERO)
            }
        };
        assert_eq!(covered.len(), SLOTS);
        covered.iter().enumerate().for_each(|(slot, lsn)| shared.keyspace.set_covered(slot as u16, version_of(*lsn)));
        Self {
            shared,
            seed,
            covered,
            reach,
            counts,
            highest,
            round: None,
            cut,
            copied: Copied::new(epoch),
            output: Output::new(store),
            figures: Figures::default(),
            #[cfg(test)]
            planted: Planted::None,
        }
    }

    /// As [`Self::new`], for a store that begins anew with everything in memory (rule L13). `header`: its present
    /// header; `epoch`: that of no freeze of a value in memory.
    pub fn anew(shared: Arc<Shared>, store: Arc<dyn Store>, seed: u64, header: Option<&Header>, epoch: u64) -> Self {
        let (before, highest) = header.map_or((1, Lsn::ZERO), |header| (header.epoch, header.highest));
        Self { copied: Copied::new(epoch.max(before)), highest, ..Self::new(shared, store, seed, None) }
    }

    /// The number of the next freeze: see [`Self::anew`].
    pub fn epoch(&self) -> u64 {
        self.copied.epoch()
    }

    /// The figures of its work.
    pub fn figures(&self) -> Figures {
        let walked = |round: &Round| if let Stage::Walking { next, .. } = round.stage { next } else { SLOTS };
        Figures { progress: self.round.as_ref().map_or(0, walked) as u64, ..self.figures }
    }

    /// The store's figures when all copies are written, for the spaces that are in use, and no other.
    #[cfg(test)]
    pub(super) fn counts(&self) -> Counts {
        let held = self.acquire(0).expect("nobody else is there");
        let spaces = self.shared.keyspace.databases_now(&held).spaces;
        self.shared.keyspace.release(held, |_| {});
        let mut counts = self.counts.clone();
        counts.keep_only(&spaces);
        counts
    }

    /// True if a round is under way.
    pub fn is_running(&self) -> bool {
        self.round.is_some()
    }

    /// Begins a round, unless one is under way. Later changes may be in it or not.
    pub fn begin(&mut self, world: &mut impl World) -> Step {
        if self.round.is_some() {
            return Step::More;
        }
        // Everything up to here is in memory, and the walks find it there.
        let Some(cut) = world.applied() else { return Step::Waiting };
        let Some(held) = self.acquire(0) else { return Step::Busy };
        self.shared.keyspace.begin_round();
        let databases = self.shared.keyspace.databases_now(&held);
        self.release(held, world);
        (self.output.bytes, self.output.changes) = (0, 0);
        databases.abandoned.iter().for_each(|space| self.output.retire(*space));
        self.counts.forget(&databases.abandoned);
        self.round = Some(Round {
            stage: Stage::Walking { next: 0, busy: Vec::new(), walk: None },
            cut,
            databases,
            covered: self.covered.clone(),
            slots: Vec::new(),
            chunks: [false; CHUNKS],
        });
        Step::More
    }

    /// Has the log cut once more behind the last round that is durable: others needed some of it then, or another node
    /// led it.
    pub fn cut_again(&self, world: &mut impl World) {
        if !self.cut.is_empty() {
            world.cut(&self.cut);
        }
    }

    /// Goes on with the round. After an error it may be called again: copies are kept, and nothing else is done before
    /// they are written.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn step(&mut self, world: &mut impl World) -> Result<Step, Error> {
        let Some(mut round) = self.round.take() else { return Ok(Step::Idle) };
        let step = match &mut round.stage {
            Stage::Walking { .. } => self.walk(&mut round, world),
            Stage::Waiting { .. } => self.commit(&mut round, world),
            Stage::Dropping { .. } => Ok(self.drop_tombstones(&mut round, world)),
        };
        if !matches!(step, Ok(Step::Done)) {
            self.round = Some(round);
        }
        step
    }

    fn acquire(&self, slot: u16) -> Option<Held> {
        (0..SPINS).find_map(|_| {
            self.shared.keyspace.try_one(slot).or_else(|| {
                std::hint::spin_loop();
                None
            })
        })
    }

    fn count_hold(&mut self, nanos: u64) {
        self.figures.holds += 1;
        self.figures.long_holds += u64::from(nanos > LONG_HOLD_NS);
        self.figures.longest_hold = self.figures.longest_hold.max(nanos);
    }

    fn release(&self, held: Held, world: &mut impl World) {
        self.shared.keyspace.release(held, |waiter| world.wake(waiter));
    }

    /// One hold, or a look at some slots that have not changed.
    fn walk(&mut self, round: &mut Round, world: &mut impl World) -> Result<Step, Error> {
        let Stage::Walking { next, busy, walk } = &mut round.stage else { return Ok(Step::More) };
        self.copied.move_to(&mut self.output)?;
        for _ in 0..CLEAN_PER_STEP {
            let mut current = match walk.take() {
                Some(walk) => walk,
                None if *next < SLOTS => {
                    *next += 1;
                    SlotWalk::new(*next as u16 - 1, version_of(round.covered[*next - 1]))
                }
                None => match busy.pop() {
                    Some(slot) => SlotWalk::new(slot, version_of(round.covered[usize::from(slot)])),
                    None => return self.copied_all(round, world),
                },
            };
            let slot = current.slot();
            let Some(held) = self.acquire(slot) else {
                // An unfinished slot comes first. Others may have to wait long: a script holds their latches.
                if current.is_begun() || *next >= SLOTS {
                    *walk = Some(current);
                    return Ok(Step::Busy);
                }
                busy.push(slot);
                continue;
            };
            let since = world.nanos();
            #[cfg(test)]
            if self.planted == Planted::DeafWalk {
                self.shared.keyspace.take_gone(&held, slot, usize::MAX);
            }
            let hold = current.hold(&self.shared.keyspace, &held, (&mut self.copied, &mut self.counts));
            let reach = &mut self.reach[usize::from(slot)];
            *reach = lsn_of(current.reach()).max(*reach);
            #[cfg(test)]
            let hold = self.spoil(hold, slot, &held);
            self.release(held, world);
            self.count_hold(world.nanos().saturating_sub(since));
            let moved = self.copied.move_to(&mut self.output);
            #[cfg(test)]
            if self.planted == Planted::Forget && moved.is_err() {
                self.output.forget();
            }
            match hold {
                Hold::Clean => continue,
                Hold::More => *walk = Some(current),
                Hold::Done(upto) => {
                    round.covered[usize::from(slot)] = lsn_of(upto);
                    round.chunks[usize::from(slot) / SLOTS_PER_CHUNK] = true;
                    round.slots.push(slot);
                }
            }
            return moved.map(|()| Step::More);
        }
        Ok(Step::More)
    }

    /// Every slot was visited: makes the header, and notes what the log has to have committed.
    fn copied_all(&mut self, round: &mut Round, world: &mut impl World) -> Result<Step, Error> {
        let Some(held) = self.acquire(0) else { return Ok(Step::Busy) };
        let mut databases = self.shared.keyspace.databases_now(&held);
        // A change of them needs this latch.
        let libraries = world.libraries();
        self.release(held, world);
        // It has everything about transactions up to where the log is cut.
        let outcomes = self.shared.transactions.outcomes();
        // The log goes on from this map, from where it is cut. Databases that were flushed since the beginning are
        // void.
        databases.map.clone_from(&round.databases.map);
        databases.map_version = round.databases.map_version;
        databases.abandoned.retain(|space| !round.databases.abandoned.contains(space));
        // All copies, and the flushes that the databases know of, had their records left by now.
        let left = world.left();
        self.highest = left.iter().copied().fold(self.highest, Lsn::max);
        let (seed, epoch, highest, covered) = (self.seed, self.copied.epoch(), self.highest, round.cut.clone());
        let saved_at = world.now();
        let header = Header { seed, saved_at, databases, epoch, highest, covered, libraries, outcomes };
        // If that is too long, it may be shorter the next time.
        header.encode()?;
        round.stage = Stage::Waiting { left, header };
        Ok(Step::More)
    }

    /// Waits for the log (rule C2), and makes the whole round durable at once.
    fn commit(&mut self, round: &mut Round, world: &mut impl World) -> Result<Step, Error> {
        let Stage::Waiting { left, header } = &mut round.stage else { return Ok(Step::More) };
        let reached = left.iter().zip(world.committed()).all(|(left, committed)| *left <= committed);
        #[cfg(test)]
        let reached = reached || self.planted == Planted::NoWait;
        if !reached {
            world.want(left);
            return Ok(Step::Waiting);
        }
        #[cfg(test)]
        if self.planted == Planted::EarlyCut {
            header.covered = world.committed();
            round.cut.clone_from(&header.covered);
        }
        self.output.put_own(&format::HEADER_KEY, &header.encode()?);
        let saved_at = header.saved_at;
        for chunk in (0..CHUNKS).filter(|chunk| round.chunks[*chunk]) {
            let first = chunk * SLOTS_PER_CHUNK;
            let [covered, reach] = [&round.covered, &self.reach].map(|all| &all[first..][..SLOTS_PER_CHUNK]);
            let bytes = format::encode_chunk(covered, reach, self.counts.slots(first, SLOTS_PER_CHUNK));
            self.output.put_own(&format::chunk_key(chunk), &bytes);
        }
        self.output.write()?;
        self.output.store.flush()?;
        self.covered.clone_from(&round.covered);
        // Keys that have not changed since may leave memory.
        let keyspace = &self.shared.keyspace;
        let upto = |slot: u16| version_of(round.covered[usize::from(slot)]);
        round.slots.iter().for_each(|slot| keyspace.set_covered(*slot, upto(*slot)));
        self.shared.keyspace.forget_spaces(&round.databases.abandoned);
        self.cut.clone_from(&round.cut);
        world.cut(&self.cut);
        self.figures = Figures {
            rounds: self.figures.rounds + 1,
            slots: round.slots.len() as u64,
            bytes: self.output.bytes,
            changes: self.output.changes,
            saved_at,
            progress: 0,
            ..self.figures
        };
        round.stage = Stage::Dropping { at: 0, after: None };
        Ok(Step::More)
    }

    /// Drops the tombstones: the store has the deletions (rule C4).
    fn drop_tombstones(&mut self, round: &mut Round, world: &mut impl World) -> Step {
        let Stage::Dropping { at, after } = &mut round.stage else { return Step::More };
        for _ in 0..CLEAN_PER_STEP {
            let Some(&slot) = round.slots.get(*at) else { return Step::Done };
            let Some(held) = self.acquire(slot) else { return Step::Busy };
            let since = world.nanos();
            *after = self.shared.keyspace.drop_tombstones(&held, slot, after.take(), DROPPED_PER_HOLD);
            self.release(held, world);
            self.count_hold(world.nanos().saturating_sub(since));
            if after.is_some() {
                return Step::More;
            }
            *at += 1;
        }
        Step::More
    }

    #[cfg(test)]
    fn spoil(&self, hold: Hold, slot: u16, held: &Held) -> Hold {
        match self.planted {
            Planted::LateStart if matches!(hold, Hold::Done(_)) => {
                Hold::Done(self.shared.keyspace.last_version_of(held, std::iter::once(slot)))
            }
            Planted::EarlyDrop if matches!(hold, Hold::Done(_)) => {
                self.shared.keyspace.begin_round();
                self.shared.keyspace.drop_tombstones(held, slot, None, usize::MAX);
                hold
            }
            _ => hold,
        }
    }
}
