//! Transactions over nodes that are under way when an owner is lost for good, and another node has its log: they are
//! committed everywhere or nowhere, and nothing stays locked (rule T5).

use crate::net::{Net, key_of, recovered_map, without};

/// The nodes with slots; the others have none.
const OWNERS: usize = 3;
/// All nodes.
const NODES: usize = 6;

fn map(version: u64, recoveries: &[(usize, usize)]) -> membership::Map {
    recovered_map(OWNERS, NODES, version, recoveries, false)
}

fn cluster(workers: usize, seed: u64) -> (Net, [String; OWNERS]) {
    let mut net = Net::logged(NODES, workers, seed, "always");
    net.hear(map(2, &[]), &[]);
    net.sleep(300);
    (net, [0, 1, 2].map(|node| key_of(node, OWNERS, "k")))
}

fn a_while(net: &mut Net) {
    (0..20).for_each(|_| net.sleep(300));
}

fn has_locks(net: &Net, node: usize) -> bool {
    net.node(node).engine.transactions.any()
}

/// Nothing is locked at the nodes that are left, and all keys are there, or none.
fn is_settled(net: &mut Net, keys: &[String; OWNERS], lost: &[usize], value: &str) {
    for node in (0..NODES).filter(|node| !lost.contains(node)) {
        assert!(!has_locks(net, node), "node {node} has locks");
    }
    let client = net.connect(0);
    let [a, x, z] = keys;
    assert_eq!(net.say(client, &format!("MGET {a} {x} {z}")), format!("[{value} {value} {value}]"));
    assert_eq!(net.say(client, &format!("MSET {a} 9 {x} 9 {z} 9")), "OK");
    a_while(net);
    assert_eq!(net.say(client, &format!("MGET {a} {x} {z}")), "[9 9 9]");
    for node in (0..NODES).filter(|node| !lost.contains(node)) {
        assert!(!has_locks(net, node), "node {node} has locks");
    }
}

/// A client of node `at` sets all keys, and has its reply; no node has heard of the Commit yet.
fn answered(net: &mut Net, at: usize, [a, x, z]: &[String; OWNERS]) {
    let client = net.connect(at);
    net.send(client, &format!("MSET {a} 1 {x} 1 {z} 1"));
    while net.replies(client).is_empty() {
        net.turns(1);
    }
}

/// A client of node `at` sets all keys. Nodes 0 and 2 are prepared, and node 1 is not: its disk hangs. Returns the client.
fn waiting(net: &mut Net, at: usize, [a, x, z]: &[String; OWNERS]) -> usize {
    net.hang_log(1, true);
    let client = net.connect(at);
    net.send(client, &format!("MSET {a} 1 {x} 1 {z} 1"));
    (0..20).for_each(|_| net.sleep(1));
    assert!(has_locks(net, 0) && has_locks(net, 2) && net.replies(client).is_empty());
    client
}

#[test]
fn a_participant_is_lost_before_it_hears_of_the_commit() {
    for (workers, seed) in [(1, 2), (2, 3)] {
        let (mut net, keys) = cluster(workers, seed);
        answered(&mut net, 0, &keys);
        assert!(has_locks(&net, 1), "it has not heard of the Commit");
        let disks = net.loses(1);
        a_while(&mut net);
        net.recovers(disks, 3, map(3, &[(1, 3)]));
        a_while(&mut net);
        is_settled(&mut net, &keys, &[1], "1");
    }
}

#[test]
fn a_coordinator_is_lost_when_it_has_answered() {
    for (workers, seed) in [(1, 2), (2, 3)] {
        let (mut net, keys) = cluster(workers, seed);
        answered(&mut net, 1, &keys);
        let disks = net.loses(1);
        a_while(&mut net);
        assert!(has_locks(&net, 0) && has_locks(&net, 2), "they are prepared, and one does not answer");
        // The node that is to have the log still lives the life before.
        net.hear(recovered_map(OWNERS, NODES, 3, &[(1, 3)], true), &[1]);
        a_while(&mut net);
        assert!(has_locks(&net, 0) && has_locks(&net, 2), "it must not answer without the log");
        net.recovers(disks, 3, map(4, &[(1, 3)]));
        a_while(&mut net);
        is_settled(&mut net, &keys, &[1], "1");
    }
}

