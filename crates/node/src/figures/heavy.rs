//! The keys that weigh most in a stream of commands, in bounded memory.
//!
//! Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams,
//! 2005), with weights. A fixed number of keys is counted. A new key takes the place of the lightest one, and inherits
//! its weight as a possible error. The reported weight lacks that error, so no key is ever reported to weigh more than
//! it does.

use hashbrown::HashTable;

/// Bytes of all names together, at most. A longer name is counted in the total alone.
const NAMES_MAX: usize = 8 << 20;

struct Entry {
    hash: u64,
    name: Vec<u8>,
    /// The key's weight, and that of the entries whose place it has taken.
    weight: u64,
    /// The part of `weight` that may belong to other keys.
    error: u64,
    /// The entry's place in the heap.
    place: usize,
}

/// Counts the weights of keys.
pub(crate) struct Heavy {
    most: usize,
    /// Bytes of all names.
    bytes: usize,
    entries: Vec<Entry>,
    /// Entries by their hashes.
    index: HashTable<u32>,
    /// Entries as a heap, the lightest first.
    heap: Vec<u32>,
    total: u64,
}

impl Heavy {
    /// Counts at most `most` keys at a time. Every key with more than a share of 1 in `most` is among them.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, bytes: 0, entries: Vec::new(), index: HashTable::new(), heap: Vec::new(), total: 0 }
    }

    /// The weight of all keys together.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The counted keys, and a lower bound of the weight of each.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.entries.iter().map(|entry| (entry.name.as_slice(), entry.weight - entry.error))
    }

    /// Adds to the weight of a key. `hash` is always the same for the same name.
    pub(crate) fn add(&mut self, name: &[u8], hash: u64, weight: u64) {
        self.total = self.total.saturating_add(weight);
        let entries = &self.entries;
        let is_it = |at: &u32| entries[*at as usize].name == name;
        match self.index.find(hash, is_it).copied() {
            Some(at) => {
                let entry = &mut self.entries[at as usize];
                entry.weight = entry.weight.saturating_add(weight);
                let place = entry.place;
                self.sink(place);
            }
            None if self.entries.len() < self.most => self.push(name, hash, weight),
            None => self.replace(name, hash, weight),
        }
    }

    fn push(&mut self, name: &[u8], hash: u64, weight: u64) {
        if self.bytes + name.len() > NAMES_MAX {
            return;
        }
        let at = self.entries.len() as u32;
        self.entries.push(Entry { hash, name: name.to_vec(), weight, error: 0, place: self.heap.len() });
        self.bytes += name.len();
        self.heap.push(at);
        self.rise(self.heap.len() - 1);
        self.enter(hash, at);
    }

    /// A key takes the place of the lightest.
    fn replace(&mut self, name: &[u8], hash: u64, weight: u64) {
        let Some(&at) = self.heap.first() else { return };
        let entry = &mut self.entries[at as usize];
        let bytes = self.bytes - entry.name.len() + name.len();
        if weight == 0 || bytes > NAMES_MAX {
            return;
        }
        self.bytes = bytes;
        if let Ok(found) = self.index.find_entry(entry.hash, |other| *other == at) {
            found.remove();
        }
        (entry.hash, entry.error) = (hash, entry.weight);
        entry.name = name.to_vec();
        entry.weight = entry.weight.saturating_add(weight);
        self.sink(0);
        self.enter(hash, at);
    }

    fn enter(&mut self, hash: u64, at: u32) {
        let entries = &self.entries;
        self.index.insert_unique(hash, at, |at| entries[*at as usize].hash);
    }

    fn weight_at(&self, place: usize) -> u64 {
        self.entries[self.heap[place] as usize].weight
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            self.entries[self.heap[place] as usize].place = place;
        }
    }

    /// Moves an entry that has become heavier down the heap.
    fn sink(&mut self, mut place: usize) {
        loop {
            let below = [2 * place + 1, 2 * place + 2].into_iter().filter(|below| *below < self.heap.len());
            let Some(lightest) = below.min_by_key(|below| self.weight_at(*below)) else { return };
            if self.weight_at(lightest) >= self.weight_at(place) {
                return;
            }
            self.swap(place, lightest);
            place = lightest;
        }
    }

    /// Moves a new entry up the heap.
    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.weight_at((place - 1) / 2) > self.weight_at(place) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn hash(name: &[u8]) -> u64 {
        name.iter().fold(7, |hash: u64, byte| hash.wrapping_mul(1_000_003) ^ u64::from(*byte))
    }

    fn add(heavy: &mut Heavy, name: &str, weight: u64) {
        heavy.add(name.as_bytes(), hash(name.as_bytes()), weight);
    }

    proptest! {
        #[test]
        fn no_heavy_key_is_missed_and_none_is_too_heavy(
            stream in proptest::collection::vec((0u32..60, 0u64..50), 0..600),
            most in 1usize..12,
        ) {
            let (mut heavy, mut real) = (Heavy::new(most), BTreeMap::new());
            for (key, weight) in stream {
                // Some keys come much more often than others.
                let name = (key * key / 60).to_string();
                add(&mut heavy, &name, weight);
                *real.entry(name).or_insert(0u64) += weight;
            }
            let total: u64 = real.values().sum();
            prop_assert_eq!(heavy.total(), total);
            prop_assert!(heavy.entries.len() <= most);
            let told: BTreeMap<String, u64> =
                heavy.keys().map(|(name, weight)| (String::from_utf8(name.to_vec()).expect("text"), weight)).collect();
            for (name, weight) in &told {
                prop_assert!(*weight <= real[name], "{} weighs {}, not {}", name, real[name], weight);
            }
            for (name, weight) in &real {
                prop_assert!(*weight <= total / most as u64 || told.contains_key(name), "{} is missed", name);
            }
            for place in 1..heavy.heap.len() {
                prop_assert!(heavy.weight_at((place - 1) / 2) <= heavy.weight_at(place));
            }
        }
    }

    #[test]
    fn as_many_keys_as_there_is_room_for_are_exact() {
        let mut heavy = Heavy::new(3);
        for (name, weight) in [("a", 5), ("b", 1), ("a", 5), ("c", 2)] {
            add(&mut heavy, name, weight);
        }
        let exact: BTreeMap<&[u8], u64> = heavy.keys().collect();
        assert_eq!(exact, BTreeMap::from([(&b"a"[..], 10), (&b"b"[..], 1), (&b"c"[..], 2)]));
        // The lightest key goes; its weight does not count for the new one.
        add(&mut heavy, "d", 4);
        let next: BTreeMap<&[u8], u64> = heavy.keys().collect();
        assert_eq!(next, BTreeMap::from([(&b"a"[..], 10), (&b"d"[..], 4), (&b"c"[..], 2)]));
    }

    #[test]
    fn names_have_a_bound() {
        let mut heavy = Heavy::new(100);
        for i in 0..50 {
            add(&mut heavy, &format!("{i:0>2}{}", "0".repeat(1_000_000 - 2)), 1);
        }
        assert!(heavy.bytes <= NAMES_MAX && heavy.entries.len() == NAMES_MAX / 1_000_000);
        assert_eq!(heavy.total(), 50);
    }
}
