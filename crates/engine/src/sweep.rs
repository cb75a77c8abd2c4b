//! The expiry sweep: expired keys that no client asks for are deleted in the background, in bounded steps.
//!
//! Each worker sweeps its share of the slots. A slot whose earliest expiry lies ahead costs one look at its root. A
//! slot is walked in hash order and may be left and resumed in the middle, so that ten million keys behind one tag
//! never hold its latch for long.

use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use command::hash::{self, Reclaimed};
use keyspace::{Db, Held, Key, SLOTS, Version};

use crate::engine::Engine;

/// Buckets walked under one latch before it is given back.
const BUCKETS_PER_HOLD: usize = 64;
/// Fields deleted of one hash before others get their turn.
const FIELDS_PER_HASH: usize = 256;
/// Fields deleted under one latch: further hashes follow in the next round.
const FIELDS_PER_HOLD: usize = 1024;
/// Slots without due keys that a worker visits between two readings of the clock.
const SLOTS_PER_LOOK: usize = 16;

/// The position of a worker's sweep.
#[derive(Default)]
pub(crate) struct Sweep {
    slot: u16,
    db: u16,
    /// The physical database of the table that is walked: SWAPDB may come in between.
    physical: u16,
    /// The hash in the slot's table at which to go on; 0 at its beginning.
    hash: u64,
    /// Earliest expiry met since the beginning of the table.
    earliest: Option<UnixMs>,
    /// A hash has more expired fields than could be deleted at once.
    unfinished: bool,
    /// A table was walked in this slot.
    walked: bool,
}

/// The progress of the sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swept {
    /// Every slot of this worker's share has been looked at.
    All,
    /// Time was up before.
    Part,
}

/// The result of sweeping a slot.
enum Hold {
    Done,
    More,
    /// Its latch was held.
    Busy,
}

impl Sweep {
    /// True if a table is half walked.
    fn is_begun(&self) -> bool {
        self.hash != 0
    }
}

impl Engine {
    /// Sweeps on until every slot of the worker's share was visited or `in_time` says that time is up. Slots are shared
    /// out among the first `workers` workers; the others only finish what they have begun.
    pub fn sweep(&mut self, workers: u16, mut in_time: impl FnMut() -> bool) -> Swept {
        if self.only_reads || self.index >= workers && !self.sweep.is_begun() {
            return Swept::All;
        }
        let mut looked = 0;
        let mut left = SLOTS + 1;
        while left > 0 {
            let Some(slot) = self.shared.keyspace.next_volatile(self.sweep.slot) else {
                left -= left.min(SLOTS - usize::from(self.sweep.slot));
                if left <= 1 {
                    return Swept::All;
                }
                self.sweep = Sweep::default();
                continue;
            };
            if slot != self.sweep.slot {
                left -= left.min(usize::from(slot - self.sweep.slot));
                self.sweep = Sweep { slot, ..Sweep::default() };
                continue;
            }
            // Neighbouring slots of one worker share cache lines of the bitmap and of nothing else. The worker that
            // began a table finishes it: until then the slot does not know when it is due.
            if self.sweep.is_begun() || slot / 64 % workers == self.index {
                match self.sweep_slot() {
                    Hold::Done => {}
                    Hold::Busy if self.sweep.is_begun() => return Swept::Part,
                    Hold::Busy => {}
                    Hold::More if !in_time() => return Swept::Part,
                    Hold::More => continue,
                }
            }
            left -= 1;
            looked = if self.sweep.walked { SLOTS_PER_LOOK } else { looked + 1 };
            self.sweep = Sweep { slot: (slot + 1) % SLOTS as u16, ..Sweep::default() };
            if looked >= SLOTS_PER_LOOK && !in_time() {
                return Swept::Part;
            }
            looked %= SLOTS_PER_LOOK;
        }
        Swept::All
    }

    /// Does one hold's worth of the present slot.
    fn sweep_slot(&mut self) -> Hold {
        let slot = self.sweep.slot;
        let Some(held) = self.acquire_one(slot) else { return Hold::Busy };
        let done = self.sweep_held(slot, &held);
        self.release(held);
        if done { Hold::Done } else { Hold::More }
    }

