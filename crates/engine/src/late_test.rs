//! Records whose values the log's thread writes have the values of the moment at which the command ran, with any later
//! changes.

use std::sync::Arc;

use clocks::UnixMs;
use command::{Tunables, effects};
use keyspace::{Held, Keyspace, Need};
use redolog::{Intake, Lsn, Take, Watermarks};

use crate::testing::{run, with_call};
use crate::{Begin, Engine, Link, Shared};

const DATABASES: u16 = 2;

fn engine() -> Engine {
    let mut engine = Engine::new(Arc::new(Shared::new(Keyspace::new(1, DATABASES.into(), 7))), 0, 1);
    engine.configure(Arc::new(Tunables { max_string: 1 << 24, databases: DATABASES, ..Tunables::default() }), 0);
    engine.begin_turn(UnixMs(1_000_000_000_000));
    engine
}

/// An engine, and the intake that takes its records.
fn logged() -> (Engine, Intake) {
    let mut engine = engine();
    let (intake, gates) = Intake::new(1, Lsn(0));
    let marks = Arc::new(Watermarks::new(&[Lsn(0)]));
    engine.log_to(Some(Link { gates, marks, promises: true, late_from: 10_000, keeps_versions: false }));
    (engine, intake)
}

/// Sets values of every kind, so large that the log's thread writes them.
fn fill(engine: &mut Engine) {
    for start in (0..1500).step_by(30) {
        let names: Vec<String> = (start..start + 30).map(|i| format!("element:{i:08}")).collect();
        let line = |command: &'static str, key: &'static str, before: &'static [&'static str]| {
            let mut words = vec![command, key];
            for name in &names {
                words.extend(before);
                words.push(name);
            }
            words
        };
        run(engine, 0, &line("rpush", "list", &[]));
        run(engine, 0, &line("sadd", "set", &[]));
        run(engine, 0, &line("zadd", "zset", &["1"]));
        let fields: Vec<&str> = names.iter().flat_map(|name| [name.as_str(), name.as_str()]).collect();
        run(engine, 0, &[&["hset", "hash"], &fields[..]].concat());
        run(engine, 0, &[&["xadd", "stream", "*"], &fields[..]].concat());
    }
    run(engine, 0, &["setrange", "string", "1000000", "x"]);
}

const KEYS: [&str; 6] = ["list", "set", "zset", "hash", "stream", "string"];

/// All keys, as DUMP shows them.
fn everything(engine: &mut Engine) -> Vec<(u16, String, String)> {
    let mut all = Vec::new();
    for db in 0..DATABASES {
        for key in KEYS.iter().flat_map(|key| [key.to_string(), format!("{key}2"), format!("{key}3")]) {
            let dumped = run(engine, db, &["dump", &key]);
            all.push((db, key, dumped));
        }
    }
    all
}

/// An engine with the contents that the records give.
fn replayed(intake: &mut Intake) -> Engine {
    let mut bytes = Vec::new();
    assert!(matches!(intake.take(&mut bytes), Take::Taken(_)), "nobody is inside");
    let mut other = engine();
    let shared = other.shared.clone();
    let held: Held = shared.keyspace.try_acquire(&Need::All, |_| {}).expect("nobody else is there");
    let limits = other.tunables().limits.clone();
    for record in redolog::Record::all(&bytes).map(|record| record.expect("our own record")) {
        for effect in effects::decode(record.effects) {
            let mut effect = effect.expect("our own effect");
            let mut db = other.db(&held, effect.db, keyspace::Version(record.lsn.0));
            effects::replay(&mut effect, &mut db, &limits).expect("what is there is as it was");
        }
    }
    other.release(held);
    other
}

#[test]
fn what_others_write_is_as_it_was_when_the_command_ran() {
    let (mut engine, mut intake) = logged();
    fill(&mut engine);
    for key in KEYS {
        let (second, third) = (format!("{key}2"), format!("{key}3"));
        run(&mut engine, 0, &["copy", key, &third]);
        run(&mut engine, 0, &["rename", key, &second]);
        run(&mut engine, 0, &["copy", &second, &second, "db", "1"]);
        assert!(engine.fx.encoded.is_empty() && engine.fx.late.is_empty(), "it is in the log");
    }
    // Earlier records have nothing of this.
    run(&mut engine, 0, &["rpush", "list2", "more"]);
    run(&mut engine, 0, &["sadd", "set2", "more"]);
    run(&mut engine, 0, &["hset", "hash2", "more", "1"]);
    run(&mut engine, 0, &["append", "string2", "more"]);
    run(&mut engine, 0, &["del", "zset2", "stream2", "list3"]);
    run(&mut engine, 0, &["zunionstore", "zset", "1", "zset3"]);
    run(&mut engine, 0, &["sunionstore", "set", "set3", "set2"]);
    run(&mut engine, 0, &["sort", "set3", "alpha", "store", "list"]);
    let now = everything(&mut engine);
    assert!(now == everything(&mut replayed(&mut intake)));
}

#[test]
fn so_it_is_in_blocks() {
    let (mut engine, mut intake) = logged();
    fill(&mut engine);
    for may_widen in [false, true] {
        let keys: Vec<u16> = ["hash", "hash2", "hash3"].iter().map(|key| keyspace::slot_of(key.as_bytes())).collect();
        let begin = Begin { may_widen, slots: &keys, ..Begin::default() };
        let mut out = Vec::new();
        let mut lines = |engine: &mut Engine, block: &mut crate::BlockRun, lines: &[&str]| {
            for line in lines {
                let words: Vec<&str> = line.split(' ').collect();
                with_call(0, &words, |call| {
                    assert!(engine.widen_block(block, call).is_ok(), "nobody else is there");
                    engine.run_in_block(block, call, &mut out);
                });
            }
        };
        let mut block = engine.begin_block(&begin, 0).ok().flatten().expect("free");
        let all = ["hset hash a 1", "rename hash hash2", "hset hash2 b 2", "copy hash2 hash3 replace", "hdel hash3 a"];
        lines(&mut engine, &mut block, &all);
        engine.end_block(block, 0);
        if may_widen {
            // Undone changes are in no record.
            let mut block = engine.begin_block(&begin, 0).ok().flatten().expect("free");
            lines(&mut engine, &mut block, &["rename hash2 hash", "hset hash undone 1"]);
            let _ = engine.undo_block(block, Need::All);
        }
        run(&mut engine, 0, &["rename", "hash2", "hash"]);
    }
    let now = everything(&mut engine);
    assert!(now == everything(&mut replayed(&mut intake)));
}
