//! Keys that only the store has are asked for before their records are applied.
//!
//! Loaders read them side by side; a batch that had to read them itself would do one read after the other, under its
//! latches. An effect that says what it found needs no read, as it replaces that.

use command::{About, Before, effects};
use keyspace::{Db, Held, Key, Version, Waiter, Whereabouts};
use redolog::Lsn;

use super::batch::{Batch, Item};
use super::{Applier, Logged, no_database};
use crate::checkpoint::Unreplayable;
use crate::checkpoint::had::Voids;
use crate::cold::Request;

impl Applier {
    /// Asks loaders for the keys of records that were not looked at before. A key whose latch is busy is asked for when
    /// its batch comes.
    pub(super) fn look_ahead(
        &mut self,
        records: &[Logged<'_>],
        wake: &mut dyn FnMut(Waiter),
    ) -> Result<(), Unreplayable> {
        let shared = self.shared.clone();
        let keyspace = &shared.keyspace;
        let Some((last, _)) = records.last() else { return Ok(()) };
        let looked = std::mem::replace(&mut self.looked, *last);
        if !keyspace.has_cold() {
            return Ok(());
        }
        let from = records.partition_point(|(lsn, _)| *lsn <= looked);
        for (lsn, encoded) in records.iter().skip(from) {
            let wrong = |why| Unreplayable { lsn: *lsn, why };
            for (index, effect) in effects::decode(encoded).enumerate() {
                let mut effect = effect.map_err(|corrupt| wrong(corrupt.into()))?;
                if effect.about().map_err(|corrupt| wrong(corrupt.into()))? != About::Key {
                    continue;
                }
                if usize::from(effect.db) >= keyspace.databases() {
                    return Err(wrong(no_database()));
                }
                let key = keyspace.hasher().key(effect.key);
                // Which ones are void is not worth a look: a key may be read in vain.
                if self.needs_value(*lsn, index, (effect.db, &key), effect.before(), &Voids::default())
                    && let Some(held) = keyspace.try_one(key.slot)
                {
                    self.ask_for(effect.db, &key, &held);
                    keyspace.release(held, &mut *wake);
                }
            }
        }
        Ok(())
    }

    /// True if an effect can only be applied to the key as it is.
    fn needs_value(&self, lsn: Lsn, index: usize, at: (u16, &Key<'_>), before: Before, voids: &Voids) -> bool {
        let (db, key) = at;
        let Some(had) = &self.had else { return before == Before::Unknown };
        let physical = self.shared.keyspace.physical(db);
        let may_be_there = had.may_have_later(lsn, key.slot);
        !had.has(lsn, index, (key.slot, physical), voids) && (may_be_there || before == Before::Unknown)
    }

    /// Asks for a held key, unless memory knows it. True: it does.
    fn ask_for(&mut self, db: u16, key: &Key<'_>, held: &Held) -> bool {
        let shared = self.shared.clone();
        let mut view = Db::new(&shared.keyspace, held, &mut self.local, &self.clock, db, Version::ZERO);
        match view.whereabouts(key) {
            // A key that cannot be read is found out when its record is applied.
            Whereabouts::Known | Whereabouts::Unreadable => return true,
            Whereabouts::Awaited => {}
            Whereabouts::Cold => {
                let physical = view.physical();
                if let Some(ticket) = view.await_key(key, None) {
                    shared.requests.push(Request::Key { physical, key: key.bytes.into(), ticket });
                    self.figures.asked += 1;
                }
            }
        }
        false
    }

    /// How many of the first records of a batch, whose latches are held, have all their keys in memory.
    pub(super) fn ready(&mut self, batch: &Batch<'_>, held: &Held) -> usize {
        if !self.shared.keyspace.has_cold() {
            return batch.records.len();
        }
        let mut at = 0;
        for (number, record) in batch.records.iter().enumerate() {
            let mut is_ready = true;
            for Item { effect, about, key, index } in &batch.items[at..record.end] {
                let needs = || self.needs_value(record.lsn, *index, (effect.db, key), effect.before(), &record.voids);
                if *about == About::Key && needs() {
                    is_ready &= self.ask_for(effect.db, key, held);
                }
            }
            if !is_ready {
                return number;
            }
            at = record.end;
        }
        batch.records.len()
    }
}
