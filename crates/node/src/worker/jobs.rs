//! Jobs: commands whose work takes long, so that no worker may stand still for it. A thread of the binary does one job
//! after the other. Jobs about the cluster are done by its control thread.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

use resp::Reply;

use crate::config::{Rights, Shared};
use crate::durability::cut::Cut;
use crate::durability::sent::Sent;

/// The work of a job.
#[derive(Debug)]
pub enum Task {
    /// `CONFIG SET` with these arguments, which switch the log on or off, or change other settings of the node's shard.
    Configure {
        /// Names and values.
        pairs: Vec<Vec<u8>>,
        /// The client's rights to change settings.
        rights: Rights,
        /// The settings of the cluster that change with it.
        of_cluster: Vec<Shared>,
    },
    /// `HOLDFAST BACKUP` into this directory, relative to the working one.
    Backup(PathBuf),
    /// SAVE and BGSAVE where nothing is logged.
    Save,
    /// DEBUG RELOAD.
    Reload(Reload),
    /// A snapshot in Redis's format is sent to clients.
    Send {
        /// What it has.
        parts: Parts,
        /// What is answered before it: that of PSYNC, not of SYNC.
        full_resync: bool,
    },
    /// This node's part of an export over nodes.
    Cut(Arc<Cut>),
}

impl Task {
    /// True if a task that has not begun does what the other one would.
    fn serves(&self, other: &Task) -> bool {
        match (self, other) {
            (Task::Save, Task::Save) => true,
            (Task::Send { parts, full_resync }, Task::Send { parts: others, full_resync: other }) => {
                (parts, full_resync) == (others, other)
            }
            _ => false,
        }
    }
}

/// How DEBUG RELOAD loads the file. Without anything, it loads it into empty databases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reload {
    /// The file is not written before.
    pub no_save: bool,
    /// The databases are not emptied before.
    pub no_flush: bool,
    /// Keys of the file may take the place of others.
    pub merge: bool,
}

/// The parts of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    /// All keys.
    pub keys: bool,
    /// All libraries of functions.
    pub functions: bool,
}

impl Parts {
    /// Everything.
    pub const ALL: Parts = Parts { keys: true, functions: true };
}

/// The reply to the client that has asked.
#[derive(Clone, Debug)]
pub enum Done {
    /// OK.
    Ok,
    /// Text of some lines.
    Text(String),
    /// A string.
    Bulk(Vec<u8>),
    /// A snapshot.
    Sent(Arc<Sent>),
    /// How many.
    Count(u64),
    /// Lists of words.
    Lists(Vec<Vec<String>>),
}

impl Done {
    /// Writes it.
    pub(crate) fn write(&self, reply: &mut Reply<'_>) {
        match self {
            Done::Ok => reply.ok(),
            Done::Text(text) => reply.verbatim(*b"txt", text),
            Done::Bulk(bytes) => reply.bulk(bytes),
            // The file itself follows in steps.
            Done::Sent(sent) => reply.raw(&sent.head),
            Done::Count(count) => reply.count(*count),
            Done::Lists(lists) => {
                reply.array(lists.len());
                for list in lists {
                    reply.array(list.len());
                    list.iter().for_each(|word| reply.bulk(word));
                }
            }
        }
    }
}

/// How a job has ended: the error is the reply, code word included.
pub type Outcome = Result<Done, Vec<u8>>;

/// A job that was asked for.
#[derive(Debug)]
pub struct Job {
    /// Its work; `None` if a thread other than that of [`Jobs`] does it.
    pub task: Option<Task>,
    outcome: OnceLock<Outcome>,
}

impl Job {
    /// A job that another thread does: the cluster's control thread, or that of a cut under way.
    pub(crate) fn elsewhere() -> Arc<Job> {
        Arc::new(Job { task: None, outcome: OnceLock::new() })
    }

    /// Ends the job.
    pub fn end(&self, outcome: Outcome) {
        let _ = self.outcome.set(outcome);
    }

    /// Its outcome; `None`: not yet.
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
    /// The job that is being done, or the last one.
    present: Option<Arc<Job>>,
}

impl Jobs {
    /// Opens the queue: a thread will do the jobs ([`Self::serve`]).
    pub fn open(&self) {
        self.is_open.store(true, Relaxed);
    }

    /// Makes the calling thread the one that does the jobs: it is unparked when there is one.
    pub fn serve(&self) {
        let _ = self.thread.set(thread::current());
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a job. `None`: no thread does jobs.
    pub(crate) fn ask(&self, task: Task) -> Option<Arc<Job>> {
        if !self.is_open.load(Relaxed) {
            return None;
        }
        let job = Arc::new(Job { task: Some(task), outcome: OnceLock::new() });
        self.queue().waiting.push_back(job.clone());
        self.wake();
        Some(job)
    }

    /// Asks for a job. One that has not begun, and is the same, serves for both.
    pub(crate) fn join(&self, task: Task) -> Option<Arc<Job>> {
        let is_same = |job: &&Arc<Job>| job.task.as_ref().is_some_and(|there| there.serves(&task));
        let same = self.queue().waiting.iter().find(is_same).cloned();
        same.or_else(|| self.ask(task))
    }

    /// True if a job of [`Task::Save`] waits.
    pub(crate) fn has_save(&self) -> bool {
        self.queue().waiting.iter().any(|job| matches!(job.task, Some(Task::Save)))
    }

    /// True if a backup is being made, or waits to be.
    pub(crate) fn has_backup(&self) -> bool {
        let queue = self.queue();
        let mut jobs = queue.waiting.iter().chain(&queue.present);
        jobs.any(|job| matches!(job.task, Some(Task::Backup(_))) && job.outcome().is_none())
    }

    /// The next job.
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
