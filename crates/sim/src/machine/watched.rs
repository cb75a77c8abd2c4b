//! The world as the checkpointer sees it, watched.

use clocks::UnixMs;
use engine::checkpoint::{World, header};
use keyspace::Waiter;
use node::Outside;
use redolog::Lsn;
use store::Platter;

use crate::plan::Planted;

/// The checkpointer's view of the machine, and its requests.
pub struct Watched {
    pub(super) inner: Outside,
    pub(super) platter: Platter,
    pub(super) planted: Planted,
    pub(super) keeps_log: bool,
    /// The log was cut, and the durable store had less.
    pub cuts_too_far: Option<String>,
    /// The log was cut since the last look at this.
    pub has_cut: bool,
}

impl World for Watched {
    fn left(&self) -> Vec<Lsn> {
        self.inner.left()
    }

    fn committed(&self) -> Vec<Lsn> {
        if self.planted == Planted::EarlyStore { self.inner.left() } else { self.inner.committed() }
    }

    fn want(&mut self, ends: &[Lsn]) {
        self.inner.want(ends);
    }

    fn cut(&mut self, covered: &[Lsn]) {
        if self.keeps_log {
            return;
        }
        self.has_cut = true;
        let early = self.inner.left();
        let covered = if self.planted == Planted::EarlyTruncate { &early[..] } else { covered };
        let store = store::Simulated::open(&self.platter, 0).ok();
        let durable = store.and_then(|store| header(&store).ok().flatten()).map_or(Vec::new(), |header| header.covered);
        if durable.len() != covered.len() || covered.iter().zip(&durable).any(|(cut, has)| cut > has) {
            self.cuts_too_far = Some(format!("the log is cut to {covered:?}, the store has {durable:?}"));
        }
        self.inner.cut(covered);
    }

    fn wake(&mut self, waiter: Waiter) {
        self.inner.wake(waiter);
    }

    fn libraries(&self) -> Vec<u8> {
        self.inner.libraries()
    }

    fn now(&self) -> UnixMs {
        self.inner.now()
    }

    fn nanos(&self) -> u64 {
        self.inner.nanos()
    }
}

impl Watched {
    /// Changes that were made since the start.
    pub fn changes(&self) -> u64 {
        self.inner.changes()
    }
}
