//! How a client tracks, for all workers to see.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// How a client tracks, for all workers to see. Its own worker writes it.
#[derive(Default)]
pub struct Tracker {
    flags: AtomicU8,
    /// The client that hears what this one must forget; 0: itself.
    pub redirect: AtomicU64,
    /// Bytes that its prefixes cost, roughly.
    pub prefix_bytes: AtomicU64,
}

/// It tracks.
pub const ON: u8 = 1;

/// It hears of all keys with its prefixes.
pub const BROADCAST: u8 = 2;

/// It does not hear of its own changes.
pub const NO_LOOP: u8 = 4;

/// The client that it redirects to was gone when there was an invalidation.
pub const BROKEN: u8 = 8;

impl Tracker {
    /// True if all of these flags are set.
    pub fn is(&self, flags: u8) -> bool {
        self.flags.load(Relaxed) & flags == flags
    }

    /// Begins anew with these flags, and with the client to redirect to.
    pub fn set(&self, flags: u8, redirect: u64) {
        self.redirect.store(redirect, Relaxed);
        self.flags.store(flags, Relaxed);
    }

    pub(super) fn mark_broken(&self) {
        self.flags.fetch_or(BROKEN, Relaxed);
    }
}
