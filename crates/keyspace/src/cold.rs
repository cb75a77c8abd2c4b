//! Keys that only the store has, and fetches of them (rule C5).
//!
//! A key is *cold* if the store has it and memory has neither an entry nor a tombstone. In a table with cold keys, the
//! absence of a key says nothing: the table is marked, and every other table pays a test of one bit. A command that
//! needs such a key leaves a *load*: the key is *awaited* from then on. It is *known* once a thread has read the store
//! and put the value into memory. A known key is as memory says, absent or not. It is not evicted while its load is
//! there, so that commands that have waited for it find it.
//!
//! The number of cold keys is as the store counted them at the last checkpoint before a start. A count of zero is
//! believed only if this run has established it ([`Keyspace::complete`]): a wrong count must not hide a key.
//!
//! Guarded by the slot's latch; the locks are never waited for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clocks::UnixMs;

use crate::db::{Db, EntryRef};
use crate::key::Key;
use crate::keyspace::{Held, Keyspace};
use crate::local::{Local, bump, shift};
use crate::lot::Waiter;
use crate::mark::Mark;
use crate::slot::SLOTS;
use crate::tombstone::PhysicalKey;
use crate::value::Value;
use crate::version::Version;

/// The figures of the cold keys of a physical database in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColdFigures {
    /// Keys.
    pub keys: u64,
    /// Keys with an expiry.
    pub expiring: u64,
    /// Hashes with fields that expire.
    pub field_expiring: u64,
    /// The time before which none of them expires; [`UnixMs::NEVER`] if nothing does.
    pub earliest: UnixMs,
}

impl Default for ColdFigures {
    fn default() -> Self {
        Self { keys: 0, expiring: 0, field_expiring: 0, earliest: UnixMs::NEVER }
    }
}

impl ColdFigures {
    /// True if something in it expires.
    pub fn is_volatile(&self) -> bool {
        self.expiring > 0 || self.field_expiring > 0
    }
}

/// The store's record of a key.
pub enum Fetched {
    /// A value.
    There(Record),
    /// A note that the key was gone at this version.
    Gone(Version),
}

/// A value in the store.
pub struct Record {
    /// The type of the key.
    pub value: Value,
    /// When it expires.
    pub expiry: Option<UnixMs>,
    /// The access bits: see [`crate::access`].
    pub access: u32,
    /// The value has all changes of the key up to this version.
    pub version: Version,
    /// The mark of the record.
    pub mark: Mark,
}

impl Fetched {
    /// Its version.
    pub fn version(&self) -> Version {
        match self {
            Fetched::There(record) => record.version,
            Fetched::Gone(version) => *version,
        }
    }
}

/// The name of a load: the answer to a load that is gone must not count for a later one.
pub type Ticket = u64;

/// The knowledge of memory about a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whereabouts {
    /// Memory is right: the key is there, or absent.
    Known,
    /// The store must be read.
    Cold,
    /// The store is being read.
    Awaited,
    /// The store cannot be read.
    Unreadable,
}

/// The store cannot read a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

enum Load {
    Awaited {
        ticket: Ticket,
        waiters: Vec<Waiter>,
        /// The database was emptied meanwhile, or the key came into memory: a fetched value does not count.
        void: bool,
    },
    Known(Ticket),
    Unreadable(Ticket),
}

/// A physical database's part in a slot.
#[derive(Default)]
struct OfDatabase {
    figures: ColdFigures,
    /// The figures are complete.
    complete: bool,
    /// Keys that were evicted since the start.
    evictions: u64,
}

#[derive(Default)]
struct OfSlot {
    /// Most slots have keys of one database: a map would take ten times as much.
    databases: Vec<(u16, OfDatabase)>,
    loads: BTreeMap<PhysicalKey, Load>,
}

impl OfSlot {
    fn of(&mut self, physical: u16) -> Option<&mut OfDatabase> {
        self.databases.iter_mut().find(|(number, _)| *number == physical).map(|(_, of)| of)
    }

