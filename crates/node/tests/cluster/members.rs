//! Transactions over nodes that are out of reach, start again, or are removed from the cluster (rule T5).

use std::sync::Arc;

use membership::Map;

use crate::net::{Net, even_map, key_of};

fn everywhere(net: &mut Net, nodes: usize, map: Map) {
    let map = Arc::new(map);
    (0..nodes).for_each(|node| net.cluster(node).set_map(map.clone()));
}

/// The first node has prepared and answered MSET of keys of the second and the third, and the second has not heard of
/// the Commit.
fn half_told(net: &mut Net) -> [String; 2] {
    let client = net.connect(0);
    let [x, z] = [1, 2].map(|i| key_of(i, 3, "k"));
    net.send(client, &format!("MSET {x} 1 {z} 1"));
    while net.replies(client).is_empty() {
        net.turns(1);
    }
    net.unreachable = vec![1];
    net.cut(0, 1);
    net.cut(2, 1);
    assert!(net.node(1).engine.transactions.any(), "it has not heard of the Commit");
    [x, z]
}

/// Time passes, longer than any retry takes.
fn a_while(net: &mut Net) {
    (0..20).for_each(|_| net.sleep(300));
}

/// The map after the second node of three has started again.
fn started_again(version: u64) -> Map {
    let even = even_map(3, version);
    let mut nodes = even.nodes().to_vec();
    nodes[1].incarnation += 1;
    Map::new(even.cluster(), version, 1, nodes, even.ranges().to_vec())
}

