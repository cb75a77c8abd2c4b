//! Deleted keys that the store may still have (rule C4), and the state of a slot that a checkpoint walks.
//!
//! Entries and tombstones hold the store's state of their key: its [`Mark`]. If the store has a record of a deleted
//! key, or may have had one, the deletion leaves a tombstone. It lies here until the store's deletion is durable; a new
//! key takes the mark from its tombstone. Keys that come and go between two checkpoints leave nothing. Copies of a
//! checkpoint count as if the store had them. So a key whose deletion was copied is [`Mark::DEAD`], and so is its
//! successor, because readers of the store may still find it.
//!
//! While a checkpoint *walks* a slot in several holds, replay will skip changes from before the walk and apply later
//! ones, to keys as the walk found them. A key that is deleted before the walk gets there would not be found. So every
//! deletion of that time leaves a tombstone, and is noted as *gone* for the walk to write down.
//!
//! Guarded by the slot's latch; the locks are never waited for.

mod of_database;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clocks::UnixMs;
use object::saved::Frozen;

use crate::db::EntryRef;
use crate::entry::Entry;
use crate::key::Key;
use crate::keyspace::{Held, Keyspace};
use crate::local::{Local, shift};
use crate::mark::Mark;
use crate::slot::SLOTS;
use crate::value::{Kind, freeze_collection};
use crate::version::Version;

pub(crate) use of_database::OfDatabase;

/// A table's state of its keys' tombstones: their number, and whether a checkpoint is in the middle of the table.
#[derive(Default)]
pub(crate) struct Graves(Cell<u32>);

const WALKED: u32 = 1 << 31;
/// Memory does not know absent keys (see `cold`).
const COLD: u32 = 1 << 30;
/// While it was walked, keys have become cold.
const LEFT: u32 = 1 << 29;

impl Graves {
    /// True if a new key must look for a tombstone.
    #[inline]
    pub(crate) fn are_of_interest(&self) -> bool {
        self.0.get() != 0
    }

    #[inline]
    pub(crate) fn are_walked(&self) -> bool {
        self.0.get() & WALKED != 0
    }

    fn set_walked(&self, walked: bool) {
        let flags = if walked { WALKED } else { 0 };
        self.0.set(self.0.get() & !(WALKED | LEFT) | flags);
    }

    #[inline]
    pub(crate) fn is_cold(&self) -> bool {
        self.0.get() & COLD != 0
    }

    pub(crate) fn set_cold(&self, cold: bool) {
        let left = if self.are_walked() { LEFT } else { 0 };
        self.0.set(if cold { self.0.get() | COLD | left } else { self.0.get() & !COLD });
    }

    fn change(&self, by: i32) {
        self.0.set(self.0.get().wrapping_add_signed(by));
    }

    pub(crate) fn reset(&self) {
        self.0.set(0);
    }
}

/// A key that is gone.
#[derive(Clone, Copy)]
pub(crate) struct Tombstone {
    /// Version of the deletion.
    version: Version,
    /// Round of the checkpointer in which it was made.
    round: u32,
    /// The slot was being walked.
    walked: bool,
    /// The store's state.
    mark: Mark,
}

#[cfg(test)]
impl Tombstone {
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }
}

/// A key with its physical database.
pub type PhysicalKey = (u16, Box<[u8]>);

/// Those of a slot.
#[derive(Default)]
struct Tombstones {
    /// In the order of their numbers; none is empty.
    databases: Vec<(u16, OfDatabase)>,
    /// Keys that were deleted since the walk began and that it does not know yet.
    gone: BTreeSet<PhysicalKey>,
}

impl Tombstones {
    fn of(&self, physical: u16) -> Option<&OfDatabase> {
        self.databases.iter().find(|(number, _)| *number == physical).map(|(_, there)| there)
    }

    fn of_mut(&mut self, physical: u16) -> Option<&mut OfDatabase> {
        self.databases.iter_mut().find(|(number, _)| *number == physical).map(|(_, there)| there)
    }

