//! Where workers leave records for a stream's writer, and how it takes all of them up to a cut.
//!
//! A worker goes through its *turnstile* before it chooses an LSN and leaves it when the record is there. The writer first
//! raises the *floor* to the cut it wants, then goes through every turnstile once. Whoever came through before has left its
//! record; whoever comes after sees the floor and chooses a higher LSN. So everything at or below the cut is taken, and what a
//! record depends on has a lower LSN than itself: a cut is a consistent prefix (checked by loom in `tests/cuts.rs`).

use crate::Lsn;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering::Relaxed, PoisonError};

/// What a worker has left and the writer has not taken.
#[derive(Default)]
struct Pending {
    /// Encoded records, in the order of their LSNs.
    bytes: Vec<u8>,
    /// The LSN of each, and where it ends.
    ends: Vec<(Lsn, usize)>,
}

/// One worker's part, on lines of its own.
#[repr(align(128))]
struct Lane {
    pending: Mutex<Pending>,
    /// LSN of the last record left.
    last: AtomicU64,
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The intake of one stream.
pub struct Intake {
    lanes: Box<[Lane]>,
    floor: AtomicU64,
}

/// What was taken.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// Every record of the stream up to here has been taken, now or before.
    pub cut: Lsn,
    /// Where each record ends in the bytes taken.
    pub ends: Vec<usize>,
}

/// A worker in its turnstile: no cut passes it.
pub struct Turnstile<'a> {
    intake: &'a Intake,
    lane: &'a Lane,
    pending: MutexGuard<'a, Pending>,
}

impl Intake {
    /// For `workers` workers, above everything up to `floor`.
    pub fn new(workers: usize, floor: Lsn) -> Self {
        let lane = |_| Lane { pending: Mutex::new(Pending::default()), last: AtomicU64::new(0) };
        Self { lanes: (0..workers).map(lane).collect(), floor: AtomicU64::new(floor) }
    }

    /// Worker `worker` is about to choose an LSN.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn enter(&self, worker: usize) -> Turnstile<'_> {
        let lane = &self.lanes[worker];
        Turnstile { intake: self, lane, pending: lane.lock() }
    }

    /// Takes every record up to a cut, which is as high as can be, and appends them to `bytes`. `None`: there is nothing.
    pub fn take(&self, bytes: &mut Vec<u8>) -> Option<Taken> {
        let cut = self.lanes.iter().map(|lane| lane.last.load(Relaxed)).max().unwrap_or(0);
        if cut <= self.floor.load(Relaxed) {
            return None;
        }
        // The locks that follow order this before whatever those see who lock after us.
        self.floor.store(cut, Relaxed);
        let mut ends = Vec::new();
        for lane in &self.lanes {
            let mut pending = lane.lock();
            let taken = pending.ends.partition_point(|(lsn, _)| *lsn <= cut);
            let Some(&(_, end)) = taken.checked_sub(1).and_then(|last| pending.ends.get(last)) else { continue };
            let before = bytes.len();
            bytes.extend_from_slice(&pending.bytes[..end]);
            ends.extend(pending.ends.drain(..taken).map(|(_, end)| before + end));
            pending.bytes.drain(..end);
            pending.ends.iter_mut().for_each(|(_, other)| *other -= end);
        }
        Some(Taken { cut, ends })
    }
}

impl Turnstile<'_> {
    /// An LSN chosen now must be above this.
    pub fn floor(&self) -> Lsn {
        self.intake.floor.load(Relaxed).max(self.lane.last.load(Relaxed))
    }

    /// Leaves an encoded record ([`crate::Record::encode`]) with this LSN, which is above what [`Self::floor`] was since the worker
    /// entered.
    pub fn leave(&mut self, lsn: Lsn, encode: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!(lsn > self.lane.last.load(Relaxed), "rule L1: above what the worker has left");
        encode(&mut self.pending.bytes);
        let end = self.pending.bytes.len();
        self.pending.ends.push((lsn, end));
        self.lane.last.store(lsn, Relaxed);
    }
}
