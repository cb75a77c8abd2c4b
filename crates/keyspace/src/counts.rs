//! The numbers of keys. The keys that a command or block adds and removes count for others when its latches go back. So
//! a key that moves is not counted twice, and a replaced one is not missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use smallvec::SmallVec;

use crate::keyspace::Keyspace;
use crate::local::{Counters, Local, shift};

/// The figures of a database, or the change of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Keys.
    pub keys: i64,
    /// Keys with an expiry.
    pub expires: i64,
    /// Hashes with fields that expire.
    pub field_expires: i64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.keys += other.keys;
        self.expires += other.expires;
        self.field_expires += other.field_expires;
    }
}

/// Changes in physical databases that others do not see yet, by their numbers.
#[derive(Default, Debug)]
pub struct Unpublished(SmallVec<[(u16, Counts); 1]>);

impl Unpublished {
    /// To be changed.
    #[inline]
    pub(crate) fn of(&mut self, physical: u16) -> &mut Counts {
        let at = self.0.binary_search_by_key(&physical, |(number, _)| *number).unwrap_or_else(|at| {
            self.0.insert(at, (physical, Counts::default()));
            at
        });
        &mut self.0[at].1
    }

    /// True if nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The figures of a physical database.
    pub(crate) fn peek(&self, physical: u16) -> Counts {
        let at = self.0.binary_search_by_key(&physical, |(number, _)| *number);
        at.map_or_else(|_| Counts::default(), |at| self.0[at].1)
    }
}

impl Local {
    /// Publishes the present numbers of keys: before latches are given back under which keys may have come or gone.
    #[inline]
    pub fn publish_counts(&mut self) {
        if !self.unpublished.is_empty() {
            self.counters.add(&mut self.unpublished);
        }
    }

    /// Swaps the unpublished changes with `others`: a block that stands still while its worker does other work keeps
    /// its own.
    #[inline]
    pub fn exchange_counts(&mut self, others: &mut Unpublished) {
        std::mem::swap(&mut self.unpublished, others);
    }

    /// Takes over the changes that a block has kept.
    pub fn take_counts(&mut self, others: &mut Unpublished) {
        others.0.drain(..).for_each(|(physical, counts)| self.unpublished.of(physical).add(counts));
    }
}

impl Counters {
    fn add(&self, unpublished: &mut Unpublished) {
        for (physical, Counts { keys, expires, field_expires }) in unpublished.0.drain(..) {
            let all = [(keys, &self.keys), (expires, &self.expires), (field_expires, &self.field_expires)];
            for (change, counter) in all.into_iter().filter(|(change, _)| *change != 0) {
                shift(&counter[usize::from(physical)], change);
            }
        }
    }

    /// The sum of the published figures of all workers for a physical database.
    pub(crate) fn sum(all: &[Arc<Counters>], of: impl Fn(&Counters) -> &[AtomicI64], physical: u16) -> i64 {
        all.iter().map(|counters| of(counters)[usize::from(physical)].load(Relaxed)).sum()
    }
}

impl Keyspace {
    /// By how many keys logical database `db` exceeds its published number, by unpublished changes. `own` is of this
    /// keyspace.
    pub fn keys_added(&self, db: u16, own: &Unpublished) -> i64 {
        own.peek(self.physical(db)).keys
    }

    /// The figures of logical database `db`, with the caller's unpublished changes. Workers are read one after the
    /// other: a key that one adds and another removes meanwhile may be missed, but no figure is below zero.
    pub fn counts(&self, db: u16, own: Option<&Unpublished>) -> Counts {
        let physical = self.physical(db);
        let mut counts = own.map_or_else(Counts::default, |own| own.peek(physical));
        let sum = |of: fn(&Counters) -> &[AtomicI64]| Counters::sum(self.counters(), of, physical);
        counts.add(Counts {
            keys: sum(|counters| &counters.keys),
            expires: sum(|counters| &counters.expires),
            field_expires: sum(|counters| &counters.field_expires),
        });
        Counts { keys: counts.keys.max(0), expires: counts.expires.max(0), field_expires: counts.field_expires.max(0) }
    }
}
