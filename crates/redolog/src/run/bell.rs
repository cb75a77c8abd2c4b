//! How the threads of a stream sleep, and are woken without cost when they do not sleep (checked by loom in
//! `tests/bells.rs`).

use std::time::Duration;

use crate::sync::thread::{self, Thread};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering::*, PoisonError, fence};

/// A bell that threads listen to: one that is awake, or else one that sleeps.
#[derive(Default)]
pub(crate) struct Bell {
    /// A thread is to look again.
    rung: AtomicBool,
    /// How many sleep.
    asleep: AtomicUsize,
    /// The sleeping threads in the order in which they fell asleep. The last one is woken first; the others may rest.
    sleepers: Mutex<Vec<Thread>>,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, Vec<Thread>> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings: a listener looks soon, and sees what the caller did before. It costs a load if the bell has been rung
    /// already.
    #[inline]
    pub(crate) fn ring(&self) {
        // The next thread that takes the bell down sees what this one did, or this one sees that it is down (rule K2).
        fence(SeqCst);
        if !self.rung.load(Relaxed) && !self.rung.swap(true, SeqCst) {
            // A thread that falls asleep sees the ring, or this one sees that it sleeps.
            fence(SeqCst);
            if self.asleep.load(Relaxed) > 0 {
                self.wake();
            }
        }
    }

    /// Notes that there is something to look at, and that the caller looks next.
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

    /// Wakes all threads.
    pub(crate) fn wake_all(&self) {
        let mut sleepers = self.lock();
        self.asleep.store(0, SeqCst);
        sleepers.drain(..).for_each(|thread| thread.unpark());
    }

    /// True if it was rung since the last call.
    pub(crate) fn heard(&self) -> bool {
        let rung = self.rung.swap(false, SeqCst);
        fence(SeqCst);
        rung
    }

    /// Sleeps until it is rung and no other thread was woken by that, or for this long; or shorter. `is_over` says,
    /// after others can wake this thread, whether it need not sleep.
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
