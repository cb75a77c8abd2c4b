//! The votes of machines are with their log-servers, whatever ends meanwhile.

use std::collections::BTreeSet;

use membership::NodeId;
use membership::meta::{Command, Kind};

use crate::harness::{Nodes, wait};

/// The machines: each has a node, and the log-server that is three places behind it.
const MACHINES: usize = 3;

fn started(test: u8) -> Nodes {
    let mut nodes = Nodes::prepared(test, MACHINES as u8);
    for (machine, node) in nodes.nodes.iter_mut().enumerate() {
        node.settings.machine = machine.to_string();
        node.start();
    }
    nodes.serve();
    nodes.vote(MACHINES);
    nodes
}

fn add_log_servers(nodes: &mut Nodes) {
    for machine in 0..MACHINES {
        let server = nodes.add();
        server.settings.machine = machine.to_string();
        server.settings.kind = Kind::Log;
        server.settings.agreed = Vec::new();
        server.start();
    }
}

/// True if the log-servers vote, and nobody else, and one of them leads, as a member says that runs.
fn has_settled(nodes: &Nodes) -> bool {
    let running = || nodes.nodes.iter().filter(|node| node.is_running());
    running().next().is_some_and(|asked| {
        let map = asked.map();
        let voters: BTreeSet<NodeId> = map.members().filter(|member| member.voter).map(|member| member.id).collect();
        let servers: BTreeSet<NodeId> = map.log_servers().iter().map(|server| server.id).collect();
        let status = asked.status();
        let is_led = status.leader.is_some_and(|leader| servers.contains(&leader));
        voters == servers && voters.len() == MACHINES && !status.changing && is_led
    })
}

fn decides(nodes: &Nodes, what: &str) {
    let running = nodes.nodes.iter().find(|node| node.is_running()).unwrap();
    running.done(&Command::Set { name: "last".to_owned(), value: what.to_owned() });
}

/// Whatever leads ends while the votes go over, again and again: the next leader goes on with what it finds.
#[test]
fn votes_go_to_log_servers_while_leaders_come_and_go() {
    let mut nodes = started(140);
    add_log_servers(&mut nodes);
    for round in 0..12 {
        if has_settled(&nodes) {
            break;
        }
        // A change of the voters is two entries, and three changes are needed. So leaders end at various points.
        let version = nodes.nodes[(nodes.leader() + 1) % MACHINES].map().version();
        let leader = nodes.leader();
        nodes.nodes[leader].stop();
        decides(&nodes, &format!("round {round}, after {version}"));
        nodes.nodes[leader].start();
    }
    wait("log-servers vote", || has_settled(&nodes).then_some(()));
}

/// Each process of a machine may end, alone or with any other one, and any machine: the metadata decide.
#[test]
fn two_machines_of_three_decide_whatever_of_the_third_ends() {
    let mut nodes = started(141);
    add_log_servers(&mut nodes);
    wait("log-servers vote", || has_settled(&nodes).then_some(()));
    let all = 2 * MACHINES;
    for first in 0..all {
        for second in first..all {
            // Two log-servers are the votes of two machines.
            if second != first && first >= MACHINES {
                continue;
            }
            nodes.nodes[first].stop();
            nodes.nodes[second].stop();
            decides(&nodes, &format!("without {first} and {second}"));
            for member in BTreeSet::from([first, second]) {
                nodes.nodes[member].start();
            }
        }
    }
    // All nodes at once.
    (0..MACHINES).for_each(|node| nodes.nodes[node].stop());
    decides(&nodes, "without nodes");
    wait("no vote has gone back", || has_settled(&nodes).then_some(()));
    (0..MACHINES).for_each(|node| nodes.nodes[node].start());
    nodes.nodes.iter().for_each(|node| wait("it has a lease", || node.has_lease().then_some(())));
}
