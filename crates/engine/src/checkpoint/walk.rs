//! The checkpoint of one slot: all changes since the last one are copied, in bounded holds of its latch (rule C1).
//!
//! C(s), the slot's last LSN when the walk begins, is the checkpoint's promise. Changes during the walk may be in it or
//! not. Every copy names the LSN up to which it holds its key, and replay goes on from there. Deletions during the walk
//! are copied as such (see `keyspace::tombstone`).

use std::num::NonZeroU64;

use clocks::UnixMs;
use keyspace::{Held, Keyspace, Mark, PhysicalKey, Version};
use smallvec::SmallVec;

use super::copied::Copied;
use super::counts::Counts;

/// Bytes copied in one hold.
const BYTES_PER_HOLD: usize = if cfg!(test) { 100 } else { 16 * 1024 };
/// Buckets that are visited in one hold.
const BUCKETS_PER_HOLD: usize = if cfg!(test) { 1 } else { 32 };
/// Buckets whose marks are cleared in one hold.
const CLEARED_PER_HOLD: usize = if cfg!(test) { 5 } else { 64 };
/// Tombstones that are visited in one hold.
const TOMBSTONES_PER_HOLD: usize = if cfg!(test) { 2 } else { 128 };
/// Keys deleted meanwhile that are visited in one hold.
const GONE_PER_HOLD: usize = if cfg!(test) { 2 } else { 64 };

/// How a hold ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hold {
    /// Nothing has changed since the last checkpoint.
    Clean,
    /// There is more.
    More,
    /// The slot's checkpoint stands for everything up to this LSN.
    Done(Version),
}

/// The position of a walk over a slot.
pub(super) struct SlotWalk {
    slot: u16,
    /// The store has all changes up to here.
    above: Version,
    at: At,
    /// C(s).
    start: Version,
    /// The version as of which the last copy was made.
    reach: Version,
    tables: SmallVec<[Table; 4]>,
}

/// A physical database.
struct Table {
    physical: u16,
    /// No visited entry expires before this time.
    earliest: UnixMs,
    /// An entry that was not visited may expire.
    unseen: bool,
}

enum At {
    Beginning,
    /// The marks were void; in this table they are cleared from this hash on.
    Clearing(usize, u64),
    /// The first tombstones were visited, up to here.
    Tombstones(PhysicalKey),
    /// In this table, from this hash on.
    Table(usize, u64),
}

impl SlotWalk {
    /// A walk over what has changed in `slot` above version `above`.
    pub(super) fn new(slot: u16, above: Version) -> Self {
        Self { slot, above, at: At::Beginning, start: Version::ZERO, reach: Version::ZERO, tables: SmallVec::new() }
    }

    pub(super) fn slot(&self) -> u16 {
        self.slot
    }

    /// The version as of which its last copy was made; 0: there is none.
    pub(super) fn reach(&self) -> Version {
        self.reach
    }

    /// True if it has had its first hold.
    pub(super) fn is_begun(&self) -> bool {
        !matches!(self.at, At::Beginning | At::Clearing(..))
    }

    /// Does one hold's worth. The slot is held. The copies must be written in the order of holds; then the store's
    /// figures are `counts`.
    pub(super) fn hold(&mut self, ks: &Keyspace, held: &Held, (copied, counts): (&mut Copied, &mut Counts)) -> Hold {
        let slot = self.slot;
        if ks.are_marks_void(slot) && !self.clear(ks, held) {
            return Hold::More;
        }
        // The present copies have all changes so far, and no others.
        let version = ks.last_version_of(held, std::iter::once(slot));
        let first = !self.is_begun();
        if first {
            if version <= self.above && !ks.has_tombstones(held, slot) {
                return Hold::Clean;
            }
            self.start = version;
            let table = |physical| Table { physical, earliest: UnixMs::NEVER, unseen: false };
            self.tables = ks.tables_of(held, slot).into_iter().map(table).collect();
            self.look_at_cold(ks, held);
        }
        let mut copying = Copying { ks, held, version, copied, counts };
        let gone = self.copy_gone(&mut copying);
        let ended = self.step(&mut copying);
        if !copying.copied.is_empty() {
            self.reach = version;
        }
        if ended && gone {
            self.look_at_cold(ks, held);
            if !first {
                ks.set_walked(held, slot, false);
            }
            for table in self.tables.iter().filter(|table| !table.unseen) {
                counts.set_earliest(slot, ks.present_space(table.physical), table.earliest);
            }
            return Hold::Done(self.start);
        }
        if first {
            ks.set_walked(held, slot, true);
        }
        Hold::More
    }

