//! Applies effects to the keys of some slots, one after the other (rule C1). A [`super::Dealer`] deals to [`Hand`]s.

use std::sync::Arc;

use clocks::UnixMs;
use command::{Before, Effect, effects};
use keyspace::access::{AccessClock, Tracks};
use keyspace::{Db, Held, Key, Keyspace, Local, SLOTS, Version};
use object::Limits;
use store::Snapshot;

use super::batch::{Batch, Dealt};
use super::had::Had;
use super::later::{Later, Reads};
use super::replay::{Unreplayable, Why};
use crate::apply::{Changed, apply, stand_in};
use crate::record::version_of;

/// The state that all hands share.
pub(super) struct Ground<'a> {
    pub(super) keyspace: &'a Keyspace,
    pub(super) limits: Limits,
    /// The contents of the store.
    pub(super) snapshot: Option<Box<dyn Snapshot>>,
    pub(super) had: Had,
    /// The time, for the access times of new entries.
    pub(super) now: UnixMs,
}

/// An entry is prefetched so many effects before its turn; its bucket, and the slot, that much earlier again.
const AHEAD: usize = 12;

/// Applies the effects that were dealt to it. Each hand has slots of its own.
pub struct Hand<'a> {
    ground: Arc<Ground<'a>>,
    clock: AccessClock,
    /// The record under way.
    current: OfRecord,
    /// The last record of this batch and of the one before: the next batch may have more of their effects.
    ends: [OfRecord; 2],
    later: Later,
    /// For each slot, when a batch is sorted.
    places: Box<[u32]>,
    pub(super) applied: u64,
    pub(super) skipped: u64,
    pub(super) fetched: u64,
}

/// The keys that a record is applied to.
#[derive(Default)]
struct OfRecord {
    /// Its number; 0: none.
    record: u64,
    keys: Changed,
}

/// The treatment of an effect.
enum Decision {
    Apply,
    /// The store has it.
    Skip,
    /// The store is to be asked first.
    PutOff,
}

impl<'a> Hand<'a> {
    pub(super) fn new(ground: Arc<Ground<'a>>, hands: usize) -> Self {
        let mut clock = AccessClock::new(ground.now.0);
        clock.set(ground.now, Tracks::Use, 0, 0);
        Self {
            ground,
            clock,
            current: OfRecord::default(),
            ends: Default::default(),
            later: Later::new(hands),
            places: vec![0; SLOTS].into(),
            applied: 0,
            skipped: 0,
            fetched: 0,
        }
    }

    /// Applies a batch, which is empty afterwards. Some effects may have been put off: see [`Self::settle`].
    ///
    /// # Errors
    ///
    /// A record cannot be applied: the log or the store is damaged, or there is no room.
    pub fn apply(&mut self, local: &mut Local, batch: &mut Batch) -> Result<(), Unreplayable> {
        let last = batch.last_record();
        if last > self.ends[1].record {
            self.ends.swap(0, 1);
            self.ends[1] = OfRecord { record: last, keys: Changed::default() };
        }
        batch.sort(&mut self.places);
        let outcome = self.apply_all(local, batch, None);
        batch.clear();
        outcome?;
        if self.later.is_full() { self.settle(local) } else { Ok(()) }
    }

    /// True if nothing is put off.
    pub(super) fn is_settled(&self) -> bool {
        self.later.is_empty()
    }

    /// Applies the effects that were put off.
    ///
    /// # Errors
    ///
    /// Those of [`Self::apply`].
    pub fn settle(&mut self, local: &mut Local) -> Result<(), Unreplayable> {
        if self.later.is_empty() {
            return Ok(());
        }
        let batch = self.later.take();
        let ground = self.ground.clone();
        let mut reads = ground.snapshot.as_deref().map(Reads::new);
        let outcome = self.apply_all(local, &batch, reads.as_mut());
        self.later.give_back(batch);
        outcome
    }

    fn apply_all(
        &mut self,
        local: &mut Local,
        batch: &Batch,
        reads: Option<&mut Reads<'_>>,
    ) -> Result<(), Unreplayable> {
        local.begin_turn();
        let outcome = self.apply_each(local, batch, reads);
        while !local.step_dying(1000) {}
        local.end_turn();
        outcome
    }

