//! Tombstones (rule C4): there is one for every deleted key that the store may have, after any other changes; other
//! keys leave none. Marks: entries and tombstones know exactly what the store has.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use clocks::UnixMs;
use proptest::prelude::*;

use super::name;
use crate::testing::Single;
use crate::{Db, Expiry, Held, Keyspace, Mark, PhysicalKey, Version, slot_of};

#[derive(Clone, Debug)]
enum Act {
    Set(u16),
    /// Sets an expiry, so that the entry is made anew.
    Expire(u16),
    Large(u16),
    Remove(u16),
    Take(u16),
    Flush,
    /// One hold of the checkpoint.
    Step,
    /// The store is replaced by an empty one.
    Void,
}

fn act() -> impl Strategy<Value = Act> {
    let n = || 0..40u16;
    prop_oneof![
        4 => n().prop_map(Act::Set),
        1 => n().prop_map(Act::Expire),
        1 => n().prop_map(Act::Large),
        4 => n().prop_map(Act::Remove),
        1 => n().prop_map(Act::Take),
        1 => Just(Act::Flush),
        8 => Just(Act::Step),
        1 => Just(Act::Void),
    ]
}

/// The contents of a store of one slot: keys, each with true if it expires, or none if it was deleted.
type Stored = BTreeMap<Vec<u8>, Option<bool>>;

/// The place of the checkpoint.
enum Walk {
    Clearing(u64),
    Deleting(Option<PhysicalKey>),
    Copying(u64, bool),
    Dropping(Option<PhysicalKey>),
}

const TAG: &[u8] = b"{tag}1";

fn put(stored: &mut Stored, key: &[u8], expires: Option<bool>, had: Mark) {
    let before = stored.insert(key.to_vec(), expires).flatten();
    assert_eq!((had.is_live(), had.is_expiring()), (before.is_some(), before == Some(true)), "{}", key.escape_ascii());
}

fn step(ks: &Keyspace, held: &Held, walk: Walk, above: &mut Version, start: &mut Version, stored: &mut Stored) -> Walk {
    let slot = slot_of(TAG);
    let gone = |stored: &mut Stored, most| {
        let keys = ks.take_gone(held, slot, most);
        for (_, bytes) in &keys {
            let key = ks.hasher().key(bytes);
            match ks.copy_key(held, 0, &key, &mut || NonZeroU64::MIN) {
                Some((entry, _, had)) => put(stored, bytes, Some(entry.expiry().is_some()), had),
                None => put(stored, bytes, None, ks.copy_gone(held, 0, &key)),
            }
        }
        keys.len() == most
    };
    match walk {
        Walk::Clearing(from) => {
            if from == 0 {
                ks.clear_tombstones(held, slot);
            }
            match ks.clear_marks(held, (slot, 0), from) {
                Some(next) => Walk::Clearing(next),
                None => {
                    ks.set_marks_cleared(held, slot);
                    Walk::Deleting(None)
                }
            }
        }
        Walk::Deleting(after) => {
            if after.is_none() {
                ks.begin_round();
                *start = ks.last_version_of(held, std::iter::once(slot));
                ks.set_walked(held, slot, true);
            }
            gone(stored, 2);
            let next = ks.tombstones_after(held, slot, after, 3, |_, key, had| {
                put(stored, key, None, had);
                stored.remove(key);
            });
            next.map_or(Walk::Copying(0, false), |next| Walk::Deleting(Some(next)))
        }
        Walk::Copying(from, last) => {
            let more = gone(stored, 2);
            if last {
                if more {
                    return Walk::Copying(from, true);
                }
                ks.set_walked(held, slot, false);
                *above = *start;
                return Walk::Dropping(None);
            }
            let mut earliest = UnixMs::NEVER;
            let (next, bound) =
                ks.copy_changed(held, (slot, 0), from, *above, &mut || NonZeroU64::MIN, |entry, _, had| {
                    earliest = earliest.min(entry.expiry().unwrap_or(UnixMs::NEVER));
                    put(stored, entry.key(), Some(entry.expiry().is_some()), had);
                });
            assert!(bound <= earliest);
            next.map_or(Walk::Copying(0, true), |next| Walk::Copying(next, false))
        }
        Walk::Dropping(after) => match ks.drop_tombstones(held, slot, after, 3) {
            Some(next) => Walk::Dropping(Some(next)),
            None => Walk::Deleting(None),
        },
    }
}

