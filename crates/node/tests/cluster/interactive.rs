//! BEGIN, COMMIT, ROLLBACK.

use std::sync::atomic::Ordering::Relaxed;

use crate::net::{Net, key_of, keys, random, shown};

fn nothing_is_left(net: &mut Net) {
    net.sleep(10);
    assert!(net.is_quiet(), "nothing is left");
}

#[test]
fn what_was_done_since_begin_happens_at_commit_or_not_at_all() {
    for workers in [1, 2] {
        let (mut net, [client, other, _], [a, b, c]) = Net::three(workers, 6);
        net.ask(client, &format!("MSET {a} 1 {b} 2"));
        for level in ["", " strict-serializable", " repeatable-read", " READ-COMMITTED"] {
            for end in ["ROLLBACK", "COMMIT"] {
                let mut is = |command: &str, expected: &str| {
                    let reply = net.say(client, command);
                    assert_eq!(reply, expected, "{command}, {level}");
                };
                is(&format!("BEGIN{level}"), "OK");
                is(&format!("INCRBY {a} 10"), "11");
                is(&format!("RENAME {b} {c}"), "OK");
                is(&format!("GET {a}"), "11");
                is(&format!("MGET {a} {b} {c}"), "[11 nil 2]");
                is(&format!("RPUSH {b} x y"), "2");
                is(&format!("LRANGE {b} 0 -1"), "[x y]");
                is(&format!("LPOP {a}"), "-WRONGTYPE Operation against a key holding the wrong kind of value");
                is("PING", "PONG");
                assert_eq!(net.say(other, &format!("MGET {a} {b} {c}")), "[1 2 nil]");
                assert_eq!(net.say(client, end), "OK");
                let after = if end == "COMMIT" { "[11 nil 2]" } else { "[1 2 nil]" };
                assert_eq!(net.say(other, &format!("MGET {a} {b} {c}")), after);
            }
            net.ask(client, &format!("DEL {b} {c}"));
            net.ask(client, &format!("MSET {a} 1 {b} 2"));
        }
        nothing_is_left(&mut net);
    }
}

#[test]
fn who_looked_at_what_has_changed_does_not_commit() {
    let (mut net, [client, other, _], [a, b, c]) = Net::three(1, 6);
    // A key that was read changes before COMMIT; then a key that was written; then neither.
    for (level, read, written) in
        [("strict-serializable", false, false), ("repeatable-read", true, false), ("read-committed", true, false)]
    {
        for (touched, commits) in [(&a, read), (&b, written), (&c, true)] {
            net.ask(client, &format!("MSET {a} 1 {b} 2 {c} 3"));
            net.ask(client, &format!("BEGIN {level}"));
            assert_eq!(net.say(client, &format!("GET {a}")), "1");
            assert_eq!(net.say(client, &format!("INCR {b}")), "3");
            net.ask(other, &format!("INCR {touched}"));
            // Reads are repeatable, except under read-committed.
            let again = if level == "read-committed" && *touched == a { "2" } else { "1" };
            assert_eq!(net.say(client, &format!("GET {a}")), again, "{level}");
            let reply = net.say(client, "COMMIT");
            let stands = net.say(other, &format!("GET {b}"));
            if commits {
                assert_eq!((&*reply, &*stands), ("OK", "3"), "{level}");
            } else {
                assert!(reply.starts_with("-CONFLICT"), "{level}: {reply}");
                assert_eq!(stands, if *touched == b { "3" } else { "2" }, "{level}");
            }
            assert_eq!(net.say(client, "ROLLBACK"), "-ERR ROLLBACK without BEGIN");
        }
    }
    // A missing key was read, too.
    net.ask(client, &format!("DEL {a} {b}"));
    net.ask(client, "BEGIN");
    assert_eq!(net.say(client, &format!("EXISTS {a}")), "0");
    net.ask(client, &format!("SET {b} 1"));
    net.ask(other, &format!("SET {a} 1"));
    assert!(net.say(client, "COMMIT").starts_with("-CONFLICT"));
    assert_eq!(net.say(other, &format!("EXISTS {b}")), "0");
    nothing_is_left(&mut net);
}

