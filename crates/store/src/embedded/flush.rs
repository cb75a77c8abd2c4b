//! Making things durable.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use lsm_tree::{AbstractTree, InternalValue, SeqNo, Slice, Table};

use super::merge::Merge;
use super::view::{Held, Layer, Run, View, durable, ends};
use super::{Shared, Writer, lock, micros};
use crate::retired::Retired;
use crate::sections::{TABLES, read_current};
use crate::{Error, Generation};

/// Sorted runs beyond which a flush waits for compaction: every read may have to look into each of them.
const RUNS_MAX: u64 = 24;

/// Sorted runs beyond which there are no more flushes: `lsm-tree` counts the runs of a level in one byte.
const RUNS_LIMIT: u64 = 200;

/// How often the manifest on the disk is read, at most, to learn which one counts, and the pause while that fails: a
/// minute in all.
const LOOKS_MAX: usize = 600;
const LOOK: Duration = Duration::from_millis(100);

impl Shared {
    /// Makes room for a batch: if memory is full, the entries that are not being flushed are spilled to disk. If there
    /// is no room there, twice as much is taken before batches are refused.
    ///
    /// # Errors
    ///
    /// The store has failed before, or the disk has no room and memory is used up.
    pub fn make_room(&self, writer: &mut Writer) -> Result<(), Error> {
        let limit = self.memory.load(Relaxed);
        let held = self.current().view.memory(writer.flushing);
        if held < limit {
            return Ok(());
        }
        self.seal(writer);
        match self.spill(writer) {
            Err(Error::NoSpace(_)) if held < limit.saturating_mul(2) => Ok(()),
            outcome => outcome,
        }
    }

    /// Writes sealed memory to disk that no flush is writing.
    fn spill(&self, writer: &Writer) -> Result<(), Error> {
        let (view, _) = self.view();
        for layer in view.layers.iter().filter(|layer| layer.id > writer.flushing) {
            let Held::Memory(memory) = &layer.held else { continue };
            let run = self.write_tables(Merge::of_layers([Held::Memory(memory.clone())].iter()), None)?;
            let bytes = self.files.bytes(run.iter());
            self.counts.spilled.fetch_add(bytes, Relaxed);
            let mut current = self.current_mut();
            let mut view = View::clone(&current.view);
            for place in view.layers.iter_mut().filter(|place| place.id == layer.id) {
                place.held = Held::Run(run.clone());
            }
            current.view = Arc::new(view);
        }
        Ok(())
    }

