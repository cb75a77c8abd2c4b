//! How much of a limit of the address space (`headroom`) data may use, and whether memory is tight.
//!
//! What is mapped when all workers have begun, and not in use, is no room for data. The rest is, but for a margin: for what
//! allocators have mapped and not handed out, threads that come and go, and what comes between two looks. If the system refuses memory all the same
//! (`headroom` gives a part of its reserve then), all that is mapped and not in use is doubted to be of use; for as long as the reserve is whole that is
//! forgotten little by little, because it depends on what was asked for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::node::Node;

/// Between two looks, in milliseconds. A look costs some microseconds.
const LOOK_MS: u64 = 5;

/// Milliseconds after which [`FORGOTTEN`] is.
const FORGET_MS: u64 = 1000;
/// So much of what a refusal has shown is forgotten: 1/16.
const FORGOTTEN: u64 = 16;

/// What was seen at the last look.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Bytes mapped and not in use when the last worker had begun, or the least since.
    base: u64,
    /// Bytes mapped since and not in use, of which a refusal has made believe that data cannot use them.
    doubted: u64,
    /// How often memory has been refused.
    refusals: u64,
}

impl Seen {
    /// `begins`: there are workers that have not begun, whose stacks, rings and first pages are not mapped yet.
    fn look(self, mapped: u64, used: u64, refusals: u64, begins: bool) -> Seen {
        let gap = mapped.saturating_sub(used);
        let base = if self.base == 0 || begins { gap } else { self.base.min(gap) };
        let doubted = if refusals == self.refusals { self.doubted.min(gap - base) } else { gap - base };
        Seen { base, doubted, refusals }
    }

    fn forget(&mut self) {
        self.doubted -= self.doubted.div_ceil(FORGOTTEN);
    }

    fn overhead(self) -> u64 {
        self.base + self.doubted
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct AddressSpace {
    seen: Mutex<Seen>,
    /// Workers that have begun.
    workers: AtomicUsize,
    /// Up to which use there is room.
    usable: AtomicU64,
    /// Bytes mapped, without the reserve.
    mapped: AtomicU64,
    /// Unix milliseconds.
    looked_at: AtomicU64,
    /// The same.
    forgot_at: AtomicU64,
    /// What was said of it last.
    is_tight: AtomicBool,
}

impl Node {
    /// Looks at what the system's limits leave, if there are any.
    pub(crate) fn look_at_limits(&self) {
        if !headroom::is_limited() {
            return;
        }
        self.look_at_address_space();
        if self.facts.resident_max > 0 {
            self.look_at_resident(self.resident_bound(&self.config.settings()), self.clock.unix_ms());
        }
        headroom::note_left(self.left_for_data());
        if headroom::is_tight() != self.address_space.is_tight.swap(headroom::is_tight(), Relaxed) {
            let (mapped, used) = (self.address_space.mapped.load(Relaxed), self.used_memory());
            let (scripts, usable, reserve) = (script::memory(), self.system_limit(), headroom::mapped());
            match headroom::is_tight() {
                true => {
                    tracing::warn!(mapped, used, usable, scripts, reserve, "memory is tight: what can be refused is")
                }
                false => tracing::info!(mapped, used, usable, scripts, reserve, "memory is not tight any more"),
            }
        }
    }

    fn look_at_address_space(&self) {
        let Some(mapped) = self.facts.mapped else { return };
        // Somebody else is at it.
        let Ok(mut seen) = self.address_space.seen.try_lock() else { return };
        // In this order: what is given up meanwhile counts as mapped.
        let reserve = headroom::mapped();
        let mapped = mapped().saturating_sub(reserve);
        let scripts = script::memory() as u64;
        let begins = self.address_space.workers.load(Relaxed) < self.workers();
        *seen = seen.look(mapped, self.used_memory() + scripts, headroom::refusals(), begins);
        if headroom::missing() == 0 && self.is_time_to_forget() {
            seen.forget();
        }
        let taken = seen.overhead() + scripts + headroom::margin(headroom::limit());
        self.address_space.usable.store(headroom::limit().saturating_sub(taken), Relaxed);
        self.address_space.mapped.store(mapped, Relaxed);
        headroom::restock(mapped);
    }

    /// A worker has begun: what it needs besides data is mapped.
    pub(crate) fn worker_has_begun(&self) {
        // Before it counts: of the last one, too, what it takes is not data's.
        self.look_at_limits();
        self.address_space.workers.fetch_add(1, Relaxed);
    }

    fn is_time_to_forget(&self) -> bool {
        let now = self.clock.unix_ms();
        let is_time = now.abs_diff(self.address_space.forgot_at.load(Relaxed)) >= FORGET_MS;
        if is_time {
            self.address_space.forgot_at.store(now, Relaxed);
        }
        is_time
    }

    /// Up to which use of memory, as [`Self::uses_more_than`] counts it, the process stays within the system's limit of its address space;
    /// `u64::MAX` without one.
    pub fn address_limit(&self) -> u64 {
        if self.facts.mapped.is_some() { self.address_space.usable.load(Relaxed) } else { u64::MAX }
    }

    /// Looks at the limits unless that was done in the last few milliseconds.
    pub(crate) fn look_at_limits_now(&self, now: u64) {
        if headroom::is_limited() && now.abs_diff(self.address_space.looked_at.load(Relaxed)) >= LOOK_MS {
            self.address_space.looked_at.store(now, Relaxed);
            self.look_at_limits();
        }
    }

    /// Up to which use of memory the process stays within all limits of the system's; `u64::MAX` without any.
    pub fn system_limit(&self) -> u64 {
        let resident = match self.facts.resident_max {
            0 => u64::MAX,
            most => {
                // `maxmemory` may be less: beyond that, the system gives more.
                let bound = self.resident_bound(&self.config.settings());
                self.resident_limit(bound).saturating_add(most - bound.min(most))
            }
        };
        self.address_limit().min(resident)
    }

    fn left_for_data(&self) -> i64 {
        let signed = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        let used = self.used_memory();
        let left = signed(self.system_limit()).saturating_sub_unsigned(used);
        match self.facts.resident_max {
            0 => left,
            // It need not be data that takes it.
            most => left.min(signed(most).saturating_sub_unsigned(used + self.resident_beyond())),
        }
    }

    /// Bytes that the system's limits leave for data at this moment, less than none where something takes of the margin.
    pub fn left(&self) -> i64 {
        self.look_at_limits();
        self.left_for_data()
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
