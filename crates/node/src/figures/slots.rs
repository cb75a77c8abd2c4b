//! The statistics of slots behind CLUSTER SLOT-STATS.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ::membership::SLOTS;

use super::cost::Cost;

/// The work for a slot.
#[derive(Default)]
pub(crate) struct SlotWork {
    pub(crate) nanos: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
}

/// The work for each slot, of all workers. There is none before `cluster-slot-stats-enabled` is on.
#[derive(Default)]
pub(crate) struct SlotFigures {
    of: OnceLock<Box<[SlotWork]>>,
}

impl SlotFigures {
    /// Adds to the work for a slot.
    pub(crate) fn add(&self, slot: u16, (cpu, net): (bool, bool), cost: Cost) {
        let all = self.of.get_or_init(|| (0..SLOTS).map(|_| SlotWork::default()).collect());
        let Some(work) = all.get(usize::from(slot)) else { return };
        if cpu {
            work.nanos.fetch_add(cost.nanos, Relaxed);
        }
        if net {
            work.bytes_in.fetch_add(cost.bytes_in, Relaxed);
            work.bytes_out.fetch_add(cost.bytes_out, Relaxed);
        }
    }

    /// The work for a slot: microseconds, bytes in, bytes out.
    pub(crate) fn of(&self, slot: u16) -> (u64, u64, u64) {
        let Some(work) = self.of.get().and_then(|all| all.get(usize::from(slot))) else { return (0, 0, 0) };
        (work.nanos.load(Relaxed) / 1000, work.bytes_in.load(Relaxed), work.bytes_out.load(Relaxed))
    }

    /// Forgets everything (CONFIG RESETSTAT).
    pub(crate) fn reset(&self) {
        for work in self.of.get().into_iter().flatten() {
            for figure in [&work.nanos, &work.bytes_in, &work.bytes_out] {
                figure.store(0, Relaxed);
            }
        }
    }
}
