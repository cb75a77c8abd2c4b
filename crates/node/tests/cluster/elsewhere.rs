//! Slots get another owner, and nodes hear of that one after the other. Plain clients do not notice, and no client
//! waits for a reply that will not come.

use std::sync::Arc;

use membership::map::{Node as Member, Range};
use membership::{Map, Slot};

use crate::net::{Net, even_map, key_of, shown};

/// The map after the third node of three has taken the second's slots. `out`: the second was removed; otherwise it has
/// none.
fn moved(version: u64, out: bool) -> Arc<Map> {
    let even = even_map(3, 1);
    let mut nodes: Vec<Member> = even.nodes().to_vec();
    nodes[2].epoch = 2;
    let heir = if out { 1 } else { 2 };
    if out {
        nodes.remove(1);
    }
    let ranges = even.ranges().iter().map(|range| Range { node: if range.node == 0 { 0 } else { heir }, ..*range });
    Arc::new(Map::new(even.cluster(), version, 2, nodes, ranges.collect()))
}

/// The map after the third node of three has taken the second's slots from the higher one of these keys on.
fn split_at(version: u64, a: &str, b: &str) -> Arc<Map> {
    let even = even_map(3, 1);
    let [_, of_second, _] = even.ranges() else { panic!("three ranges") };
    let slots = [a, b].map(|key| keyspace::slot_of(key.as_bytes()));
    let at = slots[0].max(slots[1]);
    let ranges = [
        even.ranges()[0],
        Range { end: Slot::of(at - 1), ..*of_second },
        Range { start: Slot::of(at), end: of_second.end, node: 2 },
        even.ranges()[2],
    ];
    let mut nodes: Vec<Member> = even.nodes().to_vec();
    nodes[2].epoch = 2;
    Arc::new(Map::new(even.cluster(), version, 2, nodes, ranges.to_vec()))
}

fn hear(net: &mut Net, nodes: &[usize], out: bool) {
    nodes.iter().for_each(|node| net.cluster(*node).set_map(moved(2, out)));
}

fn a_while(net: &mut Net) {
    (0..10).for_each(|_| net.sleep(100));
}

#[test]
fn plain_clients_do_not_notice_that_nodes_hear_of_a_map_one_after_the_other() {
    let key = key_of(1, 3, "k");
    let commands = [
        ["SET", &key, "1"].map(String::from).to_vec(),
        ["MGET", &key, &key].map(String::from).to_vec(),
        ["MGET", &key, &key_of(2, 3, "k")].map(String::from).to_vec(),
        ["EVAL", "return redis.call('incr', KEYS[1])", "1", &key].map(String::from).to_vec(),
        ["EVAL", "return redis.call('incr', ARGV[1])", "0", &key].map(String::from).to_vec(),
        ["LPOP", &key_of(1, 3, "list")].map(String::from).to_vec(),
        ["SCAN", &(u64::from(keyspace::slot_of(key.as_bytes())) << 39 | 1).to_string()].map(String::from).to_vec(),
        ["DEBUG", "OBJECT", &key].map(String::from).to_vec(),
    ];
    for (crumbles, late) in [(false, 0), (true, 0), (false, 2), (false, 1)] {
        for command in &commands {
            let mut net = Net::with(3, 1, 3, &[("enable-debug-command", "yes")]);
            net.crumbles = crumbles;
            let client = net.connect(0);
            let early: Vec<usize> = (0..3).filter(|node| *node != late).collect();
            // There are links now.
            net.ask(client, &format!("EXISTS {} {key}", key_of(2, 3, "k")));
            hear(&mut net, &early, false);
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            net.send_words(client, &words);
            a_while(&mut net);
            let early = net.heard(client);
            assert!(early.is_empty() || late == 1 || command[0] == "SCAN", "{late} {command:?}: {early:?}");
            hear(&mut net, &[late], false);
            a_while(&mut net);
            let replies = [early, net.heard(client)].concat();
            assert_eq!(replies.len(), 1, "{late} {command:?}: {replies:?}");
            let known = replies[0].starts_with("-ERR no such key");
            assert!(known || !replies[0].starts_with('-'), "{late} {command:?}: {replies:?}");
            // The key is at its owner, and not at the node that the command was first sent to.
            let there = net.connect(2);
            let count = net.say(there, &format!("EXISTS {key}"));
            assert_eq!(count, if ["SET", "EVAL"].contains(&words[0]) { "1" } else { "0" }, "{late} {command:?}");
        }
    }
}

