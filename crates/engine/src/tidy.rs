//! Tidying: sparse tables shrink, and blocks in sparse pages of the heap move to fuller ones, so that the sparse pages
//! become empty. In steps of one part of a table, each worker in its share of the slots.

use keyspace::{SLOTS, bump};

use crate::engine::Engine;

/// Databases without keys in a slot that a worker visits between two readings of the clock.
const DATABASES_PER_LOOK: u32 = 64;

/// The position of a worker's pass, and its figures so far.
#[derive(Default)]
pub(crate) struct Tidy {
    slot: u16,
    db: u16,
    hash: u64,
    seen: u64,
    moved: u64,
}

/// How a pass over the slots goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tidied {
    /// It is over: how many blocks it looked at, and how many of them it moved.
    Pass {
        /// Blocks of the heap looked at.
        seen: u64,
        /// Those moved.
        moved: u64,
    },
    /// Time was up before.
    Part,
}

impl Engine {
    /// Goes on with a pass over the worker's share of the slots, until it is over or `in_time` says that time is up.
    /// The slots are shared out among `workers` workers. `entries`: entries move as well as tables.
    pub fn tidy(&mut self, workers: u16, entries: bool, mut in_time: impl FnMut() -> bool) -> Tidied {
        while let Some(slot) = self.shared.keyspace.next_occupied(self.tidy.slot) {
            if slot != self.tidy.slot {
                self.tidy = Tidy { slot, db: 0, hash: 0, ..self.tidy };
            }
            // As in the sweep.
            if slot / 64 % workers == self.index && self.tidy_slot(slot, entries, &mut in_time) {
                return Tidied::Part;
            }
            if usize::from(slot) + 1 == SLOTS {
                break;
            }
            self.tidy = Tidy { slot: slot + 1, db: 0, hash: 0, ..self.tidy };
        }
        self.local.flush_heap();
        let Tidy { seen, moved, .. } = std::mem::take(&mut self.tidy);
        Tidied::Pass { seen, moved }
    }

    /// Tidies a slot from the position of the pass on. True: time was up before its end.
    fn tidy_slot(&mut self, slot: u16, entries: bool, in_time: &mut impl FnMut() -> bool) -> bool {
        let databases = self.shared.keyspace.databases() as u16;
        let mut looked = 0;
        while self.tidy.db < databases {
            // Another thread uses the slot: it is left to the next pass.
            let Some(held) = self.acquire_one(slot) else { return !in_time() };
            let (db, hash) = (self.tidy.db, self.tidy.hash);
            let tidied = self.view(&held, db).tidy(slot, hash, entries);
            self.release(held);
            let (seen, moved) = (u64::from(tidied.seen), u64::from(tidied.moved));
            (self.tidy.seen, self.tidy.moved) = (self.tidy.seen + seen, self.tidy.moved + moved);
            bump(&self.local.counters().moved, moved);
            bump(&self.local.counters().unmoved, seen - moved);
            match tidied.next {
                Some(hash) => self.tidy.hash = hash,
                None => (self.tidy.db, self.tidy.hash) = (db + 1, 0),
            }
            // An empty database costs a latch.
            looked += 1;
            if (seen > 0 || looked % DATABASES_PER_LOOK == 0) && !in_time() {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    };

    use clocks::UnixMs;

    use command::Digest;
    use keyspace::{Keyspace, Need};
    use proptest::prelude::*;

    use super::*;
    use crate::Shared;
    use crate::testing::run;

    const NOW: UnixMs = UnixMs(1_000_000_000_000);

    fn digest(engine: &mut Engine) -> Digest {
        let Ok(held) = engine.shared.keyspace.try_acquire(&Need::All, |_| {}) else { panic!("nobody else is there") };
        let digest = Digest::of_everything(&mut engine.view(&held, 0), NOW);
        engine.release(held);
        digest
    }

    /// Passes of every worker, in steps as small as can be, until little moves; how many blocks were moved.
    fn tidy_all(engines: &mut [Engine]) -> u64 {
        let workers = engines.len() as u16;
        let mut total = 0;
        for _ in 0..3 {
            for engine in &mut *engines {
                loop {
                    engine.begin_turn(NOW);
                    let tidied = engine.tidy(workers, true, || false);
                    engine.end_turn();
                    if let Tidied::Pass { seen, moved } = tidied {
                        assert!(moved <= seen);
                        total += moved;
                        break;
                    }
                }
            }
        }
        total
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3, failure_persistence: None, ..Default::default() })]

