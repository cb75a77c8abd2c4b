//! Transactions over nodes that are out of reach, start again, or are taken out of the cluster (rule T5).

use std::sync::Arc;

use cluster::Map;

use crate::net::{Net, even_map, key_of};

fn everywhere(net: &mut Net, nodes: usize, map: Map) {
    let map = Arc::new(map);
    (0..nodes).for_each(|node| net.cluster(node).set_map(map.clone()));
}

/// The first node has prepared and answered MSET of a key of the second and one of the third, and the second has not heard of the Commit.
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

/// A node at whose address there is another is found again when it starts elsewhere: what it is owed is kept for it.
#[test]
fn a_node_that_cannot_be_found_for_a_while_is_not_lost() {
    let mut net = Net::new(3, 1, 2);
    let [x, z] = half_told(&mut net);
    for (version, lost) in [(2, true), (3, false)] {
        let even = even_map(3, version);
        let mut nodes = even.nodes().to_vec();
        nodes[1].lost = lost;
        everywhere(&mut net, 3, Map::new(even.cluster(), version, 1, nodes, even.ranges().to_vec()));
        for _ in 0..20 {
            net.sleep(300);
        }
        net.unreachable.clear();
    }
    for _ in 0..20 {
        net.sleep(300);
    }
    let other = net.connect(1);
    assert_eq!(net.say(other, &format!("MGET {x} {z}")), "[1 1]", "its own transactions are heard as well");
    assert!((0..3).all(|node| !net.node(node).engine.transactions.any()), "nothing is left");
}