/// Nothing says that the lost node was prepared.
#[test]
fn a_coordinator_is_lost_before_it_is_prepared_itself() {
    for (workers, seed) in [(1, 2), (2, 3)] {
        let (mut net, keys) = cluster(workers, seed);
        waiting(&mut net, 1, &keys);
        let disks = net.loses(1);
        a_while(&mut net);
        assert!(has_locks(&net, 0) && has_locks(&net, 2), "the lost node may have been prepared");
        net.recovers(disks, 3, map(3, &[(1, 3)]));
        a_while(&mut net);
        is_settled(&mut net, &keys, &[1], "nil");
    }
}

/// The coordinator lives, and its block goes to the node that has the keys now.
#[test]
fn a_participant_is_lost_before_it_is_prepared() {
    for (workers, seed) in [(1, 2), (2, 3)] {
        let (mut net, keys) = cluster(workers, seed);
        let client = waiting(&mut net, 0, &keys);
        let disks = net.loses(1);
        net.recovers(disks, 3, map(3, &[(1, 3)]));
        a_while(&mut net);
        assert_eq!(net.heard(client), ["OK"]);
        is_settled(&mut net, &keys, &[1], "1");
    }
}

/// Two owners are lost, and the coordinator, which has no keys. One owner is left.
#[test]
fn coordinator_and_participants_are_lost_one_after_the_other() {
    for (workers, seed) in [(1, 2), (2, 3)] {
        let (mut net, keys) = cluster(workers, seed);
        answered(&mut net, 5, &keys);
        net.loses(5);
        let (first, second) = (net.loses(1), net.loses(2));
        a_while(&mut net);
        net.recovers(first, 3, map(3, &[(1, 3)]));
        a_while(&mut net);
        assert!(has_locks(&net, 0) && has_locks(&net, 3), "one more does not answer");
        net.recovers(second, 4, map(4, &[(1, 3), (2, 4)]));
        a_while(&mut net);
        is_settled(&mut net, &keys, &[1, 2, 5], "1");
    }
}

/// The heir is lost as well, and a third node has the log.
#[test]
fn an_heir_is_lost_too() {
    for (workers, seed) in [(1, 2), (2, 3)] {
        let (mut net, keys) = cluster(workers, seed);
        answered(&mut net, 5, &keys);
        net.loses(5);
        let disks = net.loses(1);
        net.cut(2, 0);
        (net.stalled, net.unreachable) = (vec![1, 2, 5], vec![1, 2, 5]);
        net.recovers(disks, 3, map(3, &[(1, 3)]));
        a_while(&mut net);
        let disks = net.loses(3);
        a_while(&mut net);
        net.recovers(disks, 4, map(4, &[(1, 3), (3, 4)]));
        a_while(&mut net);
        assert!(has_locks(&net, 0) && has_locks(&net, 4), "the third does not answer");
        (net.unreachable, net.stalled) = (vec![1, 3, 5], vec![1, 3, 5]);
        net.hear(map(5, &[(1, 3), (3, 4)]), &[1, 3, 5]);
        a_while(&mut net);
        is_settled(&mut net, &keys, &[1, 3, 5], "1");
    }
}

/// The lost node is forgotten before the others have settled what it had a part in: it is not lost as a participant.
#[test]
fn a_lost_node_is_forgotten_while_its_heir_has_its_log() {
    for forgotten_first in [true, false] {
        let (mut net, keys) = cluster(1, 2);
        waiting(&mut net, 1, &keys);
        let disks = net.loses(1);
        a_while(&mut net);
        let now = map(3, &[(1, 3)]);
        if !forgotten_first {
            net.recovers(disks, 3, now.clone());
            a_while(&mut net);
        } else {
            // These do not hear of the recovery before.
            net.stalled = vec![0, 1, 2];
            net.recovers(disks, 3, now.clone());
            net.stalled = vec![1];
        }
        net.hear(without(&now, 4, &[1]), &[1]);
        a_while(&mut net);
        is_settled(&mut net, &keys, &[1], "nil");
    }
}
