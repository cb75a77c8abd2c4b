//! Commands for a node that does not answer wait for it (`cluster-takeover-wait`), in their order, and are refused later.

use crate::net::{Net, key_of};

const WAITS: &[(&str, &str)] = &[("cluster-takeover-wait", "2500")];

fn two(seed: u64) -> (Net, [usize; 2], [String; 2]) {
    let mut net = Net::with(2, 1, seed, WAITS);
    let clients = [net.connect(0), net.connect(0)];
    (net, clients, [0, 1].map(|node| key_of(node, 2, "k")))
}

/// Passes time in steps in which links are dialed again.
fn pass(net: &mut Net, ms: u64) {
    (0..ms / 20).for_each(|_| net.sleep(20));
}

#[test]
fn a_node_that_is_back_in_time_costs_a_pause() {
    let (mut net, [client, other], [near, far]) = two(3);
    net.ask(client, &format!("SET {far} 1"));
    net.cut(0, 1);
    net.unreachable = vec![1];
    for command in [format!("INCR {far}"), format!("SET {near} 1"), format!("GET {far}")] {
        net.send(client, &command);
    }
    let [far_too, near_too] = [1, 0].map(|node| key_of(node, 2, "t"));
    ["MULTI", &format!("INCR {far_too}"), &format!("INCR {near_too}"), "EXEC"]
        .iter()
        .for_each(|words| net.send(other, words));
    pass(&mut net, 2000);
    assert!(net.heard(client).is_empty(), "the first reply is still to come");
    net.unreachable.clear();
    pass(&mut net, 200);
    assert_eq!(net.heard(client), ["2", "OK", "2"], "in the order of the commands");
    assert_eq!(net.heard(other).last().map(String::as_str), Some("[1 1]"), "a transaction over nodes");
    assert!(net.is_quiet());
}

#[test]
fn reads_under_way_run_again() {
    let (mut net, [client, other], [near, far]) = two(6);
    net.ask(client, &format!("SET {far} 1"));
    net.stalled = vec![1];
    let lines =
        [&format!("GET {far}"), "SELECT 1", &format!("GET {far}"), &format!("SET {near} 2"), &format!("STRLEN {far}")];
    lines.iter().for_each(|line| net.send(client, line));
    net.send(other, &format!("GET {far}"));
    net.send(other, &format!("INCR {far}"));
    net.run();
    net.cut(0, 1);
    net.stalled.clear();
    assert!(net.heard(other).is_empty() && net.clients[other].closed, "nobody knows about the write");
    assert!(net.heard(client).is_empty() && !net.clients[client].closed);
    pass(&mut net, 200);
    assert_eq!(net.heard(client), ["1", "OK", "nil", "OK", "0"], "in their databases and their order");
    // What was answered is not asked again, and a node that stays away is given up.
    net.ask(client, "SELECT 0");
    net.stalled = vec![1];
    net.send(client, &format!("GET {far}"));
    net.run();
    net.cut(0, 1);
    net.stalled.clear();
    net.unreachable = vec![1];
    pass(&mut net, 4000);
    let heard = net.heard(client);
    assert!(heard.len() == 1 && heard[0].starts_with("-CLUSTERDOWN"), "{heard:?}");
}

#[test]
fn a_node_that_stays_away_is_given_up() {
    let (mut net, [client, other], [near, far]) = two(4);
    net.ask(client, &format!("SET {far} 1"));
    net.cut(0, 1);
    net.unreachable = vec![1];
    net.send(client, &format!("GET {far}"));
    pass(&mut net, 4000);
    let heard = net.heard(client);
    assert!(heard.len() == 1 && heard[0].starts_with("-CLUSTERDOWN"), "{heard:?}");
    assert!(net.say(other, &format!("GET {far}")).starts_with("-CLUSTERDOWN"), "at once, from now on");
    assert_eq!(net.say(other, &format!("SET {near} 1")), "OK");
    net.unreachable.clear();
    pass(&mut net, 1000);
    assert_eq!(net.say(client, &format!("GET {far}")), "1");
}

