//! Attempts beside plain commands, and their records.

use std::sync::Arc;

use clocks::UnixMs;
use command::{Tunables, effects::op};
use keyspace::{ColdFigures, Keyspace, Str};
use object::Limits;
use proptest::prelude::*;
use redolog::{Gate, Intake, Lsn, Take, Watermarks};
use txn::locks::Mode;
use txn::{HybridTime, Life, Lock, NodeId, Origin, Prepared, Record, Stamp, TxnId};

use super::{Locked, NotInstalled, Outcomes, restore_locks};
use crate::checkpoint::Replay;
use crate::testing::{run, try_run, with_call};
use crate::{Engine, Link, Shared};

pub(crate) const NOW: UnixMs = UnixMs(1_000_000_000_000);

pub(crate) fn engines<const N: usize>() -> [Engine; N] {
    let shared = Arc::new(Shared::new(Keyspace::new(N, 2, 7)));
    let mut index = 0;
    [(); N].map(|()| {
        let mut engine = Engine::new(shared.clone(), index, 1);
        engine.configure(Arc::new(Tunables { max_string: 1 << 20, databases: 2, ..Tunables::default() }), 0);
        engine.begin_turn(NOW);
        index += 1;
        engine
    })
}

pub(crate) fn tx(sequence: u64) -> (TxnId, Stamp) {
    let life = Life { node: NodeId(1), incarnation: 1 };
    let stamp = Stamp { time: HybridTime(sequence), node: NodeId(1), lane: 0 };
    (TxnId { origin: Origin { life, lane: 0 }, sequence, attempt: 1 }, stamp)
}

pub(crate) fn locks(keys: &[&str], mode: Mode) -> Arc<[Lock]> {
    Lock::normalized(keys.iter().map(|key| Lock { db: 0, key: key.as_bytes().into(), mode }).collect())
}

#[derive(Debug)]
pub(crate) enum Tried {
    Prepared(Arc<Prepared>, Vec<String>),
    Waits,
    Dies,
    GivenUp,
}

pub(crate) fn prepare(engine: &mut Engine, sequence: u64, keys: &Arc<[Lock]>, commands: &[&str]) -> Tried {
    go_on(engine, sequence, keys, commands, &mut false)
}

pub(super) fn go_on(
    engine: &mut Engine,
    sequence: u64,
    keys: &Arc<[Lock]>,
    commands: &[&str],
    asked: &mut bool,
) -> Tried {
    let (tx, stamp) = tx(sequence);
    let mut block = match engine.lock_attempt((tx, (stamp, false), keys), || true, asked, 1000 + sequence) {
        Err(_) => return Tried::Waits,
        Ok(Locked::Dies) => return Tried::Dies,
        Ok(Locked::GivenUp) => return Tried::GivenUp,
        Ok(Locked::Block(block)) => *block,
    };
    let mut replies = Vec::new();
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let mut out = Vec::new();
        with_call(0, &words, |call| engine.run_in_attempt(&mut block, call, &mut out));
        replies.push(String::from_utf8(out).unwrap());
    }
    let mut undone = engine.undo_attempt(&mut block);
    let effects = std::mem::take(&mut undone.effects).into();
    let prepared = Arc::new(Prepared { tx, stamp, members: Arc::from([]), locks: keys.clone(), effects });
    let _ = engine.prepare(block, prepared.clone(), undone);
    Tried::Prepared(prepared, replies)
}

