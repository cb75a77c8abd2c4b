//! Transactions over nodes, as far as they concern keys: locks, prepared and undone parts, installed ones, and their
//! records in the log.
//!
//! The protocol is `txn`'s; the node speaks it. Nothing here waits: busy and locked keys are reported, and the
//! connection waits.

mod attempt;
mod in_the_way;
mod locks;
mod outcomes;
mod shared;
mod trails;

pub use attempt::{Locked, NotInstalled, Undone, Untimely};
pub use in_the_way::{Holder, InTheWay};
pub(crate) use locks::Owner;
pub use locks::restore_locks;
pub use outcomes::Outcomes;
pub use shared::Transactions;
pub use trails::{LARGE, STEPS};

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod waits_test;
