//! The present promise of `appendfsync`, as CONFIG SET changes it.

use std::sync::{Arc, Mutex, PoisonError};

use node::config::{AppendFsync, Host, Row, Settings};
use redolog::{Fsync, Log};

/// A promise that holds from one change of the setting to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promise {
    /// An acknowledged write is on the disk.
    pub is_firm: bool,
    /// How often it has changed.
    pub number: u64,
    /// It was not firm at some time since the start.
    pub was_weak: bool,
}

impl Promise {
    fn of(fsync: Fsync) -> Self {
        let is_firm = fsync == Fsync::Always;
        Self { is_firm, number: 0, was_weak: !is_firm }
    }
}

impl Default for Promise {
    fn default() -> Self {
        Self::of(Fsync::Always)
    }
}

/// The process, as far as settings go.
#[derive(Clone)]
pub struct Process {
    log: Log,
    promise: Arc<Mutex<Promise>>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("promise", &self.promise()).finish_non_exhaustive()
    }
}

impl Process {
    /// With this log, which was started with this setting.
    pub fn new(log: Log, fsync: Fsync) -> Self {
        Self { log, promise: Arc::new(Mutex::new(Promise::of(fsync))) }
    }

    /// The present promise.
    pub fn promise(&self) -> Promise {
        *self.promise.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for Process {
    fn enter_dir(&mut self, path: &[u8]) -> Result<Vec<u8>, String> {
        Ok(path.into())
    }

    fn apply(&mut self, row: &'static Row, settings: &Settings) -> Result<(), String> {
        if row.name == "appendfsync" {
            let fsync = match settings.appendfsync {
                AppendFsync::Always => Fsync::Always,
                AppendFsync::Everysec => Fsync::Everysec,
                AppendFsync::No => Fsync::No,
            };
            self.log.set_fsync(fsync);
            let mut promise = self.promise.lock().unwrap_or_else(PoisonError::into_inner);
            promise.number += 1;
            promise.is_firm = fsync == Fsync::Always;
            promise.was_weak |= !promise.is_firm;
        }
        Ok(())
    }
}

/// As the setting is written.
pub fn name_of(fsync: Fsync) -> &'static str {
    match fsync {
        Fsync::Always => "always",
        Fsync::Everysec => "everysec",
        Fsync::No => "no",
    }
}
