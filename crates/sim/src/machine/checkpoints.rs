//! The thread of the checkpoints, a step at a time: the requests for checkpoints, and the reports of how they ended.

use std::sync::Arc;

use engine::checkpoint::{Step, World};
use keyspace::SLOTS;
use node::Checkpoints;
use redolog::State;
use store::Simulated;

use super::Machine;
use crate::plan::Planted;

/// The checkpoint under way.
pub struct Rounds {
    /// The part that other threads see.
    pub checkpoints: Arc<Checkpoints>,
    /// Rounds it still takes; 0: none is under way.
    left: u64,
    changes: u64,
}

/// The result of a step of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is more to do.
    More,
    /// It has to wait, for a latch or the log.
    Waiting,
    /// It is durable.
    Done,
    /// It has failed, and why.
    Failed(String),
}

impl Rounds {
    /// None is under way.
    pub fn new(checkpoints: Arc<Checkpoints>) -> Self {
        Self { checkpoints, left: 0, changes: 0 }
    }

    /// True if one is under way.
    pub fn is_running(&self) -> bool {
        self.left > 0
    }

    /// True if a client waits for a checkpoint that has not begun.
    pub fn is_asked(&self) -> bool {
        self.checkpoints.orders().0
    }
}

impl Machine {
    /// A checkpoint begins, unless one is under way or none may.
    pub fn begin_checkpoint(&mut self) -> bool {
        let may = self.rounds.checkpoints.may_begin() || self.rounds.is_asked();
        if self.rounds.is_running() || !may {
            return false;
        }
        self.rounds.changes = self.outside.changes();
        self.rounds.checkpoints.begun(self.outside.now());
        // The copies of a round that could not go on are older than this request.
        self.rounds.left = 1 + u64::from(self.checkpointer.is_running());
        true
    }

    /// A step of the checkpoint under way.
    pub fn step_checkpoint(&mut self) -> Progress {
        let step = match self.checkpointer.is_running() {
            true => self.checkpointer.step(&mut self.outside),
            false => {
                let step = self.checkpointer.begin(&mut self.outside);
                self.plant();
                Ok(step)
            }
        };
        match step {
            Ok(Step::Done) => {
                self.rounds.left -= 1;
                if self.rounds.left > 0 {
                    return Progress::More;
                }
                self.end_checkpoint(Ok(()));
                Progress::Done
            }
            Ok(Step::More | Step::Idle) => Progress::More,
            Ok(Step::Busy | Step::Waiting) => match self.log.state() {
                State::Failed(why) => self.fail_checkpoint(why),
                _ => Progress::Waiting,
            },
            Err(error) => self.fail_checkpoint(error.to_string()),
        }
    }

    /// Mistakes that are made when a round has begun.
    fn plant(&self) {
        match self.outside.planted {
            Planted::StaleLoad => {
                if let Ok(store) = Simulated::open(&self.outside.platter, 0) {
                    self.fetching.fetch_stale(Arc::new(store));
                }
            }
            Planted::EarlyDrop => {
                let keyspace = &self.node.engine.keyspace;
                for slot in 0..SLOTS as u16 {
                    if let Some(held) = keyspace.try_one(slot) {
                        keyspace.drop_tombstones(&held, slot, None, usize::MAX);
                        keyspace.release(held, |_| {});
                    }
                }
            }
            _ => {}
        }
    }

    fn fail_checkpoint(&mut self, why: String) -> Progress {
        self.rounds.left = 0;
        self.end_checkpoint(Err(why.clone()));
        Progress::Failed(why)
    }

    fn end_checkpoint(&self, outcome: Result<(), String>) {
        let figures = self.checkpointer.figures();
        self.rounds.checkpoints.ended(outcome.map(|()| figures), self.rounds.changes, self.outside.now());
    }
}
