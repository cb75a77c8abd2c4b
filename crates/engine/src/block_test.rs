//! The cost of a block, as a script may use as many undeclared keys as there are slots; and the versions that its
//! replies wait for.

use std::sync::Arc;

use clocks::UnixMs;
use command::Tunables;
use keyspace::Keyspace;
use redolog::{Intake, Lsn, Take, Watermarks};

use crate::testing::{run, with_call};
use crate::{Begin, Engine, Link, Shared};

#[test]
fn a_block_widens_over_most_slots_in_short_steps() {
    let mut engine = Engine::new(Arc::new(Shared::new(Keyspace::new(1, 1, 7))), 0, 1);
    engine.configure(Arc::new(Tunables { max_string: 1 << 20, databases: 1, ..Tunables::default() }), 0);
    engine.begin_turn(UnixMs(1_000_000_000_000));
    let mut out = Vec::new();
    let mut block = engine.begin_block(&Begin { may_widen: true, ..Begin::default() }, 0).ok().flatten().expect("free");
    let mut number = 0;
    while block.held().slots().len() < 12_000 {
        number += 1;
        let key = format!("k{number}");
        for words in [&["set", &key, "v"], &["mget", &key, "k1"]] {
            with_call(0, words, |call| {
                assert!(engine.widen_block(&mut block, call).is_ok(), "nobody else is there");
                engine.run_in_block(&mut block, call, &mut out);
            });
        }
    }
    assert!(block.held().slots().is_sorted());
    let (first, last) = (block.held().slots()[0], engine.last_version);
    engine.end_block(block, 0);
    let held = engine.acquire_one(first).expect("given back");
    assert!(engine.shared.keyspace.last_version(&held) >= last, "later writers come after all of the block");
    engine.release(held);
}

/// Rule L7: a block's reply waits for the versions that it has seen, and for none that no log will ever have. Its
/// working versions belong to no stream, wherever it has widened to.
#[test]
fn a_block_waits_for_what_a_log_will_have() {
    let shared = Arc::new(Shared::new(Keyspace::new(2, 1, 7)));
    let (_intakes, gates): (Vec<_>, Vec<_>) = (0..4).map(|_| Intake::new(2, Lsn::ZERO)).unzip();
    let mut links = [0, 1].map(|_| Link {
        gates: Vec::new(),
        marks: Arc::new(Watermarks::new(&[Lsn::ZERO; 4])),
        promises: true,
        late_from: 16,
        keeps_versions: false,
    });
    for of_stream in gates {
        links.iter_mut().zip(of_stream).for_each(|(link, gate)| link.gates.push(gate));
    }
    let mut index = 0;
    let [mut engine, mut other] = links.map(|link| {
        let mut engine = Engine::new(shared.clone(), index, 1);
        engine.configure(Arc::new(Tunables { max_string: 1 << 20, databases: 1, ..Tunables::default() }), 0);
        engine.log_to(Some(link));
        index += 1;
        engine
    });
    engine.begin_turn(UnixMs(1_000_000_000_000));
    // The other engine's clock is ahead, or it has done more.
    other.begin_turn(UnixMs(1_000_000_000_005));
    let mut out = Vec::new();
    for i in 0..50 {
        let keys = [format!("a{i}"), format!("b{i}")];
        run(&mut other, 0, &["set", &keys[1], "v"]);
        engine.take_seen();
        let mut block =
            engine.begin_block(&Begin { may_widen: true, ..Begin::default() }, 0).ok().flatten().expect("free");
        for key in &keys {
            for words in [&["incr", &format!("{key}n")][..], &["set", key, "w"], &["get", key]] {
                with_call(0, words, |call| {
                    assert!(engine.widen_block(&mut block, call).is_ok(), "nobody else is there");
                    engine.run_in_block(&mut block, call, &mut out);
                });
            }
        }
        engine.end_block(block, 0);
        let (seen, ends) = (engine.take_seen(), engine.ends());
        for version in seen.versions() {
            let end = ends.versions().iter().find(|end| end.stream() == version.stream());
            assert!(end.is_some_and(|end| version <= end), "{version} will never be in the log: {ends:?}");
        }
    }
}

/// Rule L5: with several streams, everything that a record may stand on is a record, even if it says nothing. Otherwise
/// a recovery could not know that it was committed.
#[test]
fn a_change_that_changes_nothing_is_a_record_where_others_may_stand_on_it() {
    let mut engine = Engine::new(Arc::new(Shared::new(Keyspace::new(1, 1, 7))), 0, 1);
    engine.configure(Arc::new(Tunables { max_string: 1 << 20, databases: 1, ..Tunables::default() }), 0);
    let (mut intakes, gates): (Vec<_>, Vec<_>) = (0..2).map(|_| Intake::new(1, Lsn::ZERO)).unzip();
    let gates = gates.into_iter().flatten().collect();
    engine.log_to(Some(Link {
        gates,
        marks: Arc::new(Watermarks::new(&[Lsn::ZERO; 2])),
        promises: true,
        late_from: 16,
        keeps_versions: false,
    }));
    engine.begin_turn(UnixMs(1_000_000_000_000));
    let mut records = |engine: &mut Engine, line: &str| {
        run(engine, 0, &line.split(' ').collect::<Vec<_>>());
        let stream = usize::from(keyspace::slot_of(b"z")) % 2;
        match intakes[stream].take(&mut Vec::new()) {
            Take::Taken(taken) => Some(taken.ends.len()),
            _ => None,
        }
    };
    assert_eq!(records(&mut engine, "zadd z 1 a"), Some(1));
    assert_eq!(records(&mut engine, "zadd z 1 a"), Some(1));
    assert_eq!(records(&mut engine, "zrem z b"), Some(1));
}

#[test]
fn others_count_the_keys_of_a_block_when_it_has_ended() {
    let mut engine = Engine::new(Arc::new(Shared::new(Keyspace::new(1, 1, 7))), 0, 1);
    engine.configure(Arc::new(Tunables { max_string: 1 << 20, databases: 1, ..Tunables::default() }), 0);
    engine.begin_turn(UnixMs(1_000_000_000_000));
    run(&mut engine, 0, &["mset", "a", "1", "b", "2"]);
    let (shared, mut out) = (engine.shared.clone(), Vec::new());
    let counted = || (shared.keyspace.len(0), shared.keyspace.expires(0));
    assert_eq!(counted(), (2, 0));
    let mut block = engine.begin_block(&Begin { may_widen: true, ..Begin::default() }, 0).ok().flatten().expect("free");
    for words in [&["del", "a", "b"][..], &["set", "c", "1", "px", "5000"], &["dbsize"]] {
        with_call(0, words, |call| {
            assert!(engine.widen_block(&mut block, call).is_ok(), "nobody else is there");
            engine.run_in_block(&mut block, call, &mut out);
        });
        assert_eq!(counted(), (2, 0), "after {words:?}");
        // The block may stand still while its worker does other work.
        if !block.held().is_all() {
            run(&mut engine, 0, &["set", "z", "1"]);
            assert_eq!(counted(), (3, 0), "after {words:?}");
            run(&mut engine, 0, &["del", "z"]);
        }
    }
    assert_eq!(out, b":2\r\n+OK\r\n:1\r\n", "the block itself sees what it has done");
    engine.end_block(block, 0);
    assert_eq!(counted(), (1, 1));
}
