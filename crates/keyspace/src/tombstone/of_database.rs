//! The tombstones of a slot in one database, in the order of their keys.
//!
//! Under eviction nearly every slot has a few: in a tree they took more memory than the keys. So a few lie in an array
//! of just the length that they need; many, as of a hot tag, in a tree.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::Tombstone;

/// More are in a tree.
const FEW: usize = 8;

pub(crate) enum OfDatabase {
    Few(Vec<(Box<[u8]>, Tombstone)>),
    Many(BTreeMap<Box<[u8]>, Tombstone>),
}

impl Default for OfDatabase {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl OfDatabase {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Tombstone> {
        match self {
            Self::Few(few) => few.iter().find(|(known, _)| **known == *key).map(|(_, tombstone)| tombstone),
            Self::Many(many) => many.get(key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Tombstone> {
        match self {
            Self::Few(few) => few.iter_mut().find(|(known, _)| **known == *key).map(|(_, tombstone)| tombstone),
            Self::Many(many) => many.get_mut(key),
        }
    }

    /// Adds one or replaces that of the key. True: it is a new key.
    pub(crate) fn insert(&mut self, key: &[u8], tombstone: Tombstone) -> bool {
        if let Some(known) = self.get_mut(key) {
            *known = tombstone;
            return false;
        }
        match self {
            Self::Few(few) if few.len() < FEW => {
                let at = few.partition_point(|(known, _)| **known < *key);
                few.reserve_exact(1);
                few.insert(at, (key.into(), tombstone));
            }
            Self::Few(few) => {
                let mut many: BTreeMap<_, _> = std::mem::take(few).into_iter().collect();
                many.insert(key.into(), tombstone);
                *self = Self::Many(many);
            }
            Self::Many(many) => drop(many.insert(key.into(), tombstone)),
        }
        true
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Tombstone> {
        match self {
            Self::Few(few) => {
                let at = few.iter().position(|(known, _)| **known == *key)?;
                Some(few.remove(at).1)
            }
            Self::Many(many) => many.remove(key),
        }
    }

    /// Drops one; false if there is none.
    pub(crate) fn pop(&mut self) -> bool {
        match self {
            Self::Few(few) => few.pop().is_some(),
            Self::Many(many) => many.pop_first().is_some(),
        }
    }

    /// Calls `f` with those after a key, until it says that it has enough: then the key of that.
    pub(crate) fn each_after(
        &mut self,
        after: Option<&[u8]>,
        mut f: impl FnMut(&[u8], &mut Tombstone) -> bool,
    ) -> Option<Box<[u8]>> {
        match self {
            Self::Few(few) => {
                let from = after.map_or(0, |after| few.partition_point(|(known, _)| **known <= *after));
                let mut rest = few.iter_mut().skip(from);
                rest.find_map(|(key, tombstone)| f(key, tombstone).then(|| key.clone()))
            }
            Self::Many(many) => {
                let from = after.map_or(Bound::Unbounded, Bound::Excluded);
                let mut rest = many.range_mut::<[u8], _>((from, Bound::Unbounded));
                rest.find_map(|(key, tombstone)| f(key, tombstone).then(|| key.clone()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mark::Mark;
    use crate::version::Version;

    fn tombstone(version: Version) -> Tombstone {
        Tombstone { version, round: 0, walked: false, mark: Mark::NONE }
    }

    proptest! {
        #[test]
        fn few_and_many_behave_as_a_tree(acts in prop::collection::vec((any::<bool>(), 0..14u8), 1..80)) {
            let (mut ours, mut model) = (OfDatabase::default(), BTreeMap::new());
            for (i, (adds, key)) in acts.into_iter().enumerate() {
                let (i, key) = (Version(i as u64), [key]);
                if adds {
                    prop_assert_eq!(ours.insert(&key, tombstone(i)), model.insert(key, i).is_none());
                } else {
                    prop_assert_eq!(ours.remove(&key).map(|gone| gone.version), model.remove(&key));
                }
                prop_assert_eq!((ours.len(), ours.is_empty()), (model.len(), model.is_empty()));
                for after in 0..14u8 {
                    prop_assert_eq!(ours.get(&[after]).map(|known| known.version), model.get(&[after]).copied());
                    let mut seen = Vec::new();
                    let stopped = ours.each_after(Some(&[after]), |key, known| {
                        seen.push((key[0], known.version));
                        seen.len() == 3
                    });
                    let rest = model.iter().filter(|(key, _)| key[0] > after).map(|(key, version)| (key[0], *version));
                    prop_assert_eq!(&seen, &rest.take(3).collect::<Vec<_>>());
                    prop_assert_eq!(stopped.is_some(), seen.len() == 3);
                }
                let mut all = Vec::new();
                ours.each_after(None, |key, known| {
                    all.push((key[0], known.version));
                    false
                });
                prop_assert_eq!(all, model.iter().map(|(key, version)| (key[0], *version)).collect::<Vec<_>>());
            }
        }
    }
}
