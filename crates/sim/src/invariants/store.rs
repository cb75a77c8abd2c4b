//! The store is never ahead of the log (rule C2): every record whose effect it has survives in the log as well.

use super::{Restart, Verdict, violated};
use crate::machine::slots_of;

/// See the module's text. Some LSNs belong to no record; C(s) may be one of them.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(restart: &Restart<'_>) -> Verdict {
    for (&at, records) in restart.written.iter().filter(|(at, _)| !restart.survived(**at)) {
        for slots in records.iter().filter_map(|effects| slots_of(effects)) {
            let covered = |slot: u16| restart.start.covered.get(usize::from(slot)).copied().unwrap_or_default();
            if let Some(slot) = slots.into_iter().find(|slot| covered(*slot) >= at.0) {
                return violated(
                    "store",
                    format_args!("{at:?} is lost, and the store has it: C({slot}) is {}", covered(slot)),
                );
            }
        }
    }
    Ok(())
}
