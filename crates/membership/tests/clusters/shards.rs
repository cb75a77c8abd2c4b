//! Every start of a node gets a term of its shard (rule G1), and runs by the settings that the shard has.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;

use membership::control::{ChangingShard, NotConfigured};
use membership::{Map, NodeId};

use crate::harness::{Node, Nodes, PATIENCE, wait};

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

fn settings(value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("appendfsync".to_owned(), value.to_owned())])
}

fn set(node: &Node, value: &str) -> Result<ChangingShard, NotConfigured> {
    let (tell, told) = channel();
    node.control().set_shard(settings(value), move |changed| drop(tell.send(changed)));
    told.recv_timeout(PATIENCE).unwrap()
}

/// Waits until `at` knows that the shard of `node` has this value.
fn until_known(at: &Node, node: &Node, value: &str) {
    let has = |map: &Map| map.shards_of(node.id()).next().is_some_and(|shard| shard.settings == settings(value));
    wait("the shard's settings are known", || has(&at.map()).then_some(()));
}

#[test]
fn a_shard_is_run_by_the_settings_that_its_last_owner_had_a13() {
    let mut nodes = Nodes::prepared(39, 3);
    nodes.nodes.iter().for_each(|node| *node.of_shard.lock().unwrap() = settings("always"));
    nodes.nodes.iter_mut().for_each(|node| node.start());
    nodes.serve();
    (0..3).for_each(|node| until_known(&nodes.nodes[0], &nodes.nodes[node], "always"));
    // As a start with another configuration file: what the metadata have holds.
    nodes.nodes[1].stop();
    *nodes.nodes[1].of_shard.lock().unwrap() = settings("everysec");
    nodes.nodes[1].start();
    nodes.serve();
    assert_eq!(*nodes.nodes[1].of_shard.lock().unwrap(), settings("always"), "since before it had a lease");
    // A change reaches the metadata first. While it is carried out nothing takes it back.
    let changing = wait("a change", || set(&nodes.nodes[1], "everysec").ok());
    until_known(&nodes.nodes[0], &nodes.nodes[1], "everysec");
    *nodes.nodes[1].of_shard.lock().unwrap() = settings("everysec");
    drop(changing);
    // One that is not carried out is taken back.
    drop(wait("a change", || set(&nodes.nodes[1], "no").ok()));
    until_known(&nodes.nodes[0], &nodes.nodes[1], "everysec");
    until_known(&nodes.nodes[0], &nodes.nodes[2], "always");
    // Nothing changes without a majority.
    nodes.nodes[0].stop();
    nodes.nodes[2].stop();
    assert!(matches!(set(&nodes.nodes[1], "no"), Err(NotConfigured::Unled(_))));
}

/// It runs until it starts again, and answers others: they take a process with a term for one that has the shard's log.
#[test]
fn a_process_that_has_another_log_takes_no_term_t5() {
    let mut nodes = Nodes::prepared(48, 3);
    nodes.nodes[1].leads_not.0.store(true, Relaxed);
    nodes.nodes.iter_mut().for_each(|node| node.start());
    nodes.serve();
    let asked = || nodes.nodes[1].leads_not.1.load(Relaxed);
    wait("it has been asked more than once", || (asked() > 2).then_some(()));
    let (map, me) = (nodes.nodes[0].map(), nodes.nodes[1].id());
    let given: Vec<u32> = map.shards_of(me).map(|shard| shard.term.get()).collect();
    assert_eq!(given, [0]);
    nodes.nodes[1].leads_not.0.store(false, Relaxed);
    assert_eq!(terms(&nodes), [2, 2, 2]);
}
