//! Which records are waited for, and when it pays to look (checked by loom in `tests/demands.rs`). No thread is woken
//! for a block that would not depart yet, and no record that is waited for stays when a block has landed.

use crate::sync::{AtomicBool, AtomicU64, Ordering::*, fence};

/// The state between workers, who leave records, and the stream, which takes them.
#[derive(Default)]
pub(crate) struct Demand {
    /// Bytes that must have been left for a block to depart now.
    worth: AtomicU64,
    /// A worker waits for its records.
    wanted: AtomicBool,
}

impl Demand {
    /// Notes that the caller waits for its records. Returns whether a thread is to look now: otherwise the one that
    /// lands looks. `left`: how many bytes are left.
    #[inline]
    pub(crate) fn want(&self, left: impl FnOnce() -> u64) -> bool {
        self.wanted.swap(true, SeqCst);
        // The next thread that looks sees the records and the demand, or this one sees what a block is worth by now
        // (rule K2).
        fence(SeqCst);
        self.pays(left)
    }

    /// True if as many bytes are left as a block is worth.
    pub(crate) fn pays(&self, left: impl FnOnce() -> u64) -> bool {
        match self.worth.load(Relaxed) {
            0 => true,
            u64::MAX => false,
            worth => left() >= worth,
        }
    }

    /// Sets how many bytes must be left from now on; 0: any, [`u64::MAX`]: no block departs. Check [`Self::is_wanted`]
    /// and [`Self::pays`] after it has fallen.
    pub(crate) fn set_worth(&self, worth: u64) {
        self.worth.store(worth, Relaxed);
        // A worker that has left records sees this, or the check after this sees the records (rule K2).
        fence(SeqCst);
    }

    /// True if a worker waits.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// Notes that the records are taken now: a worker that leaves more and waits for them says so again.
    pub(crate) fn hear(&self) {
        self.wanted.swap(false, SeqCst);
        fence(SeqCst);
    }
}
