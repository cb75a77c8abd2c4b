//! A machine's vote on the metadata is its log-server's: the end of a node takes neither a vote nor a leader.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::agent::{Host, Hosts, children_of, is_there, signal, wait};
use crate::log_servers::{LogServer, holdfast};
use crate::support::{Client, Scratch, free_port, free_ports};

/// The leader of the metadata, once a log-server of each machine votes, nobody else does, and all are up.
fn leader(hosts: &Hosts, asked: usize) -> String {
    let names = hosts.hosts.iter().map(|host| format!("host-{}", host.port)).collect();
    leader_of(hosts.hosts[asked].port, &names)
}

/// As [`leader`], of the machines with these names, as the status at a port says.
fn leader_of(port: u16, names: &BTreeSet<String>) -> String {
    wait("log-servers alone vote", || {
        let status = holdfast(&["cluster", "status", "-p", &port.to_string()]);
        let votes = |line: &&str| line.contains("  votes  ") || line.contains("  leads  ");
        let is_one = |line: &&str| line.contains("  log  ") && line.contains("  up  ");
        let voters: Vec<&str> = status.lines().filter(votes).collect();
        let of = |name: &String| voters.iter().filter(|line| line.contains(&format!("  {name}  "))).count();
        let all = voters.len() == names.len() && voters.iter().all(is_one) && names.iter().all(|name| of(name) == 1);
        let led = status.lines().find_map(|line| line.strip_prefix("metadata led by "))?.to_owned();
        (all && voters.iter().any(|line| line.contains("  leads  "))).then_some(led)
    })
}

/// A node changes the metadata.
fn decides(port: u16, count: usize) {
    wait("a setting of the cluster is changed", || {
        let reply = Client::at(port).try_call(&format!("config set timeout {}", 1_000 + count))?;
        (reply == "+OK").then_some(())
    });
}

#[test]
fn the_end_of_a_node_takes_neither_vote_nor_leader() {
    let mut hosts = Hosts::new(1);
    hosts.sets(0, 20);
    leader(&hosts, 0);
    let owner = hosts.owner(0);
    let (one, other) = ((owner + 1) % 3, (owner + 2) % 3);
    signal("KILL", hosts.hosts[owner].node());
    wait("another machine owns the shard", || (hosts.owner(one) != owner).then_some(()));
    hosts.sets(other, 20);
    hosts.has_standby(owner);
    let ended = |host: &Host| host.said().contains("its owner's process has ended");
    assert!(hosts.hosts.iter().any(ended), "no log-server has taken the word of an agent");
    leader(&hosts, one);
    // All votes are there although no node is.
    let former: Vec<u32> = hosts.hosts.iter().map(Host::node).collect();
    let log_servers: Vec<u32> = hosts.hosts.iter().filter_map(Host::log_server).collect();
    former.iter().for_each(|node| signal("KILL", *node));
    hosts.has_all(0);
    let led = leader(&hosts, 0);
    assert_eq!(hosts.hosts.iter().filter_map(Host::log_server).collect::<Vec<_>>(), log_servers);

    // A log-server that ends is started again, as the same member.
    let at = hosts.hosts.iter().position(|host| led.starts_with(&format!("127.0.0.1:{},", host.port + 2000)));
    let at = at.unwrap_or_else(|| panic!("{led} is no log-server of a machine"));
    let former = hosts.hosts[at].log_server().unwrap();
    signal("KILL", former);
    wait("it is started again", || hosts.hosts[at].log_server().filter(|pid| *pid != former && is_there(*pid)));
    hosts.sets(one, 20);
    leader(&hosts, other);
    hosts.has_all(at);
}

