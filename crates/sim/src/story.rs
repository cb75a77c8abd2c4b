//! Passed through the whole run: the random numbers, and the trace.

use redolog::simulated::Chance;

use crate::counts::Counts;
use crate::trace::Trace;

/// See the module's text.
pub struct Story {
    /// Decides.
    pub chance: Chance,
    /// The events.
    pub trace: Trace,
    /// The result.
    pub counts: Counts,
}

impl Story {
    /// One of these, which are not none.
    pub fn one_of(&mut self, count: usize) -> usize {
        self.chance.below(count as u64) as usize
    }

    /// True once in so many times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.chance.below(n) == 0
    }
}
