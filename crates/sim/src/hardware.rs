//! The parts of a machine that outlive a stop: the disks of its log, the platter of its store, a clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use clocks::UnixMs;
use redolog::simulated::{Chance, Simulated};
use store::{Fault, Platter};

use crate::clock::Clock;
use crate::nodes::seat::Seat;

/// How a machine stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The power fails: of the bytes that were not synced, a part survives.
    Power,
    /// The process is killed: all written bytes stay.
    Kill,
}

/// See the module's text.
#[derive(Clone)]
pub struct Hardware {
    /// One for each stream.
    pub disks: Vec<Simulated>,
    /// Of the store.
    pub platter: Platter,
    /// The clock.
    pub clock: Arc<Clock>,
    /// Its place in a cluster, if it has one.
    pub seat: Option<Arc<Seat>>,
    /// Where the name and the promise of its own log are, if that has copies.
    pub acceptor: Simulated,
    /// Folders with copies of other logs, each with the disk of its name and promise first.
    pub copies: BTreeMap<usize, Vec<Simulated>>,
}

/// Bytes of a segment of the log.
pub const SEGMENT: u32 = 8192;

/// When the first machine starts, unix milliseconds.
pub const BEGINNING: UnixMs = UnixMs(1_000_000_000_000);

impl Hardware {
    /// Empty disks.
    pub fn new(streams: usize) -> Self {
        Self::on((0..streams).map(|_| Simulated::default()).collect())
    }

    /// With these disks of the log.
    pub fn on(disks: Vec<Simulated>) -> Self {
        let clock = Arc::new(Clock::new(BEGINNING));
        let (platter, acceptor, copies) = (Platter::new(), Simulated::default(), BTreeMap::new());
        Self { disks, platter, clock, seat: None, acceptor, copies }
    }

    /// All disks but the platter.
    fn all(&self) -> impl Iterator<Item = &Simulated> {
        self.disks.iter().chain([&self.acceptor]).chain(self.copies.values().flatten())
    }

    /// True if the power has failed on some disk, which is that of all.
    pub fn is_dead(&self) -> bool {
        self.all().any(Simulated::is_dead)
    }

    /// The power fails at one of the next `most` changes of some disk of the log.
    pub fn plan_power_failure(&self, chance: &mut Chance, most: u64) {
        let disk = &self.disks[chance.below(self.disks.len() as u64) as usize];
        disk.fail_power_after(chance.below(most));
    }

    /// As before, of any disk.
    pub fn plan_power_failure_anywhere(&self, chance: &mut Chance, most: u64) {
        let all: Vec<&Simulated> = self.all().collect();
        all[chance.below(all.len() as u64) as usize].fail_power_after(chance.below(most));
    }

    /// The disks of its own log are empty, as new ones are.
    pub fn wipe_log(&mut self) {
        self.disks.iter_mut().chain([&mut self.acceptor]).for_each(|disk| *disk = Simulated::default());
    }

    /// One of the next `most` syncs of some disk of the log fails, and all that it should have made durable is not.
    pub fn plan_failed_sync(&self, chance: &mut Chance, most: u64) {
        let disk = &self.disks[chance.below(self.disks.len() as u64) as usize];
        disk.fail_sync_after(chance.below(most));
    }

    /// The disks of segments: of its own log, and of copies.
    fn of_segments(&self) -> impl Iterator<Item = &Simulated> {
        self.disks.iter().chain(self.copies.values().flat_map(|disks| disks.iter().skip(1)))
    }

    /// Some disk of segments has no room for more bytes or for one more segment, or no file descriptor is left for it.
    pub fn fill(&self, chance: &mut Chance) {
        let all: Vec<&Simulated> = self.of_segments().collect();
        let disk = all[chance.below(all.len() as u64) as usize];
        match chance.below(3) {
            0 => disk.set_room(Some(0)),
            1 => disk.set_out_of_descriptors(true),
            _ => disk.set_room(Some(u64::from(SEGMENT))),
        }
    }

    /// True if some disk of segments has no room for more, or little, or no descriptor.
    pub fn is_full(&self) -> bool {
        self.of_segments().any(Simulated::is_tight)
    }

    /// All disks of segments have room and descriptors again.
    pub fn make_room(&self) {
        for disk in self.of_segments() {
            disk.set_room(None);
            disk.set_out_of_descriptors(false);
        }
    }

    /// The next flush of the store is the last: it is durable, or it is not.
    pub fn plan_failed_flush(&self, chance: &mut Chance) {
        self.platter.fail(Fault::Sync { durable: chance.below(2) == 0 });
    }

    /// The machine stops.
    pub fn stop(&self, stop: Stop, chance: &mut Chance) {
        for disk in self.all() {
            match stop {
                Stop::Power => disk.crash(chance),
                Stop::Kill => disk.kill(),
            }
        }
    }
}
