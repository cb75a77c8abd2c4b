//! Which files there are: how large, and which of them a failure left behind.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use lsm_tree::Table;

use super::lock;

/// Tables by number. `lsm-tree` leaves the file of an unfinished table where it is, so that a full disk would get
/// fuller with every attempt.
#[derive(Default)]
pub struct Files {
    /// Every table that was ever part of a view, with its bytes.
    known: Mutex<BTreeMap<u64, u64>>,
    /// Held by the writer of tables.
    writing: RwLock<()>,
    /// Numbers that were given out during something that failed.
    litter: Mutex<Vec<Range<u64>>>,
}

impl Files {
    /// Held while tables are written.
    pub fn writing(&self) -> RwLockReadGuard<'_, ()> {
        self.writing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes tables, and returns the bytes of those that were not known.
    pub fn note<'a>(&self, tables: impl Iterator<Item = &'a Table>) -> u64 {
        let mut known = lock(&self.known);
        let mut new = 0;
        for table in tables {
            known.entry(table.id()).or_insert_with(|| {
                let bytes = fs::metadata(&*table.path).map_or(table.metadata.file_size, |m| m.len());
                new += bytes;
                bytes
            });
        }
        new
    }

    /// Bytes of these tables.
    pub fn bytes<'a>(&self, tables: impl Iterator<Item = &'a Table>) -> u64 {
        let known = lock(&self.known);
        tables.filter_map(|table| known.get(&table.id())).sum()
    }

    /// Notes that something failed during which these numbers were given out.
    pub fn failed(&self, numbers: Range<u64>) {
        lock(&self.litter).push(numbers);
    }

    /// Removes the rests of failures, unless tables are being written now.
    pub fn tidy(&self, folder: &std::path::Path) {
        if lock(&self.litter).is_empty() {
            return;
        }
        let Ok(_alone) = self.writing.try_write() else { return };
        let known = lock(&self.known);
        for number in lock(&self.litter).drain(..).flatten() {
            if !known.contains_key(&number) {
                let _ = fs::remove_file(folder.join(number.to_string()));
            }
        }
    }
}
