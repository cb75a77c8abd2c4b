//! Parts of transactions at nodes that hold commands back, have no room for them, or cannot read keys.

use std::sync::Arc;

use clocks::MonoMs;
use engine::cold::{Loader, Names, Source, Span};
use keyspace::{ColdFigures, Fetched, Key, Mark, Record, Space, Unreadable, Value};
use txn::locks::Mode;
use txn::{Lock, Message};

use crate::net::{Net, key_of};
use crate::transactions::{slip_in, slip_in_prepare, tx_of};

/// A client of each of two nodes, and a key of each.
fn two(net: &mut Net) -> ([usize; 2], [String; 2]) {
    ([0, 1].map(|node| net.connect(node)), [0, 1].map(|node| key_of(node, 2, "k")))
}

#[test]
fn what_needs_no_memory_runs_when_it_is_full() {
    let mut net = Net::new(2, 1, 2);
    let ([client, other], [a, b]) = two(&mut net);
    assert_eq!(net.say(client, &format!("MSET {a} 1 {b} 1")), "OK");
    assert_eq!(net.say(other, "CONFIG SET maxmemory 1"), "OK");
    let full = net.say(client, &format!("MSET {a} 2 {b} 2"));
    assert!(full.starts_with("-OOM"), "{full}");
    assert_eq!(net.say(client, &format!("MGET {a} {b}")), "[1 1]");
    net.pipeline(client, &["MULTI", &format!("PERSIST {a}"), &format!("UNLINK {b}")]);
    assert_eq!(net.say(client, "EXEC"), "[0 1]");
    assert_eq!(net.say(client, &format!("DEL {a} {b}")), "1", "it makes room");
}

/// As on one node: memory is full at every node, and the script declares that it may run.
#[test]
fn where_memory_is_full_a_script_writes_that_may() {
    let mut net = Net::new(2, 1, 3);
    let ([client, other], [a, b]) = two(&mut net);
    for node in [client, other] {
        assert_eq!(net.say(node, "CONFIG SET maxmemory 1"), "OK");
    }
    let writes = "redis.call('set', KEYS[1], ARGV[1]) return redis.call('append', KEYS[2], ARGV[1])";
    let may = format!("#!lua flags=allow-oom\n{writes}");
    assert_eq!(net.say_words(client, &["EVAL", &may, "2", &a, &b, "xy"]), "2");
    let library = format!(
        "#!lua name=lib\nredis.register_function{{function_name='f', flags={{'allow-oom'}}, \
        callback=function(KEYS, ARGV) {writes} end}}"
    );
    assert_eq!(net.say(client, "CONFIG SET maxmemory 0"), "OK");
    assert_eq!(net.say_words(client, &["FUNCTION", "LOAD", &library]), "lib");
    assert_eq!(net.say(client, "CONFIG SET maxmemory 1"), "OK");
    assert_eq!(net.say_words(client, &["FCALL", "f", "2", &a, &b, "xyz"]), "5");
    assert_eq!(net.say(client, &format!("MGET {a} {b}")), "[xyz xyxyz]");
    // One that declares nothing is refused by the owner that is short of memory.
    assert_eq!(net.say(client, "CONFIG SET maxmemory 0"), "OK");
    let full = net.say_words(client, &["EVAL", writes, "2", &a, &b, "z"]);
    assert!(full.starts_with("-OOM"), "{full}");
    assert!(net.is_quiet(), "nothing is left");
}

/// CLIENT PAUSE of a node is for all commands that run there.
#[test]
fn parts_wait_for_the_end_of_a_pause() {
    let mut net = Net::new(2, 1, 3);
    let ([client, other], [a, b]) = two(&mut net);
    let reader = net.connect(0);
    for kind in ["WRITE", "ALL"] {
        assert_eq!(net.say(client, &format!("MSET {a} 1 {b} 1")), "OK");
        assert_eq!(net.say(other, &format!("CLIENT PAUSE 1000 {kind}")), "OK");
        net.send(client, &format!("MSET {a} 2 {b} 2"));
        net.run();
        net.send(reader, &format!("GET {b}"));
        let heard = net.heard(reader);
        assert_eq!(heard, if kind == "WRITE" { vec!["1"] } else { vec![] }, "nobody has its lock");
        assert!(net.heard(client).is_empty());
        net.sleep(999);
        assert!(net.heard(client).is_empty());
        net.sleep(2);
        assert_eq!(net.heard(client), ["OK"]);
        net.heard(reader);
        assert!(net.is_quiet());
    }
    // A reader writes nothing.
    assert_eq!(net.say(other, "CLIENT PAUSE 1000 WRITE"), "OK");
    assert_eq!(net.say(client, &format!("MGET {a} {b}")), "[2 2]");
}

