//! When samples find nothing more: all keys that the store has as they are leave memory, and the others show why they
//! stay.

use keyspace::EntryRef;

use super::{BUCKETS_PER_HOLD, Room};
use crate::engine::Engine;

/// The keys that have stayed in memory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stayed {
    /// Keys that the store does not have as they are, or whose latch was busy: they can leave after a checkpoint.
    pub changed: bool,
    /// Keys that were fetched for commands that may not have run yet: they can leave when their loads have ended.
    pub fetched: bool,
    /// Keys that transactions have locked (rule K6).
    pub locked: bool,
}

/// A round over all keys, and its position.
#[derive(Default)]
pub(crate) struct Round {
    name: u64,
    db: u16,
    slot: u16,
    hash: u64,
    stayed: Stayed,
}

impl Engine {
    /// Makes all keys leave memory that the store has as they are, until memory is no longer `above` the limit, or
    /// `in_time` says that time is up. Then the result is [`Room::Soon`], and the next call for a round of this `name`
    /// goes on from there. [`Room::None`]: all keys were visited, with the reasons why some are still there. Nothing
    /// must be held.
    pub fn evict_all(
        &mut self,
        name: u64,
        above: impl Fn() -> bool,
        mut in_time: impl FnMut() -> bool,
    ) -> (Room, Stayed) {
        let begun = self.round.take().filter(|round| round.name == name);
        let mut round = begun.unwrap_or(Round { name, ..Round::default() });
        while above() {
            if usize::from(round.db) >= self.shared.keyspace.databases() {
                return (Room::None, round.stayed);
            }
            let next = self.shared.keyspace.next_occupied(round.slot);
            let Some(slot) = next.filter(|_| !self.shared.keyspace.is_empty(round.db)) else {
                (round.db, round.slot, round.hash) = (round.db + 1, 0, 0);
                continue;
            };
            if slot != round.slot {
                (round.slot, round.hash) = (slot, 0);
            }
            match self.evict_of_slot(&mut round) {
                Some(hash) => round.hash = hash,
                None => (round.slot, round.hash) = (slot + 1, 0),
            }
            if !in_time() {
                self.round = Some(round);
                return (Room::Soon, Stayed::default());
            }
        }
        (Room::Enough, Stayed::default())
    }

    /// Forgets an unfinished round.
    #[inline]
    pub fn end_round(&mut self) {
        self.round = None;
    }

    /// Visits some buckets of a slot. Returns where to go on in it.
    fn evict_of_slot(&mut self, round: &mut Round) -> Option<u64> {
        let Some(held) = self.acquire_one(round.slot) else {
            round.stayed.changed = true;
            return None;
        };
        let (db, slot) = (round.db, round.slot);
        let view = self.view(&held, db);
        let mut clean: Vec<Box<[u8]>> = Vec::new();
        let mut at = Some(round.hash).filter(|_| view.slot_len(slot) > 0);
        for _ in 0..BUCKETS_PER_HOLD {
            let Some(hash) = at else { break };
            at = view.walk(slot, hash, |entry: EntryRef<'_>| match view.is_clean(slot, &entry) {
                true => clean.push(entry.key().into()),
                false => round.stayed.changed = true,
            });
        }
        let shared = self.shared.clone();
        for bytes in clean {
            let key = shared.keyspace.hasher().key(&bytes);
            if self.is_locked(&held, db, &key) {
                round.stayed.locked = true;
            } else if !self.view(&held, db).evict(&key) {
                round.stayed.fetched = true;
            }
        }
        self.release(held);
        at
    }

    /// Bytes of those of these keys that are in memory, without slots whose latch is busy. Nothing must be held.
    pub fn bytes_in_memory<'a>(&mut self, db: u16, keys: impl Iterator<Item = &'a [u8]>) -> u64 {
        let shared = self.shared.clone();
        let bytes = keys.map(|bytes| {
            let key = shared.keyspace.hasher().key(bytes);
            let Some(held) = self.acquire_one(key.slot) else { return 0 };
            let bytes = self.view(&held, db).peek(&key).map_or(0, |entry| entry.memory() as u64);
            self.release(held);
            bytes
        });
        bytes.sum()
    }
}
