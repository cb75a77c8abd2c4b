//! Copies of a shard's log: acceptors' folders, connections to them, and the owner's driver.
//!
//! `quorum` decides, `redolog` writes, and neither knows the other: this crate joins them. The page is
//! `docs/internals/quorum.md`.

#![warn(clippy::missing_errors_doc)]

mod port;

pub use port::{Heard, Listener, Port};
