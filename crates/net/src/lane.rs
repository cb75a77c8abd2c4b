//! The state of one worker that the acceptor, the governor and its driver share.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::socket::Incoming;

/// A worker's lane. New sockets, orders and figures pass through it.
#[derive(Default)]
pub struct Lane {
    incoming: Mutex<Vec<Incoming>>,
    waiting: AtomicUsize,
    /// CPU time of the worker's thread in nanoseconds, at its last report.
    pub cpu_ns: AtomicU64,
    /// Connections that the worker is to give away, and to which lane: see [`Lane::order`].
    shed: Mutex<Option<Shed>>,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// An order to give connections away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    /// The lane that gets them.
    pub to: usize,
    /// The number of connections.
    pub count: usize,
}

impl Lane {
    /// Sets the function that wakes the worker's driver. It can be set once.
    ///
    /// # Errors
    ///
    /// It is set already.
    pub fn on_wake(&self, wake: Box<dyn Fn() + Send + Sync>) -> io::Result<()> {
        self.wake.set(wake).map_err(|_| io::Error::other("a lane has one driver"))
    }

    /// Wakes the driver.
    pub fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// Adds a socket and wakes the driver.
    pub fn put(&self, incoming: Incoming) {
        // Counted before it can be taken.
        self.waiting.fetch_add(1, Relaxed);
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner).push(incoming);
        self.wake();
    }

    /// Takes all sockets.
    pub fn take(&self) -> Vec<Incoming> {
        let taken = std::mem::take(&mut *self.incoming.lock().unwrap_or_else(PoisonError::into_inner));
        self.waiting.fetch_sub(taken.len(), Relaxed);
        taken
    }

    /// Sockets not yet taken.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Orders the worker to give connections away, in place of an earlier order.
    pub fn order(&self, shed: Shed) {
        *self.shed.lock().unwrap_or_else(PoisonError::into_inner) = Some(shed);
        self.wake();
    }

    /// The order, if there is one.
    pub fn take_order(&self) -> Option<Shed> {
        self.shed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a plain system call that fills `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
