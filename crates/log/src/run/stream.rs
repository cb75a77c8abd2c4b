//! The thread of a stream.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::sync::atomic::fence;
use std::thread;
use std::time::Duration;

use crate::commit::{Committer, Promise};
use crate::disk::Disk;
use crate::intake::Take;
use crate::run::{FAILED, Fsync, Shared, Stream};

/// Longest that records wait for which nobody has rung.
pub(crate) const PATIENCE_MAX: Duration = Duration::from_millis(1);
/// Between two syncs of `everysec`, in nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// How often a worker inside its gate is looked at before the processor is given up.
const SPINS: u32 = 50;
/// How often before the thread sleeps.
const YIELDS: u32 = 100;
/// How long it sleeps then.
const PAUSE: Duration = Duration::from_micros(50);

pub(crate) struct Runner<D: Disk> {
    shared: Arc<Shared>,
    index: usize,
    committer: Committer<D>,
    fsync: Fsync,
    /// When the last sync of `everysec` was.
    synced_at: u64,
}

impl<D: Disk> Runner<D> {
    pub(crate) fn new(shared: Arc<Shared>, index: usize, committer: Committer<D>, fsync: Fsync) -> Self {
        let synced_at = (shared.clock)();
        Self { shared, index, committer, fsync, synced_at }
    }

    fn stream(&self) -> &Stream {
        &self.shared.streams[self.index]
    }

    pub(crate) fn run(mut self) {
        self.stream().bell.listen();
        if let Err(error) = self.live() {
            self.shared.fail(error.to_string());
        }
    }

    fn live(&mut self) -> io::Result<()> {
        let mut late = false;
        loop {
            let stopping = self.shared.stopping.load(SeqCst);
            if self.stream().bell.heard() || late || stopping {
                self.truncate()?;
                let idle = self.rounds()?;
                let waits = self.committer.is_waiting() && self.shared.state.load(SeqCst) != FAILED;
                if stopping && !waits {
                    if idle {
                        return self.sync();
                    }
                    continue;
                }
            }
            self.sync_each_second()?;
            let most = self.may_sleep();
            self.stream().bell.sleep(most);
            late = most.is_some();
        }
    }

    /// How long there is nothing to do, if nobody rings.
    fn may_sleep(&self) -> Option<Duration> {
        if self.committer.intake().has_records() {
            return Some(PATIENCE_MAX);
        }
        let is_due = self.fsync == Fsync::Everysec && self.committer.is_unsynced();
        is_due.then(|| Duration::from_nanos((self.synced_at + SECOND).saturating_sub((self.shared.clock)())))
    }

    /// Commits what has been left. Whether there was nothing.
    fn rounds(&mut self) -> io::Result<bool> {
        let mut spins = 0;
        let idle = loop {
            match self.committer.take() {
                Take::Nothing => {
                    self.heed_fsync()?;
                    break true;
                }
                Take::Soon => {
                    spins += 1;
                    match spins {
                        0..SPINS => std::hint::spin_loop(),
                        SPINS..YIELDS => thread::yield_now(),
                        // It has been put aside by the system.
                        _ => thread::park_timeout(PAUSE),
                    }
                }
                Take::Taken(taken) => {
                    let meter = &self.stream().meter;
                    meter.records.fetch_add(taken.ends.len() as u64, Relaxed);
                    meter.written.fetch_add(taken.ends.last().copied().unwrap_or(0) as u64, Relaxed);
                    meter.groups.fetch_add(u64::from(!taken.ends.is_empty()), Relaxed);
                    self.committer.write(&taken)?;
                    let size = self.committer.writer().size();
                    self.stream().meter.size.store(size, Relaxed);
                    self.heed_fsync()?;
                    break false;
                }
            }
        };
        self.stream().backlog.store(self.committer.intake().backlog() as u64, Relaxed);
        let mut moved = self.committer.advance();
        if self.committer.is_waiting() {
            self.stream().waits.store(true, Relaxed);
            // We see how far the others have come, or they see that we wait (rule K2).
            fence(SeqCst);
            moved |= self.committer.advance();
        } else {
            self.stream().waits.store(false, Relaxed);
        }
        if moved {
            self.shared.tell(self.index);
        }
        Ok(idle)
    }

    /// Does what the setting asks for. It is read after the records were taken: those that were left after it was made stronger
    /// are promised that, and those left before it was made weaker get what they were promised (rule L6).
    fn heed_fsync(&mut self) -> io::Result<()> {
        let wanted = Fsync::from(self.shared.fsync.load(SeqCst));
        let promise = if wanted == Fsync::Always { Promise::Synced } else { Promise::Written };
        if (wanted == Fsync::Always || promise != self.committer.promise()) && self.committer.is_unsynced() {
            self.sync()?;
        }
        self.fsync = wanted;
        self.committer.set_promise(promise)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.stream().meter.begin_sync((self.shared.clock)());
        self.committer.sync()?;
        let now = (self.shared.clock)();
        self.stream().meter.end_sync(now);
        self.synced_at = now;
        Ok(())
    }

    fn sync_each_second(&mut self) -> io::Result<()> {
        let due = self.fsync == Fsync::Everysec && self.committer.is_unsynced();
        if due && (self.shared.clock)() >= self.synced_at + SECOND {
            self.sync()?;
        }
        Ok(())
    }

    fn truncate(&mut self) -> io::Result<()> {
        let end = self.stream().truncate.load(SeqCst);
        self.committer.writer().truncate(end)
    }
}
