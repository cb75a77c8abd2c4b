//! A copy of a log that this process has written goes on as the log itself, in the files that it has open: nothing is
//! read, and no segment begins.

use std::fs;
use std::io;
use std::sync::Arc;

use crate::copies::Copies;
use crate::disk::{Disk, Folder};
use crate::recover::{Damage, Recovery};
use crate::replica::Replica;
use crate::run::open::{Gates, Ready, Settings};
use crate::run::{LENT_MOST, Log};
use crate::{Lsn, STREAMS_MAX};

/// The copies of all streams of a log, in their order. The last block of each is the start block of the term that begins.
pub struct Promoted<D: Disk = Folder> {
    replicas: Vec<Replica<D>>,
    locks: Vec<fs::File>,
}

impl<D: Disk> Promoted<D> {
    /// `locks`: no other process uses the folders meanwhile.
    ///
    /// # Panics
    /// If there is no stream, or there are too many.
    #[must_use]
    pub fn new(replicas: Vec<Replica<D>>, locks: Vec<fs::File>) -> Self {
        assert!((1..=STREAMS_MAX).contains(&replicas.len()), "a log has streams");
        Self { replicas, locks }
    }

    /// The begin of the log: records at or below may not be there any more.
    #[must_use]
    pub fn begins(&self) -> Lsn {
        self.replicas.iter().map(Replica::begins).max().unwrap_or_default()
    }

    /// An LSN that no record is above which ever was here (rule L1).
    #[must_use]
    pub fn highest(&self) -> Lsn {
        self.replicas.iter().map(Replica::highest).max().unwrap_or_default()
    }

    /// Starts the streams' threads. The log is one of several copies: see [`Opened::copy_to`](crate::Opened::copy_to).
    /// LSNs begin above `above`, and above all that ever was here. Also the gates of each worker, one for each stream.
    ///
    /// # Errors
    /// A block is in flight, or a thread cannot be started.
    pub fn start(
        self,
        copies: Arc<dyn Copies>,
        above: Lsn,
        workers: usize,
        settings: Settings,
    ) -> Result<(Log, Gates), Damage> {
        let floor = self.highest().max(above);
        let life = self.replicas.iter().map(Replica::life).max().unwrap_or_default();
        let promote = |replica: Replica<D>| replica.promote(settings.limits.block);
        let writers = self.replicas.into_iter().map(promote).collect::<io::Result<_>>()?;
        let ready = Ready { writers, floor, incarnations: [life, life], copies: Some(copies), locks: self.locks };
        ready.start(workers, settings, LENT_MOST)
    }
}

/// The end of each stream of a copy: where a record stands on one that is not there, its stream ends before it (rule L5).
/// Several streams are read for that. No block is in flight.
///
/// # Errors
/// A disk has failed to read, or what is on it is damaged.
pub fn ends_of<D: Disk>(replicas: &[&Replica<D>]) -> Result<Vec<Lsn>, Damage> {
    if let [replica] = replicas {
        return Ok(vec![replica.last().1]);
    }
    Recovery::of(replicas.iter().map(|replica| replica.scan()).collect::<Result<_, _>>()?, &[])?.ends()
}