/// While too much waits for the log, no part adds to that.
#[test]
fn parts_wait_for_the_log() {
    let mut net = Net::logged(2, 1, 2, "always");
    let ([client, other], [a, b]) = two(&mut net);
    let big = key_of(1, 2, "big");
    assert_eq!(net.say(other, "CONFIG SET log-backlog 1mb"), "OK");
    net.hang_log(1, true);
    net.send(other, &format!("SET {big} {}", "x".repeat(3 << 20)));
    net.run();
    net.send(client, &format!("MSET {a} 1 {b} 1"));
    let reader = net.connect(1);
    net.run();
    assert_eq!(net.say(reader, &format!("GET {b}")), "nil", "nobody has its lock");
    assert!(net.heard(client).is_empty());
    net.hang_log(1, false);
    net.sleep(1);
    assert_eq!((net.heard(client), net.heard(other)), (vec!["OK".into()], vec!["OK".into()]));
    assert_eq!(net.say(reader, &format!("GET {b}")), "1");
    assert!(net.is_quiet());
}

/// Makes the slot of a key as after a start: its contents are in a store that cannot be read.
fn unreadable(net: &Net, node: usize, key: &str) -> Loader {
    let keyspace = &net.node(node).engine.keyspace;
    // A place of no worker.
    let place = net.node(node).workers();
    let loader = Loader::new(net.node(node).engine.clone(), place);
    let slot = keyspace::slot_of(key.as_bytes());
    let held = keyspace.try_one(slot).expect("nobody else is there");
    let mut local = keyspace.local(place + 1);
    keyspace.restore_cold(&held, slot, 0, ColdFigures { keys: 1, ..ColdFigures::default() }, &mut local);
    local.publish_counts();
    keyspace.release(held, |_| {});
    loader
}

