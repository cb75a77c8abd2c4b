//! Snapshots in Redis's format, as commands and INFO see them: requests, the one under way, and how the last one ended.
//!
//! A thread of the binary makes them: the file of SAVE, BGSAVE and `save` points where nothing is logged, and files
//! that are sent to a client (SYNC). Where there is a log, SAVE and BGSAVE make a checkpoint instead.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clocks::UnixMs;

use crate::worker::jobs::{Job, Jobs, Task};

/// The state of the snapshots.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// When the file under way was begun.
    pub began: Option<UnixMs>,
    /// Keys that it has, and those that there were when it began.
    pub keys: (u64, u64),
    /// When the last file that succeeded was begun; when the server started, if there was none.
    pub saved_at: UnixMs,
    /// Changes that had been made when it began.
    pub saved_changes: u64,
    /// Milliseconds that the last one took.
    pub took: Option<u64>,
    /// The error of the last one, if it failed.
    pub failed: Option<String>,
    /// Failures since the last success.
    pub failures: u64,
    /// When the last one was tried.
    pub tried_at: UnixMs,
    /// Files that were written.
    pub saves: u64,
    /// Bytes of copies that commands have handed over for the one under way, or for the last one.
    pub copied: u64,
    /// Bytes of copies of the one before that.
    pub last_copied: u64,
    /// Keys that the start has read from a file, and that it left out because they had expired.
    pub loaded: (u64, u64),
    /// The next one was asked for while one was being written.
    pub scheduled: bool,
}

/// What a stop does about the data in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AtEnd {
    /// A snapshot if there are `save` points.
    #[default]
    AsConfigured,
    /// A snapshot.
    Save,
    /// None.
    NoSave,
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// The requests.
    pub jobs: Jobs,
    state: Mutex<State>,
    /// The last file that was tried could not be written.
    has_failed: AtomicBool,
    at_end: Mutex<AtEnd>,
}

impl Snapshots {
    /// Of a server that started at this time.
    pub(crate) fn new(started: UnixMs) -> Self {
        Self { state: Mutex::new(State { saved_at: started, ..State::default() }), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state.
    pub fn state(&self) -> State {
        self.lock().clone()
    }

    /// Changes the state.
    pub fn note(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
    }

    /// True if a file is being written, or waits to be.
    pub(crate) fn is_saving(&self) -> bool {
        self.lock().began.is_some() || self.jobs.has_save()
    }

    /// Asks for a file of `keys` keys. `scheduled`: one is being written.
    pub(crate) fn ask_to_save(&self, scheduled: bool, now: UnixMs, keys: u64) -> Option<Arc<Job>> {
        let mut state = self.lock();
        let job = self.jobs.join(Task::Save)?;
        state.scheduled = scheduled;
        if !scheduled {
            (state.began, state.keys) = (Some(now), (0, keys));
            (state.last_copied, state.copied) = (state.copied, 0);
        }
        Some(job)
    }

    /// A file is begun.
    pub fn begun(&self, now: UnixMs) {
        let mut state = self.lock();
        if state.began.is_none() {
            (state.last_copied, state.copied) = (state.copied, 0);
        }
        (state.began, state.tried_at, state.scheduled) = (Some(now), now, false);
    }

    /// It was given up because everything was deleted, which is no failure.
    pub fn given_up(&self) {
        self.lock().began = None;
    }

    /// True if the last file that was tried could not be written.
    #[inline]
    pub(crate) fn have_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// It has ended. `changes`: those that had been made when it began.
    pub fn ended(&self, outcome: Result<(), String>, changes: u64, now: UnixMs) {
        let mut state = self.lock();
        let began = state.began.take().unwrap_or(now);
        self.has_failed.store(outcome.is_err(), Relaxed);
        state.took = Some(now.since(began));
        match outcome {
            Ok(()) => {
                (state.saved_at, state.saved_changes, state.failed) = (began, changes, None);
                (state.saves, state.failures) = (state.saves + 1, 0);
            }
            Err(why) => (state.failed, state.failures) = (Some(why), state.failures + 1),
        }
    }

    /// What a stop does.
    pub fn at_end(&self) -> AtEnd {
        *self.at_end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what a stop does.
    pub fn set_at_end(&self, at_end: AtEnd) {
        *self.at_end.lock().unwrap_or_else(PoisonError::into_inner) = at_end;
    }
}
