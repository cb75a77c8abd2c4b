//! The threads of a stream. Whoever has the state machine takes its steps; who gets a block writes it, and others go on meanwhile; who
//! has nothing to do sleeps. So a block costs no more handing over than with one thread, and a thread more is woken only when
//! another block is worth it. A worker that only waits for the log may take steps, too ([`Crew::lend`]): then nobody has to be woken at all.

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

    /// Takes its steps on the calling thread, which waits for what it has left and has nothing else to do, unless one of ours is at it or a block is on its
    /// way. True: what had been left is written, or the log has failed.
    pub(crate) fn lend(&self) -> bool {
        let Ok(mut runner) = self.runner.try_lock() else { return false };
        let stream = &self.shared.streams[self.index];
        let bell = &stream.bell;
        if !runner.may_be_lent() {
            return false;
        }
        bell.note();
        loop {
            match runner.step(false) {
                Step::Then(After::Step) => {}
                Step::Write(flight) => {
                    drop(runner);
                    let written = flight.write();
                    runner = self.lock();
                    runner.land(flight, written);
                    if stream.demand.is_wanted() {
                        // The caller has what he wants; what others want is for ours.
                        runner.advance();
                        drop(runner);
                        bell.ring();
                        return true;
                    }
                }
                Step::Then(After::Sleep(most)) => {
                    drop(runner);
                    if most.is_some() {
                        // Those who sleep do not know of that time.
                        bell.ring();
                    }
                    return true;
                }
                Step::Then(After::End) => {
                    drop(runner);
                    bell.wake_all();
                    return true;
                }
            }
        }
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
