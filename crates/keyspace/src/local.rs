//! A worker's own part of the keyspace: its heap, its garbage, its counters.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::*};

use crate::counts::Unpublished;
use crate::dying::Dying;
use crate::epoch::Retired;
use crate::heap::LocalHeap;
use crate::seen::{Horizon, Seen};
use crate::sizes::AllSizes;
use crate::table::Garbage;
use crate::value::{Blob, Value};
use crate::version::Version;

/// Counters that one worker writes and all may read. Sums over all workers are exact when nothing is in flight: they
/// are read one after the other. The numbers of keys include a command or block as a whole, or not yet
/// ([`Local::publish_counts`]).
#[derive(Default)]
#[repr(align(64))]
pub struct Counters {
    /// Keys per physical database, as changed by this worker: may be negative.
    pub keys: Box<[AtomicI64]>,
    /// Keys with an expiry per physical database, likewise.
    pub expires: Box<[AtomicI64]>,
    /// Hashes with fields that expire per physical database, likewise.
    pub field_expires: Box<[AtomicI64]>,
    /// How large values are per physical database, likewise: see [`crate::Keyspace::sizes`].
    pub(crate) sizes: AllSizes,
    /// Lookups of readers that found their key.
    pub hits: AtomicU64,
    /// Lookups of readers that did not.
    pub misses: AtomicU64,
    /// Expired keys that were deleted.
    pub expired: AtomicU64,
    /// Those of them that no command had asked for.
    pub expired_active: AtomicU64,
    /// Expired fields of hashes that were deleted without a command that asked for them.
    pub expired_fields_active: AtomicU64,
    /// Expired fields of hashes that were deleted.
    pub expired_fields: AtomicU64,
    /// Keys deleted to make room.
    pub evicted: AtomicU64,
    /// Keys that have left memory for the store to make room.
    pub cooled: AtomicU64,
    /// Keys that were fetched from the store.
    pub warmed: AtomicU64,
    /// Keys that only the store has: see [`crate::Keyspace::cold_keys`].
    pub(crate) cold: AtomicI64,
    /// Entries of emptied databases that are still to be freed.
    pub reclaiming: AtomicU64,
    /// Entries of emptied databases that were freed.
    pub reclaimed: AtomicU64,
    /// Entries and tables moved to fuller pages of the heap.
    pub moved: AtomicU64,
    /// Entries and tables that the defragmenter looked at and left where they were.
    pub unmoved: AtomicU64,
    /// Large values that were deleted and are still to be freed.
    pub dying: AtomicU64,
    /// Tombstones made, minus those that new keys replaced: see [`crate::Keyspace::tombstones`].
    pub(crate) tombstones: AtomicI64,
    /// The worker's [`Local`] exists.
    claimed: AtomicBool,
}

impl Counters {
    pub(crate) fn new(databases: usize) -> Self {
        let zeros = || (0..databases).map(|_| AtomicI64::new(0)).collect();
        Self {
            keys: zeros(),
            expires: zeros(),
            field_expires: zeros(),
            sizes: AllSizes::new(databases),
            ..Self::default()
        }
    }

    /// For the worker's one [`Local`]: with two, the end of one's turn would free memory that the other may still read.
    pub(crate) fn claim(&self) {
        assert!(!self.claimed.swap(true, AcqRel), "a worker has one `Local`");
    }

    /// Resets the counters of CONFIG RESETSTAT to zero. Only the worker itself may: its additions would undo another's
    /// reset.
    pub fn reset(&self) {
        let counts = [&self.hits, &self.misses, &self.expired, &self.expired_fields, &self.evicted, &self.reclaimed];
        for counter in
            counts.into_iter().chain([&self.cooled, &self.warmed, &self.expired_active, &self.expired_fields_active])
        {
            counter.store(0, Relaxed);
        }
    }
}

