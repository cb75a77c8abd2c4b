//! BEGIN, COMMIT, ROLLBACK.

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
    // What is read, changed by another before COMMIT; then what is written; then neither.
    for (level, read, written) in
        [("strict-serializable", false, false), ("repeatable-read", true, false), ("read-committed", true, false)]
    {
        for (touched, commits) in [(&a, read), (&b, written), (&c, true)] {
            net.ask(client, &format!("MSET {a} 1 {b} 2 {c} 3"));
            net.ask(client, &format!("BEGIN {level}"));
            assert_eq!(net.say(client, &format!("GET {a}")), "1");
            assert_eq!(net.say(client, &format!("INCR {b}")), "3");
            net.ask(other, &format!("INCR {touched}"));
            // What was read stays so, but for read-committed.
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
    // That something is not there is something that was read, too.
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
    for command in ["MULTI", "WATCH x", "KEYS *", "FLUSHALL", "DBSIZE", "SORT x BY w_*"] {
        assert_eq!(net.say(client, command), "-ERR this command is not possible between BEGIN and COMMIT", "{command}");
    }
    assert!(net.say(client, "NONSENSE").starts_with("-ERR unknown command"));
    // Scripts find out what they need; messages wait.
    let script = "redis.call('set', KEYS[1], 1) redis.call('set', ARGV[1], redis.call('incr', ARGV[2])) return 'done'";
    assert_eq!(net.say_words(client, &["EVAL", script, "1", &a, &b, &c]), "done");
    assert_eq!(net.say(client, "PUBLISH news read"), "0");
    assert_eq!(net.say(client, &format!("BLPOP {a}x {b}x 0")), "nil");
    net.ask(client, "SELECT 2");
    assert_eq!(net.say(client, &format!("SET {a} two")), "OK");
    assert_eq!(net.heard(listener), [""; 0]);
    assert_eq!(net.say(client, "COMMIT"), "OK");
    assert_eq!(net.heard(listener), ["[message news read]"]);
    assert_eq!(net.say(client, &format!("GET {a}")), "two");
    assert_eq!(net.say(other, &format!("MGET {a} {b} {c}")), "[1 1 1]");
    // One that is idle for too long.
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
    // What is too large.
    net.ask(client, "BEGIN");
    let text = "x".repeat(5_000_000);
    assert_eq!(net.say(client, &format!("SET {a} {text}")), "OK");
    assert_eq!(net.say(client, &format!("SET {b} y")), "OK");
    let large = net.say(client, &format!("APPEND {a} {text}"));
    assert!(large.starts_with("-ERR the transaction is too large"), "{large}");
    assert_eq!(net.say(client, &format!("STRLEN {a}")), text.len().to_string());
    assert_eq!(net.say(client, "COMMIT"), "OK");
    assert_eq!(net.say(other, &format!("STRLEN {a}")), text.len().to_string());
    // A node that does not serve: what was begun may be committed later.
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

/// Money is moved step by step by clients that come between one another, and whose links end: none is lost, and a COMMIT that read all of it saw all of it.
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
