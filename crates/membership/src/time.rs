//! The time of leases (rule O1), as a type of its own: comparing a lease with another clock would let two nodes serve
//! one slot.

use std::sync::atomic::{AtomicU64, Ordering};

use clocks::BootMs;

/// A moment of CLOCK_BOOTTIME, in nanoseconds. That clock never goes back and goes on while the machine sleeps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct BootNs(pub u64);

impl BootNs {
    /// Later than any moment that comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment so many nanoseconds later.
    #[must_use]
    pub fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// How many nanoseconds are left at `now`; 0: this is over.
    #[must_use]
    pub fn left(self, now: Self) -> u64 {
        self.0.saturating_sub(now.0)
    }

    /// The same moment in milliseconds: what is due in transactions over nodes counts in these.
    #[must_use]
    pub fn ms(self) -> BootMs {
        BootMs(self.0 / 1_000_000)
    }
}

/// The end of a lease, which one thread moves and others read.
#[derive(Debug, Default)]
pub struct LeaseEnd(AtomicU64);

impl LeaseEnd {
    /// The present end.
    #[inline]
    pub fn get(&self) -> BootNs {
        BootNs(self.0.load(Ordering::Acquire))
    }

    /// Sets an end that is no earlier: a lease is never taken back.
    pub fn extend(&self, until: BootNs) {
        self.0.fetch_max(until.0, Ordering::AcqRel);
    }
}
