//! Copies of a log's streams on other disks: the log gives its blocks out, and hears how far enough disks have them.
//!
//! With copies the own folder is one of several. A watermark then asks how far enough of them are ([`Held`]), and not
//! how far the own disk is (rule G6).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use crate::format::{Frame, Name};
use crate::lack::Lack;
use crate::own::Own;
use crate::place::Placer;
use crate::{Disk, Lsn, Writer};

/// The keeper of a log's copies. The log calls it under the lock of a stream's steps: it must not wait, nor ask the log
/// for a step.
pub trait Copies: Send + Sync {
    /// A block has its place in the own folder and is about to be written there. Blocks of a stream come in order, each
    /// once. The frame has its checksum.
    ///
    /// # Errors
    /// The copies do not go on with this log. The log fails with that reason (rule L9).
    fn departs(&self, stream: u16, frame: &Frame<'_>) -> Result<(), String>;

    /// All records of the stream up to `cut` have departed, and no later one gets an LSN at or below it: told where no block
    /// says so. See [`crate::Log::want_passed`].
    fn passed(&self, stream: u16, cut: Lsn) {
        let _ = (stream, cut);
    }

    /// The own folder has moved on.
    fn landed(&self, stream: u16, landed: Landed);

    /// All copies are to sync soon the blocks that were written up to now: the own folder begins to.
    fn sync(&self, stream: u16);

    /// True if the own folder may give up segments. Before the shard is led it is perhaps the only one in reach that has
    /// blocks which others lack, and without which they do not take the start block.
    fn may_retire(&self) -> bool {
        true
    }

    /// The own folder has given up its segments up to this block, which ends at `cut`.
    fn retired(&self, stream: u16, last: Name, cut: Lsn);

    /// A disk of the own folder has failed. True: the log goes on without the own folder, of which nothing is told any
    /// more (rule G10). Otherwise the log fails (rule L9). It may be called by several threads, and again.
    fn lost(&self, why: &str) -> bool {
        let _ = why;
        false
    }

    /// True if the log may go on without the own folder.
    fn can_lack_own(&self) -> bool {
        false
    }

    /// The log goes around the own disk of a stream, for this reason: nothing is told of the own folder until it has been
    /// brought up. `None`: it has been, or was given up.
    fn around(&self, stream: u16, why: Option<Around>) {
        let _ = (stream, why);
    }
}

/// The reason why the log goes around an own disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Around {
    /// It lacks a resource.
    Lacks(Lack),
    /// An operation does not return.
    Hangs,
}

impl std::fmt::Display for Around {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lacks(lack) => lack.fmt(f),
            Self::Hangs => f.write_str("a write or a sync does not return"),
        }
    }
}

/// How far the own folder is, as places in the log's stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Landed {
    /// The last block that is written, with all before it.
    pub written: u64,
    /// The last block that is on the disk, with all before it.
    pub synced: u64,
}

/// The claim of a process to a log that has copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lead {
    /// The term of the blocks that it makes (rule G1).
    pub term: u32,
    /// The shard of the log.
    pub shard: u32,
    /// The name of the own folder as an acceptor.
    pub acceptor: [u8; 16],
}

/// So many blocks are ahead of enough copies that no other one is made.
pub(crate) const NO_ROOM: u64 = u64::MAX;

/// How far enough copies have a stream.
#[derive(Debug, Default)]
pub(crate) struct Held {
    received: AtomicU64,
    synced: AtomicU64,
    /// How many blocks too few copies have. [`NO_ROOM`]: another one would wait.
    ahead: AtomicU64,
    /// The copies follow another owner: no mark moves any more.
    is_over: AtomicBool,
}

impl Held {
    /// At the start the caller knows that enough copies have what is here.
    pub(crate) fn of<D: Disk>(writer: &Writer<D>) -> Arc<Self> {
        let held = Self::default();
        held.set(writer.written(), writer.synced());
        Arc::new(held)
    }

    /// Enough copies have written, and synced, everything up to here.
    pub(crate) fn set(&self, received: Lsn, synced: Lsn) {
        self.received.fetch_max(received.0.max(synced.0), Release);
        self.synced.fetch_max(synced.0, Release);
    }

    pub(crate) fn received(&self) -> Lsn {
        Lsn(self.received.load(Acquire))
    }

    pub(crate) fn synced(&self) -> Lsn {
        Lsn(self.synced.load(Acquire))
    }

    /// Too few copies have this many blocks, or [`NO_ROOM`].
    pub(crate) fn set_ahead(&self, ahead: u64) {
        self.ahead.store(ahead, SeqCst);
    }

    pub(crate) fn ahead(&self) -> u64 {
        self.ahead.load(SeqCst)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }
}

/// A stream's side of its copies.
pub(crate) struct Copied {
    stream: u16,
    copies: Arc<dyn Copies>,
    held: Arc<Held>,
    own: Arc<Own>,
    told: Landed,
    /// A planted bug: the watermark asks the own disk alone.
    #[cfg(test)]
    pub(crate) trusts_own: bool,
}

impl Copied {
    pub(crate) fn new(stream: u16, copies: Arc<dyn Copies>, held: Arc<Held>, own: Arc<Own>) -> Self {
        Self {
            stream,
            copies,
            held,
            own,
            told: Landed::default(),
            #[cfg(test)]
            trusts_own: false,
        }
    }

    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// True if the own folder counts for nothing: writes there are dropped.
    pub(crate) fn is_own_lost(&self) -> bool {
        self.own.is_lost()
    }

    /// Gives a block out that has got its place.
    pub(crate) fn departs(&self, frame: &Frame<'_>) -> io::Result<()> {
        self.copies.departs(self.stream, frame).map_err(io::Error::other)
    }

    pub(crate) fn can_lack_own(&self) -> bool {
        !self.is_own_lost() && self.copies.can_lack_own()
    }

    /// The log goes around the own disk now, or does not any more.
    pub(crate) fn around(&self, why: Option<Around>) {
        self.copies.around(self.stream, why);
    }

    pub(crate) fn tell<D: Disk>(&mut self, placer: &Placer<D>) {
        let landed = placer.landed();
        // In this order: what has landed while the log went around the disk is there when it does not any more.
        if landed != self.told && !placer.disk().is_around() && !self.is_own_lost() {
            self.told = landed;
            self.copies.landed(self.stream, landed);
        }
    }

    pub(crate) fn passed(&self, cut: Lsn) {
        self.copies.passed(self.stream, cut);
    }

    pub(crate) fn sync(&self) {
        self.copies.sync(self.stream);
    }

    pub(crate) fn may_retire(&self) -> bool {
        self.copies.may_retire()
    }

    pub(crate) fn retired(&self, last: Name, cut: Lsn) {
        self.copies.retired(self.stream, last, cut);
    }
}
