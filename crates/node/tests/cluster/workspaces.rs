//! Commands, scripts and blocks that need keys of several nodes at once.

use std::sync::atomic::Ordering::Relaxed;

use membership::Map;

use crate::lists::{PUSH, are_whole, lists};
use crate::net::{Net, even_map, key_of, keys, random, shown};

/// MULTI, these commands, EXEC. Returns the reply to EXEC.
fn block(net: &mut Net, client: usize, commands: &[&str]) -> String {
    assert_eq!(net.say(client, "MULTI"), "OK");
    for command in commands {
        assert_eq!(net.say(client, command), "QUEUED", "{command}");
    }
    net.say(client, "EXEC")
}

#[test]
fn commands_with_keys_of_several_nodes() {
    for workers in [1, 2] {
        let (mut net, [client, other, _], [a, b, c]) = Net::three(workers, 6);
        let mut is = |command: String, expected: &str| {
            assert_eq!(net.say(client, &command), expected, "{command}");
        };
        is(format!("SET {a} 1 EX 100"), "OK");
        is(format!("RENAME {a} {b}"), "OK");
        is(format!("GET {b}"), "1");
        is(format!("TTL {b}"), "100");
        is(format!("EXISTS {a}"), "0");
        is(format!("RENAME {a} {c}"), "-ERR no such key");
        is(format!("COPY {b} {c}"), "1");
        is(format!("RENAMENX {b} {c}"), "0");
        is(format!("DEL {a} {b} {c}"), "2");
        is(format!("SADD {a} 1 2 3"), "3");
        is(format!("SADD {b} 2 3 4"), "3");
        is(format!("SUNIONSTORE {c} {a} {b}"), "4");
        is(format!("SINTERCARD 2 {a} {b}"), "2");
        is(format!("SUNIONCARD 2 {a} {b}"), "4");
        is(format!("SDIFFCARD 2 {a} {b} LIMIT 1"), "1");
        is(format!("ZUNIONSTORE {c} 2 {a} {b} AGGREGATE COUNT"), "4");
        is(format!("SDIFF {a} {b}"), "[1]");
        is(format!("SMOVE {a} {b} 1"), "1");
        is(format!("SCARD {b}"), "4");
        is(format!("DEL {a} {b} {c}"), "3");
        is(format!("RPUSH {a} x y z"), "3");
        is(format!("LMOVEM {a} {b} LEFT RIGHT EXACTLY 4 BULK"), "nil");
        is(format!("LMOVEM {a} {b} LEFT RIGHT COUNT 2 OBO"), "[x y]");
        is(format!("LMOVEM {b} {a} RIGHT LEFT EXACTLY 2 BULK"), "[x y]");
        is(format!("LMOVE {a} {b} LEFT RIGHT"), "x");
        is(format!("RPOPLPUSH {a} {c}"), "z");
        is(format!("LMPOP 2 {b} {c} LEFT COUNT 5"), &format!("[{b} [x]]"));
        is(format!("LLEN {a}"), "1");
        is(format!("DEL {a} {b} {c}"), "2");
        is(format!("MSETNX {a} 1 {b} 2 {c} 3"), "1");
        is(format!("MSETNX {a} 1 {b}x 2"), "0");
        is(format!("BITOP OR {c} {a} {b}"), "1");
        is(format!("GET {c}"), "3");
        is(format!("LCS {a} {c}"), "");
        is(format!("SORT {a} STORE {b}"), "-WRONGTYPE Operation against a key holding the wrong kind of value");
        is(format!("DEL {a} {b} {c}"), "3");
        is(format!("PFADD {a} 1 2"), "1");
        is(format!("PFADD {b} 2 3"), "1");
        is(format!("PFMERGE {c} {a} {b}"), "OK");
        is(format!("PFCOUNT {a} {b} {c}"), "3");
        is(format!("DEL {a} {b} {c}"), "3");
        is(format!("ZADD {a} 1 x 2 y"), "2");
        is(format!("ZADD {b} 10 x"), "1");
        is(format!("ZUNIONSTORE {c} 2 {a} {b}"), "2");
        is(format!("ZSCORE {c} x"), "11");
        is(format!("ZINTER 2 {a} {b} WITHSCORES"), "[x 11]");
        is(format!("ZRANGESTORE {b} {a} 0 0"), "1");
        is(format!("ZMPOP 2 {b} {c} MAX"), &format!("[{b} [[x 1]]]"));
        // One after the other, and to others.
        let commands = [format!("RENAME {a} {b}"), format!("ZCARD {b}"), format!("RENAME {b} {c}"), "PING".into()];
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let replies: Vec<String> = net.pipeline(client, &commands).iter().map(shown).collect();
        assert_eq!(replies, ["OK", "2", "OK", "PONG"]);
        assert_eq!(net.say(other, &format!("ZRANGE {c} 0 -1")), "[x y]");
        assert!(net.is_quiet(), "nothing is left");
    }
}

