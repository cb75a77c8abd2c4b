//! Ships a folder of files from one node to another: verified, throttled, and whole or not at all.
//!
//! A standby begins with a checkpoint of the owner's store. The owner sends it as a folder that does not change
//! meanwhile ([`send`]), and the standby writes it into a new folder ([`receive`]).
//!
//! ```text
//! receiver                                   sender
//!    | ---- ask: what is wanted ----------->   |
//!    | <--- refused: why, or cargo: size ---   |
//!    | <--- file, its chunks, next file ----   |
//!    | <--- end -----------------------------   |
//!    | all of it is on the disk                |
//!    | ---- received ----------------------->   |
//! ```
//! Each message has a checksum of its own. A byte that comes otherwise than it was read ends the shipment, and so does a
//! file that turns out shorter than it was. The formats are in `docs/formats.md`.
//!
//! The crate knows neither stores nor clusters. Sockets, the clock, pauses and how long clients wait are handed in.

#![warn(clippy::missing_errors_doc)]

mod give_way;
mod pace;
mod receive;
mod send;
mod tree;
mod wire;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

pub use pace::{Pace, Pauses, Waited};
pub use receive::{ask, receive};
pub use send::{asked, refuse, send};
pub use wire::Ask;

/// The bytes of a shipment so far. Either end has its own.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of all files. 0 until it is known.
    total: AtomicU64,
    /// Bytes that have been sent, or written.
    done: AtomicU64,
    is_stopped: AtomicBool,
}

impl Progress {
    /// Bytes that were shipped, and bytes of all files. Both are 0 before it has begun.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.done.load(Relaxed), self.total.load(Relaxed))
    }

    /// Has this end give the shipment up soon, with an error.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    fn begin(&self, total: u64) {
        self.done.store(0, Relaxed);
        self.total.store(total, Relaxed);
    }

    fn add(&self, bytes: u64) -> std::io::Result<()> {
        self.done.fetch_add(bytes, Relaxed);
        if self.is_stopped.load(Relaxed) {
            return Err(std::io::Error::other("the shipment was stopped here"));
        }
        Ok(())
    }
}
