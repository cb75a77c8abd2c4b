//! Waits beside attempts, and their length: of plain commands, and of blocking commands.

use keyspace::Need;
use resp::{Batch, Protocol};
use txn::locks::Mode;

use super::locks::LOOKS_ON_MAX;
use super::tests::{NOW, Tried, engines, go_on, install, locks, prepare, prepared, say};
use crate::testing::row;
use crate::{Begin, Call, Caller, Engine, Ran, Seat, Step};

/// Runs a command of the connection `token`.
fn run(engine: &mut Engine, token: u64, seat: Option<&Seat>, command: &str, out: &mut Vec<u8>) -> Ran {
    let words: Vec<&str> = command.split(' ').collect();
    let mut batch = Batch::new();
    assert!(batch.push_copy(words.iter().map(|word| word.as_bytes())));
    let call = Call {
        row: row(words[0]),
        args: batch.args(0, &[]),
        first: None,
        db: 0,
        protocol: Protocol::Resp2,
        token,
        seat,
        caller: Caller::default(),
    };
    engine.run(&call, out)
}

/// The reply; `None`: the command waits.
fn plain(engine: &mut Engine, token: u64, command: &str) -> Option<String> {
    let mut out = Vec::new();
    match run(engine, token, None, command, &mut out) {
        Ran::Done => {}
        Ran::Busy(_) => return None,
        Ran::Walking(mut walking) => while let Step::More = engine.step_walk(&mut walking, token, &mut out) {},
        Ran::Blocked(_) => panic!("{command} blocks"),
    }
    Some(String::from_utf8(out).unwrap())
}

/// A command that waits for keys.
fn blocks(engine: &mut Engine, token: u64, seat: &Seat, command: &str) {
    assert!(matches!(run(engine, token, Some(seat), command, &mut Vec::new()), Ran::Blocked(_)), "{command}");
}

fn has_served(engine: &mut Engine) -> Vec<u64> {
    while engine.has_leftovers() {
        engine.unwatch_leftovers();
    }
    engine.served.drain(..).map(|served| served.waiter.token).collect()
}

#[test]
fn a_transaction_comes_to_its_turn_among_plain_commands_that_never_stop_coming() {
    let [mut one] = engines();
    let _open = prepared(prepare(&mut one, 50, &locks(&["other"], Mode::Exclusive), &["set other 1"]));
    let keys = locks(&["k"], Mode::Exclusive);
    let older = prepared(prepare(&mut one, 100, &keys, &["set k 1"]));
    assert_eq!(plain(&mut one, 1, "incr k"), None);
    assert!(matches!(prepare(&mut one, 200, &keys, &["incr k"]), Tried::Dies), "100 is older");
    install(&mut one, &older);
    for token in 1..100 {
        // The next command comes before the one before it has run.
        assert_eq!(plain(&mut one, token + 1, "incr k"), None);
        assert_eq!(plain(&mut one, token, "incr k"), Some(format!(":{}\r\n", token + 1)));
    }
    assert!(matches!(prepare(&mut one, 200, &keys, &["incr k"]), Tried::Waits), "nobody is older any more");
}

/// Rule K6.
#[test]
fn walks_leave_keys_alone_that_are_locked_though_their_time_has_come() {
    let [mut one] = engines();
    say(&mut one, "set a 1 px 10");
    say(&mut one, "set b 1 px 10");
    let first = prepared(prepare(&mut one, 1, &locks(&["z"], Mode::Exclusive), &["set z 1"]));
    assert_eq!(plain(&mut one, 7, "scan 0 count 1000"), None, "it waits for those that are there");
    let second = prepared(prepare(&mut one, 2, &locks(&["a"], Mode::Exclusive), &["persist a"]));
    install(&mut one, &first);
    one.begin_turn(NOW + 20);
    assert_eq!(plain(&mut one, 7, "scan 0 count 1000").unwrap(), "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nz\r\n");
    assert_eq!(one.shared.keyspace.len(0), 2, "a and z: b is gone");
    install(&mut one, &second);
    assert_eq!(say(&mut one, "ttl a"), ":-1\r\n", "what was prepared is done");
}

