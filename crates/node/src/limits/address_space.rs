//! How much of a limit of the address space (`headroom`) data may use, and whether memory is tight.
//!
//! Memory that is mapped and unused when all workers have begun is no room for data. The rest is, less a margin. The
//! margin is for mapped memory that allocators have not handed out, for threads that come and go, and for growth
//! between two looks.
//!
//! If the system still refuses memory (`headroom` then gives a part of its reserve), all mapped and unused memory is
//! doubted to be of use. While the reserve is whole, that doubt fades, because a refusal depends on the size that was
//! asked for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use clocks::UnixMs;

/// Milliseconds after which [`FORGOTTEN`] is forgotten.
const FORGET_MS: u64 = 1000;
/// The part of the doubt of a refusal that is forgotten: 1/16.
const FORGOTTEN: u64 = 16;

/// The findings of the last look.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// Bytes mapped and not in use when the last worker had begun, or the least since.
    base: u64,
    /// Bytes mapped since and unused, of which a refusal has shown that data may not be able to use them.
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
    /// The use up to which there is room.
    pub(super) usable: AtomicU64,
    /// Bytes mapped, without the reserve.
    pub(super) mapped: AtomicU64,
    /// Time of the last look, Unix milliseconds.
    pub(super) looked_at: AtomicU64,
    /// Time when doubt last faded, Unix milliseconds.
    pub(super) forgot_at: AtomicU64,
    /// The state that was logged last.
    pub(super) is_tight: AtomicBool,
}

impl AddressSpace {
    /// True if a part of the doubt is to be forgotten now, in unix milliseconds. If so, the caller does it.
    pub(super) fn is_time_to_forget(&self, now: UnixMs) -> bool {
        let is_time = now.abs_diff(UnixMs(self.forgot_at.load(Relaxed))) >= FORGET_MS;
        if is_time {
            self.forgot_at.store(now.0, Relaxed);
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
