//! The embedded store, case by case.

use std::ops::Bound;

use crate::support::{Scratch, open, settings, small};
use store::{Batch, Embedded, Error, Store, check};

fn put(store: &dyn Store, entries: &[(&[u8], &[u8])]) {
    let mut batch = Batch::new();
    for (key, value) in entries {
        batch.put(key, value);
    }
    store.write(&batch).expect("written");
}

fn key(n: u32) -> Vec<u8> {
    [b"k".as_slice(), &n.to_be_bytes()].concat()
}

fn keys(store: &dyn Store) -> Vec<Vec<u8>> {
    let snapshot = store.snapshot();
    snapshot.range((Bound::Unbounded, Bound::Unbounded)).map(|entry| entry.expect("an entry").0).collect()
}

#[test]
fn what_was_flushed_is_there_after_a_restart_and_what_was_not_is_gone() {
    let scratch = Scratch::new();
    let store = open(scratch.path(), &settings());
    put(&store, &[(b"a", b"1"), (b"b", b"2")]);
    let generation = store.flush().expect("flushed");
    assert!(generation > 0);
    assert!(store.flush().expect("nothing new") >= generation);
    put(&store, &[(b"b", b"3"), (b"c", b"4")]);
    assert_eq!(store.get(b"b"), Ok(Some(b"3".to_vec())));
    drop(store);
    let store = open(scratch.path(), &settings());
    assert!(store.generation() >= generation);
    assert_eq!(store.get(b"a"), Ok(Some(b"1".to_vec())));
    assert_eq!(store.get(b"b"), Ok(Some(b"2".to_vec())));
    assert_eq!(store.get(b"c"), Ok(None));
    assert_eq!(keys(&store), [b"a", b"b"]);
}

#[test]
fn a_snapshot_does_not_change() {
    let scratch = Scratch::new();
    let store = open(scratch.path(), &small());
    put(&store, &[(b"a", b"1"), (b"b", b"2")]);
    let early = store.snapshot();
    put(&store, &[(b"a", b"x"), (b"c", b"3")]);
    let mut batch = Batch::new();
    batch.delete(b"b");
    batch.retire(b"c");
    store.write(&batch).expect("written");
    for n in 0..2000 {
        put(&store, &[(&key(n), &[1; 100])]);
        if n % 100 == 0 {
            store.flush().expect("flushed");
        }
    }
    store.flush().expect("flushed");
    store.settle();
    assert_eq!(early.get(b"a"), Ok(Some(b"1".to_vec())));
    let all: Vec<_> = early.range((Bound::Unbounded, Bound::Unbounded)).map(|e| e.expect("an entry")).collect();
    assert_eq!(all, [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())]);
    assert_eq!(store.get(b"b"), Ok(None));
    assert_eq!(store.get(b"c"), Ok(None));
    assert_eq!(keys(&store).len(), 2001);
}

#[test]
fn memory_that_is_full_is_spilled_but_only_a_flush_makes_it_durable() {
    let scratch = Scratch::new();
    let store = open(scratch.path(), &small());
    for n in 0..2000 {
        put(&store, &[(&key(n % 700), &n.to_be_bytes()), (&key(5000 + n), &[2; 100])]);
    }
    let figures = store.figures();
    assert!(figures.bytes_spilled > 50 << 10, "{figures:?}");
    assert!(figures.bytes_unflushed < 64 << 10, "{figures:?}");
    assert_eq!(store.get(&key(0)), Ok(Some(1400u32.to_be_bytes().to_vec())));
    assert_eq!(keys(&store).len(), 2700);
    drop(store);
    let store = open(scratch.path(), &small());
    assert_eq!(keys(&store).len(), 0);
    for n in 0..2000 {
        put(&store, &[(&key(n % 700), &n.to_be_bytes()), (&key(5000 + n), &[2; 100])]);
    }
    store.flush().expect("flushed");
    drop(store);
    let store = open(scratch.path(), &small());
    assert_eq!(keys(&store).len(), 2700);
    assert_eq!(store.get(&key(0)), Ok(Some(1400u32.to_be_bytes().to_vec())));
    drop(store);
    let report = check(scratch.path()).expect("checked");
    assert_eq!(report.findings, []);
}

