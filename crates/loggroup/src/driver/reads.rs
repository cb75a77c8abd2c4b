//! Reads of the own folder while the log runs there, for an acceptor that lags behind memory. Another acceptor may have
//! these blocks as well, but none may be in reach.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;

use quorum::{Done, Reply, Report, StreamId, Term};
use redolog::{Disk, Reader};

use super::{Driver, Ended};
use crate::port::Heard;

/// A request of the owner: at most so many blocks of a stream, from a place on.
struct Ask {
    term: Term,
    stream: StreamId,
    from: u64,
    most: u32,
}

/// The thread that reads. It ends with this value.
pub(super) struct Reads(Sender<Ask>);

impl Reads {
    pub(super) fn ask(&self, term: Term, stream: StreamId, from: u64, most: u32) {
        let _ = self.0.send(Ask { term, stream, from, most });
    }
}

impl Driver {
    /// Blocks of the own folder are read by these, one for each stream, once the log runs there.
    pub(super) fn read_own<D: Disk>(self: &Arc<Self>, readers: Vec<Reader<D>>) -> Result<(), Ended> {
        let (asks, asked) = channel();
        let weak = Arc::downgrade(self);
        let read = move || {
            let mut readers = readers;
            asked.into_iter().for_each(|ask| answer(&weak, &mut readers, &ask));
        };
        let thread = thread::Builder::new().name("log-copies-read".into()).spawn(read);
        thread.map_err(|error| Ended::Own(format!("no thread reads the own log folder: {error}")))?;
        self.lock().own_reads = Some(Reads(asks));
        Ok(())
    }
}

fn answer<D: Disk>(driver: &Weak<Driver>, readers: &mut [Reader<D>], ask: &Ask) {
    let Some(driver) = driver.upgrade() else { return };
    let &Ask { term, stream, from, most } = ask;
    let upto = from.saturating_add(u64::from(most).max(1) - 1).min(driver.own_synced(stream));
    let read = readers.get_mut(usize::from(stream.0)).filter(|_| from <= upto);
    let read = read.map(|reader| crate::local::read(reader, (driver.shard, stream), (term, from, upto)));
    let blocks = match read {
        Some(Ok(Done::Read { blocks, .. })) => blocks,
        Some(Err(error)) => {
            tracing::warn!(cause = "log copy", "blocks of the own log folder cannot be read for a copy: {error}");
            Vec::new()
        }
        _ => Vec::new(),
    };
    let reply = Reply { shard: driver.shard, term, report: Report::Blocks { stream, blocks } };
    driver.hear_of_own(Heard::Reply(reply));
}