    /// True: it is the first of this key.
    fn insert(&mut self, physical: u16, key: &[u8], tombstone: Tombstone) -> bool {
        if let Some(there) = self.of_mut(physical) {
            return there.insert(key, tombstone);
        }
        let at = self.databases.partition_point(|(number, _)| *number < physical);
        let mut there = OfDatabase::default();
        there.insert(key, tombstone);
        self.databases.reserve_exact(1);
        self.databases.insert(at, (physical, there));
        true
    }

    fn remove(&mut self, physical: u16, key: &[u8]) -> Option<Tombstone> {
        let removed = self.of_mut(physical)?.remove(key);
        self.databases.retain(|(_, there)| !there.is_empty());
        removed
    }

    fn take(&mut self, physical: u16) -> Option<OfDatabase> {
        let at = self.databases.iter().position(|(number, _)| *number == physical)?;
        Some(self.databases.remove(at).1)
    }
}

pub(crate) struct Graveyard {
    slots: Box<[Mutex<Option<Box<Tombstones>>>]>,
    round: AtomicU32,
    /// Tombstones that no worker counts any more.
    dropped: AtomicI64,
    /// Slots whose marks are void: the store has nothing of them.
    void: Box<[AtomicBool]>,
}

impl Graveyard {
    pub(crate) fn new() -> Self {
        let slots = (0..SLOTS).map(|_| Mutex::default()).collect();
        let void = (0..SLOTS).map(|_| AtomicBool::new(false)).collect();
        Self { slots, round: AtomicU32::new(0), dropped: AtomicI64::new(0), void }
    }

    fn of(&self, slot: u16) -> MutexGuard<'_, Option<Box<Tombstones>>> {
        self.slots[usize::from(slot)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out the tombstones of a slot for a physical database that is emptied.
    pub(crate) fn take(&self, slot: u16, physical: u16) -> Option<OfDatabase> {
        let mut place = self.of(slot);
        let tombstones = place.as_mut()?;
        tombstones.gone.retain(|(db, _)| *db != physical);
        let taken = tombstones.take(physical);
        if tombstones.databases.is_empty() && tombstones.gone.is_empty() {
            *place = None;
        }
        self.dropped.fetch_add(taken.as_ref().map_or(0, OfDatabase::len) as i64, Relaxed);
        taken
    }
}

impl Keyspace {
    /// Notes the deletion of a key that the store may have, or that a walk must know of.
    #[cold]
    pub(crate) fn bury_key(
        &self,
        held: &Held,
        key: &Key<'_>,
        physical: u16,
        (version, mark): (Version, Mark),
        local: &Local,
    ) {
        if self.are_marks_void(key.slot) {
            return;
        }
        let table = self.body(held, key.slot).table_or_new(physical);
        let (round, walked) = (self.graveyard.round.load(Relaxed), table.graves.are_walked());
        let mut place = self.graveyard.of(key.slot);
        let tombstones = place.get_or_insert_default();
        if walked {
            tombstones.gone.insert((physical, key.bytes.into()));
        }
        if tombstones.insert(physical, key.bytes, Tombstone { version, round, walked, mark }) {
            table.graves.change(1);
            shift(&local.counters.tombstones, 1);
        }
    }

    /// Removes the tombstone of a key that is there again. Returns the store's state; `None`: there was none.
    #[cold]
    pub(crate) fn dig_up(&self, held: &Held, key: &Key<'_>, physical: u16, local: &Local) -> Option<Mark> {
        let mut place = self.graveyard.of(key.slot);
        let tombstones = place.as_mut()?;
        let dug_up = tombstones.remove(physical, key.bytes)?;
        if tombstones.databases.is_empty() && tombstones.gone.is_empty() {
            *place = None;
        }
        self.body(held, key.slot).table_or_new(physical).graves.change(-1);
        shift(&local.counters.tombstones, -1);
        Some(dug_up.mark)
    }

