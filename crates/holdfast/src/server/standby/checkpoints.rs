//! The checkpoints of a copy that follows: they cover what is applied, and are written when a majority has that on the
//! disk (rules G7, S2).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clocks::UnixMs;
use engine::checkpoint::{Checkpointer, Step, World};
use keyspace::Waiter;
use node::Node;
use redolog::Lsn;

use super::follow::Follow;

/// Between two looks at whether one is due.
const LOOK: Duration = Duration::from_millis(100);
/// A busy latch is free in so long.
const BUSY: Duration = Duration::from_micros(50);
/// A checkpoint takes about this part of a core, in percent.
const SHARE: u64 = 25;
/// Work is slept off in sleeps of at least this, in nanoseconds.
const SLEEP_NS: u64 = 1_000_000;
/// Milliseconds between the begins of two checkpoints: the owner's log keeps what comes in between.
const EVERY_MS: u64 = 10_000;

/// A copy, as its checkpointer sees it.
struct Copied {
    node: Arc<Node>,
    follow: Arc<Follow>,
}

impl World for Copied {
    fn left(&self) -> Vec<Lsn> {
        self.follow.applied().ends()
    }

    /// Nothing is applied before a majority has it on the disk.
    fn committed(&self) -> Vec<Lsn> {
        self.follow.applied().ends()
    }

    fn applied(&self) -> Option<Vec<Lsn>> {
        self.follow.applied().to_cover()
    }

    /// The owner cuts the log.
    fn cut(&mut self, covered: &[Lsn]) {
        if let Some(lowest) = covered.iter().min() {
            self.follow.covers(*lowest);
        }
    }

    fn wake(&mut self, waiter: Waiter) {
        self.node.wake(waiter);
    }

    fn libraries(&self) -> Vec<u8> {
        self.node.scripts.dump_libraries()
    }

    fn now(&self) -> UnixMs {
        self.node.clock.unix_ms()
    }

    fn nanos(&self) -> u64 {
        self.node.clock.monotonic_ns().0
    }
}

/// Makes checkpoints until it is stopped.
pub struct Checkpoints {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<Checkpointer>,
}

impl Checkpoints {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has none.
    pub fn start(node: &Arc<Node>, follow: &Arc<Follow>, checkpointer: Checkpointer) -> std::io::Result<Self> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let copied = Copied { node: Arc::clone(node), follow: Arc::clone(follow) };
        let mut runner = Runner { copied, checkpointer, is_stopped: Arc::clone(&is_stopped) };
        let thread = thread::Builder::new().name("checkpoint".into()).spawn(move || {
            runner.run();
            runner.checkpointer
        })?;
        Ok(Self { is_stopped, thread })
    }

    /// Stops the thread. The store is then as at the last checkpoint that ended: another one may be under way. None: the
    /// thread has panicked.
    pub fn stop(self) -> Option<Checkpointer> {
        self.is_stopped.store(true, SeqCst);
        // Clients wait for the process to lead.
        self.thread.thread().unpark();
        self.thread.join().ok()
    }
}

struct Runner {
    copied: Copied,
    checkpointer: Checkpointer,
    is_stopped: Arc<AtomicBool>,
}

impl Runner {
    fn run(&mut self) {
        let mut not_before = UnixMs::ZERO;
        while !self.is_over() {
            let (follow, now) = (&self.copied.follow, self.copied.now());
            follow.settle();
            let has_news = follow.applied().last().0 > follow.covered().0 || self.checkpointer.is_running();
            if !has_news || now < not_before {
                thread::park_timeout(LOOK);
                continue;
            }
            not_before = now + EVERY_MS;
            if let Err(why) = self.round() {
                tracing::warn!(
                    cause = "checkpoint",
                    "A checkpoint of the copy of shard {} has failed: {why}",
                    self.copied.follow.shard().0
                );
            }
        }
    }

    fn is_over(&self) -> bool {
        self.is_stopped.load(SeqCst) || self.copied.node.is_stopping()
    }

    fn round(&mut self) -> Result<(), String> {
        let mut owed = 0;
        while self.checkpointer.begin(&mut self.copied) != Step::More {
            if self.is_over() {
                return Ok(());
            }
            thread::park_timeout(BUSY);
        }
        while !self.is_over() {
            let began = self.copied.nanos();
            match self.checkpointer.step(&mut self.copied).map_err(|why| why.to_string())? {
                Step::Done | Step::Idle => return Ok(()),
                Step::Busy | Step::Waiting => thread::park_timeout(BUSY),
                Step::More => owed += self.copied.nanos().saturating_sub(began) * (100 - SHARE) / SHARE,
            }
            if owed >= SLEEP_NS {
                thread::park_timeout(Duration::from_nanos(owed));
                owed = 0;
            }
        }
        Ok(())
    }
}
