//! The latch of a slot: short exclusive access, with room for waiters to announce themselves.
//!
//! A latch never blocks a thread. An acquirer that fails to take it parks its *connection* (rules K1, K2): it registers
//! in the parking lot, announces itself on the word, and looks once more. Announcing and unlocking are
//! read-modify-write operations on one word, so one of the two sees the other.

use crate::sync::{AtomicU32, Ordering::*};

const LOCKED: u32 = 1;
const WAITERS: u32 = 2;
const RESERVED: u32 = 4;

/// One latch. Free, or held by exactly one acquirer.
#[derive(Default)]
pub struct Latch(AtomicU32);

impl Latch {
    /// Takes the latch if it is free and not reserved.
    #[inline]
    pub fn try_lock(&self) -> bool {
        // The usual case is one compare-and-swap on a line prefetched for writing.
        if self.0.compare_exchange(0, LOCKED, Acquire, Relaxed).is_ok() {
            return true;
        }
        self.try_lock_past(LOCKED | RESERVED)
    }

    /// Takes the latch even though it is reserved: for the acquirer that reserved it.
    pub fn try_lock_reserved(&self) -> bool {
        self.try_lock_past(LOCKED)
    }

    fn try_lock_past(&self, forbidden: u32) -> bool {
        let mut word = self.0.load(Relaxed);
        while word & forbidden == 0 {
            match self.0.compare_exchange_weak(word, word | LOCKED, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Frees the latch. True if waiters have announced themselves: the caller must wake them.
    #[inline]
    pub fn unlock(&self) -> bool {
        if self.0.compare_exchange(LOCKED, 0, Release, Relaxed).is_ok() {
            return false;
        }
        let before = self.0.fetch_and(!(LOCKED | WAITERS), AcqRel);
        debug_assert!(before & LOCKED != 0, "unlock of a free latch");
        before & WAITERS != 0
    }

    /// Announces a waiter that is already registered in the lot. True if a wake-up will follow; false if the latch can
    /// be had now: is not held and, unless `reserver` asks, not reserved.
    pub fn announce(&self, reserver: bool) -> bool {
        let busy = if reserver { LOCKED } else { LOCKED | RESERVED };
        self.0.fetch_or(WAITERS, AcqRel) & busy != 0
    }

    /// Keeps everyone but the reserving acquirer out once the present holder leaves (rule K1).
    pub fn reserve(&self) {
        self.0.fetch_or(RESERVED, AcqRel);
    }

    /// Ends a reservation. True if waiters must be woken.
    pub fn unreserve(&self) -> bool {
        self.0.fetch_and(!(RESERVED | WAITERS), AcqRel) & WAITERS != 0
    }
}