#[test]
fn what_is_spilled_in_the_order_of_keys_is_written_once() {
    let noise = |n: u32| -> Vec<u8> {
        (0..40).flat_map(|i| (n.wrapping_mul(2_654_435_761) ^ (i * 77)).to_be_bytes()).collect()
    };
    let (early, late) = (|n: u32| key(100 + n), |n: u32| key(50_000 + n));
    for crossing in [false, true] {
        let scratch = Scratch::new();
        let store = open(scratch.path(), &small());
        for n in 0..2000 {
            put(&store, &[(&early(n), &noise(n))]);
        }
        put(&store, &[(&key(0), b"first"), (&late(0), b"last")]);
        if crossing {
            put(&store, &[(&early(3), b"again")]);
        }
        store.flush().expect("flushed");
        store.settle();
        let figures = store.figures();
        let once = figures.bytes_flushed < figures.bytes_spilled / 4;
        assert_eq!(once, !crossing, "{figures:?}");
        for _ in 0..2 {
            let value = if crossing { b"again".to_vec() } else { noise(3) };
            assert_eq!((store.get(&early(3)), store.get(&key(0))), (Ok(Some(value)), Ok(Some(b"first".to_vec()))));
            assert_eq!(store.get(&early(1999)), Ok(Some(noise(1999))));
            assert_eq!(keys(&store).len(), 2002);
        }
        drop(store);
        let store = open(scratch.path(), &small());
        assert_eq!(keys(&store).len(), 2002);
        assert_eq!(
            store.get(&early(3)).map(|value| value.map(|value| value.len())),
            Ok(Some(if crossing { 5 } else { 160 }))
        );
        drop(store);
        assert_eq!(check(scratch.path()).expect("checked").findings, []);
    }
}

#[test]
fn a_retired_prefix_is_gone_at_once_and_its_space_later() {
    let scratch = Scratch::new();
    let store = open(scratch.path(), &small());
    let under = |first: u8, n: u32| [&[first], n.to_be_bytes().as_slice()].concat();
    for first in 1..=3 {
        let mut batch = Batch::new();
        for n in 0..9000u32 {
            let noise: Vec<u8> =
                (0..25).flat_map(|i| (n.wrapping_mul(2_654_435_761) ^ (i * 77)).to_be_bytes()).collect();
            batch.put(&under(first, n), &noise);
        }
        store.write(&batch).expect("written");
        store.flush().expect("flushed");
        store.settle();
    }
    let before = store.figures();
    let mut batch = Batch::new();
    batch.retire(&[2]);
    batch.retire(&[3, 0, 0, 0x20]);
    store.write(&batch).expect("written");
    assert_eq!(keys(&store).len(), 18_000 - 256);
    assert_eq!(store.get(&under(2, 5)), Ok(None));
    let mut batch = Batch::new();
    batch.put(&under(2, 5), b"");
    assert!(matches!(store.write(&batch), Err(Error::Invalid(_))));
    let read = store.figures().bytes_read;
    store.flush().expect("flushed");
    store.settle();
    let after = store.figures();
    assert_eq!(after.retired, 0);
    assert!(after.bytes_on_disk < before.bytes_on_disk * 3 / 4, "{before:?} {after:?}");
    assert!(after.bytes_read - read < 100 << 10, "{before:?} {after:?}");
    assert_eq!(keys(&store).len(), 18_000 - 256);
    store.flush().expect("flushed");
    drop(store);
    let store = open(scratch.path(), &small());
    assert_eq!(keys(&store).len(), 18_000 - 256);
    assert_eq!(store.figures().retired, 0);
    let mut batch = Batch::new();
    batch.retire(&[1]);
    batch.retire(&[3]);
    store.write(&batch).expect("written");
    store.flush().expect("flushed");
    store.settle();
    store.flush().expect("flushed");
    assert_eq!(keys(&store).len(), 0);
}

#[test]
fn what_is_given_back_in_pieces_stays_gone_whatever_is_flushed_meanwhile() {
    let scratch = Scratch::new();
    for round in 0..5u8 {
        let folder = scratch.join(&round.to_string());
        let store = open(&folder, &settings());
        let mut batch = Batch::new();
        // One table, which is not wholly below the prefix.
        batch.put(b"a", b"before");
        batch.put(b"l", b"behind");
        for n in 0..6000 {
            batch.put(&key(n), b"x");
        }
        store.write(&batch).expect("written");
        store.flush().expect("flushed");
        let mut batch = Batch::new();
        batch.retire(b"k");
        store.write(&batch).expect("written");
        store.flush().expect("flushed");
        let mut flushes = 0u32;
        while store.figures().retired > 0 {
            put(&store, &[(b"b", &flushes.to_be_bytes())]);
            store.flush().expect("flushed");
            assert!(store.get(&key(flushes)).expect("read").is_none());
            flushes += 1;
        }
        store.flush().expect("flushed");
        let left = keys(&store);
        assert!(left == [b"a", b"b", b"l"] || left == [b"a", b"l"], "{} keys", left.len());
        drop(store);
        assert_eq!(keys(&open(&folder, &settings())), left);
    }
}

