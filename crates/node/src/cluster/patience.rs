//! How long items for links wait for more.
//!
//! A frame costs the system calls of both ends, whatever it holds, and the waking of the other end. So a worker that
//! finds more to do in every turn sends its items when nothing more has come, or after a few turns. A worker without
//! other work sends them a turn later, which is at once.

/// Most turns that an item waits.
const TURNS: u32 = 4;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Patience {
    /// The bytes received until the last turn, counted as [`crate::WorkerStats::reads`] is.
    reads: u64,
    /// Turns since the last frame.
    turns: u32,
}

impl Patience {
    /// Ends a turn in which a frame may leave; `reads`: the bytes received until now. Returns whether to wait for
    /// another turn.
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
