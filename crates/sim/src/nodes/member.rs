//! A node of the cluster: its host, and when its threads do what.

use std::collections::BTreeMap;
use std::sync::Arc;

use membership::BootNs;
use redolog::simulated::Chance;

use super::agenda::{Chore, Time};
use super::seat::Seat;
use crate::host::Host;

/// Microseconds that a block takes to the disk: at least, and how much more.
const DISK: (Time, Time) = (60, 1_500);

/// See the module's text.
pub struct Member {
    /// Its disks, and the machine that is on.
    pub host: Host,
    /// Its place in the cluster.
    pub seat: Arc<Seat>,
    /// Counts its starts in this world.
    pub life: u64,
    /// It is off, until it is started.
    pub is_off: bool,
    /// It is off for ever, and its disks are gone.
    pub is_lost: bool,
    /// Nothing of it runs before.
    pub paused_until: Time,
    /// How fast its clock goes, in thousandths.
    rate: u64,
    /// Up to when its clock has been advanced, and what rounding lost of that.
    told: (Time, u64),
    /// When its chores are due.
    due: BTreeMap<Chore, Time>,
    /// See [`DISK`].
    pub disk: (Time, Time),
    /// Its control thread hears of decisions late, by so many microseconds.
    pub deaf: Time,
}

impl Member {
    /// A node that is on.
    pub fn new(host: Host, seat: Arc<Seat>, chance: &mut Chance) -> Self {
        Self {
            host,
            seat,
            life: 0,
            is_off: false,
            is_lost: false,
            paused_until: 0,
            // A tenth between the fastest and the slowest: leases provide for an eighth.
            rate: 950 + chance.below(100),
            told: (0, 0),
            due: BTreeMap::new(),
            disk: DISK,
            deaf: 0,
        }
    }

    /// Sets the node's clock to that time.
    pub fn tell_time(&mut self, now: Time) {
        let (before, rest) = self.told;
        let passed = (now - before) * self.rate + rest;
        self.host.hardware.clock.advance_us(passed / 1000);
        self.told = (now, passed % 1000);
    }

    /// The clock that leases are reckoned by.
    pub fn boot_ns(&self) -> BootNs {
        self.host.hardware.clock.boot_ns()
    }

    /// The value of [`Self::boot_ns`] at that time, if the clock is not advanced meanwhile.
    pub fn boot_ns_at(&self, now: Time) -> BootNs {
        self.boot_ns().after(now.saturating_sub(self.told.0) * self.rate)
    }

    /// So many microseconds of its clock, in those of the world.
    pub fn lasts(&self, us: Time) -> Time {
        us * 1000 / self.rate
    }

    /// Its disk is as fast as it should be.
    pub fn mend_disk(&mut self) {
        self.disk = DISK;
    }

    /// How long a block takes to its disk.
    pub fn disk_takes(&self, chance: &mut Chance) -> Time {
        self.disk.0 + chance.below(self.disk.1)
    }

    /// True if a chore is due at this time, and not done by now.
    pub fn is_due(&mut self, chore: Chore, at: Time) -> bool {
        if self.due.get(&chore) != Some(&at) {
            return false;
        }
        self.due.remove(&chore);
        true
    }

    /// A chore is to be done then, if not before. True: it is to be put into the agenda.
    pub fn want(&mut self, chore: Chore, at: Time) -> bool {
        if self.due.get(&chore).is_some_and(|due| *due <= at) {
            return false;
        }
        self.due.insert(chore, at);
        true
    }

    /// Another life begins.
    pub fn begin_life(&mut self) {
        self.life += 1;
        self.is_off = false;
        self.due.clear();
    }

    /// The node that was being started serves from now on.
    pub fn serve(&mut self) {
        self.is_off = false;
        self.due.clear();
    }

    /// When a worker wants its next turn.
    pub fn next_turn(&self, worker: usize, now: Time, chance: &mut Chance) -> Option<Time> {
        let machine = &self.host.machine;
        if machine.wants_turn(worker) {
            return Some(now + 2 + chance.below(30));
        }
        let deadline = machine.workers[worker].next_deadline()?.0 * 1000;
        let wait = deadline.saturating_sub(self.host.hardware.clock.unix_us());
        Some(now + self.lasts(wait).max(200) + chance.below(200))
    }
}
