//! The rules of a standby's memory, one by one.

use std::sync::Arc;

use clocks::UnixMs;
use command::Generation;
use keyspace::{Keyspace, Need, Version};
use redolog::{Intake, Lsn, Take, Watermarks};

use crate::checkpoint::tests::model::{DATABASES, Model, NOW, tunables};
use crate::checkpoint::{Checkpointer, Step as Round, World};
use crate::follow::{Applier, Step};
use crate::testing::run;
use crate::{Engine, Link, Shared, Swept};

/// The records of some commands, at their times.
pub(super) fn records_of(lines: &[(UnixMs, &str)]) -> Vec<(Lsn, Vec<u8>)> {
    let mut engine = Engine::new(Arc::new(Shared::new(Keyspace::new(1, DATABASES, 7))), 0, 1);
    engine.configure(tunables(), 0);
    let (mut intake, gates) = Intake::new(1, Lsn(0));
    let marks = Arc::new(Watermarks::new(&[Lsn(0)]));
    engine.log_to(Some(Link { gates, marks, promises: true, late_from: 16, keeps_versions: true }));
    for (now, line) in lines {
        engine.begin_turn(*now);
        let reply = run(&mut engine, 0, &line.split(' ').collect::<Vec<_>>());
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        engine.end_turn();
    }
    let mut bytes = Vec::new();
    let Take::Taken(_) = intake.take(&mut bytes) else { panic!("nobody is inside") };
    let records = redolog::Record::all(&bytes).map(|record| record.expect("our own"));
    records.map(|record| (record.lsn, record.effects.to_vec())).collect()
}

/// A standby with an engine that reads, and its applier.
fn standby() -> (Engine, Applier) {
    let shared = Arc::new(Shared::new(Keyspace::new(3, DATABASES, 7)));
    let mut engine = Engine::new(shared.clone(), 0, 1);
    engine.configure(tunables(), u32::MAX);
    engine.only_read(true);
    engine.begin_turn(NOW);
    (engine, Applier::new(shared, 2, tunables().limits.clone(), None, 1))
}

fn follow(applier: &mut Applier, records: &[(Lsn, Vec<u8>)]) {
    let mut rest: Vec<(Lsn, &[u8])> = records.iter().map(|(lsn, bytes)| (*lsn, &bytes[..])).collect();
    while !rest.is_empty() {
        match applier.step(&rest, &mut |_| {}, &mut |_| {}).expect("our own records") {
            Step::Applied(count) => drop(rest.drain(..count)),
            step => panic!("{step:?}, though nobody else is there"),
        }
    }
}

/// Of a key: its version, and its slot's last one.
fn versions(shared: &Shared, key: &str) -> (Version, Version) {
    let keyspace = &shared.keyspace;
    let key = keyspace.hasher().key(key.as_bytes());
    let held = keyspace.try_one(key.slot).expect("nobody else is there");
    let versions = (keyspace.version_of(&held, 0, &key), keyspace.last_version(&held));
    keyspace.release(held, |_| {});
    versions
}

/// A checkpoint at a standby, or a transaction at its successor, compares versions with those of the owner's log.
#[test]
fn versions_are_the_owners_whatever_is_read() {
    let records = records_of(&[(NOW, "set k old px 10"), (NOW, "hset h f v"), (NOW, "hpexpire h 10 fields 1 f")]);
    let (mut engine, mut applier) = standby();
    follow(&mut applier, &records);
    let wanted = |n: usize| (Version(records[n].0.0), Version(records[n].0.0));
    assert_eq!(["k", "h"].map(|key| versions(&engine.shared, key)), [wanted(0), wanted(2)]);
    engine.end_turn();
    engine.begin_turn(NOW + 1000);
    assert_eq!(run(&mut engine, 0, &["get", "k"]), "$-1\r\n");
    assert_eq!(run(&mut engine, 0, &["mget", "k", "h"]), "*2\r\n$-1\r\n$-1\r\n");
    for line in ["hget h f", "hrandfield h"] {
        assert_eq!(run(&mut engine, 0, &line.split(' ').collect::<Vec<_>>()), "$-1\r\n", "{line}");
    }
    let begin = crate::Begin { slots: &[keyspace::slot_of(b"k")], ..crate::Begin::default() };
    let block = engine.begin_block(&begin, 0).ok().flatten().expect("nobody else is there");
    engine.end_block(block, 0);
    assert_eq!(engine.sweep(1, || true), Swept::All);
    assert_eq!(["k", "h"].map(|key| versions(&engine.shared, key)), [wanted(0), wanted(2)], "nothing is deleted");
    let told = engine.take_published();
    assert!(told.iter().all(|event| event.name == "keymiss"), "nobody is told of more: {told:?}");
}

