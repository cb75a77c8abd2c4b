//! The checkpoint of one slot: everything that has changed since the last one is copied, in bounded holds of its latch (rule C1).
//!
//! C(s), the slot's last LSN when the walk begins, is what the checkpoint stands for. What changes while it is under way may be in it or
//! not: every copy says up to which LSN it holds what was done to its key, and replay goes on from there. Deletions of the time of the walk
//! are copied as such (see `keyspace::tombstone`).

use std::num::NonZeroU64;

use keyspace::{Held, Keyspace, PhysicalKey};
use smallvec::SmallVec;

use super::copied::Copied;

/// Bytes copied in one hold.
const BYTES_PER_HOLD: usize = if cfg!(test) { 100 } else { 16 * 1024 };
/// Buckets looked at in one hold.
const BUCKETS_PER_HOLD: usize = if cfg!(test) { 1 } else { 32 };
/// Tombstones looked at in one hold.
const TOMBSTONES_PER_HOLD: usize = if cfg!(test) { 2 } else { 128 };
/// Keys that were deleted meanwhile looked at in one hold.
const GONE_PER_HOLD: usize = if cfg!(test) { 2 } else { 64 };

/// How a hold ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hold {
    /// Nothing has changed since the last checkpoint.
    Clean,
    /// There is more.
    More,
    /// The slot's checkpoint stands for everything up to this LSN.
    Done(u64),
}

/// Where a walk over a slot is.
pub(super) struct SlotWalk {
    slot: u16,
    /// What was written up to here is in the store.
    above: u64,
    at: At,
    /// C(s).
    start: u64,
    tables: SmallVec<[u16; 4]>,
}

enum At {
    Beginning,
    /// The first tombstones have been looked at, up to here.
    Tombstones(PhysicalKey),
    /// In this table, from this hash on.
    Table(usize, u64),
}

impl SlotWalk {
    /// A walk over what has changed in `slot` above LSN `above`.
    pub(super) fn new(slot: u16, above: u64) -> Self {
        Self { slot, above, at: At::Beginning, start: 0, tables: SmallVec::new() }
    }

    pub(super) fn slot(&self) -> u16 {
        self.slot
    }

    /// Whether it has had its first hold.
    pub(super) fn is_begun(&self) -> bool {
        !matches!(self.at, At::Beginning)
    }

    /// Does one hold's worth. The slot is held. What was copied must be written in the order of holds.
    pub(super) fn hold(&mut self, ks: &Keyspace, held: &Held, copied: &mut Copied) -> Hold {
        let slot = self.slot;
        // Everything that was done so far is in what is copied now, and nothing else is.
        let version = ks.last_version_of(held, std::iter::once(slot));
        let first = !self.is_begun();
        if first {
            if version <= self.above && !ks.has_tombstones(held, slot) {
                return Hold::Clean;
            }
            self.start = version;
            self.tables = ks.tables_of(held, slot);
        }
        let gone = self.copy_gone(ks, held, version, copied);
        if self.step(ks, held, version, copied) && gone {
            if !first {
                ks.set_walked(held, slot, false);
            }
            return Hold::Done(self.start);
        }
        if first {
            ks.set_walked(held, slot, true);
        }
        Hold::More
    }

    /// Gives the walk up.
    pub(super) fn abandon(&self, ks: &Keyspace, held: &Held) {
        ks.set_walked(held, self.slot, false);
    }

    /// Copies what was deleted since the last hold, which may be there again. True: all of it.
    fn copy_gone(&self, ks: &Keyspace, held: &Held, version: u64, copied: &mut Copied) -> bool {
        let keys = ks.take_gone(held, self.slot, GONE_PER_HOLD);
        for (physical, bytes) in &keys {
            let (key, space) = (ks.hasher().key(bytes), ks.space(held, *physical));
            let mut epochs = Epochs(copied.epoch());
            match ks.copy_key(held, *physical, &key, &mut || epochs.next()) {
                Some((entry, frozen)) => copied.put(space, &key, entry, frozen, version),
                None => copied.put_gone(space, &key, version),
            }
            copied.set_epoch(epochs.next());
        }
        keys.len() < GONE_PER_HOLD
    }

    /// Goes on where the last hold ended. True: it came to the end.
    fn step(&mut self, ks: &Keyspace, held: &Held, version: u64, copied: &mut Copied) -> bool {
        let after = match &mut self.at {
            At::Beginning => Some(None),
            At::Tombstones(after) => Some(Some(std::mem::take(after))),
            At::Table(..) => None,
        };
        if let Some(after) = after {
            let next = ks.tombstones_after(held, self.slot, after, TOMBSTONES_PER_HOLD, |physical, bytes| {
                copied.delete(ks.space(held, physical), &ks.hasher().key(bytes));
            });
            if let Some(next) = next {
                self.at = At::Tombstones(next);
                return false;
            }
            self.at = At::Table(0, 0);
        }
        let At::Table(mut table, mut hash) = self.at else { return false };
        let mut buckets = 0;
        while let Some(&physical) = self.tables.get(table) {
            if buckets == BUCKETS_PER_HOLD || copied.weight() >= BYTES_PER_HOLD {
                self.at = At::Table(table, hash);
                return false;
            }
            buckets += 1;
            let space = ks.space(held, physical);
            let mut epochs = Epochs(copied.epoch());
            let mut next_epoch = || epochs.next();
            let next =
                ks.copy_changed(held, (self.slot, physical), hash, self.above, &mut next_epoch, |entry, frozen| {
                    copied.put(space, &ks.hasher().key(entry.key()), entry, frozen, version);
                });
            copied.set_epoch(epochs.next());
            (table, hash) = next.map_or((table + 1, 0), |next| (table, next));
        }
        self.at = At::Table(table, hash);
        true
    }
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