#[test]
fn scripts_with_keys_of_several_nodes() {
    for workers in [1, 2] {
        let mut net = Net::new(3, workers, 8);
        let (client, other) = (net.connect(0), net.connect(2));
        let [a, b, c, d] = keys(3);
        let swap = "local x, y = redis.call('get', KEYS[1]), redis.call('get', KEYS[2])
            redis.call('set', KEYS[1], y) redis.call('set', KEYS[2], x) return {x, y}";
        net.ask(client, &format!("MSET {a} 1 {b} 2 {c} 3"));
        assert_eq!(net.say_words(client, &["EVAL", swap, "2", &a, &b]), "[1 2]");
        assert_eq!(net.say(other, &format!("MGET {a} {b}")), "[2 1]");
        // By its digest, at every node.
        let sha = net.say(client, "SCRIPT LOAD return{redis.call('incr',KEYS[1]),redis.call('incr',KEYS[2])}");
        assert_eq!(net.say(other, &format!("EVALSHA {sha} 2 {a} {b}")), "[3 2]");
        // A function, which also reads undeclared keys.
        let library = "#!lua name=l
            redis.register_function('sum', function(keys, args)
                return redis.call('get', keys[1]) + redis.call('get', keys[2]) + redis.call('get', args[1])
            end)";
        net.keeps_libraries();
        assert_eq!(net.arrange(client, &["FUNCTION", "LOAD", library]), "l");
        assert_eq!(net.say(client, &format!("FCALL sum 2 {a} {b} {c}")), "8");
        // A script changes undeclared keys.
        let undeclared = "redis.call('incr', KEYS[1]) return redis.call('incrby', ARGV[1], redis.call('get', KEYS[2]))";
        assert_eq!(net.say_words(other, &["EVAL", undeclared, "2", &a, &b, &c]), "5");
        assert_eq!(net.say(client, &format!("MGET {a} {b} {c}")), "[4 2 5]");
        // A script's changes before its error are done, as always.
        let fails = "redis.call('set', KEYS[1], 'x') redis.call('lpush', KEYS[2], 'x')";
        let error = net.say_words(client, &["EVAL", fails, "2", &c, &b]);
        assert!(error.starts_with("-WRONGTYPE"), "{error}");
        assert_eq!(net.say(client, &format!("MGET {b} {c}")), "[2 x]");
        let read_only = "#!lua flags=no-writes
            return redis.call('mget', KEYS[1], KEYS[2])";
        assert_eq!(net.say_words(other, &["EVAL", read_only, "2", &a, &b]), "[4 2]");
        let writes = net.say_words(other, &["EVAL_RO", "return redis.call('incr', KEYS[1])", "2", &a, &b]);
        assert!(writes.starts_with("-ERR Write commands are not allowed from read-only scripts"), "{writes}");
        assert_eq!(net.say_words(client, &["EVAL", "return redis.call('dbsize')", "2", &a, &b]), "3");
        let whole = net.say_words(client, &["EVAL", "return redis.call('flushall')", "2", &a, &b]);
        assert!(whole.contains("works on more than its keys"), "{whole}");
        assert_eq!(net.say_words(client, &["EVAL", "return redis.call('exists', KEYS[2])", "2", &a, &d]), "0");
        // A script that takes long lets others run.
        net.clock.step.store(10_000, Relaxed);
        let long = "for i = 1, 30000 do redis.call('incr', KEYS[1]) end return redis.call('incr', KEYS[2])";
        assert_eq!(net.say_words(client, &["EVAL", long, "2", &a, &b]), "3");
        assert_eq!(net.say(client, &format!("GET {a}")), "30004");
        assert!(net.is_quiet(), "nothing is left");
    }
}

