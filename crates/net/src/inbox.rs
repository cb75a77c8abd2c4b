//! Sockets on their way to a worker's driver.

use std::sync::{Mutex, PoisonError};

use crate::socket::Incoming;

/// The sockets dealt out to one worker and not yet taken by its driver.
#[derive(Default)]
pub struct Inbox(Mutex<Vec<Incoming>>);

impl Inbox {
    /// Adds a socket; the driver must be woken.
    pub fn put(&self, incoming: Incoming) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(incoming);
    }

    /// Takes all of them.
    pub fn take(&self) -> Vec<Incoming> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
