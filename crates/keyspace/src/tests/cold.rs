//! Cold keys (rule C5): with any evictions, fetches, writes, deletions and flushes between, a reader that follows the
//! rule finds what was written.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use clocks::UnixMs;
use proptest::prelude::*;

use crate::testing::{Single, check_sizes};
use crate::{
    ColdFigures, Db, Expiry, Fetched, Key, Keyspace, Mark, Record, Ticket, Value, Version, Waiter, Whereabouts, slot_of,
};

#[derive(Clone, Debug)]
enum Act {
    Set(u16, Option<UnixMs>),
    Remove(u16),
    Evict(u16),
    /// Asks for a key. The fetched value comes later, or at once.
    Ask(u16),
    Answer,
    Forget,
    Checkpoint,
    Flush,
    /// Loses everything in memory, except the store's contents; the figures are known, or wrong.
    Restart(bool),
    Complete,
    /// The warm-up goes through the store, and is at this key.
    Warm(u16),
}

fn act() -> impl Strategy<Value = Act> {
    let n = || 0..20u16;
    prop_oneof![
        4 => (n(), proptest::option::of((1000..1100u64).prop_map(UnixMs))).prop_map(|(n, expiry)| Act::Set(n, expiry)),
        2 => n().prop_map(Act::Remove),
        6 => n().prop_map(Act::Evict),
        4 => n().prop_map(Act::Ask),
        4 => Just(Act::Answer),
        1 => Just(Act::Forget),
        2 => Just(Act::Checkpoint),
        1 => Just(Act::Flush),
        1 => any::<bool>().prop_map(Act::Restart),
        1 => Just(Act::Complete),
        2 => n().prop_map(Act::Warm),
    ]
}

/// A name; all are of one slot.
fn name(n: u16) -> Vec<u8> {
    format!("{{tag}}{n}").into_bytes()
}

type Stored = BTreeMap<Vec<u8>, (Vec<u8>, Option<UnixMs>, Version)>;

fn fetch(stored: &Stored, key: &[u8]) -> Option<Fetched> {
    let (value, expiry, version) = stored.get(key)?;
    let mark = Mark::live(expiry.is_some(), false, false);
    Some(Fetched::There(Record {
        value: Value::Short(value.as_slice().into()),
        expiry: *expiry,
        access: 7,
        version: *version,
        mark,
    }))
}

/// Makes memory know of a key, like a worker that may read the store itself.
fn settle(db: &mut Db<'_>, key: &Key<'_>, stored: &Stored) {
    if db.whereabouts(key) != Whereabouts::Known {
        db.know_now(key, fetch(stored, key.bytes), |_| {});
    }
    assert_eq!(db.whereabouts(key), Whereabouts::Known);
}

/// Writes all of the slot to the store, as a checkpoint would.
fn checkpoint(ks: &Keyspace, single: &mut Single<'_>, stored: &mut Stored) {
    let slot = slot_of(&name(0));
    ks.begin_round();
    single.with_all(|ks, held, _| {
        let (above, start) = (ks.covered(slot), ks.last_version_of(held, std::iter::once(slot)));
        ks.tombstones_after(held, slot, None, usize::MAX, |_, key, had| {
            assert_eq!(had.is_live(), stored.remove(key).is_some());
        });
        let mut from = Some(0);
        while let Some(hash) = from {
            (from, _) = ks.copy_changed(held, (slot, 0), hash, above, &mut || NonZeroU64::MIN, |entry, _, had| {
                let text = entry.string().unwrap().to_vec();
                let before = stored.insert(entry.key().to_vec(), (text, entry.expiry(), entry.version()));
                assert_eq!(had.is_live(), before.is_some());
                assert_eq!(had.is_expiring(), before.is_some_and(|(_, expiry, _)| expiry.is_some()));
            });
        }
        ks.set_covered(slot, start);
    });
    ks.begin_round();
    single.with_all(|ks, held, _| assert!(ks.drop_tombstones(held, slot, None, usize::MAX).is_none()));
}

