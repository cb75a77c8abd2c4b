//! The duties of every store: histories compared with a map in memory, and a writer watched by readers.
//!
//! A test of an implementation hands in how to open it, always at the same place, and its own source of histories.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Batch, Error, Snapshot, Store};

/// How to open the store that is tested, and where backups may be made.
pub struct Subject<'a> {
    /// Opens it at its place; the one before has been dropped.
    pub open: &'a dyn Fn() -> Result<Box<dyn Store>, Error>,
    /// Opens what `backup` has made.
    pub open_at: &'a dyn Fn(PathBuf) -> Result<Box<dyn Store>, Error>,
    /// Below it, nothing else is.
    pub scratch: PathBuf,
}

/// One step of a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Adds a put to the batch, unless its prefix is retired.
    Put(Vec<u8>, Vec<u8>),
    /// Adds as many puts to the batch: `prefix` and a number, each with a value of that many bytes.
    Fill(u8, u16, u16),
    /// Adds a deletion.
    Delete(Vec<u8>),
    /// Adds a retirement.
    Retire(Vec<u8>),
    /// Writes the batch.
    Write,
    /// Writes the batch and flushes.
    Flush,
    /// Drops the store, flushed or not, and opens it again.
    Reopen,
    /// Takes a snapshot, and compares the oldest of four with its expected contents.
    Snapshot,
    /// Compares a range: with the keys at its ends or without them.
    Range(Vec<u8>, bool, Vec<u8>, bool),
    /// Makes a backup, and compares it.
    Backup,
}

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// The expected contents of a store.
#[derive(Clone, Default)]
struct Model {
    entries: Entries,
    retired: BTreeSet<Vec<u8>>,
}

impl Model {
    fn is_retired(&self, key: &[u8]) -> bool {
        self.retired.iter().any(|prefix| key.starts_with(prefix))
    }

    fn retire(&mut self, prefix: &[u8]) {
        self.entries.retain(|key, _| !key.starts_with(prefix));
        self.retired.insert(prefix.to_vec());
    }
}

struct Run<'a> {
    subject: &'a Subject<'a>,
    store: Option<Box<dyn Store>>,
    batch: Batch,
    /// With the batch.
    ahead: Model,
    written: Model,
    durable: Model,
    generation: u64,
    snapshots: Vec<(Box<dyn Snapshot>, Entries)>,
    backups: u32,
}

/// Runs a history. Says what went wrong.
///
/// # Errors
/// Where the store differs from the model, in words.
pub fn run(subject: &Subject<'_>, steps: &[Step]) -> Result<(), String> {
    let mut run = Run {
        subject,
        store: None,
        batch: Batch::new(),
        ahead: Model::default(),
        written: Model::default(),
        durable: Model::default(),
        generation: 0,
        snapshots: Vec::new(),
        backups: 0,
    };
    run.reopen().map_err(|why| format!("at first: {why}"))?;
    let last = [Step::Flush, Step::Reopen];
    for (number, step) in steps.iter().chain(&last).enumerate() {
        run.step(step).map_err(|why| format!("step {number}, {step:?}: {why}"))?;
    }
    Ok(())
}

