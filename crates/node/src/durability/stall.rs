//! A disk of the log that hangs: something waits for it, and nothing moves for `log-stall-timeout`. A disk without room
//! for what was left hangs as well: nobody knows when there is room.
//!
//! Then commands that write are refused, and clients that wait for the log are closed unanswered: nobody knows when it goes on. What was left for the log stays
//! and is written when the disk answers, and then all is as before.
//!
//! The time is counted in looks: a process that was stopped has not looked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use redolog::{Log, State};

use crate::durability::durable::Durable;
use crate::worker::{Token, Worker};

/// Between two looks, in milliseconds.
const LOOK_MS: u64 = 100;
/// A look counts for so long at most.
const COUNTS_MS: u64 = 2 * LOOK_MS;

/// What is known of it. One of the workers looks.
#[derive(Default)]
pub(crate) struct Stall {
    /// When to look next, and when somebody has looked, in unix milliseconds.
    due: AtomicU64,
    looked: AtomicU64,
    /// What the log had done by then.
    progress: AtomicU64,
    /// How long something has waited since then, in milliseconds.
    waited: AtomicU64,
    is_on: AtomicBool,
}

impl Stall {
    /// Whether the disk hangs.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// How long it has hung, in milliseconds.
    pub(crate) fn waited(&self) -> u64 {
        self.waited.load(Relaxed)
    }

    /// Looks, if it is time to; `timeout` is in milliseconds, 0 for never. Whether that has changed something.
    fn look(&self, log: &Log, now: u64, timeout: u64) -> bool {
        let due = self.due.load(Relaxed);
        if now < due || self.due.compare_exchange(due, now + LOOK_MS, Relaxed, Relaxed).is_err() {
            return false;
        }
        let facts: Vec<_> = (0..log.streams()).map(|stream| log.facts(stream)).collect();
        // Without room what was left stays (rule L8), and so would its clients and whatever reads what they wrote.
        let waits = !matches!(log.state(), State::Failed(_))
            && facts.iter().any(|facts| facts.backlog > 0 || facts.stalled > 0);
        let done = facts.iter().map(|facts| facts.written.wrapping_add(facts.syncs.iter().sum()));
        let progress = done.chain(log.marks().all()).fold(0, u64::wrapping_add);
        let since = now.saturating_sub(self.looked.swap(now, Relaxed)).min(COUNTS_MS);
        let moved = self.progress.swap(progress, Relaxed) != progress;
        let waited = if waits && !moved { self.waited() + since } else { 0 };
        self.waited.store(waited, Relaxed);
        let is_on = timeout > 0 && waited >= timeout;
        self.is_on.swap(is_on, Relaxed) != is_on
    }
}

impl Durable {
    /// Whether the log takes writes: it runs, and its disk answers.
    #[inline]
    pub(crate) fn takes_writes(&self) -> bool {
        self.log().takes_writes() && !self.stall.is_on()
    }
}

impl Worker {
    /// Looks whether the disk of the log hangs, and closes those who wait for it if it does.
    pub(crate) fn look_at_stall_of_log(&mut self, now: u64) {
        let is_quiet =
            |durable: &Durable| !durable.stall.is_on() && !self.stalled && now < durable.stall.due.load(Relaxed);
        if self.promise().is_none_or(is_quiet) {
            return;
        }
        let Some(durable) = self.durable.clone() else { return };
        let timeout = self.follower.settings().log_stall_timeout.saturating_mul(1000);
        if durable.stall.look(durable.log(), now, timeout) {
            match durable.stall.is_on() {
                true if durable.log().state() != State::Running => tracing::warn!(
                    "The log could not write for {} s what it had taken, without a next segment: clients that wait for that are closed",
                    durable.stall.waited() / 1000
                ),
                true => tracing::warn!(
                    "The disk of the log has not answered for {} s: commands that write are refused, and clients that wait for it are closed, until it does",
                    durable.stall.waited() / 1000
                ),
                false if durable.log().state() != State::Running => {
                    tracing::info!("What the log had taken is written. It still has no next segment")
                }
                false => tracing::info!("The disk of the log answers again: commands that write are accepted"),
            }
            self.node.look_all();
        }
        let is_on = durable.stall.is_on();
        if is_on {
            self.let_out(&durable);
        }
        if is_on && !std::mem::replace(&mut self.stalled, is_on) {
            // What becomes of them is not known here.
            let blocks = self.peers.as_deref().map_or_else(Vec::new, |peers| peers.tx.clients());
            blocks.into_iter().for_each(|token: Token| self.cut(token));
            self.tell_stuck();
        }
        self.stalled = is_on;
    }
}