/// A command that is sent back stays unanswered if replies are off, and a SKIP is for one command.
#[test]
fn what_is_sent_back_is_not_answered_where_replies_are_off() {
    let key = key_of(1, 3, "k");
    let block = format!("MULTI;SET {key} 1;EXEC");
    let commands = [
        format!("SET {key} 1"),
        format!("EVAL return(redis.call('incr',KEYS[1])) 1 {key}"),
        format!("EVAL return(redis.call('incr',ARGV[1])) 0 {key}"),
        format!("MSET {key} 1 {} 2", key_of(2, 3, "k")),
        format!("WATCH {key}"),
    ];
    let modes = [("CLIENT REPLY SKIP", "PING", "PONG"), ("CLIENT REPLY OFF", "CLIENT REPLY ON", "OK")];
    for (crumbles, late) in [(false, 0), (true, 0), (false, 2), (false, 1)] {
        for (off, on, expected) in modes {
            let blocks = (on != "PING").then_some(&block);
            for command in commands.iter().chain(blocks) {
                let mut net = Net::new(3, 1, 3);
                net.crumbles = crumbles;
                let client = net.connect(0);
                net.ask(client, &format!("EXISTS {} {key}", key_of(2, 3, "k")));
                (0..3).filter(|node| *node != late).for_each(|node| hear(&mut net, &[node], false));
                let words = [off].into_iter().chain(command.split(';')).chain([on, "ECHO last"]);
                words.for_each(|word| net.send(client, word));
                a_while(&mut net);
                hear(&mut net, &[late], false);
                a_while(&mut net);
                assert_eq!(net.heard(client), [expected, "last"], "{late} {off} {command}");
            }
        }
    }
}

/// No command of a pipeline runs before an earlier one on the same key, though nodes hear of a new owner one after the
/// other.
#[test]
fn a_pipeline_keeps_its_order() {
    for seed in 1..20 {
        for late in 0..3 {
            let mut net = Net::new(3, 1, seed);
            let client = net.connect(0);
            let [far, other, near] = [1, 2, 0].map(|node| key_of(node, 3, "k"));
            net.ask(client, &format!("EXISTS {other} {far}"));
            let early: Vec<usize> = (0..3).filter(|node| *node != late).collect();
            for round in 0..30 {
                if round == 10 {
                    hear(&mut net, &early, false);
                }
                if round == 20 {
                    hear(&mut net, &[late], false);
                }
                for key in [&far, &near, &other] {
                    net.send(client, &format!("INCR {key}"));
                    net.send(client, &format!("GET {key}"));
                }
                net.turns(2);
            }
            net.run();
            a_while(&mut net);
            a_while(&mut net);
            a_while(&mut net);
            let replies = net.heard(client);
            assert_eq!(replies.len(), 30 * 6);
            // The key's new owner begins anew: this harness moves no data.
            let mut counts = [0; 3];
            for (i, pair) in replies.chunks(2).enumerate() {
                assert_eq!(pair[0], pair[1], "seed {seed}, late {late}, {i}");
                let count: u32 = pair[0].parse().unwrap();
                let last = std::mem::replace(&mut counts[i % 3], count);
                assert!(count == last + 1 || count == 1, "seed {seed}, late {late}, {i}: {count} behind {last}");
            }
        }
    }
}

