//! MONITOR: clients that see every command of all workers.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::client::Client;

/// The clients in MONITOR mode.
#[derive(Default)]
pub struct Monitors {
    count: AtomicUsize,
    list: Mutex<Vec<Arc<Client>>>,
}

impl Monitors {
    /// True if there is any. Workers check it once per turn.
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    pub(super) fn list(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client sees commands from now on.
    pub fn add(&self, client: &Arc<Client>) {
        let mut list = self.list();
        client.monitor.store(true, Relaxed);
        list.push(client.clone());
        self.count.store(list.len(), Relaxed);
    }

    /// The client sees commands no more.
    pub fn remove(&self, client: &Client) {
        let mut list = self.list();
        client.monitor.store(false, Relaxed);
        list.retain(|monitor| monitor.id != client.id);
        self.count.store(list.len(), Relaxed);
    }
}
