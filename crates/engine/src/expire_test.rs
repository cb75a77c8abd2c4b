//! Expired keys that CLIENT PAUSE keeps, and commands that were under way when it began.

use command::effects::{decode, op};
use keyspace::Need;
use txn::locks::Mode;

use crate::testing::with_call;
use crate::transactions::tests::{NOW, engines, install, locks, prepare, prepared, say};
use crate::{Begin, Engine, Ran, Step};

/// An engine that keeps expired keys, with an expired string `k` and an expired hash `h`.
fn paused() -> Engine {
    let [mut engine] = engines();
    engine.fx.recording = true;
    for command in ["set k old px 10", "hset h old 1", "pexpire h 10"] {
        say(&mut engine, command);
    }
    engine.fx.encoded.clear();
    engine.begin_turn(NOW + 20);
    engine
}

/// The reply of a command that walks over the keys.
fn walk(engine: &mut Engine, command: &str) -> String {
    let mut out = Vec::new();
    let Ran::Walking(mut walking) = with_call(0, &[command], |call| engine.run(call, &mut out)) else {
        panic!("{command} does not walk");
    };
    while let Step::More = engine.step_walk(&mut walking, 0, &mut out) {}
    String::from_utf8_lossy(&out).into_owned()
}

fn operations(encoded: &[u8]) -> Vec<(u8, String)> {
    let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    decode(encoded).map(|effect| effect.map(|effect| (effect.op, key(effect.key))).expect("our own")).collect()
}

#[test]
fn what_a_block_writes_over_was_deleted_whenever_a_pause_began() {
    for commands in [&["hset k f v", "hset h f v"][..], &["mget k h", "hset k f v", "hset h f v"]] {
        let mut engine = paused();
        let begin = Begin { may_widen: true, ..Begin::default() };
        let mut block = engine.begin_block(&begin, 0).ok().flatten().expect("free");
        engine.keep_expired(true);
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            with_call(0, &words, |call| {
                assert!(engine.widen_block(&mut block, call).is_ok(), "nobody else is there");
                engine.run_in_block(&mut block, call, &mut Vec::new());
            });
        }
        let (encoded, _) = block.take_effects();
        engine.end_block(block, 0);
        for key in ["k", "h"] {
            let of_key: Vec<u8> =
                operations(&encoded).into_iter().filter(|(_, k)| k == key).map(|(op, _)| op).collect();
            assert_eq!(of_key.iter().filter(|&&op| op == op::DELETE).count(), 1, "{commands:?}: {of_key:?}");
            assert_eq!(of_key.first(), Some(&op::DELETE), "{commands:?}: {of_key:?}");
            assert_eq!(say(&mut engine, &format!("hgetall {key}")), "*2\r\n$1\r\nf\r\n$1\r\nv\r\n");
            assert_eq!(say(&mut engine, &format!("ttl {key}")), ":-1\r\n");
        }
    }
}

#[test]
fn what_a_part_of_a_transaction_writes_over_was_deleted_during_a_pause_as_well() {
    let mut engine = paused();
    engine.keep_expired(true);
    let keys = locks(&["k", "h"], Mode::Exclusive);
    let part = prepared(prepare(&mut engine, 1, &keys, &["mget k h", "hset k f v", "hset h f v"]));
    assert_eq!(operations(&part.effects).iter().filter(|(op, _)| *op == op::DELETE).count(), 2);
    install(&mut engine, &part);
    for key in ["k", "h"] {
        assert_eq!(say(&mut engine, &format!("hgetall {key}")), "*2\r\n$1\r\nf\r\n$1\r\nv\r\n");
        assert_eq!(say(&mut engine, &format!("ttl {key}")), ":-1\r\n");
    }
}

/// A command that has waited, and is served by one that was under way.
#[test]
fn what_a_writer_writes_over_is_deleted_and_what_a_reader_looks_for_is_kept() {
    let mut engine = paused();
    engine.keep_expired(true);
    assert_eq!(say(&mut engine, "mget k h"), "*2\r\n$-1\r\n$-1\r\n");
    assert!(operations(&std::mem::take(&mut engine.fx.encoded)).is_empty());
    say(&mut engine, "hset k f v");
    assert_eq!(operations(&std::mem::take(&mut engine.fx.encoded)).first(), Some(&(op::DELETE, "k".to_owned())));
    engine.keep_expired(false);
    assert_eq!(say(&mut engine, "exists h"), ":0\r\n");
    assert_eq!(operations(&engine.fx.encoded), [(op::DELETE, "h".to_owned())], "it was still there");
}

/// DBSIZE counts the keys that a pause keeps: RANDOMKEY then has one to name, as in Redis.
#[test]
fn randomkey_names_an_expired_key_when_a_pause_keeps_all() {
    let mut engine = paused();
    engine.keep_expired(true);
    let named = walk(&mut engine, "randomkey");
    assert!(["$1\r\nk\r\n", "$1\r\nh\r\n"].contains(&named.as_str()), "{named}");
    assert_eq!(walk(&mut engine, "dbsize"), ":2\r\n");
    say(&mut engine, "set x 1");
    assert_eq!(walk(&mut engine, "randomkey"), "$1\r\nx\r\n", "one that has not expired comes first");
    say(&mut engine, "del x");
    engine.keep_expired(false);
    assert_eq!(walk(&mut engine, "randomkey"), "$-1\r\n");
    assert_eq!(walk(&mut engine, "dbsize"), ":0\r\n");
}

/// A block that is undone and runs again is the same one, even if a pause has begun or ended meanwhile.
#[test]
fn a_block_that_runs_again_keeps_what_it_kept() {
    for keeps in [false, true] {
        let mut engine = paused();
        engine.keep_expired(keeps);
        let begin = Begin { may_widen: true, ..Begin::default() };
        let block = engine.begin_block(&begin, 0).ok().flatten().expect("free");
        let again = engine.undo_block(block, Need::Slots(Default::default()));
        engine.keep_expired(!keeps);
        let begin = Begin { may_widen: true, again: Some(&again), ..Begin::default() };
        let mut block = engine.begin_block(&begin, 0).ok().flatten().expect("free");
        with_call(0, &["exists", "k"], |call| {
            assert!(engine.widen_block(&mut block, call).is_ok(), "nobody else is there");
            engine.run_in_block(&mut block, call, &mut Vec::new());
        });
        let (encoded, _) = block.take_effects();
        engine.end_block(block, 0);
        let deleted = [(op::DELETE, "k".to_owned())];
        assert_eq!(operations(&encoded), if keeps { &[][..] } else { &deleted });
    }
}
