//! WAITAOF speaks for all nodes: writes may have gone to any of them.

use super::net::{Net, key_of};

/// A cluster that promises little, a client of its first node, and a key of each node.
fn cluster(nodes: usize) -> (Net, usize, Vec<String>) {
    let mut net = Net::logged(nodes, 2, 7, "everysec");
    let client = net.connect(0);
    let keys = (0..nodes).map(|node| key_of(node, nodes, "k")).collect();
    net.sleep(3000);
    (net, client, keys)
}

#[test]
fn it_says_yes_when_every_node_has_it_on_its_disk() {
    for nodes in [1, 2, 3] {
        let (mut net, client, keys) = cluster(nodes);
        for (owner, key) in keys.iter().enumerate() {
            net.hold_syncs(owner, true);
            assert_eq!(net.say(client, &format!("SET {key} 1")), "OK");
            net.send(client, "WAITAOF 1 0 200");
            assert!(net.heard(client).is_empty(), "{owner} of {nodes}");
            net.sleep(300);
            assert_eq!(net.heard(client), ["[0 0]"], "{owner} of {nodes}");
            // As much as is synced without waiting.
            assert_eq!(net.say(client, "WAITAOF 0 0 0"), "[0 0]", "{owner} of {nodes}");
            net.send(client, "WAITAOF 1 0 0");
            net.sleep(3000);
            assert!(net.heard(client).is_empty(), "{owner} of {nodes}");
            net.hold_syncs(owner, false);
            net.sleep(3000);
            assert_eq!(net.heard(client), ["[1 0]"], "{owner} of {nodes}");
        }
    }
}

/// Rule L9: no node will ever say if the record is on the disk.
#[test]
fn who_waits_for_a_log_that_fails_is_not_answered() {
    for nodes in [1, 2] {
        let (mut net, client, keys) = cluster(nodes);
        let owner = nodes - 1;
        net.hold_syncs(owner, true);
        assert_eq!(net.say(client, &format!("SET {} 1", keys[owner])), "OK");
        net.send(client, "WAITAOF 1 0 0");
        net.sleep(100);
        assert!(net.heard(client).is_empty() && !net.clients[client].closed);
        net.fail_sync(owner);
        net.hold_syncs(owner, false);
        net.sleep(3000);
        assert!(net.heard(client).is_empty() && net.clients[client].closed, "{nodes} nodes");
        let other = net.connect(owner);
        assert!(net.say(other, &format!("SET {} 2", keys[owner])).contains("MISCONF"));
    }
}

#[test]
fn it_says_nothing_for_a_node_that_is_not_reached() {
    let (mut net, client, keys) = cluster(2);
    let other = net.connect(0);
    assert_eq!(net.say(client, &format!("SET {} 1", keys[1])), "OK");
    assert_eq!(net.say(other, &format!("SET {} 1", keys[0])), "OK");
    assert_eq!(net.say(other, &format!("GET {}", keys[1])), "1");
    net.cut(0, 1);
    net.unreachable = vec![1];
    net.sleep(3000);
    net.send(client, "WAITAOF 1 0 0");
    net.send(other, "WAITAOF 1 0 0");
    net.sleep(3000);
    let heard = net.heard(client);
    assert!(heard.iter().all(|reply| reply.contains("CLUSTERDOWN")) && heard.len() == 1, "{heard:?}");
    assert_eq!(net.heard(other), ["[1 0]"], "it has changed nothing there");
}