#[test]
fn what_is_possible_between_begin_and_commit() {
    let mut net =
        Net::with(3, 1, 6, &[("transaction-idle-timeout", "5"), ("transaction-isolation", "repeatable-read")]);
    let (client, other, listener) = (net.connect(0), net.connect(1), net.connect(2));
    let [a, b, c] = keys(3);
    for (command, reply) in [
        ("COMMIT", "-ERR COMMIT without BEGIN"),
        ("BEGIN serious", "-ERR syntax error"),
        ("BEGIN", "OK"),
        ("BEGIN", "-ERR a transaction has begun already: COMMIT or ROLLBACK ends it"),
        ("COMMIT", "OK"),
    ] {
        assert_eq!(net.say(client, command), reply, "{command}");
    }
    net.ask(listener, "SUBSCRIBE news");
    net.ask(client, "BEGIN");
    for command in ["MULTI", "WATCH x", "KEYS *", "FLUSHALL", "DBSIZE", "SORT x BY w_*", "SORT {x} GET {x}w_*"] {
        assert_eq!(net.say(client, command), "-ERR this command is not possible between BEGIN and COMMIT", "{command}");
    }
    assert!(net.say(client, "NONSENSE").starts_with("-ERR unknown command"));
    // Scripts find out about keys; messages wait.
    let script = "redis.call('set', KEYS[1], 1) redis.call('set', ARGV[1], redis.call('incr', ARGV[2])) return 'done'";
    assert_eq!(net.say_words(client, &["EVAL", script, "1", &a, &b, &c]), "done");
    assert_eq!(net.say(client, "PUBLISH news read"), "1");
    assert_eq!(net.say(client, &format!("BLPOP {a}x {b}x 0")), "nil");
    net.ask(client, "SELECT 2");
    assert_eq!(net.say(client, &format!("SET {a} two")), "OK");
    assert_eq!(net.heard(listener), [""; 0]);
    assert_eq!(net.say(client, "COMMIT"), "OK");
    assert_eq!(net.heard(listener), ["[message news read]"]);
    assert_eq!(net.say(client, &format!("GET {a}")), "two");
    assert_eq!(net.say(other, &format!("MGET {a} {b} {c}")), "[1 1 1]");
    // A transaction that is idle for too long.
    net.ask(client, "SELECT 0");
    net.ask(client, "BEGIN");
    net.ask(client, &format!("SET {a} 2"));
    net.sleep(4000);
    assert_eq!(net.say(client, &format!("GET {a}")), "2");
    net.sleep(6000);
    let aborted = net.say(client, &format!("GET {a}"));
    assert!(aborted.starts_with("-ABORTED") && aborted.contains("transaction-idle-timeout"), "{aborted}");
    assert_eq!(net.say(client, "COMMIT"), aborted);
    assert_eq!(net.say(client, &format!("GET {a}")), "1");
    // A transaction that is too large.
    net.ask(client, "BEGIN");
    let text = "x".repeat(5_000_000);
    assert_eq!(net.say(client, &format!("SET {a} {text}")), "OK");
    assert_eq!(net.say(client, &format!("SET {b} y")), "OK");
    let large = net.say(client, &format!("APPEND {a} {text}"));
    assert!(large.starts_with("-ERR the transaction is too large"), "{large}");
    assert_eq!(net.say(client, &format!("STRLEN {a}")), text.len().to_string());
    assert_eq!(net.say(client, "COMMIT"), "OK");
    assert_eq!(net.say(other, &format!("STRLEN {a}")), text.len().to_string());
    // A node does not serve: the transaction may be committed later.
    net.ask(client, "BEGIN");
    assert_eq!(net.say(client, &format!("SET {b} z")), "OK");
    net.lease(1, 0);
    let refused = net.say(client, &format!("GET {}", key_of(1, 3, "new")));
    assert!(refused.starts_with("-CLUSTERDOWN"), "{refused}");
    net.lease(1, u64::MAX);
    net.sleep(100);
    assert_eq!(net.say(client, "COMMIT"), "OK");
    assert_eq!(net.say(other, &format!("GET {b}")), "z");
    net.ask(client, "BEGIN");
    net.ask(client, &format!("SET {b} never"));
    net.ask(client, "RESET");
    assert_eq!(net.say(client, &format!("GET {b}")), "z");
    nothing_is_left(&mut net);
}