pub(crate) fn prepared(tried: Tried) -> Arc<Prepared> {
    match tried {
        Tried::Prepared(prepared, _) => prepared,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn say(engine: &mut Engine, command: &str) -> String {
    run(engine, 0, &command.split(' ').collect::<Vec<_>>())
}

pub(super) fn waits(engine: &mut Engine, command: &str) -> bool {
    try_run(engine, 0, &command.split(' ').collect::<Vec<_>>()).is_none()
}

pub(crate) fn install(engine: &mut Engine, prepared: &Prepared) {
    assert!(engine.install(prepared, None, 0).expect("nobody else is there").is_ok());
}

/// The attempt's locks were given back before it asked for them: nothing would give a later claim back (rule T4).
#[test]
fn an_attempt_that_is_not_wanted_any_more_claims_nothing() {
    let [mut one] = engines();
    let keys = locks(&["a", "b"], Mode::Exclusive);
    let first = prepared(prepare(&mut one, 2, &locks(&["a"], Mode::Exclusive), &["set a 1"]));
    let (older, stamp) = tx(1);
    let tried = one.lock_attempt((older, (stamp, false), &keys), || false, &mut false, 7);
    assert!(matches!(tried, Ok(Locked::GivenUp)));
    assert_eq!(say(&mut one, "set b 1"), "+OK\r\n");
    install(&mut one, &first);
    assert!(!one.shared.transactions.any());
    assert_eq!(say(&mut one, "get a"), "$1\r\n1\r\n");
}

#[test]
fn what_is_prepared_is_seen_by_nobody_before_it_is_installed() {
    let [mut one, mut other] = engines();
    say(&mut one, "set a 1");
    say(&mut one, "rpush l x");
    let keys = locks(&["a", "l", "new"], Mode::Exclusive);
    let tried = prepare(&mut one, 1, &keys, &["incrby a 4", "rpush l y", "set new v px 100", "get a"]);
    let Tried::Prepared(prepared, replies) = tried else { panic!("{tried:?}") };
    assert_eq!(replies, [":5\r\n", ":2\r\n", "+OK\r\n", "$1\r\n5\r\n"]);
    assert!(waits(&mut other, "get a") && waits(&mut other, "mget b a"));
    assert_eq!(say(&mut other, "get b"), "$-1\r\n");
    let wakes = one.wakes.len();
    install(&mut one, &prepared);
    assert!(one.wakes.len() > wakes, "who waits is woken");
    assert_eq!(say(&mut other, "mget a new"), "*2\r\n$1\r\n5\r\n$1\r\nv\r\n");
    assert_eq!(say(&mut other, "lrange l 0 -1"), "*2\r\n$1\r\nx\r\n$1\r\ny\r\n");
    assert_eq!(say(&mut other, "pttl new"), ":100\r\n");
    assert!(!one.shared.transactions.any());
}

#[test]
fn what_is_aborted_has_not_been() {
    let [mut one] = engines();
    say(&mut one, "hset h f 1");
    let keys = locks(&["h", "s"], Mode::Exclusive);
    let prepared = prepared(prepare(&mut one, 1, &keys, &["hincrby h f 4", "sadd s a b", "del h"]));
    assert!(waits(&mut one, "exists s"));
    assert!(one.abort(prepared.tx, &keys, 0).is_ok());
    assert_eq!(say(&mut one, "hget h f"), "$1\r\n1\r\n");
    assert_eq!(say(&mut one, "exists s"), ":0\r\n");
}

#[test]
fn readers_read_together() {
    let [mut one] = engines();
    say(&mut one, "set a 1");
    let keys = locks(&["a"], Mode::Shared);
    let first = prepared(prepare(&mut one, 1, &keys, &["get a"]));
    let second = prepared(prepare(&mut one, 2, &keys, &["get a"]));
    assert_eq!(say(&mut one, "get a"), "$1\r\n1\r\n");
    assert!(waits(&mut one, "set a 2"));
    install(&mut one, &first);
    assert!(waits(&mut one, "set a 2"));
    install(&mut one, &second);
    assert_eq!(say(&mut one, "set a 2"), "+OK\r\n");
}

/// Rule T7: the older transaction waits, the younger is refused, and a plain command has its turn among them.
#[test]
fn locks_are_had_in_turn() {
    let [mut one] = engines();
    let keys = locks(&["a"], Mode::Exclusive);
    let first = prepared(prepare(&mut one, 5, &keys, &["append a 5"]));
    assert!(matches!(prepare(&mut one, 6, &keys, &[]), Tried::Dies));
    assert!(waits(&mut one, "append a p"));
    let mut asked = false;
    assert!(matches!(go_on(&mut one, 4, &keys, &["append a 4"], &mut asked), Tried::Waits));
    install(&mut one, &first);
    assert!(
        matches!(go_on(&mut one, 4, &keys, &["append a 4"], &mut asked), Tried::Waits),
        "the plain command is first"
    );
    assert_eq!(say(&mut one, "append a p"), ":2\r\n");
    let second = prepared(go_on(&mut one, 4, &keys, &["append a 4"], &mut asked));
    install(&mut one, &second);
    assert_eq!(say(&mut one, "get a"), "$3\r\n5p4\r\n");
    // A transaction gives up its place.
    let third = prepared(prepare(&mut one, 9, &keys, &["append a 9"]));
    assert!(waits(&mut one, "append a q"));
    let mut asked = false;
    assert!(matches!(go_on(&mut one, 8, &keys, &["append a 8"], &mut asked), Tried::Waits));
    assert!(one.unlock(tx(8).0, &keys, 0).is_ok());
    assert!(matches!(go_on(&mut one, 8, &keys, &["append a 8"], &mut asked), Tried::GivenUp));
    one.forget_claims(0);
    install(&mut one, &third);
    assert_eq!(say(&mut one, "get a"), "$4\r\n5p49\r\n");
}

/// Rule T10.
#[test]
fn who_works_on_everything_waits() {
    let [mut one] = engines();
    let (a, b) = (locks(&["a"], Mode::Exclusive), locks(&["b"], Mode::Exclusive));
    let first = prepared(prepare(&mut one, 1, &a, &["set a 1"]));
    assert!(waits(&mut one, "flushall"));
    assert!(matches!(prepare(&mut one, 2, &b, &["set b 1"]), Tried::Dies), "nobody comes before it");
    install(&mut one, &first);
    assert_eq!(say(&mut one, "flushall"), "+OK\r\n");
    let second = prepared(prepare(&mut one, 3, &b, &["set b 1"]));
    assert_eq!(say(&mut one, "exists a"), ":0\r\n");
    install(&mut one, &second);
}

/// The keys that SORT's patterns lead to are no arguments. It still waits for the locked keys of their slot, and for
/// nothing else.
#[test]
fn who_works_on_further_keys_of_a_slot_waits_for_all_that_is_locked_there() {
    let [mut one] = engines();
    say(&mut one, "rpush {a}list 1 2");
    say(&mut one, "mset {a}w_1 1 {a}w_2 2 b 1");
    // Locked keys of other slots, other databases and readers are not in its way.
    let elsewhere =
        [(0, "b"), (1, "{a}w_1")].map(|(db, key)| Lock { db, key: key.as_bytes().into(), mode: Mode::Exclusive });
    let elsewhere = Lock::normalized(elsewhere.into());
    let other = prepared(prepare(&mut one, 1, &elsewhere, &["set b 2"]));
    let reader = prepared(prepare(&mut one, 2, &locks(&["{a}w_1"], Mode::Shared), &["get {a}w_1"]));
    assert_eq!(say(&mut one, "sort {a}list by {a}w_*"), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    install(&mut one, &reader);

    let keys = locks(&["{a}w_1"], Mode::Exclusive);
    let sorts = ["sort {a}list by {a}w_*", "sort_ro {a}list by {a}w_*", "sort {a}list by none get {a}w_* store {a}to"];
    for (sequence, sort) in (1..).map(|round| 10 * round).zip(sorts) {
        let first = prepared(prepare(&mut one, sequence + 1, &keys, &["incrby {a}w_1 4"]));
        // Patterns that lead to no key need no further keys.
        assert_eq!(say(&mut one, "sort {a}list by none get # get none"), "*4\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n$-1\r\n");
        assert!(waits(&mut one, sort), "{sort}");
        assert!(matches!(prepare(&mut one, sequence + 2, &keys, &["incrby {a}w_1 1"]), Tried::Dies), "it has its turn");
        // A pattern may lead to a key that is locked later, too.
        let late = locks(&["{a}w_2"], Mode::Exclusive);
        let second = prepared(prepare(&mut one, sequence + 3, &late, &["incrby {a}w_2 1"]));
        install(&mut one, &first);
        assert!(waits(&mut one, sort), "{sort}");
        install(&mut one, &second);
        let reply = say(&mut one, sort);
        assert_eq!(reply, if sort.contains("store") { ":2\r\n" } else { "*2\r\n$1\r\n2\r\n$1\r\n1\r\n" }, "{sort}");
        let third = prepared(prepare(&mut one, sequence + 4, &keys, &["get {a}w_1"]));
        install(&mut one, &third);
    }
    assert_eq!(say(&mut one, "lrange {a}to 0 -1"), "*2\r\n$2\r\n13\r\n$1\r\n5\r\n");
    install(&mut one, &other);
}

#[test]
fn locked_keys_do_not_expire_by_themselves() {
    let [mut one] = engines();
    say(&mut one, "set a 1 px 10");
    let keys = locks(&["a"], Mode::Exclusive);
    let first = prepared(prepare(&mut one, 1, &keys, &["persist a"]));
    one.begin_turn(NOW + 20);
    while one.sweep(1, || true) == crate::Swept::Part {}
    assert_eq!(one.shared.keyspace.len(0), 1, "rule K6");
    install(&mut one, &first);
    assert_eq!(say(&mut one, "ttl a"), ":-1\r\n");
    say(&mut one, "pexpire a 10");
    let read = prepared(prepare(&mut one, 2, &locks(&["a"], Mode::Shared), &["get a"]));
    one.begin_turn(NOW + 40);
    while one.sweep(1, || true) == crate::Swept::Part {}
    assert_eq!(one.shared.keyspace.len(0), 1);
    install(&mut one, &read);
    while one.sweep(1, || true) == crate::Swept::Part {}
    assert_eq!(one.shared.keyspace.len(0), 0, "it was not forgotten");
}

fn logging(engine: &mut Engine) -> (Intake, Arc<Watermarks>, Vec<Gate>) {
    let (intake, mut gates) = Intake::new(2, Lsn(0));
    let own = gates.split_off(1);
    let marks = Arc::new(Watermarks::new(&[Lsn(0)]));
    engine.log_to(Some(Link { gates, marks: marks.clone(), promises: true, late_from: 16, keeps_versions: false }));
    engine.begin_turn(NOW);
    (intake, marks, own)
}

/// The engine that a start makes of these records.
fn replayed(bytes: &[u8]) -> (Engine, Outcomes) {
    let [mut engine] = engines();
    let mut records: Vec<_> = redolog::Record::all(bytes).map(|record| record.unwrap()).collect();
    records.sort_by_key(|record| record.lsn);
    let keyspace = Keyspace::new(2, 2, 7);
    let mut replay = Replay::new(&keyspace, keyspace.local(0), Limits::default(), None, NOW);
    records.iter().for_each(|record| replay.record(record.lsn, record.effects).unwrap());
    let outcomes = replay.finish().unwrap().outcomes;
    let shared = Arc::new(Shared::new(keyspace));
    assert!(restore_locks(&shared, &outcomes, |_| {}).unwrap());
    shared.transactions.restore(outcomes.clone());
    engine = Engine::new(shared, 1, engine.rng().next_u64());
    engine.configure(Arc::new(Tunables { max_string: 1 << 20, databases: 2, ..Tunables::default() }), 0);
    engine.begin_turn(NOW + 10);
    (engine, outcomes)
}

/// Rule T2: keys of a transaction in doubt are locked again, and its effects are then installed once.
#[test]
fn a_log_has_what_is_in_doubt() {
    let [mut one] = engines();
    let (mut intake, ..) = logging(&mut one);
    let keys = locks(&["a", "b"], Mode::Exclusive);
    say(&mut one, "set a 1");
    let first = prepared(prepare(&mut one, 1, &keys, &["incrby a 1", "rpush b x"]));
    let mut bytes = Vec::new();
    let mut take = |bytes: &mut Vec<u8>| match intake.take(bytes) {
        Take::Taken(taken) => taken.cut,
        _ => panic!("nothing was left"),
    };
    take(&mut bytes);
    let (mut again, outcomes) = replayed(&bytes);
    let in_doubt: Vec<_> = outcomes.prepared().cloned().collect();
    assert!(in_doubt.len() == 1 && in_doubt[0] == first);
    assert!(waits(&mut again, "get a") && waits(&mut again, "lrange b 0 -1"));
    install(&mut again, &in_doubt[0]);
    assert_eq!(say(&mut again, "get a"), "$1\r\n2\r\n");
    assert_eq!(say(&mut again, "lrange b 0 -1"), "*1\r\n$1\r\nx\r\n");
    // With its outcome.
    install(&mut one, &first);
    say(&mut one, "incrby a 5");
    let second = prepared(prepare(&mut one, 2, &keys, &["del a"]));
    assert!(one.abort(second.tx, &keys, 0).is_ok());
    assert!(one.refuse(tx(3).0, 0).is_ok());
    take(&mut bytes);
    let (mut again, outcomes) = replayed(&bytes);
    assert_eq!(outcomes.prepared().count(), 0);
    assert_eq!(outcomes, one.shared.transactions.outcomes());
    assert!(matches!(outcomes.records().last(), Some(Record::Refuse { .. })));
    assert_eq!(say(&mut again, "get a"), "$1\r\n7\r\n");
    assert_eq!(say(&mut again, "lrange b 0 -1"), "*1\r\n$1\r\nx\r\n");
}

/// Rule L7: an undone value is as uncommitted as before.
#[test]
fn what_is_put_back_waits_for_what_it_waited_for() {
    let [mut one] = engines();
    let (_intake, _marks, _own) = logging(&mut one);
    say(&mut one, "set a 1");
    one.take_seen();
    let keys = locks(&["a"], Mode::Exclusive);
    let first = prepared(prepare(&mut one, 1, &keys, &["set a 2"]));
    assert!(one.abort(first.tx, &keys, 0).is_ok());
    one.take_seen();
    say(&mut one, "get a");
    assert!(one.has_seen(), "it was set, and that is not committed");
}

/// The coordinator of an attempt may have more databases than this node.
#[test]
fn locks_of_a_database_that_there_is_not_are_harmless() {
    let [mut one] = engines();
    let key = Lock { db: 99, key: (*b"a").into(), mode: Mode::Exclusive };
    let keys = Lock::normalized(vec![key.clone(), Lock { db: 0, ..key }]);
    let shared = one.shared.clone();
    let held = one.acquire_one(keyspace::slot_of(b"b")).expect("nobody else is there");
    shared.keyspace.restore_cold(&held, keyspace::slot_of(b"b"), 0, ColdFigures::default(), &mut one.local);
    one.release(held);
    let prepared = prepared(prepare(&mut one, 1, &keys, &["set a 1"]));
    install(&mut one, &prepared);
    assert_eq!(say(&mut one, "get a"), "$1\r\n1\r\n");
}

/// Prepared effects from a disk are checked before anything is locked for them.
#[test]
fn what_cannot_be_installed_is_refused_at_the_start() {
    let [mut one] = engines();
    let restored = |effects: &[u8]| {
        let [one] = engines();
        let ((tx, stamp), locks) = (tx(1), locks(&["a"], Mode::Exclusive));
        let mut outcomes = Outcomes::default();
        let (members, effects) = (Arc::from([]), effects.into());
        outcomes.note(Record::Prepare(Arc::new(Prepared { tx, stamp, members, locks, effects })));
        let restored = restore_locks(&one.shared, &outcomes, |_| {});
        assert_eq!(restored.is_ok(), one.shared.transactions.any());
        restored.is_ok()
    };
    let sound = prepared(prepare(&mut one, 1, &locks(&["a", "b"], Mode::Exclusive), &["set a 1"]));
    assert!(restored(&sound.effects) && restored(b""));
    let other = prepared(prepare(&mut one, 2, &locks(&["c"], Mode::Exclusive), &["set c 1"]));
    assert!(!restored(&other.effects), "a key that is not locked");
    assert!(!restored(&sound.effects[..3]), "cut short");
    assert!(!restored(&[op::DELETE, 9, 1, b'a', 0]), "no such database");
    assert!(!restored(&[op::FLUSH, 0, 0, 1, 0]), "no entry");
}

proptest! {
    /// An effect of a transaction may hold any bytes, and they may say any number.
    #[test]
    fn no_effect_panics(bytes in prop::collection::vec(prop_oneof![Just(0u8), 1u8..5, any::<u8>()], 0..120)) {
        let keyspace = Keyspace::new(1, 1, 7);
        let mut replay = Replay::new(&keyspace, keyspace.local(0), Limits::default(), None, NOW);
        let record = [&[op::TRANSACTION, 0, 0, bytes.len() as u8], &bytes[..]].concat();
        let replayed = replay.record(Lsn(1 << 14), &record);
        prop_assert_eq!(replayed.is_ok(), Record::decode(&bytes).is_ok());
    }
}

/// Makes the list `l` another value, as if it had left memory and come back.
fn become_other(engine: &mut Engine, is_list: bool) {
    let shared = engine.shared.clone();
    let key = shared.keyspace.hasher().key(b"l");
    let held = shared.keyspace.try_one(key.slot).expect("nobody else is there");
    let mut db = engine.db(&held, 0, keyspace::Version(1));
    db.remove(&key);
    if !is_list {
        db.set_string(&key, b"text", false, keyspace::Expiry::Clear);
    }
    engine.release(held);
}

/// A damaged store may bring back another value than the one that a change was prepared for. Then nothing is done, and
/// an error says so.
#[test]
fn what_is_prepared_for_another_value_is_not_installed() {
    let [mut one, mut other] = engines();
    say(&mut one, "set a 1");
    say(&mut one, "rpush l x");
    let keys = locks(&["a", "l", "new"], Mode::Exclusive);
    let prepared = prepared(prepare(&mut one, 1, &keys, &["incrby a 4", "set new v", "rpush l y", "append a 0"]));
    become_other(&mut one, false);
    for _ in 0..2 {
        let refused = one.install(&prepared, None, 0).expect("nobody else is there").err();
        assert!(matches!(refused, Some(NotInstalled::Damaged(..))), "{refused:?}");
        assert!(one.fx.encoded.is_empty() && one.fx.touched.is_empty());
    }
    assert!(waits(&mut other, "get a") && waits(&mut other, "get new"), "it has its locks");
    let memory = |key: &str| {
        let shared = one.shared.clone();
        let key = shared.keyspace.hasher().key(key.as_bytes());
        let held = shared.keyspace.try_one(key.slot).expect("nobody else is there");
        let value = one.view(&held, 0).read_string(&key).expect("text").map(|text| text.to_vec());
        one.release(held);
        value
    };
    assert_eq!(["a", "l", "new"].map(memory), [Some(b"1".to_vec()), Some(b"text".to_vec()), None]);
    become_other(&mut one, true);
    install(&mut one, &prepared);
    assert_eq!(say(&mut other, "mget a new"), "*2\r\n$2\r\n50\r\n$1\r\nv\r\n");
    assert_eq!(say(&mut other, "lrange l 0 -1"), "*1\r\n$1\r\ny\r\n");
    assert!(!one.shared.transactions.any());
    // The same holds for bytes that are no effect.
    let unlocked = Prepared { locks: Arc::from([]), ..(*prepared).clone() };
    let broken = Prepared { effects: Arc::from(*b"\xff\xff"), ..unlocked.clone() };
    assert!(matches!(one.install(&broken, None, 0), Ok(Err(NotInstalled::Damaged(..)))));
    // And for effects on keys whose latches are not held.
    assert!(matches!(one.install(&unlocked, None, 0), Ok(Err(NotInstalled::Damaged(..)))));
    assert_eq!(say(&mut other, "mget a new"), "*2\r\n$2\r\n50\r\n$1\r\nv\r\n");
}

/// The install is tried again and again. Nothing in the log grows by that as long as nothing has changed.
#[test]
fn what_is_tried_in_vain_is_logged_once() {
    let [mut one] = engines();
    let (intakes, gates): (Vec<_>, Vec<_>) = (0..2).map(|_| Intake::new(1, Lsn(0))).unzip();
    let gates = gates.into_iter().flatten().collect();
    one.log_to(Some(Link {
        gates,
        marks: Arc::new(Watermarks::new(&[Lsn::ZERO; 2])),
        promises: true,
        late_from: 16,
        keeps_versions: false,
    }));
    one.begin_turn(NOW);
    let logged = || intakes.iter().map(|intake| intake.waiting().ever()).sum::<u64>();
    say(&mut one, "rpush l x");
    let prepared = prepared(prepare(&mut one, 1, &locks(&["l", "new"], Mode::Exclusive), &["set new v", "rpush l y"]));
    become_other(&mut one, false);
    let vain = |one: &mut Engine, before: Option<&NotInstalled>| {
        let refused = one.install(&prepared, before, 0).expect("nobody else is there").expect_err("it is no list");
        assert!(matches!(refused, NotInstalled::Damaged(..)), "{refused:?}");
        refused
    };
    let mut why = vain(&mut one, None);
    let first = logged();
    for _ in 0..5 {
        why = vain(&mut one, Some(&why));
        assert_eq!(logged(), first);
    }
    // Another value, but no better.
    become_other(&mut one, false);
    why = vain(&mut one, Some(&why));
    assert!(logged() > first);
    become_other(&mut one, true);
    assert!(one.install(&prepared, Some(&why), 0).expect("nobody else is there").is_ok());
    assert_eq!(say(&mut one, "lrange l 0 -1"), "*1\r\n$1\r\ny\r\n");
}

/// The journal of an install made copies of long strings: under all latches, without a check for memory.
#[test]
fn a_long_string_is_changed_in_place() {
    let [mut one] = engines();
    say(&mut one, &format!("set a {}", "x".repeat(100_000)));
    let keys = locks(&["a"], Mode::Exclusive);
    let prepared = prepared(prepare(&mut one, 1, &keys, &["setrange a 5 y"]));
    let place = |one: &mut Engine| {
        let shared = one.shared.clone();
        let key = shared.keyspace.hasher().key(b"a");
        let held = shared.keyspace.try_one(key.slot).expect("nobody else is there");
        let place = one.view(&held, 0).peek(&key).map(|entry| match entry.string() {
            Ok(Str::Blob(blob)) => (blob.as_ptr(), blob[5]),
            _ => panic!("a long string"),
        });
        one.release(held);
        place.expect("it is there")
    };
    let (before, _) = place(&mut one);
    install(&mut one, &prepared);
    assert_eq!(place(&mut one), (before, b'y'));
}
