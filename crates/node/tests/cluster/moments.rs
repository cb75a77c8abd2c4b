//! Keys of several nodes that expire at one moment: no client sees one gone and the other there, with any clocks.

use crate::net::Net;

/// Nodes with a clock that is ahead, the milliseconds, and the workers of a node.
const CLOCKS: [(usize, u64, usize); 5] = [(0, 0, 1), (0, 25, 1), (1, 25, 2), (1, 3, 1), (2, 5000, 1)];

/// Milliseconds for which keys exist, by a right clock.
const LIFE: u64 = 60;

/// Two keys of different nodes that expire at the same moment, and clients of three nodes.
fn with_keys((node, ahead_ms, workers): (usize, u64, usize), setting: &str) -> (Net, [usize; 3], [String; 2]) {
    let (mut net, clients, [a, b, _]) = Net::three(workers, 5);
    net.sets_clock(node, ahead_ms);
    let ends = net.node(0).clock.unix_ms() + LIFE;
    let block = ["MULTI".into(), format!("SET {a} 1"), format!("SET {b} 1")];
    let end = [&a, &b].map(|key| setting.replace("KEY", key).replace("ENDS", &ends.to_string()));
    for line in block.iter().chain(&end).chain(["EXEC".to_owned()].iter()) {
        net.send(clients[2], line);
    }
    net.sleep(1);
    net.heard(clients[2]);
    (net, clients, [a, b])
}

/// Asks again and again until the keys are gone by every clock. Returns each client's last reply of each round, in the
/// order in which they came.
fn answers(net: &mut Net, clients: &[usize], lines: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    let mut lacking = vec![0; clients.len()];
    for step in 0..2000 {
        for (client, lacking) in clients.iter().zip(&mut lacking).filter(|(_, lacking)| **lacking == 0) {
            if step < 3 * LIFE {
                lines.iter().for_each(|line| net.send(*client, line));
                *lacking = lines.len();
            }
        }
        net.sleep(if step < 3 * LIFE { 1 } else { 10 });
        for (client, lacking) in clients.iter().zip(&mut lacking).filter(|(_, lacking)| **lacking > 0) {
            let mut heard = net.heard(*client);
            *lacking -= heard.len();
            all.extend(heard.pop().filter(|_| *lacking == 0));
        }
    }
    assert!(net.is_quiet());
    all
}

#[test]
fn readers_see_them_end_together() {
    for clocks in CLOCKS {
        for how in ["MGET", "block", "EXISTS", "script"] {
            let (mut net, clients, [a, b]) = with_keys(clocks, "PEXPIREAT KEY ENDS");
            let lines: Vec<String> = match how {
                "MGET" => vec![format!("MGET {a} {b}")],
                "EXISTS" => vec![format!("EXISTS {a} {b}")],
                "block" => vec!["MULTI".into(), format!("GET {a}"), format!("GET {b}"), "EXEC".into()],
                _ => vec![format!("EVAL_RO return{{redis.call('get',KEYS[1]),redis.call('get',KEYS[2])}} 2 {a} {b}")],
            };
            let seen = answers(&mut net, &clients[..2], &lines);
            let there = |answer: &String| match answer.as_str() {
                "[1 1]" | "2" => true,
                "[nil nil]" | "0" => false,
                torn => panic!("{clocks:?} {how}: {torn}"),
            };
            let seen: Vec<bool> = seen.iter().map(there).collect();
            assert!(seen.is_sorted_by(|before, after| before >= after), "{clocks:?} {how}: what is gone comes back");
            assert!(seen.last() == Some(&false) && (clocks.1 > LIFE || seen[0]), "{clocks:?} {how}: {seen:?}");
        }
    }
}

#[test]
fn writers_find_them_together() {
    for clocks in CLOCKS {
        let (mut net, clients, [a, b]) = with_keys(clocks, "PEXPIREAT KEY ENDS");
        let lines = ["MULTI".into(), format!("APPEND {a} x"), format!("APPEND {b} x"), "EXEC".into()];
        let lengths = answers(&mut net, &clients[..2], &lines);
        for answer in &lengths {
            let (one, other) = answer.trim_matches(['[', ']']).split_once(' ').unwrap();
            assert_eq!(one, other, "{clocks:?}: {answer}");
        }
        let value = |net: &mut Net, key: &str| net.say(clients[2], &format!("GET {key}"));
        let (one, other) = (value(&mut net, &a), value(&mut net, &b));
        assert!(one == other && one.chars().all(|c| c == 'x'), "{clocks:?}: {one} {other}");
    }
}