#[test]
fn errors_between_begin_and_commit_are_counted_once() {
    let (mut net, [client, ..], [a, b, _]) = Net::three(1, 6);
    net.ask(client, &format!("RPUSH {a} x"));
    net.ask(client, "BEGIN");
    for command in [format!("INCR {a}"), format!("APPEND {a} x")] {
        assert!(net.say(client, &command).starts_with("-WRONGTYPE"));
    }
    net.ask(client, "ROLLBACK");
    assert!(net.say(client, &format!("LCS {a} {b}")).starts_with("-ERR The specified keys must contain string values"));
    let stats = net.say(client, "INFO errorstats");
    assert!(stats.contains("errorstat_WRONGTYPE:count=2\r") && stats.contains("errorstat_ERR:count=1\r"), "{stats}");
}

#[test]
fn exec_between_begin_and_commit_is_none_and_leaves_alone_what_is_watched() {
    let (mut net, [client, other, _], [a, b, _]) = Net::three(1, 6);
    let monitor = net.connect(0);
    net.ask(client, &format!("WATCH {a}"));
    net.ask(monitor, "MONITOR");
    net.ask(client, "BEGIN");
    assert_eq!(net.say(client, "EXEC"), "-ERR EXEC without MULTI");
    assert_eq!(net.say(client, &format!("SET {b} 1")), "OK");
    assert_eq!(net.say(client, "COMMIT"), "OK");
    let shown = net.heard(monitor).join(" ");
    assert!(shown.contains("\"BEGIN\"") && shown.contains("\"SET\"") && shown.contains("\"COMMIT\""), "{shown}");
    net.ask(other, &format!("SET {a} 1"));
    net.ask(client, "MULTI");
    net.ask(client, &format!("GET {b}"));
    assert_eq!(net.say(client, "EXEC"), "nil");
    nothing_is_left(&mut net);
}

/// Bytes of the transactions of a node's clients.
fn kept(net: &Net, node: usize) -> u64 {
    net.node(node).clients().values().map(|client| client.transaction_bytes.load(Relaxed)).sum()
}

#[test]
fn what_a_transaction_keeps_is_counted_and_bounded() {
    let (mut net, [client, ..], [a, b, c]) = Net::three(1, 6);
    let listener = net.connect(0);
    net.ask(listener, "SUBSCRIBE news");
    // Messages count.
    let text = "x".repeat(5_000_000);
    net.ask(client, "BEGIN");
    for told in [1, 2, 3] {
        assert_eq!(net.say(client, &format!("PUBLISH news {text}")), "1");
        assert!(kept(&net, 0) >= told * 5_000_000, "{}", kept(&net, 0));
    }
    let large = net.say(client, &format!("PUBLISH news {text}"));
    assert!(large.starts_with("-ERR the transaction is too large"), "{large}");
    assert_eq!(net.say(client, "COMMIT"), "OK");
    assert_eq!(net.heard(listener).len(), 3);
    assert_eq!(kept(&net, 0), 0);
    // Events of keys that are only read are not published.
    net.ask(client, "BEGIN");
    assert_eq!(net.say(client, &format!("GET {a}")), "nil");
    let once = kept(&net, 0);
    assert!(once > a.len() as u64);
    for _ in 0..100 {
        assert_eq!(net.say(client, &format!("GET {a}")), "nil");
    }
    assert_eq!(kept(&net, 0), once);
    // Events of other keys count.
    assert_eq!(net.say(client, &format!("SET {b} 1")), "OK");
    assert!(kept(&net, 0) > once + 2 * b.len() as u64);
    assert_eq!(net.say(client, "ROLLBACK"), "OK");
    assert_eq!(kept(&net, 0), 0);
    for level in ["strict-serializable", "read-committed"] {
        net.ask(client, &format!("BEGIN {level}"));
        net.ask(client, &format!("MGET {a} {b} {c}"));
        net.ask(client, &format!("SET {b} 1"));
        let some = kept(&net, 0);
        net.ask(client, &format!("MGET {a} {b} {c}"));
        net.ask(client, &format!("MGET {a} {b} {c}"));
        let more = kept(&net, 0);
        net.ask(client, &format!("MGET {a} {b} {c}"));
        assert!(more >= some && kept(&net, 0) == more, "{level}");
        net.ask(client, "RESET");
        assert_eq!(kept(&net, 0), 0);
    }
    nothing_is_left(&mut net);
}