#[test]
fn a_script_whose_client_goes_is_given_up() {
    let mut net = Net::new(2, 1, 8);
    let (client, other) = (net.connect(0), net.connect(1));
    let [a, b] = keys(2);
    net.clock.step.store(100_000, Relaxed);
    net.send_words(client, &["EVAL", "redis.call('set', KEYS[1], 1) while true do end", "2", &a, &b]);
    net.turns(50);
    assert!(net.node(0).engine.transactions.any(), "it runs");
    net.leave(client);
    net.run();
    net.clock.step.store(100, Relaxed);
    net.sleep(1000);
    assert_eq!(net.say(other, &format!("EXISTS {a} {b}")), "0");
    assert!(net.is_quiet(), "nothing is left");
}

#[test]
fn blocks_that_need_keys_of_several_nodes_at_once() {
    for workers in [1, 3] {
        let (mut net, [client, _, other], [a, b, c]) = Net::three(workers, 2);
        let (set, rename, get) = (format!("SET {a} 1"), format!("RENAME {a} {b}"), format!("GET {b}"));
        assert_eq!(block(&mut net, client, &[&set, &rename, "PING", &get]), "[OK OK PONG 1]");
        assert_eq!(net.say(other, &get), "1");
        // Commands that concern this node alone, beside keys of another.
        let id = net.say(client, "CLIENT ID");
        assert_eq!(block(&mut net, client, &["CLIENT ID", &get, "TIME"]).split(' ').next(), Some(&*format!("[{id}")));
        assert_eq!(block(&mut net, client, &[&get, "CONFIG GET port"]), "[1 [port 6379]]");
        // From one database to another.
        let move_on = format!("COPY {b} {c} DB 5");
        assert_eq!(block(&mut net, client, &[&move_on, "SELECT 5", &format!("GET {c}")]), "[1 OK 1]");
        assert_eq!(net.say(client, &format!("GET {c}")), "1", "it is selected");
        net.ask(client, "SELECT 0");
        // An error of one command is its reply, and blocking commands on others' keys do not wait.
        let reply =
            block(&mut net, client, &[&format!("LPUSH {b} x"), &rename, &format!("BLMOVE {c} {a} LEFT LEFT 0")]);
        assert!(reply.starts_with("[-WRONGTYPE") && reply.ends_with("-ERR no such key nil]"), "{reply}");
        // Commands that work on more than their keys.
        for command in ["FLUSHALL", &format!("SORT {a} BY w_* STORE {b}")] {
            let reply = block(&mut net, client, &[&set, &rename, command]);
            assert!(reply.starts_with("-EXECABORT") && reply.contains("works on more than its keys"), "{reply}");
        }
        assert_eq!(net.say(client, &format!("EXISTS {a}")), "0");
        assert!(net.is_quiet(), "nothing is left");
    }
}