#[test]
fn fields_end_together() {
    for clocks in CLOCKS {
        let (mut net, clients, [a, b, _]) = Net::three(clocks.2, 5);
        net.sets_clock(clocks.0, clocks.1);
        let ends = net.node(0).clock.unix_ms() + LIFE;
        for key in [&a, &b] {
            assert_eq!(net.say(clients[2], &format!("HSET {key} f 1 g 2")), "2");
            net.ask(clients[2], &format!("HPEXPIREAT {key} {ends} FIELDS 1 f"));
        }
        let lines = ["MULTI".into(), format!("HGET {a} f"), format!("HGET {b} f"), "EXEC".into()];
        for answer in answers(&mut net, &clients[..2], &lines) {
            assert!(["[1 1]", "[nil nil]"].contains(&&*answer), "{clocks:?}: {answer}");
        }
        assert_eq!(net.say(clients[0], &format!("HGET {a} g")), "2");
    }
}

/// Nor do keys come back: a later reader of one key alone is answered by its owner's clock.
#[test]
fn what_was_seen_gone_is_gone() {
    for clocks in CLOCKS {
        let (mut net, clients, [a, b]) = with_keys(clocks, "PEXPIREAT KEY ENDS");
        let script = format!("EVAL_RO return{{redis.call('get',KEYS[1]),redis.call('get',KEYS[2])}} 2 {a} {b}");
        let mut answers = Vec::new();
        for _ in 0..200 {
            for line in [&script, &format!("MGET {a} {b}")] {
                let answer = told(&mut net, clients[0], line);
                for key in [&a, &b].into_iter().filter(|_| answer == "[nil nil]") {
                    assert_eq!(net.say(clients[1], &format!("GET {key}")), "nil", "{clocks:?} {line}");
                }
                answers.push(answer);
            }
            net.sleep(1);
        }
        assert!(answers.iter().all(|answer| answer == "[1 1]" || answer == "[nil nil]"), "{clocks:?}: {answers:?}");
        assert_eq!(answers.last().map(String::as_str), Some("[nil nil]"), "{clocks:?}");
    }
}

/// Nor is the key taken for one that never existed, by a worker of its owner whose turn began before it expired.
#[test]
fn who_began_its_turn_before_knows_what_has_ended() {
    for slow in [0, 1] {
        let (mut net, clients, [a, b]) = with_keys((0, 0, 2), "PEXPIREAT KEY ENDS");
        // Clients of both workers of a node.
        let other = [net.connect(0), clients[0]][slow];
        net.long_turn = Some(((0, slow), net.node(0).clock.unix_ms()));
        // One owner has said that its key exists at a moment before both expire, and the other has not been reached
        // yet.
        net.stalled = vec![0];
        net.send(clients[2], &format!("MGET {a} {b}"));
        net.run();
        net.clock_only(LIFE + 1);
        assert_eq!(net.say(other, &format!("GET {a}")), "nil");
        net.stalled.clear();
        net.run();
        net.long_turn = None;
        assert_eq!(answer(&mut net, clients[2]).as_deref(), Some("[nil nil]"), "worker {slow}");
    }
}

/// A committed transaction saw one moment.
#[test]
fn who_commits_has_seen_them_together() {
    for clocks in CLOCKS {
        let (mut net, clients, [a, b]) = with_keys(clocks, "PEXPIREAT KEY ENDS");
        let mut committed = 0;
        for _ in 0..3 * LIFE {
            let mut say = |line: &str| told(&mut net, clients[0], line);
            say("BEGIN");
            let seen = [say(&format!("GET {a}")), say(&format!("GET {b}"))];
            let done = say("COMMIT");
            assert!(done == "OK" || done.starts_with("-CONFLICT"), "{done}");
            assert!(done != "OK" || seen[0] == seen[1], "{clocks:?}: {seen:?}");
            committed += usize::from(done == "OK");
            net.sleep(1);
        }
        assert!(committed > 0, "{clocks:?}");
    }
}

/// The clock of a coordinator that owns no key does not matter: it neither waits for keys to expire nor changes what is
/// seen of them.
#[test]
fn who_asks_may_be_ahead() {
    for ahead_ms in [5000, 50_000] {
        let (mut net, clients, [a, b, _]) = Net::three(1, 5);
        net.sets_clock(2, ahead_ms);
        for line in [format!("MGET {a} {b}"), format!("MSET {a} 1 {b} 1"), format!("EXISTS {a} {b}")] {
            net.ask(clients[0], &format!("SET {a} 1 PX 3000"));
            net.ask(clients[1], &format!("SET {b} 1 PX 3000"));
            let answer = net.say(clients[2], &line);
            assert!(["[1 1]", "OK", "2"].contains(&&*answer), "{ahead_ms} {line}: {answer}");
        }
    }
}

/// A key expires soon by a clock that is behind. The other owner's key exists, and it takes part in a moment that is
/// over by its own clock.
#[test]
fn who_is_ahead_waits_for_nobody_while_its_keys_are_there() {
    let (mut net, clients, [a, b, _]) = Net::three(1, 5);
    net.sets_clock(1, 5000);
    net.ask(clients[0], &format!("SET {a} 1 PX 3000"));
    net.ask(clients[1], &format!("SET {b} 1 PX 300"));
    for client in clients {
        assert_eq!(net.say(client, &format!("MGET {a} {b}")), "[1 1]");
    }
}

