//! The node as a checkpointer sees it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use engine::checkpoint::World;
use keyspace::Waiter;
use redolog::{Gate, Log, Lsn};

use crate::node::Node;

/// Says of what the store covers, for each stream, how much of that the log may give up: others may read it there.
pub type Floor = Arc<dyn Fn(&[Lsn]) -> Vec<Lsn> + Send + Sync>;

/// The node, as its checkpointer sees it.
pub struct Outside {
    /// The node.
    pub node: Arc<Node>,
    /// Its log.
    pub log: Log,
    /// A gate to each stream, to read its end.
    pub gates: Vec<Gate>,
    /// None: nobody else reads the log.
    pub floor: Option<Floor>,
}

impl World for Outside {
    fn left(&self) -> Vec<Lsn> {
        self.gates.iter().map(Gate::end).collect()
    }

    /// Rule G7: with copies this is what a majority has on the disk.
    fn committed(&self) -> Vec<Lsn> {
        (0..self.log.streams()).map(|stream| self.log.synced(stream)).collect()
    }

    fn want(&mut self, ends: &[Lsn]) {
        self.log.want_synced(ends);
    }

    fn cut(&mut self, covered: &[Lsn]) {
        match &self.floor {
            Some(floor) => self.log.truncate(&floor(covered)),
            None => self.log.truncate(covered),
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

impl Outside {
    /// Changes that were made since the start.
    pub fn changes(&self) -> u64 {
        self.node.stats.iter().map(|stats| stats.dirty.load(Relaxed)).fold(0, u64::wrapping_add)
    }
}