#[test]
fn what_is_watched_elsewhere_guards_any_block() {
    for workers in [1, 2] {
        let (mut net, [client, _, other], [near, far, third]) = Net::three(workers, 4);
        let touch = |net: &mut Net| assert_ne!(net.say(other, &format!("INCR {far}")), "nil");
        let set_near = format!("SET {near} 1");
        let rename = format!("COPY {near} {third} REPLACE");
        let blocks: [(&[&str], &str); 4] = [
            (&[], "[]"),
            (&["PING"], "[PONG]"),
            (&[&set_near, "PING"], "[OK PONG]"),
            (&[&set_near, &rename], "[OK 1]"),
        ];
        for (commands, expected) in blocks {
            for touched in [false, true] {
                assert_eq!(net.say(client, &format!("WATCH {far}")), "OK");
                if touched {
                    touch(&mut net);
                }
                assert_eq!(block(&mut net, client, commands), if touched { "nil" } else { expected }, "{commands:?}");
            }
            touch(&mut net);
            assert_eq!(block(&mut net, client, commands), expected, "nothing is watched");
        }
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// A command on copies is no EXEC of the client's: its watched keys stay watched, and guard its next block.
#[test]
fn what_is_watched_outlives_what_is_no_block() {
    for hello in ["2", "3"] {
        let mut net = Net::new(3, 1, 4);
        let (client, other) = (net.connect(0), net.connect(2));
        let [near, far, third] = keys(3);
        net.ask(client, &format!("HELLO {hello}"));
        let copy = format!("COPY {far} {third} REPLACE");
        let script = ["EVAL", "return redis.call('mget', KEYS[1], KEYS[2])", "2", &far, &third];
        for touched in [false, true] {
            net.ask(client, &format!("MSET {near} 1 {far} 2"));
            assert_eq!(net.say(client, &format!("WATCH {near}")), "OK");
            assert_eq!(net.say(client, &copy), "1");
            assert_eq!(net.say_words(client, &script), "[2 2]");
            assert_eq!(net.say(client, &format!("RENAME {near}x {third}")), "-ERR no such key");
            for (command, reply) in [("BEGIN", "OK"), (&*format!("GET {far}"), "2"), (&copy, "1"), ("COMMIT", "OK")] {
                assert_eq!(net.say(client, command), reply, "{command}");
            }
            if touched {
                assert_eq!(net.say(other, &format!("INCR {near}")), "2");
            }
            let expected = if touched { "nil" } else { "[1]" };
            assert_eq!(block(&mut net, client, &[&format!("INCRBY {near} 0")]), expected, "HELLO {hello}");
        }
        assert_eq!(block(&mut net, client, &["PING"]), "[PONG]", "nothing is watched");
        assert!(net.is_quiet(), "nothing is left");
    }
}

#[test]
fn what_happens_to_keys_is_told_where_they_are() {
    let mut net = Net::with(2, 1, 3, &[("notify-keyspace-events", "KEA")]);
    let (client, waiter, listener) = (net.connect(0), net.connect(1), net.connect(1));
    let [a, b] = keys(2);
    net.ask(listener, "PSUBSCRIBE __keyspace@0__:*");
    net.send(waiter, &format!("BLPOP {b} 0"));
    net.run();
    net.ask(client, &format!("RPUSH {a} x y"));
    net.replies(listener);
    assert_eq!(net.say(client, &format!("LMOVE {a} {b} LEFT LEFT")), "x");
    assert_eq!(net.heard(waiter), [format!("[{b} x]")]);
    let mut events: Vec<String> =
        net.heard(listener).iter().map(|line| line.split("__:").last().unwrap().into()).collect();
    events.sort();
    let mut expected = [format!("{a}:lpop"), format!("{b}:lpush"), format!("{b}:lpop"), format!("{b}:del")];
    let mut events: Vec<String> = events.iter().map(|event| event.trim_end_matches(']').replace(' ', ":")).collect();
    events.retain(|event| !event.starts_with("*"));
    expected.sort();
    events.sort();
    assert_eq!(events, expected);
    // Messages of a block that is not committed are not sent.
    net.ask(listener, "SUBSCRIBE news");
    let (set, copy) = (format!("SET {a} 1"), format!("COPY {a} {b} REPLACE"));
    net.ask(client, &format!("WATCH {b}"));
    net.ask(waiter, &format!("SET {b} 1"));
    net.heard(listener);
    assert_eq!(block(&mut net, client, &[&set, &copy, "PUBLISH news no"]), "nil");
    assert_eq!(net.heard(listener), [""; 0]);
    assert_eq!(block(&mut net, client, &[&format!("DEL {a}"), &set, &copy, "PUBLISH news yes"]), "[1 OK 1 1]");
    assert!(net.heard(listener).contains(&"[message news yes]".into()));
}

#[test]
fn times_are_those_of_one_moment() {
    let (mut net, [client, ..], [a, b, c]) = Net::three(1, 6);
    net.ask(client, &format!("SET {a} 1 PX 10"));
    net.ask(client, &format!("HSET {b} f 1 g 2"));
    net.ask(client, &format!("HPEXPIRE {b} 10 FIELDS 1 f"));
    net.clock_only(20);
    // An expired key is gone.
    assert_eq!(net.say(client, &format!("RENAME {a} {c}")), "-ERR no such key");
    assert_eq!(net.say(client, &format!("COPY {b} {c}")), "1");
    assert_eq!(net.say(client, &format!("HGETALL {c}")), "[g 2]");
    assert_eq!(net.say(client, &format!("HGETALL {b}")), "[g 2]");
    let stamps = "local t = redis.call('time') redis.call('xadd', KEYS[1], '*', 'f', 1)
        local id = redis.call('xadd', KEYS[2], '*', 'f', 1) return t[1] * 1000 == tonumber(string.sub(id, 1, 13)) - 20";
    net.ask(client, &format!("DEL {b} {c}"));
    assert_eq!(net.say_words(client, &["EVAL", stamps, "2", &b, &c]), "1");
    let ids = block(&mut net, client, &[&format!("XRANGE {b} - +"), &format!("XRANGE {c} - +")]);
    let (first, second) = ids.trim_matches(['[', ']']).split_once("]]] [[").unwrap();
    assert_eq!(first.trim_matches(['[', ']']), second.trim_matches(['[', ']']));
    assert!(net.is_quiet(), "nothing is left");
}

/// A node whose clock is far behind would have its keys deleted before their time.
#[test]
fn what_needs_nodes_whose_clocks_are_far_apart_is_refused() {
    for wrong in [0, 1] {
        let (mut net, [client, other, _], [a, b, c]) = Net::three(1, 6);
        let script = |client: usize, net: &mut Net| {
            net.say_words(client, &["EVAL", "return redis.call('exists', KEYS[1], KEYS[2])", "2", &a, &b])
        };
        for key in [&a, &b] {
            net.ask(client, &format!("SET {key} 1 PX 120000"));
        }
        net.sets_clock(wrong, 59_000);
        net.sleep(1);
        assert_eq!(script(client, &mut net), "2", "a little is nothing");
        net.sets_clock(wrong, 3_600_000);
        net.sleep(1);
        for asker in [client, other] {
            let refused = script(asker, &mut net);
            assert!(refused.starts_with("-ERR the clocks of nodes of the cluster are"), "{refused}");
        }
        let own = key_of(0, 3, "own");
        net.ask(client, "BEGIN");
        assert_eq!(net.say(client, &format!("SET {own} 1")), "OK");
        let refused = net.say(client, &format!("APPEND {b} 2"));
        assert!(refused.starts_with("-ERR the clocks of nodes of the cluster are"), "{refused}");
        assert_eq!(net.say(client, "COMMIT"), "OK");
        net.sets_clock(wrong, 0);
        net.sleep(1);
        let still = net.say(other, &format!("EXISTS {} {c}", if wrong == 0 { &b } else { &a }));
        assert_eq!(still, "1", "who is right has kept what is its own");
        net.sleep(10_000);
        assert!(net.is_quiet(), "nothing is left");
    }
}

#[test]
fn what_is_too_large_is_refused_as_a_whole() {
    let mut net = Net::new(2, 1, 6);
    let client = net.connect(0);
    let [a, b, c] = keys(2);
    let text = "x".repeat(5_000_000);
    for key in [&a, &c] {
        assert_eq!(net.say(client, &format!("SET {key} {text}")), "OK");
    }
    assert_eq!(net.say(client, &format!("RENAME {a} {b}")), "OK");
    assert_eq!(net.say(client, &format!("STRLEN {b}")), text.len().to_string());
    assert_eq!(net.say(client, &format!("RENAME {b} {a}")), "OK");
    let large = net.say(client, &format!("BITOP OR {b} {a} {c}"));
    assert!(large.starts_with("-ERR the values of one node are too large"), "{large}");
    let grows = format!("COPY {c} {b} REPLACE");
    let append = format!("APPEND {b} {}", "y".repeat(4_000_000));
    let large = block(&mut net, client, &[&grows, &append]);
    assert!(large.starts_with("-ERR the values of one node are too large"), "{large}");
    assert_eq!(net.say(client, &format!("EXISTS {b}")), "0");
    assert_eq!(net.say(client, &format!("STRLEN {a}")), text.len().to_string());
    assert!(net.is_quiet(), "nothing is left");
}

const MOVES: &str = "local n = math.min(tonumber(ARGV[1]), tonumber(redis.call('get', KEYS[1])))
    redis.call('decrby', KEYS[1], n) redis.call('incrby', KEYS[2], n) return n";
const SUMS: &str = "local sum = 0 for _, key in ipairs(KEYS) do sum = sum + redis.call('get', key) end return sum";

/// Scripts move money, and RENAME moves whole accounts, at once and in any order. None is lost, and a reader sees the
/// right sum.
#[test]
fn accounts_are_never_seen_half_changed() {
    for seed in 1..7 {
        let mut net = Net::new(3, 1 + seed as usize % 3, seed);
        let accounts: Vec<String> = (0..4).map(|i| key_of(i % 3, 3, &format!("account{i}"))).collect();
        let purse = [key_of(1, 3, "purse"), key_of(2, 3, "purse")];
        let clients: Vec<usize> = (0..6).map(|i| net.connect(i % 3)).collect();
        for account in accounts.iter().chain(&purse[..1]) {
            net.ask(clients[0], &format!("SET {account} 100"));
        }
        let mut chance = random(seed * 7919);
        let mut sums = 0;
        for _ in 0..12 {
            for &client in &clients {
                let (from, to) = (chance(4), chance(4));
                let amount = chance(10).to_string();
                match chance(4) {
                    0 => {
                        let mut words = vec!["EVAL", SUMS, "4"];
                        words.extend(accounts.iter().map(String::as_str));
                        net.send_words(client, &words);
                    }
                    1 => {
                        let there = chance(2);
                        net.send_words(client, &["RENAMENX", &purse[there], &purse[1 - there]]);
                    }
                    _ => net.send_words(client, &["EVAL", MOVES, "2", &accounts[from], &accounts[to], &amount]),
                }
                net.send(client, &format!("INCRBY {} 0", accounts[chance(4)]));
            }
            net.run();
            for _ in 0..100 {
                net.sleep(5);
            }
            for &client in &clients {
                let replies = net.replies(client);
                assert_eq!(replies.len(), 2, "seed {seed}: {replies:?}");
                let text = shown(&replies[0]);
                assert!(!text.starts_with('-') || text == "-ERR no such key", "seed {seed}: {text}");
                if text == "400" {
                    sums += 1;
                } else {
                    assert!(text.len() < 2 || text.starts_with('-'), "seed {seed}: {text}");
                }
            }
        }
        assert!(sums > 3, "seed {seed}");
        let there: Vec<String> = purse.iter().map(|key| net.say(clients[0], &format!("GET {key}"))).collect();
        assert!(there == ["100", "nil"] || there == ["nil", "100"], "seed {seed}: {there:?}");
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// Commands over keys (`K`), small numbers (`N`) and words (`V`).
const LINES: &[&str] = &[
    "set K V",
    "set K N px 30",
    "incr K",
    "append K V",
    "get K",
    "del K K",
    "rename K K",
    "renamenx K K",
    "copy K K",
    "copy K K replace",
    "copy K K db 1",
    "move K 1",
    "msetnx K V K V",
    "bitop xor K K K",
    "pfadd K V V",
    "pfmerge K K",
    "pfcount K K",
    "lcs K K",
    "persist K",
    "pexpire K 40",
    "rpush K V V N",
    "lmove K K left right",
    "lmovem K K left left count 2 obo",
    "increx K ubound 3 px 40",
    "rpoplpush K K",
    "blmove K K right left 1",
    "lmpop 2 K K left count 2",
    "blpop K K 1",
    "linsert K before V N",
    "sort K alpha store K",
    "sadd K V N V",
    "smove K K V",
    "sinterstore K K K",
    "sunionstore K K K",
    "sdiffstore K K K",
    "sinter K K",
    "sunion K K",
    "sintercard 2 K K",
    "hset K V N V V",
    "hpexpire K 20 fields 1 V",
    "hdel K V",
    "zadd K N V N V",
    "zunionstore K 2 K K",
    "zinterstore K 2 K K weights 2 3",
    "zdiffstore K 2 K K",
    "zrangestore K K 0 1",
    "zmpop 2 K K min",
    "geoadd K 13 38 V",
    "geosearchstore K K fromlonlat 13 38 byradius 9 km",
    "xadd K * V N",
    "xlen K",
    "script K K V",
];
const SCRIPT: &str = "local line = '' local function say(reply)
        if type(reply) == 'table' then reply = reply.ok or reply.err end line = line .. tostring(reply) .. ','
    end
    for _, key in ipairs(KEYS) do
        say(redis.pcall('type', key)) say(redis.pcall('append', key, ARGV[1])) say(redis.pcall('copy', KEYS[1], key))
        say(redis.pcall('rename', key, KEYS[3]))
    end
    return line";

/// A client sees the same with one node and with three.
#[test]
fn histories_are_those_of_a_single_node() {
    let names: Vec<String> = (0..5).map(|i| key_of(i % 3, 3, &format!("k{i}"))).collect();
    for seed in 1..=20 {
        let mut nets = [Net::new(1, 1, seed), Net::new(3, 1 + seed as usize % 2, seed)];
        let clients = nets.each_mut().map(|net| net.connect(0));
        let mut chance = random(seed * 104_729);
        let (mut left, mut log) = (0, Vec::new());
        for step in 0..250 {
            let mut words: Vec<String> = Vec::new();
            if left == 0 && chance(8) == 0 {
                words.push("multi".into());
                left = 1 + chance(4);
            } else if left == 1 {
                words.push("exec".into());
                left = 0;
            } else {
                left = left.saturating_sub(1);
                let line = LINES[chance(LINES.len())];
                let mut key = || names[chance(5)].clone();
                if line.starts_with("script") {
                    words = vec!["eval".into(), SCRIPT.into(), "3".into(), key(), key(), key()];
                    words.push(chance(9).to_string());
                } else {
                    for word in line.split(' ') {
                        words.push(match word {
                            "K" => names[chance(5)].clone(),
                            "V" => ["a", "b", "c", "1"][chance(4)].into(),
                            "N" => chance(9).to_string(),
                            word => word.into(),
                        });
                    }
                }
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let mut replies = [String::new(), String::new()];
            for i in 0..2 {
                replies[i] = nets[i].say_words(clients[i], &words);
            }
            // A wait that does not end waits in both.
            let waits = replies.iter().any(String::is_empty);
            for i in 0..2 {
                nets[i].sleep(if waits {
                    1100
                } else if step % 7 == 0 {
                    15
                } else {
                    1
                });
                if replies[i].is_empty() {
                    replies[i] = nets[i].heard(clients[i]).join(",");
                }
            }
            let replies = replies.map(|reply| sorted(&reply));
            log.push(format!("{words:?}: {:?}", replies[1]));
            assert_eq!(replies[0], replies[1], "seed {seed}, step {step}: {}", log.join("\n"));
        }
        if left > 0 {
            nets.iter_mut().zip(clients).for_each(|(net, client)| _ = net.ask(client, "DISCARD"));
        }
        let all = nets.each_mut().map(|net| {
            let client = net.connect(0);
            let mut all = Vec::new();
            for (db, key) in (0..2).flat_map(|db| names.iter().map(move |key| (db, key))) {
                net.ask(client, &format!("SELECT {db}"));
                let read = match &*net.say(client, &format!("TYPE {key}")) {
                    "string" => format!("GET {key}"),
                    "list" => format!("LRANGE {key} 0 -1"),
                    "set" => format!("SMEMBERS {key}"),
                    "hash" => format!("HGETALL {key}"),
                    "zset" => format!("ZRANGE {key} 0 -1 WITHSCORES"),
                    "stream" => format!("XRANGE {key} - +"),
                    _ => format!("EXISTS {key}"),
                };
                let value = net.say(client, &read);
                all.push((read, sorted(&value), net.say(client, &format!("PTTL {key}"))));
            }
            all
        });
        assert_eq!(all[0], all[1], "seed {seed}");
        assert!(nets[1].is_quiet(), "nothing is left");
    }
}

/// The words of a reply, sorted: sets have no order.
fn sorted(reply: &str) -> Vec<String> {
    let mut words: Vec<String> = reply.split(' ').map(|word| word.trim_matches(['[', ']']).to_owned()).collect();
    words.sort();
    words
}

/// Machines lose their power meanwhile. Every acknowledged change is there, nothing is half done, and nothing stays
/// locked.
#[test]
fn power_that_fails_leaves_nothing_half_done() {
    let lists = lists();
    for seed in 1..7 {
        let mut net = Net::logged(3, 1 + seed as usize % 2, seed, "always");
        let purse = [key_of(1, 3, "purse"), key_of(2, 3, "purse")];
        let mut chance = random(seed);
        let mut lives = [1u64; 3];
        let mut clients: Vec<usize> = (0..3).map(|i| net.connect(i)).collect();
        net.ask(clients[0], &format!("SET {} 100", purse[0]));
        let mut answered = Vec::new();
        for id in 0..30 {
            let i = chance(3);
            let number = id.to_string();
            net.send_words(clients[i], &["EVAL", PUSH, "3", &lists[0], &lists[1], &lists[2], &number]);
            let there = chance(2);
            net.send(clients[(i + 1) % 3], &format!("RENAME {} {}", purse[there], purse[1 - there]));
            if chance(3) == 0 {
                net.turns(chance(60));
                let node = chance(3);
                lives[node] += 1;
                let even = even_map(3, 1 + lives.iter().sum::<u64>());
                let mut nodes = even.nodes().to_vec();
                nodes.iter_mut().zip(lives).for_each(|(node, life)| node.incarnation = life);
                net.power_fails(node, Map::new(even.cluster(), even.version(), 1, nodes, even.ranges().to_vec()));
            }
            net.run();
            for _ in 0..30 {
                net.sleep(200);
            }
            if net.replies(clients[i]).iter().any(|reply| shown(reply) == "done") {
                answered.push(number);
            }
            for (node, client) in clients.iter_mut().enumerate() {
                net.replies(*client);
                if net.clients[*client].closed {
                    *client = net.connect(node);
                }
            }
        }
        for _ in 0..60 {
            net.sleep(200);
        }
        assert!(answered.len() > 8 && lives.iter().sum::<u64>() > 5, "seed {seed}: {answered:?} {lives:?}");
        let reader = net.connect(0);
        let purses: Vec<String> = purse.iter().map(|key| net.say(reader, &format!("GET {key}"))).collect();
        assert!(purses == ["100", "nil"] || purses == ["nil", "100"], "seed {seed}: {purses:?}");
        are_whole(&mut net, &lists, &answered, seed);
    }
}

#[test]
fn where_memory_is_full_nothing_comes_of_it() {
    let mut net = Net::new(2, 1, 3);
    let (client, other) = (net.connect(0), net.connect(1));
    let [a, b] = keys(2);
    assert_eq!(net.say(client, &format!("MSET {a} 1 {b} 1")), "OK");
    assert_eq!(net.say(other, "CONFIG SET maxmemory 1"), "OK");
    let script = "redis.call('set', KEYS[1], 2) return redis.call('set', KEYS[2], 2)";
    let full = net.say_words(client, &["EVAL", script, "2", &a, &b]);
    assert!(full.starts_with("-OOM"), "{full}");
    assert_eq!(net.say(client, &format!("LCS {a} {b}")), "1");
    net.ask(client, "BEGIN");
    assert_eq!(net.say(client, &format!("SET {b} 2")), "OK");
    let full = net.say(client, "COMMIT");
    assert!(full.starts_with("-ABORTED The transaction was rolled back: OOM"), "{full}");
    assert_eq!(net.say(client, &format!("MGET {a} {b}")), "[1 1]");
    assert_eq!(net.say_words(client, &["EVAL", "return redis.call('del', KEYS[2])", "2", &a, &b]), "1");
    assert!(net.is_quiet(), "nothing is left");
}

/// As on one node: a command that removes or moves data may do so when memory is full.
#[test]
fn where_memory_is_full_keys_are_moved_and_taken_from() {
    let mut net = Net::new(2, 1, 3);
    let (client, other) = (net.connect(0), net.connect(1));
    let mut alone = Net::new(1, 1, 3);
    let single = alone.connect(0);
    let [a, b, c, d] = keys(2);
    let fill = [
        format!("RPUSH {a} 1 2 3"),
        format!("RPUSH {b} 1 2 3"),
        format!("ZADD {c} 1 x 2 y"),
        format!("ZADD {d} 1 x 2 y"),
    ];
    for command in &fill {
        assert_eq!(net.say(client, command), alone.say(single, command));
    }
    for node in [client, other] {
        assert_eq!(net.say(node, "CONFIG SET maxmemory 1"), "OK");
    }
    assert_eq!(alone.say(single, "CONFIG SET maxmemory 1"), "OK");
    let pop = "return {redis.call('lpop', KEYS[1]), redis.call('lpop', KEYS[2])}";
    for words in [
        &["LMPOP", "2", &a, &b, "LEFT"][..],
        &["BLPOP", &b, &a, "0"],
        &["ZMPOP", "2", &d, &c, "MAX"],
        &["EVAL", pop, "2", &a, &b],
        &["RENAME", &a, &b],
        &["RENAME", &b, &a],
        &["EXISTS", &a, &b],
        &["LRANGE", &a, "0", "-1"],
    ] {
        assert_eq!(net.say_words(client, words), alone.say_words(single, words), "{words:?}");
    }
    for words in [&["LMOVE", &a, &b, "LEFT", "LEFT"][..], &["COPY", &a, &b]] {
        for (net, client) in [(&mut net, client), (&mut alone, single)] {
            let full = net.say_words(client, words);
            assert!(full.starts_with("-OOM"), "{words:?}: {full}");
        }
    }
    assert!(net.is_quiet(), "nothing is left");
}