/// The reply to a client, however long it takes.
fn answer(net: &mut Net, client: usize) -> Option<String> {
    let mut answer = || {
        let heard = net.heard(client).pop();
        if heard.is_none() {
            net.sleep(1);
        }
        heard
    };
    (0..20_000).find_map(|_| answer())
}

/// Sends a line, and returns its reply.
fn told(net: &mut Net, client: usize, line: &str) -> String {
    net.send(client, line);
    answer(net, client).unwrap_or_else(|| panic!("{line} is not answered"))
}

/// Between BEGIN and COMMIT: a key that its owner has is not gone for a node whose clock is ahead.
#[test]
fn who_has_begun_sees_what_its_owner_has() {
    for isolation in ["strict-serializable", "read-committed"] {
        let (mut net, clients, [a, b, c]) = Net::three(1, 5);
        net.sets_clock(2, 5000);
        net.ask(clients[0], &format!("SET {a} 1 PX 3000"));
        let begin = format!("BEGIN {isolation}");
        for line in [&begin, &format!("SET {b} 2"), &format!("SET {b} 3")] {
            assert_eq!(net.say(clients[2], line), "OK");
        }
        assert_eq!(net.say(clients[2], &format!("SET {a} 2 NX")), "nil", "{isolation}");
        net.sleep(10);
        assert_eq!(net.say(clients[2], &format!("GET {a}")), "1", "{isolation}");
        assert_eq!(net.say(clients[2], "COMMIT"), "OK");
        // The owner of another key is ahead: a key that exists by another clock is waited for.
        net.ask(clients[2], &format!("SET {c} 1"));
        net.ask(clients[2], &begin);
        assert_eq!(net.say(clients[2], &format!("GET {c}")), "1");
        assert_eq!(told(&mut net, clients[2], &format!("GET {a}")), "nil", "{isolation}");
        assert_eq!(net.say(clients[0], &format!("GET {a}")), "nil", "{isolation}: what is gone comes back");
        assert_eq!(told(&mut net, clients[2], "COMMIT"), "OK");
    }
}

/// A transaction saw a key exist, and then gone by a clock that is ahead: there is no such moment.
#[test]
fn who_has_seen_it_there_and_gone_commits_nothing() {
    for written in [false, true] {
        let (mut net, clients, [a, _, c]) = Net::three(1, 5);
        net.sets_clock(2, 5000);
        net.ask(clients[0], &format!("SET {a} 1 PX 3000"));
        net.ask(clients[2], "BEGIN");
        let first = if written { format!("APPEND {a} x") } else { format!("GET {a}") };
        assert_eq!(net.say(clients[2], &first), if written { "2" } else { "1" });
        assert_eq!(net.say(clients[2], &format!("SET {c} 1")), "OK");
        assert_eq!(net.say(clients[2], &format!("GET {a}")), "nil");
        assert_eq!(net.say(clients[0], &format!("GET {a}")), "1");
        assert!(told(&mut net, clients[2], "COMMIT").starts_with("-CONFLICT"), "{written}");
        assert_eq!(net.say(clients[2], &format!("GET {c}")), "nil");
    }
}

/// A hash whose field has expired keeps its version until its owner deletes the field.
#[test]
fn who_commits_has_seen_fields_together() {
    let (mut net, clients, [a, b, _]) = Net::three(1, 5);
    for key in [&a, &b] {
        net.ask(clients[0], &format!("HSET {key} f 1 g 1"));
        net.ask(clients[0], &format!("HPEXPIRE {key} {LIFE} FIELDS 1 f"));
    }
    let mut conflicts = 0;
    for _ in 0..2 * LIFE {
        net.ask(clients[2], "BEGIN");
        let one = net.say(clients[2], &format!("HGET {a} f"));
        net.clock_only(1);
        let other = net.say(clients[2], &format!("HGET {b} f"));
        let done = told(&mut net, clients[2], "COMMIT");
        assert_eq!(done == "OK", one == other, "{one} {other}: {done}");
        conflicts += usize::from(done != "OK");
    }
    assert_eq!(conflicts, 1);
}

/// In any database, and even if nothing is left at its owner of an expired key.
#[test]
fn what_has_ended_and_is_deleted_is_missed() {
    for db in [0, 1] {
        let (mut net, clients, [a, b, _]) = Net::three(1, 5);
        net.sets_clock(1, 5000);
        let ends = net.node(0).clock.unix_ms() + 3000;
        for client in clients {
            net.ask(client, &format!("SELECT {db}"));
        }
        for key in [&a, &b] {
            net.ask(clients[0], &format!("SET {key} 1 PXAT {ends}"));
        }
        net.sleep(1000);
        assert_eq!(net.say(clients[1], "DBSIZE"), "1", "{b} is deleted, and {a} is there");
        assert_eq!(told(&mut net, clients[2], &format!("MGET {a} {b}")), "[nil nil]", "{db}");
    }
}
