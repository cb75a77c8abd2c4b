//! Links that end, nodes that are gone, leases that run out (rule T9: a true reply, or a closed connection).

use std::sync::Arc;

use membership::Map;
use membership::items::Item;
use membership::map::Node as Member;
use resp::Value;

use crate::net::{Net, even_map, key_of, shown};

#[test]
fn what_may_have_been_executed_closes_the_connection() {
    let mut net = Net::new(2, 1, 2);
    let (owed, idle) = (net.connect(0), net.connect(0));
    let (key, near) = (key_of(1, 2, "k"), key_of(0, 2, "k"));
    net.ask(idle, &format!("SET {key} 1"));
    net.stalled = vec![1];
    net.send(owed, "PING");
    net.send(owed, &format!("INCR {key}"));
    net.send(owed, &format!("SET {near} 1"));
    net.run();
    net.cut(0, 1);
    net.stalled.clear();
    assert_eq!(net.heard(owed), ["PONG"], "what came before it is answered");
    assert!(net.clients[owed].closed);
    // Other clients do not notice.
    assert!(!net.clients[idle].closed);
    net.sleep(100);
    assert_eq!(net.say(idle, &format!("GET {key}")), "1");
}

/// A client of one node needs to know which node's disk an operator must look at.
#[test]
fn a_node_that_refuses_writes_is_named_to_clients_of_others() {
    let mut net = Net::logged(2, 1, 5, "always");
    let (client, own) = (net.connect(0), net.connect(1));
    let key = key_of(1, 2, "k");
    assert_eq!(net.say(client, &format!("SET {key} 1")), "OK");
    net.fail_sync(1);
    net.send(own, &format!("SET {key} 2"));
    assert!(net.heard(own).is_empty() && net.clients[own].closed);
    let own = net.connect(1);
    let set = format!("SET {key} 3");
    let commands = [
        vec![set.clone()],
        vec!["MULTI".into(), set, "EXEC".into()],
        vec![format!("EVAL return(redis.call('set',KEYS[1],4)) 1 {key}")],
    ];
    for lines in &commands {
        let [refused, to_its_own] = [client, own].map(|client| {
            lines.iter().for_each(|line| net.send(client, line));
            net.heard(client).join(" ")
        });
        assert!(refused.contains("MISCONF") && refused.contains("(node 10.0.0.2:7001)"), "{lines:?}: {refused}");
        assert!(to_its_own.contains("MISCONF") && !to_its_own.contains("(node"), "{lines:?}: {to_its_own}");
    }
    // A command that every node runs is not blamed on one.
    for client in [client, own] {
        let refused = net.say(client, "FLUSHALL");
        assert!(refused.starts_with("-ERR 1 of 2 nodes") && refused.ends_with("(node 10.0.0.2:7001)"), "{refused}");
    }
}

/// The owner of a key may take shorter arguments than the node that a client speaks to.
#[test]
fn what_the_owner_cannot_parse_is_answered_and_closes_the_connection() {
    for crumbles in [false, true] {
        let mut net = Net::new(2, 1, 2);
        let (client, block, idle, own) = (net.connect(0), net.connect(0), net.connect(0), net.connect(1));
        let key = key_of(1, 2, "k");
        assert_eq!(net.say(idle, &format!("SET {key} 1")), "OK");
        assert_eq!(net.say(own, "CONFIG SET proto-max-bulk-len 1mb"), "OK");
        net.crumbles = crumbles;
        let long = format!("SET {key} {}", "x".repeat(3 << 20));
        for client in [client, own] {
            [&format!("GET {key}"), &long, "PING"].iter().for_each(|command| net.send(client, command));
            assert_eq!(net.heard(client), ["1", "-ERR Protocol error: invalid bulk length"]);
            assert!(net.clients[client].closed);
        }
        ["MULTI", &long, "EXEC"].iter().for_each(|command| net.send(block, command));
        assert_eq!(net.heard(block), ["OK", "QUEUED"]);
        assert!(net.clients[block].closed, "a block whose keys are all its own");
        assert_eq!(net.say(idle, &format!("GET {key}")), "1");
    }
}

