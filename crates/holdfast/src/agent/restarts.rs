//! When a child that has ended starts again. Pure: the time is handed in.

use crate::server::again::{LASTED_MS, pause_of};

/// The first pause that is one, and the longest, in milliseconds.
const PAUSE_MS: (u64, u64) = (200, 5_000);

/// Starts in a row that may fail before a child has served once.
const TRIES: u32 = 4;

/// The starts of a child.
#[derive(Debug, Default)]
pub struct Restarts {
    /// Ends in a row, each soon after the start.
    short: u32,
    has_served: bool,
}

impl Restarts {
    /// It serves.
    pub fn serves(&mut self) {
        self.has_served = true;
    }

    /// It has ended after so many milliseconds, at this time. Returns when it starts again; `None`: it never served, and has
    /// failed too often. `was_killed`: by a signal, which says nothing about how it would fare.
    pub fn ended(&mut self, lived_ms: u64, was_killed: bool, now: u64) -> Option<u64> {
        // One that has lasted had come up: its end is taken for the first.
        self.short = if lived_ms >= LASTED_MS { 0 } else { self.short + 1 };
        if !self.has_served && !was_killed && self.short >= TRIES {
            return None;
        }
        // None before the first: its node may own keys, and every moment counts.
        Some(now + pause_of(self.short, PAUSE_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_ends_again_and_again_starts_more_and_more_seldom() {
        let mut restarts = Restarts::default();
        restarts.serves();
        let mut ends = |lived: u64| restarts.ended(lived, false, 100);
        assert_eq!(ends(3_600_000), Some(100), "at once");
        assert_eq!([ends(1), ends(1), ends(1), ends(1)].map(Option::unwrap), [100, 300, 500, 900]);
        assert_eq!((0..20).map(|_| ends(1).unwrap()).max(), Some(5_100));
        assert_eq!(ends(4_000), Some(100), "it had come up");
    }

    #[test]
    fn one_that_never_served_is_given_up() {
        let mut restarts = Restarts::default();
        assert_eq!(
            (0..4).map(|_| restarts.ended(5, false, 0)).collect::<Vec<_>>(),
            [Some(0), Some(200), Some(400), None]
        );
        let mut killed = Restarts::default();
        assert!((0..20).all(|_| killed.ended(5, true, 0).is_some()));
    }
}