    fn sweep_held(&mut self, slot: u16, held: &Held) -> bool {
        // Most slots are visited in vain. There are many databases, and few of them have a table here.
        if !self.sweep.is_begun() && self.sweep.db == 0 && !self.shared.keyspace.may_be_due(held, slot, self.now) {
            self.shared.keyspace.mark_if_lasting(held, slot);
            return true;
        }
        let databases = self.shared.keyspace.databases() as u16;
        if self.sweep.is_begun() && self.shared.keyspace.physical(self.sweep.db) != self.sweep.physical {
            // SWAPDB gave the half walked table another number: it is due from its beginning.
            if let Some(db) = (0..databases).find(|db| self.shared.keyspace.physical(*db) == self.sweep.physical) {
                self.view(held, db).set_next_expiry(slot, UnixMs::ZERO);
            }
            self.sweep.hash = 0;
            self.sweep.db = 0;
        }
        while self.sweep.db < databases {
            let (db, now) = (self.sweep.db, self.now);
            if !self.sweep.is_begun() {
                self.ask_for_due(held, slot, db);
            }
            let due = |next: Option<UnixMs>| next.is_some_and(|at| at < now);
            if !self.sweep.is_begun() && !due(self.view(held, db).next_expiry(slot)) {
                self.sweep.db += 1;
                continue;
            }
            if !self.sweep.is_begun() {
                // From here on, every earlier expiry that is set lowers it again.
                self.view(held, db).set_next_expiry(slot, UnixMs::NEVER);
                self.sweep.physical = self.shared.keyspace.physical(db);
                self.sweep.earliest = None;
                self.sweep.unfinished = false;
            }
            if !self.sweep_table(slot, db, held) {
                return false;
            }
            let earliest = self.sweep.earliest.unwrap_or(UnixMs::NEVER);
            let mut view = self.view(held, db);
            let meanwhile = view.next_expiry(slot).unwrap_or(UnixMs::NEVER);
            view.set_next_expiry(slot, earliest.min(meanwhile));
            self.sweep.hash = 0;
            if self.sweep.unfinished {
                return false;
            }
            self.sweep.db += 1;
        }
        self.shared.keyspace.mark_if_lasting(held, slot);
        true
    }

    /// Walks some buckets of the table. True: it came to its end.
    fn sweep_table(&mut self, slot: u16, db: u16, held: &Held) -> bool {
        let now = self.now;
        let mut due: Vec<Box<[u8]>> = Vec::new();
        let mut hashes: Vec<Box<[u8]>> = Vec::new();
        let mut earliest = self.sweep.earliest;
        let mut at = Some(self.sweep.hash);
        let view = self.view(held, db);
        for _ in 0..BUCKETS_PER_HOLD {
            let Some(hash) = at else { break };
            at = view.walk(slot, hash, |entry| {
                match entry.expiry() {
                    Some(ms) if ms < now => return due.push(entry.key().into()),
                    Some(ms) => earliest = Some(earliest.map_or(ms, |e| e.min(ms))),
                    None => {}
                }
                if entry.has_field_expiry() {
                    hashes.push(entry.key().into());
                }
            });
        }
        self.sweep.earliest = earliest;
        self.sweep.walked = true;
        self.fx.interest = self.has_interest(held);
        self.fx.by = 0;
        let shared = self.shared.clone();
        let hasher = shared.keyspace.hasher();
        if shared.transactions.any() {
            // Rule K6: they are visited again when they are not locked.
            let there = due.len() + hashes.len();
            due.retain(|key| !self.is_locked(held, db, &hasher.key(key)));
            hashes.retain(|key| !self.is_locked(held, db, &hasher.key(key)));
            if due.len() + hashes.len() < there {
                self.sweep.earliest = Some(UnixMs::ZERO);
            }
        }
        let expired = self.local.counters().expired.load(Relaxed);
        self.expire_keys(held, db, Version::ZERO, due.iter().map(|key| hasher.key(key)));
        let counters = self.local.counters();
        keyspace::bump(&counters.expired_active, counters.expired.load(Relaxed).wrapping_sub(expired));
        let mut left = FIELDS_PER_HOLD;
        for key in &hashes {
            if left == 0 {
                // The next visit of the table must not skip it.
                (self.sweep.unfinished, self.sweep.earliest) = (true, Some(UnixMs::ZERO));
                break;
            }
            let reclaimed = self.expire_fields(held, db, &hasher.key(key), left.min(FIELDS_PER_HASH));
            left = left.saturating_sub(reclaimed.fields as usize);
            keyspace::bump(&self.local.counters().expired_fields_active, reclaimed.fields);
            if let Some(next) = reclaimed.next {
                self.sweep.earliest = Some(self.sweep.earliest.map_or(next, |e| e.min(next)));
                // A field is there until its time has passed.
                self.sweep.unfinished |= next < now;
            }
        }
        self.publish(held);
        match at {
            Some(hash) => {
                self.sweep.hash = hash;
                false
            }
            None => true,
        }
    }

