//! A disk of the log that hangs: something waits for it, and nothing moves for `log-stall-timeout`. A disk without room
//! for the records hangs as well: nobody knows when there is room. A log that has copies hangs while no majority of them
//! gets the records, whatever replies wait for: with `everysec` the own disk alone would confirm more and more.
//!
//! Then commands that write are refused, and clients that wait for the log are closed unanswered, because nobody knows
//! when it goes on. Records stay, and are written when the disk answers. Then all is as before.
//!
//! The time is counted in looks: a process that was stopped has not looked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use clocks::UnixMs;
use redolog::{Log, State};

/// Between two looks, in milliseconds.
const LOOK_MS: u64 = 100;
/// A look counts for at most so long.
const COUNTS_MS: u64 = 2 * LOOK_MS;

/// The state of the disk. One of the workers looks.
#[derive(Default)]
pub(crate) struct Stall {
    /// When the next look is due, and when the last one was, in unix milliseconds.
    due: AtomicU64,
    looked: AtomicU64,
    /// The progress of the log at that time.
    progress: AtomicU64,
    /// Milliseconds for which something has waited since then.
    waited: AtomicU64,
    is_on: AtomicBool,
    /// The copies that are waited for, in words.
    copies: Mutex<Option<String>>,
}

impl Stall {
    /// True if the disk hangs.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// How long it has hung, in milliseconds.
    pub(crate) fn waited(&self) -> u64 {
        self.waited.load(Relaxed)
    }

    /// The copies that the log waits for, in words; none if it has no copies.
    pub(crate) fn copies(&self) -> Option<String> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if it is time to look.
    pub(super) fn is_due(&self, now: UnixMs) -> bool {
        now.0 >= self.due.load(Relaxed)
    }

    /// Looks, if it is time to; `timeout` is in milliseconds, 0 for never. `copies` names those that the log waits for.
    /// Returns whether the state has changed.
    pub(super) fn look(&self, log: &Log, now: UnixMs, timeout: u64, copies: impl FnOnce() -> Option<String>) -> bool {
        let due = self.due.load(Relaxed);
        if now.0 < due || self.due.compare_exchange(due, (now + LOOK_MS).0, Relaxed, Relaxed).is_err() {
            return false;
        }
        let facts: Vec<_> = (0..log.streams()).map(|stream| log.facts(stream)).collect();
        // Without room the records stay (rule L8), and so would their clients and all that read their values.
        let received = log.received();
        let waits = !matches!(log.state(), State::Failed(_))
            && facts.iter().any(|facts| facts.backlog > 0 || received.is_none() && facts.stalled > 0);
        let done = facts.iter().map(|facts| facts.written.wrapping_add(facts.syncs.iter().sum()));
        let of_disk = || done.chain(log.marks().all().map(|mark| mark.0)).fold(0, u64::wrapping_add);
        let progress = received.unwrap_or_else(of_disk);
        let since = now.since(UnixMs(self.looked.swap(now.0, Relaxed))).min(COUNTS_MS);
        let moved = self.progress.swap(progress, Relaxed) != progress;
        let waited = if waits && !moved { self.waited() + since } else { 0 };
        self.waited.store(waited, Relaxed);
        let is_on = timeout > 0 && waited >= timeout;
        if is_on {
            *self.copies.lock().unwrap_or_else(PoisonError::into_inner) = copies();
        }
        self.is_on.swap(is_on, Relaxed) != is_on
    }
}