/// Two changes of an owner are under way, and a node hears of the second one between two commands on one key that are sent
/// back. The earlier one does not come to the third owner behind the later one.
#[test]
fn a_pipeline_keeps_its_order_while_an_owner_changes_twice() {
    let key = key_of(1, 4, "k");
    // The second node's slots get to the third by the second map, and to `last` by the third.
    let map = |version: u64, last: u16| {
        let even = even_map(4, 1);
        let heir = if version == 2 { 2 } else { last };
        let mut nodes: Vec<Member> = even.nodes().to_vec();
        nodes[2].epoch = 2;
        nodes[usize::from(heir)].epoch = version;
        let of = |range: &Range| Range { node: if range.node == 1 { heir } else { range.node }, ..*range };
        Arc::new(Map::new(even.cluster(), version, version, nodes, even.ranges().iter().map(of).collect()))
    };
    let mut overtaken = 0;
    let cases = (0..3).flat_map(|a| (0..4).flat_map(move |b| (0..5).map(move |c| (a, b, c))));
    for ((between, apart, second), last) in cases.flat_map(|case| [(case, 1), (case, 3)]) {
        let mut net = Net::new(4, 1, 3);
        let client = net.connect(0);
        net.ask(client, &format!("EXISTS {key} {} {}", key_of(2, 4, "k"), key_of(3, 4, "k")));
        net.cluster(1).set_map(map(2, last));
        [2, 3].iter().for_each(|node| net.cluster(*node).set_map(map(3, last)));
        net.send(client, &format!("SET {key} old"));
        net.turns(between);
        net.send(client, &format!("SET {key} new"));
        net.turns(apart);
        net.cluster(0).set_map(map(2, last));
        if last == 1 {
            net.cluster(1).set_map(map(3, last));
        }
        net.turns(second);
        [0, 1].iter().for_each(|node| net.cluster(*node).set_map(map(3, last)));
        (0..4).for_each(|_| a_while(&mut net));
        let replies = net.heard(client);
        let found = net.say(client, &format!("GET {key}"));
        let case = format!("{between} {apart} {second}, {last}: {replies:?}, {found}");
        match &*replies[1] {
            "OK" => assert_eq!(found, "new", "{case}"),
            why => assert!(why.starts_with("-TRYAGAIN") && found != "new", "{case}"),
        }
        overtaken += u32::from(last == 3 && replies[0].starts_with("-TRYAGAIN") && replies[1] == "OK");
        assert!(net.is_quiet());
    }
    assert!(overtaken > 0, "one would have come behind the later one");
}

/// A command that is sent back behind replies to earlier ones runs again, also if replies of its own node follow.
#[test]
fn what_is_sent_back_behind_what_was_answered_runs_again() {
    let mut net = Net::new(3, 1, 3);
    let client = net.connect(0);
    let mut keys = ["k", "l"].map(|prefix| key_of(1, 3, prefix));
    keys.sort_by_key(|key| keyspace::slot_of(key.as_bytes()));
    let [stays, goes] = keys;
    let near = key_of(0, 3, "k");
    net.ask(client, &format!("EXISTS {stays}"));
    [1, 2].iter().for_each(|node| net.cluster(*node).set_map(split_at(2, &stays, &goes)));
    for command in [format!("INCR {stays}"), format!("INCR {near}"), format!("INCR {goes}")] {
        net.send(client, &command);
    }
    a_while(&mut net);
    net.cluster(0).set_map(split_at(2, &stays, &goes));
    a_while(&mut net);
    assert_eq!(net.heard(client), ["1", "1", "1"]);
}

/// Several commands that an owner sends back together run at the new owner in their order, each in the database that was
/// selected for it, and blocks as blocks.
#[test]
fn what_is_sent_back_together_runs_together() {
    let mut net = Net::new(3, 1, 3);
    let client = net.connect(0);
    let key = key_of(1, 3, "k");
    net.ask(client, &format!("EXISTS {key}"));
    hear(&mut net, &[1, 2], false);
    let near = key_of(0, 3, "k");
    let incr = format!("INCR {key}");
    let get = format!("GET {key}");
    let near = format!("INCR {near}");
    let pipeline = [&incr, "SELECT 1", &incr, &near, "MULTI", &incr, &get, "EXEC", "SELECT 0", &incr, &near, &get];
    pipeline.iter().for_each(|command| net.send(client, command));
    net.turns(3);
    hear(&mut net, &[0], false);
    a_while(&mut net);
    let replies = net.heard(client);
    let expected = ["1", "OK", "1", "1", "OK", "QUEUED", "QUEUED", "[2 2]", "OK", "2", "1", "2"];
    assert_eq!(replies, expected);
    assert_eq!(net.say(client, &get), "2");
    assert!(net.is_quiet());
}

