//! Folders and settings for tests.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use store::{Clock, Embedded, Limits, Settings};

/// A folder that is removed when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A folder on a disk.
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// A folder in memory, if possible: a killed process loses nothing that it has written, synced or not, so syncs
    /// would only cost time.
    pub fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Self::below(memory) } else { Self::new() }
    }

    fn below(folder: &Path) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("holdfast-store-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = folder.join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[allow(clippy::disallowed_methods, reason = "tests hand in the real clock")]
pub fn clock() -> Clock {
    let start = std::time::Instant::now();
    Arc::new(move || start.elapsed())
}

/// A clock that stands still.
pub fn no_clock() -> Clock {
    Arc::new(|| Duration::ZERO)
}

pub fn settings() -> Settings {
    Settings { node: [7; 16], at_least: 0, limits: Limits::default(), clock: clock() }
}

/// Limits so small that a few hundred entries spill, flush to many tables and compact.
pub fn small() -> Settings {
    let limits = Limits { memory: 16 << 10, cache: 256 << 10, files: 16, table: 16 << 10, ..Limits::default() };
    Settings { limits, ..settings() }
}

pub fn open(path: &Path, settings: &Settings) -> Embedded {
    Embedded::open(path, settings).expect("a store")
}
