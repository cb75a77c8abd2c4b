//! Tidying: tables that have become sparse shrink, and what lies in sparse pages of the heap moves to fuller ones, so that the
//! sparse pages become empty. In steps of one part of a table, each worker in its share of the slots.

use keyspace::{SLOTS, bump};

use crate::engine::Engine;

/// Where a worker's pass is, and what it has done so far.
#[derive(Default)]
pub(crate) struct Tidy {
    slot: u16,
    db: u16,
    hash: u64,
    seen: u64,
    moved: u64,
}

/// How a pass over the slots goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tidied {
    /// It is over: how many blocks it looked at, and how many of them it moved.
    Pass {
        /// Blocks of the heap looked at.
        seen: u64,
        /// Those moved.
        moved: u64,
    },
    /// Time was up before.
    Part,
}

impl Engine {
    /// Goes on with a pass of tidying over the worker's share of the slots, which are shared out among `workers` workers, until it
    /// is over or `in_time` says that time is up. `entries`: entries move as well as tables.
    pub fn tidy(&mut self, workers: u16, entries: bool, mut in_time: impl FnMut() -> bool) -> Tidied {
        while let Some(slot) = self.shared.keyspace.next_occupied(self.tidy.slot) {
            if slot != self.tidy.slot {
                self.tidy = Tidy { slot, db: 0, hash: 0, ..self.tidy };
            }
            // As in the sweep.
            if slot / 64 % workers == self.index && self.tidy_slot(slot, entries, &mut in_time) {
                return Tidied::Part;
            }
            if usize::from(slot) + 1 == SLOTS {
                break;
            }
            self.tidy = Tidy { slot: slot + 1, db: 0, hash: 0, ..self.tidy };
        }
        self.local.flush_heap();
        let Tidy { seen, moved, .. } = std::mem::take(&mut self.tidy);
        Tidied::Pass { seen, moved }
    }

    /// Tidies a slot from where the pass is. True: time was up before its end.
    fn tidy_slot(&mut self, slot: u16, entries: bool, in_time: &mut impl FnMut() -> bool) -> bool {
        let databases = self.shared.keyspace.databases() as u16;
        while self.tidy.db < databases {
            // Somebody uses the slot: it is left to the next pass.
            let Some(held) = self.acquire_one(slot) else { return !in_time() };
            let (db, hash) = (self.tidy.db, self.tidy.hash);
            let tidied = self.db(&held, db, 0).tidy(slot, hash, entries);
            self.release(held);
            let (seen, moved) = (u64::from(tidied.seen), u64::from(tidied.moved));
            (self.tidy.seen, self.tidy.moved) = (self.tidy.seen + seen, self.tidy.moved + moved);
            bump(&self.local.counters().moved, moved);
            bump(&self.local.counters().unmoved, seen - moved);
            match tidied.next {
                Some(hash) => self.tidy.hash = hash,
                None => (self.tidy.db, self.tidy.hash) = (db + 1, 0),
            }
            if seen > 0 && !in_time() {
                return true;
            }
        }
        false
    }
}
