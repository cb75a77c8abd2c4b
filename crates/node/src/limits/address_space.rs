//! How much of a limit of the address space (`headroom`) data may use, and whether memory is tight.
//!
//! What is mapped when all workers have begun, and not in use, is no room for data. The rest is, but for a margin: for what
//! allocators have mapped and not handed out, threads that come and go, and what comes between two looks. If the system refuses memory all the same
//! (`headroom` gives a part of its reserve then), all that is mapped and not in use is doubted to be of use; for as long as the reserve is whole that is
//! forgotten little by little, because it depends on what was asked for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Milliseconds after which [`FORGOTTEN`] is.
const FORGET_MS: u64 = 1000;
/// So much of what a refusal has shown is forgotten: 1/16.
const FORGOTTEN: u64 = 16;

/// What was seen at the last look.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// Bytes mapped and not in use when the last worker had begun, or the least since.
    base: u64,
    /// Bytes mapped since and not in use, of which a refusal has made believe that data cannot use them.
    doubted: u64,
    /// How often memory has been refused.
    refusals: u64,
}

impl Seen {
    /// `begins`: there are workers that have not begun, whose stacks, rings and first pages are not mapped yet.
    pub(super) fn look(self, mapped: u64, used: u64, refusals: u64, begins: bool) -> Seen {
        let gap = mapped.saturating_sub(used);
        let base = if self.base == 0 || begins { gap } else { self.base.min(gap) };
        let doubted = if refusals == self.refusals { self.doubted.min(gap - base) } else { gap - base };
        Seen { base, doubted, refusals }
    }

    pub(super) fn forget(&mut self) {
        self.doubted -= self.doubted.div_ceil(FORGOTTEN);
    }

    pub(super) fn overhead(self) -> u64 {
        self.base + self.doubted
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct AddressSpace {
    pub(super) seen: Mutex<Seen>,
    /// Workers that have begun.
    pub(super) workers: AtomicUsize,
    /// Up to which use there is room.
    pub(super) usable: AtomicU64,
    /// Bytes mapped, without the reserve.
    pub(super) mapped: AtomicU64,
    /// Unix milliseconds.
    pub(super) looked_at: AtomicU64,
    /// The same.
    pub(super) forgot_at: AtomicU64,
    /// What was said of it last.
    pub(super) is_tight: AtomicBool,
}

impl AddressSpace {
    /// Whether some of what a refusal has shown is to be forgotten now, in unix milliseconds; it is forgotten then.
    pub(super) fn is_time_to_forget(&self, now: u64) -> bool {
        let is_time = now.abs_diff(self.forgot_at.load(Relaxed)) >= FORGET_MS;
        if is_time {
            self.forgot_at.store(now, Relaxed);
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_and_free_is_doubted_once_memory_is_refused() {
        let start = Seen::default().look(50, 10, 0, true).look(100, 10, 0, true);
        assert_eq!(start.overhead(), 90);
        let filled = start.look(190, 90, 0, false);
        assert_eq!(filled.overhead(), 90, "what was mapped is there to be used");
        let mut refused = filled.look(190, 60, 1, false);
        assert_eq!(refused.overhead(), 130, "but of no use, it turns out");
        assert_eq!(refused.look(190, 80, 1, false).overhead(), 110, "or it was");
        refused.forget();
        assert_eq!(refused.overhead(), 127);
        assert_eq!(refused.look(190, 150, 1, false).overhead(), 40);
    }
}
