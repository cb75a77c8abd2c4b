//! Copies of a shard's log: acceptors' folders, connections to them, and the owner's driver.
//!
//! `quorum` decides, `redolog` writes, and neither knows the other: this crate joins them. The page is
//! `docs/internals/quorum.md`.

#![warn(clippy::missing_errors_doc)]

mod driver;
mod port;

pub use driver::{Driver, Ended, Plan, Wait};
pub use port::{Heard, Listener, Port};