fn figures(stored: &Stored) -> ColdFigures {
    let expiring = stored.values().filter_map(|(_, expiry, _)| *expiry);
    ColdFigures {
        keys: stored.len() as u64,
        expiring: expiring.clone().count() as u64,
        field_expiring: 0,
        earliest: expiring.min().unwrap_or(UnixMs::NEVER),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 200 }, ..ProptestConfig::default() })]

    #[test]
    fn who_asks_finds_what_was_written(acts in proptest::collection::vec(act(), 1..if cfg!(miri) { 40 } else { 150 })) {
        let slot = slot_of(&name(0));
        let (mut model, mut stored) = (BTreeMap::new(), Stored::new());
        let mut acts = acts.into_iter().enumerate();
        let (mut at_start, mut exact) = (Version::ZERO, true);
        'life: loop {
            let ks = Keyspace::new(1, 1, 1);
            let mut single = Single::new(&ks);
            single.skip_to(at_start);
            // Keys asked for, with their values when the store was read.
            let mut asked: Vec<(u16, Ticket, Option<Fetched>)> = Vec::new();
            let mut known: Vec<(u16, Ticket)> = Vec::new();
            if !stored.is_empty() {
                single.with_all(|ks, held, local| {
                    ks.set_covered(slot, at_start);
                    let figures = if exact { figures(&stored) } else { ColdFigures::default() };
                    ks.restore_cold(held, slot, 0, figures, local);
                });
            }
            for (step, act) in acts.by_ref() {
                match act {
                    Act::Set(n, expiry) => {
                        let text = format!("value {step}").into_bytes();
                        single.with_slot(slot, |db| {
                            let bytes = name(n);
                            let key = db.key(&bytes);
                            settle(db, &key, &stored);
                            db.set_string(&key, &text, false, expiry.map_or(Expiry::Clear, Expiry::At));
                        });
                        model.insert(n, (text, expiry));
                    }
                    Act::Remove(n) => single.with_slot(slot, |db| {
                        let bytes = name(n);
                        let key = db.key(&bytes);
                        settle(db, &key, &stored);
                        assert_eq!(db.remove(&key), model.remove(&n).is_some());
                    }),
                    Act::Evict(n) => single.with_slot(slot, |db| {
                        let bytes = name(n);
                        let key = db.key(&bytes);
                        let awaited = asked.iter().any(|(asked, ..)| *asked == n);
                        let evicted = db.evict(&key);
                        assert!(!evicted || stored.contains_key(&bytes));
                        assert!(!evicted || !awaited, "a key that was asked for stays");
                    }),
                    Act::Ask(n) => single.with_slot(slot, |db| {
                        let bytes = name(n);
                        let key = db.key(&bytes);
                        if db.whereabouts(&key) != Whereabouts::Known
                            && let Some(ticket) = db.await_key(&key, Some(Waiter { worker: 0, token: step as u64 }))
                        {
                            asked.push((n, ticket, fetch(&stored, &bytes)));
                        }
                    }),
                    Act::Answer => if let Some((n, ticket, fetched)) = asked.pop() {
                        single.with_slot(slot, |db| {
                            let bytes = name(n);
                            let key = db.key(&bytes);
                            let mut woken = 0;
                            if db.know(&key, ticket, Ok(fetched), |_| woken += 1) {
                                assert!(woken >= 1);
                                assert_eq!(db.whereabouts(&key), Whereabouts::Known);
                                known.push((n, ticket));
                            }
                        });
                    },
                    Act::Forget => if let Some((n, ticket)) = known.pop() {
                        single.with_all(|ks, held, _| ks.forget_load(held, slot, &(0, name(n).into()), ticket));
                    },
                    Act::Checkpoint => checkpoint(&ks, &mut single, &mut stored),
                    Act::Flush => {
                        let mut reclaim = single.with_all(|ks, held, local| ks.flush(held, local, None));
                        while !reclaim.step(&mut single.local, 100) {}
                        model.clear();
                        // From now on its space is another one.
                        stored.clear();
                        exact = true;
                    }
                    Act::Restart(right) => {
                        single.with(0, |db| check_sizes(db));
                        checkpoint(&ks, &mut single, &mut stored);
                        at_start = Version(single.version().0 + 1);
                        exact = right || stored.is_empty();
                        continue 'life;
                    }
                    Act::Warm(n) => single.with_slot(slot, |db| {
                        let bytes = name(n);
                        let key = db.key(&bytes);
                        db.warm(&key, fetch(&stored, &bytes));
                    }),
                    Act::Complete => single.with_all(|ks, held, local| {
                        let clock = crate::access::AccessClock::new(1);
                        let mut db = Db::new(ks, held, local, &clock, 0, Version::ZERO);
                        for bytes in stored.keys().cloned().collect::<Vec<_>>() {
                            let key = db.key(&bytes);
                            db.warm(&key, fetch(&stored, &bytes));
                        }
                        ks.complete(held, slot, 0, ColdFigures::default(), local);
                        assert!(ks.cold(held, slot, 0).is_none());
                        exact = true;
                    }),
                }
                prop_assert!(!exact || ks.len(0) == model.len() as u64, "{} keys, not {}", ks.len(0), model.len());
                prop_assert!(!exact || ks.expires(0) == model.values().filter(|(_, expiry)| expiry.is_some()).count() as u64);
                prop_assert!(model.is_empty() || ks.next_occupied(slot) == Some(slot));
            }
            single.with_slot(slot, |db| for n in 0..20u16 {
                let bytes = name(n);
                let key = db.key(&bytes);
                settle(db, &key, &stored);
                let found = db.read_string(&key).unwrap().map(|text| text.to_vec());
                assert_eq!(found.as_ref(), model.get(&n).map(|(text, _)| text));
                assert_eq!(db.peek(&key).and_then(|entry| entry.expiry()), model.get(&n).and_then(|(_, expiry)| *expiry));
            });
            break;
        }
    }
}

/// A client asks for a key, and the warm-up brings it. It is deleted, and the store loses it. The value fetched for the
/// client comes last.
#[test]
fn what_was_fetched_before_a_key_came_does_not_count() {
    let slot = slot_of(&name(0));
    let ks = Keyspace::new(1, 1, 1);
    let mut single = Single::new(&ks);
    let mut stored = Stored::new();
    let bytes = name(1);
    single.with_slot(slot, |db| db.set_string(&db.key(&bytes), b"value", false, Expiry::Clear));
    checkpoint(&ks, &mut single, &mut stored);
    let ticket = single.with_slot(slot, |db| {
        let key = db.key(&bytes);
        assert!(db.evict(&key));
        db.await_key(&key, None)
    });
    let fetched = fetch(&stored, &bytes);
    single.with_slot(slot, |db| {
        let key = db.key(&bytes);
        assert!(db.warm(&key, fetch(&stored, &bytes)));
        assert!(db.remove(&key));
    });
    checkpoint(&ks, &mut single, &mut stored);
    assert!(stored.is_empty());
    single.with_slot(slot, |db| {
        let key = db.key(&bytes);
        assert!(db.know(&key, ticket.unwrap(), Ok(fetched), |_| {}));
        assert_eq!(db.whereabouts(&key), Whereabouts::Known);
        assert!(db.peek(&key).is_none());
    });
    assert_eq!(ks.len(0), 0);
}