#[test]
fn what_has_not_left_is_answered_with_an_error() {
    let mut net = Net::new(2, 1, 2);
    let client = net.connect(0);
    let (far, near) = (key_of(1, 2, "k"), key_of(0, 2, "k"));
    net.unreachable = vec![1];
    let (set, get) = (format!("SET {near} 1"), format!("GET {far}"));
    let replies: Vec<String> = net.pipeline(client, &[&set, &get, "PING"]).iter().map(shown).collect();
    assert!(replies[1].starts_with("-CLUSTERDOWN") && replies.len() == 3, "{replies:?}");
    net.unreachable.clear();
    // The node is dialed again after a moment.
    net.sleep(600);
    assert_eq!(net.say(client, &get), "nil");
}

/// Clients do not wait for a node that could not be reached a moment ago. The node is found once it is back, even if no
/// client needs it.
#[test]
fn commands_for_a_node_that_is_down_are_answered_at_once() {
    for is_silent in [false, true] {
        let (mut net, [client, ..], [near, far, third]) = Net::three(1, 2);
        let other = net.connect(0);
        let subscriber = net.connect(2);
        net.ask(client, &format!("SET {far} 1"));
        net.send(subscriber, "SUBSCRIBE news");
        net.run();
        net.replies(subscriber);
        net.cut(0, 1);
        *(if is_silent { &mut net.mute } else { &mut net.unreachable }) = vec![1];
        net.send(client, &format!("GET {far}"));
        (0..5).for_each(|_| net.sleep(500));
        let heard = net.heard(client);
        assert!(heard.len() == 1 && heard[0].starts_with("-CLUSTERDOWN"), "{heard:?}");
        for _ in 0..50 {
            let set = format!("SET {near} 1");
            let (get, mget) = (format!("GET {far}"), format!("MGET {near} {far} {third}"));
            let (pop, pops) = (format!("BLPOP {far} 0"), format!("BLPOP l:{near} {far} 0"));
            let (script, watch) = (format!("EVAL return(1) 1 {far}"), format!("WATCH {far}"));
            let commands = [&set, &get, &pop, &mget, "DBSIZE", "PING", &script, &watch, &pops, "PUBLISH news x"];
            let replies: Vec<String> = net.pipeline(client, &commands).iter().map(shown).collect();
            assert_eq!(replies.len(), commands.len(), "{replies:?}");
            for (command, reply) in commands.iter().zip(&replies) {
                match command.split(' ').next() {
                    Some("SET") => assert_eq!(reply, "OK"),
                    Some("PING") => assert_eq!(reply, "PONG"),
                    Some("PUBLISH") => assert_eq!(reply, "1"),
                    _ => assert!(reply.starts_with("-CLUSTERDOWN"), "{command}: {reply}"),
                }
            }
            let block = net.pipeline(client, &["MULTI", &get, "EXEC"]).pop().map(|reply| shown(&reply));
            assert!(block.as_ref().is_some_and(|reply| reply.starts_with("-CLUSTERDOWN")), "{block:?}");
            let block = net.pipeline(client, &["MULTI", &get, &set, "EXEC"]).pop().map(|reply| shown(&reply));
            assert!(block.as_ref().is_some_and(|reply| reply.starts_with("-EXECABORT")), "{block:?}");
            assert_eq!(net.heard(subscriber), ["[message news x]"]);
            net.sleep(70);
        }
        net.unreachable.clear();
        net.mute.clear();
        (0..6).for_each(|_| net.sleep(500));
        assert!(net.links(0, 1) > 0, "it is found as soon as it is back, though nobody asks for it");
        assert_eq!(net.say(other, &format!("GET {far}")), "1", "it is found again");
        // The link that no client has used is open already.
        assert!(net.say(client, &format!("MGET {near} {far}")).contains("[1 1]"));
    }
}

