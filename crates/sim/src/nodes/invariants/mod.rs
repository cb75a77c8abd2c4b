//! What must hold in a cluster, a file each.

pub mod acknowledged;
pub mod atomicity;
pub mod lease;
pub mod locks;
pub mod registers;
pub mod serializable;

use super::history::History;
use crate::invariants::Verdict;

/// What each list was at the end, by its key's number.
pub type Lists = [Vec<u64>];

/// As [`look_at_all`], where nodes may lose what they have acknowledged when their power fails: a block is whole all the same.
pub fn look_at_blocks(history: &History, lists: &Lists) -> Verdict {
    atomicity::check_of(history, lists, |_| true)?;
    registers::check_alike(history)
}

/// Looks at the whole history. `lists`: what who came last has found.
pub fn look_at_all(history: &History, lists: &Lists) -> Verdict {
    lease::check_history(history, lists)?;
    acknowledged::check(history, lists)?;
    atomicity::check(history, lists)?;
    registers::check(history)?;
    serializable::check(history, lists)
}
