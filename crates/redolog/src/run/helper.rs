//! The helpers of a stream, for work that its own thread must not wait for: making and retiring segments, and the syncs
//! of `everysec`.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

type Job = Box<dyn FnOnce() + Send>;

/// A thread that does one job after the other; or, by hand, the caller of [`Helper::work`].
pub(crate) struct Helper {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    by_hand: Option<Receiver<Job>>,
}

impl Helper {
    /// With a thread of this name.
    pub(crate) fn new(name: String) -> io::Result<Self> {
        let (jobs, todo): (Sender<Job>, Receiver<Job>) = channel();
        let thread = thread::Builder::new().name(name).spawn(move || todo.into_iter().for_each(|job| job()))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), by_hand: None })
    }

    /// Without one.
    pub(crate) fn by_hand() -> Self {
        let (jobs, todo) = channel();
        Self { jobs: Some(jobs), thread: None, by_hand: Some(todo) }
    }

    /// By hand: does the next job. False: there is none.
    pub(crate) fn work(&self) -> bool {
        let job = self.by_hand.as_ref().and_then(|todo| todo.try_recv().ok());
        job.map(|job| job()).is_some()
    }

    /// Does this job after the earlier ones.
    pub(crate) fn give(&self, job: impl FnOnce() + Send + 'static) {
        // It takes jobs as long as this value lives.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(Box::new(job));
        }
    }
}

impl Drop for Helper {
    /// Waits until all jobs are done.
    fn drop(&mut self) {
        drop(self.jobs.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
