//! Copies of other nodes' large keys: a node hears only of the changes since.

use crate::net::{Net, key_of, shown};

/// Adds to a list and a small key, each at a node of its own.
const ADDS: &str = "redis.call('incr', KEYS[2]) return redis.call('rpush', KEYS[1], ARGV[1])";

/// Elements of a list of about 100 KB.
const MANY: usize = 2000;

/// Three nodes, a client of each, a list that is large at the second, and a key of the third.
fn with_a_long_list(workers: usize) -> (Net, [usize; 3], String, String) {
    let mut net = Net::new(3, workers, 7);
    let clients = [0, 1, 2].map(|node| net.connect(node));
    let (list, small) = (key_of(1, 3, "list"), key_of(2, 3, "small"));
    fill(&mut net, clients[1], &list);
    (net, clients, list, small)
}

fn fill(net: &mut Net, client: usize, list: &str) {
    let all: Vec<String> = (0..MANY).map(|n| format!("{n:0>50}")).collect();
    let words: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(net.say_words(client, &[&["RPUSH", list], &words[..]].concat()), MANY.to_string());
}

fn add(net: &mut Net, client: usize, list: &str, small: &str, element: &str) -> String {
    net.say_words(client, &["EVAL", ADDS, "2", list, small, element])
}

/// Bytes that links carry while `f` runs.
fn carried(net: &mut Net, f: impl FnOnce(&mut Net)) -> usize {
    let before = net.carried;
    f(net);
    net.carried - before
}

#[test]
fn what_was_done_to_a_large_key_is_told_and_not_all_of_it() {
    let (mut net, [a, b, c], list, small) = with_a_long_list(1);
    let first = carried(&mut net, |net| assert_eq!(add(net, a, &list, &small, "x"), (MANY + 1).to_string()));
    assert!(first > 50 * MANY, "the whole list: {first}");
    for n in 2..50 {
        let then = carried(&mut net, |net| assert_eq!(add(net, a, &list, &small, "x"), (MANY + n).to_string()));
        assert!(then < 5_000, "what was done: {then}");
    }
    // Another node has copies of its own, and each node hears of the other's changes.
    for n in 0..10 {
        let from = [a, c][n % 2];
        let then = carried(&mut net, |net| assert_eq!(add(net, from, &list, &small, "y"), (MANY + 50 + n).to_string()));
        assert!(n == 1 || then < 5_000, "{n}: {then}");
    }
    assert_eq!(net.say(b, &format!("LRANGE {list} -3 -1")), "[y y y]");
    assert_eq!(net.say(b, &format!("GET {small}")), "59");
    assert!(net.is_quiet(), "nothing is left");
}

/// Any other change of the key is seen: the key is fetched whole then.
#[test]
fn a_copy_is_not_used_for_a_key_that_something_else_has_changed() {
    for workers in [1, 2] {
        let (mut net, [a, b, _], list, small) = with_a_long_list(workers);
        let last = |net: &mut Net, a: usize| {
            let reads = "redis.call('incr', KEYS[2]) return redis.call('lrange', KEYS[1], -1, -1)";
            net.say_words(a, &["EVAL", reads, "2", &list, &small])
        };
        for _ in 0..3 {
            add(&mut net, a, &list, &small, "x");
        }
        net.ask(b, &format!("LSET {list} -1 plain"));
        assert_eq!(last(&mut net, a), "[plain]");
        add(&mut net, a, &list, &small, "z");
        net.ask(b, "MULTI");
        net.ask(b, &format!("RPOP {list}"));
        net.ask(b, &format!("LSET {list} -1 block"));
        net.ask(b, "EXEC");
        assert_eq!(last(&mut net, a), "[block]");
        // The list is deleted, is made again, and is flushed.
        add(&mut net, a, &list, &small, "z");
        net.ask(b, &format!("DEL {list}"));
        assert_eq!(last(&mut net, a), "[]");
        fill(&mut net, b, &list);
        add(&mut net, a, &list, &small, "again");
        assert_eq!(last(&mut net, a), "[again]");
        net.ask(b, "FLUSHALL");
        assert_eq!(last(&mut net, a), "[]");
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// A client that waits for an element is served in the step that adds it: both are seen.
#[test]
fn who_is_served_from_a_large_key_is_no_step_of_a_transaction() {
    let (mut net, [a, b, c], list, small) = with_a_long_list(1);
    let (sorted, waits) = (
        key_of(1, 3, "sorted"),
        "redis.call('incr', KEYS[2])
        return redis.call('zadd', KEYS[1], 1, ARGV[1])",
    );
    for n in 0..MANY {
        net.ask(b, &format!("ZADD {sorted} {n} a-long-member-{n:0>30}"));
    }
    for n in 0..3 {
        net.say_words(a, &["EVAL", waits, "2", &sorted, &small, &n.to_string()]);
    }
    net.ask(b, &format!("DEL {list}"));
    net.send(c, &format!("BLPOP {list} 0"));
    net.run();
    let all: Vec<String> = (0..MANY).map(|n| format!("{n:0>50}")).collect();
    let words: Vec<&str> = all.iter().map(String::as_str).collect();
    let pushes = "redis.call('incr', KEYS[2]) return redis.call('rpush', KEYS[1], unpack(ARGV))";
    let pushed = net.say_words(a, &[&["EVAL", pushes, "2", &list, &small], &words[..]].concat());
    assert_eq!(pushed, MANY.to_string());
    let served: Vec<String> = net.replies(c).iter().map(shown).collect();
    assert_eq!(served, [format!("[{list} {:0>50}]", 0)]);
    let counts = "redis.call('incr', KEYS[2]) return redis.call('llen', KEYS[1])";
    for _ in 0..3 {
        assert_eq!(net.say_words(a, &["EVAL", counts, "2", &list, &small]), (MANY - 1).to_string());
        net.send(c, &format!("BLPOP {list} 0"));
        net.run();
        let _ = net.replies(c);
        add(&mut net, a, &list, &small, "x");
    }
    assert_eq!(net.say(b, &format!("ZCARD {sorted}")), (MANY + 3).to_string());
}

/// A key that was fetched from one database is not mistaken for that of another.
#[test]
fn swapped_databases_are_not_mistaken() {
    let (mut net, [a, b, _], list, small) = with_a_long_list(1);
    // One record changes both databases.
    net.ask(b, "MULTI");
    net.ask(b, &format!("COPY {list} {list} DB 1"));
    net.ask(b, &format!("RPUSH {list} zero"));
    net.ask(b, "EXEC");
    let last = "redis.call('incr', KEYS[2]) return redis.call('lrange', KEYS[1], -1, -1)";
    let look = |net: &mut Net| net.say_words(a, &["EVAL", last, "2", &list, &small]);
    assert_eq!(look(&mut net), "[zero]");
    assert_eq!(look(&mut net), "[zero]");
    net.ask(a, "SWAPDB 0 1");
    assert_eq!(look(&mut net), format!("[{:0>50}]", MANY - 1));
    net.ask(a, "SWAPDB 0 1");
    assert_eq!(look(&mut net), "[zero]");
    assert_eq!(look(&mut net), "[zero]");
}
