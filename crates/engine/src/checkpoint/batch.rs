//! Effects on their way to a [`super::Hand`].

use command::Effect;
use keyspace::Key;
use redolog::Lsn;

/// Effects to be applied by one hand, in the order of LSNs.
#[derive(Default)]
pub struct Batch {
    /// Keys and payloads.
    bytes: Vec<u8>,
    effects: Vec<Dealt>,
    /// The effects in the order of their slots, and those of a slot as they were dealt.
    order: Vec<u32>,
}

/// An effect.
pub(super) struct Dealt {
    pub(super) lsn: Lsn,
    /// The number of its record.
    pub(super) record: u64,
    /// The record has no other effect.
    pub(super) alone: bool,
    pub(super) op: u8,
    pub(super) db: u16,
    pub(super) slot: u16,
    pub(super) hash: u64,
    /// Where its key begins, its payload, and where that ends.
    at: [usize; 3],
}

impl Dealt {
    /// Its key, and its payload.
    pub(super) fn parts<'b>(&self, batch: &'b Batch) -> (Key<'b>, &'b [u8]) {
        let [start, payload, end] = self.at;
        let key = Key { bytes: &batch.bytes[start..payload], hash: self.hash, slot: self.slot };
        (key, &batch.bytes[payload..end])
    }
}

/// Effects in a full batch: they are applied in another order than they lie in, and should fit into a core's cache.
const FULL: usize = if cfg!(test) { 5 } else { 1 << 13 };
/// Fewer effects are not worth a look at every slot.
const FEW: usize = 1024;
/// Bytes in one.
const FULL_BYTES: usize = 2 << 20;

impl Batch {
    /// True if it is time to apply it.
    pub fn is_full(&self) -> bool {
        self.holds(FULL, FULL_BYTES)
    }

    /// True if there are so many effects in it, or so many bytes.
    pub(super) fn holds(&self, effects: usize, bytes: usize) -> bool {
        self.effects.len() >= effects || self.bytes.len() >= bytes
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Sorts the effects by slot: effects on other slots in between do not matter, and all effects of a slot need the
    /// same memory.
    pub(super) fn sort(&mut self, places: &mut [u32]) {
        if self.effects.len() < FEW {
            self.order.extend(0..self.effects.len() as u32);
            self.order.sort_by_key(|index| self.effects[*index as usize].slot);
            return;
        }
        places.fill(0);
        for effect in &self.effects {
            places[usize::from(effect.slot)] += 1;
        }
        let mut at = 0;
        for place in places.iter_mut() {
            at += std::mem::replace(place, at);
        }
        self.order.resize(self.effects.len(), 0);
        for (index, effect) in (0..).zip(&self.effects) {
            let place = &mut places[usize::from(effect.slot)];
            self.order[*place as usize] = index;
            *place += 1;
        }
    }

    /// Sorts the effects in the order in which the store has their keys; those of a key stay in the order in which they
    /// were dealt.
    pub(super) fn sort_as_stored(&mut self) {
        let place = |effect: &Dealt| u64::from(effect.slot) << 32 | effect.hash >> 32;
        let mut order: Vec<(u64, u32)> = self.effects.iter().map(place).zip(0..).collect();
        order.sort_unstable();
        self.order.extend(order.into_iter().map(|(_, index)| index));
    }

    /// Empties it.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.effects.clear();
        self.order.clear();
    }

    /// How many have been sorted.
    pub(super) fn sorted(&self) -> usize {
        self.order.len()
    }

    /// The `n`th of them.
    pub(super) fn nth(&self, n: usize) -> Option<&Dealt> {
        self.order.get(n).and_then(|index| self.effects.get(*index as usize))
    }

    /// The number of the record of the last effect that was dealt; 0: there is none.
    pub(super) fn last_record(&self) -> u64 {
        self.effects.last().map_or(0, |effect| effect.record)
    }

    /// Appends the contents of another one.
    pub(super) fn push_again(&mut self, dealt: &Dealt, key: &Key<'_>, payload: &[u8]) {
        let Dealt { lsn, record, alone, op, db, slot, hash, .. } = *dealt;
        let at = self.put(key.bytes, payload);
        self.effects.push(Dealt { lsn, record, alone, op, db, slot, hash, at });
    }

    fn put(&mut self, key: &[u8], payload: &[u8]) -> [usize; 3] {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        [start, middle, self.bytes.len()]
    }

    pub(super) fn push(&mut self, (lsn, record, alone): (Lsn, u64, bool), key: &Key<'_>, effect: &Effect<'_>) {
        let at = self.put(key.bytes, effect.payload.0);
        let Effect { op, db, .. } = *effect;
        self.effects.push(Dealt { lsn, record, alone, op, db, slot: key.slot, hash: key.hash, at });
    }
}