/// Rule T5: a node can lose an unsynced Commit or Abort with the power, whatever replies promise, and then asks the
/// others.
#[test]
fn an_outcome_is_remembered_until_everybody_has_it_on_the_disk() {
    for workers in [1, 2] {
        let mut net = Net::logged(3, workers, 2, "everysec");
        let [x, z] = half_told(&mut net);
        a_while(&mut net);
        net.hold_syncs(1, true);
        net.unreachable.clear();
        a_while(&mut net);
        assert!(net.is_quiet(), "it has heard of it by now");
        net.power_fails(1, started_again(2));
        a_while(&mut net);
        let other = net.connect(1);
        assert_eq!(net.say(other, &format!("MGET {x} {z}")), "[1 1]");
        a_while(&mut net);
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// Another node has its address. It is found again when it starts elsewhere, and what it is owed is kept for it.
#[test]
fn a_node_that_cannot_be_found_for_a_while_is_not_lost() {
    let mut net = Net::new(3, 1, 2);
    let [x, z] = half_told(&mut net);
    for (version, lost) in [(2, true), (3, false)] {
        let even = even_map(3, version);
        let mut nodes = even.nodes().to_vec();
        nodes[1].lost = lost;
        everywhere(&mut net, 3, Map::new(even.cluster(), version, 1, nodes, even.ranges().to_vec()));
        a_while(&mut net);
        net.unreachable.clear();
    }
    a_while(&mut net);
    let other = net.connect(1);
    assert_eq!(net.say(other, &format!("MGET {x} {z}")), "[1 1]", "its own transactions are heard as well");
    assert!(net.is_quiet(), "nothing is left");
}

/// A node that was never told of a block counts as one that has refused, even if the block's client has gone.
#[test]
fn a_block_whose_client_has_gone_does_not_wait_for_who_never_heard_of_it() {
    let (mut net, [client, _, other], [a, b, c]) = Net::three(1, 2);
    net.mute = vec![1];
    net.send(client, &format!("MSET {a} 1 {b} 1 {c} 1"));
    net.run();
    assert!(net.node(2).engine.transactions.any(), "the link may be opened yet");
    net.leave(client);
    net.run();
    assert!(net.node(2).engine.transactions.any());
    a_while(&mut net);
    assert!(net.is_quiet(), "nothing stays locked");
    assert_eq!(net.say(other, &format!("MGET {a} {c}")), "[nil nil]");
}

/// The same holds for an attempt that is not the first.
#[test]
fn a_later_attempt_does_not_wait_for_who_never_heard_of_it() {
    // It may have begun before the node was gone, if another transaction was in its way alone.
    for before in [false, true] {
        later_attempt(before);
    }
}

fn later_attempt(before: bool) {
    let mut net = Net::new(4, 1, 2);
    let (client, other) = (net.connect(0), net.connect(2));
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| key_of(i, 4, "k"));
    assert_eq!(net.say(client, &format!("MSET {a} 0 {b} 0 {c} 0 {d} 0")), "OK");
    a_while(&mut net);
    // An older transaction is in its way, and waits for a node that has stopped.
    net.stalled = vec![3];
    net.send(other, &format!("MSET {c} 2 {d} 2"));
    net.run();
    net.clock_only(5);
    net.send(client, &format!("MSET {a} 1 {b} 1 {c} 1"));
    net.run();
    if before {
        net.sleep(60);
    }
    net.unreachable = vec![1];
    net.cut(0, 1);
    net.sleep(60);
    net.sleep(60);
    net.stalled.clear();
    a_while(&mut net);
    assert_eq!(net.heard(other), ["OK"]);
    let heard = net.heard(client);
    assert!(heard.len() == 1 && heard[0].starts_with("-CLUSTERDOWN"), "{heard:?}");
    assert!([0, 2, 3].iter().all(|node| !net.node(*node).engine.transactions.any()), "nothing stays locked");
    assert_eq!(net.say(other, &format!("MGET {a} {c}")), "[0 2]");
}

/// The map after the second node of three was removed, and the third has its slots.
fn taken_out(version: u64, third_life: u64) -> Map {
    let even = even_map(3, version);
    let mut nodes = even.nodes().to_vec();
    nodes.remove(1);
    nodes[1].incarnation = third_life;
    let mut ranges = even.ranges().to_vec();
    ranges[1].node = 1;
    ranges[2].node = 1;
    Map::new(even.cluster(), version, 2, nodes, ranges).with_gone(vec![2], Vec::new())
}

fn has_locks(net: &Net, node: usize) -> bool {
    net.node(node).engine.transactions.any()
}

/// Rule T5: the nodes that are left settle what a removed node has not answered.
#[test]
fn a_node_that_is_taken_out_for_good_holds_nobody_up() {
    let (mut net, [client, _, other], [a, x, z]) = Net::three(1, 2);
    net.stalled = vec![1];
    net.send(client, &format!("MSET {a} 1 {x} 1 {z} 1"));
    net.run();
    assert!(has_locks(&net, 0) && has_locks(&net, 2), "they are prepared");
    let map = Arc::new(taken_out(2, 1));
    [0, 2].iter().for_each(|node| net.cluster(*node).set_map(map.clone()));
    a_while(&mut net);
    assert!(net.clients[client].closed, "nobody knows what the node has answered");
    assert!(!has_locks(&net, 0) && !has_locks(&net, 2));
    assert_eq!(net.say(other, &format!("MGET {a} {x} {z}")), "[1 nil 1]");
}

/// The same after a start of a node that had coordinated it as well: the map that the start finds does not name the
/// removed node any more.
#[test]
fn a_start_settles_what_a_node_had_a_part_in_that_was_taken_out_meanwhile() {
    let mut net = Net::logged(3, 1, 2, "always");
    let client = net.connect(1);
    let [a, x, z] = [0, 1, 2].map(|i| key_of(i, 3, "k"));
    net.send(client, &format!("MSET {a} 1 {x} 1 {z} 1"));
    while net.replies(client).is_empty() {
        net.turns(1);
    }
    net.stalled = vec![1];
    assert!(has_locks(&net, 0) && has_locks(&net, 2), "they are prepared, and the client was told");
    net.power_fails_at(2, 1, taken_out(2, 2));
    a_while(&mut net);
    assert!(!has_locks(&net, 0) && !has_locks(&net, 2));
    let other = net.connect(2);
    assert_eq!(net.say(other, &format!("MGET {a} {x} {z}")), "[1 nil 1]");
}

/// A removed node that still runs is not heard. Its own clients do not wait for outcomes that the others settle without
/// it.
#[test]
fn clients_of_a_node_that_is_taken_out_while_it_runs_hear_of_it() {
    for workers in [1, 2] {
        let (mut net, [other, client, _], [a, x, z]) = Net::three(workers, 2);
        let (waiter, interactive) = (net.connect(1), net.connect(1));
        assert_eq!(net.say(interactive, "BEGIN"), "OK");
        assert_eq!(net.say(interactive, &format!("SET {z} 2")), "OK");
        net.stalled = vec![1];
        net.send(client, &format!("MSET {a} 1 {x} 1 {z} 1"));
        net.run();
        net.send(waiter, &format!("GET {x}"));
        net.run();
        assert!(has_locks(&net, 1) && net.replies(waiter).is_empty(), "it waits for the lock");
        everywhere(&mut net, 3, taken_out(2, 1));
        net.stalled.clear();
        a_while(&mut net);
        assert!(net.clients[client].closed, "nobody can tell it what came of its block");
        let heard = net.heard(waiter);
        assert!(heard.len() == 1 && heard[0].starts_with("-CLUSTERDOWN"), "{heard:?}");
        for command in [format!("GET {z}"), format!("GET {x}"), "COMMIT".into()] {
            let reply = net.say(interactive, &command);
            assert!(reply.starts_with("-CLUSTERDOWN") || reply == "2", "{command}: {reply}");
        }
        assert!(!has_locks(&net, 0) && !has_locks(&net, 2), "those who are left have settled it");
        assert_eq!(net.say(other, &format!("MGET {a} {z}")), "[nil nil]");
    }
}

/// A node has prepared changes without an outcome, and its data are made those of a server. The changes are applied: a
/// client may have been told that they are, and no other node can decide.
#[test]
fn the_data_of_a_node_that_are_made_a_servers_are_not_in_doubt() {
    for (workers, of_a_cluster) in [(1, false), (2, false), (1, true), (2, true)] {
        let mut net = Net::logged(3, workers, 2, "always");
        let client = net.connect(0);
        let [x, y, z] = [("x", 1), ("y", 1), ("z", 2)].map(|(name, i)| key_of(i, 3, name));
        assert_eq!(net.say(client, &format!("MSET {x} 0 {z} 0")), "OK");
        a_while(&mut net);
        net.send(client, &format!("MSET {x} 1 {y} 1 {z} 1"));
        while net.replies(client).is_empty() {
            net.turns(1);
        }
        assert!(has_locks(&net, 1), "it has not heard of the Commit");
        net.stalled = vec![1];
        net.unreachable = vec![1];
        // The first server stops at once.
        for start in 0..3 {
            net.becomes_a_server(1, if of_a_cluster { start + 1 } else { 0 });
            if start == 0 {
                continue;
            }
            a_while(&mut net);
            assert!(!has_locks(&net, 1));
            let client = net.connect(1);
            assert_eq!(net.say(client, &format!("MGET {x} {y}")), "[1 1]", "start {start}");
            assert_eq!(net.say(client, "DBSIZE"), "2");
            assert_eq!(net.say(client, &format!("INCR {x}")), "2");
            assert_eq!(net.say(client, &format!("DECR {x}")), "1");
        }
        let client = net.connect(1);
        if of_a_cluster {
            assert_eq!(net.say(client, "BEGIN"), "OK");
            assert!(net.say(client, &format!("GET {x}")).starts_with("-CLUSTERDOWN"), "a crash would bring them back");
            assert_eq!(net.say(client, "ROLLBACK"), "OK");
            let checkpoints = net.node(1).checkpoints().unwrap();
            checkpoints.begun(node::UnixMs::ZERO);
            checkpoints.ended(Ok(engine::checkpoint::Figures::default()), 0, node::UnixMs::ZERO);
            a_while(&mut net);
            for (command, reply) in [("BEGIN", "OK"), (&*format!("GET {x}"), "1"), ("COMMIT", "OK")] {
                assert_eq!(net.say(client, command), reply, "it takes part");
            }
        }
        assert_eq!(net.say(client, "FLUSHALL"), "OK");
    }
}

/// A checkpoint covers what is on the disk when it begins. If it began too early, its start would settle another node's
/// transactions again.
#[test]
fn what_settles_anothers_transactions_is_on_the_disk_before_the_checkpoint_without_them() {
    let mut net = Net::logged(3, 1, 2, "everysec");
    let client = net.connect(0);
    let [x, y, z] = [("x", 1), ("y", 1), ("z", 2)].map(|(name, i)| key_of(i, 3, name));
    net.send(client, &format!("MSET {x} 1 {y} 1 {z} 1"));
    while net.replies(client).is_empty() {
        net.turns(1);
    }
    assert!(has_locks(&net, 1), "it has not heard of the Commit");
    net.stalled = vec![1];
    net.unreachable = vec![1];
    net.becomes_a_server(1, 1);
    net.hold_syncs(1, true);
    a_while(&mut net);
    let client = net.connect(1);
    assert_eq!(net.say(client, &format!("MGET {x} {y}")), "[1 1]", "it is settled");
    let is_asked = |net: &Net| net.node(1).checkpoints().unwrap().orders().0;
    assert!(!is_asked(&net));
    net.hold_syncs(1, false);
    a_while(&mut net);
    assert!(is_asked(&net));
}

/// A node with restored data that are not settled takes part in nothing. Commands that need it are refused, and do not
/// wait.
#[test]
fn a_node_that_has_not_settled_anothers_transactions_says_so() {
    for workers in [1, 2] {
        let mut net = Net::logged(3, workers, 2, "always");
        let client = net.connect(0);
        let [x, y, z] = [("x", 1), ("y", 1), ("z", 2)].map(|(name, i)| key_of(i, 3, name));
        net.send(client, &format!("MSET {x} 1 {y} 1 {z} 1"));
        while net.replies(client).is_empty() {
            net.turns(1);
        }
        assert!(has_locks(&net, 1), "it has not heard of the Commit");
        net.is_restored(1, started_again(2));
        a_while(&mut net);
        assert!(net.is_quiet());
        assert_eq!(net.say(client, &format!("GET {x}")), "1", "it serves");
        let not_yet = "-CLUSTERDOWN a node that owns some of the keys does not serve now";
        for command in [format!("MSET {x} 2 {z} 2"), format!("SINTER {x} {z}")] {
            assert_eq!(net.say(client, &command), not_yet);
        }
        assert_eq!(net.say(client, "BEGIN"), "OK");
        assert_eq!(net.say(client, &format!("GET {x}")), not_yet);
        assert_eq!(net.say(client, "ROLLBACK"), "OK");
        let checkpoints = net.node(1).checkpoints().unwrap();
        checkpoints.begun(node::UnixMs::ZERO);
        checkpoints.ended(Ok(engine::checkpoint::Figures::default()), 0, node::UnixMs::ZERO);
        a_while(&mut net);
        assert_eq!(net.say(client, &format!("MSET {x} 3 {z} 3")), "OK");
        assert_eq!(net.say(client, &format!("MGET {x} {y} {z}")), "[3 1 3]");
        a_while(&mut net);
        assert!(net.is_quiet());
    }
}
