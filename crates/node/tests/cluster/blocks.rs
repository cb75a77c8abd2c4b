//! MULTI, WATCH and scripts with keys of one other node.

use std::sync::Arc;

use membership::Map;
use membership::map::Node as Member;

use crate::net::{Net, even_map, key_of, shown};

#[test]
fn a_block_of_another_nodes_keys_runs_there() {
    let mut net = Net::new(3, 1, 2);
    let client = net.connect(0);
    let (a, b) = (key_of(1, 3, "a"), key_of(1, 3, "b"));
    for command in
        ["MULTI".to_owned(), format!("SET {a} 1"), format!("INCRBY {b} 5"), "PING".into(), format!("GET {a}")]
    {
        net.ask(client, &command);
    }
    assert_eq!(net.say(client, "EXEC"), "[OK 5 PONG 1]");
    // Several blocks, without waiting.
    let mut commands = Vec::new();
    for i in 0..50 {
        let key = key_of(i % 3, 3, "counter");
        commands.extend(["MULTI".to_owned(), format!("INCR {key}"), format!("INCR {key}"), "EXEC".into()]);
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let replies: Vec<String> = net.pipeline(client, &commands).iter().map(shown).collect();
    for i in 0..50 {
        let n = i / 3 * 2;
        assert_eq!(
            replies[i * 4..i * 4 + 4],
            ["OK".into(), "QUEUED".to_owned(), "QUEUED".into(), format!("[{} {}]", n + 1, n + 2)]
        );
    }
}

#[test]
fn a_block_that_selects_a_database_elsewhere_selects_it_here() {
    let mut net = Net::new(2, 1, 2);
    let client = net.connect(0);
    let (far, near) = (key_of(1, 2, "far"), key_of(0, 2, "near"));
    let set = format!("SET {far} 4");
    net.pipeline(client, &["MULTI", "SELECT 4", &set, "EXEC"]);
    assert_eq!(net.say(client, &format!("GET {far}")), "4");
    net.ask(client, &format!("SET {near} 4"));
    net.ask(client, "SELECT 0");
    assert_eq!(net.say(client, &format!("EXISTS {near}")), "0");
}

#[test]
fn a_block_that_selects_a_database_and_does_not_run_selects_it_nowhere() {
    // Replies that come a byte at a time are judged as a whole.
    for (crumbles, protocol) in [(false, 2), (true, 2), (false, 3), (true, 3)] {
        let mut net = Net::new(2, 1, 2);
        let (client, other) = (net.connect(0), net.connect(1));
        net.ask(client, &format!("HELLO {protocol}"));
        net.crumbles = crumbles;
        let far = key_of(1, 2, "far");
        let set = |value: &str| format!("SET {far} {value}");
        let block = |net: &mut Net| {
            net.pipeline(client, &["MULTI", "SELECT 4", &set("block"), "EXEC"]).pop().map(|last| shown(&last)).unwrap()
        };
        let databases = |net: &mut Net| -> Vec<String> {
            (["0", "4"].iter())
                .map(|db| {
                    net.ask(other, &format!("SELECT {db}"));
                    net.say(other, &format!("GET {far}"))
                })
                .collect()
        };
        // Another client has touched a watched key.
        net.ask(client, &format!("WATCH {far}"));
        net.ask(other, &set("touched"));
        assert_eq!(block(&mut net), "nil");
        net.ask(client, "SELECT 4");
        net.ask(client, &set("there"));
        assert_eq!(databases(&mut net), ["touched", "there"], "crumbles: {crumbles}");
        net.ask(client, "SELECT 0");
        net.ask(client, &format!("WATCH {far}"));
        net.ask(other, "SELECT 0");
        net.ask(other, &set("touched"));
        assert_eq!(block(&mut net), "nil");
        net.ask(client, &set("kept"));
        assert_eq!(databases(&mut net), ["kept", "there"], "crumbles: {crumbles}");
        // By the origin's map, the owner has slots that it does not know of yet.
        let even = even_map(2, 2);
        let nodes = even.nodes().iter().map(|node| Member { epoch: 2, ..node.clone() }).collect();
        let newer = Arc::new(Map::new(even.cluster(), 2, 2, nodes, even.ranges().to_vec()));
        net.cluster(0).set_map(newer.clone());
        ["MULTI", "SELECT 4", &set("block"), "EXEC"].iter().for_each(|command| net.send(client, command));
        net.run();
        net.sleep(2000);
        let refused = net.heard(client).pop().expect("a reply");
        assert!(refused.starts_with("-EXECABORT"), "{refused}");
        net.cluster(1).set_map(newer);
        net.ask(client, &set("home"));
        assert_eq!(databases(&mut net), ["home", "there"], "crumbles: {crumbles}");
        // The next block runs.
        assert!(block(&mut net).starts_with("[OK"));
        net.ask(client, &set("after"));
        assert_eq!(databases(&mut net), ["home", "after"], "crumbles: {crumbles}");
    }
}

#[test]
fn a_long_block_may_end_anywhere_in_a_frame() {
    const FRAME: usize = 256 * 1024;
    let mut net = Net::new(2, 1, 2);
    let (client, idle) = (net.connect(0), net.connect(0));
    let far = key_of(1, 2, "far");
    let request = |words: &[&str]| {
        let mut bytes = Vec::new();
        resp::append_request(&mut bytes, words);
        bytes
    };
    for frames in [1, 2] {
        for more in 0..4 {
            let length = frames * FRAME + more;
            let fill = |n: usize| {
                [request(&["MULTI"]), request(&["PING"]), request(&["SET", &far, &"v".repeat(n)]), request(&["EXEC"])]
                    .concat()
            };
            let most = fill(length - 200).len();
            let block = fill(length - 200 + length - most);
            assert_eq!(block.len(), length, "the length of the block");
            net.send_raw(client, &block);
            assert_eq!(net.heard(client), ["OK", "QUEUED", "QUEUED", "[PONG OK]"], "{frames} frames and {more} bytes");
        }
    }
    assert!(!net.clients[client].closed);
    assert_eq!(net.say(idle, &format!("STRLEN {far}")).len(), 6);
}

#[test]
fn a_broken_block_says_so() {
    let mut net = Net::new(2, 1, 2);
    let client = net.connect(0);
    let far = key_of(1, 2, "far");
    let set = format!("SET {far} 1");
    let replies = net.pipeline(client, &["MULTI", &set, "FLUSHALL", "EXEC", "PING"]);
    assert!(shown(&replies[3]).starts_with("-EXECABORT"), "{replies:?}");
    assert_eq!(shown(&replies[4]), "PONG");
    let replies = net.pipeline(client, &["MULTI", &set, "SET", "EXEC"]);
    assert!(shown(&replies[3]).starts_with("-EXECABORT"), "{replies:?}");
    assert_eq!(net.say(client, &format!("EXISTS {far}")), "0");
}

#[test]
fn watched_keys_of_another_node_break_a_block() {
    let mut net = Net::new(3, 2, 8);
    let (client, other) = (net.connect(0), net.connect(2));
    let (watched, key) = (key_of(1, 3, "w"), key_of(1, 3, "k"));
    let block = ["MULTI".to_owned(), format!("SET {key} 1")];
    let block: Vec<&str> = block.iter().map(String::as_str).collect();
    // The watched key is untouched.
    assert_eq!(net.say(client, &format!("WATCH {watched}")), "OK");
    net.pipeline(client, &block);
    assert_eq!(net.say(client, "EXEC"), "[OK]");
    // The watched key was touched.
    net.ask(client, &format!("WATCH {watched}"));
    net.ask(other, &format!("SET {watched} x"));
    net.pipeline(client, &block);
    assert_eq!(net.say(client, "EXEC"), "nil");
    // The key is not watched any more.
    for end in ["UNWATCH", "DISCARD"] {
        net.ask(client, &format!("WATCH {watched}"));
        net.ask(other, &format!("INCR {key}"));
        net.ask(other, &format!("SET {watched} y"));
        if end == "DISCARD" {
            net.ask(client, "MULTI");
        }
        assert_eq!(net.say(client, end), "OK");
        net.pipeline(client, &block);
        assert_eq!(net.say(client, "EXEC"), "[OK]");
    }
    // A lost watch counts as touched.
    net.ask(client, &format!("WATCH {watched}"));
    net.cut(0, 1);
    net.pipeline(client, &block);
    assert_eq!(net.say(client, "EXEC"), "nil");
    net.sleep(100);
    net.pipeline(client, &block);
    assert_eq!(net.say(client, "EXEC"), "[OK]");
}

/// No single node could get the block.
#[test]
fn smart_clients_watch_keys_of_several_nodes_where_they_are() {
    let mut net = Net::with(3, 1, 2, &[("cluster-redirect", "moved")]);
    let (client, other) = (net.connect(0), net.connect(2));
    let (near, far) = (key_of(0, 3, "near"), key_of(2, 3, "far"));
    let both = format!("{near} {far}");
    for (touched, outcome) in [(false, "[OK]"), (true, "nil")] {
        assert_eq!(net.say(client, &format!("WATCH {both}")), "OK");
        if touched {
            assert_eq!(net.say(other, &format!("SET {far} x")), "OK");
        }
        net.pipeline(client, &["MULTI", &format!("SET {near} 1")]);
        assert_eq!(net.say(client, "EXEC"), outcome);
    }
    let one = net.say(client, &format!("WATCH {far} {far}"));
    assert!(one.starts_with("-MOVED"), "{one}");
}

#[test]
fn a_watch_that_is_refused_says_why() {
    let mut net = Net::new(2, 1, 2);
    let client = net.connect(0);
    let (far, near) = (key_of(1, 2, "far"), key_of(0, 2, "near"));
    let rejected = |net: &mut Net| {
        let stats = net.say(client, "INFO commandstats");
        let line = stats.lines().find(|line| line.starts_with("cmdstat_watch:")).map(str::to_owned);
        line.and_then(|line| line.split("rejected_calls=").nth(1)?.split(',').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    net.lease(0, 0);
    let both = net.say(client, &format!("WATCH {far} {near}"));
    assert_eq!(both, "-CLUSTERDOWN this node has no lease: a test says so");
    assert_eq!(rejected(&mut net), 1);
    assert_eq!(net.say(client, &format!("WATCH {near}")), "-CLUSTERDOWN this node has no lease: a test says so");
    net.lease(0, u64::MAX);
    let even = even_map(2, 2);
    net.cluster(0).set_map(Arc::new(Map::new(even.cluster(), 2, 2, even.nodes().to_vec(), Vec::new())));
    assert_eq!(net.say(client, &format!("WATCH {near}")), "-CLUSTERDOWN Hash slot not served");
    assert_eq!(rejected(&mut net), 3);
}

#[test]
fn a_watch_that_is_refused_breaks_no_block() {
    let mut net = Net::new(2, 1, 3);
    let client = net.connect(0);
    let (far, near) = (key_of(1, 2, "far"), key_of(0, 2, "near"));
    let block = ["MULTI".to_owned(), format!("SET {far} 1"), format!("SET {near} 1"), "EXEC".to_owned()];
    let block: Vec<&str> = block.iter().map(String::as_str).collect();
    // The command has not left the node.
    net.unreachable = vec![1];
    assert!(net.say(client, &format!("WATCH {far}")).starts_with("-CLUSTERDOWN"));
    net.unreachable.clear();
    net.sleep(600);
    assert_eq!(shown(&net.pipeline(client, &block)[3]), "[OK OK]");
    // The owner refused it.
    net.lease(1, 0);
    assert!(net.say(client, &format!("WATCH {far}")).starts_with("-CLUSTERDOWN"));
    net.lease(1, u64::MAX);
    assert_eq!(shown(&net.pipeline(client, &block)[3]), "[OK OK]");
    // A refused watch does not take the place of an earlier one.
    assert_eq!(net.say(client, &format!("WATCH {far}")), "OK");
    net.lease(1, 0);
    assert!(net.say(client, &format!("WATCH {}", key_of(1, 2, "more"))).starts_with("-CLUSTERDOWN"));
    net.lease(1, u64::MAX);
    let other = net.connect(1);
    net.ask(other, &format!("SET {far} x"));
    assert_eq!(shown(&net.pipeline(client, &block)[3]), "nil");
    assert_eq!(shown(&net.pipeline(client, &block)[3]), "[OK OK]");
}

#[test]
fn a_script_runs_where_its_keys_are() {
    let mut net = Net::new(2, 1, 8);
    let client = net.connect(0);
    let (far, near) = (key_of(1, 2, "far"), key_of(0, 2, "near"));
    assert_eq!(net.say_words(client, &["EVAL", "return redis.call('set', KEYS[1], ARGV[1])", "1", &far, "v"]), "OK");
    assert_eq!(net.say_words(client, &["EVAL", "return redis.call('get', KEYS[1])", "1", &far]), "v");
    assert_eq!(net.say_words(client, &["EVAL", "return redis.call('get', ARGV[1])", "0", &far]), "v");
    assert_eq!(net.say_words(client, &["EVAL", "return redis.call('exists', ARGV[1])", "0", &near]), "0");
    assert_eq!(net.say_words(client, &["EVAL", "return 1", "2", &far, &near]), "1");
}
