//! The invariants of a cluster, one file for each.

pub mod acknowledged;
pub mod atomicity;
pub mod lease;
pub mod locks;
pub mod registers;
pub mod serializable;

use super::history::History;
use crate::invariants::Verdict;

/// The final contents of each list, by its key's number.
pub type Lists = [Vec<u64>];

/// As [`look_at_all`], where nodes may lose acknowledged writes when their power fails. A block is atomic all the same.
///
/// # Errors
///
/// The invariant does not hold.
pub fn look_at_blocks(history: &History, lists: &Lists) -> Verdict {
    atomicity::check_of(history, lists, |_| true)?;
    registers::check_alike(history)
}

/// Checks the whole history. `lists`: what the last client has found.
///
/// # Errors
///
/// The invariant does not hold.
pub fn look_at_all(history: &History, lists: &Lists) -> Verdict {
    lease::check_history(history, lists)?;
    acknowledged::check(history, lists)?;
    atomicity::check(history, lists)?;
    registers::check(history)?;
    serializable::check(history, lists)
}
