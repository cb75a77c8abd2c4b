//! The figures of a running stream.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets of the histogram of syncs: bucket `i` counts those that took less than `2^i` microseconds, and not less than
/// half of that.
pub const BUCKETS: usize = 32;

/// Counted by a stream's threads, read by all.
#[derive(Default)]
pub(crate) struct Meter {
    /// Bytes of records written.
    pub(crate) written: AtomicU64,
    /// Blocks written: groups that were committed at once.
    pub(crate) groups: AtomicU64,
    /// Records written.
    pub(crate) records: AtomicU64,
    /// Bytes of the segments in use.
    pub(crate) size: AtomicU64,
    /// Nanoseconds of the clock when the sync began that is running; 0 if none is.
    sync_began: AtomicU64,
    /// Nanoseconds of the last sync.
    sync_last: AtomicU64,
    /// Nanoseconds of all syncs.
    synced_for: AtomicU64,
    syncs: [AtomicU64; BUCKETS],
}

impl Meter {
    pub(crate) fn begin_sync(&self, now: u64) {
        self.sync_began.store(now.max(1), Relaxed);
    }

    pub(crate) fn end_sync(&self, now: u64) {
        self.landed(now.saturating_sub(self.sync_began.swap(0, Relaxed)));
    }

    /// Notes that blocks are in flight, the first since then, or that none is.
    pub(crate) fn in_flight(&self, since: Option<u64>) {
        self.sync_began.store(since.map_or(0, |since| since.max(1)), Relaxed);
    }

    /// Notes that a block is on the disk, so long after it departed.
    pub(crate) fn landed(&self, took: u64) {
        self.sync_last.store(took, Relaxed);
        self.synced_for.fetch_add(took, Relaxed);
        let us = took / 1000;
        let bucket = (u64::BITS - us.leading_zeros()) as usize;
        self.syncs[bucket.min(BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    /// How long the running sync takes so far; 0 if none is. Nanoseconds.
    pub(crate) fn stalled(&self, now: u64) -> u64 {
        match self.sync_began.load(Relaxed) {
            0 => 0,
            began => now.saturating_sub(began),
        }
    }

    pub(crate) fn last_sync(&self) -> u64 {
        self.sync_last.load(Relaxed)
    }

    pub(crate) fn synced_for(&self) -> u64 {
        self.synced_for.load(Relaxed)
    }

    pub(crate) fn syncs(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|i| self.syncs[i].load(Relaxed))
    }
}
