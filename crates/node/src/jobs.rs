//! What commands ask of the process and wait for: it takes long, and no worker may stand still for it. A thread of the binary's does one
//! after the other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};

use crate::config::Rights;

/// What is to be done.
#[derive(Debug)]
pub enum Task {
    /// `CONFIG SET` with these arguments, which switch the log on or off.
    Configure {
        /// Names and values.
        pairs: Vec<Vec<u8>>,
        /// What the client may change.
        rights: Rights,
    },
}

/// How a job has ended: the error is the reply, code word included.
pub type Outcome = Result<(), Vec<u8>>;

/// Something that was asked for.
#[derive(Debug)]
pub struct Job {
    /// What.
    pub task: Task,
    outcome: OnceLock<Outcome>,
}

impl Job {
    /// It is done.
    pub fn end(&self, outcome: Outcome) {
        let _ = self.outcome.set(outcome);
    }

    /// How it has ended; `None`: not yet.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }
}

/// The jobs of a node.
#[derive(Debug, Default)]
pub struct Jobs {
    waiting: Mutex<VecDeque<Arc<Job>>>,
    thread: OnceLock<Thread>,
}

impl Jobs {
    /// The calling thread does them: it is unparked when there is one.
    pub fn serve(&self) {
        let _ = self.thread.set(thread::current());
    }

    /// Asks for something. `None`: there is nobody to do it.
    pub(crate) fn ask(&self, task: Task) -> Option<Arc<Job>> {
        let thread = self.thread.get()?;
        let job = Arc::new(Job { task, outcome: OnceLock::new() });
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(job.clone());
        thread.unpark();
        Some(job)
    }

    /// The next one.
    pub fn take(&self) -> Option<Arc<Job>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Makes its thread look.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}
