//! Large values, of which loaders read a limited number at once.

use std::cell::Cell;

use command::Error;

use super::super::loader::PATIENCE_MS;
use super::*;
use crate::transactions::tests::{locks, tx};

thread_local! {
    /// Bytes that the system leaves, as this test sees it: others run in the same process.
    static LEFT: Cell<i64> = const { Cell::new(i64::MAX) };
}

const SIZE: usize = 1 << 20;
const LARGE: [&str; 4] = ["a", "b", "e", "f"];

/// Asks each of four loaders for a large value, and one of them for a small one as well.
fn asked(cold: &mut Cold) -> Vec<Loader> {
    for (name, size) in LARGE.into_iter().zip([SIZE; 4]).chain([("key:1", 20_000)]) {
        cold.run(false, &[["0", "set", name, &"x".repeat(size)].map(String::from).to_vec()]);
    }
    cold.checkpoint();
    assert_eq!(cold.evict(), 5);
    for name in LARGE.into_iter().chain(["key:1"]) {
        assert!(cold.try_one(&["0", "strlen", name].map(String::from)).is_none(), "{name} is waited for");
    }
    (2..6).map(|index| Loader::new(cold.engine.shared.clone(), index)).collect()
}

/// The same while the system leaves no memory.
fn asked_while_tight(cold: &mut Cold) -> Vec<Loader> {
    headroom::limit_resident(u64::MAX, 0);
    headroom::ask(headroom::Asked { left: Box::new(|| LEFT.get()), has_block: |_| true });
    let loaders = asked(cold);
    LEFT.set(0);
    loaders
}

/// Number of large values that loaders have read and cannot put into memory.
fn in_flight(cold: &Cold) -> usize {
    let read = cold.shelf.read.lock().unwrap();
    read.iter().filter_map(Weak::upgrade).filter(|text| text.len() == SIZE).count()
}

fn serve_all(cold: &mut Cold, loaders: &mut [Loader]) {
    let shared = cold.engine.shared.clone();
    for loader in loaders {
        loader.serve(shared.requests.take(1, Duration::ZERO).unwrap(), cold.now, |_| {});
    }
}

/// Number of reads of long strings.
fn reads(cold: &Cold) -> usize {
    cold.shelf.read.lock().unwrap().len()
}

#[test]
fn loaders_read_only_so_much_at_once_of_what_is_large() {
    let mut cold = Cold::new();
    let shared = cold.engine.shared.clone();
    shared.budget.limit_to(5 * SIZE as u64 / 2);
    let mut loaders = asked(&mut cold);
    // No loader can put a value into memory.
    let Ok(held) = shared.keyspace.try_acquire(&Need::All, |_| {}) else { panic!("nobody else is there") };
    let rounds = (0..20).map(|_| {
        serve_all(&mut cold, &mut loaders);
        in_flight(&cold)
    });
    assert_eq!(rounds.max(), Some(2));
    assert!(shared.requests.is_empty() && loaders.iter().all(Loader::is_busy));
    shared.keyspace.release(held, |_| {});
    for _ in 0..20 {
        serve_all(&mut cold, &mut loaders);
    }
    assert!(!loaders.iter().any(Loader::is_busy) && !shared.budget.is_wanted());
    for name in LARGE.into_iter().chain(["key:1"]) {
        assert!(cold.try_one(&["0", "strlen", name].map(String::from)).is_some(), "{name} is there");
    }
}

/// A value that was read and then dropped, as others wanted the room, would be read again and again as long as a script
/// holds its latch.
#[test]
fn what_cannot_be_put_into_memory_is_read_once() {
    let mut cold = Cold::new();
    let shared = cold.engine.shared.clone();
    shared.budget.limit_to(1);
    let mut loaders = asked(&mut cold);
    let mut slots = LARGE[..2].iter().map(|name| slot_of(name.as_bytes())).collect::<Vec<_>>();
    slots.sort_unstable();
    let Ok(held) = shared.keyspace.try_acquire(&Need::Slots(slots.into()), |_| {}) else {
        panic!("nobody else is there")
    };
    for _ in 0..50 {
        serve_all(&mut cold, &mut loaders);
    }
    assert_eq!(reads(&cold), 5, "each of them once");
    for name in LARGE[2..].iter().copied().chain(["key:1"]) {
        assert!(cold.try_one(&["0", "strlen", name].map(String::from)).is_some(), "{name} is there");
    }
    let mut busy = loaders.iter().filter(|loader| loader.is_busy());
    assert!(busy.any(Loader::only_postpones), "one waits for room, or for the other");
    shared.keyspace.release(held, |_| {});
    for _ in 0..20 {
        serve_all(&mut cold, &mut loaders);
    }
    assert!(!loaders.iter().any(Loader::is_busy) && reads(&cold) <= 7, "{} reads", reads(&cold));
}

/// Memory is full of values that cannot leave it before a checkpoint, and of replies that clients have yet to read. A
/// reader of a large value waits, or the process would end.
#[test]
fn what_is_large_is_read_seldom_while_memory_is_tight() {
    let mut cold = Cold::new();
    let mut loaders = asked_while_tight(&mut cold);
    // Values that are not large are read as long as they are few. Of large ones, each loader reads one when its
    // patience is at an end.
    for (now, expected) in [(0, 1), (PATIENCE_MS - 1, 1), (PATIENCE_MS, 5)] {
        cold.now = MonoMs(now);
        (0..5).for_each(|_| serve_all(&mut cold, &mut loaders));
        assert_eq!(reads(&cold), expected, "at {now}");
    }
}

