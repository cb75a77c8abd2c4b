//! Recent changes of large keys by transactions. A node that has a copy of such a key gets the steps since, and not all
//! of the key.
//!
//! A key has a *trail* from when it was last sent whole. A step has the effects of one transaction on the key. Any
//! other change gives the key another version, at which the trail does not end: then the trail is useless.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use keyspace::Version;

use crate::attachment::DbKey;

/// Bytes from which a key has a trail.
pub const LARGE: usize = 4 << 10;

/// Most keys with trails.
const KEYS_MAX: usize = 256;

/// Most bytes of the steps of a trail, and most steps.
const BYTES_MAX: usize = 64 << 10;
const STEPS_MAX: usize = 512;

/// The first byte of a key's steps. An image begins with the number of an effect.
pub const STEPS: u8 = 0xff;

#[derive(Default)]
pub(super) struct Trails {
    /// How many there are. A change only reads this where there are none.
    count: AtomicUsize,
    trails: Mutex<BTreeMap<DbKey, Trail>>,
}

#[derive(Default)]
struct Trail {
    /// The version of the key where the trail ends.
    at: Version,
    /// The versions between which each step leads, and its effects.
    steps: VecDeque<(Version, Box<[u8]>)>,
    bytes: usize,
}

impl Trail {
    fn push(&mut self, effects: Vec<u8>, to: Version) {
        let from = std::mem::replace(&mut self.at, to);
        self.bytes += effects.len();
        self.steps.push_back((from, effects.into()));
        while self.bytes > BYTES_MAX || self.steps.len() > STEPS_MAX {
            let Some((_, gone)) = self.steps.pop_front() else { break };
            self.bytes -= gone.len();
        }
    }
}

impl Trails {
    fn all(&self) -> MutexGuard<'_, BTreeMap<DbKey, Trail>> {
        self.trails.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if there are any.
    pub(super) fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Notes that a key is sent whole, at this version: its trail begins, if it has none that ends there.
    pub(super) fn begin(&self, key: (u16, &[u8]), version: Version) {
        let mut trails = self.all();
        let key = (key.0, Box::from(key.1));
        if trails.get(&key).is_some_and(|trail| trail.at == version) {
            return;
        }
        if trails.len() >= KEYS_MAX {
            trails.clear();
        }
        trails.insert(key, Trail { at: version, ..Trail::default() });
        self.count.store(trails.len(), Relaxed);
    }

    /// Of these keys, each with its version, those whose trails end there. The trails of the others end for good.
    pub(super) fn of<'k>(&self, keys: impl Iterator<Item = (u16, &'k [u8], Version)>) -> Vec<DbKey> {
        let mut trails = self.all();
        let mut found = Vec::new();
        for (db, key, version) in keys {
            let key = (db, Box::from(key));
            match trails.get(&key) {
                Some(trail) if trail.at == version => found.push(key),
                Some(_) => drop(trails.remove(&key)),
                None => {}
            }
        }
        found.sort();
        found.dedup();
        self.count.store(trails.len(), Relaxed);
        found
    }

    /// Notes that a transaction has made another version of a key. `None`: not all effects are known, or the key is
    /// small or gone.
    pub(super) fn step(&self, key: &DbKey, step: Option<(Vec<u8>, Version)>) {
        let mut trails = self.all();
        match (step, trails.get_mut(key)) {
            (Some((effects, to)), Some(trail)) => trail.push(effects, to),
            _ => drop(trails.remove(key)),
        }
        self.count.store(trails.len(), Relaxed);
    }

    /// Appends the steps that lead from version `known` of a key to `version`: `STEPS · db u16 · length u32 · key ·
    /// (from u64 · length u32 · effects) each`. False: they are not known.
    pub(super) fn tell(&self, (db, key): (u16, &[u8]), known: Version, version: Version, out: &mut Vec<u8>) -> bool {
        let trails = self.all();
        let Some(trail) = trails.get(&(db, Box::from(key))).filter(|trail| trail.at == version) else { return false };
        let first = match known == version {
            true => Some(trail.steps.len()),
            false => trail.steps.iter().position(|(from, _)| *from == known),
        };
        let Some(first) = first else { return false };
        let put = |out: &mut Vec<u8>, bytes: &[u8]| {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        out.push(STEPS);
        out.extend_from_slice(&db.to_le_bytes());
        put(out, key);
        for (from, effects) in trail.steps.range(first..) {
            out.extend_from_slice(&from.0.to_le_bytes());
            put(out, effects);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(trails: &Trails, known: u64, version: u64) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        trails.tell((0, b"k"), Version(known), Version(version), &mut out).then_some(out)
    }

    #[test]
    fn a_trail_ends_where_somebody_else_changes_the_key() {
        let (trails, key) = (Trails::default(), (0, Box::from(*b"k")));
        assert!(!trails.any() && told(&trails, 1, 1).is_none(), "it was never told");
        trails.begin((0, b"k"), Version(1));
        assert_eq!(told(&trails, 1, 1).unwrap(), b"\xff\0\0\x01\0\0\0k");
        assert_eq!(
            trails.of([(0, &b"k"[..], Version(1)), (0, b"other", Version(1))].into_iter()),
            std::slice::from_ref(&key)
        );
        trails.step(&key, Some((b"x".to_vec(), Version(3))));
        trails.step(&key, Some((b"yy".to_vec(), Version(4))));
        let last = b"\x03\0\0\0\0\0\0\0\x02\0\0\0yy";
        let both = [&b"\xff\0\0\x01\0\0\0k\x01\0\0\0\0\0\0\0\x01\0\0\0x"[..], last].concat();
        assert_eq!(told(&trails, 1, 4).unwrap(), both);
        assert_eq!(told(&trails, 3, 4).unwrap(), [b"\xff\0\0\x01\0\0\0k", &last[..]].concat());
        assert!(told(&trails, 2, 4).is_none(), "no version of it");
        assert!(told(&trails, 1, 5).is_none(), "something else has changed it");
        assert!(trails.of([(0, &b"k"[..], Version(5))].into_iter()).is_empty() && !trails.any());
    }

    #[test]
    fn trails_are_bounded() {
        let (trails, key) = (Trails::default(), (0, Box::from(*b"k")));
        trails.begin((0, b"k"), Version::ZERO);
        for to in 1..=1000 {
            trails.step(&key, Some((vec![0; 100], Version(to))));
        }
        assert!(told(&trails, 1000 - STEPS_MAX as u64, 1000).is_some());
        assert!(told(&trails, 999 - STEPS_MAX as u64, 1000).is_none());
        trails.step(&key, Some((vec![0; BYTES_MAX], Version(1001))));
        assert!(told(&trails, 999, 1001).is_none() && told(&trails, 1000, 1001).is_some());
        for n in 0..2 * KEYS_MAX {
            trails.begin((0, &n.to_le_bytes()), Version(1));
        }
        assert!(trails.all().len() <= KEYS_MAX);
    }
}
