//! Effects on keys whose record in the store is needed first. They are put off, so that many keys are read in the
//! store's order.
//!
//! Once an effect on a key was put off, all later effects on the key are, too, until they are applied in their order.
//! Only changes of whole databases depend on them, and before these everything is applied.

use std::iter::Peekable;
use std::ops::Bound;

use keyspace::{Fetched, Key, Space};
use store::{Entries, Snapshot};

use super::batch::{Batch, Dealt};
use super::fetch::{fetch_from, of_key};
use super::format;
use super::load::Unloadable;

/// Most effects that are put off, by all hands together: the more there are, the more keys of a slot are read at once.
const FULL: usize = if cfg!(test) { 7 } else { 1 << 19 };
/// Bytes of their keys and payloads.
const FULL_BYTES: usize = 64 << 20;
/// Bits that mark the keys of effects that are put off.
const BITS: usize = if cfg!(test) { 64 } else { 1 << 22 };
/// If one key in so many of a slot is needed, all of them are read. A key that is read on its own costs about as much
/// as so many in a row.
const SCAN: u64 = if cfg!(test) { 2 } else { 6 };

/// See the module's text.
pub(super) struct Later {
    /// Hands that share what may be put off.
    hands: usize,
    batch: Batch,
    /// By hash. They may mark other keys, too, whose effects are then put off without need. Empty until an effect is
    /// put off.
    bits: Vec<u64>,
}

impl Later {
    pub(super) fn new(hands: usize) -> Self {
        Self { hands, batch: Batch::default(), bits: Vec::new() }
    }

    fn bit(hash: u64) -> (usize, u64) {
        let bit = hash as usize % BITS;
        (bit / 64, 1 << (bit % 64))
    }

    /// True if an effect on the key may have been put off.
    pub(super) fn may_have(&self, key: &Key<'_>) -> bool {
        let (word, bit) = Self::bit(key.hash);
        self.bits.get(word).is_some_and(|bits| bits & bit != 0)
    }

    pub(super) fn push(&mut self, dealt: &Dealt, key: &Key<'_>, payload: &[u8]) {
        if self.bits.is_empty() {
            self.bits.resize(BITS / 64, 0);
        }
        let (word, bit) = Self::bit(key.hash);
        self.bits[word] |= bit;
        self.batch.push_again(dealt, key, payload);
    }

    /// True if it is time to apply them.
    pub(super) fn is_full(&self) -> bool {
        self.batch.holds(FULL / self.hands, FULL_BYTES / self.hands)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// All effects, in the order in which the store has the keys, and for each key in their order.
    pub(super) fn take(&mut self) -> Batch {
        self.bits.fill(0);
        let mut batch = std::mem::take(&mut self.batch);
        batch.sort_as_stored();
        batch
    }

    /// Its memory is reused.
    pub(super) fn give_back(&mut self, mut batch: Batch) {
        batch.clear();
        self.batch = batch;
    }
}

/// Reads keys from the store, most of them in its order.
pub(super) struct Reads<'s> {
    snapshot: &'s dyn Snapshot,
    /// The scan of a slot, from the last key that was asked for on.
    scan: Option<Scan<'s>>,
    /// Where keys lie.
    stored_key: Vec<u8>,
}

struct Scan<'s> {
    slot: u16,
    space: Space,
    entries: Peekable<Entries<'s>>,
    last: Vec<u8>,
}

impl<'s> Reads<'s> {
    pub(super) fn new(snapshot: &'s dyn Snapshot) -> Self {
        Self { snapshot, scan: None, stored_key: Vec::new() }
    }

    /// Begins a slot: the store has so many keys there, and so many are asked for.
    pub(super) fn begin(&mut self, space: Space, slot: u16, wanted: u64, stored: u64) {
        self.scan = None;
        if wanted.saturating_mul(SCAN) < stored {
            return;
        }
        let prefix = format::slot_prefix(space, slot);
        let end = format::slot_prefix(space, slot + 1);
        let entries = self.snapshot.range((Bound::Included(&prefix), Bound::Excluded(&end))).peekable();
        self.scan = Some(Scan { slot, space, entries, last: Vec::new() });
    }

    /// The store's record of a key.
    pub(super) fn fetch(&mut self, space: Space, key: &Key<'_>) -> Result<Option<Fetched>, Unloadable> {
        self.stored_key.clear();
        format::entry_key(space, key, &mut self.stored_key);
        let wanted = &self.stored_key;
        let ahead = |scan: &&mut Scan<'_>| (scan.slot, scan.space) == (key.slot, space) && scan.last < *wanted;
        let Some(scan) = self.scan.as_mut().filter(ahead) else { return fetch_from(self.snapshot, space, key) };
        scan.last.clone_from(wanted);
        let is_before = |entry: &Result<(Vec<u8>, Vec<u8>), store::Error>| matches!(entry, Ok((at, _)) if at < wanted);
        while scan.entries.next_if(is_before).is_some() {}
        // An error ends the scan: the key at which it happens gets it.
        match scan.entries.next_if(|entry| entry.as_ref().map_or(true, |(at, _)| at == wanted)) {
            Some(entry) => {
                let (at, value) = entry?;
                of_key(key, &at, &value, self.snapshot, &mut |_| true).map(Some)
            }
            None => Ok(None),
        }
    }
}
