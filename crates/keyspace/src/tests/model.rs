//! Random changes of several databases, checked against a map.

use std::collections::BTreeMap;
use std::sync::Arc;

use clocks::UnixMs;
use object::list::End;
use object::{Limits, List};
use proptest::prelude::*;

use super::name;
use crate::testing::{Single, check_sizes};
use crate::{AnyCollection, Db, Expiry, INLINE_MAX, Keyspace, Kind, Value};

const DATABASES: u16 = 3;

#[derive(Clone, Debug)]
enum Step {
    SetString(u16, Vec<u8>, Option<u8>),
    /// Overwrites and keeps the expiry.
    KeepString(u16, Vec<u8>),
    SetInt(u16, i64),
    SetValue(u16, u8, Option<u8>),
    /// Pushes to the list, and makes it if need be.
    Push(u16, Vec<u8>),
    /// Pops from the list, and removes it if it is empty.
    Pop(u16),
    AppendBlob(u16, u16),
    Increment(u16, i8),
    Expire(u16, Option<u8>),
    Remove(u16),
    Rename(u16, u16),
    FillRange(u16, u16),
    RemoveRange(u16, u16),
    Compact,
    Select(u16),
    Swap(u16, u16),
    Flush(Option<u16>),
}

/// The value of a key, as the model knows it.
#[derive(Clone, PartialEq, Debug)]
enum Held {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
}

type Contents = BTreeMap<Vec<u8>, (Held, Option<UnixMs>)>;

fn number() -> impl Strategy<Value = u16> {
    prop_oneof![0..12u16, 0..1500u16]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"".to_vec()),
        (-1000i64..1000).prop_map(|n| n.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..80),
        (INLINE_MAX - 1..INLINE_MAX + 2).prop_map(|len| vec![b'x'; len]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let expiry = || prop::option::of(any::<u8>());
    prop_oneof![
        8 => (number(), text(), expiry()).prop_map(|(n, t, e)| Step::SetString(n, t, e)),
        3 => (number(), text()).prop_map(|(n, t)| Step::KeepString(n, t)),
        3 => (number(), any::<i64>()).prop_map(|(n, i)| Step::SetInt(n, i)),
        4 => (number(), any::<u8>(), expiry()).prop_map(|(n, v, e)| Step::SetValue(n, v, e)),
        4 => (number(), text()).prop_map(|(n, t)| Step::Push(n, t)),
        4 => number().prop_map(Step::Pop),
        1 => (number(), any::<u16>()).prop_map(|(n, len)| Step::AppendBlob(n, len)),
        2 => (number(), any::<i8>()).prop_map(|(n, by)| Step::Increment(n, by)),
        5 => (number(), expiry()).prop_map(|(n, e)| Step::Expire(n, e)),
        6 => number().prop_map(Step::Remove),
        3 => (number(), number()).prop_map(|(a, b)| Step::Rename(a, b)),
        3 => (number(), 0..700u16).prop_map(|(n, len)| Step::FillRange(n, len)),
        2 => (number(), 0..900u16).prop_map(|(n, len)| Step::RemoveRange(n, len)),
        1 => Just(Step::Compact),
        2 => (0..DATABASES).prop_map(Step::Select),
        1 => (0..DATABASES, 0..DATABASES).prop_map(|(a, b)| Step::Swap(a, b)),
        1 => prop::option::of(0..DATABASES).prop_map(Step::Flush),
    ]
}

/// Expiry times are never 0.
fn at(expiry: Option<u8>) -> Option<UnixMs> {
    expiry.map(|e| UnixMs(u64::from(e) + 1))
}

fn to_expiry(expiry: Option<u8>) -> Expiry {
    at(expiry).map_or(Expiry::Clear, Expiry::At)
}

