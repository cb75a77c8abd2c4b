//! The tail of the log over what the store had (rules C1, L2, L3, L12).
//!
//! Of what was done to a key, the store has what its value says, and what its slot's C(s) says: that is skipped, decided once for all that a
//! record does to the key. What was done to a database before its last flush that the store knows of is void.

use std::collections::BTreeSet;
use std::fmt;

use command::{Barrier, Generation, effects};
use keyspace::access::AccessClock;
use keyspace::{Db, Held, Key, Keyspace, Local, Need};
use log::Lsn;
use object::{Corrupt, Limits};

use super::load::Loaded;

/// A record that says what cannot be.
#[derive(Debug)]
pub struct Unreplayable {
    /// Which.
    pub lsn: Lsn,
    /// What is wrong with it.
    pub what: &'static str,
}

impl fmt::Display for Unreplayable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log's record {} cannot be applied: {}", self.lsn, self.what)
    }
}

impl std::error::Error for Unreplayable {}

/// Applies records, all of them that the log has, in the order of their LSNs. Holds the whole keyspace meanwhile: to be given back by [`Replay::finish`].
#[must_use]
pub struct Replay<'a> {
    keyspace: &'a Keyspace,
    local: &'a mut Local,
    clock: AccessClock,
    limits: Limits,
    held: Held,
    /// C(s).
    covered: Box<[Lsn]>,
    /// Up to here the map of databases is that of the store.
    map_lsn: Lsn,
    /// Of each physical database: its last flush that the store knows of.
    floors: Vec<Lsn>,
    /// The last record.
    last: Lsn,
    /// The keys that the record under way is applied to.
    applied: BTreeSet<(u16, Box<[u8]>)>,
    libraries: Option<Vec<u8>>,
    figures: Replayed,
}

/// What replay has done.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Replayed {
    /// The libraries of functions, as FUNCTION DUMP gives them; `None` if nothing was said of them.
    pub libraries: Option<Vec<u8>>,
    /// Records looked at.
    pub records: u64,
    /// Effects that were applied.
    pub applied: u64,
    /// Effects that the store had.
    pub skipped: u64,
    /// The last record's LSN.
    pub last: Lsn,
    /// From this record on nothing was applied: a generation of the log begins here without the checkpoint that it goes on from, and is void.
    pub void_from: Option<Lsn>,
    /// The log was ended on purpose at this time, unix milliseconds, and nothing follows: what was changed later was not logged.
    pub ended: Option<u64>,
}

impl<'a> Replay<'a> {
    /// Over what was loaded; `None`: the store was empty. `limits`: when collections change their encoding. `now`: unix milliseconds, for
    /// the access times of what is made.
    pub fn new(
        keyspace: &'a Keyspace,
        local: &'a mut Local,
        limits: Limits,
        loaded: Option<&Loaded>,
        now: u64,
    ) -> Self {
        let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { unreachable!("nobody else uses the keyspace") };
        let mut clock = AccessClock::new(now);
        clock.set(now, false, 0, 0);
        let mut floors = loaded.map_or_else(Vec::new, |loaded| loaded.header.databases.floors.clone());
        floors.resize(keyspace.databases(), 0);
        Self {
            keyspace,
            local,
            clock,
            limits,
            held,
            covered: loaded.map_or_else(|| vec![0; keyspace::SLOTS].into(), |loaded| loaded.covered.clone()),
            map_lsn: loaded.map_or(0, |loaded| loaded.header.databases.map_lsn),
            floors,
            last: 0,
            applied: BTreeSet::new(),
            libraries: loaded.map(|loaded| loaded.header.libraries.clone()),
            figures: Replayed::default(),
        }
    }

    /// Applies the next record.
    pub fn record(&mut self, lsn: Lsn, encoded: &[u8]) -> Result<(), Unreplayable> {
        self.apply(lsn, encoded).map_err(|Corrupt(what)| Unreplayable { lsn, what })
    }