/// The votes go from the nodes to log-servers, survive a start of all machines, and stay when an operator takes
/// `cluster-copies` back.
#[test]
fn votes_of_nodes_go_to_the_log_servers_of_their_machines() {
    let plain = || vec!["--cluster-copies".to_owned(), "1".to_owned()];
    let mut hosts = Hosts::without_copies(1, [plain(), plain(), plain()]);
    wait("nodes vote", || (hosts.status(0).matches("  votes  ").count() == 2).then_some(()));
    hosts.sets(0, 20);
    for round in 0..3 {
        hosts.hosts.iter().for_each(|host| signal("TERM", host.process.id()));
        for at in 0..3 {
            hosts.hosts[at].ends();
            if round == 2 {
                assert_eq!(hosts.hosts[at].log_server().map(is_there), Some(false));
            }
            let settings = if round == 2 && at == 0 { plain() } else { Vec::new() };
            hosts.starts_again(at, settings);
        }
        leader(&hosts, round);
        hosts.has_all(round);
        hosts.sets(1, 20);
    }
    hosts.has_standby(1);
    let known = |at: usize| fs::metadata(hosts.hosts[at].dir().join("agent/log-server")).is_ok();
    assert!((0..3).all(known));
    let status = holdfast(&["cluster", "status", "-p", &(hosts.hosts[2].port + 2000).to_string()]);
    assert!(status.contains("  log  "), "{status}");
}

/// Any child of an agent, or any two, may end, and not be started again at once: the others' votes decide. So do they when
/// all processes of the machine are gone. Each comes back with its vote.
#[test]
fn two_machines_of_three_decide_whatever_of_the_third_ends() {
    let mut hosts = Hosts::new(3);
    leader(&hosts, 0);
    let (machine, asked) = (0, 1);
    let agent = hosts.hosts[machine].process.id();
    let mut count = 0;
    for (one, other) in [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)] {
        let host = &hosts.hosts[machine];
        let children = wait("all of them run", || {
            let children: Vec<u32> = host.nodes().into_iter().chain(host.log_server()).collect();
            (children.len() == 3 && children.iter().all(|child| is_there(*child))).then_some(children)
        });
        // It starts nothing now.
        signal("STOP", agent);
        BTreeSet::from([children[one], children[other]]).iter().for_each(|child| signal("KILL", *child));
        count += 1;
        decides(hosts.hosts[asked].port, count);
        signal("CONT", agent);
        leader(&hosts, asked);
        hosts.has_standby(asked);
    }
    let children = children_of(agent);
    signal("KILL", agent);
    for child in children.into_iter().filter(|child| is_there(*child)) {
        // It may have ended by itself meanwhile.
        let _ = Command::new("kill").args(["-s", "KILL", &child.to_string()]).status();
    }
    hosts.hosts[machine].ends();
    decides(hosts.hosts[asked].port, count + 1);
    hosts.again(machine);
    leader(&hosts, machine);
    hosts.has_standby(machine);
    decides(hosts.hosts[machine].port, count + 2);
}

/// Two machines with agents, and a third one with a log-server alone, which somebody starts by hand.
#[test]
fn two_machines_and_a_witness_decide_without_any_of_them() {
    let (first, port, scratch) = (free_ports(2), free_port(), Scratch::new());
    let ports = [first, first + 1];
    let seeds = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    let start = |port: u16, dir: Scratch| {
        let name = format!("host-{port}");
        Host::start(port, dir, &["--cluster-host", &name, "--cluster-seeds", &seeds, "--cluster-shards", "1"])
    };
    let mut hosts = ports.map(|port| start(port, Scratch::new()));
    let witness =
        || LogServer::start(port, &scratch, &["one"], &seeds, &["--cluster-host", "witness", "--cluster-copies", "2"]);
    let server = witness();
    let names: BTreeSet<String> =
        ports.iter().map(|port| format!("host-{port}")).chain(["witness".to_owned()]).collect();
    leader_of(ports[0], &names);
    drop(server);
    decides(ports[0], 1);
    let _server = witness();
    for (round, lost) in [0, 1].into_iter().enumerate() {
        leader_of(ports[1 - lost], &names);
        wait("a standby", || {
            let status = holdfast(&["cluster", "status", "-p", &ports[1 - lost].to_string()]);
            (status.contains(" electable ") && status.contains(" 3 of 3 ")).then_some(())
        });
        let agent = hosts[lost].process.id();
        let children = children_of(agent);
        signal("KILL", agent);
        for child in children.into_iter().filter(|child| is_there(*child)) {
            let _ = Command::new("kill").args(["-s", "KILL", &child.to_string()]).status();
        }
        hosts[lost].ends();
        decides(ports[1 - lost], 2 + round);
        hosts[lost].again(start);
        leader_of(ports[lost], &names);
    }
}
