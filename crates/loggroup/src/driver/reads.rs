//! Reads of the own folder while the log runs there, for an acceptor that lags behind memory. Another acceptor may have
//! these blocks as well, but none may be in reach.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use quorum::{Done, Reply, Report, StreamId, Term};
use redolog::{Disk, Lack, Reader};

use super::{Driver, Ended};
use crate::port::Heard;

/// A request of the owner: at most so many blocks of a stream, from a place on.
#[derive(Clone, Copy)]
struct Ask {
    term: Term,
    stream: StreamId,
    from: u64,
    most: u32,
}

/// Asks for reads. The thread that does them ends with this value.
pub(super) struct Reads(Sender<Ask>);

impl Reads {
    pub(super) fn ask(&self, term: Term, stream: StreamId, from: u64, most: u32) {
        let _ = self.0.send(Ask { term, stream, from, most });
    }
}

/// The reads of the own folder that a driver wants.
pub struct OwnReads<D: Disk> {
    driver: Weak<Driver>,
    readers: Vec<Reader<D>>,
    asked: Receiver<Ask>,
    /// A read that lacked a resource. It is tried again after a while.
    again: Option<Ask>,
}

/// How long the thread waits before it tries a read again.
const AGAIN: Duration = Duration::from_millis(100);

impl Driver {
    /// Blocks of the own folder are read by these, one for each stream, once the log runs there.
    pub(super) fn reads<D: Disk>(self: &Arc<Self>, readers: Vec<Reader<D>>) -> OwnReads<D> {
        let (asks, asked) = channel();
        self.lock().own_reads = Some(Reads(asks));
        OwnReads { driver: Arc::downgrade(self), readers, asked, again: None }
    }

    /// Has a thread do the reads.
    pub(super) fn read_own<D: Disk>(&self, mut reads: OwnReads<D>) -> Result<(), Ended> {
        let read = move || while reads.wait() {};
        let thread = thread::Builder::new().name("log-copies-read".into()).spawn(read);
        thread.map(drop).map_err(|error| Ended::Own(format!("no thread reads the own log folder: {error}")))
    }
}

impl<D: Disk> OwnReads<D> {
    /// Waits for the next read and does it. False: the driver wants none any more.
    fn wait(&mut self) -> bool {
        if let Some(ask) = self.again.take() {
            thread::park_timeout(AGAIN);
            self.answer(ask);
            return self.driver.strong_count() > 0;
        }
        let asked = self.asked.recv();
        let is_wanted = asked.is_ok();
        asked.into_iter().for_each(|ask| self.answer(ask));
        is_wanted
    }

    /// Does the next read. False: none is wanted now.
    pub fn step(&mut self) -> bool {
        if let Some(ask) = self.again.take() {
            self.answer(ask);
            return self.again.is_none();
        }
        let asked = self.asked.try_recv();
        let is_wanted = asked.is_ok();
        asked.into_iter().for_each(|ask| self.answer(ask));
        is_wanted && self.again.is_none()
    }

    fn answer(&mut self, ask: Ask) {
        let Some(driver) = self.driver.upgrade() else { return };
        let Ask { term, stream, from, most } = ask;
        let upto = from.saturating_add(u64::from(most).max(1) - 1).min(driver.own_synced(stream));
        let read = self.readers.get_mut(usize::from(stream.0)).filter(|_| from <= upto);
        let read = read.map(|reader| crate::local::read(reader, (driver.shard, stream), (term, from, upto)));
        let blocks = match read {
            Some(Ok(Done::Read { blocks, .. })) => blocks,
            Some(Err(error)) if Lack::of(&error).is_some() => {
                self.again = Some(ask);
                return;
            }
            Some(Err(error)) => {
                tracing::warn!(cause = "log copy", "blocks of the own log folder cannot be read for a copy: {error}");
                Vec::new()
            }
            _ => Vec::new(),
        };
        let reply = Reply { shard: driver.shard, term, report: Report::Blocks { stream, blocks } };
        driver.hear_of_own(Heard::Reply(reply));
    }
}
