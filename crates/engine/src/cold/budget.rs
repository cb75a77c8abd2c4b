//! How much of large values loaders may read at once, where memory is limited: their reads take memory before any room
//! was made for them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use keyspace::Ticket;

/// Fewer bytes are read at any time: the margins of the limits have them.
const LARGE: u64 = headroom::LARGE as u64;

/// True if a load of so many bytes counts.
pub(super) fn is_large(bytes: u64) -> bool {
    bytes >= LARGE
}

/// A number of bytes that loads share. A load that needs more than that is done alone.
#[derive(Default)]
pub struct Budget(Mutex<State>);

struct State {
    most: u64,
    /// Bytes of loads that were read, or are being read, and are not in memory yet.
    taken: u64,
    /// The load that comes next, before any other large one: otherwise smaller ones could go first for ever.
    next: Option<Ticket>,
}

impl Default for State {
    /// Without a limit.
    fn default() -> Self {
        Self { most: u64::MAX, taken: 0, next: None }
    }
}

impl Budget {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the number of bytes.
    pub fn limit_to(&self, bytes: u64) {
        self.state().most = bytes;
    }

    /// Takes the bytes of a load. False: others have them, or come first; the load has to ask again, or to
    /// [`Self::leave`].
    pub(super) fn take(&self, load: Ticket, bytes: u64) -> bool {
        self.grow(load, 0, bytes)
    }

    /// The same for a load that has taken some, and needs so many in all.
    pub(super) fn grow(&self, load: Ticket, has: u64, bytes: u64) -> bool {
        if !is_large(bytes) {
            return true;
        }
        let mut state = self.state();
        let others = state.taken.saturating_sub(if is_large(has) { has } else { 0 });
        let fits = others == 0 || others.saturating_add(bytes) <= state.most;
        let comes_next = *state.next.get_or_insert(load) == load;
        if fits && comes_next {
            state.taken = others.saturating_add(bytes);
            state.next = None;
        }
        fits && comes_next
    }

    /// Gives back the bytes of a load.
    pub(super) fn give_back(&self, bytes: u64) {
        if is_large(bytes) {
            let mut state = self.state();
            state.taken = state.taken.saturating_sub(bytes);
        }
    }

    /// A load that was refused will not ask again.
    pub(super) fn leave(&self, load: Ticket) {
        let mut state = self.state();
        state.next = state.next.filter(|next| *next != load);
    }

    /// True if a load waits for others to give bytes back.
    pub(super) fn is_wanted(&self) -> bool {
        self.state().next.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn loads_share_a_number_of_bytes() {
        let budget = Budget::default();
        assert!(budget.take(1, u64::MAX / 2) && budget.take(2, u64::MAX / 2));
        let budget = Budget::default();
        budget.limit_to(10 * MB);
        assert!(budget.take(1, 6 * MB) && budget.take(2, 4 * MB));
        assert!(!budget.take(3, MB) && budget.is_wanted());
        assert!(budget.take(4, LARGE - 1), "what is not large is not counted");
        budget.give_back(LARGE - 1);
        assert!(!budget.take(3, MB));
        budget.give_back(4 * MB);
        assert!(budget.take(3, MB) && !budget.is_wanted());
    }

    #[test]
    fn a_load_may_turn_out_to_need_more() {
        let budget = Budget::default();
        budget.limit_to(10 * MB);
        assert!(budget.take(1, 2 * MB) && budget.take(2, 1) && budget.grow(2, 1, 8 * MB));
        assert!(!budget.grow(1, 2 * MB, 3 * MB) && budget.is_wanted(), "there are 10");
        budget.give_back(2 * MB);
        assert!(!budget.take(3, 2 * MB), "the first comes next");
        budget.give_back(8 * MB);
        assert!(budget.take(1, 3 * MB) && budget.grow(1, 3 * MB, 50 * MB), "it is alone");
        budget.give_back(50 * MB);
        assert!(budget.take(3, 10 * MB));
    }

    #[test]
    fn what_is_larger_than_all_of_it_is_read_alone_and_before_what_comes_later() {
        let budget = Budget::default();
        budget.limit_to(10 * MB);
        assert!(budget.take(1, MB) && !budget.take(2, 50 * MB));
        assert!(!budget.take(3, MB), "the one before comes first");
        budget.give_back(MB);
        assert!(!budget.take(3, MB) && budget.take(2, 50 * MB) && !budget.take(3, MB));
        // The next load may not come any more.
        budget.give_back(50 * MB);
        assert!(!budget.take(4, MB), "the third comes first");
        budget.leave(3);
        assert!(budget.take(4, MB) && budget.take(3, MB));
    }
}
