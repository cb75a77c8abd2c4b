//! A slot with very many keys, and the memory that stays behind.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;

use crate::testing::Single;
use crate::{Expiry, Keyspace, Kind};

const KEYS: u32 = 200_000;

fn crowded(n: u32) -> Vec<u8> {
    format!("{{hot}}{n}").into_bytes()
}

#[test]
fn one_slot_holds_hundreds_of_thousands() {
    let ks = Keyspace::new(1, 1, 11);
    let mut single = Single::new(&ks);
    let slot = crate::slot_of(b"{hot}");
    // In turns, so that replaced segments are freed on the way.
    for chunk in 0..KEYS / 10_000 {
        single.with(0, |db| {
            for n in chunk * 10_000..(chunk + 1) * 10_000 {
                db.set_int(&db.key(&crowded(n)), n.into(), Expiry::Clear);
            }
        });
    }
    single.with(0, |db| {
        assert_eq!(db.slot_len(slot), KEYS);
        for n in (0..KEYS).step_by(7) {
            assert_eq!(db.peek(&db.key(&crowded(n))).map(|e| e.kind()), Some(Kind::Int), "{n}");
        }
        let (mut seen, mut steps, mut most) = (BTreeSet::new(), 0, 0);
        let mut from = Some(0);
        while let Some(hash) = from {
            let before = seen.len();
            from = db.walk(slot, hash, |entry| assert!(seen.insert(entry.key().to_vec())));
            steps += 1;
            most = most.max(seen.len() - before);
        }
        assert_eq!(seen.len(), KEYS as usize);
        assert!(most < 40, "a step shows {most} keys");
        assert!(steps < KEYS, "{steps} steps: the table is too sparse");
    });
    single.with(0, |db| {
        for n in (0..KEYS).filter(|n| !n.is_multiple_of(100)) {
            assert!(db.remove(&db.key(&crowded(n))));
        }
        let mut from = Some(0);
        while let Some(hash) = from {
            from = db.tidy(slot, hash, true).next;
        }
        let (mut seen, mut steps) = (0, 0);
        let mut from = Some(0);
        while let Some(hash) = from {
            from = db.walk(slot, hash, |_| seen += 1);
            steps += 1;
        }
        assert_eq!(seen, KEYS / 100);
        assert!(steps < 2 * KEYS / 100, "{steps} steps after compaction");
    });
    single.with(0, |db| {
        for n in (0..KEYS).step_by(100) {
            assert!(db.remove(&db.key(&crowded(n))));
        }
        assert_eq!(db.walk(slot, 0, |_| panic!("nothing is left")), None);
    });
    assert_eq!(ks.heap().stats().requested, 0);
    assert_eq!(ks.next_occupied(0), None);
}

#[test]
fn a_flush_is_freed_in_steps() {
    let ks = Keyspace::new(1, 4, 13);
    let mut single = Single::new(&ks);
    for number in 0..3 {
        single.with(number, |db| {
            for n in 0..2_000u32 {
                let name = if number == 0 { crowded(n) } else { format!("key {n}").into_bytes() };
                let expiry = if n.is_multiple_of(2) { Expiry::At(UnixMs(1)) } else { Expiry::Clear };
                db.set_string(&db.key(&name), &[b'x'; 100], false, expiry);
            }
        });
    }
    let full = ks.heap().stats().requested;
    let mut one = single.with_all(|ks, held, local| ks.flush(held, local, Some(1)));
    assert_eq!([0, 1, 2, 3].map(|db| ks.len(db)), [2000, 0, 2000, 0]);
    assert_eq!([0, 1, 2, 3].map(|db| ks.expires(db)), [1000, 0, 1000, 0]);
    assert_eq!(ks.heap().stats().requested, full, "nothing is freed while everything is held");
    // The database can be filled again meanwhile.
    single.with(1, |db| db.set_string(&db.key(b"key 1"), b"new", false, Expiry::Clear));
    let mut steps = 0;
    while !one.step(&mut single.local, 100) {
        steps += 1;
    }
    assert!((15..=25).contains(&steps), "{steps} steps");
    assert_eq!(ks.len(1), 1);
    let mut all = single.with_all(|ks, held, local| ks.flush(held, local, None));
    assert_eq!(ks.next_occupied(0), None);
    while !all.step(&mut single.local, 1000) {}
    // Tables go when a turn ends.
    single.with(0, |_| {});
    assert_eq!(ks.heap().stats().requested, 0);
    assert_eq!([0, 1, 2, 3].map(|db| ks.len(db)), [0; 4]);
    let counters = single.local.counters();
    assert_eq!([&counters.reclaiming, &counters.reclaimed].map(|c| c.load(Relaxed)), [0, 6001]);
}

/// Entries of sizes that have become rare are moved together.
#[test]
fn what_lies_in_sparse_pages_is_moved_together() {
    let ks = Keyspace::new(1, 1, 5);
    let mut single = Single::new(&ks);
    let name = |slot: u32, n: u32| format!("{{{slot}}}{n}").into_bytes();
    let slots: BTreeSet<u16> = (0..100).map(|slot| crate::slot_of(&name(slot, 0))).collect();
    for n in 0..200 {
        single.with(0, |db| {
            for slot in 0..100 {
                db.set_string(&db.key(&name(slot, n)), &[b'x'; 30], false, Expiry::Clear);
            }
        });
    }
    let tidy = |single: &mut Single<'_>| {
        let mut moved = 0;
        for _ in 0..2 {
            for &slot in &slots {
                single.with(0, |db| {
                    let mut from = Some(0);
                    while let Some(hash) = from {
                        let tidied = db.tidy(slot, hash, true);
                        from = tidied.next;
                        moved += tidied.moved;
                    }
                });
            }
            single.local.heap.flush();
        }
        while !ks.heap().trim(16) {}
        moved
    };
    // Nine of ten keys get other sizes.
    single.with(0, |db| {
        for slot in 0..100 {
            for n in (0..200).filter(|n| n % 10 > 0) {
                db.set_string(&db.key(&name(slot, n)), &[b'y'; 330], false, Expiry::Clear);
            }
        }
    });
    let before = ks.heap().stats();
    assert!(tidy(&mut single) > 0);
    let after = ks.heap().stats();
    assert!(before.free_in_pages > 1 << 20 && after.free_in_pages < before.free_in_pages / 3, "{before:?} {after:?}");
    single.with(0, |db| {
        for slot in 0..100 {
            for n in 0..200 {
                let wanted: &[u8] = if n % 10 > 0 { &[b'y'; 330] } else { &[b'x'; 30] };
                assert_eq!(db.peek(&db.key(&name(slot, n))).unwrap().string().unwrap().to_vec(), wanted);
            }
        }
    });
}