    fn remove(&mut self, physical: u16) -> Option<OfDatabase> {
        let at = self.databases.iter().position(|(number, _)| *number == physical)?;
        let of = self.databases.swap_remove(at).1;
        self.databases.shrink_to_fit();
        Some(of)
    }

    fn insert(&mut self, physical: u16, of: OfDatabase) -> &mut OfDatabase {
        self.databases.reserve_exact(1);
        self.databases.push((physical, of));
        let last = self.databases.len() - 1;
        &mut self.databases[last].1
    }

    fn is_empty(&self) -> bool {
        self.databases.is_empty() && self.loads.is_empty()
    }
}

/// See the module's text.
pub(crate) struct Cold {
    slots: Box<[Mutex<Option<Box<OfSlot>>>]>,
    /// C(s) of every slot, as the last checkpoint left it.
    covered: Box<[AtomicU64]>,
    /// How often one of them has changed.
    coverings: AtomicU64,
    tickets: AtomicU64,
    /// Something is or was cold.
    any: AtomicBool,
    /// Number of loads.
    loads: AtomicU64,
}

impl Cold {
    pub(crate) fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Mutex::default()).collect(),
            covered: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            coverings: AtomicU64::new(0),
            tickets: AtomicU64::new(0),
            any: AtomicBool::new(false),
            loads: AtomicU64::new(0),
        }
    }

    fn of(&self, slot: u16) -> MutexGuard<'_, Option<Box<OfSlot>>> {
        self.slots[usize::from(slot)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the state of a slot.
    fn with<R>(&self, slot: u16, f: impl FnOnce(&mut OfSlot) -> R) -> R {
        let mut place = self.of(slot);
        let there = place.get_or_insert_default();
        let before = there.loads.len() as u64;
        let result = f(there);
        match there.loads.len() as u64 {
            after if after > before => drop(self.loads.fetch_add(after - before, Relaxed)),
            after if after < before => {
                self.loads.fetch_sub(before - after, Relaxed);
                if after == 0 {
                    // An empty map keeps its root, of room for eleven: in every slot that would be twelve megabytes.
                    there.loads = BTreeMap::new();
                }
            }
            _ => {}
        }
        if place.as_ref().is_some_and(|there| there.is_empty()) {
            *place = None;
        }
        result
    }

    /// Forgets the cold keys of a physical database in a slot, which is emptied. Returns their figures.
    pub(crate) fn take(&self, slot: u16, physical: u16) -> ColdFigures {
        self.with(slot, |there| there.remove(physical).unwrap_or_default().figures)
    }

    /// A physical database is emptied, or all of them: fetched values of it do not count.
    pub(crate) fn void(&self, only: Option<u16>) {
        if self.loads.load(Relaxed) == 0 {
            return;
        }
        for place in &self.slots {
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            let loads = place.iter_mut().flat_map(|there| &mut there.loads);
            for ((physical, _), load) in loads {
                if let Load::Awaited { void, .. } = load {
                    *void |= only.is_none_or(|only| only == *physical);
                }
            }
        }
    }

    /// A key comes into memory by another way than its load. The load's value does not count: the key may be deleted by
    /// then, without a trace.
    fn void_load(&self, slot: u16, key: &PhysicalKey) {
        if self.loads.load(Relaxed) > 0
            && let Some(Load::Awaited { void, .. }) = self.of(slot).as_mut().and_then(|there| there.loads.get_mut(key))
        {
            *void = true;
        }
    }

    /// True if something of a slot that is cold expires.
    pub(crate) fn is_volatile(&self, slot: u16) -> bool {
        self.of(slot).as_ref().is_some_and(|there| there.databases.iter().any(|(_, of)| of.figures.is_volatile()))
    }
}

impl Keyspace {
    /// True if any key is cold, or ever was.
    #[inline]
    pub fn has_cold(&self) -> bool {
        self.cold.any.load(Relaxed)
    }

