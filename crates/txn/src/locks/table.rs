//! Locks by key, for callers that have no better place for them.

use std::collections::BTreeMap;

use super::{KeyLock, Locks};
use crate::Stamp;

/// The locks of keys that have holders or waiters.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LockTable<K: Ord, O> {
    locks: BTreeMap<K, KeyLock<O>>,
}

impl<K: Ord, O> Default for LockTable<K, O> {
    fn default() -> Self {
        Self { locks: BTreeMap::new() }
    }
}

impl<K: Ord, O> LockTable<K, O> {
    /// All locks that are not free.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &KeyLock<O>)> {
        self.locks.iter()
    }

    /// True if no key is locked.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }
}

impl<K: Ord + Clone, O: Copy + Eq> Locks<O> for LockTable<K, O> {
    type Key = K;

    fn of<R>(&mut self, key: &K, f: impl FnOnce(&mut KeyLock<O>) -> R) -> Option<R> {
        self.locks.get_mut(key).map(f)
    }

    fn with<R>(&mut self, key: &K, f: impl FnOnce(&mut KeyLock<O>) -> R) -> R {
        if let Some(lock) = self.locks.get_mut(key) {
            let result = f(lock);
            if lock.is_free() {
                self.locks.remove(key);
            }
            return result;
        }
        let mut lock = KeyLock::default();
        let result = f(&mut lock);
        if !lock.is_free() {
            self.locks.insert(key.clone(), lock);
        }
        result
    }

    fn keep_open(&mut self, transactions: &mut Vec<(O, Stamp)>) {
        let has = |lock: &KeyLock<O>, owner| lock.held().chain(lock.waiting()).any(|(other, _)| other == owner);
        transactions.retain(|(owner, _)| self.locks.values().any(|lock| has(lock, *owner)));
    }
}