#[test]
fn many_small_changes_of_one_large_key() {
    let (mut net, [client, other, _], [a, b, _]) = Net::three(1, 6);
    let text = "x".repeat(1_000_000);
    for key in [&a, &b] {
        net.ask(client, &format!("SET {key} {text}"));
    }
    net.ask(client, "BEGIN");
    for i in 0..40 {
        for key in [&a, &b] {
            assert_eq!(net.say(client, &format!("APPEND {key} y")), (1_000_001 + i).to_string());
        }
    }
    assert_eq!(net.say(client, "COMMIT"), "OK");
    assert_eq!(net.say(other, &format!("STRLEN {b}")), "1000040");
    nothing_is_left(&mut net);
}

#[test]
fn keys_whose_time_has_passed_are_in_nobodys_way() {
    for level in ["strict-serializable", "repeatable-read", "read-committed"] {
        for command in ["GET", "SET NX", "APPEND", "RPUSH"] {
            for pauses in [false, true] {
                let (mut net, [client, ..], [a, b, c]) = Net::three(1, 6);
                for key in [&a, &b, &c] {
                    net.ask(client, &format!("RPUSH {key} old older"));
                    net.ask(client, &format!("PEXPIRE {key} 10"));
                }
                net.clock_only(20);
                net.ask(client, &format!("BEGIN {level}"));
                for key in [&a, &b, &c] {
                    let (asked, reply) = match command {
                        "GET" => (format!("GET {key}"), "nil"),
                        "SET NX" => (format!("SET {key} 1 NX"), "OK"),
                        "APPEND" => (format!("APPEND {key} 1"), "1"),
                        _ => (format!("RPUSH {key} 1"), "1"),
                    };
                    assert_eq!(net.say(client, &asked), reply, "{asked}");
                }
                if pauses {
                    net.sleep(5000);
                }
                assert_eq!(net.say(client, "COMMIT"), "OK", "{level}, {command}, {pauses}");
                for key in [&a, &b, &c] {
                    let (asked, reply) = match command {
                        "GET" => (format!("EXISTS {key}"), "0"),
                        "RPUSH" => (format!("LRANGE {key} 0 -1"), "[1]"),
                        _ => (format!("GET {key}"), "1"),
                    };
                    assert_eq!(net.say(client, &asked), reply, "{asked}");
                }
                nothing_is_left(&mut net);
            }
        }
    }
}

#[test]
fn who_begins_again_and_again_is_looked_after_once() {
    let (mut net, [client, ..], [a, ..]) = Net::three(1, 6);
    for end in ["COMMIT", "ROLLBACK", "RESET"] {
        for _ in 0..50 {
            net.pipeline(client, &["BEGIN", &format!("GET {a}"), end]);
            net.pipeline(client, &["BEGIN", &format!("SET {a} 1"), end, "BEGIN", &format!("GET {a}"), end]);
        }
    }
    net.pipeline(client, &["BEGIN", &format!("GET {a}")]);
    assert_eq!(net.looked_after(0), 1);
    net.sleep(2000);
    assert_eq!(net.looked_after(0), 1);
    net.ask(client, "ROLLBACK");
    net.sleep(2000);
    assert_eq!(net.looked_after(0), 0);
    nothing_is_left(&mut net);
}

