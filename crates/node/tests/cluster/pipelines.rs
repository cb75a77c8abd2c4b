//! Commands for keys of any node, through any node.

use crate::net::{Net, key_of, shown};

#[test]
fn any_node_serves_any_key() {
    let mut net = Net::new(3, 2, 1);
    let clients: Vec<usize> = (0..3).map(|node| net.connect(node)).collect();
    for i in 0..300 {
        assert_eq!(net.say(clients[i % 3], &format!("SET key:{i} value:{i}")), "OK");
    }
    for i in 0..300 {
        assert_eq!(net.say(clients[(i + 1) % 3], &format!("GET key:{i}")), format!("value:{i}"));
    }
    let keys: Vec<u64> = (0..3).map(|node| net.node(node).engine.keyspace.len(0)).collect();
    assert_eq!(keys.iter().sum::<u64>(), 300);
    assert!(keys.iter().all(|keys| *keys > 50), "{keys:?}");
}

#[test]
fn replies_of_a_pipeline_come_in_order() {
    for seed in 1..20 {
        let mut net = Net::new(3, 1 + seed as usize % 2, seed);
        let client = net.connect(0);
        let other = net.connect(1);
        let (mut commands, mut expected) = (Vec::new(), Vec::new());
        for i in 0..400 {
            let (node, n) = ((i * 7 + seed as usize) % 3, i);
            let key = key_of(node, 3, &format!("k{}", i % 20));
            match i % 9 {
                0 => (commands.push("PING".to_owned()), expected.push("PONG".to_owned())),
                1 => (commands.push(format!("ECHO {n}")), expected.push(n.to_string())),
                2 => (commands.push("NOSUCH x".into()), expected.push("-ERR unknown".to_owned())),
                3 => (commands.push(format!("LPUSH {key} x")), expected.push("-WRONGTYPE".to_owned())),
                _ => {
                    commands.push(format!("SET {key} {n}"));
                    expected.push("OK".into());
                    commands.push(format!("GET {key}"));
                    (expected.push(n.to_string()), ())
                }
            };
        }
        // Keys that exist before, with a wrong type among them.
        for node in 0..3 {
            for i in 0..20 {
                net.ask(other, &format!("SET {} before", key_of(node, 3, &format!("k{i}"))));
            }
        }
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let replies: Vec<String> = net.pipeline(client, &commands).iter().map(shown).collect();
        assert_eq!(replies.len(), expected.len(), "seed {seed}");
        for ((reply, expected), command) in replies.iter().zip(&expected).zip(&commands) {
            let right = if expected.starts_with('-') { reply.starts_with(expected) } else { reply == expected };
            assert!(right, "seed {seed}, {command}: {reply}, not {expected}");
        }
    }
}

#[test]
fn inline_commands_and_databases_are_forwarded_too() {
    let mut net = Net::new(2, 1, 5);
    let client = net.connect(0);
    let key = key_of(1, 2, "k");
    net.send_raw(
        client,
        format!("SET {key} zero\r\nSELECT 3\r\nSET {key} \"three 3\"\r\nGET {key}\r\nSELECT 0\r\nGET {key}\r\n")
            .as_bytes(),
    );
    assert_eq!(net.heard(client), ["OK", "OK", "OK", "three 3", "OK", "zero"]);
    assert!(net.say(client, "HELLO 3").contains("Map"));
    net.ask(client, &format!("DEL {key}"));
    assert_eq!(net.say(client, &format!("HSET {key} f v")), "1");
    assert!(net.say(client, &format!("HGETALL {key}")).starts_with("Map"));
    assert_eq!(net.say(client, &format!("GET {}", key_of(1, 2, "none"))), "nil");
}

#[test]
fn long_replies_come_as_a_whole() {
    let mut net = Net::new(2, 1, 9);
    let client = net.connect(0);
    let (text, list) = (key_of(1, 2, "text"), key_of(1, 2, "list"));
    let long = "x".repeat(3_000_000);
    assert_eq!(net.say(client, &format!("SET {text} {long}")), "OK");
    for i in 0..40 {
        let values: Vec<String> = (0..1000).map(|j| format!("value:{i}:{j}")).collect();
        net.ask(client, &format!("RPUSH {list} {}", values.join(" ")));
    }
    net.send(client, "PING");
    net.send(client, &format!("LRANGE {list} 0 -1"));
    net.send(client, &format!("GET {text}"));
    net.send(client, "PING");
    net.run();
    let replies = net.replies(client);
    assert_eq!(shown(&replies[0]), "PONG");
    let resp::Value::Array(values) = &replies[1] else { panic!("a list") };
    assert_eq!((values.len(), shown(&values[39_999])), (40_000, "value:39:999".into()));
    assert_eq!(shown(&replies[2]).len(), long.len());
    assert_eq!((shown(&replies[3]), replies.len()), ("PONG".into(), 4));
}

#[test]
fn clients_that_want_no_replies_get_none() {
    let mut net = Net::new(2, 1, 3);
    let client = net.connect(0);
    let key = key_of(1, 2, "n");
    let incr = format!("INCR {key}");
    let replies = net.pipeline(
        client,
        &["CLIENT REPLY SKIP", &incr, &incr, "CLIENT REPLY OFF", &incr, &incr, "CLIENT REPLY ON", &incr],
    );
    assert_eq!(replies.iter().map(shown).collect::<Vec<_>>(), ["2", "OK", "5"]);
}