impl Run<'_> {
    fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("it is open between steps")
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Put(key, value) => self.put(key, value),
            Step::Fill(prefix, count, size) => {
                for n in 0..*count {
                    let key = [&[*prefix], n.to_be_bytes().as_slice()].concat();
                    // Not compressible, and not the same each time.
                    let seed = u64::from(n) << 32 | self.batch.len() as u64 | self.generation << 20;
                    let value: Vec<u8> = noise(seed).take((*size).into()).collect();
                    self.put(&key, &value);
                }
            }
            Step::Delete(key) => {
                self.batch.delete(key);
                self.ahead.entries.remove(key);
            }
            Step::Retire(prefix) => {
                self.batch.retire(prefix);
                self.ahead.retire(prefix);
            }
            Step::Write => return self.write(),
            Step::Flush => {
                self.write()?;
                let generation = self.store().flush().map_err(|e| e.to_string())?;
                if generation < self.generation || generation > self.store().generation() {
                    return Err(format!("generation {generation} after {}", self.generation));
                }
                self.generation = generation;
                self.durable = self.written.clone();
            }
            Step::Reopen => return self.reopen(),
            Step::Snapshot => {
                self.snapshots.push((self.store().snapshot(), self.written.entries.clone()));
                if self.snapshots.len() > 3 {
                    let (snapshot, entries) = self.snapshots.remove(0);
                    return compare(&*snapshot, &entries).map_err(|why| format!("an old snapshot: {why}"));
                }
            }
            Step::Range(from, with_from, to, with_to) => return self.range((from, *with_from), (to, *with_to)),
            Step::Backup => return self.backup(),
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        if !self.ahead.is_retired(key) {
            self.batch.put(key, value);
            self.ahead.entries.insert(key.to_vec(), value.to_vec());
        }
    }

    fn write(&mut self) -> Result<(), String> {
        self.store().write(&self.batch).map_err(|e| e.to_string())?;
        self.batch.clear();
        self.written = self.ahead.clone();
        for key in self.written.entries.keys().take(3).chain([&b"absent".to_vec()]) {
            let found = self.store().get(key).map_err(|e| e.to_string())?;
            if found.as_ref() != self.written.entries.get(key) {
                return Err(format!("{key:02x?} is {found:02x?}"));
            }
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.snapshots.clear();
        self.store = None;
        self.store = Some((self.subject.open)().map_err(|e| e.to_string())?);
        self.batch.clear();
        self.written = self.durable.clone();
        self.ahead = self.durable.clone();
        let now = self.store().generation();
        if now < self.generation {
            return Err(format!("generation {now}, and it was {}", self.generation));
        }
        compare(&*self.store().snapshot(), &self.durable.entries)
    }

    fn range(&self, (from, with_from): (&[u8], bool), (to, with_to): (&[u8], bool)) -> Result<(), String> {
        let bound = |key, with| if with { Bound::Included(key) } else { Bound::Excluded(key) };
        let range = (bound(from, with_from), bound(to, with_to));
        let snapshot = self.store().snapshot();
        let found = snapshot.range(range).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        let within = |key: &[u8]| {
            (if with_from { key >= from } else { key > from }) && (if with_to { key <= to } else { key < to })
        };
        let expected = self.written.entries.iter().filter(|(key, _)| within(key));
        same(found.iter().map(|(key, value)| (key, value)), expected)?;
        let found = snapshot.prefix(from).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        let expected = self.written.entries.iter().filter(|(key, _)| key.starts_with(from));
        same(found.iter().map(|(key, value)| (key, value)), expected).map_err(|why| format!("as a prefix: {why}"))
    }

    fn backup(&mut self) -> Result<(), String> {
        self.backups += 1;
        let folder = self.subject.scratch.join(self.backups.to_string());
        self.store().backup(&folder).map_err(|e| e.to_string())?;
        self.durable = self.written.clone();
        let copy = (self.subject.open_at)(folder.clone()).map_err(|e| format!("the copy: {e}"))?;
        compare(&*copy.snapshot(), &self.durable.entries).map_err(|why| format!("the copy: {why}"))?;
        drop(copy);
        std::fs::remove_dir_all(&folder).map_err(|e| e.to_string())
    }
}

/// Compares all of a snapshot.
fn compare(snapshot: &dyn Snapshot, entries: &Entries) -> Result<(), String> {
    let all = snapshot.range((Bound::Unbounded, Bound::Unbounded));
    let found = all.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    same(found.iter().map(|(key, value)| (key, value)), entries.iter())?;
    for (key, value) in entries {
        let found = snapshot.get(key).map_err(|e| e.to_string())?;
        if found.as_ref() != Some(value) {
            return Err(format!("{key:02x?} is {found:02x?} and not {value:02x?}"));
        }
    }
    Ok(())
}

fn same<'a>(
    found: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
    expected: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
) -> Result<(), String> {
    let (mut found, mut expected) = (found, expected);
    loop {
        match (found.next(), expected.next()) {
            (None, None) => return Ok(()),
            (found, expected) if found == expected => {}
            (found, expected) => return Err(format!("there is {found:02x?} and not {expected:02x?}")),
        }
    }
}

