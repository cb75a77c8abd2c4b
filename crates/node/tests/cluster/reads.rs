//! Commands that only read at several nodes log nothing (rule T3).

use membership::Map;
use txn::Lock;
use txn::locks::Mode;

use crate::net::{Net, even_map, keys};
use crate::transactions::slip_in_prepare;

/// Reads of two keys, as a block, a command and a script, and their replies.
fn reads(a: &str, b: &str) -> [(Vec<String>, &'static str); 3] {
    let script = format!("EVAL_RO return{{redis.call('get',KEYS[1]),redis.call('get',KEYS[2])}} 2 {a} {b}");
    let block = ["MULTI".into(), format!("GET {a}"), format!("GET {b}"), "EXEC".into()];
    [(vec![format!("MGET {a} {b}")], "[1 1]"), (block.into(), "[1 1]"), (vec![script], "[1 1]")]
}

/// The last reply to these commands.
fn last(net: &mut Net, client: usize, lines: &[String]) -> String {
    lines.iter().for_each(|line| net.send(client, line));
    net.heard(client).pop().unwrap_or_default()
}

#[test]
fn nothing_is_logged() {
    for workers in [1, 2] {
        let mut net = Net::logged(3, workers, 5, "always");
        let (client, other) = (net.connect(0), net.connect(2));
        let [a, b, _] = keys(3);
        assert_eq!(net.say(client, &format!("MSET {a} 1 {b} 1")), "OK");
        assert_eq!(net.say(client, &format!("PEXPIRE {b} 100000000")), "1");
        net.sleep(600);
        (0..3).for_each(|node| net.hang_log(node, true));
        for (lines, answer) in reads(&a, &b) {
            assert_eq!(last(&mut net, client, &lines), answer, "{lines:?}");
            assert_eq!(net.say(other, &format!("GET {b}")), "1", "nor changed");
        }
        for command in [format!("WATCH {b}"), "MULTI".into(), format!("GET {a}")] {
            net.ask(other, &command);
        }
        assert_eq!(net.say(other, "EXEC"), "[1]", "what it watches is only read, too");
        net.sleep(300);
        assert!(net.is_quiet(), "nothing is left");
        // A write that waits for a log proves that there is one.
        net.send(client, &format!("MSET {a} 2 {b} 2"));
        assert!(net.heard(client).is_empty());
        (0..3).for_each(|node| net.hang_log(node, false));
        assert_eq!(net.heard(client), ["OK"]);
    }
}

/// Readers need no disk: they get the same replies once it is gone.
#[test]
fn a_node_whose_log_has_failed_is_read() {
    let mut net = Net::logged(3, 1, 5, "always");
    let (client, other) = (net.connect(0), net.connect(1));
    let [a, b, c] = keys(3);
    assert_eq!(net.say(client, &format!("MSET {a} 1 {b} 1 {c} 1")), "OK");
    assert_eq!(net.say(client, &format!("PEXPIRE {b} 100000000")), "1");
    net.sleep(600);
    let x = format!("{b}x{{{b}}}");
    net.hang_log(1, true);
    net.send(other, &format!("SET {x} 1"));
    let reader = net.connect(2);
    net.send(reader, &format!("MGET {a} {x}"));
    assert!(net.heard(reader).is_empty(), "it may be lost");
    net.fail_sync(1);
    net.hang_log(1, false);
    let refused = net.heard(reader).join("");
    assert!(refused.starts_with("-MISCONF"), "what is not committed is not told: {refused}");
    for (lines, answer) in reads(&a, &b) {
        assert_eq!(last(&mut net, client, &lines), answer, "{lines:?}");
        assert_eq!(net.say(client, &format!("GET {b}")), "1", "as it was");
    }
    let refused = net.say(client, &format!("MSET {a} 2 {b} 2"));
    assert!(refused.starts_with("-MISCONF") && refused.ends_with("(node 10.0.0.2:7001)"), "{refused}");
}

/// Rule L7: no client hears of uncommitted changes, not even one that asks twice.
#[test]
fn what_is_not_committed_is_not_told() {
    let mut net = Net::logged(2, 1, 5, "always");
    let (client, reader) = (net.connect(1), net.connect(0));
    let [a, b] = keys(2);
    assert_eq!(net.say(reader, &format!("MSET {a} 1 {b} 1")), "OK");
    net.sleep(600);
    net.hang_log(1, true);
    net.send(client, &format!("SET {b} 2"));
    net.run();
    net.send(reader, &format!("MGET {a} {b}"));
    net.run();
    let lock = Lock { db: 0, key: b.as_bytes().into(), mode: Mode::Shared };
    slip_in_prepare(&mut net, 2, vec![lock], &["GET", &b]);
    assert!(net.heard(reader).is_empty(), "it may be lost");
    net.hang_log(1, false);
    assert_eq!(net.heard(client), ["OK"]);
    assert_eq!(net.heard(reader), ["[1 2]"]);
    net.sleep(300);
    assert!(net.is_quiet());
}

/// As with reads at one node, each owner publishes misses of its keys.
#[test]
fn what_is_not_there_is_told() {
    let mut net = Net::with(3, 1, 5, &[("notify-keyspace-events", "Em")]);
    let (client, other) = (net.connect(0), net.connect(1));
    let [a, b, _] = keys(3);
    net.ask(other, "SUBSCRIBE __keyevent@0__:keymiss");
    for (lines, _) in reads(&a, &b) {
        lines.iter().for_each(|line| net.send(client, line));
        net.sleep(100);
        let mut told = net.heard(other);
        told.sort();
        let of = |key: &str| format!("[message __keyevent@0__:keymiss {key}]");
        assert_eq!(told, [of(&a), of(&b)], "{lines:?}");
    }
}

/// A reader that waits for longer than a read counts logs its next attempt, and gets its reply however long that takes.
#[test]
fn who_waits_for_long_is_answered() {
    for (at, workers) in [(0, 1), (2, 2)] {
        let mut net = Net::logged(3, workers, 5, "always");
        let (client, reader) = (net.connect(0), net.connect(at));
        let [a, b, _] = keys(3);
        assert_eq!(net.say(client, &format!("MSET {a} 1 {b} 1")), "OK");
        net.sleep(600);
        net.hang_log(1, true);
        net.send(client, &format!("MSET {a} 2 {b} 2"));
        net.run();
        net.send(reader, &format!("MGET {a} {b}"));
        for _ in 0..20 {
            net.sleep(100);
            assert!(net.heard(reader).is_empty(), "it waits for what is written");
        }
        net.hang_log(1, false);
        (0..20).for_each(|_| net.sleep(50));
        assert_eq!(net.heard(client), ["OK"]);
        assert_eq!(net.heard(reader), ["[2 2]"]);
        net.sleep(1000);
        assert!(net.is_quiet());
    }
}

/// Locks that an earlier life held for readers count for a while.
#[test]
fn a_node_that_has_started_serves_nothing_for_a_while() {
    let mut net = Net::logged(3, 1, 5, "always");
    let client = net.connect(0);
    let [a, b, _] = keys(3);
    assert_eq!(net.say(client, &format!("MSET {a} 1 {b} 1")), "OK");
    net.sleep(2000);
    let mut nodes = even_map(3, 2).nodes().to_vec();
    nodes[1].incarnation = 2;
    net.power_fails(1, Map::new(even_map(3, 2).cluster(), 2, 1, nodes, even_map(3, 2).ranges().to_vec()));
    let other = net.connect(1);
    for (ms, serves) in [(0, false), (199, false), (1, true)] {
        net.sleep(ms);
        let reply = net.say(other, &format!("GET {b}"));
        assert_eq!(reply == "1", serves, "{ms}: {reply}");
        assert_eq!(reply.starts_with("-CLUSTERDOWN"), !serves, "{ms}: {reply}");
    }
}