/// A store that can be read, with the same text under every key.
struct Readable(Option<&'static [u8]>);

impl Source for Readable {
    fn fetch_within(
        &self,
        _: Space,
        _: &Key<'_>,
        _: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Fetched>, Unreadable> {
        Ok(self.0.map(|text| {
            let (value, mark) = (Value::Short(text.into()), Mark::live(false, false, false));
            Fetched::There(Record { value, expiry: None, access: 0, version: keyspace::Version(1), mark })
        }))
    }

    fn list(&self, _: Space, _: Span) -> Result<Names, Unreadable> {
        Err(Unreadable)
    }
}

/// Makes the store readable, with this text under every key, or with nothing.
fn readable(net: &Net, node: usize, text: Option<&'static [u8]>) {
    net.node(node).engine.source.set(Some(Arc::new(Readable(text))));
}

fn load(net: &mut Net, node: usize, loader: &mut Loader) {
    let requests = net.node(node).engine.requests.take(100, std::time::Duration::ZERO).expect("it is open");
    let owner = net.node(node);
    loader.serve(requests, MonoMs(1), |waiter| owner.wake(waiter));
    net.run();
}

/// Rule T9: if one node cannot do its part of a command, no node does.
#[test]
fn a_command_that_fails_at_one_node_is_done_at_none() {
    let mut net = Net::new(2, 1, 2);
    let ([client, _], [a, b]) = two(&mut net);
    let mut loader = unreadable(&net, 1, &b);
    for command in [format!("MSET {a} 2 {b} 2"), format!("DEL {a} {b}")] {
        assert_eq!(net.say(client, &format!("SET {a} 1")), "OK");
        net.send(client, &command);
        net.run();
        load(&mut net, 1, &mut loader);
        let heard = net.heard(client);
        assert!(heard.len() == 1 && heard[0].starts_with('-'), "{heard:?}");
        assert_eq!(net.say(client, &format!("GET {a}")), "1", "{command} has failed");
        loader.serve(Vec::new(), MonoMs(1000), |_| {});
    }
    assert!(net.is_quiet());
}

/// A damaged store may bring back another value than the one that a change was prepared for. The change is not applied,
/// no client sees it, and other keys are served.
#[test]
fn what_was_prepared_for_another_value_is_not_installed() {
    let mut net = Net::new(2, 1, 2);
    let ([client, other], [a, b]) = two(&mut net);
    assert_eq!(net.say(client, &format!("EXISTS {b}")), "0");
    let lock = Lock { db: 0, key: b.as_bytes().into(), mode: Mode::Exclusive };
    slip_in_prepare(&mut net, 1_000_000, vec![lock], &["RPUSH", &b, "x"]);
    assert!(!net.is_quiet(), "it is prepared");
    let mut loader = unreadable(&net, 1, &b);
    readable(&net, 1, Some(b"text"));
    slip_in(&mut net, &Message::Commit { tx: tx_of(1_000_000), finished: 0 });
    load(&mut net, 1, &mut loader);
    (0..5).for_each(|_| net.sleep(50));
    assert!(!net.is_quiet(), "it is not done");
    net.send(other, &format!("TYPE {b}"));
    net.run();
    assert!(net.heard(other).is_empty(), "its key is locked");
    assert_eq!(net.say(client, &format!("SET {a} 1")), "OK");
}

/// A store may fail for long.
#[test]
fn what_cannot_be_installed_now_is_tried_again_later() {
    let mut net = Net::new(2, 1, 2);
    let ([client, _], [_, b]) = two(&mut net);
    assert_eq!(net.say(client, &format!("EXISTS {b}")), "0");
    let lock = Lock { db: 0, key: b.as_bytes().into(), mode: Mode::Exclusive };
    slip_in_prepare(&mut net, 1_000_000, vec![lock], &["RPUSH", &b, "x"]);
    assert!(!net.is_quiet(), "it is prepared");
    let mut loader = unreadable(&net, 1, &b);
    slip_in(&mut net, &Message::Commit { tx: tx_of(1_000_000), finished: 0 });
    (0..5).for_each(|_| net.sleep(50));
    assert!(!net.is_quiet(), "it is not done");
    readable(&net, 1, None);
    load(&mut net, 1, &mut loader);
    (0..5).for_each(|_| net.sleep(50));
    assert!(net.is_quiet());
    assert_eq!(net.say(client, &format!("LRANGE {b} 0 -1")), "[x]");
}

const UNREAD: &str = "-CLUSTERDOWN The command was not executed: its keys are locked by a committed transaction that cannot be applied, because a key cannot be read from the store";

/// Commands that need the transaction's keys do not wait for it without a limit.
#[test]
fn who_needs_keys_of_what_cannot_be_read_hears_so() {
    let mut net = Net::new(2, 1, 2);
    let ([client, other], [_, b]) = two(&mut net);
    assert_eq!(net.say(client, &format!("EXISTS {b}")), "0");
    let lock = Lock { db: 0, key: b.as_bytes().into(), mode: Mode::Exclusive };
    slip_in_prepare(&mut net, 1_000_000, vec![lock], &["RPUSH", &b, "x"]);
    let mut loader = unreadable(&net, 1, &b);
    slip_in(&mut net, &Message::Commit { tx: tx_of(1_000_000), finished: 0 });
    (0..40).for_each(|_| net.sleep(50));
    for client in [client, other] {
        assert_eq!(net.say(client, &format!("LLEN {b}")), UNREAD);
    }
    assert!(net.say(other, "INFO stats").contains("transactions_over_nodes_in_doubt:1"));
    readable(&net, 1, None);
    load(&mut net, 1, &mut loader);
    (0..12).for_each(|_| net.sleep(500));
    assert_eq!(net.say(client, &format!("LRANGE {b} 0 -1")), "[x]");
    assert!(net.is_quiet() && net.say(other, "INFO stats").contains("transactions_over_nodes_in_doubt:0"));
}

/// The same at a server that has a node's data, in no cluster or as another node: no other node will settle it.
#[test]
fn who_needs_keys_of_what_was_inherited_and_cannot_be_read_hears_so() {
    for (workers, life) in [(1, 0), (2, 0), (1, 2), (2, 2)] {
        let mut net = Net::logged(2, workers, 2, "always");
        let ([client, _], [_, b]) = two(&mut net);
        assert_eq!(net.say(client, &format!("EXISTS {b}")), "0");
        let lock = Lock { db: 0, key: b.as_bytes().into(), mode: Mode::Exclusive };
        slip_in_prepare(&mut net, 1_000_000, vec![lock], &["RPUSH", &b, "x"]);
        net.becomes_a_server(1, life);
        let mut loader = unreadable(&net, 1, &b);
        net.clock_only(200);
        let clients: Vec<usize> = (0..4).map(|_| net.connect(1)).collect();
        clients[..2].iter().for_each(|client| net.send(*client, &format!("LLEN {b}")));
        (0..40).for_each(|_| net.sleep(50));
        for client in &clients[..2] {
            assert_eq!(net.heard(*client), [UNREAD], "who has waited");
        }
        for client in &clients[2..] {
            assert_eq!(net.say(*client, &format!("LLEN {b}")), UNREAD, "who comes later");
            assert_eq!(net.say(*client, &format!("SET {} 1", key_of(1, 2, "other"))), "OK");
        }
        assert_eq!(net.say(clients[0], "DBSIZE"), UNREAD);
        assert!(net.say(clients[0], "INFO stats").contains("transactions_over_nodes_in_doubt:1"));
        readable(&net, 1, None);
        load(&mut net, 1, &mut loader);
        (0..12).for_each(|_| net.sleep(500));
        assert_eq!(net.say(clients[1], &format!("LRANGE {b} 0 -1")), "[x]");
        assert!(net.say(clients[0], "INFO stats").contains("transactions_over_nodes_in_doubt:0"));
    }
}

/// Rule L7: a refusal because a watched key or a key that a transaction has read has changed is sent once the change is
/// committed.
#[test]
fn a_refusal_waits_for_what_it_follows_from() {
    for workers in [1, 2] {
        let mut net = Net::logged(2, workers, 3, "always");
        let ([client, other], [a, b]) = two(&mut net);
        let interactive = net.connect(0);
        let absent = key_of(1, 2, "absent");
        assert_eq!(net.say(client, &format!("MSET {a} 1 {b} 1")), "OK");
        net.sleep(600);
        assert_eq!(net.say(client, &format!("WATCH {b} {absent}")), "OK");
        assert_eq!(net.say(interactive, "BEGIN"), "OK");
        assert_eq!(net.say(interactive, &format!("MGET {b} {absent}")), "[1 nil]");
        assert_eq!(net.say(interactive, &format!("SET {} 1", key_of(0, 2, "other"))), "OK");
        net.hang_log(1, true);
        net.send(other, &format!("SET {b} 2"));
        net.run();
        net.pipeline(client, &["MULTI", &format!("SET {a} 3"), &format!("APPEND {b} x")]);
        net.send(client, "EXEC");
        net.send(interactive, "COMMIT");
        (0..5).for_each(|_| net.sleep(100));
        for client in [other, client, interactive] {
            assert!(net.heard(client).is_empty(), "nobody hears of what is not committed");
        }
        net.hang_log(1, false);
        (0..20).for_each(|_| net.sleep(300));
        assert_eq!(net.heard(other), ["OK"]);
        assert_eq!(net.heard(client), ["nil"]);
        let heard = net.heard(interactive);
        assert!(heard.len() == 1 && heard[0].starts_with("-CONFLICT"), "{heard:?}");
        net.sleep(600);
        assert!(net.is_quiet());
        assert_eq!(net.say(client, &format!("MGET {a} {b}")), "[1 2]");
    }
}

/// A command that is held back after it was granted its key does not keep the key from others meanwhile.
#[test]
fn a_command_that_is_held_back_has_no_locks() {
    let mut net = Net::new(2, 1, 3);
    let ([client, other], [a, b]) = two(&mut net);
    let reader = net.connect(1);
    assert_eq!(net.say(client, &format!("MSET {a} 0 {b} 0")), "OK");
    net.sleep(600);
    let c = key_of(1, 2, "c");
    let lock = Lock { db: 0, key: c.as_bytes().into(), mode: Mode::Exclusive };
    slip_in_prepare(&mut net, 1_000_000, vec![lock], &["SET", &c, "1"]);
    net.send(client, &format!("MSET {a} 1 {b} 1"));
    while net.node(1).engine.transactions.outcomes().prepared().count() < 2 {
        net.turns(1);
    }
    net.stalled = vec![1];
    net.send(other, &format!("SET {b} 2"));
    assert!(net.heard(other).is_empty(), "it waits for the lock");
    assert_eq!(net.say(reader, "CLIENT PAUSE 1000 WRITE"), "OK");
    net.stalled.clear();
    assert!(net.heard(other).is_empty(), "it waits for the end of the pause");
    assert_eq!(net.say(reader, &format!("GET {b}")), "1");
    net.sleep(1001);
    assert_eq!(net.heard(other), ["OK"]);
}
