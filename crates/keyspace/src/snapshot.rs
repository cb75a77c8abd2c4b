//! A snapshot of one moment, taken while commands go on: copies on writing, key by key.
//!
//! The snapshot begins while every latch is held. Then a walk visits all keys, database by database, slot by slot, in
//! the order of hashes. A command that is about to change or delete a key which the walk has not come to hands over
//! the key as it is; the walk passes over it. A key that is made where the walk has not been is passed over, too.
//! Large values share their leaves with the copy. So every key is handed out once, as it was at the moment.
//!
//! Keys that only the store has need nothing: a command loads such a key before it changes it, which is no change.
//! Emptying a database takes its tables away, and makes a snapshot void: it begins again.
//!
//! Guarded by the slot's latch. The locks of the shards are held for a moment, and no other lock is taken meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use clocks::UnixMs;

use crate::db::EntryRef;
use crate::entry::Entry;
use crate::key::Key;
use crate::keyspace::{Held, Keyspace};
use crate::value::Value;

/// Locks over which the slots are spread.
const SHARDS: usize = 64;
/// Bytes of copies that may wait to be written: those that are being written come on top.
const COPIES_MAX: u64 = 32 << 20;
/// About the bytes of a collection's leaf, which the first change to it copies.
const LEAF: usize = 4 << 10;
/// A database was emptied.
const VOID: u8 = 1;
/// All databases were emptied together.
const ALL_VOID: u8 = 2;
/// The walk has ended.
const END: u64 = u64::MAX;

/// The snapshot under way, if there is one.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// Commands look only at this one.
    on: AtomicBool,
    /// See [`Keyspace::copies_are_too_many`].
    crowded: AtomicBool,
    present: RwLock<Option<Arc<Snapshot>>>,
}

impl Snapshots {
    #[inline]
    pub(crate) fn are_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    fn present(&self) -> Option<Arc<Snapshot>> {
        self.present.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, snapshot: Option<Arc<Snapshot>>) {
        self.on.store(snapshot.is_some(), Relaxed);
        self.crowded.store(false, Relaxed);
        *self.present.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }

    /// A database is emptied, or all of them are.
    pub(crate) fn void(&self, all: bool) {
        if self.are_on()
            && let Some(snapshot) = self.present()
        {
            snapshot.void.fetch_max(if all { ALL_VOID } else { VOID }, Relaxed);
        }
    }
}

/// What happens to a value that is handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// A part of it changes.
    InPlace,
    /// It is deleted, or another one takes its place.
    Gone,
}

/// A key as it was at the moment.
pub struct Kept {
    /// Its physical database.
    pub physical: u16,
    /// Its name.
    pub key: Box<[u8]>,
    /// Its value.
    pub value: Value,
    /// When it expires.
    pub expiry: Option<UnixMs>,
    /// The access bits: see [`crate::access`].
    pub access: u32,
}

impl Kept {
    fn new(physical: u16, entry: Entry) -> Self {
        let seen = EntryRef::new(entry);
        let (value, expiry, access) = (seen.to_value(), seen.expiry(), seen.access());
        Self { physical, key: entry.key().into(), value, expiry, access }
    }

    /// About how many bytes it takes by itself. Leaves of a collection are shared.
    pub fn weight(&self) -> usize {
        let value = match &self.value {
            Value::Short(text) | Value::Raw(text) => text.len(),
            // A change makes another one.
            Value::Blob(text) => text.len(),
            Value::Int(_) | Value::Collection(_) => 0,
        };
        size_of::<Self>() + self.key.len() + value
    }

    /// As [`Self::weight`], once the value has changed.
    fn weight_after(&self, change: Change) -> usize {
        let own = match (&self.value, change) {
            // Only the copy has its leaves then.
            (Value::Collection(collection), Change::Gone) => collection.memory(),
            (Value::Collection(collection), Change::InPlace) => collection.memory().min(LEAF),
            _ => 0,
        };
        self.weight() + own
    }
}

/// See the module's text.
pub struct Snapshot {
    /// Of each physical database, when the walk visits it.
    ranks: Box<[u16]>,
    /// The walk's place: a rank above, a slot below; [`END`] behind the last one.
    place: AtomicU64,
    /// Where it is in the table there. Changes under the latch of that slot.
    hash: AtomicU64,
    shards: Box<[Mutex<Shard>]>,
    /// Entries that were handed over and wait to be taken.
    waiting: AtomicU64,
    /// Their bytes.
    waiting_bytes: AtomicU64,
    /// Bytes of all that were handed over.
    copied: AtomicU64,
    /// Whether databases were emptied: [`VOID`], [`ALL_VOID`].
    void: AtomicU8,
}

#[derive(Default)]
struct Shard {
    /// Keys as they were, and about how many bytes each takes by itself.
    handed: Vec<(Kept, u64)>,
    /// By slot and physical database, keys that the walk passes over.
    passed: BTreeMap<(u16, u16), BTreeSet<Box<[u8]>>>,
}

