//! The requests to the loaders: a queue.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clocks::UnixMs;
use keyspace::Ticket;

use super::listing::Order;

/// A request to a loader.
#[derive(Debug)]
pub enum Request {
    /// To fetch a key.
    Key {
        /// Its physical database.
        physical: u16,
        /// Its bytes.
        key: Box<[u8]>,
        /// Its load.
        ticket: Ticket,
    },
    /// To let a fetched key leave, in a while.
    Forget {
        /// Its physical database.
        physical: u16,
        /// Its bytes.
        key: Box<[u8]>,
        /// Its load.
        ticket: Ticket,
    },
    /// To list keys of the store.
    List(Order),
    /// To fetch expired keys of a physical database in a slot, and to note when more expire.
    Due {
        /// The physical database.
        physical: u16,
        /// The slot.
        slot: u16,
        /// Keys that expire before.
        now: UnixMs,
    },
}

/// See the module's text.
#[derive(Default)]
pub struct Requests {
    queue: Mutex<Queue>,
    bell: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Request>,
    /// Loaders that sleep.
    idle: usize,
    closed: bool,
}

impl Requests {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request.
    pub fn push(&self, request: Request) {
        let mut queue = self.queue();
        queue.waiting.push_back(request);
        let wake = queue.idle > 0;
        drop(queue);
        if wake {
            self.bell.notify_one();
        }
    }

    /// Takes at most `most` requests; waits for one if there is none, but no longer than `time`. `None`: no more are to
    /// be done.
    pub fn take(&self, most: usize, time: Duration) -> Option<Vec<Request>> {
        let mut queue = self.queue();
        if queue.waiting.is_empty() && !queue.closed && !time.is_zero() {
            queue.idle += 1;
            queue =
                self.bell.wait_timeout(queue, time).map_or_else(|poisoned| poisoned.into_inner().0, |(queue, _)| queue);
            queue.idle -= 1;
        }
        if queue.closed {
            return None;
        }
        let taken = most.min(queue.waiting.len());
        Some(queue.waiting.drain(..taken).collect())
    }

    /// Number of requests that no loader has taken.
    pub fn len(&self) -> usize {
        self.queue().waiting.len()
    }

    /// True if nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Loaders begin their work.
    pub fn open(&self) {
        self.queue().closed = false;
    }

    /// Ends the loaders.
    pub fn close(&self) {
        let mut queue = self.queue();
        (queue.closed, queue.waiting) = (true, VecDeque::new());
        drop(queue);
        self.bell.notify_all();
    }
}
