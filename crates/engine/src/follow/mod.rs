//! The memory of a standby follows its shard's log: records that another node has made are applied (rules S1 to S3).
//!
//! `standby::Follower` says which record comes next: a committed one, the lowest of all streams. An [`Applier`] applies
//! them in that order, in small batches. A batch is one step under the latches of all its slots, from its first effect to
//! its last. So whoever holds latches sees all of the batches up to one, and nothing of later ones: a reader of several
//! keys, a block that takes further latches later, and each hold of the checkpointer. Connections that meet a batch wait
//! for a latch as they always do. Batches are small, because latches are held for as long as one takes.
//!
//! Keys get the versions that the owner gave them. Nothing is logged, notified, invalidated, served, expired or evicted.
//!
//! Keys that only the store has are asked for ahead of their records, so that loaders read them side by side.

mod ahead;
mod applied;
mod batch;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use clocks::UnixMs;
use command::{About, Before, Generation};
use keyspace::access::{AccessClock, Tracks};
use keyspace::{Db, Held, Key, Local, Need, Reclaim, Unreadable, Waiter, Whereabouts};
use object::{Corrupt, Limits};
use redolog::Lsn;

pub use self::applied::Applied;
use self::batch::{Batch, Item};
use crate::apply::{Changed, apply, stand_in};
use crate::checkpoint::had::{Had, NO_DATABASE, Voids};
use crate::checkpoint::{Loaded, Unreplayable, Why};
use crate::engine::Shared;
use crate::record::version_of;

/// Attempts at busy latches before the caller may do something else, about a microsecond each.
const SPINS: u32 = 40;
/// After so many steps in vain the latches are reserved (rule K1).
const IN_VAIN: u32 = 16;
/// An entry is prefetched so many effects before its turn; its bucket that much earlier again.
const AHEAD: usize = 12;

/// A record as it is in the log: its LSN, and its effects.
pub type Logged<'r> = (Lsn, &'r [u8]);

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Step {
    /// The first records, so many, are applied.
    Applied(usize),
    /// A latch is busy: again, in a moment.
    Busy,
    /// Loaders read keys of the first record: again, in a moment. See [`Applier::insist`].
    Loading,
}

/// Figures since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Records that were applied.
    pub records: u64,
    /// Their effects that were applied to keys.
    pub effects: u64,
    /// Their effects that the store had.
    pub skipped: u64,
    /// Keys that loaders were asked for.
    pub asked: u64,
    /// Keys that were read under latches, as no loader had brought them.
    pub fetched: u64,
    /// Batches.
    pub batches: u64,
}

/// See the module's text. One per keyspace.
pub struct Applier {
    shared: Arc<Shared>,
    local: Local,
    clock: AccessClock,
    limits: Limits,
    /// The store's part of the log, until the records are behind it.
    had: Option<Had>,
    applied: Arc<Applied>,
    /// The last record.
    last: Lsn,
    /// Loaders were asked for the keys of the records up to here.
    looked: Lsn,
    /// The next batch waits for no loader.
    insists: bool,
    /// It names whoever reserves latches.
    name: Waiter,
    /// Steps that found a latch busy, in a row.
    in_vain: u32,
    reserved: Option<Need>,
    /// Emptied tables to free in steps.
    reclaims: Vec<Reclaim>,
    /// Keys that the record under way has changed, while the store may have some of its changes.
    changed: Changed,
    figures: Figures,
    /// A mistake: each slot of a batch by itself (rule S3).
    #[cfg(test)]
    pub(crate) apart: bool,
}

impl Applier {
    /// Follows from what `loaded` says of the store that was opened for the keyspace ([`crate::checkpoint::restore`]);
    /// `None`: it is empty. The first record is the first one that the store may lack, or an earlier one. `index`: its
    /// part of the keyspace, which no worker has. `limits`: when collections change their encoding.
    pub fn new(shared: Arc<Shared>, index: u16, limits: Limits, loaded: Option<&Loaded>, streams: usize) -> Self {
        if let Some(loaded) = loaded {
            shared.transactions.restore(loaded.header.outcomes.clone());
        }
        let had = Had::new(loaded, &shared.keyspace);
        Self::with(shared, index, limits, (Applied::new(loaded, streams), Some(had)))
    }