#[test]
fn a_node_without_a_lease_serves_nothing() {
    let mut net = Net::new(2, 1, 2);
    let (here, there) = (net.connect(0), net.connect(1));
    let (key, other) = (key_of(0, 2, "k"), key_of(1, 2, "k"));
    assert_eq!(net.say(here, &format!("SET {key} 1")), "OK");
    net.lease(0, 0);
    for client in [here, there] {
        for command in ["GET", "INCR"] {
            let reply = net.say(client, &format!("{command} {key}"));
            assert_eq!(reply, "-CLUSTERDOWN this node has no lease: a test says so");
        }
        // Keys of the other node are served.
        assert_eq!(net.say(client, &format!("GET {other}")), "nil");
    }
    let block = ["MULTI".to_owned(), format!("INCR {key}"), "EXEC".into()];
    let block: Vec<&str> = block.iter().map(String::as_str).collect();
    for client in [here, there] {
        let last = net.pipeline(client, &block).pop().unwrap();
        assert!(shown(&last).starts_with("-EXECABORT"), "{last:?}");
    }
    assert!(net.say(here, "CLUSTER INFO").contains("cluster_state:fail"));
    // The node takes no part in commands on all nodes' keys either, from any client.
    for client in [here, there] {
        for command in ["DBSIZE", "KEYS *", "RANDOMKEY"] {
            assert_eq!(net.say(client, command), "-CLUSTERDOWN this node has no lease: a test says so", "{command}");
        }
        let flush = net.say(client, "FLUSHALL");
        // The other node has not heard of that yet.
        let refused =
            if client == here { "-CLUSTERDOWN this node has no lease" } else { "-ERR 1 of 2 nodes have executed it" };
        assert!(flush.starts_with(refused), "{flush}");
        for command in ["PUBLISH channel x", "PUBSUB NUMPAT"] {
            assert_eq!(net.say(client, command), "0");
        }
    }
    net.lease(0, u64::MAX);
    assert_eq!(net.say(there, &format!("GET {key}")), "1");
}

#[test]
fn slots_of_nobody_and_of_others_are_not_served() {
    let mut net = Net::new(2, 1, 2);
    let client = net.connect(0);
    let (far, near) = (key_of(1, 2, "k"), key_of(0, 2, "k"));
    net.ask(client, &format!("SET {far} 1"));
    // The owner has heard of another map first.
    let even = even_map(2, 2);
    let swapped = even.ranges().iter().map(|range| membership::map::Range { node: 1 - range.node, ..*range }).collect();
    net.cluster(1).set_map(Arc::new(Map::new(even.cluster(), 2, 2, even.nodes().to_vec(), swapped)));
    net.send(client, &format!("GET {far}"));
    net.run();
    net.sleep(1000);
    assert!(net.heard(client).is_empty(), "this node may hear of it soon");
    net.sleep(1000);
    let reply = net.heard(client).join(",");
    assert!(reply.starts_with("-TRYAGAIN"), "{reply}");
    net.cluster(0).set_map(Arc::new(Map::new(even.cluster(), 3, 3, even.nodes().to_vec(), Vec::new())));
    for key in [near, far] {
        let reply = net.say(client, &format!("GET {key}"));
        assert_eq!(reply, "-CLUSTERDOWN Hash slot not served");
    }
}

#[test]
fn an_older_map_does_not_replace_a_newer_one() {
    let mut net = Net::new(2, 1, 2);
    let client = net.connect(0);
    let even = even_map(2, 3);
    net.cluster(0).set_map(Arc::new(Map::new(even.cluster(), 3, 3, even.nodes().to_vec(), Vec::new())));
    net.cluster(0).set_map(Arc::new(even_map(2, 2)));
    assert_eq!(net.cluster(0).map().version(), 3);
    assert_eq!(net.say(client, "GET key"), "-CLUSTERDOWN Hash slot not served");
    // Another map of the same version may come: the voters are not in it.
    net.cluster(0).set_map(Arc::new(even));
    assert_eq!(net.say(client, "GET key"), "nil");
}

#[test]
fn an_owner_that_has_not_heard_of_its_epoch_executes_nothing() {
    let mut net = Net::new(2, 1, 2);
    let (client, there) = (net.connect(0), net.connect(1));
    let far = key_of(1, 2, "k");
    let even = even_map(2, 2);
    let nodes = even.nodes().iter().map(|node| Member { epoch: 2, ..node.clone() }).collect();
    let newer = Arc::new(Map::new(even.cluster(), 2, 2, nodes, even.ranges().to_vec()));
    net.cluster(0).set_map(newer.clone());
    let commands = [format!("SET {far} 1"), format!("MGET {far} {far}"), format!("DEL {far} {far}")];
    let patient = net.connect(0);
    for (i, command) in commands.iter().enumerate() {
        net.send(client, command);
        net.run();
        if i == 0 {
            net.sleep(1999);
            assert!(net.heard(client).is_empty(), "it may hear of it soon");
            net.sleep(1);
        }
        let reply = net.heard(client).join(",");
        assert!(reply.starts_with("-TRYAGAIN"), "{command}: {reply}");
    }
    assert_eq!(net.say(there, &format!("GET {far}")), "nil", "its own clients are served");
    commands.iter().for_each(|command| net.send(patient, command));
    net.run();
    assert!(net.heard(patient).is_empty());
    assert_eq!(net.say(there, &format!("GET {far}")), "nil");
    net.cluster(1).set_map(newer);
    assert_eq!(net.heard(patient), ["OK", "[1 1]", "1"]);
    assert_eq!(net.say(client, &format!("SET {far} 1")), "OK");
}

