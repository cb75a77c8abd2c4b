//! Client-side caching: which clients have read a key, and must hear that it has changed.
//!
//! A key that was read for a caching client hangs on its slot with the client's id. It is noted under the latch under
//! which it was read, and a later writer of the key finds it there. The key is then forgotten: the client asks again,
//! or needs it no more. Ids of clients that are gone stay until then (CLIENT TRACKING, default mode). As in Redis, keys
//! are known by their names alone, in any database.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use command::{Touched, flags};
use keyspace::{Held, SLOTS};

use crate::attachment::Attachment;
use crate::block::BlockRun;
use crate::call::Call;
use crate::engine::Engine;

/// The caller of a command, as far as client-side caching goes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The client's id; 0: no client's.
    pub client: u64,
    /// Its reads must be remembered.
    pub caches: bool,
}

/// An invalidation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Invalidation {
    /// A key has changed, or is no longer remembered.
    Key {
        /// The key.
        key: Box<[u8]>,
        /// The client that changed it; 0: none (expiry, eviction).
        by: u64,
        /// The clients that have read it, ascending.
        readers: Vec<u64>,
        /// It has changed. Otherwise only its readers are concerned.
        changed: bool,
    },
    /// Everything: a database was flushed or exchanged.
    All,
}

/// The clients that have read a key, ascending.
pub(crate) type Readers = Vec<u64>;

/// The tracking state that all workers share.
pub struct Tracking {
    /// Clients that hear of every key they have a prefix of (BCAST).
    broadcasting: AtomicUsize,
    /// Keys remembered.
    keys: AtomicU64,
    /// Of these, keys that a worker is about to forget because there are too many.
    claimed: AtomicU64,
    /// Pairs of key and reader.
    items: AtomicU64,
    /// One bit for each slot in which keys are remembered.
    slots: Box<[AtomicU64]>,
}

