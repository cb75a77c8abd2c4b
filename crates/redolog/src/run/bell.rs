//! How the threads of a stream sleep, and are woken without cost when they do not (checked by loom in `tests/bells.rs`).

use std::time::Duration;

use crate::sync::thread::{self, Thread};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering::*, PoisonError, fence};

/// A bell that threads listen to: whoever of them is awake and looks, or else one that sleeps.
#[derive(Default)]
pub(crate) struct Bell {
    /// Somebody is to look again.
    rung: AtomicBool,
    /// How many sleep.
    asleep: AtomicUsize,
    /// Those that sleep, the last to fall asleep last: it is woken first, the others may rest.
    sleepers: Mutex<Vec<Thread>>,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, Vec<Thread>> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the caller did before is seen by the listener who looks next, and one looks soon. A load if it has been rung
    /// already.
    #[inline]
    pub(crate) fn ring(&self) {
        // What we did is seen by whoever takes the bell down after us, or we see that it is down (rule K2).
        fence(SeqCst);
        if !self.rung.load(Relaxed) && !self.rung.swap(true, SeqCst) {
            // Who falls asleep sees that it has been rung, or we see that he sleeps.
            fence(SeqCst);
            if self.asleep.load(Relaxed) > 0 {
                self.wake();
            }
        }
    }

    /// There is something to look at, and the caller is who looks next.
    pub(crate) fn note(&self) {
        self.rung.store(true, SeqCst);
    }

    #[cold]
    fn wake(&self) {
        let mut sleepers = self.lock();
        let last = sleepers.pop();
        self.asleep.store(sleepers.len(), SeqCst);
        drop(sleepers);
        if let Some(thread) = last {
            thread.unpark();
        }
    }

    /// Wakes everybody.
    pub(crate) fn wake_all(&self) {
        let mut sleepers = self.lock();
        self.asleep.store(0, SeqCst);
        sleepers.drain(..).for_each(|thread| thread.unpark());
    }

    /// Whether it has been rung since this was asked last.
    pub(crate) fn heard(&self) -> bool {
        let rung = self.rung.swap(false, SeqCst);
        fence(SeqCst);
        rung
    }

    /// Sleeps until it is rung and nobody else was woken by that, or for this long; or shorter. `is_over` says, after others can
    /// wake this thread, whether it need not sleep.
    pub(crate) fn sleep(&self, most: Option<Duration>, is_over: impl FnOnce() -> bool) {
        let this = thread::current();
        let id = this.id();
        let mut sleepers = self.lock();
        sleepers.push(this);
        self.asleep.store(sleepers.len(), SeqCst);
        drop(sleepers);
        fence(SeqCst);
        if !self.rung.load(Relaxed) && !is_over() {
            match most {
                Some(most) => thread::park_timeout(most),
                None => thread::park(),
            }
        }
        let mut sleepers = self.lock();
        sleepers.retain(|thread| thread.id() != id);
        self.asleep.store(sleepers.len(), SeqCst);
    }
}