    fn apply(&mut self, lsn: Lsn, encoded: &[u8]) -> Result<(), Corrupt> {
        // Records of different slots may have the same.
        if lsn < self.last || lsn >> keyspace::VERSION_BITS != 0 {
            return Err(Corrupt("its LSN is below the last one"));
        }
        self.last = lsn;
        if self.figures.void_from.is_some() {
            return Ok(());
        }
        self.figures.records += 1;
        self.figures.ended = None;
        if lsn <= self.map_lsn {
            // Every slot's C(s) is above.
            return Ok(());
        }
        self.applied.clear();
        let voids = self.voids(lsn, encoded)?;
        let mut rest = effects::decode(encoded).enumerate().peekable();
        while let Some((index, effect)) = rest.next() {
            let mut effect = effect?;
            if let Some(mark) = effect.generation()? {
                return self.mark(lsn, mark);
            }
            if usize::from(effect.db) >= self.keyspace.databases() {
                return Err(Corrupt("there is no such database"));
            }
            // What the log has last holds, whatever the store has.
            if let Some(libraries) = effect.libraries() {
                self.libraries = Some(libraries.to_vec());
                continue;
            }
            if let Some(barrier) = effect.barrier()? {
                self.barrier(lsn, barrier)?;
                continue;
            }
            let physical = self.keyspace.physical(effect.db);
            let key = self.keyspace.hasher().key(effect.key);
            let void = self.floors[usize::from(physical)] > lsn
                || voids.iter().any(|(flushed, at)| *flushed == physical && index < *at);
            if void
                || lsn <= self.covered[usize::from(key.slot)]
                || !self.decide(lsn, (effect.db, physical), &key, rest.peek().is_none())
            {
                self.figures.skipped += 1;
                continue;
            }
            let mut db = Db::new(self.keyspace, &self.held, self.local, &self.clock, effect.db, lsn);
            effects::replay(&mut effect, &mut db, &self.limits)?;
            // Some effects are applied to readers' entries.
            db.stamp(&key);
            self.keyspace.raise_slot(&self.held, key.slot, lsn);
            self.figures.applied += 1;
        }
        Ok(())
    }

    /// A generation begins or ends. If the store had the checkpoint that a new one begins with, its map were of no earlier record.
    fn mark(&mut self, lsn: Lsn, mark: Generation) -> Result<(), Corrupt> {
        match mark {
            Generation::Begins(_) => self.figures.void_from = Some(lsn),
            Generation::Ends(time) => self.figures.ended = Some(time),
        }
        Ok(())
    }

    /// Whether the record is applied to the key: unless the store has it. `last`: it does nothing more to any.
    fn decide(&mut self, lsn: Lsn, (logical, physical): (u16, u16), key: &Key<'_>, last: bool) -> bool {
        if self.keyspace.version_of(&self.held, physical, key) >= lsn {
            // Or the record itself has done that.
            return !self.applied.is_empty() && self.applied.contains(&(logical, key.bytes.into()));
        }
        if !last {
            self.applied.insert((logical, key.bytes.into()));
        }
        true
    }

    /// The physical databases that the record flushes, if the store knows of that, and which of its effects are before.
    fn voids(&self, lsn: Lsn, encoded: &[u8]) -> Result<Vec<(u16, usize)>, Corrupt> {
        if !self.floors.contains(&lsn) {
            return Ok(Vec::new());
        }
        let mut map: Vec<u16> = (0..self.floors.len() as u16).map(|db| self.keyspace.physical(db)).collect();
        let mut voids = Vec::new();
        for (index, effect) in effects::decode(encoded).enumerate() {
            match effect?.barrier()? {
                Some(Barrier::Flush(Some(db))) => voids.push((*map.get(usize::from(db)).ok_or(NO_DATABASE)?, index)),
                Some(Barrier::Flush(None)) => voids.extend(map.iter().map(|physical| (*physical, index))),
                Some(Barrier::Swap(a, b)) if usize::from(a.max(b)) < map.len() => map.swap(a.into(), b.into()),
                Some(Barrier::Swap(..)) => return Err(NO_DATABASE),
                None => {}
            }
        }
        // A later flush is the one that counts, but what is before any of them is before it, too.
        Ok(voids)
    }

    fn barrier(&mut self, lsn: Lsn, barrier: Barrier) -> Result<(), Corrupt> {
        let databases = self.keyspace.databases();
        match barrier {
            Barrier::Swap(a, b) if usize::from(a.max(b)) >= databases => return Err(NO_DATABASE),
            Barrier::Flush(Some(db)) if usize::from(db) >= databases => return Err(NO_DATABASE),
            Barrier::Swap(a, b) => self.keyspace.swap_databases(&self.held, a, b),
            Barrier::Flush(only) => {
                let all = 0..databases as u16;
                for db in all.filter(|db| only.is_none_or(|only| only == *db)) {
                    // The store has what was left after the flush, and nothing from before.
                    if self.floors[usize::from(self.keyspace.physical(db))] < lsn {
                        let mut reclaim = self.keyspace.flush(&self.held, self.local, Some(db));
                        while !reclaim.step_at_once(self.local, 1000) {}
                    }
                }
            }
        }
        self.keyspace.raise(&self.held, lsn);
        Ok(())
    }

    /// Gives the keyspace back.
    pub fn finish(self) -> Replayed {
        self.keyspace.release(self.held, |_| {});
        while !self.local.step_dying(1000) {}
        self.local.end_turn();
        Replayed { last: self.last, libraries: self.libraries, ..self.figures }
    }
}

const NO_DATABASE: Corrupt = Corrupt("there is no such database");