/// A client leaves at any moment after it has begun a transaction that publishes: either all of it happens, or nothing.
#[test]
fn messages_are_published_if_their_transaction_happens_though_its_client_has_gone() {
    let (mut both, mut neither) = (0, 0);
    for how in ["COMMIT", "EXEC", "EVAL"] {
        for turns in 0..40 {
            let (mut net, [client, other, _], [_, b, c]) = Net::three(1, 6);
            let listener = net.connect(2);
            net.ask(listener, "SUBSCRIBE news");
            let script =
                "redis.call('set', KEYS[1], 1) redis.call('set', KEYS[2], 1) redis.call('publish', 'news', 'x')";
            if how == "EVAL" {
                net.send_words(client, &["EVAL", script, "2", &b, &c]);
            } else {
                net.ask(client, if how == "COMMIT" { "BEGIN" } else { "MULTI" });
                for command in [&format!("MSET {b} 1 {c} 1"), "PUBLISH news x"] {
                    net.ask(client, command);
                }
                net.send(client, how);
            }
            net.turns(turns);
            net.leave(client);
            net.run();
            (0..20).for_each(|_| net.sleep(500));
            let happened = net.say(other, &format!("EXISTS {b} {c}"));
            let heard = net.heard(listener).len();
            assert!(
                (&*happened, heard) == ("2", 1) || (&*happened, heard) == ("0", 0),
                "{how}, {turns}: {happened} {heard}"
            );
            *if heard == 1 { &mut both } else { &mut neither } += 1;
            nothing_is_left(&mut net);
        }
    }
    assert!(both > 0 && neither > 0, "{both} {neither}");
}

#[test]
fn what_commit_says_tells_whether_the_transaction_is_still_there() {
    let (mut net, [client, other, _], [a, b, c]) = Net::three(1, 6);
    let far = key_of(1, 3, "far");
    // COMMIT is refused before any node is asked, or by one of them.
    for turns in [0, 1] {
        net.ask(client, "BEGIN");
        net.ask(client, &format!("MSET {a} 1 {b} 1 {c} 1 {far} 1"));
        if turns == 0 {
            net.lease(0, 0);
        } else {
            net.lease(1, 0);
        }
        net.sleep(10);
        let refused = net.say(client, "COMMIT");
        net.lease(0, u64::MAX);
        net.lease(1, u64::MAX);
        net.sleep(100);
        let again = net.say(client, "COMMIT");
        if refused.starts_with("-ABORTED") {
            assert_eq!(turns, 1, "{refused}");
            assert!(refused.contains("CLUSTERDOWN"), "{refused}");
            assert_eq!(again, "-ERR COMMIT without BEGIN");
            assert_eq!(net.say(other, &format!("EXISTS {a} {b} {c} {far}")), "0");
        } else {
            assert!(turns == 0 && refused.starts_with("-CLUSTERDOWN"), "{refused}");
            assert_eq!(again, "OK");
            assert_eq!(net.say(other, &format!("DEL {a} {b} {c} {far}")), "4");
        }
    }
    nothing_is_left(&mut net);
}

#[test]
fn who_waits_for_an_answer_is_not_idle() {
    let mut net = Net::with(3, 1, 6, &[("transaction-idle-timeout", "5")]);
    let client = net.connect(0);
    let a = key_of(1, 3, "a");
    net.ask(client, "BEGIN");
    net.ask(client, &format!("SET {a} 1"));
    net.stalled.push(1);
    net.send(client, &format!("GET {}", key_of(1, 3, "new")));
    (0..20).for_each(|_| net.sleep(500));
    assert_eq!(net.replies(client).len(), 0);
    net.stalled.clear();
    (0..6).for_each(|_| net.sleep(500));
    assert_eq!(net.replies(client).iter().map(shown).collect::<Vec<_>>(), ["nil"]);
    assert_eq!(net.say(client, "COMMIT"), "OK");
    nothing_is_left(&mut net);
}

