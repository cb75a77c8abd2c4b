//! The stages of a start, as the thread sees it that starts the server.

use std::fmt;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use quorum::{AcceptorId, Cut, History, Stage, StreamId};
use redolog::{Chain, Log, Lsn};

use super::{Driver, Inner};

/// Between two looks at whether the caller still waits.
const LOOK: Duration = Duration::from_millis(100);

/// The reason why a start does not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// A higher term was promised.
    Fenced(String),
    /// The own folder has failed.
    Own(String),
    /// The caller has given up.
    Stopped,
    /// The log in the own folder is not the one that copies have.
    Other(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Fenced(why) | Ended::Own(why) | Ended::Other(why) => f.write_str(why),
            Ended::Stopped => f.write_str("the server stops"),
        }
    }
}

impl std::error::Error for Ended {}

/// Called while a start waits, now and then: true if it is to go on. It gets the stage and the acceptors that do not
/// answer, for a log line.
pub type Wait<'a> = &'a mut dyn FnMut(Stage, &[AcceptorId]) -> bool;

impl Driver {
    /// Waits until a log was chosen and the own folder has all of it on the disk.
    ///
    /// # Errors
    /// The owner was fenced, or the caller gives up.
    pub fn wait_copied(&self, wait: Wait<'_>) -> Result<(), Ended> {
        self.wait_until(wait, |inner| self.is_so_copied(inner))
    }

    /// True if a log was chosen and the own folder has all of it on the disk.
    ///
    /// # Errors
    /// The owner was fenced, or the own folder has failed.
    pub fn is_copied(&self) -> Result<bool, Ended> {
        let inner = self.lock();
        inner.look(self.is_so_copied(&inner))
    }

    /// True if the shard is led: clients may be served (rule G5).
    ///
    /// # Errors
    /// The owner was fenced.
    pub fn leads(&self) -> Result<bool, Ended> {
        self.is_at(Stage::Leading)
    }

    pub(super) fn is_at(&self, stage: Stage) -> Result<bool, Ended> {
        let inner = self.lock();
        inner.look(inner.stage() == stage)
    }

    fn is_so_copied(&self, inner: &Inner) -> bool {
        inner.stage() >= Stage::Copying && self.own_has_all(inner)
    }

    pub(super) fn own_has_all(&self, inner: &Inner) -> bool {
        let mut own = inner.owner.lags().filter(|lag| lag.acceptor == self.own);
        own.all(|lag| lag.blocks == 0 && lag.answers)
    }

    /// The log's threads write the own folder from now on. The caller has closed its acceptor, or does so now: blocks
    /// that another one was to get from that are read in its place.
    pub fn take_own(&self) {
        let port = self.act(None, |inner, events| {
            inner.is_own_taken = true;
            inner.owner.read_elsewhere(self.own, events);
            inner.ports.remove(&self.own)
        });
        drop(port);
    }

    /// Begins the term: `ends` says where what is valid of each stream ends. `chain` gives the names of the blocks that
    /// the own folder has of a stream.
    ///
    /// # Errors
    /// The own folder has other blocks than those that were chosen, or the owner was fenced meanwhile.
    pub fn begin_term<'a>(&self, ends: &[Lsn], chain: impl Fn(u16) -> Option<&'a Chain>) -> Result<(), Ended> {
        let cuts: Vec<Cut> = ends.iter().map(|end| Cut(end.0)).collect();
        self.act(None, |inner, events| {
            if let Some(by) = inner.fenced_by {
                return Err(Ended::Fenced(super::fenced(by)));
            }
            for stream in 0..inner.marks.len() as u16 {
                let own = chain(stream).map(Chain::last).unwrap_or_default();
                let chosen = inner.owner.history(StreamId(stream)).map(History::last).unwrap_or_default();
                if (chosen.term.get(), chosen.sequence) != (own.term, own.sequence) {
                    return Err(Ended::Other(format!(
                        "stream {stream}: the own folder ends with block {} of term {}, and the chosen log with {} of {}",
                        own.sequence,
                        own.term,
                        chosen.sequence,
                        chosen.term.get()
                    )));
                }
            }
            (0..).map(StreamId).zip(&cuts).for_each(|(stream, cut)| inner.note_end(stream, *cut));
            inner.owner.begin(&cuts, events).map_err(|not_now| Ended::Other(not_now.to_string()))
        })
    }

    /// The log that runs in the own folder, and that this driver keeps the copies of.
    pub fn attach(&self, log: &Log) {
        let _ = self.log.set(log.clone());
        // No log has heard yet of blocks that have landed, and no thread of the log has looked.
        let by = {
            let mut inner = self.lock();
            inner.waits.measure_by(log.clock());
            (0..log.streams()).for_each(|stream| inner.hold(log, stream));
            inner.fenced_by
        };
        by.into_iter().for_each(|by| log.end(super::fenced(by)));
        (0..log.streams()).for_each(|stream| log.look(stream));
    }

    /// Waits until the shard is led: clients may be served (rule G5).
    ///
    /// # Errors
    /// The owner was fenced, or the caller gives up.
    pub fn wait_leads(&self, wait: Wait<'_>) -> Result<(), Ended> {
        self.wait_until(wait, |inner| inner.stage() == Stage::Leading)
    }

    pub(super) fn wait_until(&self, wait: Wait<'_>, is_so: impl Fn(&Inner) -> bool) -> Result<(), Ended> {
        let mut inner = self.lock();
        loop {
            if inner.look(is_so(&inner))? {
                return Ok(());
            }
            if inner.is_stopped || !self.ask(inner, &mut *wait) {
                return Err(Ended::Stopped);
            }
            inner = self.lock();
            if !is_so(&inner) && inner.fenced_by.is_none() {
                let waited = self.news.wait_timeout(inner, LOOK);
                inner = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    fn ask(&self, inner: MutexGuard<'_, Inner>, wait: Wait<'_>) -> bool {
        let (stage, silent) = (inner.stage(), inner.owner.silent().collect::<Vec<_>>());
        drop(inner);
        wait(stage, &silent)
    }

    /// Ends the waits for stages. The ports are dropped, and acceptors hear nothing more.
    pub fn stop(&self) {
        let ports = {
            let mut inner = self.lock();
            inner.is_stopped = true;
            inner.own_reads = None;
            std::mem::take(&mut inner.ports)
        };
        self.news.notify_all();
        drop(ports);
    }
}

impl Inner {
    /// `is_so`, unless it cannot become so any more.
    fn look(&self, is_so: bool) -> Result<bool, Ended> {
        match self.fenced_by {
            Some(by) => Err(Ended::Fenced(super::fenced(by))),
            None if !is_so && self.has_own_failed => {
                Err(Ended::Own("the disk of the own log folder has failed".to_owned()))
            }
            None => Ok(is_so),
        }
    }
}
