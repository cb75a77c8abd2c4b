//! The threads of a stream. The thread that has the state machine takes its steps. A thread that gets a block writes
//! it, and others go on meanwhile. A thread without work sleeps. So handing a block over costs no more than with one
//! thread, and another thread is woken only when another block is worth it.
//!
//! A worker that only waits for the log may take steps, too ([`Crew::lend`]): then no thread has to be woken. It does
//! not wait for a hanging disk: a thread of the crew does.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::disk::Disk;
use crate::run::soon::{Late, Ring, Soon};
use crate::run::stream::{After, LENT_MAX, Runner, Step};
use crate::run::{Shared, slice};

/// How often a thread that must not wait for a step looks whether none is taken, and the pause in between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

pub(crate) struct Crew<D: Disk> {
    runner: Mutex<Runner<D>>,
    shared: Arc<Shared>,
    index: usize,
    /// The ring of a worker's writes. `None` while a write of it is late, and where the system has no io_uring: then no
    /// worker lends a hand.
    ring: Mutex<Option<Ring>>,
    /// A write that a worker has waited for long enough.
    late: Mutex<Option<Late<D::File>>>,
    /// How long a worker waits.
    patience: Duration,
}

impl<D: Disk> Crew<D> {
    /// `patience`: how long a worker waits for the disk.
    pub(crate) fn new(runner: Runner<D>, shared: Arc<Shared>, index: usize, patience: Duration) -> Self {
        let (ring, late) = (Mutex::new(Ring::new()), Mutex::new(None));
        Self { runner: Mutex::new(runner), shared, index, ring, late, patience }
    }

    fn lock(&self) -> MutexGuard<'_, Runner<D>> {
        lock(&self.runner)
    }

    /// Takes the stream's steps on the calling thread, which waits for its records and has no other work. Not if a
    /// thread of the crew is doing that, or a block is on its way. True: the records are written, or the log has
    /// failed.
    pub(crate) fn lend(&self) -> bool {
        let Ok(mut runner) = self.runner.try_lock() else { return false };
        let stream = &self.shared.streams[self.index];
        let bell = &stream.bell;
        if !runner.may_be_lent() {
            return false;
        }
        let Some(mut ring) = lock(&self.ring).take() else { return false };
        bell.note();
        loop {
            match runner.step_lent() {
                Step::Then(After::Step) => {}
                Step::Write(flight) => {
                    drop(runner);
                    let (flight, written) = match ring.write(flight, self.patience) {
                        Soon::Written(same, flight, written) => {
                            ring = same;
                            (flight, written)
                        }
                        Soon::Late(late) => {
                            *lock(&self.late) = Some(late);
                            bell.ring();
                            return true;
                        }
                    };
                    runner = self.lock();
                    runner.land(flight, written);
                    if stream.demand.is_wanted() || stream.left() > LENT_MAX {
                        // The caller has its records. The rest is for the crew, and so is work that takes long.
                        runner.advance();
                        drop(runner);
                        bell.ring();
                        break;
                    }
                }
                Step::Then(After::Sleep(most)) => {
                    drop(runner);
                    if most.is_some() {
                        // The sleeping threads do not know of that time.
                        bell.ring();
                    }
                    break;
                }
                Step::Then(After::End) => {
                    drop(runner);
                    bell.wake_all();
                    break;
                }
            }
        }
        *lock(&self.ring) = Some(ring);
        true
    }

    /// Moves the watermark on the calling thread. If another thread takes a step now, that one does it after the step.
    pub(crate) fn look(&self) {
        match self.runner.try_lock() {
            Ok(mut runner) => {
                if runner.look() {
                    self.shared.streams[self.index].bell.ring();
                }
            }
            Err(_) => self.shared.streams[self.index].bell.ring(),
        }
    }

    /// Waits for a write that a worker has left. Returns whether there was one; it has landed.
    fn wait_for_late(&self) -> bool {
        let Some(late) = lock(&self.late).take() else { return false };
        let (ring, flight, written) = late.wait();
        *lock(&self.ring) = Some(ring);
        self.lock().land(flight, written);
        true
    }

    /// Starts a thread of the crew. No other process uses the folders while it lives.
    pub(crate) fn start(self: &Arc<Self>, locks: &Arc<Vec<File>>) -> io::Result<JoinHandle<()>> {
        let (crew, locks) = (self.clone(), locks.clone());
        let run = move || {
            crew.work();
            drop(crew);
            drop(locks);
        };
        thread::Builder::new().name(format!("log-{}", self.index)).spawn(run)
    }

    /// Goes around the own disk if it does not return, and starts other threads in place of those that wait for it. It
    /// waits for no thread that is at the disk in the middle of a step.
    pub(crate) fn replace_hanging(self: &Arc<Self>, locks: &Arc<Vec<File>>, threads: &Mutex<Vec<JoinHandle<()>>>) {
        if self.shared.stopping.load(SeqCst) {
            return;
        }
        let hanging = (0..TRIES).find_map(|_| match self.runner.try_lock() {
            Ok(mut runner) => Some(runner.leave_hanging()),
            Err(_) => {
                thread::park_timeout(PAUSE);
                None
            }
        });
        for _ in 0..hanging.unwrap_or(0) {
            // Without it the stream goes on when one of the others returns.
            let started = self.start(locks);
            lock(threads).extend(started);
        }
    }

    /// Lives until the log is stopped, or something fails for good.
    pub(crate) fn work(&self) {
        slice::shorten();
        let bell = &self.shared.streams[self.index].bell;
        let mut runner = self.lock();
        let mut late = false;
        loop {
            if lock(&self.late).is_some() {
                drop(runner);
                self.wait_for_late();
                runner = self.lock();
            }
            match runner.step(late) {
                Step::Then(After::Step) => late = false,
                Step::Write(flight) => {
                    drop(runner);
                    let written = flight.write();
                    runner = self.lock();
                    if !runner.land(flight, written) {
                        return;
                    }
                    late = false;
                }
                Step::Then(After::Sleep(most)) => {
                    drop(runner);
                    bell.sleep(most, || lock(&self.late).is_some() || self.lock().has_ended());
                    runner = self.lock();
                    late = most.is_some();
                }
                Step::Then(After::End) => {
                    drop(runner);
                    bell.wake_all();
                    return;
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
