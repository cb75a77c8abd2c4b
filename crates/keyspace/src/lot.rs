//! The parking lot: the connections that wait for each slot's latch.

use std::collections::BTreeMap;

use crate::sync::{Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 64;

/// A waiter: a worker, and the worker's name for the waiting connection. Opaque to the keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// Index of the worker to wake.
    pub worker: u16,
    /// The worker's own name for what waits.
    pub token: u64,
}

/// Waiters by slot, in order of arrival.
type Shard = BTreeMap<u16, Vec<Waiter>>;

/// The waiters of each slot.
pub(crate) struct Lot {
    shards: Box<[Mutex<Shard>]>,
}

impl Lot {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, slot: u16) -> MutexGuard<'_, Shard> {
        self.shards[usize::from(slot) % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(&self, slot: u16, waiter: Waiter) {
        self.shard(slot).entry(slot).or_default().push(waiter);
    }

    pub(crate) fn unregister(&self, slot: u16, waiter: Waiter) {
        let mut shard = self.shard(slot);
        if let Some(list) = shard.get_mut(&slot) {
            list.retain(|w| *w != waiter);
            if list.is_empty() {
                shard.remove(&slot);
            }
        }
    }

    /// Takes all waiters of a slot out.
    pub(crate) fn drain(&self, slot: u16) -> Vec<Waiter> {
        self.shard(slot).remove(&slot).unwrap_or_default()
    }
}
