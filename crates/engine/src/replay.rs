//! Recovery: what the log says has happened is done again.

use std::fmt;

use command::effects;
use keyspace::access::AccessClock;
use keyspace::{Db, Held, Keyspace, Local, Need};
use object::Limits;

use crate::engine::Shared;

/// A record that cannot be done again: it is not of this version, or was damaged in memory before it was written.
#[derive(Debug)]
pub struct Unreadable {
    /// Its position.
    pub lsn: u64,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the record {:#x} has effects that this version cannot read", self.lsn)
    }
}

impl std::error::Error for Unreadable {}

/// Does records again, in the order of their LSNs (rule L2), before any worker begins. Nothing expires, is evicted, wakes or notifies
/// meanwhile (rule L3).
pub struct Replay<'a> {
    keyspace: &'a Keyspace,
    held: Held,
    local: Local,
    clock: AccessClock,
    limits: Limits,
    highest: u64,
    /// Records that were done again.
    pub records: u64,
}

impl<'a> Replay<'a> {
    /// Begins, with everything held. `now`: unix milliseconds, for the access times of what is made. `limits` decide encodings.
    ///
    /// # Panics
    /// If a worker has begun.
    pub fn new(shared: &'a Shared, limits: Limits, now: u64) -> Self {
        let keyspace = &shared.keyspace;
        let held = keyspace.try_acquire(&Need::All, |_| {}).expect("no worker has begun");
        let mut clock = AccessClock::new(now);
        clock.set(now, false, 0, 0);
        Self { local: keyspace.local(0), keyspace, held, clock, limits, highest: 0, records: 0 }
    }

    /// Does one record again.
    pub fn apply(&mut self, lsn: u64, encoded: &[u8]) -> Result<(), Unreadable> {
        let unreadable = |_| Unreadable { lsn };
        for effect in effects::decode(encoded) {
            let mut effect = effect.map_err(unreadable)?;
            if usize::from(effect.db) >= self.keyspace.databases() {
                return Err(Unreadable { lsn });
            }
            if let Some(barrier) = effect.barrier().map_err(unreadable)? {
                if let Some(mut reclaim) = barrier.carry_out(self.keyspace, &self.held, &mut self.local) {
                    while !reclaim.step(&mut self.local, usize::MAX) {}
                }
                continue;
            }
            let mut db = Db::new(self.keyspace, &self.held, &mut self.local, &self.clock, effect.db, lsn);
            effects::replay(&mut effect, &mut db, &self.limits).map_err(unreadable)?;
        }
        while !self.local.step_dying(1 << 16) {}
        self.highest = self.highest.max(lsn);
        self.records += 1;
        Ok(())
    }

    /// Ends: whatever is written from now on is above all this (rule L1).
    pub fn finish(mut self) {
        self.keyspace.raise(&self.held, self.highest);
        self.local.counters().reset();
        let held = std::mem::take(&mut self.held);
        self.keyspace.release(held, |_| {});
    }
}
