//! Commands in which every node has a part.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use membership::control::Status;
use membership::map::Range;
use membership::meta::{Command, Setting};
use membership::{Map, NodeId, Slot};
use node::cluster::{Administration, Changed, LibrariesChanged, SettingsChanged};
use resp::Value;

use crate::net::{Net, even_map, key_of, shown};

fn filled(nodes: usize, keys: usize) -> (Net, usize) {
    let mut net = Net::new(nodes, 2, 11);
    let client = net.connect(0);
    for i in 0..keys {
        net.send(client, &format!("SET key:{i} {i}"));
    }
    net.run();
    assert_eq!(net.replies(client).len(), keys);
    (net, client)
}

#[test]
fn what_concerns_all_keys_concerns_those_of_all_nodes() {
    let (mut net, client) = filled(3, 500);
    assert_eq!(net.say(client, "DBSIZE"), "500");
    let Value::Array(keys) = net.ask(client, "KEYS key:*") else { panic!("a list") };
    let keys: BTreeSet<String> = keys.iter().map(shown).collect();
    assert_eq!(keys.len(), 500);
    assert!(net.say(client, "RANDOMKEY").starts_with("key:"));
    let other = net.connect(2);
    assert_eq!(net.say(other, "DBSIZE"), "500");
    let replies = net.pipeline(other, &["DBSIZE", "SET a 1", "DBSIZE", "FLUSHALL", "DBSIZE", "RANDOMKEY"]);
    assert_eq!(replies.iter().map(shown).collect::<Vec<_>>(), ["500", "OK", "501", "OK", "0", "nil"]);
    assert_eq!(net.say(client, "DBSIZE"), "0");
}

/// The names that a client with cursors in doubles finds, and the number of its calls.
fn scanned(net: &mut Net, client: usize, extra: &str) -> (Vec<String>, usize) {
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    for calls in 1.. {
        let Value::Array(reply) = net.ask(client, &format!("SCAN {cursor}{extra}")) else { panic!("a list") };
        let next: f64 = shown(&reply[0]).parse().expect("a number");
        cursor = format!("{next:.0}");
        assert!(next < (1u64 << 53) as f64 && shown(&reply[0]) == cursor, "{cursor}");
        let Value::Array(keys) = &reply[1] else { panic!("a list") };
        found.extend(keys.iter().map(shown));
        if cursor == "0" {
            return (found, calls);
        }
    }
    unreachable!("a scan ends")
}

#[test]
fn scan_finds_every_key_of_every_node() {
    let (mut net, _) = filled(3, 700);
    for node in 0..3 {
        let client = net.connect(node);
        for extra in ["", " COUNT 100", " MATCH key:*"] {
            let (found, calls) = scanned(&mut net, client, extra);
            let keys: BTreeSet<&String> = found.iter().collect();
            assert_eq!((found.len(), keys.len()), (700, 700), "{extra}, {calls} calls");
        }
    }
}

/// Behind the last slot of a node another node goes on: the position there is the first of its slot.
#[test]
fn scan_passes_the_last_slot_of_a_node() {
    let mut net = Net::new(3, 1, 11);
    let client = net.connect(0);
    let ends: Vec<u16> =
        even_map(3, 1).ranges().iter().flat_map(|range| [range.start.get(), range.end.get()]).collect();
    let tag = |slot| (0..).map(|n: u32| format!("{{{n}}}")).find(|tag| keyspace::slot_of(tag.as_bytes()) == slot);
    let mut keys = BTreeSet::new();
    for tag in ends.iter().filter_map(|slot| tag(*slot)) {
        keys.extend((0..60).map(|n| format!("{tag}{n}")));
    }
    assert_eq!(keys.len(), 60 * 6);
    for key in &keys {
        assert_eq!(net.say(client, &format!("SET {key} 1")), "OK");
    }
    for node in 0..3 {
        let client = net.connect(node);
        for extra in ["", " COUNT 1", " COUNT 60", " COUNT 10000"] {
            let (found, _) = scanned(&mut net, client, extra);
            assert_eq!((found.len(), found.into_iter().collect()), (keys.len(), keys.clone()), "{extra}");
        }
    }
}

