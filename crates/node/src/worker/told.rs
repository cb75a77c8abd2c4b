//! The last log line about requests of HTTP.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clocks::UnixMs;

/// Milliseconds between two such lines: a client may send such requests often.
const TOLD_MS: u64 = 60_000;

/// The time of the last line, in Unix milliseconds; 0: never.
#[derive(Default)]
pub(crate) struct Told(AtomicU64);

impl Told {
    /// True if a line is due. If so, the caller writes it now.
    pub(super) fn is_due(&self, now: UnixMs) -> bool {
        let last = self.0.load(Relaxed);
        let is_due = last == 0 || now.abs_diff(UnixMs(last)) > TOLD_MS;
        is_due && self.0.compare_exchange(last, now.0.max(1), Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_a_minute() {
        let told = Told::default();
        let said: Vec<u64> = (0..200_000).step_by(1000).filter(|now| told.is_due(UnixMs(*now))).collect();
        assert_eq!(said, [0, 61_000, 122_000, 183_000]);
    }
}
