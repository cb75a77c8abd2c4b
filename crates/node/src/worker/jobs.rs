//! What commands ask of the process and wait for: it takes long, and no worker may stand still for it. A thread of the binary's does one
//! after the other, but for what is asked of the cluster.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

use resp::Reply;

use crate::config::{Rights, Shared};

/// What is to be done.
#[derive(Debug)]
pub enum Task {
    /// `CONFIG SET` with these arguments, which switch the log on or off.
    Configure {
        /// Names and values.
        pairs: Vec<Vec<u8>>,
        /// What the client may change.
        rights: Rights,
        /// What of the cluster's settings is changed then.
        of_cluster: Vec<Shared>,
    },
    /// `HOLDFAST BACKUP` into this directory, relative to the working one.
    Backup(PathBuf),
}

/// The reply to who has asked.
#[derive(Debug)]
pub enum Done {
    /// OK.
    Ok,
    /// Text of some lines.
    Text(String),
    /// A string.
    Bulk(Vec<u8>),
}

impl Done {
    /// Writes it.
    pub(crate) fn write(&self, reply: &mut Reply<'_>) {
        match self {
            Done::Ok => reply.ok(),
            Done::Text(text) => reply.verbatim(*b"txt", text),
            Done::Bulk(bytes) => reply.bulk(bytes),
        }
    }
}

/// How a job has ended: the error is the reply, code word included.
pub type Outcome = Result<Done, Vec<u8>>;

/// Something that was asked for.
#[derive(Debug)]
pub struct Job {
    /// What; nothing of what the thread of [`Jobs`] does, if somebody else does it.
    pub task: Option<Task>,
    outcome: OnceLock<Outcome>,
}

impl Job {
    /// One that the cluster's control thread does.
    pub(crate) fn of_cluster() -> Arc<Job> {
        Arc::new(Job { task: None, outcome: OnceLock::new() })
    }

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
    is_open: AtomicBool,
    queue: Mutex<Queue>,
    thread: OnceLock<Thread>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Arc<Job>>,
    /// The one that is being done, or was last.
    present: Option<Arc<Job>>,
}

impl Jobs {
    /// There will be a thread that does them ([`Self::serve`]).
    pub fn open(&self) {
        self.is_open.store(true, Relaxed);
    }

    /// The calling thread does them: it is unparked when there is one.
    pub fn serve(&self) {
        let _ = self.thread.set(thread::current());
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for something. `None`: there is nobody to do it.
    pub(crate) fn ask(&self, task: Task) -> Option<Arc<Job>> {
        if !self.is_open.load(Relaxed) {
            return None;
        }
        let job = Arc::new(Job { task: Some(task), outcome: OnceLock::new() });
        self.queue().waiting.push_back(job.clone());
        self.wake();
        Some(job)
    }

    /// Whether a backup is being made, or waits to be.
    pub(crate) fn has_backup(&self) -> bool {
        let queue = self.queue();
        let mut jobs = queue.waiting.iter().chain(&queue.present);
        jobs.any(|job| matches!(job.task, Some(Task::Backup(_))) && job.outcome().is_none())
    }

    /// The next one.
    pub fn take(&self) -> Option<Arc<Job>> {
        let mut queue = self.queue();
        queue.present = queue.waiting.pop_front();
        queue.present.clone()
    }

    /// Makes its thread look.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}
