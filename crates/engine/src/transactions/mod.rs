//! Transactions over nodes, as far as they concern keys: locks, what is prepared and undone, what is installed, and what the log says of it all.
//!
//! The protocol is `txn`'s; who speaks it is the node. Nothing here waits: as everywhere, what is busy or locked is said, and the connection waits.

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