#[test]
fn the_space_of_a_retired_prefix_is_given_back_after_a_restart() {
    let scratch = Scratch::new();
    let store = open(scratch.path(), &small());
    for n in 0..1000 {
        put(&store, &[(&key(n), &[1; 100])]);
    }
    store.flush().expect("flushed");
    let mut batch = Batch::new();
    batch.retire(b"k");
    store.write(&batch).expect("written");
    drop(store);
    let store = open(scratch.path(), &small());
    assert_eq!(keys(&store).len(), 1000, "it was not flushed");
    store.write(&batch).expect("written");
    store.flush().expect("flushed");
    drop(store);
    let store = open(scratch.path(), &small());
    assert_eq!(keys(&store).len(), 0);
    assert_eq!(store.figures().retired, 1, "it rests at first");
    store.tend();
    while store.figures().retired > 0 {
        std::thread::yield_now();
    }
    assert_eq!(keys(&store).len(), 0);
}

#[test]
fn a_backup_is_a_store_of_its_own() {
    let scratch = Scratch::new();
    let store = open(&scratch.join("a"), &small());
    for n in 0..1000 {
        put(&store, &[(&key(n), &[1; 100])]);
    }
    let generation = store.backup(&scratch.join("b")).expect("copied");
    assert!(generation <= store.generation());
    let mut batch = Batch::new();
    batch.retire(b"k");
    store.write(&batch).expect("written");
    store.flush().expect("flushed");
    store.settle();
    assert!(matches!(store.backup(&scratch.join("b")), Err(Error::Refused { .. })), "not empty");
    let copy = open(&scratch.join("b"), &small());
    assert_eq!(keys(&copy).len(), 1000);
    put(&copy, &[(b"new", b"1")]);
    copy.flush().expect("flushed");
    drop(copy);
    drop(store);
    for (name, count) in [("a", 0), ("b", 1001)] {
        assert_eq!(check(&scratch.join(name)).expect("checked").findings.iter().filter(|f| f.damage).count(), 0);
        assert_eq!(keys(&open(&scratch.join(name), &small())).len(), count);
    }
}

#[test]
fn wrong_folders_are_refused() {
    let scratch = Scratch::new();
    let folder = scratch.join("a");
    let store = open(&folder, &settings());
    put(&store, &[(b"a", b"1")]);
    let generation = store.flush().expect("flushed");
    let refused = |settings: &store::Settings| match Embedded::open(&folder, settings) {
        Err(Error::Refused { why, .. }) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    };
    assert_eq!(refused(&settings()), "the store is in use by another process");
    drop(store);
    assert_eq!(refused(&store::Settings { node: [8; 16], ..settings() }), "the store of another node");
    let why = refused(&store::Settings { at_least: generation + 100, ..settings() });
    assert!(why.contains("old files"), "{why}");
    std::fs::remove_file(folder.join("STORE")).expect("removed");
    assert!(refused(&settings()).contains("not a store"));
    std::fs::write(scratch.join("x"), "x").expect("written");
    assert!(Embedded::open(scratch.path(), &settings()).is_err());
}

#[test]
fn keys_that_cannot_be_are_refused_and_nothing_of_their_batch_is_done() {
    let scratch = Scratch::new();
    let store = open(scratch.path(), &settings());
    let long = vec![1; store::KEY_MAX + 1];
    for wrong in [b"".as_slice(), &[0xff, 1], &long] {
        for op in 0..3 {
            let mut batch = Batch::new();
            batch.put(b"a", b"1");
            match op {
                0 => batch.put(wrong, b""),
                1 => batch.delete(wrong),
                _ => batch.retire(wrong),
            }
            assert!(matches!(store.write(&batch), Err(Error::Invalid(_))));
        }
        assert_eq!(store.get(wrong), Ok(None));
    }
    assert_eq!(store.get(b"a"), Ok(None));
    put(&store, &[(&vec![1; store::KEY_MAX], &vec![2; 1 << 20])]);
    store.flush().expect("flushed");
    assert_eq!(store.get(&vec![1; store::KEY_MAX]).expect("read").map(|v| v.len()), Some(1 << 20));
}