impl Default for Tracking {
    fn default() -> Self {
        Self {
            broadcasting: AtomicUsize::new(0),
            keys: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
            items: AtomicU64::new(0),
            slots: (0..SLOTS / 64).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Tracking {
    /// Keys remembered (`tracking_total_keys`).
    pub fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }

    /// Pairs of key and reader (`tracking_total_items`).
    pub fn items(&self) -> u64 {
        self.items.load(Relaxed)
    }

    /// A client begins to hear of keys it has not read. Every change whose latches are taken after this is reported.
    pub fn begin_broadcast(&self) {
        self.broadcasting.fetch_add(1, Relaxed);
    }

    /// Ends what [`Self::begin_broadcast`] began.
    pub fn end_broadcast(&self) {
        self.broadcasting.fetch_sub(1, Relaxed);
    }

    /// True if all changes are to be reported. To be asked under the latches of the change. So a client that has begun
    /// to listen and then reads a key either sees the change or hears of it.
    #[inline]
    pub(crate) fn is_broadcasting(&self) -> bool {
        self.broadcasting.load(Relaxed) > 0
    }

    /// Notes whether keys are remembered in a slot. Its latch is held.
    fn mark(&self, slot: u16, some: bool) {
        let (word, bit) = (&self.slots[usize::from(slot) / 64], 1 << (slot % 64));
        match some {
            true => word.fetch_or(bit, Relaxed),
            false => word.fetch_and(!bit, Relaxed),
        };
    }

    /// The first slot from `from` on in which keys are remembered.
    fn next_slot(&self, from: u16) -> Option<u16> {
        let (first, bit) = (usize::from(from) / 64, from % 64);
        self.slots.iter().enumerate().skip(first).find_map(|(i, word)| {
            let bits = word.load(Relaxed) & if i == first { u64::MAX << bit } else { u64::MAX };
            (bits != 0).then(|| (i * 64) as u16 + bits.trailing_zeros() as u16)
        })
    }

    /// Claims one key to forget while there are more than `max`: several workers at the same time get different ones.
    /// [`Self::settle`] ends it, when the key has gone.
    fn claim(&self, max: u64) -> bool {
        if self.keys() <= max {
            return false;
        }
        let claimed = self.claimed.fetch_add(1, Relaxed) + 1;
        let some = self.keys() >= max.saturating_add(claimed);
        if !some {
            self.settle();
        }
        some
    }

    fn settle(&self) {
        self.claimed.fetch_sub(1, Relaxed);
    }
}

/// A key read in a block, for a client, after so many changes of the block.
pub(crate) struct Read {
    after: usize,
    client: u64,
    slot: u16,
    key: Box<[u8]>,
}

/// The position of a worker in its round over keys to forget, so that none stays for ever.
#[derive(Default)]
pub(crate) struct Hand {
    slot: u16,
    key: Box<[u8]>,
}

impl Engine {
    /// Remembers the reads of a command. Its latches are held still, and its changes were reported.
    #[cold]
    pub(crate) fn remember_reads(&mut self, call: &Call<'_>, held: &Held) {
        let mut reads = Vec::new();
        self.note_reads(call, 0, &mut reads);
        reads.iter().for_each(|read| self.remember(read, held));
    }

    /// Notes the reads of a command for a client that caches, to be remembered when its block ends.
    pub(crate) fn note_reads(&mut self, call: &Call<'_>, after: usize, reads: &mut Vec<Read>) {
        if !call.row.spec.has(flags::READONLY) || !call.caller.caches {
            return;
        }
        let mut positions = std::mem::take(&mut self.positions);
        positions.clear();
        call.row.spec.keys_of(call.args, &mut positions);
        let keys = positions.iter().filter_map(|at| call.args.get(at.index));
        reads.extend(keys.map(|key| Read {
            after,
            client: call.caller.client,
            slot: keyspace::slot_of(key),
            key: key.into(),
        }));
        self.positions = positions;
    }

    /// Remembers the reads of the commands of an attempt that was undone: its keys stay locked, so they are still the
    /// same.
    pub fn remember_attempt(&mut self, block: &mut BlockRun) {
        let reads = block.take_reads();
        reads.iter().for_each(|read| self.remember(read, block.held()));
    }

    /// Remembers that a client was given keys whose latches a block has.
    pub fn remember_keys<'a>(&mut self, block: &BlockRun, client: u64, keys: impl Iterator<Item = &'a [u8]>) {
        for key in keys {
            let read = Read { after: 0, client, slot: keyspace::slot_of(key), key: key.into() };
            self.remember(&read, block.held());
        }
    }

    fn remember(&mut self, read: &Read, held: &Held) {
        let tracking = &self.shared.tracking;
        Attachment::with(&self.shared.keyspace, held, read.slot, |attachment| {
            let first = attachment.tracked.is_empty();
            let readers = attachment.tracked.entry(read.key.clone()).or_default();
            if readers.is_empty() {
                tracking.keys.fetch_add(1, Relaxed);
            }
            if let Err(at) = readers.binary_search(&read.client) {
                // Most keys have one reader.
                readers.reserve_exact(if readers.is_empty() { 1 } else { readers.len().min(64) });
                readers.insert(at, read.client);
                tracking.items.fetch_add(1, Relaxed);
            }
            if first {
                tracking.mark(read.slot, true);
            }
        });
    }

    /// Takes a key out of the remembered ones.
    fn take_readers(&mut self, slot: u16, key: &[u8], held: &Held) -> Readers {
        let tracking = &self.shared.tracking;
        let taken = Attachment::change(&self.shared.keyspace, held, slot, |attachment| {
            let readers = attachment.tracked.remove(key)?;
            if attachment.tracked.is_empty() {
                tracking.mark(slot, false);
            }
            Some(readers)
        });
        let Some(readers) = taken.flatten() else { return Readers::new() };
        tracking.keys.fetch_sub(1, Relaxed);
        tracking.items.fetch_sub(readers.len() as u64, Relaxed);
        readers
    }

    /// Reports the changes to the clients that must forget them. The slots are held.
    pub(crate) fn invalidate(&mut self, touched: &[Touched], held: &Held) {
        let all = self.shared.tracking.is_broadcasting();
        if !all && self.shared.tracking.keys() == 0 {
            return;
        }
        for t in touched {
            let readers = self.take_readers(t.slot, &t.key, held);
            if all || !readers.is_empty() {
                self.invalidated.push(Invalidation::Key { key: t.key.clone(), by: t.by, readers, changed: true });
            }
        }
    }

    /// The reads and changes of a block, in their order. A client that reads its own changes has the present value. A
    /// client that changes a key it has read must hear of that.
    pub(crate) fn invalidate_in_order(&mut self, touched: &[Touched], reads: &[Read], held: &Held) {
        let mut from = 0;
        for read in reads {
            self.invalidate(touched.get(from..read.after).unwrap_or_default(), held);
            from = read.after;
            self.remember(read, held);
        }
        self.invalidate(touched.get(from..).unwrap_or_default(), held);
    }

    /// Forgets everything: whole databases have changed. All latches are held.
    pub(crate) fn invalidate_all(&mut self, held: &Held) {
        self.invalidated.push(Invalidation::All);
        let shared = self.shared.clone();
        let mut next = shared.tracking.next_slot(0);
        while let Some(slot) = next {
            let taken = Attachment::change(&shared.keyspace, held, slot, |a| std::mem::take(&mut a.tracked));
            self.forgotten.extend(taken);
            shared.tracking.mark(slot, false);
            next = slot.checked_add(1).and_then(|slot| shared.tracking.next_slot(slot));
        }
        shared.tracking.keys.store(0, Relaxed);
        shared.tracking.items.store(0, Relaxed);
    }

    /// Forgets keys while there are more than `max`, up to `most`: their readers hear it as a change. True: there are
    /// no more than `max` now. Nothing must be held.
    pub fn forget_reads(&mut self, max: u64, most: usize) -> bool {
        for _ in 0..most {
            if !self.shared.tracking.claim(max) {
                return true;
            }
            let forgotten = self.forget_next();
            self.shared.tracking.settle();
            if !forgotten {
                return false;
            }
        }
        self.shared.tracking.keys() <= max
    }

    /// Forgets the next key in the round; false if latches are busy.
    fn forget_next(&mut self) -> bool {
        let shared = self.shared.clone();
        let mut rounds = 0;
        while rounds < 2 {
            let Some(slot) = shared.tracking.next_slot(self.hand.slot) else {
                rounds += 1;
                self.hand = Hand::default();
                continue;
            };
            if slot != self.hand.slot {
                self.hand = Hand { slot, key: Box::default() };
            }
            if let Some(held) = self.acquire_one(slot) {
                let from = (Bound::Excluded(&*self.hand.key), Bound::Unbounded);
                let next = Attachment::of(&shared.keyspace, &held, slot, |a| {
                    let mut after = a.tracked.range::<[u8], _>(from);
                    // The empty key comes before all others.
                    let first = self.hand.key.is_empty().then(|| a.tracked.keys().next()).flatten();
                    first.or_else(|| after.next().map(|(key, _)| key)).cloned()
                });
                if let Some(key) = next.flatten() {
                    let readers = self.take_readers(slot, &key, &held);
                    self.release(held);
                    self.hand.key = key.clone();
                    self.invalidated.push(Invalidation::Key { key, by: 0, readers, changed: false });
                    return true;
                }
                self.release(held);
            }
            match slot.checked_add(1).filter(|&slot| usize::from(slot) < SLOTS) {
                Some(slot) => self.hand = Hand { slot, key: Box::default() },
                None => {
                    rounds += 1;
                    self.hand = Hand::default();
                }
            }
        }
        false
    }

    /// True if there are invalidations: [`Self::take_invalidated`].
    #[inline]
    pub fn has_invalidated(&self) -> bool {
        !self.invalidated.is_empty()
    }

    /// The keys that clients must forget, in the order of the changes. Those of a block when it has ended.
    pub fn take_invalidated(&mut self) -> Vec<Invalidation> {
        std::mem::take(&mut self.invalidated)
    }
}

/// Keys that were remembered when everything was flushed: freed in steps.
pub(crate) type Forgotten = Vec<BTreeMap<Box<[u8]>, Readers>>;

#[cfg(test)]
mod race_test;
#[cfg(test)]
mod tests;