    /// True if some key may be cold now, in any slot. Reads all of them.
    pub fn may_have_cold(&self) -> bool {
        (0..SLOTS as u16).any(|slot| self.cold.of(slot).as_ref().is_some_and(|there| !there.databases.is_empty()))
    }

    /// Ends all loads of a held slot without cold keys: no command waits for one.
    pub fn forget_loads(&self, held: &Held, slot: u16) {
        debug_assert!(held.covers(slot));
        self.cold.with(slot, |there| there.loads.clear());
    }

    /// The version up to which the store has the changes of a slot, by the last checkpoint that has ended.
    #[inline]
    pub fn covered(&self, slot: u16) -> Version {
        Version(self.cold.covered[usize::from(slot)].load(Acquire))
    }

    /// Sets that: for the checkpointer, when a checkpoint is durable, and for the start.
    pub fn set_covered(&self, slot: u16, upto: Version) {
        let covered = &self.cold.covered[usize::from(slot)];
        if covered.load(Relaxed) != upto.0 {
            // A worker that evicts by the new one, and every later holder of the latch, sees the count.
            self.cold.coverings.fetch_add(1, Relaxed);
            covered.store(upto.0, Release);
        }
    }

    /// Changes when a checkpoint ends. A thread that has listed the store's keys since then, and takes a slot's latch,
    /// has all cold keys of the slot in the list. Evicted keys were in the store before.
    pub fn coverings(&self) -> u64 {
        self.cold.coverings.load(Acquire)
    }

    /// Sets the store's figures of a physical database in a held slot, of which memory has nothing yet. Not even zero
    /// is believed before [`Self::complete`].
    pub fn restore_cold(&self, held: &Held, slot: u16, physical: u16, figures: ColdFigures, local: &mut Local) {
        let table = self.body(held, slot).table_or_new(physical);
        self.cold.with(slot, |there| {
            let of = OfDatabase { figures, ..OfDatabase::default() };
            let before = there.remove(physical).unwrap_or_default();
            there.insert(physical, of);
            self.count_cold(physical, before.figures, figures, local);
        });
        table.graves.set_cold(true);
        self.cold.any.store(true, Relaxed);
        self.mark_occupied(slot);
        if figures.is_volatile() {
            self.mark_volatile(slot);
        }
    }

    /// The counters of a database include its cold keys.
    pub(crate) fn count_cold(&self, physical: u16, before: ColdFigures, after: ColdFigures, local: &mut Local) {
        let change = |before: u64, after: u64| after as i64 - before as i64;
        let counts = local.unpublished.of(physical);
        counts.keys += change(before.keys, after.keys);
        counts.expires += change(before.expiring, after.expiring);
        counts.field_expires += change(before.field_expiring, after.field_expiring);
        shift(&local.counters.cold, change(before.keys, after.keys));
    }

    /// The cold keys of a physical database in a held slot; `None`: there are none, and that is certain.
    pub fn cold(&self, held: &Held, slot: u16, physical: u16) -> Option<ColdFigures> {
        if !self.body(held, slot).table(physical)?.graves.is_cold() {
            return None;
        }
        Some(self.cold.with(slot, |there| there.of(physical).map(|of| of.figures)).unwrap_or_default())
    }

    /// Keys that are cold, of all databases.
    pub fn cold_keys(&self) -> u64 {
        self.counters().iter().map(|counters| counters.cold.load(Relaxed)).sum::<i64>().max(0) as u64
    }

    /// Whether only the store can tell about a key of a held slot.
    pub fn is_cold(&self, held: &Held, physical: u16, key: &Key<'_>) -> bool {
        let place = || self.cold.of(key.slot);
        let is_known = |load: Option<&Load>| matches!(load, Some(Load::Known(_)));
        !self.is_in_memory(held, key, physical)
            && !is_known(place().as_ref().and_then(|there| there.loads.get(&(physical, key.bytes.into()))))
    }

