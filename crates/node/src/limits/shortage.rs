//! What a worker knows of memory that is full.

use crate::durability::checkpoints::Ticket;
use crate::worker::token::Token;

/// For so long it is believed that nothing can leave memory even after a checkpoint, in milliseconds.
pub(super) const BARREN_MS: u64 = 100;

/// What a worker knows of memory that is full of what the store does not have.
#[derive(Default)]
pub(crate) struct Shortage {
    /// The checkpoint that was asked for.
    pub(super) ticket: Option<Ticket>,
    /// What was fetched before this load is waited for, and when it is looked at again.
    pub(super) fetched: Option<(keyspace::Ticket, u64)>,
    /// How often it was waited for one or the other, without there being room.
    pub(super) rounds: u32,
    /// Until then nothing is tried.
    pub(super) barren_until: u64,
    /// How much data is in memory.
    pub(super) counted: Counted,
    /// Connections that wait.
    pub(super) waiting: Vec<Token>,
    /// When they are looked at.
    pub(super) look_at: u64,
}

/// How much data is in memory, as it was counted last: to count goes through much of it, and many may be refused.
#[derive(Default)]
pub(super) struct Counted {
    /// Until when it is believed, in milliseconds.
    until: u64,
    /// Up to so many bytes were counted.
    most: u64,
    bytes: u64,
}

impl Counted {
    /// Whether it is so much; `count` counts until it is more than a number of bytes.
    pub(super) fn is_at_least(&mut self, bytes: u64, now: u64, count: impl FnOnce(u64) -> u64) -> bool {
        let all_is_counted = self.bytes <= self.most;
        if now >= self.until || bytes > self.most && !all_is_counted {
            *self = Self { until: now + BARREN_MS, most: bytes, bytes: count(bytes) };
        }
        self.bytes >= bytes
    }
}

impl Shortage {
    /// When it wants to be looked at.
    pub(crate) fn deadline(&self) -> Option<u64> {
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
        assert!(counted.is_at_least(100, 1000, |_| 120));
        assert!(counted.is_at_least(100, 1000, unasked) && counted.is_at_least(30, 1000 + BARREN_MS - 1, unasked));
        assert!(!counted.is_at_least(200, 1001, |_| 150), "there may have been more than 120");
        // Now it is known that it is no more.
        assert!(!counted.is_at_least(300, 1002, unasked) && counted.is_at_least(150, 1002, unasked));
        assert!(!counted.is_at_least(150, 1001 + BARREN_MS, |_| 140), "it was too long ago");
    }
}
