//! The slots, and how exclusive access to some of them is acquired and given back.

use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};

use clocks::UnixMs;
use smallvec::SmallVec;

use crate::acquire::{Latches, Waiting};
use crate::cold::Cold;
use crate::counts::Unpublished;
use crate::epoch::{Epochs, Retired};
use crate::heap::Heap;
use crate::key::KeyHasher;
use crate::latch::Latch;
use crate::local::{Counters, Local};
use crate::lot::Waiter;
use crate::slot::SLOTS;
use crate::snapshot::Snapshots;
use crate::space::Spaces;
use crate::table::Table;
use crate::tombstone::Graveyard;
use crate::version::Version;

/// One slot: its latch and the root of its table on one line, so that taking the latch brings the table along.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Slot {
    latch: Latch,
    body: Body,
}

/// The state that the latch of a slot guards. All of it is in cells: no code ever has an exclusive reference to it,
/// because others read the root of the main table at any time.
#[derive(Default)]
pub(crate) struct Body {
    /// Physical database 0.
    main: Table,
    /// The other physical databases that this slot has used; they stay.
    others: OnceCell<Box<Other>>,
    /// Version of the last write of the slot (rule L1).
    last_version: Cell<Version>,
    /// The engine's object on the slot: watched keys and blocked clients.
    attachment: Cell<Attached>,
}

/// In one word of the slot's line.
type Attached = Option<Box<Box<dyn Any + Send>>>;

/// The table of a physical database other than 0.
struct Other {
    number: u16,
    table: Table,
    next: OnceCell<Box<Other>>,
}

impl Drop for Other {
    /// One by one, not one inside the other: there may be tens of thousands.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut other) = next {
            next = other.next.take();
        }
    }
}

const _: () = assert!(size_of::<Slot>() == 64);

impl Body {
    #[inline]
    pub(crate) fn table(&self, db: u16) -> Option<&Table> {
        if db == 0 {
            return Some(&self.main);
        }
        self.others().find(|other| other.number == db).map(|other| &other.table)
    }

    pub(crate) fn table_or_new(&self, db: u16) -> &Table {
        if db == 0 {
            return &self.main;
        }
        let mut place = &self.others;
        loop {
            let other =
                place.get_or_init(|| Box::new(Other { number: db, table: Table::default(), next: OnceCell::new() }));
            if other.number == db {
                return &other.table;
            }
            place = &other.next;
        }
    }

    fn others(&self) -> impl Iterator<Item = &Other> {
        std::iter::successors(self.others.get(), |other| other.next.get()).map(|other| &**other)
    }

    /// Every table with the number of its physical database.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (u16, &Table)> {
        std::iter::once((0, &self.main)).chain(self.others().map(|other| (other.number, &other.table)))
    }

    /// Notes a write at `version`.
    #[inline]
    pub(crate) fn written_at(&self, version: Version) {
        self.last_version.set(self.last_version.get().max(version));
    }

    fn is_lasting(&self) -> bool {
        self.tables().all(|(_, table)| table.volatile.get() == 0)
    }

    fn is_empty(&self) -> bool {
        self.tables().all(|(_, table)| table.count.get() == 0 && !table.graves.is_cold())
    }
}

impl Latches for [Slot] {
    #[inline]
    fn latch(&self, slot: u16) -> &Latch {
        &self[usize::from(slot)].latch
    }
}

// SAFETY: the cells of the body are touched by the holder of the latch alone (see `Held`, which is not `Sync`); what
// others read without it are atomics.
unsafe impl Sync for Slot {}

