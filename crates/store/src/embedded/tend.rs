//! The thread that compacts tables and gives back the space of retired prefixes.

use std::ops::Bound::{Excluded, Included};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, SeqNo, Slice};

use super::merge::Merge;
use super::view::{View, durable, ends};
use super::{Shared, lock, micros, record};
use crate::batch::prefix_end;
use crate::retired::Retired;
use crate::sections::TABLES;
use crate::{Batch, Error};

/// Entries below a retired prefix that are deleted at a time.
const CHUNK: usize = 256;

/// Bytes of tables that flushes have made which are compacted at once, and of the first level that they go to.
const LEVEL_BYTES: u64 = 256 << 20;

/// The least number of tables that are compacted at once: a flush makes two, or more, if memory has been spilled.
const TABLES_MIN: u64 = 6;

/// The most: flushed entries are in larger tables, and every read may have to search all of them.
const TABLES_MAX: u64 = 8;

/// The pause before it tries again after a full disk.
const RETRY: Duration = Duration::from_secs(5);

/// The state that the thread shares with the store.
#[derive(Default)]
pub struct Tend {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopped: bool,
    /// There may be something to do.
    due: bool,
    /// It is at work.
    busy: bool,
    /// The last attempt failed for lack of room.
    full: bool,
    /// The retired prefixes of the last flush: they are durable.
    retired: Arc<Retired>,
}

impl Tend {
    /// For a store that was opened with these retired prefixes: it rests until it is told to begin, or until a flush.
    pub fn new(retired: Arc<Retired>) -> Self {
        Self { state: Mutex::new(State { retired, ..State::default() }), changed: Condvar::new() }
    }

    /// Looks for something to do.
    pub fn begin(&self) {
        lock(&self.state).due = true;
        self.changed.notify_all();
    }

    /// Something has become durable.
    pub fn flushed(&self, retired: Arc<Retired>) {
        let mut state = lock(&self.state);
        state.retired = retired;
        state.due = true;
        self.changed.notify_all();
    }

