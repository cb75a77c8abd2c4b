//! Strings: sums that transactions conserve, counters that miss nothing, keys that are written together.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use resp::Value;

use crate::support::attack::{Raw, simple};
use crate::world::{Chance, World, array, int};

const ACCOUNTS: u64 = 40;
const FLOODED: u64 = 100;
const TOGETHER: u64 = 20;
const EXPIRING: u64 = 10;

/// Accounts: some share a slot, some have a slot each.
fn account(i: u64) -> String {
    if i < 16 { format!("account:{{hot}}:{i}") } else { format!("account:{i}") }
}

/// Sends commands in one packet. Returns their replies.
fn pipeline(client: &mut Raw, commands: &[Vec<String>]) -> Vec<Value> {
    let bytes: Vec<u8> = commands.iter().flat_map(|args| crate::support::attack::request(args)).collect();
    client.send(bytes);
    commands.iter().map(|_| client.reply()).collect()
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

pub fn transfers(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        let order = chance.shuffled(ACCOUNTS);
        let n = chance.below(1000);
        // The same two in either order, or several at once.
        let mut block = vec![words("multi")];
        for pair in order.chunks(2).take(1 + chance.below(4) as usize) {
            block.push(words(&format!("incrby {} {n}", account(pair[0]))));
            block.push(words(&format!("decrby {} {n}", account(pair[1]))));
        }
        block.push(words("exec"));
        let replies = pipeline(&mut client, &block);
        assert_eq!(array(replies[block.len() - 1].clone()).len(), block.len() - 2);
        world.step("transfers");
    }
}

/// A reader of all accounts at once sees the right sum.
pub fn auditor(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        let order = chance.shuffled(ACCOUNTS);
        let sum: i64 = if chance.one_in(2) {
            let command: Vec<String> = ["mget".into()].into_iter().chain(order.into_iter().map(account)).collect();
            array(client.call(&command)).iter().map(int).sum()
        } else {
            let mut block = vec![words("multi")];
            block.extend(order.into_iter().map(|i| words(&format!("get {}", account(i)))));
            block.push(words("exec"));
            let replies = pipeline(&mut client, &block);
            array(replies[block.len() - 1].clone()).iter().map(int).sum()
        };
        assert_eq!(sum, 0, "the sum of all accounts");
        world.step("auditor");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A counter of its own, in pipelines: each reply is the next number, at any worker.
pub fn counter(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    let key = format!("counter:{}", world.unique());
    let mut value = 0;
    while !world.is_over() {
        let n = 1 + chance.below(200);
        let commands: Vec<_> = (0..n).map(|_| words(&format!("incr {key}"))).collect();
        for reply in pipeline(&mut client, &commands) {
            value += 1;
            assert_eq!(reply, Value::Integer(value));
        }
        if chance.one_in(10) {
            // Long enough at rest to be moved to another worker.
            std::thread::sleep(Duration::from_millis(chance.below(60)));
        }
        world.step("counter");
    }
}

/// WATCH: a client that read an old value does not write.
pub fn watcher(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        let key = format!("watched:{}", chance.below(3));
        let read = pipeline(&mut client, &[words(&format!("watch {key} unrelated")), words(&format!("get {key}"))]);
        assert_eq!(read[0], simple("OK"));
        let value = int(&read[1]);
        if chance.one_in(20) {
            let left = if chance.one_in(2) { "unwatch" } else { "reset" };
            client.call(&[left]);
            continue;
        }
        let write = [
            words("multi"),
            words(&format!("set {key} {}", value + 1)),
            words(&format!("incr {key}:sum")),
            words("exec"),
        ];
        if pipeline(&mut client, &write)[3] != Value::Null {
            world.add(&key, 1);
            world.step("watcher");
        }
    }
}

/// Blocks of a hundred keys beside a flood of single commands: rule K1 lets them through.
pub fn big_blocks(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        let mut block = vec![words("multi")];
        block.extend(chance.shuffled(FLOODED).into_iter().map(|i| words(&format!("incr flooded:{i}"))));
        block.push(words("exec"));
        let begin = Instant::now();
        let replies = pipeline(&mut client, &block);
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(10), "a block of {FLOODED} took {took:?}");
        assert_eq!(array(replies[block.len() - 1].clone()).len(), FLOODED as usize);
        world.add("flooded", FLOODED);
        world.step("big blocks");
    }
}

pub fn flood(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        let commands: Vec<_> = (0..100).map(|_| words(&format!("incr flooded:{}", chance.below(FLOODED)))).collect();
        for reply in pipeline(&mut client, &commands) {
            assert!(matches!(reply, Value::Integer(1..)));
        }
        world.add("flooded", 100);
        world.step("flood");
    }
}

/// Keys that are only ever written together, in any order, and read together.
pub fn many_keys(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        let keys = chance.shuffled(TOGETHER).into_iter().map(|i| format!("together:{i}"));
        let n = world.unique().to_string();
        let command: Vec<String> = match chance.below(4) {
            0 => ["del".into()].into_iter().chain(keys).collect(),
            1 => ["mset".into()].into_iter().chain(keys.flat_map(|key| [key, n.clone()])).collect(),
            _ => ["mget".into()].into_iter().chain(keys).collect(),
        };
        if let Value::Array(values) = client.call(&command) {
            assert!(values.iter().all(|value| *value == values[0]), "written together, read apart: {values:?}");
        }
        world.step("many keys");
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Keys that live for some milliseconds hold the time of their expiry: no client sees one after it.
pub fn expiring(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        let key = format!("expiring:{}", chance.below(EXPIRING));
        let before = unix_ms();
        // A turn has one time, which may be old at its end. The next turn's time is no older than this.
        client.call(&["ping"]);
        let end = unix_ms() + 1 + chance.below(30);
        match chance.below(4) {
            0 => drop(client.call(&["set", &key, &end.to_string(), "pxat", &end.to_string()])),
            1 => drop(client.call(&["del", &key])),
            2 => {
                let replies = pipeline(&mut client, &[words(&format!("get {key}")), words(&format!("pttl {key}"))]);
                let (value, ttl) = (int(&replies[0]), int(&replies[1]));
                assert!(value == 0 || value as u64 + 20 >= before, "{value} seen at {before}");
                assert!(ttl != -1, "everything here expires");
            }
            _ => {
                let block =
                    [words("multi"), words(&format!("get {key}")), words(&format!("exists {key}")), words("exec")];
                let replies = array(pipeline(&mut client, &block)[3].clone());
                assert_eq!(replies[0] != Value::Null, int(&replies[1]) == 1, "one time for the whole block");
            }
        }
        world.step("expiring");
    }
}

pub fn check(world: &World<'_>) {
    let mut client = world.client();
    let sum: i64 = (0..ACCOUNTS).map(|i| int(&client.call(&["get", &account(i)]))).sum();
    assert_eq!(sum, 0, "the sum of all accounts");
    for i in 0..3 {
        let key = format!("watched:{i}");
        let wanted = world.sum(&key) as i64;
        assert_eq!(int(&client.call(&["get", &key])), wanted, "an update was lost");
        assert_eq!(int(&client.call(&["get", &format!("{key}:sum")])), wanted);
    }
    let sum: i64 = (0..FLOODED).map(|i| int(&client.call(&["get", &format!("flooded:{i}")]))).sum();
    assert_eq!(sum as u64, world.sum("flooded"));
    std::thread::sleep(Duration::from_millis(50));
    for i in 0..EXPIRING {
        assert_eq!(client.call(&["get", &format!("expiring:{i}")]), Value::Null);
    }
}
