//! How many keys there are. What a worker adds and takes away is its own until it gives latches back, or says so: others never count a key
//! twice that moves, and do not miss one that is replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use crate::local::{Counters, Local, shift};

/// What is counted of a physical database, or by how much that has changed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    pub(crate) keys: i64,
    /// Keys with an expiry.
    pub(crate) expires: i64,
    /// Hashes with fields that expire.
    pub(crate) field_expires: i64,
}

/// What a worker has changed and others do not see yet.
pub(crate) struct Unpublished {
    of: Box<[Counts]>,
    /// The first and the last physical database it may have changed: nothing if they are the wrong way round.
    first: u16,
    last: u16,
}

impl Unpublished {
    pub(crate) fn new(databases: usize) -> Self {
        Self { of: vec![Counts::default(); databases].into(), first: u16::MAX, last: 0 }
    }

    /// To be changed.
    #[inline]
    pub(crate) fn of(&mut self, physical: u16) -> &mut Counts {
        self.first = self.first.min(physical);
        self.last = self.last.max(physical);
        &mut self.of[usize::from(physical)]
    }

    /// What there is of a physical database.
    pub(crate) fn peek(&self, physical: u16) -> Counts {
        self.of[usize::from(physical)]
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.first > self.last
    }

    fn move_to(&mut self, counters: &Counters) {
        for number in usize::from(self.first)..=usize::from(self.last) {
            let Counts { keys, expires, field_expires } = std::mem::take(&mut self.of[number]);
            let all = [(keys, &counters.keys), (expires, &counters.expires), (field_expires, &counters.field_expires)];
            for (change, counter) in all.into_iter().filter(|(change, _)| *change != 0) {
                shift(&counter[number], change);
            }
        }
        (self.first, self.last) = (u16::MAX, 0);
    }
}

impl Local {
    /// Lets others see how many keys there are now: before latches are given back under which keys may have come or gone.
    #[inline]
    pub fn publish_counts(&mut self) {
        if !self.unpublished.is_empty() {
            self.unpublished.move_to(&self.counters);
        }
    }
}

impl Counters {
    /// The sum of what all workers have said of a physical database.
    pub(crate) fn sum(all: &[Arc<Counters>], of: impl Fn(&Counters) -> &[AtomicI64], physical: u16) -> i64 {
        all.iter().map(|counters| of(counters)[usize::from(physical)].load(Relaxed)).sum()
    }
}
