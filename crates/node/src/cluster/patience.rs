//! How long what is to be said over links waits for more.
//!
//! A frame costs the system calls of both ends, whatever it holds, and the waking of the other one. So a worker that finds more to do in every turn
//! says what has come together when nothing has come, or after a few turns. One that has nothing else to do says it a turn later, which is at once.

/// Turns that something waits for at most.
const TURNS: u32 = 4;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Patience {
    /// What has been received until the last turn, counted as [`crate::WorkerStats::reads`] is.
    reads: u64,
    /// Turns since something was said.
    turns: u32,
}

impl Patience {
    /// A turn ends in which something may be said; `reads`: what has been received until now. Whether to wait for another turn.
    pub(crate) fn lasts(&mut self, reads: u64) -> bool {
        let received = std::mem::replace(&mut self.reads, reads) != reads;
        self.turns = if received && self.turns < TURNS { self.turns + 1 } else { 0 };
        self.turns > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_said_waits_as_long_as_something_comes_but_not_for_ever() {
        let mut patience = Patience::default();
        assert!(patience.lasts(1), "something has come");
        assert!(!patience.lasts(1), "nothing more has");
        let waits: Vec<bool> = (2..12).map(|reads| patience.lasts(reads)).collect();
        assert_eq!(waits, [true, true, true, true, false, true, true, true, true, false]);
    }
}
