//! After a start, the keys of the store are read into memory in the background, slot by slot, while workers go on (rule
//! C5).
//!
//! A key that was just read may be put into memory if memory does not know it, and cannot have known and forgotten it
//! since. That is so under three conditions. No key of the slot was evicted, the database was not flushed, and no round
//! of checkpoints has begun or become durable, after which tombstones are dropped. Otherwise the key is read again.

use std::ops::Bound;
use std::sync::Arc;

use keyspace::access::AccessClock;
use keyspace::{ColdFigures, Db, Fetched, Held, Local, SLOTS, Space, Version, Waiter};
use store::Store;

use super::fetch;
use super::format;
use super::load::{Unloadable, read};
use crate::engine::Shared;

/// Attempts at a busy latch before it is left to its holder, about a microsecond.
const SPINS: u32 = 40;
/// Keys that are put into memory in one hold.
const KEYS_PER_HOLD: usize = if cfg!(test) { 2 } else { 48 };
/// Bytes of keys and values that are read at once, and a value more.
const BYTES_AT_ONCE: u64 = if cfg!(test) { 300 } else { 256 << 10 };
/// How often a slot is begun before it is left as it is, because its keys are evicted all the time.
const ATTEMPTS: u32 = 4;
/// Empty slots that are visited in one step.
const EMPTY_PER_STEP: usize = 256;

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warmth {
    /// There is more to do.
    More,
    /// A latch is busy: again, in a moment.
    Busy,
    /// Everything was read once.
    Done,
}

/// See the module's text. A state machine that does a little at each [`WarmUp::step`].
pub struct WarmUp {
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    local: Local,
    clock: AccessClock,
    physical: u16,
    slot: u16,
    /// Evictions there when the slot was begun; `None`: it was not.
    evictions: Option<u64>,
    /// Keys that were read and are not in memory yet, in the order of the store, the last first.
    read: Vec<Read>,
    /// The moment of that reading.
    space: Space,
    round: u32,
    coverings: u64,
    /// Everything up to this key of the store is in memory, and up to this one when the read keys are.
    after: Vec<u8>,
    then: Vec<u8>,
    /// That is the slot's last.
    ended: bool,
    /// How often the slot was begun.
    attempts: u32,
    keys: u64,
}

struct Read {
    key: Box<[u8]>,
    fetched: Result<Fetched, Unloadable>,
}

impl WarmUp {
    /// With a part of the keyspace of its own ([`keyspace::Keyspace::local`]).
    pub fn new(shared: Arc<Shared>, store: Arc<dyn Store>, index: usize) -> Self {
        let local = shared.keyspace.local(index);
        Self {
            shared,
            store,
            local,
            clock: AccessClock::new(1),
            physical: 0,
            slot: 0,
            evictions: None,
            read: Vec::new(),
            space: 0,
            round: 0,
            coverings: 0,
            after: Vec::new(),
            then: Vec::new(),
            ended: false,
            attempts: 0,
            keys: 0,
        }
    }

    #[cfg(test)]
    pub(crate) fn begin_again(&mut self) {
        self.leave();
        (self.physical, self.slot) = (0, 0);
    }

    /// Keys that it has put into memory.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Its progress, from 0 to 1: by databases and slots.
    pub fn progress(&self) -> f64 {
        let ks = &self.shared.keyspace;
        let used: Vec<u16> = (0..ks.databases() as u16).filter(|physical| ks.present_space(*physical) != 0).collect();
        let done = used.iter().filter(|physical| **physical < self.physical).count();
        let here = if used.contains(&self.physical) { f64::from(self.slot) / SLOTS as f64 } else { 0.0 };
        if used.is_empty() { 1.0 } else { (done as f64 + here) / used.len() as f64 }
    }

    /// Goes on. The work between two holds of latches is bounded, and so is each hold. Connections that wait for a
    /// latch are handed to `wake`. An error: the store cannot be read, or the system has no memory for its keys; the
    /// rest stays in the store.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or there is no room.
    pub fn step(&mut self, mut wake: impl FnMut(Waiter)) -> Result<Warmth, Unloadable> {
        self.local.begin_turn();
        let step = self.go_on(&mut wake);
        self.local.end_turn();
        step
    }

