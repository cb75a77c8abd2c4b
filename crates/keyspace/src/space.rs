//! The store's names for databases, and the way in which a flush leaves all of a database's data in it behind.
//!
//! A *space* is the store's name for a physical database from one flush to the next. A flush makes the database give up
//! its space, and the next checkpoint takes a new one. So nothing of the old one is ever mistaken for something new,
//! and it can be deleted at leisure (rule L12). Everything here changes with every latch held, or with one held by the
//! only checkpointer, so that a holder of any latch sees it as it is.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::keyspace::{Held, Keyspace};
use crate::version::Version;

/// The number of a space; 0 is none.
pub type Space = u32;

/// A physical database's part.
#[derive(Default)]
struct Row {
    space: AtomicU32,
    /// LSN of its last flush: what was written up to here is void.
    floor: AtomicU64,
    /// It was flushed, and the LSN of that is not known yet.
    unsettled: AtomicBool,
}

pub(crate) struct Spaces {
    rows: Box<[Row]>,
    next: AtomicU32,
    any_unsettled: AtomicBool,
    abandoned: Mutex<Vec<Space>>,
}

/// The state of the databases: in a checkpoint, and at a moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Databases {
    /// The physical database of each logical one.
    pub map: Vec<u16>,
    /// The version of the last record that may have changed the map, as of which it is.
    pub map_version: Version,
    /// Of each physical database: its space, 0 if the store has nothing of it.
    pub spaces: Vec<Space>,
    /// Of each physical database: the version of its last flush. Everything written there up to it is void.
    pub floors: Vec<Version>,
    /// The next space to be taken.
    pub next_space: Space,
    /// Spaces that were given up and may still hold something.
    pub abandoned: Vec<Space>,
}

impl Spaces {
    pub(crate) fn new(databases: usize) -> Self {
        Self {
            rows: (0..databases).map(|_| Row::default()).collect(),
            next: AtomicU32::new(1),
            any_unsettled: AtomicBool::new(false),
            abandoned: Mutex::default(),
        }
    }

    fn abandoned(&self) -> MutexGuard<'_, Vec<Space>> {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A physical database was flushed, by the record that will be settled next.
    pub(crate) fn flushed(&self, physical: u16) {
        let row = &self.rows[usize::from(physical)];
        match row.space.swap(0, Relaxed) {
            0 => {}
            space => self.abandoned().push(space),
        }
        row.unsettled.store(true, Relaxed);
        self.any_unsettled.store(true, Relaxed);
    }

    /// The record that held everything has this version.
    pub(crate) fn settle(&self, version: Version) {
        if self.any_unsettled.swap(false, Relaxed) {
            let flushed = self.rows.iter().filter(|row| row.unsettled.swap(false, Relaxed));
            flushed.for_each(|row| row.floor.store(version.0, Relaxed));
        }
    }
}

impl Keyspace {
    /// The space of a physical database, which gets one if it has none. For the checkpointer, which holds a latch.
    pub fn space(&self, held: &Held, physical: u16) -> Space {
        debug_assert!(held.is_all() || !held.slots().is_empty(), "no flush comes in between");
        let row = &self.spaces.rows[usize::from(physical)].space;
        if row.load(Relaxed) == 0 {
            row.store(self.spaces.next.fetch_add(1, Relaxed), Relaxed);
        }
        row.load(Relaxed)
    }

    /// The space that a physical database has, 0 if it has none: for who reads the store, and learns otherwise of a
    /// flush that comes in between.
    pub fn present_space(&self, physical: u16) -> Space {
        self.spaces.rows[usize::from(physical)].space.load(Relaxed)
    }

    /// The databases as they are. `held`: any latch.
    pub fn databases_now(&self, held: &Held) -> Databases {
        debug_assert!(held.is_all() || !held.slots().is_empty(), "no flush comes in between");
        let rows = || self.spaces.rows.iter();
        Databases {
            map: (0..self.databases() as u16).map(|db| self.physical(db)).collect(),
            map_version: self.floor(),
            spaces: rows().map(|row| row.space.load(Relaxed)).collect(),
            floors: rows().map(|row| Version(row.floor.load(Relaxed))).collect(),
            next_space: self.spaces.next.load(Relaxed),
            abandoned: self.spaces.abandoned().clone(),
        }
    }

    /// Says that the store holds nothing of these spaces, which were given up, any more.
    pub fn forget_spaces(&self, gone: &[Space]) {
        self.spaces.abandoned().retain(|space| !gone.contains(space));
    }

    /// The store begins anew: it has none of the present data, and knows of no flush. The data that it does have, as
    /// `stored` says, are given up. `held`: any latch.
    pub fn begin_anew(&self, held: &Held, stored: Option<&Databases>) {
        debug_assert!(held.is_all() || !held.slots().is_empty(), "no flush comes in between");
        for (physical, row) in self.spaces.rows.iter().enumerate() {
            self.spaces.flushed(physical as u16);
            row.unsettled.store(false, Relaxed);
            row.floor.store(0, Relaxed);
        }
        self.spaces.any_unsettled.store(false, Relaxed);
        let Some(stored) = stored else { return };
        let mut abandoned = self.spaces.abandoned();
        let theirs = stored.spaces.iter().chain(&stored.abandoned).filter(|space| **space != 0);
        abandoned.extend(theirs);
        abandoned.sort_unstable();
        abandoned.dedup();
        self.spaces.next.fetch_max(stored.next_space, Relaxed);
    }

    /// Makes the databases what a checkpoint says, before anything is loaded. Databases that it does not know are new.
    /// False: it knows more of them than there are.
    #[must_use]
    pub fn restore_databases(&self, held: &Held, saved: &Databases) -> bool {
        assert!(held.is_all(), "a start is a barrier");
        // Those at the end that were never used do not count.
        let unused =
            |n: &usize| saved.map.get(*n).is_some_and(|p| usize::from(*p) == *n) && saved.spaces.get(*n) == Some(&0);
        let known = (0..saved.map.len()).rev().find(|n| !unused(n)).map_or(0, |last| last + 1);
        if known > self.databases() || saved.map.len() != saved.spaces.len() || saved.map.len() != saved.floors.len() {
            return false;
        }
        let map = &saved.map[..known];
        let mut seen = vec![false; known];
        for &physical in map {
            match seen.get_mut(usize::from(physical)) {
                Some(seen) if !*seen => *seen = true,
                _ => return false,
            }
        }
        for (logical, &physical) in map.iter().enumerate() {
            self.set_physical(logical as u16, physical);
        }
        for ((row, space), floor) in self.spaces.rows.iter().zip(&saved.spaces).zip(&saved.floors) {
            row.space.store(*space, Relaxed);
            row.floor.store(floor.0, Relaxed);
        }
        self.spaces.next.store(saved.next_space.max(1), Relaxed);
        *self.spaces.abandoned() = saved.abandoned.clone();
        true
    }
}
