//! How far a standby's memory is, for other threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use redolog::Lsn;

use crate::checkpoint::Loaded;

/// The records that memory has: of each stream all up to one, and none above. It is said before any latch of a batch
/// goes back, so whoever has seen a change finds its record here.
#[derive(Debug)]
pub struct Applied {
    ends: Box<[AtomicU64]>,
    last: AtomicU64,
    is_whole: AtomicBool,
}

impl Applied {
    pub(super) fn new(loaded: Option<&Loaded>, streams: usize) -> Self {
        let end = |stream| loaded.and_then(|loaded| loaded.header.covered.get(stream)).copied().unwrap_or_default();
        let ends: Box<[AtomicU64]> = (0..streams).map(|stream| AtomicU64::new(end(stream).0)).collect();
        let last = (0..streams).map(end).min().unwrap_or_default();
        Self { ends, last: AtomicU64::new(last.0), is_whole: AtomicBool::new(loaded.is_none()) }
    }

    /// Of memory that has all records up to one.
    pub(super) fn upto(last: Lsn, streams: usize) -> Self {
        let ends = (0..streams).map(|_| AtomicU64::new(last.0)).collect();
        Self { ends, last: AtomicU64::new(last.0), is_whole: AtomicBool::new(true) }
    }

    pub(super) fn publish(&self, records: impl Iterator<Item = Lsn>, is_whole: bool) {
        let mut last = Lsn(self.last.load(Relaxed));
        for lsn in records {
            // The first records may be ones that the store covers.
            let end = self.ends.get(usize::from(lsn.stream())).filter(|end| end.load(Relaxed) < lsn.0);
            end.into_iter().for_each(|end| end.store(lsn.0, Release));
            last = lsn.max(last);
        }
        self.last.store(last.0, Release);
        if is_whole && !self.is_whole.load(Relaxed) {
            self.is_whole.store(true, Release);
        }
    }

    /// The last record of each stream: for [`crate::checkpoint::World::left`].
    pub fn ends(&self) -> Vec<Lsn> {
        self.ends.iter().map(|end| Lsn(end.load(Acquire))).collect()
    }

    /// The last record of all.
    pub fn last(&self) -> Lsn {
        Lsn(self.last.load(Acquire))
    }

    /// True if memory is as of one moment of the log. A store has parts of records behind the ones that it covers.
    /// Before these have been applied, no client may read, and no checkpoint may begin
    /// ([`crate::checkpoint::World::applied`]): it would take what is missing for covered.
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Acquire)
    }

    /// The part of each stream that a checkpoint covers which begins now, for [`crate::checkpoint::World::applied`]: up
    /// to the last *record*. What an owner has only said of LSNs that it will not give binds no successor.
    pub fn to_cover(&self) -> Option<Vec<Lsn>> {
        self.is_whole().then(|| vec![self.last(); self.ends.len()])
    }
}