/// Nodes whose maps contradict each other for ever send a command back: it is refused in the end, and its connection
/// goes on.
#[test]
fn what_is_sent_back_for_ever_is_refused() {
    let mut net = Net::new(3, 1, 3);
    let client = net.connect(0);
    let (key, near) = (key_of(1, 3, "k"), key_of(0, 3, "k"));
    net.ask(client, &format!("EXISTS {key}"));
    hear(&mut net, &[1, 2], false);
    for command in [format!("INCR {key}"), format!("INCR {key}"), format!("INCR {near}")] {
        net.send(client, &command);
    }
    (0..5).for_each(|_| a_while(&mut net));
    let replies = net.heard(client);
    assert!(replies.len() == 3 && replies[..2].iter().all(|reply| reply.starts_with("-TRYAGAIN")), "{replies:?}");
    assert_eq!(replies[2], "1");
    assert!(net.is_quiet());
}

#[test]
fn a_block_goes_where_its_keys_are() {
    for (crumbles, late) in [(false, 0), (true, 0), (false, 2), (false, 1)] {
        for (over, select) in [(false, false), (true, false), (false, true)] {
            let mut net = Net::new(3, 1, 3);
            net.crumbles = crumbles;
            let (client, other) = (net.connect(0), net.connect(2));
            let (key, last) = (key_of(1, 3, "k"), key_of(1, 3, "last"));
            net.ask(client, &format!("EXISTS {} {key}", key_of(2, 3, "k")));
            let early: Vec<usize> = (0..3).filter(|node| *node != late).collect();
            let map = |version| match over {
                true => split_at(version, &key, &last),
                false => moved(version, false),
            };
            early.iter().for_each(|node| net.cluster(*node).set_map(map(2)));
            let incr = format!("INCR {key}");
            let second = format!("INCR {last}");
            let block = ["MULTI", &incr, if select { "SELECT 3" } else { "PING" }, &second, "EXEC"];
            block.iter().for_each(|words| net.send(client, words));
            a_while(&mut net);
            net.cluster(late).set_map(map(2));
            a_while(&mut net);
            let replies = net.heard(client);
            let reply = if select { "[1 OK 1]" } else { "[1 PONG 1]" };
            assert_eq!((replies.len(), &*replies[4]), (5, reply), "{late} {over} {select}: {replies:?}");
            assert_eq!(net.say(client, &format!("EXISTS {last}")), "1", "in the database that it has selected");
            assert_eq!(net.say(other, &format!("GET {key}")), "1");
            assert!(net.is_quiet());
        }
    }
}

#[test]
fn a_block_that_watches_keys_of_an_old_owner_counts_as_changed() {
    let mut net = Net::new(3, 1, 3);
    let client = net.connect(0);
    let key = key_of(1, 3, "k");
    net.ask(client, &format!("WATCH {key}"));
    hear(&mut net, &[1, 2], false);
    ["MULTI", &format!("INCR {key}"), "EXEC"].iter().for_each(|words| net.send(client, words));
    a_while(&mut net);
    let reply = net.heard(client).pop().expect("a reply");
    assert_eq!(reply, "nil");
    hear(&mut net, &[0], false);
    assert_eq!(net.say(client, &format!("GET {key}")), "nil");
}