fn apply(db: &mut Db<'_>, act: &Act) {
    let key = |n: &u16| [&b"{tag}"[..], &name(*n * 4)].concat();
    match act {
        Act::Set(n) => {
            db.set_string(&db.key(&key(n)), b"value", false, Expiry::Keep);
        }
        Act::Expire(n) => {
            db.set_expiry(&db.key(&key(n)), Some(UnixMs(1_000)));
        }
        Act::Large(n) => {
            db.set_string(&db.key(&key(n)), &[7; 20_000], false, Expiry::Clear);
        }
        Act::Remove(n) => {
            db.remove(&db.key(&key(n)));
        }
        Act::Take(n) => drop(db.take(&db.key(&key(n)))),
        Act::Flush | Act::Step | Act::Void => {}
    }
}

proptest! {
    #[test]
    fn what_the_store_has_and_is_gone_has_a_tombstone(acts in prop::collection::vec(act(), 1..300)) {
        let ks = Keyspace::new(1, 1, 5);
        let slot = slot_of(TAG);
        let mut single = Single::new(&ks);
        let (mut stored, mut walk, mut above, mut start) = (Stored::new(), Walk::Deleting(None), Version::ZERO, Version::ZERO);
        for act in acts {
            match act {
                Act::Step => {
                    let now = std::mem::replace(&mut walk, Walk::Dropping(None));
                    walk = single.with_slot(slot, |db| step(&ks, db.held(), now, &mut above, &mut start, &mut stored));
                }
                Act::Flush => {
                    let mut reclaim = single.with_all(|ks, held, local| ks.flush(held, local, Some(0)));
                    while !reclaim.step(&mut single.local, 3) {}
                    // It has a space of its own.
                    stored.clear();
                }
                Act::Void => {
                    single.with_all(|ks, held, _| {
                        ks.set_walked(held, slot, false);
                        ks.void_marks();
                    });
                    stored.clear();
                    (walk, above) = (Walk::Clearing(0), Version::ZERO);
                }
                act => single.with_slot(slot, |db| apply(db, &act)),
            }
            let mut tombstones = Vec::new();
            single.with_slot(slot, |db| {
                let mut marks = BTreeMap::new();
                ks.each_tombstone_after(slot, None, usize::MAX, |_, key, tombstone| {
                    tombstones.push(key.to_vec());
                    marks.insert(key.to_vec(), tombstone.mark());
                });
                for key in stored.keys() {
                    let there = db.peek(&db.key(key)).is_some();
                    assert!(there != tombstones.contains(key), "{}", key.escape_ascii());
                }
                assert!(tombstones.iter().all(|key| db.peek(&db.key(key)).is_none()));
                let mut from = Some(0);
                while let Some(hash) = from {
                    from = db.walk(slot, hash, |entry| {
                        marks.insert(entry.key().to_vec(), entry.mark());
                    });
                }
                for (key, mark) in marks.into_iter().filter(|_| !ks.are_marks_void(slot)) {
                    let has = stored.get(&key);
                    assert_eq!((mark.is_live(), mark.is_expiring()), (matches!(has, Some(Some(_))), has == Some(&Some(true))));
                    assert!(has.is_none() || !mark.is_none());
                }
            });
            prop_assert_eq!(ks.tombstones(), tombstones.len() as u64);
        }
        // Two rounds without a change: the store has the existing keys, and no others.
        let mut rounds = 0;
        while rounds < 3 {
            walk = single.with_slot(slot, |db| step(&ks, db.held(), walk, &mut above, &mut start, &mut stored));
            rounds += i32::from(matches!(walk, Walk::Deleting(None)));
        }
        single.with_slot(slot, |db| {
            assert!(stored.iter().all(|(key, there)| there.is_some() && db.peek(&db.key(key)).is_some()));
            assert_eq!(db.slot_len(slot) as usize, stored.len());
        });
        prop_assert_eq!(ks.tombstones(), 0);
    }
}

/// A queue makes and deletes keys all the time. That leaves nothing while no checkpoint has seen the keys.
#[test]
fn keys_that_were_never_stored_leave_nothing() {
    let ks = Keyspace::new(1, 1, 5);
    let mut single = Single::new(&ks);
    for n in 0..1000 {
        let slot = slot_of(&name(n));
        single.with_slot(slot, |db| db.set_string(&db.key(&name(n)), b"value", false, Expiry::Clear));
        assert!(single.with_slot(slot, |db| db.remove(&db.key(&name(n)))));
    }
    assert_eq!(ks.tombstones(), 0);
}