#[test]
fn a_cursor_of_an_earlier_version_is_an_error_at_every_node() {
    let (mut net, _) = filled(3, 20);
    for node in 0..3 {
        let client = net.connect(node);
        for cursor in ["9659095300802871296", "9659095300802871000", "1125899906842624"] {
            assert_eq!(net.say(client, &format!("SCAN {cursor}")), "-ERR invalid cursor");
        }
    }
}

#[test]
fn scan_knows_no_end_that_is_not_there_any_more() {
    let (mut net, _) = filled(2, 0);
    let client = net.connect(0);
    for i in 0..50 {
        net.ask(client, &format!("SET {} 1", key_of(0, 2, &format!("key:{i}"))));
    }
    let cursor = |net: &mut Net| {
        let Value::Array(reply) = net.ask(client, "SCAN 0 COUNT 1000") else { panic!("a list") };
        shown(&reply[0])
    };
    assert_ne!(cursor(&mut net), "0", "the other node's slots are behind this one's");
    // Now the node is alone.
    let nodes = even_map(2, 2).nodes()[..1].to_vec();
    let all = Range { start: Slot::FIRST, end: Slot::LAST, node: 0 };
    net.cluster(0).set_map(Arc::new(Map::new(even_map(2, 2).cluster(), 2, 1, nodes, vec![all])));
    let eval = |net: &mut Net| {
        net.send_words(client, &["EVAL", "return redis.call('scan', '0', 'count', '1000')[1]", "0"]);
        net.heard(client).join(" ")
    };
    assert_eq!(eval(&mut net), "0", "in a script");
    let block = net.pipeline(client, &["MULTI", "SCAN 0 COUNT 1000", "EXEC"]).pop().map(|block| shown(&block));
    assert!(block.as_ref().is_some_and(|block| block.starts_with("[[0 ")), "in a block: {block:?}");
    assert_eq!(cursor(&mut net), "0");
}

#[test]
fn parts_of_a_reply_count_as_output() {
    let mut net = Net::with(3, 1, 11, &[("client-output-buffer-limit", "normal 100kb 0 0")]);
    let client = net.connect(0);
    for i in 0..800 {
        let key = key_of(i % 2, 3, &format!("{}:{i}", "k".repeat(200)));
        net.send(client, &format!("SET {key} 1"));
        net.run();
    }
    assert_eq!(net.replies(client).len(), 800);
    // Two nodes answer, each with less than the limit; the third does not answer.
    net.ask(client, &format!("GET {}", key_of(2, 3, "k")));
    net.stalled = vec![2];
    net.send(client, "KEYS *");
    net.run();
    assert!(net.clients[client].closed);
    net.stalled.clear();
    let other = net.connect(1);
    assert_eq!(net.say(other, "DBSIZE"), "800");
}

#[test]
fn scripts_are_known_to_all_nodes() {
    let mut net = Net::new(2, 1, 3);
    let (a, b) = (net.connect(0), net.connect(1));
    net.send_words(a, &["SCRIPT", "LOAD", "return 7"]);
    let sha = net.heard(a).remove(0);
    for key in 0..10 {
        assert_eq!(net.say(a, &format!("EVALSHA {sha} 1 k{key}")), "7");
    }
    assert_eq!(net.say(b, &format!("SCRIPT EXISTS {sha} {}", "0".repeat(40))), "[1 0]");
    assert_eq!(net.say(b, &format!("SCRIPT SHOW {sha}")), "return 7");
    assert_eq!(net.say(b, "CLIENT CAPA redirect other"), "OK");
    net.ask(b, "SCRIPT FLUSH");
    assert!(net.say(b, &format!("SCRIPT SHOW {sha}")).contains("NOSCRIPT No matching script."));
    assert_eq!(net.say(a, &format!("SCRIPT EXISTS {sha}")), "[0]");
}

