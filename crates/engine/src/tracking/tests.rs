use std::sync::Arc;

use clocks::UnixMs;
use keyspace::Keyspace;
use resp::{Batch, Protocol};

use crate::testing::row;
use crate::{Begin, Call, Caller, Engine, Invalidation, Ran, Shared, Swept};

const NOW: UnixMs = UnixMs(1_000_000_000_000);

struct Hand {
    engine: Engine,
}

impl Hand {
    fn new() -> Self {
        let shared = Arc::new(Shared::new(Keyspace::new(1, 2, 7)));
        let mut engine = Engine::new(shared, 0, 7);
        engine.begin_turn(NOW);
        Self { engine }
    }

    /// Runs a command for a client.
    fn run(&mut self, client: u64, caches: bool, words: &[&str]) {
        self.with(client, caches, words, |engine, call| {
            assert!(matches!(engine.run(call, &mut Vec::new()), Ran::Done));
        });
    }

    /// Runs a command for a client that caches. Returns its reply.
    fn reply(&mut self, client: u64, words: &[&str]) -> String {
        let mut out = Vec::new();
        self.with(client, true, words, |engine, call| assert!(matches!(engine.run(call, &mut out), Ran::Done)));
        String::from_utf8(out).expect("text")
    }

    fn with<R>(&mut self, client: u64, caches: bool, words: &[&str], f: impl FnOnce(&mut Engine, &Call<'_>) -> R) -> R {
        let mut batch = Batch::new();
        assert!(batch.push_copy(words.iter().map(|word| word.as_bytes())));
        let caller = Caller { client, caches };
        let args = batch.args(0, &[]);
        let call = Call {
            row: row(words[0]),
            args,
            first: None,
            db: 0,
            protocol: Protocol::Resp3,
            token: 0,
            seat: None,
            caller,
        };
        f(&mut self.engine, &call)
    }

    /// The invalidations since: the key, the client that changed it, and the readers.
    fn said(&mut self) -> Vec<(String, u64, Vec<u64>)> {
        let text = |key: Box<[u8]>| String::from_utf8(key.into()).expect("text");
        let said = self.engine.take_invalidated().into_iter().map(|invalidation| match invalidation {
            Invalidation::Key { key, by, readers, .. } => (text(key), by, readers),
            Invalidation::All => ("everything".into(), 0, Vec::new()),
        });
        said.collect()
    }

    fn tracked(&self) -> (u64, u64) {
        (self.engine.shared.tracking.keys(), self.engine.shared.tracking.items())
    }
}

fn key(key: &str, by: u64, readers: &[u64]) -> (String, u64, Vec<u64>) {
    (key.into(), by, readers.into())
}

#[test]
fn a_change_is_told_once_to_those_who_have_read() {
    let mut hand = Hand::new();
    for client in [3, 1, 2, 1] {
        hand.run(client, true, &["mget", "a", "b"]);
    }
    hand.run(9, false, &["get", "a"]);
    assert_eq!(hand.tracked(), (2, 6));
    hand.run(1, true, &["set", "a", "1"]);
    hand.run(1, true, &["set", "a", "2"]);
    assert_eq!(hand.said(), [key("a", 1, &[1, 2, 3])]);
    assert_eq!(hand.tracked(), (1, 3));
    hand.run(2, true, &["flushall"]);
    assert_eq!(hand.said(), [key("everything", 0, &[])]);
    assert_eq!(hand.tracked(), (0, 0));
}

#[test]
fn expiry_is_nobodys_change() {
    let mut hand = Hand::new();
    hand.run(1, true, &["set", "a", "1", "px", "10"]);
    hand.run(1, true, &["get", "a"]);
    hand.engine.begin_turn(NOW + 11);
    hand.run(1, true, &["get", "a"]);
    assert_eq!(hand.said(), [key("a", 0, &[1])]);
    assert_eq!(hand.tracked(), (1, 1), "it was read after that");
}

/// A field is deleted when a command finds it or the sweep does, and readers of its key hear of it then. Commands that
/// list a whole hash pass over it: the readers of the hash have to stay known.
#[test]
fn fields_that_expire_are_told_of_when_they_go() {
    for finder in ["sweep", "hget"] {
        let mut hand = Hand::new();
        hand.run(9, false, &["hsetex", "h", "px", "10", "fields", "1", "f", "v"]);
        assert_eq!(hand.reply(1, &["hgetall", "h"]), "%1\r\n$1\r\nf\r\n$1\r\nv\r\n");
        hand.engine.begin_turn(NOW + 11);
        assert_eq!(hand.reply(2, &["hgetall", "h"]), "%0\r\n");
        assert_eq!((hand.said(), hand.tracked()), (vec![], (1, 2)), "it is there still");
        match finder {
            "sweep" => assert_eq!(hand.engine.sweep(1, || true), Swept::All),
            _ => hand.run(9, false, &["hget", "h", "f"]),
        }
        assert_eq!(hand.said(), [key("h", 0, &[1, 2])], "{finder}");
        assert_eq!(hand.tracked(), (0, 0));
    }
}

#[test]
fn a_block_is_told_in_order_when_it_has_ended() {
    let mut hand = Hand::new();
    hand.run(2, true, &["get", "a"]);
    let lines: [&[&str]; 4] = [&["set", "a", "1"], &["get", "a"], &["get", "b"], &["set", "b", "1"]];
    let mut block = hand.engine.begin_block(&Begin::default(), 0).expect("free").expect("nothing is watched");
    for line in lines {
        hand.with(1, true, line, |engine, call| {
            engine.widen_block(&mut block, call).expect("free");
            engine.run_in_block(&mut block, call, &mut Vec::new());
        });
        assert_eq!(hand.said(), []);
    }
    hand.engine.end_block(block, 0);
    assert_eq!(hand.said(), [key("a", 1, &[2]), key("b", 1, &[1])]);
    assert_eq!(hand.tracked(), (1, 1), "what it has read last is up to date");
}

#[test]
fn a_block_that_is_undone_has_said_and_read_nothing() {
    let mut hand = Hand::new();
    hand.run(2, true, &["get", "a"]);
    let begin = Begin { may_widen: true, ..Begin::default() };
    let mut block = hand.engine.begin_block(&begin, 0).expect("free").expect("nothing is watched");
    for line in [&["set", "a", "1"][..], &["get", "b"]] {
        hand.with(1, true, line, |engine, call| {
            engine.widen_block(&mut block, call).expect("free");
            engine.run_in_block(&mut block, call, &mut Vec::new());
        });
    }
    let _ = hand.engine.undo_block(block, keyspace::Need::All);
    assert_eq!(hand.said(), []);
    assert_eq!(hand.tracked(), (1, 1));
}

#[test]
fn all_changes_are_told_while_somebody_broadcasts() {
    let mut hand = Hand::new();
    hand.run(1, false, &["set", "a", "1"]);
    hand.engine.shared.tracking.begin_broadcast();
    hand.run(1, false, &["set", "a", "1"]);
    hand.engine.shared.tracking.end_broadcast();
    hand.run(1, false, &["set", "a", "1"]);
    assert_eq!(hand.said(), [key("a", 1, &[])]);
}

#[test]
fn the_oldest_in_the_round_are_forgotten_and_no_more_than_that() {
    let mut hand = Hand::new();
    for i in 0..20 {
        hand.run(1, true, &["get", &format!("{{t}}{i}")]);
        hand.run(1, true, &["get", &format!("{i}")]);
    }
    assert!(!hand.engine.forget_reads(10, 5));
    assert!(hand.engine.forget_reads(10, 100));
    assert_eq!(hand.tracked(), (10, 10));
    let said = hand.said();
    assert_eq!(said.len(), 30);
    assert!(said.iter().all(|(_, by, readers)| *by == 0 && readers == &[1]));
    assert!(hand.engine.forget_reads(0, 100));
    assert_eq!(hand.tracked(), (0, 0));
}