    /// How many keys of a physical database in a held slot have been evicted since the start. A thread that goes
    /// through the store's keys in several holds has seen all cold ones if that has not changed.
    pub fn evictions(&self, held: &Held, slot: u16, physical: u16) -> u64 {
        debug_assert!(held.covers(slot));
        self.cold.with(slot, |there| there.of(physical).map_or(0, |of| of.evictions))
    }

    /// All the store's keys of a physical database in a held slot were visited: these figures of cold keys are exact
    /// now.
    pub fn complete(&self, held: &Held, slot: u16, physical: u16, figures: ColdFigures, local: &mut Local) {
        let Some(table) = self.body(held, slot).table(physical).filter(|table| table.graves.is_cold()) else { return };
        self.cold.with(slot, |there| {
            if let Some(of) = there.of(physical) {
                self.count_cold(physical, of.figures, figures, local);
                (of.figures, of.complete) = (figures, true);
            }
            if figures.keys == 0 {
                there.remove(physical);
                table.graves.set_cold(false);
            }
        });
        self.mark_if_empty(held, slot);
    }

    /// Sets the time before which no cold key of a physical database in a held slot expires, after a look at all.
    pub fn set_cold_earliest(&self, held: &Held, slot: u16, physical: u16, ms: UnixMs) {
        debug_assert!(held.covers(slot));
        self.cold.with(slot, |there| {
            if let Some(of) = there.of(physical) {
                of.figures.earliest = ms;
            }
        });
    }

    /// The name of the next load: earlier ones have lower names.
    pub fn next_load(&self) -> Ticket {
        self.cold.tickets.load(Relaxed)
    }

    /// True if a key is known, and stays for that, by a load that was asked for before this one. Reads all slots if
    /// there are loads at all.
    pub fn has_known_before(&self, ticket: Ticket) -> bool {
        self.cold.loads.load(Relaxed) > 0
            && (0..SLOTS as u16).any(|slot| {
                let place = self.cold.of(slot);
                let mut loads = place.iter().flat_map(|there| there.loads.values());
                loads.any(|load| matches!(load, Load::Known(own) if *own < ticket))
            })
    }

    /// Ends the loads of all held keys that are known and in memory: the command that has waited for them has run. See
    /// [`Db::let_go`].
    pub fn let_go_of_all(&self, held: &Held) {
        if self.cold.loads.load(Relaxed) == 0 || held.is_all() {
            return;
        }
        for &slot in held.slots() {
            self.cold.with(slot, |there| {
                there.loads.retain(|(physical, bytes), load| {
                    !matches!(load, Load::Known(_)) || !self.is_in_memory(held, &self.hasher().key(bytes), *physical)
                });
            });
        }
    }

    /// Ends a load of a known key, if it is still there: the key may be evicted again, and has to be asked for again.
    /// The slot is held.
    pub fn forget_load(&self, held: &Held, slot: u16, key: &PhysicalKey, ticket: Ticket) {
        debug_assert!(held.covers(slot));
        self.cold.with(slot, |there| {
            if matches!(there.loads.get(key), Some(Load::Known(own) | Load::Unreadable(own)) if *own == ticket) {
                there.loads.remove(key);
            }
        });
    }
}