    /// Without `reads`, effects on keys whose record in the store is needed are put off.
    fn apply_each(
        &mut self,
        local: &mut Local,
        batch: &Batch,
        mut reads: Option<&mut Reads<'_>>,
    ) -> Result<(), Unreplayable> {
        let keyspace = self.ground.keyspace;
        let mut outcome = Ok(());
        let mut held: Option<(u16, Held)> = None;
        for index in 0..batch.sorted() {
            let Some(dealt) = batch.nth(index) else { break };
            if let Some(later) = batch.nth(index + 3 * AHEAD) {
                keyspace.prefetch_slot(later.slot);
            }
            if let Some(later) = batch.nth(index + 2 * AHEAD) {
                keyspace.prefetch_bucket(local, later.slot, later.hash);
            }
            if let Some(later) = batch.nth(index + AHEAD) {
                keyspace.prefetch_entry(local, later.slot, later.hash);
            }
            let (key, payload) = dealt.parts(batch);
            if let Some((_, other)) = held.take_if(|(slot, _)| *slot != dealt.slot) {
                keyspace.release(other, |_| {});
            }
            let (_, held) = held.get_or_insert_with(|| {
                let held = loop {
                    match keyspace.try_one(dealt.slot) {
                        Some(held) => break held,
                        None => std::hint::spin_loop(),
                    }
                };
                if let Some(reads) = &mut reads {
                    let here = (index..).map_while(|at| batch.nth(at)).take_while(|other| other.slot == dealt.slot);
                    let physical = keyspace.physical(dealt.db);
                    let stored = keyspace.cold(&held, dealt.slot, physical).map_or(0, |figures| figures.keys);
                    reads.begin(keyspace.present_space(physical), dealt.slot, here.count() as u64, stored);
                }
                (dealt.slot, held)
            });
            if let Err(why) = self.one(local, held, dealt, (&key, payload), reads.as_deref_mut()) {
                outcome = Err(Unreplayable { lsn: dealt.lsn, why });
                break;
            }
        }
        if let Some((_, held)) = held {
            keyspace.release(held, |_| {});
        }
        outcome
    }

    fn one(
        &mut self,
        local: &mut Local,
        held: &Held,
        dealt: &Dealt,
        (key, payload): (&Key<'_>, &[u8]),
        reads: Option<&mut Reads<'_>>,
    ) -> Result<(), Why> {
        let keyspace = self.ground.keyspace;
        let mut effect = Effect { op: dealt.op, db: dealt.db, key: key.bytes, payload: effects::Reader(payload) };
        match self.decide(local, held, dealt, key, effect.before(), reads)? {
            Decision::Apply => {}
            Decision::Skip => {
                self.skipped += 1;
                return Ok(());
            }
            Decision::PutOff => {
                self.later.push(dealt, key, payload);
                return Ok(());
            }
        }
        let mut db = Db::new(keyspace, held, local, &self.clock, dealt.db, version_of(dealt.lsn));
        apply(key, &mut effect, &mut db, &self.ground.limits)?;
        keyspace.raise_slot(held, dealt.slot, version_of(dealt.lsn));
        self.applied += 1;
        Ok(())
    }

    /// Decides if the record is applied to the key: not if the store has it. `before`: the state that the effect found.
    fn decide(
        &mut self,
        local: &mut Local,
        held: &Held,
        dealt: &Dealt,
        key: &Key<'_>,
        before: Before,
        reads: Option<&mut Reads<'_>>,
    ) -> Result<Decision, Why> {
        let keyspace = self.ground.keyspace;
        let physical = keyspace.physical(dealt.db);
        let mut version = keyspace.version_of(held, physical, key);
        if version == Version::ZERO && keyspace.cold(held, dealt.slot, physical).is_some() {
            // Nothing in the store is later than that: the store has the state that the effect found.
            let known = !self.ground.had.may_have_later(dealt.lsn, dealt.slot) && !self.later.may_have(key);
            match before {
                Before::Nothing if known => {}
                Before::Plain if known => {
                    stand_in(&mut Db::new(keyspace, held, local, &self.clock, dealt.db, Version::ZERO), key);
                }
                _ => {
                    let space = keyspace.present_space(physical);
                    if space != 0 && self.ground.snapshot.is_some() {
                        let Some(reads) = reads else { return Ok(Decision::PutOff) };
                        self.fetched += 1;
                        let fetched = reads.fetch(space, key).map_err(Why::Store)?;
                        Db::new(keyspace, held, local, &self.clock, dealt.db, Version::ZERO).warm(key, fetched);
                    }
                    version = keyspace.version_of(held, physical, key);
                }
            }
        }
        let (is_there, alone) = (version >= version_of(dealt.lsn), dealt.alone);
        let keys = self.changed_by(dealt.record);
        if is_there {
            // Or the record itself has done that.
            return Ok(if keys.has(physical, key) { Decision::Apply } else { Decision::Skip });
        }
        if !alone {
            keys.note(physical, key);
        }
        Ok(Decision::Apply)
    }

    /// The keys that a record is applied to. All effects of a record on a key come together.
    fn changed_by(&mut self, record: u64) -> &mut Changed {
        if let Some(end) = self.ends.iter().position(|end| end.record == record) {
            return &mut self.ends[end].keys;
        }
        if self.current.record != record {
            self.current.record = record;
            self.current.keys.clear();
        }
        &mut self.current.keys
    }
}