impl Snapshot {
    fn shard(&self, slot: u16) -> MutexGuard<'_, Shard> {
        self.shards[usize::from(slot) % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place_of(&self, physical: u16, slot: u16) -> u64 {
        u64::from(self.ranks.get(usize::from(physical)).copied().unwrap_or(0)) << 16 | u64::from(slot)
    }

    /// Whether the walk has been where a key belongs. The latch of its slot is held: the answer holds as long.
    fn is_walked(&self, physical: u16, key: &Key<'_>) -> bool {
        let (here, there) = (self.place.load(Acquire), self.place_of(physical, key.slot));
        there < here || there == here && key.hash < self.hash.load(Relaxed)
    }

    /// The walk has come to this place. The latch of the slot where it was before is held, or nothing was there.
    pub fn go_to(&self, physical: u16, slot: u16) {
        self.hash.store(0, Relaxed);
        self.place.store(self.place_of(physical, slot), Release);
    }

    /// The walk has been at all hashes before this one, in a held slot.
    pub fn go_on_at(&self, hash: u64) {
        self.hash.store(hash, Relaxed);
    }

    /// The walk has visited a database in a held slot.
    pub fn leave(&self, physical: u16, slot: u16) {
        self.shard(slot).passed.remove(&(slot, physical));
    }

    /// The walk has been everywhere.
    pub fn end(&self) {
        self.place.store(END, Release);
    }

    /// About how many bytes of copies commands have handed over.
    pub fn copied(&self) -> u64 {
        self.copied.load(Relaxed)
    }

    /// Whether a database was emptied meanwhile: then this is no snapshot.
    pub fn is_void(&self) -> bool {
        self.void.load(Relaxed) > 0
    }

    /// Whether all of them were.
    pub fn is_all_void(&self) -> bool {
        self.void.load(Relaxed) == ALL_VOID
    }

    fn take_handed(&self, to: &mut Vec<Kept>) {
        if self.waiting.load(Relaxed) == 0 {
            return;
        }
        for shard in &self.shards {
            let handed = std::mem::take(&mut shard.lock().unwrap_or_else(PoisonError::into_inner).handed);
            self.waiting.fetch_sub(handed.len() as u64, Relaxed);
            self.waiting_bytes.fetch_sub(handed.iter().map(|(_, bytes)| bytes).sum(), Relaxed);
            to.extend(handed.into_iter().map(|(kept, _)| kept));
        }
    }

    /// Whether the walk passes over a key of a held slot.
    pub fn passes_over(&self, physical: u16, key: &Key<'_>) -> bool {
        self.shard(key.slot).passed.get(&(key.slot, physical)).is_some_and(|names| names.contains(key.bytes))
    }
}

impl Keyspace {
    /// Begins a snapshot of this moment: everything is held. It takes the place of one that is under way.
    pub fn begin_snapshot(&self, held: &Held) -> Arc<Snapshot> {
        assert!(held.is_all(), "a snapshot begins at one moment");
        let mut ranks: Box<[u16]> = (0..self.databases()).map(|_| 0).collect();
        for logical in 0..self.databases() as u16 {
            ranks[usize::from(self.physical(logical))] = logical;
        }
        let snapshot = Arc::new(Snapshot {
            ranks,
            place: AtomicU64::new(0),
            hash: AtomicU64::new(0),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            waiting: AtomicU64::new(0),
            waiting_bytes: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            void: AtomicU8::new(0),
        });
        self.snapshots.set(Some(snapshot.clone()));
        snapshot
    }

    /// Whether so many copies wait to be written that commands which write have to wait. The disk is slower than they.
    #[inline]
    pub fn copies_are_too_many(&self) -> bool {
        self.snapshots.crowded.load(Relaxed)
    }

    /// Takes what commands have handed over.
    pub fn take_handed(&self, snapshot: &Snapshot, to: &mut Vec<Kept>) {
        snapshot.take_handed(to);
        if snapshot.waiting_bytes.load(Relaxed) <= COPIES_MAX / 2 {
            self.snapshots.crowded.store(false, Relaxed);
        }
    }

    /// Ends the snapshot under way: commands hand nothing over any more.
    pub fn end_snapshot(&self) {
        self.snapshots.set(None);
    }

    /// A key is about to change, or was made (`None`).
    #[cold]
    pub(crate) fn hand_over(&self, physical: u16, key: &Key<'_>, entry: Option<(Entry, Change)>) {
        let Some(snapshot) = self.snapshots.present() else { return };
        if snapshot.is_walked(physical, key) {
            return;
        }
        let mut shard = snapshot.shard(key.slot);
        let passed = shard.passed.entry((key.slot, physical)).or_default();
        if passed.contains(key.bytes) {
            return;
        }
        passed.insert(key.bytes.into());
        if let Some((entry, change)) = entry {
            let kept = Kept::new(physical, entry);
            let bytes = kept.weight_after(change) as u64;
            snapshot.copied.fetch_add(bytes, Relaxed);
            if snapshot.waiting_bytes.fetch_add(bytes, Relaxed) + bytes > COPIES_MAX {
                self.snapshots.crowded.store(true, Relaxed);
            }
            shard.handed.push((kept, bytes));
            snapshot.waiting.fetch_add(1, Relaxed);
        }
    }

    /// Appends the keys of a physical database in a held slot that share a bucket, from hash `from` on, without those
    /// that the snapshot passes over. Returns the hash at which the next bucket begins; `None` after the last.
    pub fn copy_for_snapshot(
        &self,
        held: &Held,
        snapshot: &Snapshot,
        (slot, physical): (u16, u16),
        from: u64,
        to: &mut Vec<Kept>,
    ) -> Option<u64> {
        let table = self.body(held, slot).table(physical)?;
        let shard = snapshot.shard(slot);
        let passed = shard.passed.get(&(slot, physical)).filter(|names| !names.is_empty());
        table.step(from, |entry| {
            if !passed.is_some_and(|names| names.contains(entry.key())) {
                to.push(Kept::new(physical, entry));
            }
        })
    }

    /// Where the bucket ends that a hash is in, in a held slot; `None`: it is the last one.
    pub fn bucket_end(&self, held: &Held, (slot, physical): (u16, u16), hash: u64) -> Option<u64> {
        self.body(held, slot).table(physical)?.step(hash, |_| {})
    }
}