#[test]
fn a_watch_goes_where_its_keys_are() {
    for crumbles in [false, true] {
        let mut net = Net::new(3, 1, 3);
        net.crumbles = crumbles;
        let (client, other) = (net.connect(0), net.connect(2));
        let [near, key, far] = [0, 1, 2].map(|i| key_of(i, 3, "k"));
        net.ask(client, &format!("EXISTS {key} {far}"));
        hear(&mut net, &[1, 2], false);
        net.send(client, &format!("WATCH {key}"));
        a_while(&mut net);
        hear(&mut net, &[0], false);
        a_while(&mut net);
        assert_eq!(net.heard(client), ["OK"]);
        for (touched, expected) in [(true, "nil"), (false, "[1]")] {
            if touched {
                net.ask(other, &format!("SET {key} 0"));
            }
            let block = net.pipeline(client, &["MULTI", &format!("INCR {key}"), "EXEC"]);
            assert_eq!(shown(&block[2]), expected);
            net.ask(client, &format!("WATCH {key}"));
        }
        // One of the asked nodes may watch its part already.
        let mut net = Net::new(3, 1, 3);
        net.crumbles = crumbles;
        let client = net.connect(0);
        net.ask(client, &format!("EXISTS {key} {far}"));
        hear(&mut net, &[1, 2], false);
        net.send(client, &format!("WATCH {near} {key} {far}"));
        a_while(&mut net);
        hear(&mut net, &[0], false);
        a_while(&mut net);
        let reply = net.heard(client).join(",");
        assert!(reply.starts_with("-TRYAGAIN"), "{reply}");
        assert_eq!(net.say(client, &format!("WATCH {near} {key} {far}")), "OK");
    }
}

/// Clients, one of each node, that wait for a key of the second node.
fn waiters(net: &mut Net, command: &str) -> Vec<usize> {
    let clients: Vec<usize> = (0..3).map(|node| net.connect(node)).collect();
    clients.iter().for_each(|client| net.send(*client, command));
    net.run();
    a_while(net);
    clients
}

#[test]
fn who_waits_for_a_key_that_gets_another_owner_waits_there() {
    let (list, stream) = (key_of(1, 3, "list"), key_of(1, 3, "stream"));
    let near = key_of(0, 3, "list");
    let waits = [
        (format!("BLPOP {list} 0"), format!("RPUSH {list} x y z")),
        (format!("BLPOP {near} {list} 0"), format!("RPUSH {list} x y z")),
        (format!("XREAD BLOCK 0 STREAMS {stream} $"), format!("XADD {stream} 1-1 f x")),
    ];
    for late in [None, Some(0), Some(1), Some(2)] {
        for (wait, push) in &waits {
            let mut net = Net::new(3, 1, 3);
            let clients = waiters(&mut net, wait);
            let early: Vec<usize> = (0..3).filter(|node| Some(*node) != late).collect();
            hear(&mut net, &early, false);
            a_while(&mut net);
            hear(&mut net, &[0, 1, 2], false);
            a_while(&mut net);
            for client in &clients {
                assert!(net.heard(*client).is_empty(), "{late:?} {wait}");
            }
            let other = net.connect(2);
            net.ask(other, push);
            a_while(&mut net);
            for client in &clients {
                let heard = net.heard(*client);
                assert!(heard.len() == 1 && !heard[0].starts_with('-'), "{late:?} {wait}: {heard:?}");
            }
            for client in &clients {
                assert_eq!(net.say(*client, "PING"), "PONG");
            }
        }
    }
}

#[test]
fn who_waits_at_a_node_that_is_taken_out_hears_of_it() {
    let list = key_of(1, 3, "list");
    for wait in [format!("BLPOP {list} 0"), format!("BLPOP {} {list} 0", key_of(0, 3, "list"))] {
        let mut net = Net::new(3, 1, 3);
        let clients = waiters(&mut net, &wait);
        hear(&mut net, &[0, 1, 2], true);
        net.lease(1, 0);
        a_while(&mut net);
        let other = net.connect(2);
        net.ask(other, &format!("RPUSH {list} x y z"));
        a_while(&mut net);
        for (node, client) in clients.iter().enumerate() {
            let heard = net.heard(*client);
            let expected = if node == 1 { "-CLUSTERDOWN" } else { "[list" };
            assert!(heard.len() == 1 && heard[0].starts_with(expected), "{node} {wait}: {heard:?}");
        }
    }
}