    /// Number of tombstones.
    pub fn tombstones(&self) -> u64 {
        let made: i64 = self.counters().iter().map(|counters| counters.tombstones.load(Relaxed)).sum();
        (made - self.graveyard.dropped.load(Relaxed)).max(0) as u64
    }

    /// A round of the checkpointer begins: later tombstones can be told from earlier ones.
    pub fn begin_round(&self) {
        self.graveyard.round.fetch_add(1, Relaxed);
    }

    /// The round of the checkpointer under way, or the last: tombstones made in it are there.
    pub fn round(&self) -> u32 {
        self.graveyard.round.load(Relaxed)
    }

    /// True if a held slot has tombstones.
    pub fn has_tombstones(&self, held: &Held, slot: u16) -> bool {
        debug_assert!(held.covers(slot));
        self.graveyard.of(slot).is_some()
    }

    /// The physical databases with keys in a held slot, now or before.
    pub fn tables_of(&self, held: &Held, slot: u16) -> smallvec::SmallVec<[u16; 4]> {
        self.body(held, slot).tables().map(|(number, _)| number).collect()
    }

    /// Number of keys of all databases in a held slot.
    pub fn keys_of(&self, held: &Held, slot: u16) -> u64 {
        self.body(held, slot).tables().map(|(_, table)| u64::from(table.count.get())).sum()
    }

    /// Begins or ends a walk over a held slot, in several holds: deletions are noted meanwhile.
    pub fn set_walked(&self, held: &Held, slot: u16, walked: bool) {
        self.body(held, slot).tables().for_each(|(_, table)| table.graves.set_walked(walked));
        if !walked {
            let mut place = self.graveyard.of(slot);
            if let Some(tombstones) = place.as_mut() {
                tombstones.gone.clear();
                if tombstones.databases.is_empty() {
                    *place = None;
                }
            }
        }
    }

    /// True if keys of a physical database in a held slot that is walked have left memory since the walk began.
    pub fn has_lost_keys(&self, held: &Held, slot: u16, physical: u16) -> bool {
        self.body(held, slot).table(physical).is_some_and(|table| table.graves.0.get() & LEFT != 0)
    }

    /// Takes some of the keys that were deleted since the walk over a held slot began, at most `most`. They may be
    /// there again.
    pub fn take_gone(&self, held: &Held, slot: u16, most: usize) -> Vec<PhysicalKey> {
        debug_assert!(held.covers(slot));
        let mut place = self.graveyard.of(slot);
        let Some(tombstones) = place.as_mut() else { return Vec::new() };
        (0..most).map_while(|_| tombstones.gone.pop_first()).collect()
    }

    /// Calls `f` with the tombstones of a held slot that were there when its walk began, after a key, at most `most`,
    /// and with the store's state. From now on the store has nothing of these keys. Returns the last key seen, if there
    /// may be more.
    pub fn tombstones_after(
        &self,
        held: &Held,
        slot: u16,
        after: Option<PhysicalKey>,
        most: usize,
        mut f: impl FnMut(u16, &[u8], Mark),
    ) -> Option<PhysicalKey> {
        debug_assert!(held.covers(slot));
        let round = self.graveyard.round.load(Relaxed);
        self.each_tombstone_after(slot, after, most, |db, key, tombstone| {
            // A deletion that is noted as gone is written down as such.
            if !(tombstone.walked && tombstone.round == round) {
                f(db, key, std::mem::replace(&mut tombstone.mark, Mark::DEAD));
            }
        })
    }

