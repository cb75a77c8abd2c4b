//! How a stream's thread sleeps, and is woken without cost when it does not (checked by loom in `tests/bells.rs`).

use std::time::Duration;

use crate::sync::thread::{self, Thread};
use crate::sync::{AtomicU8, Mutex, Ordering::*, PoisonError, fence};

/// The thread has heard everything.
const BUSY: u8 = 0;
/// It is to look again.
const RUNG: u8 = 1;
/// It sleeps, having heard everything.
const ASLEEP: u8 = 2;

/// A bell with one thread that listens.
#[derive(Default)]
pub(crate) struct Bell {
    state: AtomicU8,
    listener: Mutex<Option<Thread>>,
}

impl Bell {
    /// This thread will listen.
    pub(crate) fn listen(&self) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
    }

    /// What the caller did before is seen by the listener when it looks next, and it looks soon. A load if it has been rung
    /// already.
    #[inline]
    pub(crate) fn ring(&self) {
        // What we did is seen by whoever takes the bell down after us, or we see that it is down (rule K2).
        fence(SeqCst);
        if self.state.load(Relaxed) != RUNG && self.state.swap(RUNG, SeqCst) == ASLEEP {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if let Some(thread) = &*self.listener.lock().unwrap_or_else(PoisonError::into_inner) {
            thread.unpark();
        }
    }

    /// Whether it has been rung since this was asked last.
    pub(crate) fn heard(&self) -> bool {
        let rung = self.state.swap(BUSY, SeqCst) == RUNG;
        fence(SeqCst);
        rung
    }

    /// Sleeps until it is rung, or for this long. Only the listener calls it.
    pub(crate) fn sleep(&self, most: Option<Duration>) {
        if self.state.compare_exchange(BUSY, ASLEEP, SeqCst, SeqCst).is_err() {
            return;
        }
        match most {
            Some(most) => thread::park_timeout(most),
            None => thread::park(),
        }
        let _ = self.state.compare_exchange(ASLEEP, BUSY, SeqCst, SeqCst);
    }
}