    /// Clears void marks. True: all of them.
    fn clear(&mut self, ks: &Keyspace, held: &Held) -> bool {
        if matches!(self.at, At::Beginning) {
            ks.clear_tombstones(held, self.slot);
            self.at = At::Clearing(0, 0);
        }
        let At::Clearing(mut table, mut hash) = self.at else { return true };
        let tables = ks.tables_of(held, self.slot);
        for _ in 0..CLEARED_PER_HOLD {
            let Some(&physical) = tables.get(table) else {
                ks.set_marks_cleared(held, self.slot);
                self.at = At::Beginning;
                return true;
            };
            let next = ks.clear_marks(held, (self.slot, physical), hash);
            (table, hash) = next.map_or((table + 1, 0), |next| (table, next));
        }
        self.at = At::Clearing(table, hash);
        false
    }

    /// Entries that are not cold at the beginning, and do not leave memory later, are visited. A search may be finding
    /// out when the others expire: the known time goes on holding.
    fn look_at_cold(&mut self, ks: &Keyspace, held: &Held) {
        for table in &mut self.tables {
            let cold = ks.cold(held, self.slot, table.physical);
            table.unseen |= cold.is_some_and(|cold| cold.is_volatile());
            table.unseen |= ks.has_lost_keys(held, self.slot, table.physical);
        }
    }

    /// Copies the deletions since the last hold; the keys may be there again. True: all of them.
    fn copy_gone(&mut self, copying: &mut Copying<'_>) -> bool {
        let Copying { ks, held, version, .. } = *copying;
        let keys = ks.take_gone(held, self.slot, GONE_PER_HOLD);
        for (physical, bytes) in &keys {
            let (key, space) = (ks.hasher().key(bytes), ks.space(held, *physical));
            let mut epochs = Epochs(copying.copied.epoch());
            match ks.copy_key(held, *physical, &key, &mut || epochs.next()) {
                Some((entry, frozen, had)) => {
                    let earliest = copying.copied.put(space, &key, entry, frozen, version, had);
                    copying.counts.change(self.slot, space, had, entry.mark(), earliest);
                    let table = self.tables.iter_mut().find(|table| table.physical == *physical);
                    table.into_iter().for_each(|table| table.earliest = table.earliest.min(earliest));
                }
                None => {
                    let had = ks.copy_gone(held, *physical, &key);
                    copying.copied.put_gone(space, &key, version, had);
                    copying.counts.change(self.slot, space, had, Mark::DEAD, UnixMs::NEVER);
                }
            }
            copying.copied.set_epoch(epochs.next());
        }
        keys.len() < GONE_PER_HOLD
    }

    /// Goes on where the last hold ended. True: it came to the end.
    fn step(&mut self, copying: &mut Copying<'_>) -> bool {
        let (slot, Copying { ks, held, version, copied, counts }) = (self.slot, copying);
        let after = match &mut self.at {
            At::Tombstones(after) => Some(Some(std::mem::take(after))),
            At::Table(..) => None,
            At::Beginning | At::Clearing(..) => Some(None),
        };
        if let Some(after) = after {
            let next = ks.tombstones_after(held, slot, after, TOMBSTONES_PER_HOLD, |physical, bytes, had| {
                let space = ks.space(held, physical);
                copied.delete(space, &ks.hasher().key(bytes), had);
                counts.change(slot, space, had, Mark::DEAD, UnixMs::NEVER);
            });
            if let Some(next) = next {
                self.at = At::Tombstones(next);
                return false;
            }
            self.at = At::Table(0, 0);
        }
        let At::Table(mut at, mut hash) = self.at else { return false };
        let mut buckets = 0;
        while let Some(table) = self.tables.get_mut(at) {
            if buckets == BUCKETS_PER_HOLD || copied.weight() >= BYTES_PER_HOLD {
                self.at = At::Table(at, hash);
                return false;
            }
            buckets += 1;
            let place = (slot, table.physical);
            let mut epochs = Epochs(copied.epoch());
            let mut next_epoch = || epochs.next();
            let (next, earliest) =
                ks.copy_changed(held, place, hash, self.above, &mut next_epoch, |entry, frozen, had| {
                    let (key, space) = (ks.hasher().key(entry.key()), ks.space(held, table.physical));
                    let earliest = copied.put(space, &key, entry, frozen, *version, had);
                    counts.change(slot, space, had, entry.mark(), earliest);
                });
            table.earliest = table.earliest.min(earliest);
            copied.set_epoch(epochs.next());
            (at, hash) = next.map_or((at + 1, 0), |next| (at, next));
        }
        self.at = At::Table(at, hash);
        true
    }
}

/// The data that a hold works with.
struct Copying<'a> {
    ks: &'a Keyspace,
    held: &'a Held,
    /// All changes of the slot so far.
    version: Version,
    copied: &'a mut Copied,
    counts: &'a mut Counts,
}

/// Counts freezes.
struct Epochs(u64);

impl Epochs {
    fn next(&mut self) -> NonZeroU64 {
        let epoch = NonZeroU64::new(self.0).unwrap_or(NonZeroU64::MIN);
        self.0 = epoch.get() + 1;
        epoch
    }
}