    pub(crate) fn each_tombstone_after(
        &self,
        slot: u16,
        after: Option<PhysicalKey>,
        most: usize,
        mut f: impl FnMut(u16, &[u8], &mut Tombstone),
    ) -> Option<PhysicalKey> {
        let mut place = self.graveyard.of(slot);
        let tombstones = place.as_mut()?;
        let first = after.as_ref().map_or(0, |(db, _)| *db);
        let mut seen = 0;
        for (db, there) in tombstones.databases.iter_mut().filter(|(db, _)| *db >= first) {
            let from = after.as_ref().filter(|(same, _)| same == db).map(|(_, key)| &**key);
            let last = there.each_after(from, |key, tombstone| {
                f(*db, key, tombstone);
                seen += 1;
                seen == most
            });
            if let Some(last) = last {
                return Some((*db, last));
            }
        }
        None
    }

    /// Drops tombstones of a held slot from before the present round, after a key, visiting at most `most`. The store's
    /// deletion is durable, and the log's records about them are not needed any more. Returns the last key visited, if
    /// there may be more.
    pub fn drop_tombstones(
        &self,
        held: &Held,
        slot: u16,
        after: Option<PhysicalKey>,
        most: usize,
    ) -> Option<PhysicalKey> {
        let round = self.graveyard.round.load(Relaxed);
        let mut old: Vec<PhysicalKey> = Vec::new();
        let next = self.each_tombstone_after(slot, after, most, |db, key, tombstone| {
            if tombstone.round != round {
                old.push((db, key.into()));
            }
        });
        let mut place = self.graveyard.of(slot);
        let Some(tombstones) = place.as_mut() else { return next };
        for (db, key) in &old {
            if tombstones.remove(*db, key).is_some() {
                self.body(held, slot).table_or_new(*db).graves.change(-1);
            }
        }
        self.graveyard.dropped.fetch_add(old.len() as i64, Relaxed);
        if tombstones.databases.is_empty() && tombstones.gone.is_empty() {
            *place = None;
        }
        next
    }

    /// Calls `f` with the entries of a slot's physical database that share a bucket, from hash `from` on, and were
    /// changed above version `above`. A large value is frozen, by the number that `epochs` gives. The mark says
    /// afterwards that the store has the entry; `f` gets the former mark. Returns the hash at which to go on, `None`
    /// after the last, and the time before which none of these entries, changed or not, nor their fields expire. The
    /// slot is held.
    pub fn copy_changed(
        &self,
        held: &Held,
        (slot, physical): (u16, u16),
        from: u64,
        above: Version,
        epochs: &mut dyn FnMut() -> NonZeroU64,
        mut f: impl FnMut(EntryRef<'_>, Option<Frozen>, Mark),
    ) -> (Option<u64>, UnixMs) {
        let Some(table) = self.body(held, slot).table(physical) else { return (None, UnixMs::NEVER) };
        let mut earliest = UnixMs::NEVER;
        let next = table.step(from, |entry| {
            if entry.version() > above {
                let (frozen, had) = copy(entry, epochs);
                f(EntryRef::new(entry), frozen, had);
            }
            if let Some(ms) = entry.expiry() {
                earliest = earliest.min(ms);
            }
            if entry.has_field_expiry() {
                earliest = earliest.min(EntryRef::new(entry).field_expiry().unwrap_or(UnixMs::NEVER));
            }
        });
        (next, earliest)
    }

    /// The entry of a key of a physical database in a held slot, copied as [`Self::copy_changed`] does it.
    pub fn copy_key<'a>(
        &self,
        held: &'a Held,
        physical: u16,
        key: &Key<'_>,
        epochs: &mut dyn FnMut() -> NonZeroU64,
    ) -> Option<(EntryRef<'a>, Option<Frozen>, Mark)> {
        let (_, entry) = self.body(held, key.slot).table(physical)?.find(key)?;
        let (frozen, had) = copy(entry, epochs);
        Some((EntryRef::new(entry), frozen, had))
    }

    /// A checkpoint writes down that a deleted key of a physical database in a held slot is gone. Returns the store's
    /// state until now.
    pub fn copy_gone(&self, held: &Held, physical: u16, key: &Key<'_>) -> Mark {
        debug_assert!(held.covers(key.slot));
        let mut place = self.graveyard.of(key.slot);
        let there = place.as_mut().and_then(|tombstones| tombstones.of_mut(physical));
        let tombstone = there.and_then(|there| there.get_mut(key.bytes));
        tombstone.map_or(Mark::NONE, |tombstone| std::mem::replace(&mut tombstone.mark, Mark::DEAD))
    }