    pub fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }

    /// Waits until there is nothing to do.
    pub fn settle(&self) {
        let mut state = lock(&self.state);
        while (state.due || state.busy) && !state.stopped && !state.full {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits, as long as the thread is at work, until there are few enough runs.
    pub fn wait_for_runs(&self, few: impl Fn() -> bool) {
        let mut state = lock(&self.state);
        while (state.due || state.busy) && !state.stopped && !state.full && !few() {
            state = self.changed.wait_timeout(state, RETRY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for something to do; `None` when there is no more.
    fn next(&self) -> Option<Arc<Retired>> {
        let mut state = lock(&self.state);
        state.busy = false;
        self.changed.notify_all();
        loop {
            if state.stopped {
                return None;
            }
            if state.due {
                state.due = false;
                state.busy = true;
                return Some(state.retired.clone());
            }
            if state.full {
                let (held, waited) = self.changed.wait_timeout(state, RETRY).unwrap_or_else(PoisonError::into_inner);
                state = held;
                state.due |= waited.timed_out();
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn stopped(&self) -> bool {
        lock(&self.state).stopped
    }

    /// A step is done.
    fn stepped(&self, full: bool) {
        lock(&self.state).full = full;
        self.changed.notify_all();
    }
}

/// The thread's work, until the store is closed. `table`: bytes of a table.
pub fn run(shared: &Shared, table: u64) {
    // Spilled tables are smaller than those of compaction: it is their bytes that make it due, about.
    let threshold = (LEVEL_BYTES / table.max(1)).clamp(TABLES_MIN, TABLES_MAX);
    let strategy = Leveled::default().with_table_target_size(table).with_l0_threshold(threshold as u8);
    let strategy = Arc::new(strategy);
    while let Some(retired) = shared.tend.next() {
        let done = shared.give_back(&retired).and_then(|()| shared.compact(&strategy));
        match done {
            Ok(()) => shared.tend.stepped(false),
            Err(Error::NoSpace(_)) => shared.tend.stepped(true),
            Err(error) => {
                if !shared.tend.stopped() {
                    shared.stop(&error);
                }
                shared.tend.stepped(false);
            }
        }
    }
}

impl Shared {
    /// Compacts until there is nothing to compact.
    fn compact(&self, strategy: &Arc<Leveled>) -> Result<(), Error> {
        while !self.tend.stopped() {
            self.alive()?;
            let start = (self.clock)();
            let before = self.tree.current_version().id();
            let low = self.tree.next_table_id();
            let writing = self.files.writing();
            let done = self.tree.compact(strategy.clone(), SeqNo::MAX);
            let written = self.refresh();
            drop(writing);
            if let Err(error) = done {
                let error = self.blame(&error);
                if self.tend.stopped() {
                    return Err(error);
                }
                let error = self.failed_to_compact(error, low);
                self.files.tidy(&self.tree_folder().join(TABLES));
                return Err(error);
            }
            self.counts.compacted.fetch_add(written, Relaxed);
            if self.tree.current_version().id() == before {
                break;
            }
            self.counts.compactions.fetch_add(1, Relaxed);
            self.counts.compaction_us_total.fetch_add(micros((self.clock)().saturating_sub(start)), Relaxed);
            self.tend.stepped(false);
        }
        Ok(())
    }

    /// Shows readers the tables as they are now. Returns the bytes of those that are new.
    pub fn refresh(&self) -> u64 {
        let durable = durable(&self.tree);
        let new = self.files.note(durable.runs.iter().flat_map(|run| run.iter()));
        let mut current = self.current_mut();
        let mut view = View::clone(&current.view);
        view.advance(durable);
        current.view = Arc::new(view);
        new
    }

    /// The file on which a compaction failed. `lsm-tree` does not say, so all are checked: the store stops anyway.
    fn blame(&self, error: &lsm_tree::Error) -> Error {
        let plain = Error::tree(self.tree_folder(), error);
        if !matches!(plain, Error::Damaged { .. }) {
            return plain;
        }
        let (view, _) = self.view();
        view.tables()
            .filter(|_| !self.tend.stopped())
            .find_map(|table| crate::check::locate(&table.path))
            .unwrap_or(plain)
    }

    /// Gives back the space of prefixes whose retirement is durable.
    fn give_back(&self, durable: &Retired) -> Result<(), Error> {
        for prefix in durable.iter() {
            if self.tend.stopped() {
                return Ok(());
            }
            if self.view().0.retired.contains(prefix) {
                self.alive()?;
                self.give_back_prefix(prefix)?;
            }
        }
        Ok(())
    }

    /// Tables that lie wholly below the prefix are dropped unread. The rest, at most the ends of a run, is deleted
    /// entry by entry. Then the prefix is forgotten.
    fn give_back_prefix(&self, prefix: &[u8]) -> Result<(), Error> {
        let end = prefix_end(prefix).unwrap_or_default();
        let (view, _) = self.view();
        if view.tables().any(|table| ends(table).0 >= prefix && ends(table).1 < end.as_slice()) {
            let writing = self.files.writing();
            let dropped = self.tree.drop_range::<&[u8], _>((Included(prefix), Excluded(end.as_slice())));
            self.refresh();
            drop(writing);
            dropped.map_err(|e| self.failed_to_register(Error::tree(self.tree_folder(), &e)))?;
        }
        drop(view);
        let mut from = Slice::from(prefix);
        loop {
            let (view, seq) = self.view();
            let bounds = (Included(from.clone()), Excluded(Slice::from(end.as_slice())));
            let mut batch = Batch::new();
            let mut last = None;
            for item in Merge::of_view(&view, &bounds, seq) {
                if self.tend.stopped() {
                    return Ok(());
                }
                let item = item?;
                if !item.is_tombstone() {
                    batch.delete(&item.key.user_key);
                }
                last = Some(item.key.user_key);
                if batch.len() == CHUNK {
                    break;
                }
            }
            drop(view);
            let done = batch.len() < CHUNK;
            let mut writer = lock(&self.writer);
            let mut retired = None;
            if done {
                // A prefix that was retired before this one and begins with it has a record, too.
                let (view, seq) = self.view();
                let records = record(prefix);
                let past = prefix_end(&records).unwrap_or_default();
                let bounds = (Included(Slice::from(records)), Excluded(Slice::from(past)));
                for item in Merge::of_view(&view, &bounds, seq) {
                    let item = item?;
                    if !item.is_tombstone() {
                        batch.delete(&item.key.user_key);
                    }
                }
                let mut left = Retired::clone(&view.retired);
                left.remove(prefix);
                retired = Some(left);
            }
            self.make_room(&mut writer)?;
            self.apply(&writer, batch.ops(), retired);
            drop(writer);
            match last {
                Some(last) if !done => from = last,
                _ => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread of a store that begins by itself may be late: that it has done nothing yet does not show that it
    /// rests.
    #[test]
    fn who_was_just_opened_rests_until_told_to_begin_or_flushed() {
        for wake in [Tend::begin, |tend: &Tend| tend.flushed(Arc::default())] {
            let tend = Tend::new(Arc::default());
            assert!(!lock(&tend.state).due);
            wake(&tend);
            assert!(tend.next().is_some());
        }
    }
}
