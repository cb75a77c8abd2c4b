//! Emptying databases: the tables are taken out at once, under every latch; their entries are freed later, in steps.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use crate::cold::ColdFigures;
use crate::keyspace::{Held, Keyspace};
use crate::local::{Local, bump};
use crate::slot::SLOTS;
use crate::table::{Garbage, Table};
use crate::tombstone::OfDatabase;

/// Tables that were taken out of the keyspace and wait to be freed. Must be stepped to its end.
#[derive(Default)]
#[must_use = "the entries stay allocated until `step` has said that it is done"]
pub struct Reclaim {
    tables: Vec<Table>,
    tombstones: Vec<OfDatabase>,
    garbage: VecDeque<Garbage>,
}

impl Keyspace {
    /// Empties logical database `db`, or all of them. Everything must be held.
    pub fn flush(&self, held: &Held, local: &mut Local, db: Option<u16>) -> Reclaim {
        assert!(held.is_all(), "a flush is a barrier");
        let only = db.map(|db| self.physical(db));
        self.cold.void(only);
        self.snapshots.void(db.is_none());
        let mut reclaim = Reclaim::default();
        let mut take = |slot: u16, number: u16, table: &Table| {
            if only.is_some_and(|n| n != number) {
                return;
            }
            if table.graves.are_of_interest() {
                reclaim.tombstones.extend(self.graveyard.take(slot, number));
                if table.graves.is_cold() {
                    let cold = self.cold.take(slot, number);
                    self.count_cold(number, cold, ColdFigures::default(), local);
                }
                table.graves.reset();
            }
            let (count, expiring) = (table.count.get(), table.expiring.get());
            if count == 0 {
                return;
            }
            bump(&local.counters.reclaiming, count.into());
            let fields = i64::from(table.volatile.get() - expiring);
            let counts = local.unpublished.of(number);
            counts.keys -= i64::from(count);
            counts.expires -= i64::from(expiring);
            counts.field_expires -= fields;
            reclaim.tables.push(table.take());
        };
        // Slots without keys may have tombstones.
        let tombstones = self.tombstones() > 0;
        let mut slot = 0;
        while let Some(next) = if tombstones { Some(slot) } else { self.next_occupied(slot) } {
            let body = self.body(held, next);
            body.tables().for_each(|(number, table)| take(next, number, table));
            self.mark_if_empty(held, next);
            slot = next + 1;
            if usize::from(slot) == SLOTS {
                break;
            }
        }
        let flushed = (0..self.databases() as u16).filter(|n| only.is_none_or(|only| only == *n));
        flushed.for_each(|number| {
            local.counters.forget_sizes(self.counters(), number);
            self.spaces.flushed(number);
        });
        reclaim
    }
}

impl Reclaim {
    /// Frees about `entries` entries. True: nothing is left.
    pub fn step(&mut self, local: &mut Local, entries: usize) -> bool {
        let (freed, done) = self.free(local, entries);
        bump(&local.counters.reclaimed, freed as u64);
        done
    }

    /// As [`Self::step`], but the freed entries do not count as freed later than they were deleted.
    pub fn step_at_once(&mut self, local: &mut Local, entries: usize) -> bool {
        self.free(local, entries).1
    }

    /// Frees about `entries` entries: how many, and whether nothing is left.
    fn free(&mut self, local: &mut Local, entries: usize) -> (usize, bool) {
        let (mut freed, mut others) = (0, 0);
        let done = loop {
            if freed + others >= entries {
                break false;
            }
            match self.garbage.pop_front() {
                Some(Garbage::Segment(segment)) => {
                    segment.each(|_, word| {
                        crate::entry::Entry::from_word(word).free(local);
                        freed += 1;
                    });
                    // Other workers may still be prefetching from it.
                    local.retire(Garbage::Segment(segment));
                }
                Some(directory) => local.retire(directory),
                None => match self.tables.pop() {
                    Some(table) => table.dismantle(|garbage| self.garbage.push_back(garbage)),
                    None if self.tombstones.is_empty() => break true,
                    None => {
                        if !self.tombstones.last_mut().is_some_and(OfDatabase::pop) {
                            self.tombstones.pop();
                        }
                        others += 1;
                    }
                },
            }
        };
        let counters = &local.counters;
        counters.reclaiming.store(counters.reclaiming.load(Relaxed).saturating_sub(freed as u64), Relaxed);
        (freed, done)
    }
}
