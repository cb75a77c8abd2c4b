//! Every start of a node gets a term of its shard (rule G1).

use membership::{Map, NodeId};

use crate::harness::{Nodes, wait};

/// The nodes' terms, when the present process of each has one.
fn terms(nodes: &Nodes) -> Vec<u32> {
    let term = |map: &Map, id: NodeId| {
        let node = map.node(map.index_of(id)?);
        let shard = map.shards_of(id).next()?;
        assert!(shard.incarnation <= node.incarnation);
        (shard.incarnation == node.incarnation).then_some(shard.term.get())
    };
    wait("all processes have a term", || {
        let maps = nodes.nodes.iter().map(|node| node.map());
        let map = maps.max_by_key(|map| map.version())?;
        nodes.nodes.iter().map(|node| term(&map, node.id())).collect()
    })
}

#[test]
fn every_start_gets_a_term_above_its_log_g1() {
    let mut nodes = Nodes::prepared(36, 3);
    nodes.nodes[1].settings.log_term = 70;
    nodes.nodes.iter_mut().for_each(|node| node.start());
    nodes.serve();
    assert_eq!(terms(&nodes), [2, 71, 2]);
    nodes.nodes[1].stop();
    nodes.nodes[1].start();
    nodes.serve();
    assert_eq!(terms(&nodes), [2, 72, 2], "the others keep theirs");
    nodes.nodes.iter_mut().for_each(|node| node.stop());
    nodes.nodes.iter_mut().for_each(|node| node.start());
    nodes.serve();
    assert_eq!(terms(&nodes), [3, 73, 3]);
}
