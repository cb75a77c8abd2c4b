//! A worker's state about full memory.

use clocks::UnixMs;

use crate::durability::checkpoints::Ticket;
use crate::worker::token::Token;

/// Milliseconds for which a worker believes that nothing can leave memory even after a checkpoint.
pub(super) const BARREN_MS: u64 = 100;

/// A worker's state about memory that is full of data which the store does not have.
#[derive(Default)]
pub(crate) struct Shortage {
    /// The checkpoint that was asked for.
    pub(super) ticket: Option<Ticket>,
    /// The load whose predecessors are waited for, and the time of the next check.
    pub(super) fetched: Option<(keyspace::Ticket, UnixMs)>,
    /// How often commands waited for either without getting room.
    pub(super) rounds: u32,
    /// Until then no attempt is made.
    pub(super) barren_until: UnixMs,
    /// How much data is in memory.
    pub(super) counted: Counted,
    /// Connections that wait.
    pub(super) waiting: Vec<Token>,
    /// The time of the next check.
    pub(super) look_at: UnixMs,
}

/// The amount of data in memory, as it was counted last. A count goes through much of it, and many commands may be
/// refused.
#[derive(Default)]
pub(super) struct Counted {
    /// The time until which it is believed, in milliseconds.
    until: UnixMs,
    /// The bound of the count, in bytes.
    most: u64,
    bytes: u64,
}

impl Counted {
    /// True if there is at least so much; `count` counts until it exceeds a number of bytes.
    pub(super) fn is_at_least(&mut self, bytes: u64, now: UnixMs, count: impl FnOnce(u64) -> u64) -> bool {
        let all_is_counted = self.bytes <= self.most;
        if now >= self.until || bytes > self.most && !all_is_counted {
            *self = Self { until: now + BARREN_MS, most: bytes, bytes: count(bytes) };
        }
        self.bytes >= bytes
    }
}

impl Shortage {
    /// The time of the next check.
    pub(crate) fn deadline(&self) -> Option<UnixMs> {
        (!self.waiting.is_empty()).then_some(self.look_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_counted_once_for_many_who_are_refused() {
        let mut counted = Counted::default();
        let unasked = |_| panic!("it is known");
        assert!(counted.is_at_least(100, UnixMs(1000), |_| 120));
        assert!(
            counted.is_at_least(100, UnixMs(1000), unasked)
                && counted.is_at_least(30, UnixMs(1000 + BARREN_MS - 1), unasked)
        );
        assert!(!counted.is_at_least(200, UnixMs(1001), |_| 150), "there may have been more than 120");
        // Now it is known to be no more.
        assert!(!counted.is_at_least(300, UnixMs(1002), unasked) && counted.is_at_least(150, UnixMs(1002), unasked));
        assert!(!counted.is_at_least(150, UnixMs(1001 + BARREN_MS), |_| 140), "it was too long ago");
    }
}
