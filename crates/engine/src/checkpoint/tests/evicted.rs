//! Keys leave memory while checkpoints are made, and come back before a command works with them. For every absent key
//! that memory does not know, the store has the evicted value, and no deleted one.

use std::collections::BTreeSet;

use keyspace::access::AccessClock;
use keyspace::{Db, Fetched, Need, Space, Version, Whereabouts, slot_of};

use super::hand::names;
use super::model::{DATABASES, Machine};
use crate::checkpoint::fetch;

/// Keys that are not in memory.
#[derive(Default)]
pub(super) struct Evicted(Vec<(Space, String)>);

impl Evicted {
    fn each(machine: &mut Machine, mut f: impl FnMut(&mut Machine, &mut Db<'_>, Space, String)) {
        let shared = machine.hand.engine.shared.clone();
        let slots: BTreeSet<u16> = names().map(|name| slot_of(name.as_bytes())).collect();
        let need = Need::Slots(slots.into_iter().collect());
        let Ok(held) = shared.keyspace.try_acquire(&need, |_| {}) else { panic!("nobody else is there") };
        let (mut local, clock) = (shared.keyspace.local(1), AccessClock::new(7));
        for logical in 0..DATABASES as u16 {
            let mut db = Db::new(&shared.keyspace, &held, &mut local, &clock, logical, Version::ZERO);
            let space = shared.keyspace.present_space(db.physical());
            names().for_each(|name| f(machine, &mut db, space, name));
        }
        drop(local);
        shared.keyspace.release(held, |_| {});
    }

    /// Evicts some of the keys whose value the store has.
    pub(super) fn evict_some(&mut self, machine: &mut Machine) {
        Self::each(machine, |machine, db, space, name| {
            if machine.hand.rng.below(3) == 0 && db.evict(&db.key(name.as_bytes())) {
                self.0.push((space, name));
            }
        });
    }

    /// Fetches all of them. Returns their number, or an error if the store has another value.
    pub(super) fn fetch_all(&mut self, machine: &mut Machine) -> Result<usize, String> {
        let mut outcome = Ok(self.0.len());
        let mut evicted = std::mem::take(&mut self.0);
        Self::each(machine, |machine, db, space, name| {
            let key = db.key(name.as_bytes());
            let known = evicted.iter().position(|(known, other)| (*known, other) == (space, &name));
            if db.whereabouts(&key) == Whereabouts::Known {
                // The warm-up may have read it before.
                known.map(|known| evicted.swap_remove(known));
                return;
            }
            let found = fetch(&machine.store, space, &key);
            match (found, known) {
                (Ok(Some(found @ Fetched::There(_))), Some(known)) => {
                    evicted.swap_remove(known);
                    db.warm(&key, Some(found));
                }
                (Ok(None), None) => {}
                // The key was not read since the start.
                (Ok(_), None) if machine.has_restarted => {}
                (found, known) => {
                    let found = found.map(|found| found.map(|found| found.version()));
                    outcome = Err(format!("{name} of space {space}: {found:?}, evicted: {}", known.is_some()));
                }
            }
        });
        if !evicted.is_empty() && outcome.is_ok() {
            outcome = Err(format!("{evicted:?} are not to be found"));
        }
        outcome
    }
}