/// Clients repeat commands that are answered CLUSTERDOWN, so a command that some nodes have done must not be (rule T9).
#[test]
fn what_some_nodes_have_done_is_not_answered_as_if_nobody_had() {
    let mut net = Net::new(3, 1, 3);
    let client = net.connect(0);
    let keys = [0, 1, 2].map(|node| key_of(node, 3, "k"));
    for key in &keys {
        assert_eq!(net.say(client, &format!("SET {key} 1")), "OK");
    }
    net.cut(0, 2);
    net.unreachable = vec![2];
    net.send(client, "SCRIPT FLUSH");
    net.run();
    net.sleep(3000);
    let reply = net.heard(client).join(",");
    assert!(reply.starts_with("-ERR 2 of 3 nodes have executed it"), "{reply}");
    assert!(
        reply.ends_with("The node at 10.0.0.3:7002 cannot be reached: the command was not executed there"),
        "{reply}"
    );
    for command in ["FLUSHALL", "FLUSHDB ASYNC", "SWAPDB 0 1"] {
        let reply = net.say(client, command);
        let nothing = "-CLUSTERDOWN The node at 10.0.0.3:7002 cannot be reached, or does not serve: nothing was done";
        assert!(reply.starts_with(nothing), "{command}: {reply}");
        assert_eq!(net.say(client, &format!("MGET {} {}", keys[0], keys[1])), "[1 1]", "{command}");
    }
    net.unreachable.clear();
    net.sleep(3000);
    assert_eq!(net.say(client, &format!("EXISTS {}", keys[2])), "1", "it was not reached");
}

#[test]
fn databases_change_places_on_all_nodes_or_on_none() {
    for (workers, in_pipeline) in [(1, false), (2, true)] {
        let mut net = Net::new(3, workers, 3);
        let clients = [0, 1, 2].map(|node| net.connect(node));
        let keys = [0, 1, 2].map(|node| key_of(node, 3, "k"));
        for (key, client) in keys.iter().zip(clients) {
            assert_eq!(net.say(client, &format!("SET {key} 1")), "OK");
        }
        // The links were not needed before.
        let set = format!("SET {} 2", keys[1]);
        let commands: &[&str] = if in_pipeline { &[&set, "SWAPDB 0 1", "DBSIZE"] } else { &["SWAPDB 0 1", "DBSIZE"] };
        let replies = net.pipeline(clients[0], commands);
        let replies: Vec<String> = replies.iter().map(shown).collect();
        assert!(replies.ends_with(&["OK".into(), "0".into()]), "{replies:?}");
        assert_eq!(net.say(clients[0], "SWAPDB 1 0"), "OK");
        let there = |net: &mut Net| {
            for (key, client) in keys.iter().zip(clients) {
                assert_eq!(net.say(client, &format!("EXISTS {key}")), "1");
            }
        };
        let refused = |net: &mut Net, why: &str| {
            net.send(clients[0], "SWAPDB 0 1");
            net.run();
            net.sleep(3000);
            let reply = net.heard(clients[0]).join(",");
            assert!(reply.starts_with("-CLUSTERDOWN") && reply.contains("nothing was done"), "{why}: {reply}");
        };
        net.cut(0, 2);
        net.unreachable = vec![2];
        refused(&mut net, "a node is out of reach");
        net.unreachable.clear();
        net.sleep(1000);
        there(&mut net);
        let leader = net.hears_of_silent(0, &[1]);
        refused(&mut net, "a node has no lease");
        leader.says(&[]);
        net.lease(0, 0);
        net.send(clients[0], "SWAPDB 0 1");
        let reply = net.heard(clients[0]).join(",");
        assert!(reply.starts_with("-CLUSTERDOWN this node has no lease"), "{reply}");
        net.lease(0, u64::MAX);
        let even = even_map(3, 2);
        let mut nodes = even.nodes().to_vec();
        nodes[2].lost = true;
        net.cluster(0).set_map(Arc::new(Map::new(even.cluster(), 2, 1, nodes, even.ranges().to_vec())));
        refused(&mut net, "a node is lost");
        net.cluster(0).set_map(Arc::new(even_map(3, 3)));
        there(&mut net);
        assert_eq!(net.say(clients[0], "SWAPDB 0 1"), "OK");
        assert_eq!(net.say(clients[0], "DBSIZE"), "0");
    }
}