    /// Deletes up to `max` expired fields of a hash.
    fn expire_fields(&mut self, held: &Held, db: u16, key: &Key<'_>, max: usize) -> Reclaimed {
        let version = self.next_version(held);
        let mut view = Db::new(&self.shared.keyspace, held, &mut self.local, &self.clock, db, version);
        hash::reclaim(&mut view, key, self.now, max, &mut self.fx, &mut self.events)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use keyspace::Keyspace;

    use super::*;
    use crate::Shared;
    use crate::testing::run;

    const NOW: UnixMs = UnixMs(1_000_000_000_000);

    #[test]
    fn expired_fields_go_in_one_sweep_however_many_they_are() {
        let shared = Arc::new(Shared::new(Keyspace::new(1, 1, 7)));
        let mut engine = Engine::new(shared.clone(), 0, 7);
        engine.begin_turn(NOW);
        for i in 0..5 * FIELDS_PER_HASH {
            run(&mut engine, 0, &["hsetex", "h", "px", "10", "fields", "1", &format!("field{i}"), "value"]);
        }
        run(&mut engine, 0, &["hset", "other", "a", "1"]);
        run(&mut engine, 0, &["hpexpire", "other", "11", "fields", "1", "a"]);
        assert_eq!(shared.keyspace.field_expires(0), 2);

        engine.begin_turn(NOW + 10);
        assert_eq!(engine.sweep(1, || true), Swept::All);
        assert_eq!(run(&mut engine, 0, &["exists", "h", "other"]), ":2\r\n", "to the millisecond");

        engine.begin_turn(NOW + 11);
        assert_eq!(engine.sweep(1, || true), Swept::All);
        assert_eq!(run(&mut engine, 0, &["exists", "h", "other"]), ":1\r\n");
        assert_eq!(shared.keyspace.field_expires(0), 1);

        engine.begin_turn(NOW + 12);
        let mut looks = 0;
        while engine.sweep(1, || false) == Swept::Part {
            looks += 1;
            assert!(looks < 10_000, "the sweep comes to its end");
        }
        assert_eq!(run(&mut engine, 0, &["exists", "h", "other"]), ":0\r\n");
        assert_eq!(shared.keyspace.field_expires(0), 0);
    }

    /// A slot that was walked in part is finished, even if other work comes between: it does not know when it is due
    /// meanwhile.
    #[test]
    fn a_table_that_is_half_walked_is_finished() {
        for between in ["a busy latch", "swapdb", "fewer workers"] {
            let shared = Arc::new(Shared::new(Keyspace::new(2, 2, 7)));
            let mut engine = Engine::new(shared.clone(), 1, 7);
            engine.begin_turn(NOW);
            // A slot of worker 1 of 2.
            let tag = (0..).map(|i| format!("{{{i}}}")).find(|tag| keyspace::slot_of(tag.as_bytes()) / 64 % 2 == 1);
            let tag = tag.expect("every slot has keys");
            let slot = keyspace::slot_of(tag.as_bytes());
            for i in 0..20_000 {
                run(&mut engine, 0, &["set", &format!("{tag}{i}"), "v", "px", "10"]);
            }
            engine.begin_turn(NOW + 11);
            while !engine.sweep.is_begun() {
                assert_eq!(engine.sweep(2, || false), Swept::Part);
            }
            let mut workers = 2;
            match between {
                "a busy latch" => {
                    let held = engine.acquire_one(slot).expect("nobody else is here");
                    assert_eq!(engine.sweep(2, || true), Swept::Part);
                    engine.release(held);
                }
                "swapdb" => assert_eq!(run(&mut engine, 0, &["swapdb", "0", "1"]), "+OK\r\n"),
                _ => workers = 1,
            }
            while engine.sweep(workers, || true) == Swept::Part {}
            assert_eq!(shared.keyspace.len(0) + shared.keyspace.len(1), 0, "{between}");
        }
    }
}
