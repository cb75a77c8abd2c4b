//! A standby's reader with a thread of its own.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use quorum::Cut;
use redolog::{Clock, Disk, Recovered};
use standby::{Behind, Follower, Memory};

use super::shown::Shown;
use super::{Ended, Known, Stepped, Tap};

/// Something to be done between two batches.
type Errand = Box<dyn FnOnce(&mut Follower) + Send>;

/// The part that other threads see.
#[derive(Default)]
struct Control {
    errands: Mutex<Vec<Errand>>,
    has_errands: AtomicBool,
    is_stopped: AtomicBool,
    applied: AtomicU64,
    ended: Mutex<Option<Ended>>,
    /// The records that were applied in the end.
    memory: Mutex<Option<Memory>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    fn is_due(&self) -> bool {
        self.has_errands.load(SeqCst) || self.is_stopped.load(SeqCst)
    }

    fn run<D: Disk>(&self, mut tap: Tap<D>, mut apply: impl FnMut(&[Recovered<'_>])) {
        let ended = loop {
            if self.has_errands.swap(false, SeqCst) {
                let errands = std::mem::take(&mut *lock(&self.errands));
                errands.into_iter().for_each(|errand| errand(tap.follower()));
            }
            if self.is_stopped.load(SeqCst) {
                break None;
            }
            let stepped = tap.step(&mut apply);
            tap.note();
            match stepped {
                Ok(Stepped::Applied(_)) => self.applied.store(tap.follower().applied().0, SeqCst),
                Ok(Stepped::Went) => {}
                Ok(Stepped::Idle) => tap.wait(&|| self.is_due()),
                Ok(Stepped::Later) => tap.wait_a_while(),
                Err(ended) => break Some(ended),
            }
        };
        if let Some(why) = &ended {
            tracing::warn!(cause = "standby", "The log is not followed any more: {why}");
        }
        *lock(&self.ended) = ended;
        *lock(&self.memory) = Some(tap.follower().memory());
    }
}

/// A thread that reads the log from an acceptor, and has records applied. It ends with this value, or when it cannot go on.
pub struct Following {
    control: Arc<Control>,
    wake: Box<dyn Fn() + Send + Sync>,
    look: Box<dyn Fn() -> (Behind, Cut) + Send + Sync>,
    shown: Arc<Shown>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Following {
    /// Begins. `clock` measures how far it is behind. `apply` gets the records in the order of their LSNs, on the thread: while it works, the log waits.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start<D: Disk>(
        mut tap: Tap<D>,
        clock: Clock,
        apply: impl FnMut(&[Recovered<'_>]) + Send + 'static,
    ) -> io::Result<Self> {
        let control = Arc::new(Control::default());
        control.applied.store(tap.follower().applied().0, SeqCst);
        let (wake, shown, running) = (tap.waker(), tap.show(clock), control.clone());
        let look = tap.looker(&shown);
        let name = "copy-follow".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || running.run(tap, apply))?;
        Ok(Self { control, wake, look, shown, thread: Mutex::new(Some(thread)) })
    }

    /// Has something done between two batches, on the thread: a checkpoint begins there, and a reader of several keys sees
    /// no half of a batch. After the end of the thread nothing is done.
    pub fn between(&self, errand: impl FnOnce(&mut Follower) + Send + 'static) {
        lock(&self.control.errands).push(Box::new(errand));
        self.control.has_errands.store(true, SeqCst);
        (self.wake)();
    }

    /// The LSN of the last record that is applied.
    #[must_use]
    pub fn applied(&self) -> Cut {
        Cut(self.control.applied.load(SeqCst))
    }

    /// Memory has all records up to here, and no other one comes at or below: that is beyond the last record where the log
    /// is idle.
    #[must_use]
    pub fn passed(&self) -> Cut {
        self.shown.passed()
    }

    /// The age of what is applied.
    #[must_use]
    pub fn known(&self) -> Known {
        self.shown.known.get()
    }

    /// How far it is behind what is committed here. Bytes are an estimate. Milliseconds count from the time at which all that
    /// was committed then had been applied: 0 if all is. From any thread; it takes the acceptor's lock for a moment.
    #[must_use]
    pub fn behind(&self) -> Behind {
        (self.look)().0
    }

    /// The end of what the acceptor has: of all streams the lowest. It may have more that it got before this began.
    #[must_use]
    pub fn log(&self) -> Cut {
        (self.look)().1
    }

    /// True if the thread has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        lock(&self.thread).as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the thread behind the present batch. Returns the reason for which it had ended before, if it had.
    pub fn stop(&self) -> Option<Ended> {
        self.end();
        lock(&self.control.ended).take()
    }

    /// What was applied of each stream when the thread ended. None: it runs, or has panicked.
    #[must_use]
    pub fn memory(&self) -> Option<Memory> {
        lock(&self.control.memory).clone()
    }

    fn end(&self) {
        self.control.is_stopped.store(true, SeqCst);
        (self.wake)();
        // One that has panicked has told so itself.
        let _ = lock(&self.thread).take().map(JoinHandle::join);
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.end();
    }
}