#[test]
fn nobody_waits_for_a_command_that_runs_on_copies() {
    let (mut net, [client, other, _], [a, b, _]) = Net::three(1, 6);
    net.ask(client, &format!("MSET {a} 1 {b} 1"));
    net.ask(client, "BEGIN repeatable-read");
    net.clock.step.store(1_000_000, Relaxed);
    let script = "local before = redis.call('incr', KEYS[1])
        for i = 1, 30000 do redis.call('get', KEYS[1]) end
        return {before, redis.call('get', KEYS[2])}";
    net.send_words(client, &["EVAL", script, "2", &a, &b]);
    net.turns(30);
    assert_eq!(net.replies(client), [], "it runs");
    assert!(net.is_quiet(), "what it runs on is not locked");
    net.send(other, &format!("INCR {b}"));
    net.turns(30);
    assert_eq!(net.replies(client), [], "it runs");
    assert_eq!(net.replies(other).iter().map(shown).collect::<Vec<_>>(), ["2"]);
    net.clock.step.store(100, Relaxed);
    assert_eq!(net.heard(client), ["[2 1]"]);
    assert_eq!(net.say(client, "COMMIT"), "OK");
    assert_eq!(net.say(other, &format!("MGET {a} {b}")), "[2 2]");
    // A script may need any number of undeclared keys.
    net.ask(client, "BEGIN");
    let curious = "for i = 1, 300 do redis.call('incr', KEYS[1] .. i) end return redis.call('get', KEYS[2])";
    assert_eq!(net.say_words(client, &["EVAL", curious, "2", &a, &b]), "2");
    assert_eq!(net.say(client, "COMMIT"), "OK");
    assert_eq!(net.say(other, &format!("MGET {a}1 {a}300 {a}301")), "[1 1 nil]");
    nothing_is_left(&mut net);
}

/// Clients move money step by step, between one another's commands, while links end. None is lost, and a COMMIT that
/// read all accounts saw a right sum.
#[test]
fn accounts_are_never_seen_half_changed() {
    for seed in 1..7 {
        let mut net = Net::new(3, 1 + seed as usize % 2, seed);
        let accounts: Vec<String> = (0..4).map(|i| key_of(i % 3, 3, &format!("account{i}"))).collect();
        let mut clients: Vec<usize> = (0..4).map(|i| net.connect(i % 3)).collect();
        let setter = net.connect(0);
        for account in &accounts {
            net.ask(setter, &format!("SET {account} 100"));
        }
        let mut chance = random(seed * 7919);
        let (mut moved, mut read) = (0, 0);
        for _ in 0..60 {
            for &client in &clients {
                let commands: Vec<String> = if chance(3) == 0 {
                    accounts.iter().map(|account| format!("GET {account}")).collect()
                } else {
                    let (from, to) = (chance(4), (1 + chance(3)) % 4);
                    let amount = chance(10);
                    vec![format!("DECRBY {} {amount}", accounts[from]), format!("INCRBY {} {amount}", accounts[to])]
                };
                net.send(client, "BEGIN");
                commands.iter().for_each(|command| net.send(client, command));
                net.turns(chance(8));
                net.send(client, "COMMIT");
                net.turns(chance(8));
            }
            if chance(6) == 0 {
                let (a, b) = (chance(3), chance(3));
                net.cut(a, b);
            }
            net.run();
            for _ in 0..60 {
                net.sleep(20);
            }
            for client in &mut clients {
                let replies: Vec<String> = net.replies(*client).iter().map(shown).collect();
                if net.clients[*client].closed {
                    *client = net.connect(chance(3));
                    continue;
                }
                let ended = replies.last().cloned().unwrap_or_default();
                if ended == "OK" && replies.len() == 6 {
                    let sum: i64 = replies[1..5].iter().filter_map(|reply| reply.parse::<i64>().ok()).sum();
                    assert_eq!(sum, 400, "seed {seed}: {replies:?}");
                    read += 1;
                } else if ended == "OK" && replies.len() == 4 {
                    moved += 1;
                } else {
                    net.pipeline(*client, &["ROLLBACK"]);
                }
            }
        }
        let all: Vec<String> = accounts.iter().map(|account| net.say(setter, &format!("GET {account}"))).collect();
        assert_eq!(all.iter().map(|text| text.parse::<i64>().unwrap()).sum::<i64>(), 400, "seed {seed}: {all:?}");
        assert!(moved > 5 && read > 1, "seed {seed}: {moved} {read}");
        net.sleep(5000);
        nothing_is_left(&mut net);
    }
}
