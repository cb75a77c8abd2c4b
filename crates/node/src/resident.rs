//! What the process holds beyond `used_memory`.
//!
//! The system counts resident pages: also those that allocators keep for later, stacks, and code. With a store, `maxmemory` is the limit
//! of all that, so what is resident and not accounted for is taken off it, and the rest is what may be in use. It is looked at every few
//! milliseconds while there is not much room left: what allocators keep goes up and down with checkpoints.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::node::Node;

/// Between two looks while memory fills, in milliseconds. A look costs some microseconds.
const LOOK_MS: u64 = 5;
/// Part of the limit that is left free for what comes between two looks, and for a checkpoint when nothing can leave memory before it ends: 1/16.
const MARGIN: u64 = 16;
/// What a server needs to work at all, in bytes: so much may be in use in any case, and a quarter of the limit.
const NEEDED: u64 = 36 << 20;

/// What may be in use beside what is not data, in any case: this part of the limit.
const LEAST_DATA: u64 = 8;
/// For so long what was found out about that is believed, in milliseconds.
const FLOOR_MS: u64 = 1000;

/// What was seen at the last look.
#[derive(Default)]
pub(crate) struct Resident {
    /// So much may be in use in any case, until this time.
    floor: AtomicU64,
    floor_until: AtomicU64,
    /// Resident bytes that `used_memory` does not count.
    beyond: AtomicU64,
    /// Unix milliseconds.
    looked_at: AtomicU64,
}

/// Up to which use the process stays within `limit` bytes if it holds `beyond` more; not less than a server needs.
fn usable(limit: u64, beyond: u64) -> u64 {
    let least = NEEDED.max(limit / 4).min(limit);
    (limit - limit / MARGIN).saturating_sub(beyond).max(least)
}

impl Node {
    /// Looks at what is resident.
    pub(crate) fn look_at_resident(&self, now: u64) {
        self.resident.looked_at.store(now, Relaxed);
        if let Some(resident) = self.facts.resident {
            self.resident.beyond.store(resident().saturating_sub(self.used_memory()), Relaxed);
        }
    }

    /// Up to which use of memory, as [`Self::uses_more_than`] counts it, the process stays within `limit` bytes as the system counts them.
    pub fn resident_limit(&self, limit: u64) -> u64 {
        usable(limit, self.resident_beyond())
    }

    /// Memory is above the limit, though no more than `data` bytes of it are of keys: it is what the server needs to work, and some data may
    /// be beside that. Whether that is more than there is now.
    pub(crate) fn make_do(&self, limit: u64, data: u64, now: u64) -> bool {
        let used = self.used_memory();
        let floor = used.saturating_sub(data) + limit / LEAST_DATA;
        self.resident.floor.store(floor, Relaxed);
        self.resident.floor_until.store(now + FLOOR_MS, Relaxed);
        floor > used
    }

    /// The most data that [`Self::make_do`] makes do with.
    pub(crate) fn least_data(limit: u64) -> u64 {
        limit / LEAST_DATA
    }

    /// The same; what it knows is a few milliseconds old at most, where that matters.
    pub(crate) fn resident_limit_now(&self, limit: u64, now: u64) -> u64 {
        if now.abs_diff(self.resident.looked_at.load(Relaxed)) >= LOOK_MS && self.uses_more_than(limit / 2) {
            self.look_at_resident(now);
        }
        let floor = if now < self.resident.floor_until.load(Relaxed) { self.resident.floor.load(Relaxed) } else { 0 };
        self.resident_limit(limit).max(floor)
    }

    /// Resident bytes that [`Self::used_memory`] does not count, when they were looked at last.
    pub fn resident_beyond(&self) -> u64 {
        self.resident.beyond.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn what_is_resident_leaves_less_for_data() {
        assert_eq!(usable(1024 * MB, 0), 960 * MB);
        assert_eq!(usable(1024 * MB, 100 * MB), 860 * MB);
        assert_eq!(usable(1024 * MB, 900 * MB), 256 * MB, "at least a quarter");
        assert_eq!(usable(48 * MB, 30 * MB), 36 * MB, "at least what a server needs");
        assert_eq!(usable(20 * MB, 30 * MB), 20 * MB);
        assert_eq!(usable(0, MB), 0);
    }
}