#[test]
fn a_timestamp_far_ahead_ends_its_link() {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    let mut net = Net::new(2, 1, 2);
    let (client, there) = (net.connect(0), net.connect(1));
    let (far, near) = (key_of(1, 2, "k"), key_of(0, 2, "k"));
    net.ask(client, &format!("SET {far} 1"));
    net.ask(there, &format!("SET {near} 1"));
    let now = node::Clock::unix_ms(&*net.clock);
    let of = |at: node::UnixMs| Item::Clock { lsn: at.0 << 14 };
    let links = net.links(0, 1);
    assert!(links > 0);
    // A clock that is off by hours is followed.
    net.slip_in(0, 1, &of(now + DAY / 2));
    net.run();
    assert_eq!(net.links(0, 1), links);
    for far_ahead in [of(now + 2 * DAY), Item::Clock { lsn: u64::MAX }, Item::Clock { lsn: u64::MAX - 16 }] {
        net.slip_in(0, 1, &far_ahead);
        net.run();
        assert_eq!(net.links(0, 1), 0, "{far_ahead:?}");
        net.sleep(1000);
        for (client, key) in [(client, &far), (there, &near)] {
            // Clients that are owed nothing do not notice.
            assert_eq!(net.say(client, &format!("SET {key} 2")), "OK");
        }
        assert!(net.links(0, 1) > 0);
    }
}

#[test]
fn smart_clients_are_told_where_to_go() {
    let mut net = Net::with(3, 1, 2, &[("cluster-redirect", "moved")]);
    let client = net.connect(0);
    let (far, near) = (key_of(2, 3, "k"), key_of(0, 3, "k"));
    let slot = keyspace::slot_of(far.as_bytes());
    assert_eq!(net.say(client, &format!("GET {far}")), format!("-MOVED {slot} 10.0.0.3:8002"));
    assert_eq!(net.say(client, &format!("GET {near}")), "nil");
    let get = format!("GET {far}");
    let replies: Vec<String> = net.pipeline(client, &["MULTI", &get, "EXEC"]).iter().map(shown).collect();
    assert!(replies[1].starts_with("-MOVED") && replies[2].starts_with("-EXECABORT"), "{replies:?}");
}