/// All slots of a node.
pub struct Keyspace {
    slots: Box<[Slot]>,
    hasher: KeyHasher,
    heap: Heap,
    /// A bit per slot that may hold keys: iteration skips the others.
    occupied: Box<[AtomicU64]>,
    /// A bit per slot that may hold something that expires: the sweep skips the others.
    volatile: Box<[AtomicU64]>,
    /// Physical database of each logical one; changed by SWAPDB with every latch held.
    database_map: Box<[AtomicU16]>,
    /// Version of the last command that held every latch; written by it.
    floor: AtomicU64,
    /// Deleted keys that the store may still have, and what it calls the databases.
    pub(crate) graveyard: Graveyard,
    /// Keys that only the store has.
    pub(crate) cold: Cold,
    pub(crate) spaces: Spaces,
    /// The snapshot under way.
    pub(crate) snapshots: Snapshots,
    /// Checksums of payloads and files may be wrong (DEBUG SET-SKIP-CHECKSUM-VALIDATION).
    pub skips_checksums: AtomicBool,
    waiting: Waiting,
    epochs: Arc<Epochs>,
    counters: Box<[Arc<Counters>]>,
}

/// Latches held by one acquirer. It must be given back with [`Keyspace::release`].
#[derive(Default)]
#[must_use = "latches stay taken until they are released"]
pub struct Held {
    slots: SmallVec<[u16; 8]>,
    all: bool,
    /// Not `Sync`: one thread at a time has the latches.
    _one_thread: PhantomData<Cell<()>>,
}

impl Held {
    /// True if `slot` is held.
    #[inline]
    pub fn covers(&self, slot: u16) -> bool {
        self.slots[..] == [slot] || self.covers_with_others(slot)
    }

    #[inline(never)]
    fn covers_with_others(&self, slot: u16) -> bool {
        /// Up to so many, a look at all is faster; scripts may hold thousands.
        const FEW: usize = 16;
        let slots = &self.slots[..];
        self.all || if slots.len() <= FEW { slots.contains(&slot) } else { slots.binary_search(&slot).is_ok() }
    }

    /// True if every slot of `slots` is held.
    pub fn covers_all(&self, slots: &[u16]) -> bool {
        slots.iter().all(|s| self.covers(*s))
    }

    /// True if the whole keyspace is held.
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// The slots held, ascending, unless all are.
    pub fn slots(&self) -> &[u16] {
        &self.slots
    }
}

/// The latches that a command needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// These, ascending and without repetition.
    Slots(SmallVec<[u16; 8]>),
    /// Every one.
    All,
}

impl Need {
    /// True if these include all of `other`.
    pub fn covers(&self, other: &Need) -> bool {
        match (self, other) {
            (Need::All, _) => true,
            (Need::Slots(_), Need::All) => false,
            (Need::Slots(mine), Need::Slots(others)) => others.iter().all(|slot| mine.binary_search(slot).is_ok()),
        }
    }

    /// Number of latches.
    #[expect(clippy::len_without_is_empty, reason = "that there is something to need goes without saying")]
    pub fn len(&self) -> usize {
        match self {
            Need::Slots(slots) => slots.len(),
            Need::All => SLOTS,
        }
    }
}