    /// Declares that there is no store, or that it has nothing of memory, whatever entries and tombstones say: no
    /// deletion leaves a tombstone, no key is evicted. A checkpoint of a slot begins with [`Self::clear_marks`].
    pub fn void_marks(&self) {
        self.graveyard.void.iter().for_each(|void| void.store(true, Relaxed));
        (0..SLOTS as u16).for_each(|slot| self.set_covered(slot, Version::ZERO));
    }

    /// True if the marks of a slot are void.
    #[inline]
    pub fn are_marks_void(&self, slot: u16) -> bool {
        self.graveyard.void[usize::from(slot)].load(Relaxed)
    }

    /// Drops the tombstones of a held slot whose marks are void.
    pub fn clear_tombstones(&self, held: &Held, slot: u16) {
        let body = self.body(held, slot);
        for physical in self.tables_of(held, slot) {
            let taken = self.graveyard.take(slot, physical).map_or(0, |taken| taken.len());
            if let Some(table) = body.table(physical) {
                table.graves.change(-(taken as i32));
            }
        }
    }

    /// Clears the void marks of a slot's physical database, of the entries that share a bucket, from hash `from` on.
    /// Returns the hash at which to go on; `None` after the last. The slot is held.
    pub fn clear_marks(&self, held: &Held, (slot, physical): (u16, u16), from: u64) -> Option<u64> {
        debug_assert!(self.are_marks_void(slot));
        self.body(held, slot).table(physical)?.step(from, |entry| entry.set_mark(Mark::NONE))
    }

    /// All marks of a held slot were cleared: from now on they are valid.
    pub fn set_marks_cleared(&self, held: &Held, slot: u16) {
        debug_assert!(held.covers(slot));
        self.graveyard.void[usize::from(slot)].store(false, Relaxed);
    }

    /// True if there is an entry or a tombstone of a key.
    pub fn is_in_memory(&self, held: &Held, key: &Key<'_>, physical: u16) -> bool {
        let Some(table) = self.body(held, key.slot).table(physical) else { return false };
        if table.find(key).is_some() {
            return true;
        }
        let place = self.graveyard.of(key.slot);
        let there = place.as_ref().and_then(|tombstones| tombstones.of(physical));
        there.is_some_and(|there| there.get(key.bytes).is_some())
    }

    /// The version of a key of a physical database in a held slot, or of its deletion; 0 if neither is known. For
    /// replay.
    pub fn version_of(&self, held: &Held, physical: u16, key: &Key<'_>) -> Version {
        let Some(table) = self.body(held, key.slot).table(physical) else { return Version::ZERO };
        if let Some((_, entry)) = table.find(key) {
            return entry.version();
        }
        if !table.graves.are_of_interest() {
            return Version::ZERO;
        }
        let place = self.graveyard.of(key.slot);
        let there = place.as_ref().and_then(|tombstones| tombstones.of(physical));
        there.and_then(|there| there.get(key.bytes)).map_or(Version::ZERO, |tombstone| tombstone.version)
    }
}

/// Copies an entry for a checkpoint: its value, frozen, if it is large, and the store's former state.
fn copy(entry: Entry, epochs: &mut dyn FnMut() -> NonZeroU64) -> (Option<Frozen>, Mark) {
    let had = entry.mark();
    let frozen = match entry.kind() {
        Kind::Blob => Frozen::of_string(entry.blob(), epochs),
        _ => freeze_collection(entry, epochs),
    };
    let fields = EntryRef::new(entry).field_expiry().is_some();
    entry.set_mark(Mark::live(entry.expiry().is_some(), fields, frozen.is_some()));
    (frozen, had)
}