/// A plain command that was granted a key and has not run has not changed the key.
#[test]
fn who_waits_is_served_beside_plain_commands_that_hold_keys() {
    let [mut one, mut two] = engines();
    let seat = Seat::default();
    blocks(&mut one, 5, &seat, "blmove src dst left right 0");
    let _open = prepared(prepare(&mut one, 50, &locks(&["other"], Mode::Exclusive), &["set other 1"]));
    let pushes = prepared(prepare(&mut one, 100, &locks(&["dst"], Mode::Exclusive), &["rpush dst t"]));
    assert_eq!(plain(&mut two, 6, "rpush dst p"), None);
    assert!(plain(&mut one, 7, "rpush src x").is_some());
    assert!(has_served(&mut one).is_empty(), "dst is locked");
    install(&mut one, &pushes);
    assert_eq!(has_served(&mut one), [5]);
    assert!(plain(&mut two, 6, "rpush dst p").is_some());
    assert_eq!(say(&mut one, "llen src"), ":0\r\n");
}

/// Rule K4.
#[test]
fn a_chain_of_those_who_wait_is_served_when_a_lock_is_gone() {
    let [mut one] = engines();
    let seats: [Seat; 3] = Default::default();
    blocks(&mut one, 5, &seats[0], "blmove src mid left right 0");
    blocks(&mut one, 6, &seats[1], "blmove mid end left right 0");
    blocks(&mut one, 7, &seats[2], "blmove end last left right 0");
    let reads = prepared(prepare(&mut one, 100, &locks(&["mid"], Mode::Exclusive), &["exists mid"]));
    assert!(plain(&mut one, 8, "rpush src x").is_some());
    assert!(has_served(&mut one).is_empty(), "mid is locked");
    install(&mut one, &reads);
    assert_eq!(has_served(&mut one), [5, 6, 7]);
    assert_eq!(say(&mut one, "lpop last"), "$1\r\nx\r\n");
}

/// Rule K4, if a script finds out which key it changes.
#[test]
fn a_block_that_widens_takes_what_a_whole_chain_needs() {
    let [mut one] = engines();
    let seats: [Seat; 3] = Default::default();
    blocks(&mut one, 5, &seats[0], "blmove src mid left right 0");
    blocks(&mut one, 6, &seats[1], "blmove mid end left right 0");
    blocks(&mut one, 7, &seats[2], "blmove end last left right 0");
    let mut batch = Batch::new();
    assert!(batch.push_copy([&b"rpush"[..], b"src", b"x"].into_iter()));
    let call = Call {
        row: row("rpush"),
        args: batch.args(0, &[]),
        first: None,
        db: 0,
        protocol: Protocol::Resp2,
        token: 8,
        seat: None,
        caller: Caller::default(),
    };
    let Ok(Some(mut block)) = one.begin_block(&Begin { may_widen: true, ..Begin::default() }, 8) else { panic!() };
    assert!(one.widen_block(&mut block, &call).is_ok());
    one.run_in_block(&mut block, &call, &mut Vec::new());
    one.end_block(block, 0);
    assert_eq!(has_served(&mut one), [5, 6, 7]);
}

/// A command that has claimed keys and comes to need everything waits for transactions that wait for these keys.
#[test]
fn a_block_that_waits_for_everything_keeps_no_claims() {
    let [mut one] = engines();
    let begin = Begin { declared: &[(0, b"a")], may_widen: true, ..Begin::default() };
    let first = prepared(prepare(&mut one, 50, &locks(&["a"], Mode::Exclusive), &["set a 1"]));
    assert!(one.begin_block(&begin, 8).is_err(), "it claims its key");
    let (keys, mut asked) = (locks(&["a", "b"], Mode::Exclusive), false);
    assert!(matches!(go_on(&mut one, 40, &keys, &["incr a"], &mut asked), Tried::Waits));
    install(&mut one, &first);
    let Ok(Some(mut block)) = one.begin_block(&begin, 8) else { panic!("its turn") };
    assert!(one.widen_block_to(&mut block, Need::All).is_err(), "a transaction is there");
    one.undo_block(block, Need::All);
    let second = prepared(go_on(&mut one, 40, &keys, &["incr a"], &mut asked));
    install(&mut one, &second);
    let Ok(Some(mut block)) = one.begin_block(&begin, 8) else { panic!("nobody is there") };
    assert!(one.widen_block_to(&mut block, Need::All).is_ok());
    one.end_block(block, 0);
    assert_eq!(say(&mut one, "get a"), "$1\r\n2\r\n");
}

