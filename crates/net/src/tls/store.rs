//! Sessions that clients may resume: bounded in number and time (`tls-session-cache-size`, `-timeout`).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use node::{Clock, MonoNs};
use rustls::server::StoresServerSessions;

/// The sessions. A new configuration begins with none, so that every client is judged by its authorities.
pub struct Sessions {
    clock: Arc<dyn Clock>,
    most: usize,
    age_ns: u64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_key: BTreeMap<Vec<u8>, (MonoNs, Vec<u8>)>,
    /// The keys in the order of their arrival. Those that were taken are in it until their turn comes.
    order: VecDeque<Vec<u8>>,
}

impl Sessions {
    /// For so many sessions of so many seconds.
    pub fn new(clock: Arc<dyn Clock>, most: usize, seconds: u64) -> Self {
        Self { clock, most, age_ns: seconds.saturating_mul(1_000_000_000), kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn young(&self, (since, value): &(MonoNs, Vec<u8>)) -> Option<Vec<u8>> {
        (self.clock.monotonic_ns().since(*since) <= self.age_ns).then(|| value.clone())
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("most", &self.most).finish_non_exhaustive()
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let now = self.clock.monotonic_ns();
        let mut kept = self.kept();
        if kept.order.len() >= self.most
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.by_key.remove(&oldest);
        }
        kept.order.push_back(key.clone());
        kept.by_key.insert(key, (now, value));
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.kept().by_key.get(key).and_then(|entry| self.young(entry))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.kept().by_key.remove(key).and_then(|entry| self.young(&entry))
    }

    fn can_cache(&self) -> bool {
        true
    }
}
