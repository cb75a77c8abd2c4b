//! Walks while the table grows and shrinks: a key that stays is visited exactly once.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::name;
use crate::testing::Single;
use crate::{Db, Expiry, Keyspace};

/// The change between two steps of a walk.
#[derive(Clone, Debug)]
enum Between {
    Nothing,
    Add(u16, u16),
    Remove(u16, u16),
    Compact,
}

fn between() -> impl Strategy<Value = Between> {
    prop_oneof![
        3 => Just(Between::Nothing),
        3 => (0..3000u16, 0..500u16).prop_map(|(from, len)| Between::Add(from, len)),
        3 => (0..3000u16, 0..900u16).prop_map(|(from, len)| Between::Remove(from, len)),
        1 => Just(Between::Compact),
    ]
}

/// A key of the slot that is walked.
fn tagged(n: u16) -> Vec<u8> {
    name(n / 3 * 4 + 1 + n % 3)
}

fn change(db: &mut Db<'_>, slot: u16, what: &Between, present: &mut BTreeSet<u16>, gone: &mut BTreeSet<u16>) {
    match what {
        Between::Nothing => {}
        Between::Add(from, len) => {
            for n in *from..from + len {
                db.set_string(&db.key(&tagged(n)), b"", false, Expiry::Clear);
                present.insert(n);
            }
        }
        Between::Remove(from, len) => {
            for n in *from..from + len {
                db.remove(&db.key(&tagged(n)));
                if present.remove(&n) {
                    gone.insert(n);
                }
            }
        }
        Between::Compact => {
            let mut from = Some(0);
            while let Some(hash) = from {
                from = db.tidy(slot, hash, true).next;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn each_key_that_stays_is_visited_once(seed: u64, start in 0..3000u16, changes in prop::collection::vec(between(), 1..40)) {
        let ks = Keyspace::new(1, 1, seed);
        let mut single = Single::new(&ks);
        let (mut present, mut gone) = (BTreeSet::new(), BTreeSet::new());
        let slot = crate::slot_of(&tagged(0));
        single.with(0, |db| change(db, slot, &Between::Add(0, start), &mut present, &mut gone));
        let from_the_start = present.clone();
        gone.clear();
        let mut visits: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let mut from = Some(0);
        let mut changes = changes.iter();
        while let Some(hash) = from {
            // The changes are spread over the walk: a table of 3000 keys has some 700 buckets.
            single.with(0, |db| {
                from = Some(hash);
                for _ in 0..10 {
                    let Some(hash) = from else { break };
                    from = db.walk(slot, hash, |entry| *visits.entry(entry.key().to_vec()).or_default() += 1);
                    assert!(from.is_none_or(|next| next > hash), "a walk advances");
                }
                if let Some(what) = changes.next() {
                    change(db, slot, what, &mut present, &mut gone);
                }
            });
        }
        for n in &from_the_start {
            let times = visits.get(&tagged(*n)).copied().unwrap_or(0);
            if gone.contains(n) {
                prop_assert!(times <= 1);
            } else {
                prop_assert_eq!(times, 1, "key {}", n);
            }
        }
        prop_assert!(visits.values().all(|&times| times == 1));
    }
}

#[test]
fn any_position_can_be_walked_from() {
    let ks = Keyspace::new(1, 1, 3);
    let mut single = Single::new(&ks);
    let slot = crate::slot_of(&tagged(0));
    single.with(0, |db| {
        for hash in [0, 1, u64::MAX] {
            assert_eq!(db.walk(slot, hash, |_| panic!("nothing is there")), None);
        }
        for n in 0..2000 {
            db.set_string(&db.key(&tagged(n)), b"", false, Expiry::Clear);
        }
        let hashes: BTreeSet<u64> = (0..2000).map(|n| db.key(&tagged(n)).hash).collect();
        for from in hashes.iter().flat_map(|&h| [h - 1, h, h + 1]).step_by(7).chain([0, u64::MAX]) {
            let (mut found, mut at) = (0, Some(from));
            while let Some(hash) = at {
                at = db.walk(slot, hash, |_| found += 1);
            }
            // A segment orders by 16 bits: a walk may begin a little early, never late.
            let later = hashes.range(from..).count();
            let early = hashes.range(from >> 48 << 48..).count();
            assert!((later..=early).contains(&found), "{found} of {later}..={early} from {from:x}");
        }
    });
}