/// SORT with patterns waits for the keys that it has claimed. Keys that are locked later stay open to others until it
/// has had its turn.
#[test]
fn who_works_on_further_keys_claims_none_while_it_waits() {
    let [mut one] = engines();
    plain(&mut one, 1, "rpush {a}list 1 2");
    let sort = "sort {a}list by {a}w_*";
    let lock = |one: &mut Engine, sequence, key: &str| {
        prepared(prepare(one, sequence, &locks(&[key], Mode::Exclusive), &[&format!("incrby {key} 3")]))
    };
    let long = lock(&mut one, 50, "{a}w_1");
    let brief = lock(&mut one, 60, "{a}w_2");
    assert_eq!(plain(&mut one, 7, sort), None);
    let later = lock(&mut one, 70, "{a}w_3");
    install(&mut one, &brief);
    assert_eq!(plain(&mut one, 7, sort), None, "it has one of two");
    assert_eq!(plain(&mut one, 8, "incr {a}w_2"), None, "nobody comes before it");
    install(&mut one, &later);
    assert_eq!(plain(&mut one, 9, "incr {a}w_3").unwrap(), ":4\r\n", "it does not wait for this one");
    install(&mut one, &long);
    assert_eq!(plain(&mut one, 7, sort).unwrap(), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    assert_eq!(plain(&mut one, 8, "incr {a}w_2").unwrap(), ":4\r\n");
}

/// Transactions may lock other keys of a slot again and again, the next one before the last one has ended.
#[test]
fn who_works_on_further_keys_has_its_turn_among_transactions_that_never_stop_coming() {
    let [mut one] = engines();
    plain(&mut one, 1, "rpush {a}list 1 2");
    let sort = "sort {a}list by {a}w_*";
    let lock = |one: &mut Engine, sequence: u64| {
        let key = format!("{{a}}n_{sequence}");
        prepare(one, sequence, &locks(&[&key], Mode::Exclusive), &[&format!("set {key} 1")])
    };
    let mut last = prepared(lock(&mut one, 1));
    let refused = (2..1000).find(|sequence| {
        assert_eq!(plain(&mut one, 7, sort), None);
        match lock(&mut one, *sequence) {
            Tried::Prepared(next, _) => {
                let ended = std::mem::replace(&mut last, next);
                install(&mut one, &ended);
            }
            Tried::Dies => return true,
            other => panic!("{other:?}"),
        }
        false
    });
    assert!(refused.is_some(), "they come for ever");
    assert_eq!(one.claimed(7).count(), 0, "nobody may wait for it who is waited for");
    install(&mut one, &last);
    assert_eq!(plain(&mut one, 7, sort).unwrap(), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    prepared(lock(&mut one, 1000));
}

/// One transaction may have locked many keys: SORT waits for that one, and for no other.
#[test]
fn who_works_on_further_keys_may_find_many_at_once() {
    let [mut one] = engines();
    plain(&mut one, 1, "rpush {a}list 1 2");
    let many: Vec<String> = (0..2 * LOOKS_ON_MAX).map(|n| format!("{{a}}n_{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let elsewhere = prepared(prepare(&mut one, 1, &locks(&["b"], Mode::Exclusive), &["set b 1"]));
    let first = prepared(prepare(&mut one, 2, &locks(&many, Mode::Exclusive), &["set {a}n_1 1"]));
    let sort = "sort {a}list by {a}w_*";
    assert_eq!(plain(&mut one, 7, sort), None);
    assert_eq!(plain(&mut one, 7, sort), None, "woken too early");
    install(&mut one, &first);
    assert_eq!(plain(&mut one, 7, sort).unwrap(), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    install(&mut one, &elsewhere);
}

/// A script that runs again may come to other keys, and back to those that it had claimed.
#[test]
fn what_is_to_be_given_back_and_is_claimed_again_is_claimed_once() {
    let [mut one, mut two] = engines();
    let other = prepared(prepare(&mut one, 50, &locks(&["other"], Mode::Exclusive), &["set other 1"]));
    let keys = prepared(prepare(&mut one, 100, &locks(&["a", "b"], Mode::Exclusive), &["mset a 1 b 1"]));
    assert_eq!(plain(&mut one, 5, "mget a b"), None);
    assert_eq!(plain(&mut one, 5, "set b 2"), None, "the claim of a is to be given back");
    assert_eq!(plain(&mut one, 5, "mget a b"), None);
    install(&mut one, &keys);
    has_served(&mut one);
    assert_eq!(plain(&mut one, 5, "mget a b").unwrap(), "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
    // The next command of a connection, after the one before it was given up while a latch was busy.
    let keys = prepared(prepare(&mut one, 200, &locks(&["a"], Mode::Exclusive), &["set a 2"]));
    assert_eq!(plain(&mut one, 5, "incr a"), None);
    let held = two.acquire_one(keyspace::slot_of(b"a")).expect("nobody else is there");
    one.forget_claims(5);
    two.release(held);
    install(&mut one, &keys);
    assert_eq!(plain(&mut one, 5, "incr a").unwrap(), ":3\r\n");
    has_served(&mut one);
    install(&mut one, &other);
    assert!(!one.has_leftovers() && !one.shared.transactions.any());
}

/// A transaction may be in doubt for long, as a node is out of reach.
#[test]
fn who_waits_for_everything_keeps_others_out_only_while_that_may_end_soon() {
    let [mut one] = engines();
    let in_doubt = prepared(prepare(&mut one, 1, &locks(&["a"], Mode::Exclusive), &["set a 1"]));
    assert_eq!(plain(&mut one, 7, "flushall"), None);
    assert!(matches!(prepare(&mut one, 2, &locks(&["b"], Mode::Exclusive), &["set b 1"]), Tried::Dies));
    one.begin_turn(NOW + 2000);
    let other = prepared(prepare(&mut one, 3, &locks(&["b"], Mode::Exclusive), &["set b 1"]));
    install(&mut one, &in_doubt);
    assert_eq!(plain(&mut one, 7, "flushall"), None);
    assert!(matches!(prepare(&mut one, 4, &locks(&["c"], Mode::Exclusive), &["set c 1"]), Tried::Dies));
    install(&mut one, &other);
    assert!(matches!(prepare(&mut one, 5, &locks(&["c"], Mode::Exclusive), &["set c 1"]), Tried::Dies), "its turn");
    assert_eq!(plain(&mut one, 7, "flushall").unwrap(), "+OK\r\n");
    let _c = prepared(prepare(&mut one, 6, &locks(&["c"], Mode::Exclusive), &["set c 1"]));
}

/// Many may wait for one key, one after the other.
#[test]
fn who_waits_in_a_long_queue_is_not_in_doubt() {
    let [mut one] = engines();
    let keys = locks(&["a"], Mode::Exclusive);
    let newest = prepared(prepare(&mut one, 9, &keys, &["incr a"]));
    let mut asked = false;
    assert!(matches!(go_on(&mut one, 8, &keys, &["incr a"], &mut asked), Tried::Waits));
    one.begin_turn(NOW + 900);
    install(&mut one, &newest);
    assert_eq!(plain(&mut one, 7, "flushall"), None);
    one.begin_turn(NOW + 1800);
    let next = prepared(go_on(&mut one, 8, &keys, &["incr a"], &mut asked));
    one.begin_turn(NOW + 2700);
    let newcomer = |one: &mut Engine| prepare(one, 10, &locks(&["b"], Mode::Exclusive), &["set b 1"]);
    assert!(matches!(newcomer(&mut one), Tried::Dies), "it has had its locks for less than a second");
    install(&mut one, &next);
    assert_eq!(plain(&mut one, 7, "flushall").unwrap(), "+OK\r\n");
    prepared(newcomer(&mut one));
}
