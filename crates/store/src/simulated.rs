//! A store in memory for simulations and tests: it drops unflushed entries at a crash, and fails when a test wants it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::retired::{self, Retired};
use crate::{Batch, Entries, Error, Figures, Generation, Op, Range, Snapshot, Store};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The durable part. It outlives the stores on it: open another one on it to see the state after a crash.
#[derive(Clone, Default)]
pub struct Platter(Arc<Mutex<Durable>>);

#[derive(Clone, Default)]
struct Durable {
    state: State,
    generation: Generation,
    fault: Option<Fault>,
    backups: BTreeMap<PathBuf, Platter>,
}

#[derive(Clone, Default)]
struct State {
    entries: Arc<Map>,
    retired: Arc<Retired>,
}

/// How a flush fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The disk is full, this time.
    NoSpace,
    /// A sync fails, which is final. The entries of the flush are durable all the same, or they are not.
    Sync {
        /// Which of the two.
        durable: bool,
    },
}

/// A store on a [`Platter`]. Dropped, it loses unflushed entries, as in a crash.
pub struct Simulated {
    platter: Platter,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    state: State,
    /// Something is not durable.
    changed: bool,
    fault: Option<String>,
    figures: Figures,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Platter {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the next flush that has something to do fail.
    pub fn fail(&self, fault: Fault) {
        lock(&self.0).fault = Some(fault);
    }

    /// Flushes do not fail any more, unless one has that was final.
    pub fn mend(&self) {
        lock(&self.0).fault = None;
    }

    /// The result of `backup` under this name.
    #[must_use]
    pub fn copy(&self, folder: &Path) -> Option<Self> {
        lock(&self.0).backups.get(folder).cloned()
    }
}

impl Simulated {
    /// Opens the durable part; refused if that is older than `at_least`.
    ///
    /// # Errors
    ///
    /// The durable part is older than `at_least`.
    pub fn open(platter: &Platter, at_least: Generation) -> Result<Self, Error> {
        let durable = lock(&platter.0).clone();
        if durable.generation < at_least {
            let why = format!("the store is at state {}, but was already at {at_least}", durable.generation);
            return Err(Error::refused(Path::new("platter"), why));
        }
        let written = Written { state: durable.state, ..Written::default() };
        Ok(Self { platter: platter.clone(), written: Mutex::new(written) })
    }
}

impl Store for Simulated {
    fn write(&self, batch: &Batch) -> Result<(), Error> {
        let mut written = lock(&self.written);
        if let Some(why) = &written.fault {
            return Err(Error::Stopped(why.clone()));
        }
        let retired = retired::check(batch, &written.state.retired)?;
        if let Some(retired) = retired {
            written.state.retired = Arc::new(retired);
        }
        let entries = Arc::make_mut(&mut written.state.entries);
        for op in batch.ops() {
            match op {
                Op::Put(key, value) => drop(entries.insert(key.to_vec(), value.to_vec())),
                Op::Delete(key) => drop(entries.remove(key)),
                Op::Retire(prefix) => entries.retain(|key, _| !key.starts_with(prefix)),
            }
        }
        written.changed |= !batch.is_empty();
        written.figures.bytes_taken += batch.bytes() as u64;
        written.figures.bytes_unflushed += batch.bytes() as u64;
        Ok(())
    }

    fn flush(&self) -> Result<Generation, Error> {
        let mut written = lock(&self.written);
        if let Some(why) = &written.fault {
            return Err(Error::Stopped(why.clone()));
        }
        let mut durable = lock(&self.platter.0);
        if !written.changed {
            return Ok(durable.generation);
        }
        let fault = durable.fault.take();
        if fault == Some(Fault::NoSpace) {
            return Err(Error::NoSpace("the platter".into()));
        }
        if fault != Some(Fault::Sync { durable: false }) {
            durable.state = written.state.clone();
            durable.generation += 1;
        }
        if fault.is_some() {
            written.fault = Some("a sync failed".into());
            return Err(Error::Stopped("a sync failed".into()));
        }
        written.changed = false;
        written.figures.flushes += 1;
        written.figures.bytes_flushed += written.figures.bytes_unflushed;
        written.figures.bytes_unflushed = 0;
        Ok(durable.generation)
    }

    fn generation(&self) -> Generation {
        lock(&self.platter.0).generation
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(lock(&self.written).state.entries.get(key).cloned())
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(Taken(lock(&self.written).state.entries.clone()))
    }

    fn backup(&self, folder: &Path) -> Result<Generation, Error> {
        let generation = self.flush()?;
        let mut durable = lock(&self.platter.0);
        if durable.backups.contains_key(folder) {
            return Err(Error::refused(folder, "it is not empty"));
        }
        let copy = Durable { backups: BTreeMap::new(), ..durable.clone() };
        durable.backups.insert(folder.into(), Platter(Arc::new(Mutex::new(copy))));
        Ok(generation)
    }

    fn figures(&self) -> Figures {
        let written = lock(&self.written);
        Figures { entries_estimate: written.state.entries.len() as u64, ..written.figures }
    }

    fn fault(&self) -> Option<Error> {
        lock(&self.written).fault.clone().map(Error::Stopped)
    }
}

struct Taken(Arc<Map>);

impl Snapshot for Taken {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.get(key).cloned())
    }

    fn range(&self, (from, to): Range<'_>) -> Entries<'_> {
        let empty = match (from, to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
            _ => false,
        };
        if empty {
            return Box::new(std::iter::empty());
        }
        let entries = self.0.range::<[u8], _>((from, to));
        Box::new(entries.map(|(key, value)| Ok((key.clone(), value.clone()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_fails_as_it_was_told_to() {
        let platter = Platter::new();
        let mut batch = Batch::new();
        batch.put(b"a", b"1");
        for (fault, left) in
            [(Fault::NoSpace, false), (Fault::Sync { durable: false }, false), (Fault::Sync { durable: true }, true)]
        {
            let store = Simulated::open(&platter, 0).expect("opened");
            store.write(&batch).expect("written");
            platter.fail(fault);
            store.flush().expect_err("it failed");
            assert_eq!(store.write(&batch).is_err(), fault != Fault::NoSpace);
            drop(store);
            let store = Simulated::open(&platter, 0).expect("opened");
            assert_eq!(store.get(b"a").expect("read").is_some(), left, "{fault:?}");
        }
        assert!(Simulated::open(&platter, 2).is_err());
    }
}