    /// Follows from memory that has all records up to `last`, and no other: its process has led the log so far (rule S10).
    pub fn after(shared: Arc<Shared>, index: u16, limits: Limits, last: Lsn, streams: usize) -> Self {
        let mut applier = Self::with(shared, index, limits, (Applied::upto(last, streams), None));
        (applier.last, applier.looked) = (last, last);
        applier
    }

    fn with(shared: Arc<Shared>, index: u16, limits: Limits, (applied, had): (Applied, Option<Had>)) -> Self {
        Self {
            local: shared.keyspace.local(usize::from(index)),
            clock: AccessClock::new(u64::from(index) + 1),
            limits,
            applied: Arc::new(applied),
            had,
            last: Lsn::ZERO,
            looked: Lsn::ZERO,
            insists: false,
            name: Waiter { worker: index, token: u64::MAX },
            in_vain: 0,
            reserved: None,
            reclaims: Vec::new(),
            changed: Changed::default(),
            figures: Figures::default(),
            #[cfg(test)]
            apart: false,
            shared,
        }
    }

    /// The records that are applied, for other threads.
    pub fn applied(&self) -> &Arc<Applied> {
        &self.applied
    }

    /// The figures of its work.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Sets time and policy for access times of new entries.
    pub fn set_clock(&mut self, now: UnixMs, tracks: Tracks, log_factor: u32, decay_minutes: u32) {
        self.clock.set(now, tracks, log_factor, decay_minutes);
    }

    /// The next batch reads the store itself, under its latches, if loaders have not brought all keys: they may be
    /// waiting for memory.
    pub fn insist(&mut self) {
        self.insists = true;
    }

    /// All records up to this LSN are applied, and no other one comes at or below it.
    pub fn passed(&mut self, upto: Lsn) {
        if self.had.as_ref().is_some_and(|had| had.is_within(upto)) {
            self.had = None;
            self.applied.publish(std::iter::empty(), true);
        }
    }