impl Db<'_> {
    /// True if absent keys of a held slot may be cold.
    #[inline]
    pub fn may_be_cold(&self, slot: u16) -> bool {
        self.keyspace().body(self.held(), slot).table(self.physical()).is_some_and(|table| table.graves.is_cold())
    }

    /// The knowledge of memory about the key.
    #[inline]
    pub fn whereabouts(&self, key: &Key<'_>) -> Whereabouts {
        if self.may_be_cold(key.slot) { self.look_for(key) } else { Whereabouts::Known }
    }

    #[cold]
    fn look_for(&self, key: &Key<'_>) -> Whereabouts {
        let (ks, physical) = (self.keyspace(), self.physical());
        if ks.is_in_memory(self.held(), key, physical) {
            return Whereabouts::Known;
        }
        let place = ks.cold.of(key.slot);
        let load = place.as_ref().and_then(|there| there.loads.get(&(physical, key.bytes.into())));
        match load {
            Some(Load::Known(_)) => Whereabouts::Known,
            Some(Load::Unreadable(_)) => Whereabouts::Unreadable,
            Some(Load::Awaited { .. }) => Whereabouts::Awaited,
            None => Whereabouts::Cold,
        }
    }

    /// Waits for an unknown key. A ticket: the caller is the first, and has to ask the store.
    pub fn await_key(&mut self, key: &Key<'_>, waiter: Option<Waiter>) -> Option<Ticket> {
        let (ks, physical) = (self.keyspace(), self.physical());
        ks.cold.with(key.slot, |there| match there.loads.get_mut(&(physical, key.bytes.into())) {
            Some(Load::Awaited { waiters, .. }) => {
                waiters.extend(waiter);
                None
            }
            Some(Load::Known(_) | Load::Unreadable(_)) => None,
            None => {
                let ticket = ks.cold.tickets.fetch_add(1, Relaxed);
                let load = Load::Awaited { ticket, waiters: waiter.into_iter().collect(), void: false };
                there.loads.insert((physical, key.bytes.into()), load);
                Some(ticket)
            }
        })
    }

    /// The store was asked for an awaited key: `fetched` is its record, `None` if it has none. The waiting connections
    /// are handed to `wake`. False: it is not awaited any more, and nothing has happened. The `Db` is of the logical
    /// database that has the physical one now.
    pub fn know(
        &mut self,
        key: &Key<'_>,
        ticket: Ticket,
        fetched: Result<Option<Fetched>, Unreadable>,
        mut wake: impl FnMut(Waiter),
    ) -> bool {
        let (ks, physical) = (self.keyspace(), self.physical());
        let counts = ks.cold.with(key.slot, |there| {
            let load = there.loads.get_mut(&(physical, key.bytes.into()))?;
            if !matches!(load, Load::Awaited { ticket: own, .. } if *own == ticket) {
                return None;
            }
            let now = if fetched.is_ok() { Load::Known(ticket) } else { Load::Unreadable(ticket) };
            let Load::Awaited { waiters, void, .. } = std::mem::replace(load, now) else { return None };
            waiters.into_iter().for_each(&mut wake);
            Some(!void)
        });
        if counts == Some(true) {
            self.warm(key, fetched.ok().flatten());
        }
        counts.is_some()
    }

    /// The store was asked for a key under the latch that is held since: as [`Self::know`], awaited or not. The load is
    /// there afterwards.
    pub fn know_now(&mut self, key: &Key<'_>, fetched: Option<Fetched>, mut wake: impl FnMut(Waiter)) -> Ticket {
        let (ks, physical) = (self.keyspace(), self.physical());
        let ticket = ks.cold.tickets.fetch_add(1, Relaxed);
        ks.cold.with(key.slot, |there| {
            if let Some(Load::Awaited { waiters, .. }) =
                there.loads.insert((physical, key.bytes.into()), Load::Known(ticket))
            {
                waiters.into_iter().for_each(&mut wake);
            }
        });
        self.warm(key, fetched);
        ticket
    }

    /// Puts the store's record of a key into memory, unless memory knows the key. Returns whether it did. For a thread
    /// that goes through all the store's keys under the latch: no command waits.
    pub fn warm(&mut self, key: &Key<'_>, fetched: Option<Fetched>) -> bool {
        let Some(fetched) = fetched else { return false };
        let (ks, physical) = (self.keyspace(), self.physical());
        if ks.is_in_memory(self.held(), key, physical) {
            return false;
        }
        ks.cold.void_load(key.slot, &(physical, key.bytes.into()));
        let record = match fetched {
            Fetched::There(record) => record,
            Fetched::Gone(version) => {
                self.install_gone(key, version);
                return true;
            }
        };
        let (expires, fields) = (record.mark.is_expiring(), record.mark.has_expiring_fields());
        self.install(key, record);
        bump(&self.local().counters.warmed, 1);
        // It was counted as cold; if not, it counts from now on.
        let complete = ks.cold.with(key.slot, |there| {
            let of = there.of(physical)?;
            let before = of.figures;
            let figures = &mut of.figures;
            figures.keys = figures.keys.saturating_sub(1);
            figures.expiring = figures.expiring.saturating_sub(u64::from(expires));
            figures.field_expiring = figures.field_expiring.saturating_sub(u64::from(fields));
            if !figures.is_volatile() {
                figures.earliest = UnixMs::NEVER;
            }
            ks.count_cold(physical, before, of.figures, self.local());
            (of.figures.keys == 0 && of.complete).then(|| there.remove(physical)).map(drop)
        });
        if complete.is_some() {
            ks.body(self.held(), key.slot).table_or_new(physical).graves.set_cold(false);
        }
        true
    }

    /// A held key is about to be made that the store does not have. The value of a load that is under way does not
    /// count: the key may be deleted by then, without a trace.
    pub fn void_load(&mut self, key: &Key<'_>) {
        self.keyspace().cold.void_load(key.slot, &(self.physical(), key.bytes.into()));
    }

    /// Ends the load of a key that is known and in memory: a command that has waited for it has run. Others ask again,
    /// if it is gone before they have looked. An absent key stays known.
    pub fn let_go(&mut self, key: &Key<'_>) {
        let (ks, physical) = (self.keyspace(), self.physical());
        if ks.cold.loads.load(Relaxed) > 0 && ks.is_in_memory(self.held(), key, physical) {
            ks.cold.with(key.slot, |there| {
                let of = (physical, key.bytes.into());
                if matches!(there.loads.get(&of), Some(Load::Known(_))) {
                    there.loads.remove(&of);
                }
            });
        }
    }

    /// True if the store has an entry of a held slot as it is.
    #[inline]
    pub fn is_clean(&self, slot: u16, entry: &EntryRef<'_>) -> bool {
        let entry = entry.entry();
        entry.mark().is_live() && entry.version() <= self.keyspace().covered(slot)
    }

    /// Takes an entry out of memory that the store has as it is. False: it is not there, the store does not have it, or
    /// it was just fetched for a command. No client may watch the key or wait for it.
    pub fn evict(&mut self, key: &Key<'_>) -> bool {
        let (ks, physical) = (self.keyspace(), self.physical());
        let Some(entry) = self.peek_entry(key) else { return false };
        if !self.is_clean(key.slot, &EntryRef::new(entry)) {
            return false;
        }
        let fields = entry.collection::<object::Hash>().and_then(object::Hash::next_expiry);
        let expiry = entry.expiry();
        let noted = ks.cold.with(key.slot, |there| {
            if there.loads.contains_key(&(physical, key.bytes.into())) {
                return false;
            }
            let of = match there.databases.iter().position(|(number, _)| *number == physical) {
                Some(at) => &mut there.databases[at].1,
                None => there.insert(physical, OfDatabase { complete: true, ..OfDatabase::default() }),
            };
            let before = of.figures;
            of.figures.keys += 1;
            of.figures.expiring += u64::from(expiry.is_some());
            of.figures.field_expiring += u64::from(fields.is_some());
            of.evictions += 1;
            for ms in [expiry, fields].into_iter().flatten() {
                of.figures.earliest = of.figures.earliest.min(ms);
            }
            ks.count_cold(physical, before, of.figures, self.local());
            true
        });
        if noted {
            ks.body(self.held(), key.slot).table_or_new(physical).graves.set_cold(true);
            if !ks.has_cold() {
                ks.cold.any.store(true, Relaxed);
            }
            self.drop_entry(key);
            bump(&self.local().counters.cooled, 1);
        }
        noted
    }
}
