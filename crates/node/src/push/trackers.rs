//! The clients of a node that cache, and the prefixes that they want to hear of.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::client::Client;

type Clients = BTreeMap<u64, Arc<Client>>;

pub(super) type Prefixes = BTreeMap<Box<[u8]>, Clients>;

/// The tracking clients of a node.
#[derive(Default)]
pub struct Trackers {
    clients: RwLock<Clients>,
    /// Clients in BCAST mode, by prefix.
    prefixes: RwLock<Prefixes>,
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl Trackers {
    /// A client begins to track. False: it did already.
    pub fn add(&self, client: &Arc<Client>) -> bool {
        write(&self.clients).insert(client.id, client.clone()).is_none()
    }

    /// A client ends tracking, if it did.
    pub fn remove(&self, client: &Client) {
        write(&self.clients).remove(&client.id);
    }

    /// Adds a prefix that a client wants to hear of.
    pub fn add_prefix(&self, prefix: &[u8], client: &Arc<Client>) {
        write(&self.prefixes).entry(prefix.into()).or_default().insert(client.id, client.clone());
    }

    /// Removes a prefix of a client.
    pub fn remove_prefix(&self, prefix: &[u8], client: &Client) {
        let mut prefixes = write(&self.prefixes);
        if let Some(clients) = prefixes.get_mut(prefix) {
            clients.remove(&client.id);
            if clients.is_empty() {
                prefixes.remove(prefix);
            }
        }
    }

    /// The ids of all tracking clients, those of other nodes that have read here among them.
    pub fn ids(&self) -> Vec<u64> {
        read(&self.clients).keys().copied().collect()
    }

    /// All tracking clients.
    pub(super) fn all(&self) -> Vec<Arc<Client>> {
        read(&self.clients).values().cloned().collect()
    }

    /// The prefixes, with the clients that want to hear of them.
    pub(super) fn by_prefix(&self) -> RwLockReadGuard<'_, Prefixes> {
        read(&self.prefixes)
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<Client>> {
        read(&self.clients).get(&id).cloned()
    }

    /// Number of tracking clients, those of other nodes that have read here among them.
    pub fn count(&self) -> usize {
        read(&self.clients).len()
    }

    /// Number of prefixes that clients want to hear of.
    pub fn prefixes(&self) -> usize {
        read(&self.prefixes).len()
    }
}