/// Adds to a counter that only the calling thread writes: no locked instruction.
#[inline]
pub fn bump(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

#[inline]
pub(crate) fn shift(counter: &AtomicI64, n: i64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

/// A worker's own part of the keyspace.
pub struct Local {
    pub(crate) heap: LocalHeap,
    pub(crate) retired: Retired,
    pub(crate) dying: Dying,
    pub(crate) counters: Arc<Counters>,
    pub(crate) unpublished: Unpublished,
    pub(crate) sightings: Sightings,
    pub(crate) seen: Seen,
    /// A version was given.
    pub(crate) stamped: bool,
}

/// The result of a lookup or an insertion, for keyspace notifications of classes n and m.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sighting {
    /// A key that was absent is there.
    New,
    /// A reader found no such key.
    Missed,
}

/// A sighting: its kind, the logical database, the key.
pub type Sighted = (Sighting, u16, Box<[u8]>);

/// The sightings of a command, noted only if notifications are wanted.
#[derive(Default)]
pub(crate) struct Sightings {
    new: bool,
    missed: bool,
    list: RefCell<Vec<Sighted>>,
}

impl Sightings {
    #[inline]
    pub(crate) fn born(&self, db: u16, key: &[u8]) {
        if self.new {
            self.list.borrow_mut().push((Sighting::New, db, key.into()));
        }
    }

    #[inline]
    pub(crate) fn missed(&self, db: u16, key: &[u8]) {
        if self.missed {
            self.list.borrow_mut().push((Sighting::Missed, db, key.into()));
        }
    }
}

impl Local {
    /// Chooses which sightings are noted.
    pub fn note_sightings(&mut self, new: bool, missed: bool) {
        (self.sightings.new, self.sightings.missed) = (new, missed);
    }

    /// True if there are any since [`Self::take_sightings`].
    #[inline]
    pub fn has_sightings(&mut self) -> bool {
        !self.sightings.list.get_mut().is_empty()
    }

    /// The sightings, in order.
    pub fn take_sightings(&mut self) -> Vec<Sighted> {
        std::mem::take(self.sightings.list.get_mut())
    }

    /// Sets the watermarks of the streams: versions seen above them are noted (rule L7). None: there is no log.
    pub fn set_committed(&mut self, marks: impl ExactSizeIterator<Item = Version>) {
        self.seen.set_committed(marks);
    }

    /// True if a version was given since the last call: then later writers there must be above it.
    #[inline]
    pub fn take_stamped(&mut self) -> bool {
        std::mem::take(&mut self.stamped)
    }

    /// As if a version had been given.
    pub fn note_stamped(&mut self) {
        self.stamped = true;
    }

    /// Notes that this version was seen.
    #[inline]
    pub fn note_version(&self, version: Version) {
        self.seen.note(version);
    }

    /// True if uncommitted versions may have been seen since [`Self::take_seen`].
    #[inline]
    pub fn has_seen(&self) -> bool {
        self.seen.any()
    }

    /// The versions seen; `ends` hands out the end of every stream, for versions without a stream.
    pub fn take_seen(&mut self, ends: impl Fn(&mut dyn FnMut(Version))) -> Horizon {
        self.seen.take(ends)
    }

    /// All versions that were seen at any time and are not known to be committed.
    pub fn everything_seen(&self, ends: impl Fn(&mut dyn FnMut(Version))) -> Horizon {
        self.seen.everything(ends)
    }

    /// Starts a turn: addresses read by [`crate::Keyspace::prefetch_entry`] stay readable until [`Self::end_turn`].
    pub fn begin_turn(&mut self) {
        self.retired.pin();
    }

    /// Takes memory that a table no longer uses and that others may still be prefetching from. It is freed at the end
    /// of a turn soon, and counts as free at once, so that eviction sees its own effect.
    #[inline]
    pub(crate) fn retire(&mut self, garbage: Garbage) {
        if let Garbage::Segment(segment) = &garbage {
            self.heap.retiring(segment.bytes());
        }
        self.retired.push(garbage);
    }

    /// Ends a turn and frees table memory that no worker can be reading.
    pub fn end_turn(&mut self) {
        let heap = &mut self.heap;
        // SAFETY: what is handed out here can be read by nobody.
        self.retired.unpin(|garbage| unsafe { garbage.free(heap) });
    }

    /// Frees some of the large values that were deleted, about `budget` allocations of them. True: nothing is left.
    pub fn step_dying(&mut self, budget: usize) -> bool {
        if self.dying.is_empty() {
            return true;
        }
        let done = self.dying.step(budget);
        self.counters.dying.store(self.dying.len() as u64, Relaxed);
        done
    }

    /// Gives free blocks kept at hand back to the heap, so that pages become empty: after a pass of tidying.
    pub fn flush_heap(&mut self) {
        self.heap.flush();
    }

    /// True if large values wait to be freed.
    pub fn has_dying(&self) -> bool {
        !self.dying.is_empty()
    }

    /// Drops a value, a large one in steps.
    pub(crate) fn bury(&mut self, value: Value) {
        self.dying.add(value);
        self.counters.dying.store(self.dying.len() as u64, Relaxed);
    }

    /// Lets go of a long string that a reply has shared, in steps if it has no other owner.
    pub fn let_go(&mut self, bytes: Arc<Blob>) {
        self.bury(Value::Blob(bytes));
    }

    /// This worker's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // Memory that others may still be reading is never freed: a few segments at shutdown.
        self.end_turn();
        self.publish_counts();
        self.counters.claimed.store(false, Release);
    }
}