#[test]
fn what_was_put_off_is_read_when_memory_is_tight_no_more() {
    let mut cold = Cold::new();
    // Waiting reads take no part of the budget.
    cold.engine.shared.budget.limit_to(5 * SIZE as u64);
    let mut loaders = asked_while_tight(&mut cold);
    (0..5).for_each(|_| serve_all(&mut cold, &mut loaders));
    assert_eq!(reads(&cold), 1);
    LEFT.set(i64::MAX);
    serve_all(&mut cold, &mut loaders);
    assert_eq!(reads(&cold), 5);
}

/// Strings that are too small to be asked for one by one, and together are many times what is left.
const MANY: usize = 12;
const SMALL: usize = headroom::LARGE / 4;

/// A command that reads all of them from the store.
fn many_small(cold: &mut Cold) -> Vec<String> {
    for name in &NAMES[..MANY] {
        cold.run(false, &[["0", "set", name, &"x".repeat(SMALL)].map(String::from).to_vec()]);
    }
    cold.checkpoint();
    assert_eq!(cold.evict(), MANY);
    headroom::limit_resident(u64::MAX, 0);
    headroom::ask(headroom::Asked { left: Box::new(|| LEFT.get()), has_block: |_| true });
    LEFT.set(0);
    ["0", "mget"].iter().chain(&NAMES[..MANY]).map(|word| word.to_string()).collect()
}

/// A block or an MGET may need thousands of keys at once. Each was read because it was small, until the process ended.
#[test]
fn of_what_is_small_only_a_portion_is_read_while_memory_is_tight() {
    let mut cold = Cold::new();
    let all = many_small(&mut cold);
    assert!(cold.try_one(&all).is_none());
    for (now, portions) in
        [(0, 1), (PATIENCE_MS - 1, 1), (PATIENCE_MS, 2), (2 * PATIENCE_MS - 1, 2), (2 * PATIENCE_MS, 3)]
    {
        cold.now = MonoMs(now);
        (0..5).for_each(|_| cold.serve());
        assert_eq!(reads(&cold), portions * headroom::LARGE / SMALL - 1, "at {now}");
    }
    LEFT.set(i64::MAX);
    (0..5).for_each(|_| cold.serve());
    assert_eq!(reads(&cold), MANY);
    assert!(cold.try_one(&all).is_some(), "all of it is there");
}

/// A command that has waited often enough reads the store itself, and had no bound.
#[test]
fn a_command_that_reads_the_store_itself_is_refused_while_memory_is_tight() {
    let mut cold = Cold::new();
    let all = many_small(&mut cold);
    cold.engine.insists = true;
    let reply = cold.try_one(&all).expect("it does not wait").concat();
    assert!(reply.starts_with("-OOM"), "{reply:.60}");
    assert_eq!(reads(&cold), headroom::LARGE / SMALL - 1);
    LEFT.set(i64::MAX);
    let reply = cold.try_one(&all).expect("it does not wait").concat();
    assert!(reply.starts_with(&format!("*{MANY}")) && reads(&cold) == MANY, "{reply:.60}");
}

/// A part of a transaction over nodes reads as many keys, only to look at them.
#[test]
fn a_part_that_reads_the_store_itself_is_refused_while_memory_is_tight() {
    let mut cold = Cold::new();
    many_small(&mut cold);
    cold.engine.insists = true;
    let (tx, stamp) = tx(1);
    let locks = locks(&NAMES[..MANY], Mode::Shared);
    let Ok(Locked::Block(block)) = cold.engine.lock_attempt((tx, (stamp, false), &locks), || true, &mut false, 9)
    else {
        panic!("it has its locks")
    };
    let mut found = Vec::new();
    assert_eq!(cold.engine.look(&block, &locks, (&Default::default(), 1 << 20), &mut found), Err(Error::OOM));
    let is_at = |cold: &mut Cold, lock: &Lock| cold.engine.is_at(&block, (0, &lock.key), keyspace::Version(1));
    assert_eq!(locks.iter().find_map(|lock| is_at(&mut cold, lock).err()), Some(Error::OOM));
    assert_eq!(reads(&cold), headroom::LARGE / SMALL - 1);
    LEFT.set(i64::MAX);
    assert_eq!(cold.engine.look(&block, &locks, (&Default::default(), 1 << 20), &mut found), Ok(true));
    assert_eq!(reads(&cold), MANY);
    cold.engine.drop_attempt(*block, tx, &locks);
}

#[test]
fn what_a_loader_has_not_done_when_it_ends_others_need_not_wait_for() {
    let mut cold = Cold::new();
    let shared = cold.engine.shared.clone();
    shared.budget.limit_to(1);
    let mut loaders = asked(&mut cold);
    let Ok(held) = shared.keyspace.try_acquire(&Need::All, |_| {}) else { panic!("nobody else is there") };
    serve_all(&mut cold, &mut loaders);
    assert!(in_flight(&cold) == 1 && shared.budget.is_wanted());
    drop(loaders);
    shared.keyspace.release(held, |_| {});
    assert!(in_flight(&cold) == 0 && !shared.budget.is_wanted());
    assert!(shared.budget.take(u64::MAX, u64::MAX), "nothing is taken of it");
}