#[test]
fn readers_that_may_write_are_refused_as_writers_are() {
    let records = records_of(&[(NOW, "pfadd p a b"), (NOW, "hset h f v"), (NOW, "hpexpire h 10 fields 1 f")]);
    let (mut engine, mut applier) = standby();
    follow(&mut applier, &records);
    engine.end_turn();
    engine.begin_turn(NOW + 1000);
    for line in ["set k 1", "pfcount p", "del h", "flushall", "getdel p"] {
        let reply = run(&mut engine, 0, &line.split(' ').collect::<Vec<_>>());
        assert!(reply.starts_with("-READONLY "), "{line}: {reply}");
    }
    let lines = ["hset h g w", "get k"];
    let slots = ["h", "k"].map(|key| keyspace::slot_of(key.as_bytes()));
    let begin = crate::Begin { slots: &slots, ..crate::Begin::default() };
    let mut block = engine.begin_block(&begin, 0).ok().flatten().expect("nobody else is there");
    let mut out = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        crate::testing::with_call(0, &words, |call| engine.run_in_block(&mut block, call, &mut out));
    }
    engine.end_block(block, 0);
    let replies = String::from_utf8_lossy(&out);
    assert!(replies.starts_with("-READONLY ") && replies.ends_with("\r\n$-1\r\n"), "{replies}");
}

/// Rule S1 is the caller's; this is a net below it.
#[test]
fn a_record_below_the_last_one_is_refused() {
    let records = records_of(&[(NOW, "set k 1"), (NOW, "set k 2")]);
    let (_, mut applier) = standby();
    let [first, second] = [0, 1].map(|n: usize| (records[n].0, &records[n].1[..]));
    assert!(applier.step(&[second, first], &mut |_| {}, &mut |_| {}).is_err());
    assert_eq!(applier.applied().last(), Lsn::ZERO, "nothing of it is applied");
    assert_eq!(applier.step(&[second], &mut |_| {}, &mut |_| {}).ok(), Some(Step::Applied(1)));
    assert!(applier.step(&[first], &mut |_| {}, &mut |_| {}).is_err());
}

/// Half a record is worse than none: nobody may read it, nor a checkpoint have it.
#[test]
fn what_is_half_applied_stays_latched() {
    let records = records_of(&[(NOW, "mset a 1 b 2")]);
    let (engine, mut applier) = standby();
    // An effect that no family knows.
    let damaged = [&records[0].1[..], b"\x7f\x00\x01a\x00"].concat();
    assert!(applier.step(&[(records[0].0, &damaged)], &mut |_| {}, &mut |_| {}).is_err());
    let keyspace = &engine.shared.keyspace;
    assert!([b"a", b"b"].iter().all(|key| keyspace.try_one(keyspace::slot_of(*key)).is_none()));
    assert_eq!(applier.applied().last(), Lsn::ZERO);
}

/// A generation goes on from a checkpoint of its own (rule L13), which this standby does not have.
#[test]
fn a_log_that_begins_anew_is_not_followed() {
    let (_, mut applier) = standby();
    let mark = Generation::Begins(NOW).encode();
    assert!(applier.step(&[(Lsn(0x100), &mark)], &mut |_| {}, &mut |_| {}).is_err());
}

/// Batches are as small as a latch may be held, and a flush of everything waits for readers.
#[test]
fn a_batch_that_starves_reserves_its_latches() {
    let records = records_of(&[(NOW, "set k 1"), (NOW, "flushall")]);
    let (engine, mut applier) = standby();
    let keyspace = &engine.shared.keyspace;
    let rest: Vec<(Lsn, &[u8])> = records.iter().map(|(lsn, bytes)| (*lsn, &bytes[..])).collect();
    let step = |applier: &mut Applier, rest: &[(Lsn, &[u8])]| {
        applier.step(rest, &mut |_| {}, &mut |_| {}).expect("our own records")
    };
    assert_eq!(step(&mut applier, &rest), Step::Applied(1));
    let slot = keyspace::slot_of(b"k");
    let held = keyspace.try_one(slot).expect("nobody else is there");
    (0..20).for_each(|_| assert_eq!(step(&mut applier, &rest[1..]), Step::Busy));
    let other = keyspace::slot_of(b"other");
    assert!(keyspace.try_one(other).is_none(), "newcomers are kept out");
    keyspace.release(held, |_| {});
    assert_eq!(step(&mut applier, &rest[1..]), Step::Applied(1));
    assert_eq!(keyspace.len(0), 0);
    keyspace.release(keyspace.try_acquire(&Need::All, |_| {}).expect("all is free"), |_| {});
}

/// A round that began before would take what is missing for covered.
#[test]
fn no_round_begins_before_memory_is_as_of_one_moment() {
    struct Never;
    impl World for Never {
        fn left(&self) -> Vec<Lsn> {
            Vec::new()
        }
        fn committed(&self) -> Vec<Lsn> {
            Vec::new()
        }
        fn applied(&self) -> Option<Vec<Lsn>> {
            None
        }
        fn cut(&mut self, _: &[Lsn]) {}
        fn wake(&mut self, _: keyspace::Waiter) {}
        fn libraries(&self) -> Vec<u8> {
            Vec::new()
        }
        fn now(&self) -> UnixMs {
            NOW
        }
        fn nanos(&self) -> u64 {
            0
        }
    }
    let (engine, _) = standby();
    let mut checkpointer = Checkpointer::new(engine.shared.clone(), Arc::new(Model::default()), 7, None);
    assert_eq!(checkpointer.begin(&mut Never), Round::Waiting);
    assert!(!checkpointer.is_running());
}