/// Applies a step within one database to the keyspace and to the model. Both results must agree.
fn apply(db: &mut Db<'_>, model: &mut Contents, step: &Step) {
    let limits = Limits::default();
    match step {
        Step::SetString(n, text, expiry) => {
            let name = name(*n);
            db.set_string(&db.key(&name), text, false, to_expiry(*expiry));
            model.insert(name, (Held::String(text.clone()), at(*expiry)));
        }
        Step::KeepString(n, text) => {
            let name = name(*n);
            db.set_string(&db.key(&name), text, true, Expiry::Keep);
            let had = model.get(&name).and_then(|(_, e)| *e);
            model.insert(name, (Held::String(text.clone()), had));
        }
        Step::SetInt(n, i) => {
            let name = name(*n);
            db.set_int(&db.key(&name), *i, Expiry::Clear);
            model.insert(name, (Held::String(i.to_string().into_bytes()), None));
        }
        Step::SetValue(n, kind, expiry) => {
            let name = name(*n);
            let (value, held): (Value, _) = match kind % 4 {
                0 => (Value::Short(b"ab"[..].into()), Held::String(b"ab".to_vec())),
                1 => (Value::Blob(Arc::new(vec![1; 20_000])), Held::String(vec![1; 20_000])),
                2 => (Value::Raw(vec![2; 20_000].into()), Held::String(vec![2; 20_000])),
                _ => {
                    let mut list = List::new();
                    list.push(End::Back, b"x", &limits);
                    (list.into(), Held::List(vec![b"x".to_vec()]))
                }
            };
            db.set_value(&db.key(&name), value, to_expiry(*expiry));
            model.insert(name, (held, at(*expiry)));
        }
        Step::Push(n, text) => {
            let name = name(*n);
            let key = db.key(&name);
            let present = model.entry(name.clone()).or_insert((Held::List(Vec::new()), None));
            match (db.get_or_create::<List>(&key), &mut present.0) {
                (Ok(mut list), Held::List(items)) => {
                    list.push(End::Back, text, &limits);
                    items.push(text.clone());
                }
                (Err(_), Held::String(_)) => {}
                (found, _) => panic!("found a list: {}", found.is_ok()),
            }
        }
        Step::Pop(n) => {
            let name = name(*n);
            let key = db.key(&name);
            let expected = match model.get_mut(&name) {
                Some((Held::List(items), _)) => Some(items.remove(0)),
                _ => None,
            };
            let popped = match db.get_mut::<List>(&key) {
                Ok(Some(mut list)) => list.pop(End::Front, &limits, |elem| elem.to_vec()),
                _ => None,
            };
            assert_eq!(popped, expected);
            let emptied = model.get(&name).is_some_and(|(held, _)| *held == Held::List(Vec::new()));
            assert_eq!(db.remove_if_empty::<List>(&key), emptied);
            if emptied {
                model.remove(&name);
            }
        }
        Step::AppendBlob(n, len) => {
            let name = name(*n);
            let more = vec![b'y'; usize::from(*len)];
            match (db.blob_mut(&db.key(&name)), model.get_mut(&name).map(|(held, _)| held)) {
                (Ok(None), None) | (Err(_), Some(Held::List(_))) => {}
                (Ok(Some(mut blob)), Some(Held::String(text))) => {
                    std::sync::Arc::make_mut(&mut blob).extend_from_slice(&more);
                    text.extend_from_slice(&more);
                }
                (found, held) => panic!("{:?} {held:?}", found.map(|b| b.is_some())),
            }
        }
        Step::Increment(n, by) => {
            let name = name(*n);
            if db.int_mut(&db.key(&name), |i| i.checked_add(i64::from(*by))).and_then(|(sum, _)| sum).is_some()
                && let Some((Held::String(text), _)) = model.get_mut(&name)
            {
                let was = crate::canonical_int(text).expect("only integers are incremented");
                *text = (was + i64::from(*by)).to_string().into_bytes();
            }
        }
        Step::Expire(n, expiry) => {
            let name = name(*n);
            let known = model.get_mut(&name).map(|(_, e)| *e = at(*expiry)).is_some();
            assert_eq!(db.set_expiry(&db.key(&name), at(*expiry)), known);
        }
        Step::Remove(n) => {
            let name = name(*n);
            assert_eq!(db.remove(&db.key(&name)), model.remove(&name).is_some());
        }
        Step::Rename(from, to) => {
            let (from, to) = (name(*from), name(*to));
            let taken = db.take(&db.key(&from));
            let held = model.remove(&from);
            assert_eq!(taken.as_ref().map(|(_, e)| *e), held.as_ref().map(|(_, e)| *e));
            if let (Some((value, expiry)), Some(held)) = (taken, held) {
                db.set_value(&db.key(&to), value, expiry.map_or(Expiry::Clear, Expiry::At));
                model.insert(to, held);
            }
        }
        Step::FillRange(from, len) => {
            for n in *from..from + len {
                let name = name(n);
                db.set_string(&db.key(&name), b"filled", false, Expiry::Clear);
                model.insert(name, (Held::String(b"filled".to_vec()), None));
            }
        }
        Step::RemoveRange(from, len) => {
            for n in *from..from + len {
                let name = name(n);
                assert_eq!(db.remove(&db.key(&name)), model.remove(&name).is_some());
            }
        }
        Step::Compact => {
            let slot = crate::slot_of(b"{tag}");
            let mut from = Some(0);
            while let Some(hash) = from {
                from = db.tidy(slot, hash, true).next;
            }
        }
        Step::Select(_) | Step::Swap(..) | Step::Flush(_) => unreachable!("not within one database"),
    }
}