    /// Writes entries to tables that no manifest names yet. Values below a retired prefix are left out. Tombstones are
    /// not: the prefix may be forgotten before the next flush, and then they alone hide entries of older tables.
    fn write_tables(&self, entries: Merge, retired: Option<&Retired>) -> Result<Run, Error> {
        let folder = self.tree_folder().join(TABLES);
        let writing = self.files.writing();
        let low = self.tree.next_table_id();
        // Errors of reading are this crate's and name their file; `lsm-tree` only needs to know that there was one.
        let mut failed = None;
        let stream = entries.filter(|item| match (item, retired) {
            (Ok(item), Some(retired)) => item.is_tombstone() || !retired.covers(&item.key.user_key),
            _ => true,
        });
        let stream = stream.map(|item: Result<InternalValue, Error>| match item {
            Ok(mut item) => {
                self.counts.flush_steps.fetch_add(1, Relaxed);
                // Some keys stay in memory until their table is written: those read from a table would keep their
                // blocks there.
                item.key.user_key = Slice::from(&*item.key.user_key);
                Ok(item)
            }
            Err(error) => {
                failed = Some(error);
                Err(lsm_tree::Error::Unrecoverable)
            }
        });
        let written = self.tree.flush_to_tables(stream);
        let written = match (written, failed) {
            (Ok(tables), _) => Ok(tables.map_or_else(Vec::new, |(tables, _)| tables)),
            (Err(_), Some(error)) => Err(error),
            (Err(error), None) => Err(Error::tree(&folder, &error)),
        };
        let written = written.map_err(|error| self.failed(error, low));
        if let Ok(tables) = &written {
            self.files.note(tables.iter());
        }
        drop(writing);
        self.files.tidy(&folder);
        written.map(Run::from)
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    ///
    /// The store or the disk has failed, or there is no room for the entries in memory or for compaction.
    pub fn flush(&self) -> Result<Generation, Error> {
        let _one = lock(&self.flushing);
        self.alive()?;
        if self.runs_at_top() >= RUNS_MAX {
            self.tend.begin();
            self.tend.wait_for_runs(|| self.runs_at_top() < RUNS_MAX || self.alive().is_err());
        }
        if self.runs_at_top() > RUNS_LIMIT {
            return Err(Error::NoSpace("compaction has no room, and there are too many tables without it".into()));
        }
        let start = (self.clock)();
        let mut writer = lock(&self.writer);
        self.seal(&mut writer);
        let (view, _) = self.view();
        let Some(newest) = view.layers.first() else { return Ok(view.durable.generation) };
        writer.flushing = newest.id;
        drop(writer);
        let flushed = self.flush_layers(&view);
        lock(&self.writer).flushing = 0;
        if flushed.is_ok() {
            let took = micros((self.clock)().saturating_sub(start));
            self.counts.flushes.fetch_add(1, Relaxed);
            self.counts.flush_us_total.fetch_add(took, Relaxed);
            self.counts.flush_us_max.fetch_max(took, Relaxed);
            self.tend.flushed(view.retired.clone());
        }
        flushed
    }

    fn runs_at_top(&self) -> u64 {
        self.tree.l0_run_count() as u64
    }

    fn flush_layers(&self, view: &View) -> Result<Generation, Error> {
        let spilled: Vec<Table> = view.layers.iter().flat_map(|layer| tables(layer).iter().cloned()).collect();
        let run = match self.written_between(view, &spilled)? {
            Some(run) => run,
            None => self.write_tables(Merge::of_layers(view.layers.iter().map(|l| &l.held)), Some(&view.retired))?,
        };
        let is_of = |tables: &[Table], table: &Table| tables.iter().any(|other| other.id() == table.id());
        let new = || run.iter().filter(|table| !is_of(&spilled, table));
        if let Err(error) = self.tree.register_tables(&run, None, None, &[], SeqNo::MAX) {
            let error = self.failed_to_register(Error::tree(self.tree_folder(), &error));
            // After any other failure the manifest that names them may count.
            if matches!(error, Error::NoSpace(_)) {
                discard(new());
            }
            return Err(error);
        }
        let durable = durable(&self.tree);
        let generation = durable.generation;
        self.counts.flushed.fetch_add(self.files.bytes(new()), Relaxed);
        let mut current = self.current_mut();
        let mut next = View::clone(&current.view);
        next.layers.retain(|layer| view.layers.iter().all(|flushed| flushed.id != layer.id));
        next.advance(durable);
        current.view = Arc::new(next);
        drop(current);
        discard(spilled.iter().filter(|table| !is_of(&run, table)));
        Ok(generation)
    }

    /// The spilled tables, with the entries in memory written to tables of their own between those, if none of them
    /// overlap. So a writer in the order of keys, as a checkpoint is, writes everything once. `None`: they have to be
    /// merged.
    fn written_between(&self, view: &View, spilled: &[Table]) -> Result<Option<Run>, Error> {
        let mut spilled: Vec<&Table> = spilled.iter().collect();
        spilled.sort_by_key(|table| ends(table).0);
        let held: Vec<&Held> =
            view.layers.iter().map(|layer| &layer.held).filter(|held| matches!(held, Held::Memory(_))).collect();
        let is_apart = spilled.windows(2).all(|pair| ends(pair[0]).1 < ends(pair[1]).0);
        let within = |table: &Table| {
            let (first, last) = ends(table);
            let bounds = (Included(Slice::from(first)), Included(Slice::from(last)));
            Merge::of_layers_in(held.iter().copied(), &bounds).next().is_some()
        };
        if spilled.is_empty() || !is_apart || spilled.iter().any(|table| within(table)) {
            return Ok(None);
        }
        let (mut run, mut new, mut from): (Vec<Table>, Vec<Table>, _) = (Vec::new(), Vec::new(), Unbounded);
        for next in spilled.into_iter().map(Some).chain([None]) {
            let bounds = (from, next.map_or(Unbounded, |table| Excluded(Slice::from(ends(table).0))));
            let entries = || Merge::of_layers_in(held.iter().copied(), &bounds);
            if entries().next().is_some() {
                let written = self.write_tables(entries(), Some(&view.retired)).inspect_err(|_| discard(new.iter()))?;
                run.extend(written.iter().cloned());
                new.extend(written.iter().cloned());
            }
            run.extend(next.cloned());
            from = next.map_or(Unbounded, |table| Excluded(Slice::from(ends(table).1)));
        }
        Ok(Some(run.into()))
    }

    /// Notes that writing tables failed, from the table numbered `low` on. Only a full disk may be tried again: it is
    /// unknown what a failed sync left behind.
    fn failed(&self, error: Error, low: u64) -> Error {
        if matches!(error, Error::NoSpace(_)) {
            self.files.failed(low..self.tree.next_table_id());
        } else {
            self.stop(&error);
        }
        error
    }

    /// Notes that a compaction failed, which writes tables and a manifest.
    pub fn failed_to_compact(&self, error: Error, low: u64) -> Error {
        let error = self.failed_to_register(error);
        if matches!(error, Error::NoSpace(_)) && self.alive().is_ok() { self.failed(error, low) } else { error }
    }

    /// Notes that a manifest could not be written. If it may have become the one that counts, nothing may be written
    /// any more, because memory and disk would differ. [`Error::NoSpace`] is returned only if it has not.
    pub fn failed_to_register(&self, error: Error) -> Error {
        match error {
            Error::NoSpace(_) if self.is_as_on_disk() => error,
            error => self.stop(&error),
        }
    }

    /// True if the manifest that counts on disk is the one that counts here. If it cannot be read for want of
    /// descriptors, that is found out when there are some.
    fn is_as_on_disk(&self) -> bool {
        for _ in 0..LOOKS_MAX {
            let before = self.tree.current_version().id();
            // While this is held, no other manifest begins to count.
            let history = self.tree.get_version_history_lock();
            let counts = read_current(self.tree_folder()).map(|(id, _)| id);
            drop(history);
            if matches!(counts, Err(Error::NoSpace(_))) {
                std::thread::park_timeout(LOOK);
            } else if self.tree.current_version().id() == before {
                return counts == Ok(before);
            }
        }
        false
    }
}

fn tables(layer: &Layer) -> &[Table] {
    match &layer.held {
        Held::Memory(_) => &[],
        Held::Run(run) => run,
    }
}

/// Has the files of tables removed when they have no owner any more.
fn discard<'a>(tables: impl Iterator<Item = &'a Table>) {
    for table in tables {
        table.is_deleted.store(true, Release);
    }
}
