//! The log of a node, as its workers know it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use engine::{Link, lsn_of};
use keyspace::{Horizon, Version};
use redolog::{Gate, Log, Lsn, State, Watermarks};

use crate::durability::copies::CopiesOfLog;
use crate::durability::stall::Stall;
use crate::durability::tail::Tail;

/// The log of a node.
pub struct Durable {
    log: Log,
    /// Its progress, for workers.
    marks: Arc<Watermarks>,
    /// See [`Link::late_from`].
    late_from: usize,
    tail: Arc<Tail>,
    /// Knows if the disk hangs.
    pub(crate) stall: Stall,
    /// The gates of the workers that have not begun.
    gates: Mutex<Vec<Option<Vec<Gate>>>>,
    copies: OnceLock<LookAtCopies>,
    count: OnceLock<CountCopies>,
}

/// How many copies of a log, beside the owner's own, have something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Having {
    /// They have received it.
    pub received: usize,
    /// They have it on the disk.
    pub synced: usize,
    /// All that there are.
    pub all: usize,
}

/// Counts the copies of a log that have each stream up to its LSN.
pub type CountCopies = Box<dyn Fn(&[Lsn]) -> Having + Send + Sync>;

/// Returns the state of a log's copies; none if it is over.
pub type LookAtCopies = Box<dyn Fn() -> Option<CopiesOfLog> + Send + Sync>;

impl Durable {
    /// `gates`: for each worker, one for each stream.
    pub fn new(log: Log, gates: Vec<Vec<Gate>>) -> Self {
        let marks = log.marks().clone();
        Self::with_marks(log, gates, marks, engine::LATE_FROM)
    }

    /// As [`Self::new`], with other watermarks than the log's own, and with small values that the log's thread writes.
    /// For simulations.
    pub fn with_marks(log: Log, gates: Vec<Vec<Gate>>, marks: Arc<Watermarks>, late_from: usize) -> Self {
        Self {
            log,
            marks,
            late_from,
            tail: Arc::default(),
            stall: Stall::default(),
            gates: Mutex::new(gates.into_iter().map(Some).collect()),
            copies: OnceLock::new(),
            count: OnceLock::new(),
        }
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Its tail.
    pub fn tail(&self) -> &Arc<Tail> {
        &self.tail
    }

    /// Shows its copies from now on. Once.
    pub fn show_copies(&self, look: LookAtCopies, count: CountCopies) {
        let _ = self.copies.set(look);
        let _ = self.count.set(count);
    }

    /// How many copies beside the own log have everything up to here.
    pub(crate) fn having(&self, upto: &Horizon) -> Having {
        self.count.get().map_or_else(Having::default, |count| count(&self.ends_of(upto.versions().iter().copied())))
    }

    /// The last of these versions in each stream.
    fn ends_of(&self, versions: impl Iterator<Item = Version>) -> Vec<Lsn> {
        let mut ends = vec![Lsn::ZERO; usize::from(self.log.streams())];
        for version in versions {
            if let Some(end) = ends.get_mut(version.stream()) {
                *end = lsn_of(version).max(*end);
            }
        }
        ends
    }

    /// Its copies, if it has any.
    pub fn copies(&self) -> Option<CopiesOfLog> {
        self.copies.get()?()
    }

    /// A worker's access to it; `None` at the second call. `promises`: see [`Link`].
    pub(crate) fn link(&self, worker: usize, promises: bool) -> Option<Link> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let gates = gates.get_mut(worker)?.take()?;
        let (late_from, keeps_versions) = (self.late_from, self.log.has_copies());
        Some(Link { gates, marks: self.marks.clone(), promises, late_from, keeps_versions })
    }

    /// True if everything up to here is on the disk, whatever the setting promises.
    pub(crate) fn is_synced(&self, ends: &Horizon) -> bool {
        let is_synced = |end: &Version| {
            let stream = end.stream() as u16;
            stream >= self.log.streams() || lsn_of(*end) <= self.log.synced(stream)
        };
        ends.versions().iter().all(is_synced)
    }

    /// Asks for a sync of everything up to here, soon.
    pub(crate) fn sync(&self, upto: impl Iterator<Item = Version>) {
        self.log.want_synced(&self.ends_of(upto));
    }

    /// Milliseconds for which a write has waited, and neither the disk nor a majority of the copies has moved.
    pub fn stalled_ms(&self) -> u64 {
        self.stall.waited()
    }

    /// The reason why nothing may be written now, if there is one.
    #[inline]
    pub(crate) fn refusal(&self) -> Option<String> {
        if self.takes_writes() && !self.tail.refuses() { None } else { self.explain() }
    }

    #[cold]
    fn explain(&self) -> Option<String> {
        let why = match self.log.state() {
            State::Running if self.stall.is_on() => {
                let seconds = self.stall.waited() / 1000;
                match self.stall.copies() {
                    Some(copies) => {
                        format!(
                            "no majority of the log's copies has it for {seconds} s, see log-stall-timeout: {copies}"
                        )
                    }
                    None => format!("the disk has not answered for {seconds} s, see log-stall-timeout"),
                }
            }
            State::Running => return self.tail.refusal(),
            State::Full(lack) => lack.to_string(),
            // Nothing is wrong with this node's disk: clients try again, and find the new owner.
            State::Failed(reason) if self.log.is_superseded() => return Some(format!("CLUSTERDOWN {reason}")),
            State::Failed(reason) => reason,
        };
        Some(format!("MISCONF Errors writing to the AOF file: {why}"))
    }
}

impl Durable {
    /// True if the log takes writes: it runs, and its disk answers.
    #[inline]
    pub(crate) fn takes_writes(&self) -> bool {
        self.log().takes_writes() && !self.stall.is_on()
    }
}