#[test]
fn messages_reach_the_subscribers_of_all_nodes() {
    let mut net = Net::with(3, 2, 5, &[("notify-keyspace-events", "KEA")]);
    let subscribers: Vec<usize> = (0..3).map(|node| net.connect(node)).collect();
    for subscriber in &subscribers {
        net.send(*subscriber, "SUBSCRIBE news");
        net.run();
        net.replies(*subscriber);
    }
    let publisher = net.connect(1);
    assert_eq!(net.say(publisher, "PUBLISH news hello"), "3");
    for subscriber in &subscribers {
        assert_eq!(net.heard(*subscriber), ["[message news hello]"]);
    }
    assert_eq!(net.say(publisher, "PUBSUB NUMSUB news none"), "[news 3 none 0]");
    assert_eq!(net.say(publisher, "PUBSUB CHANNELS"), "[news]");
    // From a block and from a script, at any place.
    let key = key_of(2, 3, "k");
    let set = format!("SET {key} 1");
    net.pipeline(publisher, &["MULTI", &set, "PUBLISH news block", "EXEC"]);
    net.send_words(publisher, &["EVAL", "return redis.call('publish', 'news', 'script')", "1", &key]);
    net.heard(publisher);
    for subscriber in &subscribers {
        assert_eq!(net.heard(*subscriber), ["[message news block]", "[message news script]"]);
    }
    // A node that is gone receives nothing, and publishers go on.
    net.cut(1, 2);
    net.unreachable = vec![2];
    net.sleep(1000);
    net.send(publisher, "PUBLISH news again");
    net.run();
    net.sleep(3000);
    assert_eq!(net.heard(publisher), ["2"]);
    assert_eq!(net.say(publisher, "PUBLISH news again"), "2", "and do not wait for anything");
}

#[test]
fn a_node_that_is_lost_is_asked_for_nothing_but_its_keys() {
    let mut net = Net::new(3, 1, 5);
    let client = net.connect(0);
    net.unreachable = vec![2];
    assert!(net.say(client, "DBSIZE").starts_with("-CLUSTERDOWN"));
    net.send_words(client, &["SCRIPT", "LOAD", "return 6"]);
    assert!(net.heard(client)[0].len() == 40, "it hears of it when it comes back");
    let even = even_map(3, 2);
    let mut nodes = even.nodes().to_vec();
    nodes[2].lost = true;
    net.cluster(0).set_map(Arc::new(Map::new(even.cluster(), 2, 1, nodes, even.ranges().to_vec())));
    net.send_words(client, &["SCRIPT", "LOAD", "return 7"]);
    let sha = net.heard(client).remove(0);
    assert_eq!(net.say(client, &format!("SCRIPT EXISTS {sha}")), "[1]");
    assert_eq!(net.say(client, "PUBSUB NUMPAT"), "0");
    assert_eq!(net.say(client, "PUBLISH news x"), "0");
    for command in ["DBSIZE", "KEYS *"] {
        assert!(net.say(client, command).starts_with("-CLUSTERDOWN"), "{command}");
    }
    assert!(net.say(client, "FLUSHALL").starts_with("-CLUSTERDOWN The node at 10.0.0.3:7002"));
}

