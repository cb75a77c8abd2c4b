//! Copies of a shard's log: acceptors' folders, connections to them, the owner's driver, and the standby's reader.
//!
//! `quorum` decides, `redolog` writes, and neither knows the other: this crate joins them. The page is
//! `docs/internals/quorum.md`.

#![warn(clippy::missing_errors_doc)]

mod acceptors;
mod driver;
mod folder;
mod link;
mod local;
mod port;
mod remote;

#[cfg(test)]
mod tests;

pub use acceptors::{Acceptors, Held};
pub use driver::{
    Again, CopyShown, Driver, Ended, NotStarted, Own, OwnReads, Plan, Rising, Shown, Wait, is_acceptor, name_of_own,
    own_folder, own_promise, remove_log, shard_of_own,
};
pub use folder::{Checked, Cluster, Folder, Place, Unusable, check_copy, logs_of_copy, put_aside};
pub use link::{ask, probe};
pub use local::{Caller, Figures, Following, Job, Known, Local, StreamFigures, Tap, TapEnded, TapStepped};
pub use port::{Heard, Listener, Port};
pub use quorum::{Contact, Having, Limits, Stage};
pub use remote::{Dial, Remote};

/// CRC32C, as the log's.
fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