        /// Every type, with and without expiry, in several databases: most of what was written goes, the rest is moved
        /// together.
        #[test]
        fn tidying_changes_no_contents(seed: u64, keep in 3..12u32, sizes in 1..6usize) {
            let shared = Arc::new(Shared::new(Keyspace::new(2, 3, seed)));
            let mut engines = [0, 1].map(|worker| Engine::new(shared.clone(), worker, seed));
            let mut random = seed | 1;
            let mut below = |n: u32| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (random >> 33) as u32 % n
            };
            let text = "v".repeat(400);
            let mut names = Vec::new();
            engines[0].begin_turn(NOW);
            for n in 0..9000 {
                let name = if n % 3 == 0 { format!("key:{n:05}") } else { format!("{{tag{}}}{n:05}", n % 7) };
                let db = below(3) as u16;
                let value = &text[..300 + 20 * below(sizes as u32) as usize];
                let words: &[&str] = match below(12) {
                    0 => &["rpush", &name, "1", value, "z"],
                    1 => &["hset", &name, "field", value],
                    2 => &["sadd", &name, value, "7"],
                    3 => &["zadd", &name, "1.5", value],
                    4 => &["set", &name, "12345"],
                    5 => &["set", &name, value, "pxat", "1000000005000"],
                    6 => &["append", &name, value],
                    _ => &["set", &name, value],
                };
                run(&mut engines[n % 2], db, words);
                names.push((db, name));
            }
            for (db, name) in &names {
                if below(keep) > 0 {
                    run(&mut engines[0], *db, &["del", name]);
                }
            }
            engines[0].end_turn();
            engines.iter_mut().for_each(|engine| engine.local.flush_heap());
            let before = digest(&mut engines[0]);
            let counts = [0, 1, 2].map(|db| (shared.keyspace.len(db), shared.keyspace.expires(db)));
            prop_assert!(tidy_all(&mut engines) > 0);
            prop_assert!(digest(&mut engines[1]) == before);
            prop_assert_eq!(counts, [0, 1, 2].map(|db| (shared.keyspace.len(db), shared.keyspace.expires(db))));
            // And everything can be found and deleted.
            engines[0].begin_turn(NOW);
            for (db, name) in &names {
                run(&mut engines[0], *db, &["del", name]);
            }
            engines[0].end_turn();
            prop_assert!(digest(&mut engines[0]) == Digest::default());
        }
    }

    /// One worker moves what another is reading and writing.
    #[test]
    fn workers_go_on_meanwhile() {
        let shared = Arc::new(Shared::new(Keyspace::new(2, 1, 3)));
        let over = AtomicBool::new(false);
        let mut other = Engine::new(shared.clone(), 1, 2);
        let moved = std::thread::scope(|scope| {
            let (over, shared) = (&over, shared.clone());
            let tidier = scope.spawn(move || {
                let mut engine = Engine::new(shared, 0, 1);
                let mut total = 0;
                while !over.load(Relaxed) {
                    engine.begin_turn(NOW);
                    // All the slots are this worker's.
                    if let Tidied::Pass { moved, .. } = engine.tidy(1, true, || false) {
                        total += moved;
                    }
                    engine.end_turn();
                }
                total
            });
            let mut model = BTreeMap::new();
            let mut random = 1u64;
            for n in 0..24_000u64 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let name = format!("{{{:02}}}{:03}", (random >> 33) % 20, (random >> 40) % 200);
                other.begin_turn(NOW);
                match (random >> 50) % 8 {
                    0 => {
                        let found = run(&mut other, 0, &["get", &name]);
                        let wanted: Option<&String> = model.get(&name);
                        assert_eq!(found, wanted.map_or("$-1\r\n".into(), |v| format!("${}\r\n{v}\r\n", v.len())));
                    }
                    // Mostly large ones at times, mostly gone at others.
                    _ if n % 8000 > 4000 => {
                        run(&mut other, 0, &["del", &name]);
                        model.remove(&name);
                    }
                    size => {
                        let value = format!("{n:05}").repeat(size as usize * 20);
                        run(&mut other, 0, &["set", &name, &value]);
                        model.insert(name, value);
                    }
                }
                other.end_turn();
            }
            over.store(true, Relaxed);
            let moved = tidier.join().expect("tidying ends");
            assert_eq!(shared_keys(&other), model.len() as u64);
            for (name, value) in &model {
                assert_eq!(run(&mut other, 0, &["get", name]), format!("${}\r\n{value}\r\n", value.len()));
            }
            moved
        });
        assert!(moved > 0);
    }

    fn shared_keys(engine: &Engine) -> u64 {
        engine.shared.keyspace.len(0)
    }
}
