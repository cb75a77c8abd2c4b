//! The threads of a stream. Whoever has the state machine takes its steps; who gets a block writes it, and others go on meanwhile; who
//! has nothing to do sleeps. So a block costs no more handing over than with one thread, and a thread more is woken only when
//! another block is worth it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::Disk;
use crate::run::Shared;
use crate::run::slice;
use crate::run::stream::{After, Runner, Step};

pub(crate) struct Crew<D: Disk> {
    runner: Mutex<Runner<D>>,
    shared: Arc<Shared>,
    index: usize,
}

impl<D: Disk> Crew<D> {
    pub(crate) fn new(runner: Runner<D>, shared: Arc<Shared>, index: usize) -> Self {
        Self { runner: Mutex::new(runner), shared, index }
    }

    fn lock(&self) -> MutexGuard<'_, Runner<D>> {
        self.runner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lives until the log is stopped, or something fails for good.
    pub(crate) fn work(&self) {
        slice::shorten();
        let bell = &self.shared.streams[self.index].bell;
        let mut runner = self.lock();
        let mut late = false;
        loop {
            match runner.step(late) {
                Step::Then(After::Step) => late = false,
                Step::Write(flight) => {
                    drop(runner);
                    let written = flight.write();
                    runner = self.lock();
                    runner.land(flight, written);
                    late = false;
                }
                Step::Then(After::Sleep(most)) => {
                    drop(runner);
                    bell.sleep(most, || self.lock().has_ended());
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