#[test]
fn who_waits_for_a_key_of_another_node_is_served() {
    let mut net = Net::new(3, 2, 4);
    let (waiter, pusher) = (net.connect(0), net.connect(1));
    let list = key_of(2, 3, "list");
    net.send(waiter, &format!("BLPOP {list} 0"));
    net.send(waiter, "PING");
    assert_eq!(net.heard(waiter), Vec::<String>::new());
    net.ask(pusher, &format!("RPUSH {list} a"));
    assert_eq!(net.heard(waiter), [format!("[{list} a]"), "PONG".into()]);
    // The owner keeps the timeout.
    net.send(waiter, &format!("BLPOP {list} 2"));
    net.run();
    net.sleep(1000);
    assert_eq!(net.heard(waiter), Vec::<String>::new());
    net.sleep(1100);
    assert_eq!(net.heard(waiter), ["nil"]);
    // A client that leaves takes no element.
    net.send(waiter, &format!("BLPOP {list} 0"));
    net.run();
    net.leave(waiter);
    net.run();
    assert_eq!(net.say(pusher, &format!("RPUSH {list} b")), "1");
    assert_eq!(net.say(pusher, &format!("LLEN {list}")), "1");
}

#[test]
fn commands_with_keys_of_one_other_node() {
    let mut net = Net::new(2, 1, 6);
    let client = net.connect(0);
    let (b, c) = (key_of(1, 2, "b"), key_of(1, 2, "c"));
    assert_eq!(net.say(client, &format!("MSET {b} 1 {c} 2")), "OK");
    assert_eq!(net.say(client, &format!("MGET {c} {b}")), "[2 1]");
    assert_eq!(net.say(client, &format!("RENAME {b} {c}")), "OK");
    assert_eq!(net.say(client, &format!("GET {c}")), "1");
}

#[test]
fn long_replies_of_several_nodes_wait_for_each_other() {
    let mut net = Net::new(3, 1, 9);
    let client = net.connect(0);
    let keys: Vec<String> = (0..6).map(|i| key_of(i % 3, 3, &format!("text:{i}"))).collect();
    for (i, key) in keys.iter().enumerate() {
        let text = i.to_string().repeat(3_000_000);
        assert_eq!(net.say(client, &format!("SET {key} {text}")), "OK");
    }
    for _ in 0..3 {
        keys.iter().rev().for_each(|key| net.send(client, &format!("GET {key}")));
    }
    let replies = net.heard(client);
    assert_eq!(replies.len(), 18);
    for (i, reply) in replies.iter().enumerate() {
        assert!(reply.len() == 3_000_000 && reply.starts_with(&(5 - i % 6).to_string()), "reply {i}");
    }
}

#[test]
fn a_client_that_waits_elsewhere_is_unblocked_here() {
    let mut net = Net::new(2, 2, 4);
    let (waiter, other) = (net.connect(0), net.connect(0));
    let list = key_of(1, 2, "list");
    let id = net.say(waiter, "CLIENT ID");
    let unblock = |net: &mut Net, how: &str| {
        net.send(other, &format!("CLIENT UNBLOCK {id}{how}"));
        net.run();
        net.sleep(5);
        net.heard(other)
    };
    assert_eq!(unblock(&mut net, ""), ["0"]);
    for (how, expected) in [("", "nil"), (" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK")] {
        net.send(waiter, &format!("BLPOP {list} 0"));
        net.run();
        assert!(net.say(other, "INFO clients").contains("blocked_clients:1"));
        assert_eq!(unblock(&mut net, how), ["1"]);
        assert_eq!(net.heard(waiter), [expected]);
    }
    assert_eq!(net.say(other, &format!("RPUSH {list} x")), "1");
    // A client is killed while it waits.
    net.send(waiter, &format!("BLPOP {} 0", key_of(1, 2, "none")));
    net.run();
    assert_eq!(net.say(other, &format!("CLIENT KILL ID {id}")), "1");
    net.run();
    assert!(net.clients[waiter].closed);
    assert_eq!(unblock(&mut net, ""), ["0"]);
}

#[test]
fn what_comes_before_a_reply_that_comes_soon_waits_for_it() {
    let mut net = Net::new(2, 1, 23);
    let client = net.connect(0);
    let (near, far, list) = (key_of(0, 2, "k"), key_of(1, 2, "k"), key_of(1, 2, "list"));
    net.say(client, &format!("SET {far} far"));
    net.say(client, &format!("SET {near} near"));
    let three = [format!("GET {near}"), format!("GET {far}"), format!("GET {near}")];
    net.stalled.push(1);
    three.iter().for_each(|command| net.send(client, command));
    assert_eq!(net.heard(client), [""; 0], "one send is enough for all of them");
    net.stalled.clear();
    assert_eq!(net.heard(client), ["near", "far", "near"]);
    // Large replies do not wait for those behind them.
    net.say(client, &format!("SET {near} {}", "x".repeat(20_000)));
    net.stalled.push(1);
    three.iter().for_each(|command| net.send(client, command));
    assert_eq!(net.heard(client).len(), 1);
    net.stalled.clear();
    assert_eq!(net.heard(client).len(), 2);
    // Replies do not wait for a command that may take long.
    net.say(client, &format!("SET {near} near"));
    net.send(client, &format!("GET {near}"));
    net.send(client, &format!("GET {far}"));
    net.send(client, &format!("BLPOP {list} 0"));
    assert_eq!(net.heard(client), ["near", "far"]);
    net.send(client, "PING");
    let other = net.connect(1);
    net.say(other, &format!("LPUSH {list} element"));
    assert_eq!(net.heard(client).len(), 2);
}