/// Smart clients ask each node for its part, and add the parts up.
#[test]
fn smart_clients_get_of_each_node_what_it_has() {
    let mut net = Net::with(3, 1, 2, &[("cluster-redirect", "moved")]);
    let clients = [0, 1, 2].map(|node| net.connect(node));
    for n in 0..60 {
        assert_eq!(net.say(clients[n % 3], &format!("SET {} 1", key_of(n % 3, 3, &n.to_string()))), "OK");
    }
    let mut seen = Vec::new();
    for client in clients {
        assert_eq!(net.say(client, "DBSIZE"), "20");
        let mut cursor = "0".to_owned();
        loop {
            let page = net.ask(client, &format!("SCAN {cursor} COUNT 7"));
            let Value::Array(page) = page else { panic!("{page:?}") };
            let Value::Array(names) = &page[1] else { panic!("{page:?}") };
            seen.extend(names.iter().map(shown));
            cursor = shown(&page[0]);
            if cursor == "0" {
                break;
            }
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 60);
    assert_eq!(net.say(clients[0], "FLUSHALL"), "OK");
    assert_eq!(clients.map(|client| net.say(client, "DBSIZE")), ["0", "20", "20"]);
    net.lease(1, 0);
    for command in ["FLUSHALL", "SCAN 0", "DBSIZE"] {
        assert!(net.say(clients[1], command).starts_with("-CLUSTERDOWN"), "{command}");
    }
}

/// Another node may have its place: that node would redirect the client for ever, too.
#[test]
fn smart_clients_are_not_sent_to_a_node_that_is_lost() {
    let mut net = Net::with(3, 1, 2, &[("cluster-redirect", "moved")]);
    let client = net.connect(0);
    let even = even_map(3, 2);
    let mut nodes = even.nodes().to_vec();
    nodes[1].lost = true;
    net.cluster(0).set_map(Arc::new(Map::new(even.cluster(), 2, 1, nodes, even.ranges().to_vec())));
    assert_eq!(net.say(client, &format!("GET {}", key_of(1, 3, "k"))), "-CLUSTERDOWN Hash slot not served");
    assert!(net.say(client, &format!("GET {}", key_of(2, 3, "k"))).starts_with("-MOVED"));
}

#[test]
fn a_node_that_was_taken_out_serves_nothing_any_more() {
    let mut net = Net::new(3, 1, 2);
    let client = net.connect(2);
    let key = key_of(0, 3, "k");
    assert_eq!(net.say(client, &format!("SET {key} 1")), "OK");
    let even = even_map(2, 2);
    net.cluster(2).set_map(Arc::new(even));
    net.lease(2, 0);
    for command in
        [format!("GET {key}"), format!("MGET {key} {key}"), "DBSIZE".into(), "SCAN 0".into(), format!("WATCH {key}")]
    {
        assert_eq!(net.say(client, &command), "-CLUSTERDOWN this node has no lease: a test says so", "{command}");
    }
    let block = net.pipeline(client, &["MULTI", &format!("SET {key} 2"), "EXEC", "PING"]);
    let block: Vec<String> = block.iter().map(shown).collect();
    assert!(block[2].contains("CLUSTERDOWN") && block[3] == "PONG", "{block:?}");
    let other = net.connect(1);
    assert_eq!(net.say(other, &format!("GET {key}")), "1");
}

/// Many checks of links.
fn looks(net: &mut Net) {
    (0..20).for_each(|_| net.sleep(500));
}

/// The kernel of a stopped node may go on acknowledging what it is sent.
#[test]
fn who_is_owed_a_reply_by_a_node_that_stands_still_and_holds_no_lease_does_not_wait_for_ever() {
    let mut net = Net::new(2, 1, 2);
    let leader = net.hears_of_silent(0, &[]);
    let (owed, patient, idle) = (net.connect(0), net.connect(0), net.connect(0));
    let key = key_of(1, 2, "k");
    assert_eq!(net.say(idle, &format!("SET {key} 1")), "OK");
    net.send(patient, &format!("BLPOP {} 0", key_of(1, 2, "list")));
    looks(&mut net);
    net.stalled = vec![1];
    net.send(owed, &format!("INCR {key}"));
    looks(&mut net);
    assert!(!net.clients[owed].closed, "it serves: the reply may take long");
    net.unreachable = vec![1];
    leader.says(&[1]);
    looks(&mut net);
    assert!(net.clients[owed].closed && net.clients[patient].closed);
    assert!(net.heard(owed).is_empty(), "it may have been executed");
    net.send(idle, &format!("GET {key}"));
    looks(&mut net);
    let heard = net.heard(idle);
    assert!(heard.len() == 1 && heard[0].starts_with("-CLUSTERDOWN"), "{heard:?}");
    net.unreachable.clear();
    net.stalled.clear();
    net.send(idle, &format!("GET {key}"));
    looks(&mut net);
    let heard = net.heard(idle);
    assert!(heard == ["1"] || heard == ["2"], "{heard:?}");
}

/// A node stops while commands are under way to it. Clients of other keys never wait, and its own clients do not wait
/// for long once it is suspected.
#[test]
fn a_node_that_stands_still_stops_no_other_keys_and_its_own_clients_for_a_moment() {
    const LOOK_MS: u64 = 250;
    for workers in [1, 2] {
        let (mut net, _, [near, gone, far]) = Net::three(workers, 2);
        let leader = net.hears_of_silent(0, &[]);
        let others = [0, 0].map(|node| net.connect(node));
        let mut owed: Vec<usize> = (0..10).map(|_| net.connect(0)).collect();
        let idle = net.connect(0);
        let all: Vec<usize> = owed.iter().chain(&others).chain([&idle]).copied().collect();
        for client in all {
            let keys = [&near, &gone, &far].map(|key| net.say(client, &format!("GET {key}")));
            assert_eq!(keys, ["nil", "nil", "nil"], "there are links");
        }
        let serve_others = |net: &mut Net| {
            for client in others {
                for key in [&near, &far] {
                    assert_eq!(net.say(client, &format!("SET {key} 1")), "OK", "no time passes");
                }
            }
        };
        net.stalled = vec![1];
        net.mute = vec![1];
        // More than a link takes: some clients wait with their commands unread.
        let large = "x".repeat(3 << 20);
        for client in &owed {
            net.send(*client, &format!("APPEND {gone} {large}"));
            net.send(*client, &format!("INCR {far}"));
        }
        net.run();
        serve_others(&mut net);
        // The node's lease goes on.
        for _ in 0..9 {
            net.sleep(LOOK_MS);
            serve_others(&mut net);
        }
        assert!(owed.iter().all(|client| !net.clients[*client].closed), "it is trusted");
        leader.says(&[1]);
        net.sleep(LOOK_MS);
        serve_others(&mut net);
        let (closed, refused): (Vec<_>, Vec<_>) = owed.drain(..).partition(|client| net.clients[*client].closed);
        assert!(!closed.is_empty() && !refused.is_empty(), "{closed:?} {refused:?}");
        for client in closed {
            assert!(net.heard(client).is_empty(), "it may have been executed");
        }
        for client in refused {
            let heard = net.heard(client);
            assert!(heard.len() == 2 && heard[0].starts_with("-CLUSTERDOWN"), "it has not left: {heard:?}");
        }
        for command in [format!("SET {gone} 1"), format!("GET {gone}")] {
            let reply = net.say(idle, &command);
            assert!(reply.starts_with("-CLUSTERDOWN"), "nobody waits for it to be dialed: {reply}");
        }
        net.stalled.clear();
        net.mute.clear();
        leader.says(&[]);
        looks(&mut net);
        assert_eq!(net.say(idle, &format!("SET {gone} 2")), "OK");
    }
}

#[test]
fn who_dials_a_node_that_is_down_hears_so_soon() {
    let mut net = Net::new(2, 1, 2);
    let leader = net.hears_of_silent(0, &[]);
    let client = net.connect(0);
    let get = format!("GET {}", key_of(1, 2, "k"));
    net.mute = vec![1];
    net.send(client, &get);
    net.sleep(250);
    assert!(net.heard(client).is_empty(), "it may be slow");
    leader.says(&[1]);
    (0..2).for_each(|_| net.sleep(250));
    let heard = net.heard(client);
    assert!(heard.len() == 1 && heard[0].starts_with("-CLUSTERDOWN"), "{heard:?}");
    assert!(net.say(client, &get).starts_with("-CLUSTERDOWN"));
    net.mute.clear();
    leader.says(&[]);
    looks(&mut net);
    assert_eq!(net.say(client, &get), "nil");
}

#[test]
fn a_node_without_a_lease_that_answers_is_waited_for() {
    let mut net = Net::new(2, 2, 2);
    let leader = net.hears_of_silent(0, &[1]);
    let (patient, other) = (net.connect(0), net.connect(1));
    let list = key_of(1, 2, "list");
    net.send(patient, &format!("BLPOP {list} 0"));
    looks(&mut net);
    net.lease(0, 0);
    looks(&mut net);
    assert!(!net.clients[patient].closed);
    leader.says(&[]);
    net.lease(0, u64::MAX);
    assert_eq!(net.say(other, &format!("RPUSH {list} x")), "1");
    assert_eq!(net.heard(patient), [format!("[{list} x]")]);
}

/// A node that is cut off hears of no leases, and soon has none itself.
#[test]
fn clients_of_a_node_that_is_cut_off_do_not_wait_for_ever() {
    let (mut net, [owed, ..], [_, key, _]) = Net::three(1, 2);
    assert_eq!(net.say(owed, &format!("SET {key} 1")), "OK");
    net.stalled = vec![0];
    net.send(owed, &format!("INCR {key}"));
    looks(&mut net);
    assert!(!net.clients[owed].closed);
    net.lease(0, 0);
    looks(&mut net);
    assert!(net.clients[owed].closed);
}

/// The node may do what it was told as soon as it goes on. The outcome of the block is not known, and its client hears
/// that (rule T9).
#[test]
fn clients_of_blocks_do_not_wait_for_a_node_that_is_away_for_long() {
    for workers in [1, 2] {
        let (mut net, [client, _, other], [a, x, z]) = Net::three(workers, 2);
        let copies = net.connect(0);
        let [near, far] = [0, 1].map(|i| key_of(i, 3, "moved"));
        assert_eq!(net.say(client, &format!("MSET {a} 0 {x} 0 {z} 0 {near} 0")), "OK");
        assert_eq!(net.say(copies, &format!("GET {x}")), "0", "there is a link");
        net.sleep(600);
        let leader = net.hears_of_silent(0, &[]);
        net.stalled = vec![1];
        net.send(client, &format!("MSET {a} 1 {x} 1 {z} 1"));
        net.send(copies, &format!("RENAME {near} {far}"));
        net.unreachable = vec![1];
        looks(&mut net);
        assert!(!net.clients[client].closed && net.heard(copies).is_empty(), "it may come to it");
        leader.says(&[1]);
        looks(&mut net);
        assert!(net.clients[client].closed);
        assert!(net.heard(client).is_empty());
        let heard = net.heard(copies);
        assert!(heard.len() == 1 && heard[0].starts_with("-CLUSTERDOWN"), "nobody is prepared: {heard:?}");
        // An attempt that is refused all the time, because of the locks of the one before.
        net.send(copies, &format!("MSET {a} 2 {x} 2"));
        looks(&mut net);
        let heard = net.heard(copies);
        assert!(heard.len() == 1 && heard[0].starts_with("-CLUSTERDOWN"), "{heard:?}");
        leader.says(&[]);
        net.unreachable.clear();
        net.stalled.clear();
        looks(&mut net);
        assert_eq!(net.say(other, &format!("MGET {a} {x} {z} {near} {far}")), "[1 1 1 0 nil]", "all of it");
        assert!(net.is_quiet());
    }
}

/// As before, but only this node does not reach it: it holds a lease, and may go on holding it.
#[test]
fn clients_of_blocks_wait_as_long_as_for_locks_for_a_node_that_is_out_of_reach_of_theirs() {
    // A dialed link is refused, or gets no answer.
    for (timeout, is_silent, ends) in [("5000", false, true), ("5000", true, true), ("0", false, false)] {
        let mut net = Net::with(3, 1, 2, &[("cluster-lock-timeout", timeout)]);
        let [client, copies, other] = [0, 0, 2].map(|node| net.connect(node));
        let [a, x, z] = [0, 1, 2].map(|i| key_of(i, 3, "k"));
        let [near, far] = [0, 1].map(|i| key_of(i, 3, "moved"));
        assert_eq!(net.say(client, &format!("MSET {a} 0 {x} 0 {z} 0 {near} 0")), "OK");
        net.hears_of_silent(0, &[]);
        net.sleep(600);
        net.stalled = vec![1];
        net.send(client, &format!("MSET {a} 1 {x} 1 {z} 1"));
        net.send(copies, &format!("RENAME {near} {far}"));
        net.run();
        *(if is_silent { &mut net.mute } else { &mut net.unreachable }) = vec![1];
        net.cut(0, 1);
        net.stalled.clear();
        (0..8).for_each(|_| net.sleep(500));
        assert!(!net.clients[client].closed && net.heard(copies).is_empty(), "there may be a way again soon");
        looks(&mut net);
        assert_eq!(net.clients[client].closed, ends);
        assert!(net.heard(client).is_empty());
        assert_eq!(net.heard(copies).iter().any(|reply| reply.starts_with("-CLUSTERDOWN")), ends);
        net.unreachable.clear();
        net.mute.clear();
        looks(&mut net);
        let expected = if ends { "0 nil" } else { "nil 0" };
        let reply = net.say(other, &format!("MGET {near} {far}"));
        assert_eq!(reply, format!("[{expected}]"), "nobody was prepared");
        let reply = net.say(other, &format!("MGET {a} {x} {z}"));
        assert!(["[0 0 0]", "[1 1 1]"].contains(&&*reply), "{reply}");
        assert!(net.is_quiet());
    }
}