/// A command that needs no key of a stopped node is answered. Others name the node.
#[test]
fn what_needs_no_key_of_a_node_that_has_stopped_is_answered() {
    let mut net = Net::new(3, 2, 5);
    let [client, other] = [0, 0].map(|node| net.connect(node));
    let keys = [0, 1, 2].map(|node| key_of(node, 3, "k"));
    assert_eq!(net.say(client, &format!("MSET {} 1 {} 1", keys[0], keys[1])), "OK");
    for (key, client) in keys.iter().zip([client, client, other]) {
        assert_eq!(net.say(client, &format!("SET {key} 1")), "OK");
    }
    net.sleep(3000);
    // The stopped node is being asked.
    for command in ["DBSIZE", "KEYS *", "RANDOMKEY", "PUBSUB NUMPAT", "PUBSUB CHANNELS", "SCRIPT LOAD x=1"] {
        net.stalled = vec![2];
        net.send(client, command);
        net.run();
        assert!(net.heard(client).is_empty(), "{command}");
        net.cut(0, 2);
        net.unreachable = vec![2];
        let heard = net.heard(client);
        assert!(!net.clients[client].closed && heard.len() == 1, "{command}: {heard:?}");
        if matches!(command, "DBSIZE" | "KEYS *") {
            let silent = "-CLUSTERDOWN The node at 10.0.0.3:7002 cannot be reached";
            assert!(heard[0].starts_with(silent), "{command}: {heard:?}");
        } else {
            assert!(!heard[0].starts_with('-'), "{command}: {heard:?}");
        }
        (net.stalled, net.unreachable) = (Vec::new(), Vec::new());
        net.sleep(3000);
        assert_eq!(net.say(client, "DBSIZE"), "3", "it is back");
    }
    // The link has ended.
    net.cut(0, 2);
    net.unreachable = vec![2];
    net.sleep(1000);
    for command in ["RANDOMKEY", "PUBSUB NUMPAT", "WAITAOF 0 0 0", "SCRIPT LOAD x=2"] {
        let reply = net.say(client, command);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
    for (client, command) in [(client, "DBSIZE"), (client, "KEYS *"), (other, "WAITAOF 0 0 0")] {
        let reply = net.say(client, command);
        assert!(reply.starts_with("-CLUSTERDOWN The node at 10.0.0.3:7002"), "{command}: {reply}");
    }
    assert_eq!(net.say(client, &format!("KEYS {}", keys[1])), format!("[{}]", keys[1]), "a pattern of one slot");
    // The node hears of the changes that it has missed.
    net.unreachable.clear();
    net.sleep(3000);
    let there = net.connect(2);
    assert_eq!(net.say(there, "CLUSTER REDIRECT moved"), "OK");
    let shas = ["x=1", "x=2"].map(|text| String::from_utf8(script::Source::sha_of(text.as_bytes()).to_vec()).unwrap());
    assert_eq!(net.say(there, &format!("SCRIPT EXISTS {} {}", shas[0], shas[1])), "[1 1]");
}

#[test]
fn what_happens_to_keys_is_told_on_all_nodes() {
    let mut net = Net::with(3, 2, 5, &[("notify-keyspace-events", "KEA")]);
    let (subscriber, client) = (net.connect(0), net.connect(1));
    net.send(subscriber, "PSUBSCRIBE __key*__:*");
    net.run();
    net.replies(subscriber);
    for node in 0..3 {
        let key = key_of(node, 3, "k");
        net.ask(client, &format!("SET {key} 1"));
        net.sleep(1);
        let heard = net.heard(subscriber);
        assert_eq!(heard.len(), 2, "{heard:?}");
        assert!(heard[0].ends_with("set]") && heard[1].ends_with(&format!("set {key}]")), "{heard:?}");
    }
}

#[test]
fn a_node_says_what_it_knows_of_the_cluster() {
    let mut net = Net::new(3, 1, 5);
    let client = net.connect(1);
    for i in 0..5 {
        net.ask(client, &format!("SET {{tag}}{i} x"));
    }
    let slot = keyspace::slot_of(b"tag");
    assert_eq!(net.say(client, "CLUSTER KEYSLOT x{tag}y"), slot.to_string());
    assert_eq!(net.say(client, &format!("CLUSTER COUNTKEYSINSLOT {slot}")), "5");
    let Value::Array(keys) = net.ask(client, &format!("CLUSTER GETKEYSINSLOT {slot} 3")) else { panic!("a list") };
    assert_eq!(keys.len(), 3);
    assert_eq!(net.say(client, "CLUSTER MYID"), "02".repeat(20));
    let info = net.say(client, "CLUSTER INFO");
    for line in ["cluster_state:ok", "cluster_slots_assigned:16384", "cluster_known_nodes:3", "cluster_size:3"] {
        assert!(info.contains(line), "{info}");
    }
    let nodes = net.say(client, "CLUSTER NODES");
    let mine = format!("{} 10.0.0.2:8001@17001 myself,master - 0 0 1 connected 5461-10921", "02".repeat(20));
    assert!(nodes.lines().count() == 3 && nodes.contains(&mine), "{nodes}");
    let id = "01".repeat(20);
    assert!(net.say(client, "CLUSTER SLOTS").starts_with(&format!("[[0 5460 [10.0.0.1 8000 {id} []]] [5461")));
    assert!(net.say(client, "CLUSTER SHARDS").contains("slots [0 5460]"));
    for command in ["READONLY", "READWRITE", "ASKING"] {
        assert_eq!(net.say(client, command), "OK");
    }
    let key = key_of(0, 3, "k");
    assert_eq!(net.say(client, "CLUSTER REDIRECT moved"), "OK");
    assert!(net.say(client, &format!("GET {key}")).starts_with("-MOVED"));
    assert_eq!(net.say(client, "CLUSTER REDIRECT default"), "OK");
    assert_eq!(net.say(client, &format!("GET {key}")), "nil");
    assert!(net.say(client, "CLUSTER LINKS").contains(&id));
    assert!(net.say(client, "CLUSTER MEET 1 2").contains("arrange their slots themselves"));
    assert!(net.say(client, "INFO cluster").contains("cluster_enabled:1"));
}

/// Metadata that no node keeps: they note requests.
#[derive(Default)]
struct Asked {
    silent: Arc<Mutex<BTreeSet<NodeId>>>,
    commands: Arc<Mutex<Vec<Command>>>,
}

impl Administration for Asked {
    fn silent(&self) -> Arc<BTreeSet<NodeId>> {
        Arc::new(self.silent.lock().unwrap().clone())
    }

    fn change(&self, command: Command, then: Changed) {
        self.commands.lock().unwrap().push(command);
        then(if self.commands.lock().unwrap().len() > 2 { Err("no majority".to_owned()) } else { Ok(()) });
    }

    fn change_libraries(&self, _: u64, _: Arc<[u8]>, _: LibrariesChanged) {}

    fn configure(&self, _: Vec<Setting>, _: SettingsChanged) {}

    fn settled(&self, _: Changed) {}

    fn has_data(&self, _: [u8; 16], _: Changed) {}

    fn status(&self, _: Box<dyn FnOnce(Status) + Send>) {}
}

#[test]
fn nodes_that_are_silent_have_failed_and_may_be_forgotten() {
    let mut net = Net::new(3, 1, 2);
    let client = net.connect(0);
    let asked = Asked::default();
    let (silent, commands) = (asked.silent.clone(), asked.commands.clone());
    net.cluster(0).set_administration(Box::new(asked));
    let id = |n: u8| NodeId([n; 20]);
    // Another node owns everything, one has gone, and this node knows its own place better.
    let even = even_map(3, 2);
    let range = Range { start: Slot::FIRST, end: Slot::LAST, node: 1 };
    net.cluster(0).set_map(Arc::new(Map::new(even.cluster(), 2, 1, even.nodes().to_vec(), vec![range])));
    silent.lock().unwrap().extend([id(1), id(2)]);
    let nodes = net.say(client, "CLUSTER NODES");
    let ends =
        ["myself,master - 0 0 1 connected", "master,fail - 0 0 1 disconnected 0-16383", "master - 0 0 1 connected"];
    assert!(nodes.lines().zip(ends).all(|(line, end)| line.ends_with(end)), "{nodes}");
    let info = net.say(client, "CLUSTER INFO");
    let failed = ["cluster_state:fail", "cluster_slots_ok:0", "cluster_slots_fail:16384"];
    assert!(failed.iter().all(|line| info.contains(line)), "{info}");
    let shards = net.say(client, "CLUSTER SHARDS");
    assert_eq!((shards.matches("health fail").count(), shards.matches("health online").count()), (1, 2), "{shards}");

    let ask = |net: &mut Net, command: &str| {
        net.send(client, command);
        net.run();
        net.sleep(1000);
        net.heard(client).join(" ")
    };
    assert_eq!(ask(&mut net, &format!("CLUSTER FORGET {}", id(3))), "OK");
    let refused = ask(&mut net, &format!("CLUSTER FORGET {}", id(2)));
    assert!(refused.contains("owns 16384 slots") && refused.contains("LOSE-DATA"), "{refused}");
    for wrong in
        ["x", &format!("{} x", id(2)), &format!("{} lose-data x", id(2)), &id(1).to_string(), &id(9).to_string()]
    {
        assert!(ask(&mut net, &format!("CLUSTER FORGET {wrong}")).starts_with("-ERR"), "{wrong}");
    }
    assert_eq!(ask(&mut net, &format!("CLUSTER FORGET {} lose-data", id(2))), "OK");
    assert_eq!(ask(&mut net, "CLUSTER LEAVE"), "-ERR no majority");
    let expected = [Command::Leave { id: id(3) }, Command::Forget { id: id(2) }, Command::Leave { id: id(1) }];
    assert_eq!(*commands.lock().unwrap(), expected);
}

/// SORT's patterns may lead to keys of any node. In a cluster of several it is refused, as in Redis Cluster, and does
/// not treat those keys as missing.
#[test]
fn sort_with_patterns_of_other_slots_is_refused() {
    let (mut net, [client, ..], [a, b, c]) = Net::three(1, 2);
    for (tag, other) in [(&a, &c), (&b, &a)] {
        let list = format!("{{{tag}}}list");
        assert_eq!(net.say(client, &format!("RPUSH {list} 2 1")), "2");
        assert_eq!(net.say(client, &format!("MSET w_1 9 w_2 8 {{{tag}}}w_1 9 {{{tag}}}w_2 8")), "OK");
        for options in ["BY w_*", "GET w_*", "BY none GET # GET w_*->field"] {
            for command in ["SORT", "SORT_RO"] {
                let sort = format!("{command} {list} {options}");
                let refused = net.say(client, &sort);
                assert!(refused.starts_with("-ERR") && refused.contains("in different slots"), "{sort}: {refused}");
                net.ask(client, "MULTI");
                assert_eq!(net.say(client, &sort), "QUEUED");
                let refused = net.say(client, "EXEC");
                assert!(refused.starts_with("-EXECABORT") && refused.contains("more than its keys"), "{refused}");
                // A script, at the node of its keys and on copies.
                let text = "return redis.call(unpack(ARGV))";
                for keys in [&["1", &list][..], &["2", &list, other][..]] {
                    let words = [&["EVAL", text], keys, &sort.split(' ').collect::<Vec<_>>()].concat();
                    let refused = net.say_words(client, &words);
                    assert!(refused.contains("more than its keys"), "{words:?}: {refused}");
                }
            }
        }
        assert!(net.say(client, &format!("SORT {list} BY w_* STORE {other}")).contains("in different slots"));
        // Patterns in the slot of the sorted key.
        assert_eq!(net.say(client, &format!("SORT {list} BY {{{tag}}}w_*")), "[2 1]");
        assert_eq!(net.say(client, &format!("SORT {list} BY none GET # GET {{{tag}}}w_*")), "[2 8 1 9]");
    }
    assert!(net.is_quiet(), "nothing is left");
    // One node has all keys.
    let mut net = Net::new(1, 1, 2);
    let client = net.connect(0);
    net.ask(client, "RPUSH list 2 1");
    net.ask(client, "MSET w_1 9 w_2 8");
    assert_eq!(net.say(client, "SORT list BY w_* GET w_*"), "[8 9]");
}

/// Keys that SORT's patterns lead to, in the slot of the sorted key, are at its owner and nowhere else. Copies lack
/// them, so SORT is refused there.
#[test]
fn sort_with_patterns_is_refused_on_copies() {
    let (mut net, [client, ..], [a, b, c]) = Net::three(1, 2);
    let (list, weights, home, away) =
        (format!("{{{a}}}list"), format!("{{{a}}}w_*"), format!("{{{a}}}to"), format!("{{{c}}}to"));
    net.ask(client, &format!("RPUSH {list} 1 2"));
    net.ask(client, &format!("MSET {{{a}}}w_1 9 {{{a}}}w_2 8"));
    for options in [format!("BY {weights}"), format!("GET {weights}"), format!("BY none GET # GET {weights}->field")] {
        // Alone, with a key of another node.
        let sort = format!("SORT {list} {options} STORE {away}");
        let refused = net.say(client, &sort);
        assert!(refused.starts_with("-ERR") && refused.contains("in different slots"), "{sort}: {refused}");
        // In a block with keys of other nodes: of commands that need one node each, and of one that needs two.
        for others in [vec![format!("SET {b} 1"), format!("SET {c} 1")], vec![format!("RENAMENX {list} {away}")]] {
            for command in ["SORT", "SORT_RO"] {
                net.ask(client, "MULTI");
                for command in others.iter().chain([&format!("{command} {list} {options}")]) {
                    assert_eq!(net.say(client, command), "QUEUED");
                }
                let refused = net.say(client, "EXEC");
                assert!(refused.starts_with("-EXECABORT") && refused.contains("more than its keys"), "{refused}");
            }
        }
        // In scripts: one with keys of several nodes, and some that find out.
        let text = "return redis.call(unpack(ARGV))";
        let local = format!("SORT_RO {list} {options}");
        for (keys, sort) in [(vec!["2", &list, &c], &local), (vec!["1", &list], &sort), (vec!["1", &c], &local)] {
            let words = [&["EVAL", text][..], &keys, &sort.split(' ').collect::<Vec<_>>()].concat();
            let refused = net.say_words(client, &words);
            assert!(refused.contains("more than its keys"), "{words:?}: {refused}");
        }
        assert_eq!(net.say(client, &format!("EXISTS {b} {c} {away}")), "0", "nothing was done");
    }
    // At their owner: alone, in a block, and in a script.
    let sort = format!("SORT {list} BY {weights} GET {weights}");
    assert_eq!(net.say(client, &sort), "[8 9]");
    assert_eq!(net.say(client, &format!("{sort} STORE {home}")), "2");
    net.ask(client, "MULTI");
    net.ask(client, &sort);
    net.ask(client, &format!("LRANGE {home} 0 -1"));
    assert_eq!(net.say(client, "EXEC"), "[[8 9] [8 9]]");
    let words =
        [&["EVAL", "return redis.call(unpack(ARGV))", "1", &list], &*sort.split(' ').collect::<Vec<_>>()].concat();
    assert_eq!(net.say_words(client, &words), "[8 9]");
    // Patterns that lead to no key.
    assert_eq!(net.say(client, &format!("SORT {list} BY none GET # GET none STORE {away}")), "4");
    assert_eq!(net.say(client, &format!("LRANGE {away} 0 -1")), "[1  2 ]");
    assert!(net.is_quiet(), "nothing is left");
}