#[test]
fn commands_wait_for_a_lease_and_not_for_ever() {
    let (mut net, [client, other], [near, far]) = two(5);
    net.ask(client, &format!("SET {far} 1"));
    net.lease(0, 0);
    net.lease(1, 0);
    net.send(client, &format!("SET {near} 1"));
    net.send(other, "DBSIZE");
    pass(&mut net, 2000);
    assert!(net.heard(client).is_empty());
    net.lease(0, u64::MAX);
    pass(&mut net, 20);
    assert_eq!(net.heard(client), ["OK"]);
    net.send(client, &format!("GET {far}"));
    pass(&mut net, 200);
    assert!(net.heard(client).is_empty(), "its owner has no lease");
    net.lease(1, u64::MAX);
    pass(&mut net, 20);
    assert_eq!(net.heard(client), ["1"]);
    net.heard(other);
    // Transactions over both nodes, whichever of them has no lease.
    let block = |net: &mut Net| {
        let [far, near] = [1, 0].map(|node| key_of(node, 2, "t"));
        ["MULTI", &format!("INCR {far}"), &format!("INCR {near}"), "EXEC"]
            .iter()
            .for_each(|words| net.send(other, words));
    };
    for (node, count) in [(0, "[1 1]"), (1, "[2 2]")] {
        net.lease(node, 0);
        block(&mut net);
        pass(&mut net, 2000);
        assert!(!net.heard(other).iter().any(|reply| !["OK", "QUEUED"].contains(&&**reply)));
        net.lease(node, u64::MAX);
        pass(&mut net, 100);
        assert_eq!(net.heard(other), [count]);
    }
    net.lease(0, 0);
    block(&mut net);
    pass(&mut net, 4000);
    assert!(net.heard(other).last().is_some_and(|reply| reply.starts_with("-CLUSTERDOWN this node has no lease")));
    net.lease(0, u64::MAX);
    pass(&mut net, 20);
    net.lease(1, 0);
    pass(&mut net, 4000);
    assert!(net.say(client, &format!("GET {far}")).starts_with("-CLUSTERDOWN"), "it has had none for long");
    let flushed = {
        net.send(client, "FLUSHALL");
        pass(&mut net, 4000);
        net.heard(client).join(",")
    };
    assert!(flushed.starts_with("-CLUSTERDOWN") || flushed.starts_with("-ERR 1 of 2"), "{flushed}");
}

/// As a stopped process, whose system still takes connections: no handshake ends, and nothing comes over links.
#[test]
fn a_node_that_takes_connections_and_says_nothing_is_given_up_in_time() {
    // The metadata's leader has said that the node holds no lease, or has not.
    for suspects in [&[1][..], &[]] {
        let (mut net, [client, other], [near, far]) = two(6);
        let owed = net.connect(0);
        let leader = net.hears_of_silent(0, &[]);
        net.ask(owed, &format!("SET {far} 1"));
        net.ask(client, &format!("SET {near} 1"));
        (net.stalled, net.mute) = (vec![1], vec![1]);
        net.send(owed, &format!("INCR {far}"));
        leader.says(&[1]);
        pass(&mut net, 2000);
        assert!(net.clients[owed].closed && net.heard(owed).is_empty(), "it may have been executed");
        leader.says(suspects);
        pass(&mut net, 4000);
        let again = net.say(other, &format!("INCR {far}"));
        assert!(again.starts_with("-CLUSTERDOWN"), "it has been dialed for long: {again}");
        (net.stalled, net.mute) = (Vec::new(), Vec::new());
        pass(&mut net, 4000);
        let value = net.say(other, &format!("GET {far}"));
        assert!(["1", "2"].contains(&&*value), "none that was refused was executed: {value}");
        net.cut(0, 1);
        net.mute = vec![1];
        net.send(client, &format!("INCR {far}"));
        net.send(other, "FLUSHALL");
        pass(&mut net, 2400);
        assert!(net.heard(client).is_empty(), "it may be back soon");
        pass(&mut net, 600);
        let heard = net.heard(client);
        assert!(heard.len() == 1 && heard[0].starts_with("-CLUSTERDOWN"), "suspects {suspects:?}: {heard:?}");
        let heard = net.heard(other);
        assert!(heard.len() == 1 && heard[0].starts_with("-CLUSTERDOWN"), "suspects {suspects:?}: {heard:?}");
        for command in [format!("GET {far}"), format!("MSET {near} 2 {far} 2"), "FLUSHALL".into()] {
            let heard = net.say(client, &command);
            assert!(heard.starts_with("-CLUSTERDOWN"), "at once, from now on: {command}: {heard}");
        }
        net.mute.clear();
        leader.says(&[]);
        pass(&mut net, 4000);
        assert_eq!(net.say(client, &format!("MGET {near} {far}")), format!("[1 {value}]"));
        assert!(net.is_quiet());
    }
}
