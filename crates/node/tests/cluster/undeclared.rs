//! Scripts that use keys of other nodes without declaring them: they run as on a single server.

use std::sync::atomic::Ordering::Relaxed;

use crate::net::{Net, key_of, keys, random};

#[test]
fn a_script_may_use_keys_that_it_does_not_declare() {
    for (workers, crumbles) in [(1, false), (2, false), (1, true)] {
        for server in 0..3 {
            let mut net = Net::new(3, workers, 5 + server as u64);
            net.crumbles = crumbles;
            let (client, other) = (net.connect(server), net.connect(1));
            let [a, b, c, d] = keys(3);
            net.ask(other, &format!("MSET {a} 1 {b} 2 {c} 3 {d} 4"));
            // No declared key, one of this node, one of another.
            let sum = "local n = 0 for _, key in ipairs(ARGV) do n = n + redis.call('get', key) end return n";
            assert_eq!(net.say_words(client, &["EVAL", sum, "0", &a, &b, &c, &d]), "10");
            assert_eq!(net.say_words(client, &["EVAL_RO", sum, "0", &c, &b]), "5");
            let moves = "redis.call('incrby', KEYS[1], 10) redis.call('rename', ARGV[1], ARGV[2]) redis.call('publish', 'ch', 'x')
                return redis.call('get', ARGV[2])";
            for (declared, from, to) in [(&a, &b, &c), (&b, &a, &b), (&c, &b, &a)] {
                net.ask(other, &format!("MSET {a} 1 {b} 2 {c} 3"));
                let value = net.say(client, &format!("GET {from}"));
                let sums = if declared == from { value.parse::<i32>().unwrap() + 10 } else { value.parse().unwrap() };
                assert_eq!(net.say_words(client, &["EVAL", moves, "1", declared, from, to]), sums.to_string());
                assert_eq!(net.say(other, &format!("EXISTS {from}")), "0");
            }
            // By digest, as a function, in a pipeline.
            let sha = net.say(client, "SCRIPT LOAD return{redis.call('incr',ARGV[1]),redis.call('incr',ARGV[2])}");
            net.ask(other, &format!("MSET {a} 1 {b} 2 {c} 3"));
            let (eval, get) = (format!("EVALSHA {sha} 1 {b} {a} {c}"), format!("MGET {a} {b} {c}"));
            let replies: Vec<String> =
                net.pipeline(client, &[&eval, &get, "PING", &eval, &get]).iter().map(crate::net::shown).collect();
            assert_eq!(replies, ["[2 4]", "[2 2 4]", "PONG", "[3 5]", "[3 2 5]"]);
            // The changes before its error are done, once.
            let fails = "redis.call('incr', ARGV[1]) redis.call('lpush', ARGV[2], 'x')";
            let error = net.say_words(client, &["EVAL", fails, "1", &b, &a, &c]);
            assert!(error.starts_with("-WRONGTYPE"), "{error}");
            assert_eq!(net.say(client, &get), "[4 2 5]");
            // A question about the whole keyspace.
            let counts = "redis.call('set', ARGV[1], 1) redis.call('set', ARGV[2], 1) return redis.call('dbsize')";
            assert_eq!(net.say_words(client, &["EVAL", counts, "0", &a, &d]), net.say(client, "DBSIZE"));
            let error = net.say_words(client, &["EVAL", &counts.replace("dbsize", "flushall"), "0", &a, &b]);
            assert!(error.contains("works on more than its keys"), "{error}");
            assert!(net.is_quiet(), "nothing is left");
        }
    }
}

#[test]
fn a_script_in_a_block_may_declare_its_keys_of_other_nodes() {
    let (mut net, [client, ..], [a, b, _]) = Net::three(1, 3);
    let set = "return redis.call('set', ARGV[1], 1)";
    let mut block = |declared: &[&str], other: Option<&str>| {
        net.ask(client, "MULTI");
        if let Some(other) = other {
            net.ask(client, &format!("EXISTS {other}"));
        }
        let keys = declared.len().to_string();
        let words = [&["EVAL", set, &keys], declared, &[b.as_str()]].concat();
        net.say_words(client, &words);
        net.say(client, "EXEC")
    };
    assert_eq!(block(&[&a], None), "[OK]");
    assert_eq!(block(&[&a, &b], None), "[OK]");
    assert_eq!(block(&[&a], Some(&b)), "[1 OK]");
}

/// A long script that finds out late, and one whose client goes.
#[test]
fn a_script_that_finds_out_late_runs_once() {
    for server in 0..2 {
        let mut net = Net::new(2, 1, 8);
        let (client, other) = (net.connect(server), net.connect(1));
        let [a, b] = keys(2);
        net.clock.step.store(10_000, Relaxed);
        let long = "for i = 1, 20000 do redis.call('incr', KEYS[1]) end return redis.call('incr', ARGV[1])";
        assert_eq!(net.say_words(client, &["EVAL", long, "1", &a, &b]), "1");
        assert_eq!(net.say(other, &format!("MGET {a} {b}")), "[20000 1]");
        net.send_words(client, &["EVAL", long, "1", &a, &b]);
        net.turns(20);
        net.leave(client);
        net.run();
        net.clock.step.store(100, Relaxed);
        for _ in 0..10 {
            net.sleep(500);
        }
        let left = net.say(other, &format!("MGET {a} {b}"));
        assert!(left == "[20000 1]" || left == "[40000 2]", "{left}");
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// Scripts with keys in their arguments run beside one another while links end: as if one after the other.
#[test]
fn transfers_by_scripts_without_keys_keep_the_sum() {
    for seed in 1..10 {
        let mut net = Net::new(3, 1 + seed as usize % 2, seed);
        let mut chance = random(seed);
        let accounts: Vec<String> = (0..6).map(|i| key_of(i % 3, 3, &format!("account{i}"))).collect();
        let clients: Vec<usize> = (0..4).map(|i| net.connect(i % 3)).collect();
        for account in &accounts {
            net.ask(clients[0], &format!("SET {account} 100"));
        }
        let transfer = "local n = tonumber(redis.call('get', ARGV[1]))
            if n >= 7 then redis.call('decrby', ARGV[1], 7) redis.call('incrby', ARGV[2], 7) end return n";
        for _ in 0..40 {
            for client in &clients {
                let (from, to) = (&accounts[chance(6)], &accounts[chance(6)]);
                match chance(2) {
                    0 => net.send_words(*client, &["EVAL", transfer, "0", from, to]),
                    _ => net.send_words(*client, &["EVAL", transfer, "1", to, from, to]),
                }
            }
            if chance(10) == 0 {
                net.turns(chance(30));
                net.cut(chance(3), chance(3));
            }
            net.run();
            for _ in 0..chance(4) {
                net.sleep(200);
            }
        }
        for _ in 0..40 {
            net.sleep(200);
        }
        let reader = net.connect(0);
        let all = net.say(reader, &format!("MGET {}", accounts.join(" ")));
        let sum: i32 = all.trim_matches(['[', ']']).split(' ').map(|n| n.parse::<i32>().unwrap()).sum();
        assert_eq!(sum, 600, "seed {seed}: {all}");
        assert!(net.is_quiet(), "seed {seed}: nothing is left");
    }
}
