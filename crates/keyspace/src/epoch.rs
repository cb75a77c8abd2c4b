//! When memory that prefetching may read without a latch can be freed: quiescent-state reclamation.
//!
//! A worker pins the current epoch for each turn of its loop. Garbage of a turn gets the epoch at the turn's end, when
//! the epoch moves on. It is freed once no worker is pinned at that epoch or before:
//! - A worker pinned at a later epoch has read the number that the move wrote, so it sees the new root too.
//! - For a worker that pins an earlier one, either the pin is seen or the new root is. Pinning stores, fences, then
//!   reads roots. Collecting comes after the roots were stored, fences, then reads pins.
//!
//! The epoch at the time of retiring would not do: a plain load of it may be old, and a worker pinned between would be
//! missed (`tests/epochs.rs`).

use crate::sync::{Arc, AtomicU64, Ordering::*, fence};
use crate::table::Garbage;

/// The epoch of the keyspace and the pins of its workers.
pub struct Epochs {
    now: AtomicU64,
    /// 0: not reading. Each on a line of its own.
    pins: Box<[Pin]>,
}

#[repr(align(64))]
#[derive(Default)]
struct Pin(AtomicU64);

impl Epochs {
    pub(crate) fn new(workers: usize) -> Self {
        Self { now: AtomicU64::new(1), pins: (0..workers).map(|_| Pin::default()).collect() }
    }

    fn oldest_pin(&self) -> u64 {
        fence(SeqCst);
        self.pins.iter().map(|p| p.0.load(Acquire)).filter(|&e| e != 0).min().unwrap_or(u64::MAX)
    }
}

/// The epoch of garbage of the present turn, which is not known yet.
const THIS_TURN: u64 = u64::MAX;

/// A worker's garbage, oldest first, and its pin.
pub(crate) struct Retired {
    epochs: Arc<Epochs>,
    worker: usize,
    garbage: std::collections::VecDeque<(u64, Garbage)>,
}

impl Retired {
    pub(crate) fn new(epochs: Arc<Epochs>, worker: usize) -> Self {
        assert!(worker < epochs.pins.len());
        Self { epochs, worker, garbage: Default::default() }
    }

    #[inline]
    pub(crate) fn push(&mut self, garbage: Garbage) {
        self.garbage.push_back((THIS_TURN, garbage));
    }

    /// Starts a turn: what is read from now on stays readable until [`Self::unpin`].
    #[inline]
    pub(crate) fn pin(&mut self) {
        self.epochs.pins[self.worker].0.store(self.epochs.now.load(Acquire), Release);
        fence(SeqCst);
    }

    /// True if a turn is under way.
    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        self.epochs.pins[self.worker].0.load(Relaxed) != 0
    }

    /// Ends a turn and hands garbage that no worker can be reading to `free`.
    #[inline]
    pub(crate) fn unpin(&mut self, free: impl FnMut(Garbage)) {
        self.epochs.pins[self.worker].0.store(0, Release);
        if !self.garbage.is_empty() {
            self.collect(free);
        }
    }

    fn collect(&mut self, mut free: impl FnMut(Garbage)) {
        let epoch = self.epochs.now.fetch_add(1, AcqRel);
        self.garbage.iter_mut().rev().take_while(|(e, _)| *e == THIS_TURN).for_each(|(e, _)| *e = epoch);
        let oldest = self.epochs.oldest_pin();
        while let Some((epoch, _)) = self.garbage.front() {
            if *epoch >= oldest {
                break;
            }
            // Every reader pinned now pinned a later epoch, so it read the root after this was unlinked.
            if let Some((_, garbage)) = self.garbage.pop_front() {
                free(garbage);
            }
        }
    }
}
