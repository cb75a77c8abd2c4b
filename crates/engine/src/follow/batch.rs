//! The next records, as many as are applied in one step.

use command::{About, Effect, effects};
use keyspace::{Key, Keyspace, Need};
use redolog::Lsn;

use super::{Logged, no_database};
use crate::checkpoint::had::{Had, Voids};
use crate::checkpoint::{Unreplayable, Why};
use crate::record::{LIBRARIES_SLOT, version_of};

/// Effects in a batch, about: its latches are held for some tens of microseconds.
const FULL: usize = if cfg!(test) { 5 } else { 128 };
/// Bytes in one, about.
const FULL_BYTES: usize = 64 << 10;

/// See the module's text.
pub(super) struct Batch<'r> {
    pub(super) items: Vec<Item<'r>>,
    pub(super) records: Vec<Record>,
    /// Its latches.
    pub(super) need: Need,
}

/// An effect.
pub(super) struct Item<'r> {
    pub(super) effect: Effect<'r>,
    pub(super) about: About<'r>,
    /// Its key, if it has one.
    pub(super) key: Key<'r>,
    /// Its place in its record.
    pub(super) index: usize,
}

pub(super) struct Record {
    pub(super) lsn: Lsn,
    /// The end of its effects.
    pub(super) end: usize,
    /// Its effects that the store has made void.
    pub(super) voids: Voids,
}

impl<'r> Batch<'r> {
    /// The first batch of `records`, of which there is one, behind the record `last`. A record that changes whole
    /// databases comes alone.
    pub(super) fn cut(
        records: &[Logged<'r>],
        mut last: Lsn,
        had: Option<&Had>,
        keyspace: &Keyspace,
    ) -> Result<Self, Unreplayable> {
        let mut batch = Self { items: Vec::with_capacity(FULL + 16), records: Vec::with_capacity(16), need: Need::All };
        let mut slots = Vec::with_capacity(FULL + 16);
        let mut bytes = 0;
        for (lsn, encoded) in records {
            let wrong = |why| Unreplayable { lsn: *lsn, why };
            // Records of different slots may have the same.
            if *lsn < last || !version_of(*lsn).fits() {
                return Err(wrong(Why::Nonsense("its LSN is below the last one")));
            }
            last = *lsn;
            let before = batch.items.len();
            let is_whole = batch.push(*lsn, encoded, had, keyspace, &mut slots).map_err(wrong)?;
            if is_whole {
                if batch.records.len() > 1 {
                    batch.items.truncate(before);
                    batch.records.pop();
                    break;
                }
                return Ok(batch);
            }
            bytes += encoded.len();
            if batch.items.len() >= FULL || bytes >= FULL_BYTES {
                break;
            }
        }
        slots.sort_unstable();
        slots.dedup();
        batch.need = Need::Slots(slots.into());
        Ok(batch)
    }

    /// True: the record changes whole databases.
    fn push(
        &mut self,
        lsn: Lsn,
        encoded: &'r [u8],
        had: Option<&Had>,
        keyspace: &Keyspace,
        slots: &mut Vec<u16>,
    ) -> Result<bool, Why> {
        let mut is_whole = false;
        let mut voids = Voids::default();
        // Every slot's C(s) is above, if the store has it all.
        if had.is_none_or(|had| !had.has_all(lsn)) {
            let before = slots.len();
            if let Some(had) = had {
                voids = had.voids(lsn, encoded, keyspace)?;
            }
            for (index, effect) in effects::decode(encoded).enumerate() {
                let mut effect = effect?;
                if usize::from(effect.db) >= keyspace.databases() {
                    return Err(no_database());
                }
                let about = effect.about()?;
                let key = keyspace.hasher().key(effect.key);
                match about {
                    About::Key => {
                        slots.push(key.slot);
                        keyspace.prefetch_slot(key.slot);
                    }
                    About::Databases(_) => is_whole = true,
                    About::Libraries(_) => slots.push(LIBRARIES_SLOT),
                    // The checkpoint has the outcomes of the records that it covers.
                    About::Transaction(_) if had.is_some_and(|had| !had.needs(lsn)) => continue,
                    About::Transaction(_) | About::Generation(_) => {}
                }
                self.items.push(Item { effect, about, key, index });
            }
            if is_whole {
                slots.truncate(before);
            }
        }
        self.records.push(Record { lsn, end: self.items.len(), voids });
        Ok(is_whole)
    }
}
