//! Loaders, which fetch keys that only the store has, a step at a time (rule C5).
//!
//! A loader reads the store without a latch. Between the read and the moment when the loader puts the value into
//! memory, other threads may do anything. So the simulation takes and reads a request in one step, and completes it in
//! a later one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::checkpoint::StoreSource;
use engine::cold::{Loader, Names, Request, Source, Span};
use keyspace::{Fetched, Key, Space, Unreadable, Waiter};
use node::Node;
use redolog::simulated::Chance;
use store::Store;

use crate::plan::Planted;

/// How many there are.
pub const LOADERS: usize = 2;

type Read = Result<Option<Fetched>, Unreadable>;

/// Where cold keys are: the store as of now, or as a loader has read it before.
struct Shelf {
    store: StoreSource,
    planted: Planted,
    /// A planted mistake: a fetch returns what was durable at some earlier time.
    stale: Mutex<Option<StoreSource>>,
    /// Values that the working loader has read.
    read: Mutex<VecDeque<Read>>,
}

impl Shelf {
    fn read(&self) -> MutexGuard<'_, VecDeque<Read>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Shelf {
    fn fetch_within(&self, space: Space, key: &Key<'_>, has_room: &mut dyn FnMut(u64) -> bool) -> Read {
        if let Some(stale) = &*self.stale.lock().unwrap_or_else(PoisonError::into_inner) {
            return stale.fetch_within(space, key, has_room);
        }
        // The room for what was read before is taken.
        let read = self.read().pop_front();
        read.unwrap_or_else(|| self.store.fetch_within(space, key, has_room))
    }

    fn list(&self, space: Space, span: Span) -> Result<Names, Unreadable> {
        let mut names = self.store.list(space, span)?;
        if self.planted == Planted::ForgetfulListing {
            names.names.pop();
        }
        Ok(names)
    }
}

/// Requests that a loader has taken, and values that it has read.
type Taken = (Vec<Request>, VecDeque<Read>);

/// See the module's text.
pub struct Fetching {
    node: Arc<Node>,
    shelf: Arc<Shelf>,
    loaders: Vec<(Loader, Option<Taken>)>,
}

impl Fetching {
    /// Keys that are not in memory are fetched from this store.
    pub fn begin(node: &Arc<Node>, store: &Arc<dyn Store>, planted: Planted) -> Self {
        let store = StoreSource { store: store.clone(), report: |_| {} };
        let shelf = Arc::new(Shelf { store, planted, stale: Mutex::default(), read: Mutex::default() });
        node.engine.source.set(Some(shelf.clone()));
        node.engine.requests.open();
        let loader = |number| Loader::new(node.engine.clone(), node.workers() + number);
        Self { node: node.clone(), shelf, loaders: (0..LOADERS).map(|number| (loader(number), None)).collect() }
    }

    /// A loader takes a request and reads, or completes the one it has taken. `apart`: it does not do both in one step.
    /// Returns how much it has done; 0: there is nothing to do.
    pub fn step(&mut self, loader: usize, apart: bool, chance: &mut Chance) -> usize {
        let (batch, read) = match self.loaders[loader].1.take() {
            Some(taken) => taken,
            None => {
                let most = 1 + chance.below(4) as usize;
                let batch = self.node.engine.requests.take(most, Duration::ZERO).unwrap_or_default();
                let count = batch.len();
                if apart && count > 0 {
                    let read = self.read(&batch);
                    self.loaders[loader].1 = Some((batch, read));
                    return count;
                }
                (batch, VecDeque::new())
            }
        };
        let loader = &mut self.loaders[loader].0;
        let count = batch.len() + usize::from(loader.is_busy());
        *self.shelf.read() = read;
        let node = &self.node;
        loader.serve(batch, node.clock.monotonic_ns().ms(), |waiter: Waiter| node.wake(waiter));
        self.shelf.read().clear();
        count
    }

    /// A planted mistake: from now on fetches return the contents of this store.
    pub fn fetch_stale(&self, store: Arc<dyn Store>) {
        let stale = StoreSource { store, report: |_| {} };
        *self.shelf.stale.lock().unwrap_or_else(PoisonError::into_inner) = Some(stale);
    }

    fn read(&self, batch: &[Request]) -> VecDeque<Read> {
        let keyspace = &self.node.engine.keyspace;
        let read = batch.iter().filter_map(|request| match request {
            Request::Key { physical, key, .. } => {
                Some(self.shelf.store.fetch(keyspace.present_space(*physical), &keyspace.hasher().key(key)))
            }
            _ => None,
        });
        read.collect()
    }
}