    fn go_on(&mut self, wake: &mut impl FnMut(Waiter)) -> Result<Warmth, Unloadable> {
        let shared = self.shared.clone();
        let ks = &shared.keyspace;
        for _ in 0..EMPTY_PER_STEP {
            if usize::from(self.physical) == ks.databases() {
                return Ok(Warmth::Done);
            }
            if ks.present_space(self.physical) == 0 || usize::from(self.slot) == SLOTS {
                self.leave();
                (self.physical, self.slot) = (self.physical + 1, 0);
                continue;
            }
            if self.read.is_empty() && self.evictions.is_some() && !self.ended {
                self.read_on()?;
                return Ok(Warmth::More);
            }
            let Some(held) = self.acquire() else { return Ok(Warmth::Busy) };
            let outcome = self.hold(&held);
            self.local.publish_counts();
            ks.release(held, &mut *wake);
            match outcome? {
                Progress::Begun => {}
                Progress::More => return Ok(Warmth::More),
                Progress::Void if self.attempts < ATTEMPTS => {
                    let attempts = self.attempts;
                    self.leave();
                    self.attempts = attempts;
                    return Ok(Warmth::More);
                }
                Progress::Void | Progress::Ended => {
                    self.leave();
                    self.slot += 1;
                }
            }
        }
        Ok(Warmth::More)
    }

    fn leave(&mut self) {
        (self.evictions, self.ended, self.attempts) = (None, false, 0);
        self.read.clear();
        self.after.clear();
    }

    fn acquire(&self) -> Option<Held> {
        (0..SPINS).find_map(|_| {
            self.shared.keyspace.try_one(self.slot).or_else(|| {
                std::hint::spin_loop();
                None
            })
        })
    }

    /// Reads the next keys of the slot.
    fn read_on(&mut self) -> Result<(), Unloadable> {
        let ks = &self.shared.keyspace;
        (self.space, self.round) = (ks.present_space(self.physical), ks.round());
        self.coverings = ks.coverings();
        let prefix = format::slot_prefix(self.space, self.slot);
        let end = format::slot_prefix(self.space, self.slot + 1);
        let low = if self.after.is_empty() { Bound::Included(&prefix[..]) } else { Bound::Excluded(&self.after[..]) };
        let snapshot = self.store.snapshot();
        let mut bytes = 0;
        self.ended = true;
        self.then.clear();
        for entry in snapshot.range((low, Bound::Excluded(&end))) {
            let (stored_key, value) = entry?;
            bytes += stored_key.len() as u64 + fetch::weight(&value);
            let (key, stored) = read(&stored_key, &value, self.space, ks.hasher())?;
            let mut has_room = |bytes| headroom::has_room(usize::try_from(bytes).unwrap_or(usize::MAX), 0);
            let fetched = fetch::decode_within(&stored_key, &stored, &*snapshot, &mut has_room);
            self.read.push(Read { key, fetched });
            self.then = stored_key;
            if bytes >= BYTES_AT_ONCE {
                self.ended = false;
                break;
            }
        }
        self.read.reverse();
        Ok(())
    }

    /// Does one hold's worth.
    fn hold(&mut self, held: &Held) -> Result<Progress, Unloadable> {
        let shared = self.shared.clone();
        let ks = &shared.keyspace;
        if ks.cold(held, self.slot, self.physical).is_none() {
            return Ok(Progress::Ended);
        }
        let evictions = ks.evictions(held, self.slot, self.physical);
        let Some(before) = self.evictions else {
            (self.evictions, self.attempts) = (Some(evictions), self.attempts + 1);
            return Ok(Progress::Begun);
        };
        if evictions != before || ks.present_space(self.physical) != self.space {
            return Ok(Progress::Void);
        }
        if (ks.round(), ks.coverings()) != (self.round, self.coverings) {
            self.read.clear();
            self.ended = false;
            return Ok(Progress::More);
        }
        let logical = (0..ks.databases() as u16).find(|db| ks.physical(*db) == self.physical);
        let Some(logical) = logical else { return Ok(Progress::Void) };
        for _ in 0..KEYS_PER_HOLD {
            let Some(Read { key, fetched }) = self.read.pop() else { break };
            let key = ks.hasher().key(&key);
            // While a checkpoint writes a large value the store may have nonsense, but then memory has the key.
            if fetched.is_err() && ks.is_in_memory(held, &key, self.physical) {
                continue;
            }
            let fetched = fetched?;
            let mut db = Db::new(ks, held, &mut self.local, &self.clock, logical, Version::ZERO);
            if let Fetched::Gone(_) = fetched {
                db.note_gone(&key);
            }
            let is_there = matches!(fetched, Fetched::There(_));
            self.keys += u64::from(db.warm(&key, Some(fetched)) && is_there);
        }
        if !self.read.is_empty() {
            return Ok(Progress::More);
        }
        std::mem::swap(&mut self.after, &mut self.then);
        if !self.ended {
            return Ok(Progress::More);
        }
        ks.complete(held, self.slot, self.physical, ColdFigures::default(), &mut self.local);
        Ok(Progress::Ended)
    }
}

enum Progress {
    /// The slot has cold keys, none of which was read.
    Begun,
    More,
    /// Nothing is left to be read of the slot.
    Ended,
    /// The read keys may be too old.
    Void,
}