/// Bytes that look random.
pub fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some((state >> 24) as u8)
    })
}

/// Keys that always change together in [`watch`].
const TOGETHER: u8 = 16;

/// A writer and readers at the same time, for as many batches: every snapshot must be of one moment, and no reader may
/// see time go back. Every so many batches are flushed, on another thread than the writer's.
///
/// # Errors
///
/// A reader's view that was of no one moment, in words.
pub fn watch(subject: &Subject<'_>, batches: u64, readers: usize) -> Result<(), String> {
    let store = (subject.open)().map_err(|e| e.to_string())?;
    let store = &*store;
    let done = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (written, done) = (&written, &done);
        let watchers: Vec<_> =
            (0..readers).map(|n| scope.spawn(move || look(store, written, done, n as u64))).collect();
        let flusher = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let before = written.load(Ordering::SeqCst);
                store.flush().map_err(|e| e.to_string())?;
                let found = moment(&*store.snapshot())?;
                if found < before {
                    return Err(format!("batch {found} after a flush of {before}"));
                }
            }
            Ok(())
        });
        let mut outcome = Ok(());
        for n in 1..=batches {
            let mut batch = Batch::new();
            for key in 0..TOGETHER {
                batch.put(&[1, key], &n.to_be_bytes());
            }
            let filler: Vec<u8> = noise(n).take(200).collect();
            for key in 0..8 {
                batch.put(
                    &[b"\x02".as_slice(), &(n * 8 + key).wrapping_mul(0x9e37_79b9).to_be_bytes()].concat(),
                    &filler,
                );
            }
            outcome = store.write(&batch).map_err(|e| e.to_string());
            if outcome.is_err() {
                break;
            }
            written.store(n, Ordering::SeqCst);
        }
        done.store(true, Ordering::SeqCst);
        for thread in watchers.into_iter().chain([flusher]) {
            outcome = outcome.and(thread.join().unwrap_or_else(|_| Err("a reader panicked".into())));
        }
        outcome
    })
}

/// Which batch a snapshot is of.
fn moment(snapshot: &dyn Snapshot) -> Result<u64, String> {
    let mut values = BTreeSet::new();
    let mut count = 0;
    for entry in snapshot.prefix(&[1]) {
        let (_, value) = entry.map_err(|e| e.to_string())?;
        values.insert(u64::from_be_bytes(value.try_into().map_err(|_| "a value that was never written")?));
        count += 1;
    }
    let get = snapshot.get(&[1, 0]).map_err(|e| e.to_string())?;
    match (count, values.pop_first(), values.is_empty()) {
        (0, None, _) if get.is_none() => Ok(0),
        (TOGETHER, Some(n), true) if get == Some(n.to_be_bytes().to_vec()) => Ok(n),
        (count, first, _) => Err(format!("{count} keys of batches {first:?}, {values:?}, {get:02x?}")),
    }
}

fn look(store: &dyn Store, written: &AtomicU64, done: &AtomicBool, reader: u64) -> Result<(), String> {
    let mut seen = 0;
    let mut dice = noise(reader);
    while !done.load(Ordering::Relaxed) {
        let before = written.load(Ordering::SeqCst);
        let snapshot = store.snapshot();
        let found = moment(&*snapshot)?;
        if found < seen || found < before {
            return Err(format!("batch {found} after {seen}, {before} was written"));
        }
        seen = found;
        let key = dice.next().unwrap_or(0) % TOGETHER;
        let value = store.get(&[1, key]).map_err(|e| e.to_string())?;
        let value = value.and_then(|v| v.try_into().ok()).map_or(0, u64::from_be_bytes);
        if value < seen {
            return Err(format!("key {key} is of batch {value} after {seen}"));
        }
        let again = moment(&*snapshot)?;
        if again != found {
            return Err(format!("a snapshot of batch {found} is of {again}"));
        }
    }
    Ok(())
}