/// The contents of `db`, by a walk. Also checks queries about single slots.
fn contents(db: &Db<'_>) -> Contents {
    let mut found = Contents::new();
    let mut at = db.keyspace().next_occupied(0);
    while let Some(slot) = at {
        let (mut in_slot, mut first_expiry) = (0, None::<UnixMs>);
        let mut from = Some(0);
        while let Some(hash) = from {
            from = db.walk(slot, hash, |entry| {
                in_slot += 1;
                first_expiry = [first_expiry, entry.expiry()].into_iter().flatten().min();
                let held = match entry.string() {
                    Ok(text) => Held::String(text.to_vec()),
                    Err(_) => {
                        assert_eq!(entry.kind(), Kind::List);
                        Held::List(entry.collection::<List>().unwrap().iter().map(|e| e.to_vec()).collect())
                    }
                };
                let before = found.insert(entry.key().to_vec(), (held, entry.expiry()));
                assert!(before.is_none(), "visited twice: {:?}", entry.key());
            });
        }
        assert_eq!(db.slot_len(slot), in_slot);
        match first_expiry {
            Some(first) => assert!(db.next_expiry(slot).is_some_and(|bound| bound <= first)),
            None => assert_eq!(db.next_expiry(slot), None),
        }
        at = db.keyspace().next_occupied(slot + 1);
    }
    for (name, (held, _)) in &found {
        let entry = db.peek(&db.key(name)).expect("what a walk finds, a lookup finds");
        assert_eq!(entry.kind().is_string(), matches!(held, Held::String(_)));
    }
    found
}

fn check(single: &mut Single<'_>, models: &[Contents]) {
    let ks = single.ks;
    for (number, model) in models.iter().enumerate() {
        let number = number as u16;
        let found = single.with(number, |db| {
            check_sizes(db);
            contents(db)
        });
        assert_eq!(&found, model, "database {number}");
        assert_eq!(ks.len(number), model.len() as u64);
        assert_eq!(ks.expires(number), model.values().filter(|(_, e)| e.is_some()).count() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn databases_are_maps(seed: u64, steps in prop::collection::vec(step(), 1..80)) {
        let ks = Keyspace::new(1, usize::from(DATABASES), seed);
        let mut single = Single::new(&ks);
        let mut models = vec![Contents::new(); usize::from(DATABASES)];
        let mut selected = 0;
        for step in &steps {
            match step {
                Step::Select(db) => selected = *db,
                Step::Swap(a, b) => {
                    single.with_all(|ks, held, _| ks.swap_databases(held, *a, *b));
                    models.swap(usize::from(*a), usize::from(*b));
                }
                Step::Flush(db) => {
                    let mut reclaim = single.with_all(|ks, held, local| ks.flush(held, local, *db));
                    while !reclaim.step(&mut single.local, 100) {}
                    for (number, model) in models.iter_mut().enumerate() {
                        if db.is_none_or(|db| usize::from(db) == number) {
                            model.clear();
                        }
                    }
                }
                step => single.with(selected, |db| apply(db, &mut models[usize::from(selected)], step)),
            }
        }
        check(&mut single, &models);
        // If keys are removed one by one, nothing is left.
        for (number, model) in models.iter().enumerate() {
            single.with(number as u16, |db| for name in model.keys() {
                assert!(db.remove(&db.key(name)));
            });
        }
        let empty = vec![Contents::new(); usize::from(DATABASES)];
        check(&mut single, &empty);
        prop_assert_eq!(ks.next_occupied(0), None);
        prop_assert_eq!(ks.heap().stats().requested, 0);
    }
}

#[test]
fn a_shared_value_stays_as_it_was() {
    let ks = Keyspace::new(1, 1, 5);
    let mut single = Single::new(&ks);
    single.with(0, |db| {
        let (a, b) = (db.key(b"a"), db.key(b"b"));
        let limits = Limits::default();
        for i in 0..5000 {
            let mut list = db.get_or_create::<List>(&a).unwrap();
            list.push(End::Back, format!("element {i}").as_bytes(), &limits);
        }
        let copy = db.peek(&a).unwrap().to_value();
        assert!(matches!(copy, Value::Collection(AnyCollection::List(_))));
        db.set_value(&b, copy, Expiry::Clear);
        db.get_mut::<List>(&a).unwrap().unwrap().push(End::Front, b"new", &limits);
        assert_eq!(db.peek(&b).unwrap().collection::<List>().unwrap().len(), 5000);
        assert_eq!(db.peek(&a).unwrap().collection::<List>().unwrap().len(), 5001);
    });
}

/// A change with an unknown version would not be logged, and its readers would wait for ever.
#[test]
fn whatever_is_given_a_version_is_noted() {
    let ks = Keyspace::new(1, 1, 1);
    let mut single = Single::new(&ks);
    let texts: [(&[u8], bool); 7] = [
        (b"1", false),
        (b"1", true),
        (b"text", false),
        (&[b'x'; 60], false),
        (&[b'x'; 900], false),
        (b"2", false),
        (b"", true),
    ];
    for (from, from_raw) in texts {
        for (to, to_raw) in texts {
            single.with(0, |db| {
                let key = db.key(b"key");
                db.set_string(&key, from, from_raw, Expiry::Clear);
                db.local().take_stamped();
            });
            single.with(0, |db| {
                let key = db.key(b"key");
                db.set_string(&key, to, to_raw, Expiry::Keep);
                assert!(db.local().take_stamped(), "{} over {}", to.escape_ascii(), from.escape_ascii());
            });
        }
    }
}