    /// Applies the first of `records`, in one batch. They are the next committed ones, lowest LSN first, over all
    /// streams; the more there are, the more keys are asked for ahead. `libraries` is called with the libraries of
    /// functions, as FUNCTION DUMP gives them, when a record has changed them, under the latches. `wake`: connections
    /// that have waited for a latch.
    ///
    /// # Errors
    ///
    /// A record is damaged, out of order, or does not fit the keys, or the store cannot be read. If a part of the batch
    /// was applied, its latches stay taken: nobody may see it, nor a checkpoint have it. The process has to start again.
    pub fn step(
        &mut self,
        records: &[Logged<'_>],
        wake: &mut dyn FnMut(Waiter),
        libraries: &mut dyn FnMut(&[u8]),
    ) -> Result<Step, Unreplayable> {
        let shared = self.shared.clone();
        if records.is_empty() {
            return Ok(Step::Applied(0));
        }
        self.look_ahead(records, wake)?;
        let batch = Batch::cut(records, self.last, self.had.as_ref(), &shared.keyspace)?;
        #[cfg(test)]
        if self.apart {
            return Ok(self.apply_apart(batch));
        }
        let Some(held) = self.acquire(&batch.need, wake) else { return Ok(Step::Busy) };
        self.local.begin_turn();
        let ready = if self.insists { batch.records.len() } else { self.ready(&batch, &held) };
        if ready == 0 {
            self.local.end_turn();
            shared.keyspace.release(held, wake);
            return Ok(Step::Loading);
        }
        self.insists = false;
        if let Err(why) = self.apply(batch, ready, &held, libraries) {
            // The latches are not given back.
            self.local.end_turn();
            return Err(why);
        }
        self.local.publish_counts();
        shared.keyspace.release(held, wake);
        self.local.end_turn();
        self.figures.batches += 1;
        Ok(Step::Applied(ready))
    }

    /// Frees about `allocations` of the memory of deleted keys: for between steps, until nothing is left. True: more is
    /// left.
    pub fn step_garbage(&mut self, allocations: usize) -> bool {
        if let Some(reclaim) = self.reclaims.last_mut()
            && reclaim.step(&mut self.local, allocations)
        {
            self.reclaims.pop();
        }
        !self.local.step_dying(allocations) || !self.reclaims.is_empty()
    }

    /// Takes latches; past newcomers, if that has failed too often. `None`: one is busy.
    fn acquire(&mut self, need: &Need, wake: &mut dyn FnMut(Waiter)) -> Option<Held> {
        let keyspace = &self.shared.keyspace;
        let Some(reserved) = self.reserved.take() else {
            for _ in 0..SPINS {
                if let Ok(held) = keyspace.try_acquire(need, &mut *wake) {
                    self.in_vain = 0;
                    return Some(held);
                }
                std::hint::spin_loop();
            }
            self.in_vain += 1;
            if self.in_vain >= IN_VAIN && keyspace.reserve(need, self.name) {
                self.reserved = Some(need.clone());
            }
            return None;
        };
        if !reserved.covers(need) {
            // More records have come.
            keyspace.cancel_reservation(&reserved, &mut *wake);
            return None;
        }
        match keyspace.try_acquire_reserved(&reserved, wake) {
            Ok(held) => {
                self.in_vain = 0;
                Some(held)
            }
            Err(_) => {
                self.reserved = Some(reserved);
                None
            }
        }
    }

    /// Applies the first `ready` records of a batch, whose latches are held, and says so before any of them goes back.
    fn apply(
        &mut self,
        mut batch: Batch<'_>,
        ready: usize,
        held: &Held,
        libraries: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Unreplayable> {
        let shared = self.shared.clone();
        let mut outcomes = Vec::new();
        let end = batch.records[ready - 1].end;
        (0..end.min(2 * AHEAD)).for_each(|at| self.prefetch_bucket(&batch.items[at]));
        (0..end.min(AHEAD)).for_each(|at| self.prefetch_entry(&batch.items[at]));
        let mut at = 0;
        for record in &batch.records[..ready] {
            let damaged = |why| Unreplayable { lsn: record.lsn, why };
            if self.had.as_ref().is_some_and(|had| had.is_behind(record.lsn)) {
                self.had = None;
            }
            self.changed.clear();
            let alone = record.end == at + 1;
            while at < record.end {
                if let Some(later) = batch.items[..end].get(at + 2 * AHEAD) {
                    self.prefetch_bucket(later);
                }
                if let Some(later) = batch.items[..end].get(at + AHEAD) {
                    self.prefetch_entry(later);
                }
                let item = &mut batch.items[at];
                at += 1;
                match item.about {
                    About::Key => self.one(record.lsn, item, &record.voids, alone, held).map_err(damaged)?,
                    About::Databases(barrier) => {
                        let none = Had::new(None, &shared.keyspace);
                        let had = self.had.as_ref().unwrap_or(&none);
                        let there = (&shared.keyspace, held, &mut self.local);
                        let reclaims = had.change_databases(barrier, record.lsn, there);
                        self.reclaims.extend(reclaims.map_err(|corrupt| damaged(corrupt.into()))?);
                    }
                    About::Libraries(dumped) => libraries(dumped),
                    About::Transaction(outcome) => outcomes.push(outcome),
                    About::Generation(Generation::Ends(_)) => {}
                    About::Generation(Generation::Begins(_)) => {
                        return Err(damaged(Why::Nonsense("the log begins anew here, from another checkpoint")));
                    }
                }
            }
            self.figures.records += 1;
            self.last = record.lsn;
        }
        let is_whole = self.had.is_none();
        let publish = || self.applied.publish(batch.records[..ready].iter().map(|record| record.lsn), is_whole);
        if outcomes.is_empty() {
            publish();
            return Ok(());
        }
        let noted = shared.transactions.follow(&outcomes, publish);
        noted.map_err(|corrupt| Unreplayable { lsn: self.last, why: corrupt.into() })
    }

    #[cfg(test)]
    fn apply_apart(&mut self, mut batch: Batch<'_>) -> Step {
        let shared = self.shared.clone();
        let record_of = |at: usize| batch.records.iter().position(|record| at < record.end).expect("it has a record");
        let mut order: Vec<(u16, usize, Lsn)> =
            (0..batch.items.len()).map(|at| (batch.items[at].key.slot, at, batch.records[record_of(at)].lsn)).collect();
        order.sort();
        self.had = None;
        for (slot, at, lsn) in order {
            let held = std::iter::repeat_with(|| shared.keyspace.try_one(slot)).flatten().next().expect("at some time");
            self.one(lsn, &mut batch.items[at], &Voids::default(), true, &held).expect("our own effect");
            shared.keyspace.release(held, |_| {});
            std::thread::yield_now();
        }
        self.last = batch.records.last().map_or(self.last, |record| record.lsn);
        Step::Applied(batch.records.len())
    }

    fn prefetch_bucket(&self, item: &Item<'_>) {
        self.shared.keyspace.prefetch_bucket(&self.local, item.key.slot, item.key.hash);
    }

    fn prefetch_entry(&self, item: &Item<'_>) {
        self.shared.keyspace.prefetch_entry(&self.local, item.key.slot, item.key.hash);
    }

    /// Applies an effect to its key, unless the store has it.
    fn one(&mut self, lsn: Lsn, item: &mut Item<'_>, voids: &Voids, alone: bool, held: &Held) -> Result<(), Why> {
        let Self { shared, local, clock, had, changed, figures, limits, .. } = self;
        let (shared, clock): (&Shared, &AccessClock) = (shared, clock);
        let keyspace = &shared.keyspace;
        let (key, version) = (item.key, version_of(lsn));
        let physical = keyspace.physical(item.effect.db);
        if had.as_ref().is_some_and(|had| had.has(lsn, item.index, (key.slot, physical), voids)) {
            figures.skipped += 1;
            return Ok(());
        }
        let is_sure = had.as_ref().is_none_or(|had| !had.may_have_later(lsn, key.slot));
        let mut db = Db::new(keyspace, held, local, clock, item.effect.db, version);
        let has_cold = db.may_be_cold(key.slot);
        if has_cold && db.whereabouts(&key) != Whereabouts::Known {
            match item.effect.before() {
                // The store has what the effect found, as nothing in it is later.
                Before::Nothing if is_sure => db.void_load(&key),
                Before::Plain if is_sure => stand_in(&mut db, &key),
                _ => {
                    figures.fetched += 1;
                    fetch(shared, &mut db, &key)?;
                }
            }
        }
        if had.is_some() {
            if keyspace.version_of(held, physical, &key) >= version && !changed.has(physical, &key) {
                figures.skipped += 1;
                return Ok(());
            }
            if !alone {
                changed.note(physical, &key);
            }
        }
        apply(&key, &mut item.effect, &mut db, limits)?;
        if has_cold {
            db.let_go(&key);
        }
        keyspace.raise_slot(held, key.slot, version);
        figures.effects += 1;
        Ok(())
    }
}

/// Reads a held key from the store at once.
fn fetch(shared: &Shared, db: &mut Db<'_>, key: &Key<'_>) -> Result<(), Why> {
    let source = shared.source.get().ok_or(Why::Unreadable)?;
    let space = shared.keyspace.present_space(db.physical());
    let fetched = source.fetch(space, key).map_err(|Unreadable| Why::Unreadable)?;
    db.warm(key, fetched);
    Ok(())
}

fn no_database() -> Why {
    let Corrupt(what) = NO_DATABASE;
    Why::Nonsense(what)
}

impl Drop for Applier {
    /// Others may have the latches that it has reserved. Connections that wait for one try again by themselves.
    fn drop(&mut self) {
        if let Some(reserved) = self.reserved.take() {
            self.shared.keyspace.cancel_reservation(&reserved, |_| {});
        }
    }
}
