//! A snapshot holds every key once and as it was at its moment, whatever commands, checkpoints and evictions do
//! meanwhile.

use clocks::UnixMs;
use command::with_rdb_value;
use object::rdb;

use super::*;
use crate::{Progress, SnapshotWalk, Spoiled};

type Keys = BTreeMap<(u16, String), (String, Option<UnixMs>)>;

fn names() -> impl Iterator<Item = String> {
    NAMES.iter().map(|name| (*name).to_owned()).chain([0, 2, 4, 5].map(|n| format!("key:{n}")))
}

/// What commands answer about all keys.
fn answered(cold: &mut Cold) -> Keys {
    let mut keys = Keys::new();
    for (db, name) in (0..3u16).flat_map(|db| names().map(move |name| (db, name))) {
        let dump = cold.run(false, &one(&format!("{db} dump {name}"))).concat();
        let at = cold.run(false, &one(&format!("{db} pexpiretime {name}"))).concat();
        let at = at.trim_start_matches(':').trim_end().parse().ok().map(UnixMs);
        if dump != "$-1\r\n" {
            keys.insert((db, name), (dump, at));
        }
    }
    keys
}

fn begin(cold: &Cold) -> SnapshotWalk {
    SnapshotWalk::begin(&cold.engine.shared, |_| {}, |_| {}).expect("nobody else is there").0
}

/// Takes some steps; true: that was all.
fn take(walk: &mut SnapshotWalk, steps: usize, to: &mut Vec<keyspace::Kept>) -> Result<bool, Spoiled> {
    for _ in 0..steps {
        if walk.step(to, |_| {})? == Progress::Done {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The keys of a snapshot, of which none is there twice.
fn held(walk: &SnapshotWalk, kept: &[keyspace::Kept]) -> Keys {
    let mut keys = Keys::new();
    for kept in kept {
        let payload = with_rdb_value(&kept.value, rdb::dump);
        let dump = [format!("${}\r\n", payload.len()).as_bytes(), &payload, b"\r\n"].concat();
        let of = walk.databases().iter().find(|of| of.physical == kept.physical).expect("its database");
        let key = (of.logical, String::from_utf8_lossy(&kept.key).into_owned());
        let before = keys.insert(key, (String::from_utf8_lossy(&dump).into_owned(), kept.expiry));
        assert!(before.is_none(), "{} is there twice", String::from_utf8_lossy(&kept.key));
    }
    keys
}

fn run(cold: &mut Cold, act: &Act) {
    match act {
        Act::Command(words) => drop(cold.run(false, std::slice::from_ref(words))),
        Act::Block(all) => drop(cold.run(true, all)),
        Act::Checkpoint => cold.checkpoint(),
        Act::Evict => drop(cold.evict()),
        Act::Scan(db, options) => drop(cold.scan(*db, options, true)),
        // Nothing expires here.
        Act::Keys(..) | Act::Time(_) | Act::Sweep => {}
    }
}

fn acts(most: usize) -> impl Strategy<Value = Vec<Act>> {
    proptest::collection::vec(act(), 1..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn it_is_of_one_moment(
        before in acts(40),
        meanwhile in proptest::collection::vec((act(), 0..6usize), 1..40),
        evicts in any::<bool>(),
    ) {
        let mut cold = Cold::new();
        before.iter().for_each(|act| run(&mut cold, act));
        let expected = answered(&mut cold);
        if evicts {
            cold.now = cold.now + 1000;
            cold.serve();
            cold.checkpoint();
            cold.evict();
        }
        let mut walk = begin(&cold);
        let mut kept = Vec::new();
        let mut done = Ok(false);
        for (act, steps) in &meanwhile {
            run(&mut cold, act);
            done = take(&mut walk, *steps, &mut kept);
            if done != Ok(false) {
                break;
            }
        }
        while done == Ok(false) {
            done = take(&mut walk, 100, &mut kept);
        }
        let is_flush = |act: &Act| match act {
            Act::Command(words) => words[1] == "flushdb",
            Act::Block(all) => all.iter().any(|words| words[1] == "flushdb"),
            _ => false,
        };
        if done == Err(Spoiled::Emptied) {
            prop_assert!(meanwhile.iter().any(|(act, _)| is_flush(act)));
        } else {
            prop_assert_eq!(done, Ok(true));
            prop_assert_eq!(held(&walk, &kept), expected);
        }
    }
}

#[test]
fn what_changes_behind_the_walk_costs_nothing() {
    let mut cold = Cold::new();
    for n in 0..50 {
        cold.run(false, &one(&format!("0 set k{n} text")));
    }
    let mut walk = begin(&cold);
    let mut kept = Vec::new();
    assert_eq!(take(&mut walk, usize::MAX, &mut kept), Ok(true));
    assert_eq!(kept.len(), 50);
    for n in 0..50 {
        cold.run(false, &one(&format!("0 set k{n} other")));
    }
    assert_eq!(take(&mut walk, 1, &mut kept), Ok(true));
    assert_eq!(kept.len(), 50);
}

#[test]
fn a_database_that_is_emptied_spoils_it_and_the_next_one_is_whole() {
    let mut cold = Cold::new();
    cold.run(false, &one("0 set a text"));
    cold.run(false, &one("1 set b text"));
    let mut walk = begin(&cold);
    cold.run(false, &one("1 flushdb"));
    assert_eq!(take(&mut walk, usize::MAX, &mut Vec::new()), Err(Spoiled::Emptied));
    drop(walk);
    let (mut walk, mut kept) = (begin(&cold), Vec::new());
    assert_eq!(take(&mut walk, usize::MAX, &mut kept), Ok(true));
    assert_eq!(kept.len(), 1);
}

#[test]
fn a_store_that_cannot_be_read_spoils_it() {
    let mut cold = Cold::new();
    cold.run(false, &one("0 set a text"));
    cold.checkpoint();
    assert_eq!(cold.evict(), 1);
    cold.shelf.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut walk = begin(&cold);
    assert_eq!(take(&mut walk, usize::MAX, &mut Vec::new()), Err(Spoiled::Unreadable));
}