impl Keyspace {
    /// A keyspace for `workers` workers and `databases` databases; `seed` keys its hashes.
    pub fn new(workers: usize, databases: usize, seed: u64) -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            hasher: KeyHasher::new(seed),
            heap: Heap::new(),
            occupied: (0..SLOTS / 64).map(|_| AtomicU64::new(0)).collect(),
            volatile: (0..SLOTS / 64).map(|_| AtomicU64::new(0)).collect(),
            database_map: (0..databases).map(|i| AtomicU16::new(i as u16)).collect(),
            floor: AtomicU64::new(0),
            graveyard: Graveyard::new(),
            cold: Cold::new(),
            spaces: Spaces::new(databases),
            snapshots: Snapshots::default(),
            skips_checksums: AtomicBool::new(false),
            waiting: Waiting::new(),
            epochs: Arc::new(Epochs::new(workers)),
            counters: (0..workers).map(|_| Arc::new(Counters::new(databases))).collect(),
        }
    }

    /// An empty one for `workers` workers, with as many databases and the same hashes.
    pub fn like(&self, workers: usize) -> Self {
        let mut like = Self::new(workers, self.databases(), 0);
        like.hasher = self.hasher.clone();
        like
    }

    /// The part that worker `index` owns.
    ///
    /// # Panics
    /// If the worker has one already.
    pub fn local(&self, index: usize) -> Local {
        self.counters[index].claim();
        Local {
            heap: self.heap.local(),
            retired: Retired::new(self.epochs.clone(), index),
            dying: Default::default(),
            counters: self.counters[index].clone(),
            unpublished: Unpublished::default(),
            sightings: Default::default(),
            seen: Default::default(),
            stamped: false,
        }
    }

    /// The hasher of this keyspace's keys.
    #[inline]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// The heap of entries.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Counters of all workers.
    pub fn counters(&self) -> &[Arc<Counters>] {
        &self.counters
    }

    /// Number of logical databases.
    pub fn databases(&self) -> usize {
        self.database_map.len()
    }

    /// Physical database of logical database `db`.
    #[inline]
    pub fn physical(&self, db: u16) -> u16 {
        self.database_map[usize::from(db)].load(Relaxed)
    }

    pub(crate) fn set_physical(&self, db: u16, physical: u16) {
        self.database_map[usize::from(db)].store(physical, Relaxed);
    }

    /// Version of the last command that held every latch. Any latch is held.
    pub fn floor(&self) -> Version {
        Version(self.floor.load(Relaxed))
    }

    /// Exchanges two logical databases.
    pub fn swap_databases(&self, held: &Held, a: u16, b: u16) {
        assert!(held.all, "SWAPDB is a barrier");
        let (pa, pb) = (self.physical(a), self.physical(b));
        self.database_map[usize::from(a)].store(pb, Relaxed);
        self.database_map[usize::from(b)].store(pa, Relaxed);
    }

    /// Keys in logical database `db`, as workers have published it ([`Local::publish_counts`]).
    pub fn len(&self, db: u16) -> u64 {
        Counters::sum(&self.counters, |counters| &counters.keys, self.physical(db)).max(0) as u64
    }

    /// True if logical database `db` has no keys, as [`Self::len`] says.
    pub fn is_empty(&self, db: u16) -> bool {
        self.len(db) == 0
    }

    /// Keys with an expiry in logical database `db`.
    pub fn expires(&self, db: u16) -> u64 {
        Counters::sum(&self.counters, |counters| &counters.expires, self.physical(db)).max(0) as u64
    }

    /// Hashes with fields that expire in logical database `db`.
    pub fn field_expires(&self, db: u16) -> u64 {
        Counters::sum(&self.counters, |counters| &counters.field_expires, self.physical(db)).max(0) as u64
    }

    /// Bytes of tables in use, and bytes in partly used pages that hold tables, entries of these sizes included.
    pub fn table_memory(&self) -> (usize, usize) {
        self.heap.use_of_sizes(crate::segment::SIZES.iter().map(|n| n * 64))
    }

    /// True if memory of deleted keys is still to be freed, by any worker.
    pub fn has_garbage(&self) -> bool {
        self.counters.iter().any(|c| c.dying.load(Relaxed) > 0 || c.reclaiming.load(Relaxed) > 0)
    }

    /// Prefetches the slot's line for writing. A hint.
    #[inline]
    pub fn prefetch_slot(&self, slot: u16) {
        prefetch_write((&raw const self.slots[usize::from(slot)]).cast());
    }

    /// Prefetches the key's bucket. A hint; nothing happens outside a turn of the worker. `local` is of this keyspace.
    #[inline]
    pub fn prefetch_bucket(&self, local: &Local, slot: u16, hash: u64) {
        if let Some(bucket) = self.peek_main(local, slot).and_then(|main| main.home_bucket(hash)) {
            prefetch_write(bucket.cast());
        }
    }

    /// Prefetches the key's entry. A hint; nothing happens outside a turn of the worker. It works better some time
    /// after [`Self::prefetch_bucket`].
    #[inline]
    pub fn prefetch_entry(&self, local: &Local, slot: u16, hash: u64) {
        if let Some(entry) = self.peek_main(local, slot).and_then(|main| main.probable_entry(hash)) {
            prefetch_write(entry);
            prefetch_write(entry.wrapping_add(64));
            // Its length is unknown yet. The missing lines of a value of a hundred bytes or two would hold up the next
            // latch, which waits for all earlier reads and writes. In longer values the processor sees the pattern
            // itself. Not for writing: other workers may be reading.
            prefetch_read(entry.wrapping_add(128));
            prefetch_read(entry.wrapping_add(192));
        }
    }

    /// Database 0's table without the latch, in a turn of the worker: everything behind its root stays for the turn.
    /// Only the root and the atomics behind it may be read.
    #[inline]
    fn peek_main(&self, local: &Local, slot: u16) -> Option<&Table> {
        local.retired.is_pinned().then(|| &self.slots[usize::from(slot)].body.main)
    }

    /// Tries to take the latches of `need`. On failure nothing is held, and the busy slot is returned. Connections that
    /// began to wait for a latch that was taken and given back meanwhile are handed to `wake`.
    ///
    /// # Errors
    ///
    /// The slot whose latch is busy: nothing is held.
    #[inline]
    pub fn try_acquire(&self, need: &Need, wake: impl FnMut(Waiter)) -> Result<Held, u16> {
        match need {
            Need::Slots(slots) => {
                debug_assert!(slots.is_sorted_by(|a, b| a < b), "rule K1: ascending");
                self.waiting.try_all(&self.slots[..], slots.iter().copied(), wake)?;
                Ok(Held { slots: slots.clone(), ..Held::default() })
            }
            Need::All => {
                self.waiting.try_all(&self.slots[..], self.all_slots(), wake)?;
                Ok(Held { all: true, ..Held::default() })
            }
        }
    }

    /// Tries to take the latches of `need` that `held` lacks: a holder may try for more in any order, but not wait.
    /// Returns their union, unless `held` has all. On failure `held` is as it was and the busy slot is returned.
    ///
    /// # Errors
    ///
    /// The slot whose latch is busy: `held` is as it was.
    pub fn try_extend(
        &self,
        held: &mut Held,
        need: &Need,
        wake: impl FnMut(Waiter),
    ) -> Result<SmallVec<[u16; 8]>, u16> {
        match need {
            Need::All if !held.all => {
                let missing = self.all_slots().filter(|slot| held.slots.binary_search(slot).is_err());
                self.waiting.try_all(&self.slots[..], missing, wake)?;
                *held = Held { all: true, ..Held::default() };
            }
            Need::Slots(slots) if !held.all => {
                let missing: SmallVec<[u16; 8]> = slots.iter().copied().filter(|slot| !held.covers(*slot)).collect();
                self.waiting.try_all(&self.slots[..], missing.iter().copied(), wake)?;
                for slot in &missing {
                    if let Err(at) = held.slots.binary_search(slot) {
                        held.slots.insert(at, *slot);
                    }
                }
                return Ok(missing);
            }
            _ => {}
        }
        Ok(SmallVec::new())
    }

    /// Every slot, with the lines of the next ones prefetched: a locked instruction on a cold line does not overlap
    /// with the next.
    fn all_slots(&self) -> impl Iterator<Item = u16> + Clone {
        const AHEAD: u16 = 16;
        (0..SLOTS as u16).inspect(|slot| self.prefetch_slot((slot + AHEAD) % SLOTS as u16))
    }

    /// Tries to take one latch.
    #[inline]
    pub fn try_one(&self, slot: u16) -> Option<Held> {
        self.slots[usize::from(slot)].latch.try_lock().then(|| {
            let mut slots = SmallVec::new();
            slots.push(slot);
            Held { slots, ..Held::default() }
        })
    }

    /// Gives latches back and hands every waiter that must be woken to `wake`.
    #[inline]
    pub fn release(&self, held: Held, mut wake: impl FnMut(Waiter)) {
        if held.all {
            for slot in 0..SLOTS as u16 {
                self.unlock(slot, &mut wake);
            }
        } else {
            for &slot in &held.slots {
                self.unlock(slot, &mut wake);
            }
        }
    }

    #[inline]
    fn unlock(&self, slot: u16, wake: &mut impl FnMut(Waiter)) {
        self.waiting.unlock(self.slots.latch(slot), slot, wake);
    }

    /// Registers a waiter for a busy slot. False: it is free now, try again (the waiter is not registered).
    /// `reserver`: the waiter has reserved the slot ([`Self::reserve`]).
    pub fn park(&self, slot: u16, waiter: Waiter, reserver: bool) -> bool {
        self.waiting.park(self.slots.latch(slot), slot, waiter, reserver)
    }

    /// Hands all waiters for a latch of `held` to `wake`, though it is not given back: they look again and park again.
    pub fn rouse(&self, held: &Held, mut wake: impl FnMut(Waiter)) {
        let all = held.all.then_some(0..SLOTS as u16).into_iter().flatten();
        for slot in all.chain(held.slots.iter().copied()) {
            self.waiting.rouse(slot, &mut wake);
        }
    }

    /// Lets a starving acquirer keep newcomers out of its slots (rule K1). False: another one is doing so.
    pub fn reserve(&self, need: &Need, waiter: Waiter) -> bool {
        match need {
            Need::Slots(slots) => self.waiting.reserve(&self.slots[..], slots.iter().copied(), waiter),
            Need::All => self.waiting.reserve(&self.slots[..], 0..SLOTS as u16, waiter),
        }
    }

    /// As [`Self::try_acquire`] for the acquirer that has reserved `need`; the reservation ends on success.
    ///
    /// # Errors
    ///
    /// The slot whose latch is busy: nothing is held.
    pub fn try_acquire_reserved(&self, need: &Need, wake: impl FnMut(Waiter)) -> Result<Held, u16> {
        match need {
            Need::Slots(slots) => {
                self.waiting.try_reserved(&self.slots[..], slots.iter().copied(), wake)?;
                Ok(Held { slots: slots.clone(), ..Held::default() })
            }
            Need::All => {
                self.waiting.try_reserved(&self.slots[..], 0..SLOTS as u16, wake)?;
                Ok(Held { all: true, ..Held::default() })
            }
        }
    }

    /// Ends a reservation, taken or not.
    pub fn cancel_reservation(&self, need: &Need, wake: impl FnMut(Waiter)) {
        match need {
            Need::Slots(slots) => self.waiting.cancel(&self.slots[..], slots.iter().copied(), wake),
            Need::All => self.waiting.cancel(&self.slots[..], 0..SLOTS as u16, wake),
        }
    }

    /// The body of a slot that `held` covers.
    #[inline]
    pub(crate) fn body(&self, held: &Held, slot: u16) -> &Body {
        assert!(held.covers(slot), "slot {slot} is not latched");
        &self.slots[usize::from(slot)].body
    }

    #[inline]
    pub(crate) fn mark_occupied(&self, slot: u16) {
        let (word, bit) = (&self.occupied[usize::from(slot) / 64], 1u64 << (slot % 64));
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Clears the slot's bit if it has no keys left.
    pub(crate) fn mark_if_empty(&self, held: &Held, slot: u16) {
        if self.body(held, slot).is_empty() {
            self.occupied[usize::from(slot) / 64].fetch_and(!(1u64 << (slot % 64)), Relaxed);
        }
    }

    /// Notes that a held slot has a key that expires.
    #[inline]
    pub(crate) fn mark_volatile(&self, slot: u16) {
        let (word, bit) = (&self.volatile[usize::from(slot) / 64], 1u64 << (slot % 64));
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Clears the slot's bit if nothing in it expires any more.
    pub fn mark_if_lasting(&self, held: &Held, slot: u16) {
        if self.body(held, slot).is_lasting() && !self.cold.is_volatile(slot) {
            self.volatile[usize::from(slot) / 64].fetch_and(!(1u64 << (slot % 64)), Relaxed);
        }
    }

    /// Whether something in a held slot may have expired at this time, in any database.
    pub fn may_be_due(&self, held: &Held, slot: u16, now: UnixMs) -> bool {
        let is_due =
            |table: &Table| table.graves.is_cold() || table.volatile.get() > 0 && table.next_expiry.get() < now;
        self.body(held, slot).tables().any(|(_, table)| is_due(table))
    }

    /// The first slot at or after `from` that may hold keys.
    pub fn next_occupied(&self, from: u16) -> Option<u16> {
        next_bit(&self.occupied, from)
    }

    /// The first slot at or after `from` that may hold something that expires.
    pub fn next_volatile(&self, from: u16) -> Option<u16> {
        next_bit(&self.volatile, from)
    }

    /// The highest version of any held slot: of its last writer, or of the last one that held everything.
    #[inline]
    pub fn last_version(&self, held: &Held) -> Version {
        if let [slot] = held.slots[..] {
            return self.floor().max(self.slots[usize::from(slot)].body.last_version.get());
        }
        if held.all {
            return self.last_version_of(held, 0..SLOTS as u16);
        }
        self.last_version_of(held, held.slots.iter().copied())
    }

    /// The highest version of any of these slots, which are held.
    #[inline]
    pub fn last_version_of(&self, held: &Held, slots: impl Iterator<Item = u16>) -> Version {
        // The latches order this load after the store.
        let floor = self.floor();
        slots.map(|slot| self.body(held, slot).last_version.get()).fold(floor, Version::max)
    }

    /// Calls `f` with the version of the last write of every held slot, and of everything.
    pub fn last_versions(&self, held: &Held, mut f: impl FnMut(Version)) {
        f(self.floor());
        let all = held.all.then_some(0..SLOTS as u16).into_iter().flatten();
        all.chain(held.slots.iter().copied()).for_each(|slot| f(self.body(held, slot).last_version.get()));
    }

    /// Notes that the held slots may change at `version`: every later write to any of them is above that (rule L1).
    #[inline]
    pub fn raise(&self, held: &Held, version: Version) {
        if let [slot] = held.slots[..] {
            return self.slots[usize::from(slot)].body.written_at(version);
        }
        if held.all {
            self.floor.fetch_max(version.0, Relaxed);
            self.spaces.settle(version);
        }
        held.slots.iter().for_each(|&slot| self.body(held, slot).written_at(version));
    }

    /// As [`Self::raise`], for one held slot.
    pub fn raise_slot(&self, held: &Held, slot: u16, version: Version) {
        self.body(held, slot).written_at(version);
    }

    /// True if a client waits for changes in a held slot.
    #[inline]
    pub fn interest(&self, held: &Held, slot: u16) -> bool {
        let cell = &self.body(held, slot).attachment;
        let attachment = cell.take();
        let is = attachment.is_some();
        cell.set(attachment);
        is
    }

    /// Calls `f` with the engine's object on a held slot, if there is one: inside `f` the slot has none.
    pub fn with_attachment<R>(&self, held: &Held, slot: u16, f: impl FnOnce(&mut (dyn Any + Send)) -> R) -> Option<R> {
        let cell = &self.body(held, slot).attachment;
        let mut attachment = cell.take()?;
        let result = f(&mut **attachment);
        cell.set(Some(attachment));
        Some(result)
    }

    /// Sets or removes the engine's object on a held slot; changes in the slot are of interest while it has one.
    pub fn attach(&self, held: &Held, slot: u16, attachment: Option<Box<dyn Any + Send>>) {
        self.body(held, slot).attachment.set(attachment.map(Box::new));
    }
}

/// The first bit set at or after `from`.
fn next_bit(words: &[AtomicU64], from: u16) -> Option<u16> {
    let mut word = usize::from(from) / 64;
    let mut bits = words.get(word)?.load(Relaxed) & (u64::MAX << (from % 64));
    while bits == 0 {
        word += 1;
        bits = words.get(word)?.load(Relaxed);
    }
    Some((word * 64) as u16 + bits.trailing_zeros() as u16)
}

#[inline(always)]
pub(crate) fn prefetch_write(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect but on caches, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// Starts to bring a cache line here for reading.
#[inline]
fn prefetch_read(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect but on caches, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}