/// The node hears of no map, and holds no lease. Its clients still reach it, and so do other nodes.
#[test]
fn who_waits_at_a_node_that_is_cut_off_hears_of_it() {
    let list = key_of(1, 3, "list");
    for (lease, wait, expected) in [
        (0, format!("BLPOP {list} 0"), ["closed", "told", "closed"]),
        (0, format!("BLPOP {} {list} 0", key_of(0, 3, "list")), ["served", "told", "served"]),
        // The node has not noticed: by its own clock it holds a lease.
        (u64::MAX, format!("BLPOP {list} 0"), ["closed", "waits", "closed"]),
    ] {
        let mut net = Net::new(3, 1, 3);
        let clients = waiters(&mut net, &wait);
        net.lease(1, lease);
        hear(&mut net, &[0, 2], true);
        a_while(&mut net);
        if lease == 0 {
            assert!(net.heard(clients[1]).is_empty(), "it may come back");
        }
        (0..5).for_each(|_| a_while(&mut net));
        let other = net.connect(2);
        net.ask(other, &format!("RPUSH {list} x y z"));
        a_while(&mut net);
        let mut outcome = |client: usize| {
            let heard = net.heard(client);
            match &heard[..] {
                [] if net.clients[client].closed => "closed",
                [] => "waits",
                [told] if told.starts_with("-CLUSTERDOWN") => "told",
                [served] if served.starts_with("[list") => "served",
                _ => panic!("{lease} {wait}: {heard:?}"),
            }
        };
        let outcomes: Vec<&str> = clients.into_iter().map(&mut outcome).collect();
        assert_eq!(outcomes, expected, "{lease} {wait}");
    }
}

#[test]
fn smart_clients_that_wait_go_on_at_the_new_owner() {
    let mut net = Net::with(3, 1, 2, &[("cluster-redirect", "moved")]);
    let (waiter, patient) = (net.connect(1), net.connect(1));
    let list = key_of(1, 3, "list");
    net.send(waiter, &format!("BLPOP {list} 0"));
    net.send(patient, &format!("BLPOP {list} 5"));
    net.run();
    hear(&mut net, &[1], false);
    a_while(&mut net);
    hear(&mut net, &[0, 2], false);
    a_while(&mut net);
    let other = net.connect_smart(2);
    assert_eq!(net.say(other, &format!("RPUSH {list} a b")), "2");
    for (client, element) in [(waiter, "a"), (patient, "b")] {
        assert_eq!(net.heard(client), [format!("[{list} {element}]")]);
    }
}

#[test]
fn smart_clients_are_not_sent_to_and_fro() {
    let mut net = Net::new(3, 1, 2);
    let clients = [0, 1, 2].map(|node| net.connect_smart(node));
    let key = key_of(1, 3, "k");
    let slot = keyspace::slot_of(key.as_bytes());
    // The new owner hears of the map last.
    hear(&mut net, &[0, 1], false);
    net.run();
    assert_eq!(net.say(clients[2], &format!("INCR {key}")), format!("-MOVED {slot} 10.0.0.2:8001"));
    net.send(clients[0], &format!("INCR {key}"));
    net.send(clients[1], "MULTI");
    net.send(clients[1], &format!("INCR {key}"));
    net.send(clients[1], "EXEC");
    net.run();
    a_while(&mut net);
    assert_eq!((net.heard(clients[0]), net.heard(clients[1])), (vec![], vec!["OK".to_owned(), "QUEUED".to_owned()]));
    hear(&mut net, &[2], false);
    net.run();
    let mut replies = [net.heard(clients[0]), net.heard(clients[1])].concat();
    replies.sort();
    assert!(replies == ["1", "[2]"] || replies == ["2", "[1]"], "{replies:?}");
    assert_eq!(net.say(clients[1], &format!("WATCH {key}")), "OK");
    assert_eq!(net.say(clients[1], "UNWATCH"), "OK");
    // All nodes have heard of it by now.
    (0..3).for_each(|_| a_while(&mut net));
    for client in [clients[0], clients[1]] {
        assert_eq!(net.say(client, &format!("INCR {key}")), format!("-MOVED {slot} 10.0.0.3:8002"));
    }
}

