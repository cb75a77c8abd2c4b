//! Who waits for what has been left, and when it pays to look (checked by loom in `tests/demands.rs`): nobody is woken for a block that would
//! not depart yet, and nothing that somebody waits for is left lying when one has landed.

use crate::sync::{AtomicBool, AtomicU64, Ordering::*, fence};

/// Between workers, who leave records, and the stream, which takes them.
#[derive(Default)]
pub(crate) struct Demand {
    /// Bytes that must have been left for a block to depart now.
    worth: AtomicU64,
    /// Somebody waits for what has been left.
    wanted: AtomicBool,
}

impl Demand {
    /// The caller waits for what he has left. Whether somebody is to look now: otherwise one does who lands. `left`: how many bytes
    /// have been left.
    #[inline]
    pub(crate) fn want(&self, left: impl FnOnce() -> u64) -> bool {
        self.wanted.swap(true, SeqCst);
        // Who looks next sees what was left and that it is wanted, or we see what it is worth by now (rule K2).
        fence(SeqCst);
        self.pays(left)
    }

    /// Whether as much has been left as a block is worth.
    pub(crate) fn pays(&self, left: impl FnOnce() -> u64) -> bool {
        match self.worth.load(Relaxed) {
            0 => true,
            u64::MAX => false,
            worth => left() >= worth,
        }
    }

    /// So many bytes must have been left from now on; 0: any, [`u64::MAX`]: no block departs. Look at [`Self::is_wanted`] and [`Self::pays`]
    /// after it has fallen.
    pub(crate) fn set_worth(&self, worth: u64) {
        self.worth.store(worth, Relaxed);
        // Who has left something sees this, or we see what was left when we look after this (rule K2).
        fence(SeqCst);
    }

    /// Whether somebody waits.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// What has been left is taken now: who wants what is left after this says so again.
    pub(crate) fn hear(&self) {
        self.wanted.swap(false, SeqCst);
        fence(SeqCst);
    }
}