#[test]
fn smart_clients_are_not_sent_to_and_fro_when_slots_come_back() {
    let mut net = Net::new(3, 1, 2);
    let client = net.connect_smart(2);
    let key = key_of(1, 3, "k");
    hear(&mut net, &[0, 1, 2], false);
    assert_eq!(net.say(client, &format!("SET {key} 1")), "OK");
    net.sleep(1000);
    let even = even_map(3, 1);
    let mut nodes: Vec<Member> = even.nodes().to_vec();
    (nodes[1].epoch, nodes[2].epoch) = (3, 2);
    let back = Arc::new(Map::new(even.cluster(), 3, 3, nodes, even.ranges().to_vec()));
    [0, 2].into_iter().for_each(|node| net.cluster(node).set_map(back.clone()));
    net.send(client, &format!("STRLEN {key}"));
    net.run();
    a_while(&mut net);
    assert!(net.heard(client).is_empty(), "it waits where the map is not known yet");
    net.cluster(1).set_map(back);
    net.run();
    assert_eq!(net.heard(client), ["0"]);
}

#[test]
fn reads_under_way_at_a_lost_owner_go_to_the_next_one() {
    // Whether the node hears of the map before it loses the link.
    for before in [true, false] {
        let mut net = Net::with(3, 1, 2, &[("cluster-takeover-wait", "2500")]);
        let (client, other) = (net.connect(0), net.connect(2));
        let key = key_of(1, 3, "k");
        net.stalled = vec![1];
        for line in [&format!("GET {key}"), "PING", &format!("STRLEN {key}")] {
            net.send(client, line);
        }
        net.run();
        net.unreachable = vec![1];
        if !before {
            net.cut(0, 1);
            a_while(&mut net);
        }
        hear(&mut net, &[0, 2], false);
        net.run();
        assert_eq!(net.say(other, &format!("SET {key} new")), "OK");
        if before {
            net.cut(0, 1);
        }
        a_while(&mut net);
        let expected = if before { ["new", "PONG", "3"] } else { ["nil", "PONG", "0"] };
        assert_eq!((net.heard(client), net.clients[client].closed), (expected.map(String::from).to_vec(), false));
    }
}

/// A client of Redis Cluster is not sent to an owner that has just ended: it waits for the next one, as others do.
#[test]
fn smart_clients_wait_for_the_heir_of_an_owner_that_has_ended() {
    let mut net = Net::with(3, 1, 2, &[("cluster-takeover-wait", "2500")]);
    let client = net.connect_smart(0);
    let key = key_of(1, 3, "k");
    let moved = format!("-MOVED {} 10.0.0.2:8001", keyspace::slot_of(key.as_bytes()));
    assert_eq!(net.say(client, &format!("INCR {key}")), moved);
    net.run();
    net.unreachable = vec![1];
    net.cut(0, 1);
    net.run();
    net.send(client, &format!("INCR {key}"));
    net.send(client, &format!("GET {key}"));
    net.run();
    a_while(&mut net);
    assert!(net.heard(client).is_empty(), "it waits");
    hear(&mut net, &[0, 2], false);
    net.run();
    a_while(&mut net);
    assert_eq!(net.heard(client), ["1", "1"]);
}

/// One that stays away is lost as before: the client hears where it should be.
#[test]
fn smart_clients_do_not_wait_for_ever() {
    let mut net = Net::with(3, 1, 2, &[("cluster-takeover-wait", "2500")]);
    let client = net.connect_smart(0);
    let key = key_of(1, 3, "k");
    let moved = format!("-MOVED {} 10.0.0.2:8001", keyspace::slot_of(key.as_bytes()));
    assert_eq!(net.say(client, &format!("GET {key}")), moved);
    net.run();
    net.unreachable = vec![1];
    net.cut(0, 1);
    net.send(client, &format!("GET {key}"));
    net.run();
    for _ in 0..60 {
        net.sleep(100);
        net.run();
    }
    let heard = net.heard(client);
    assert!(heard.len() == 1 && heard[0].starts_with("-CLUSTERDOWN"), "{heard:?}");
    assert_eq!(net.say(client, &format!("GET {key}")), moved);
}
