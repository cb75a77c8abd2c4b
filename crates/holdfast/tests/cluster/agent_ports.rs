//! The ports that a machine has once: metrics and clients of Sentinel are answered while any of its nodes is gone.

use std::collections::BTreeSet;

use crate::agent::{Host, Hosts, signal, wait};
use crate::log_servers::holdfast;
use crate::metrics::get;
use crate::sentinel::Client;
use crate::support::{Client as Keys, Scratch, free_port, free_ports};

/// The value of a sample at a machine's port for metrics; `None`: there is no such sample.
fn sample(port: u16, name: &str) -> Option<String> {
    let text = get(port, "/metrics");
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned))
}

fn until(port: u16, name: &str, value: &str) {
    wait(name, || (sample(port, name).as_deref() == Some(value)).then_some(()));
}

/// A machine with two nodes, and its port for metrics.
fn two_nodes() -> (Host, u16) {
    let (first, metrics) = (free_ports(2), free_port());
    let (seed, port) = (format!("127.0.0.1:{first}"), metrics.to_string());
    let settings = ["--cluster-seeds", &seed, "--cluster-shards", "2", "--metrics-port", &port];
    let host = Host::start(first, Scratch::new(), &settings);
    host.says("All nodes of this machine accept connections");
    (host, metrics)
}

#[test]
fn one_port_has_the_metrics_of_all_nodes_and_outlives_each() {
    let (host, port) = two_nodes();
    for node in 1..=2 {
        until(port, &format!("holdfast_ready{{node=\"{node}\"}}"), "1");
        until(port, &format!("holdfast_node_up{{node=\"{node}\"}}"), "1");
        until(port, &format!("redis_up{{node=\"{node}\"}}"), "1");
    }
    let text = get(port, "/metrics");
    let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    assert_eq!(types.len(), types.iter().collect::<BTreeSet<_>>().len(), "a family is there twice");
    assert!(get(port, "/readyz").starts_with("HTTP/1.1 200"));

    // A node that does not answer hides no other one's metrics.
    let second = *host.nodes().iter().max().unwrap();
    signal("STOP", second);
    until(port, "holdfast_node_up{node=\"2\"}", "0");
    until(port, "holdfast_node_up{node=\"1\"}", "1");
    assert_eq!(sample(port, "redis_up{node=\"2\"}"), None);
    let ready = get(port, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("node 2: it does not answer"), "{ready}");
    signal("CONT", second);
    until(port, "holdfast_node_up{node=\"2\"}", "1");

    for node in host.nodes() {
        signal("KILL", node);
        assert!(get(port, "/healthz").starts_with("HTTP/1.1 200"));
        wait("it is ready again", || get(port, "/readyz").starts_with("HTTP/1.1 200").then_some(()));
    }
    for node in 1..=2 {
        until(port, &format!("holdfast_node_starts_total{{node=\"{node}\"}}"), "2");
        until(port, &format!("holdfast_ready{{node=\"{node}\"}}"), "1");
    }
}

/// Three machines with clients of Sentinel.
struct Watched {
    hosts: Hosts,
    ports: [u16; 3],
    /// Subscribers at each machine, which must not lose their connections.
    subscribers: Vec<Client>,
}

impl Watched {
    fn new() -> Self {
        let first = free_ports(3);
        let ports = [0, 1, 2].map(|host| first + host);
        let hosts = Hosts::with(1, ports.map(|port| vec!["--sentinel-port".to_owned(), port.to_string()]));
        let owner = hosts.hosts[hosts.owner(0)].port;
        let subscribers = ports.iter().map(|port| {
            let mut client = Client::new(*port);
            client.until_master("mymaster", owner);
            client.until_master("shard-1", owner);
            client.send("SUBSCRIBE +switch-master");
            assert_eq!(client.texts(), ["subscribe", "+switch-master", ":1"]);
            client
        });
        Self { subscribers: subscribers.collect(), hosts, ports }
    }

    /// All subscribers hear that both masters have gone from one port to another, and others are told so.
    fn hears(&mut self, from: u16, to: u16) {
        let expected = ["mymaster", "shard-1"].map(|name| format!("{name} 127.0.0.1 {from} 127.0.0.1 {to}"));
        for client in &mut self.subscribers {
            let mut heard = [client.texts(), client.texts()].map(|message| {
                assert_eq!(message[..2], ["message", "+switch-master"]);
                message[2].clone()
            });
            heard.sort();
            assert_eq!(heard, expected);
        }
        for port in self.ports {
            let mut client = Client::new(port);
            client.until_master("mymaster", to);
            client.until_master("shard-1", to);
            client.until_usable("mymaster", 3);
            // Its former owner is its standby.
            let replica = |client: &mut Client| {
                client.send("SENTINEL REPLICAS shard-1");
                client.records()
            };
            client.until(replica, |found| {
                found.iter().any(|record| record.windows(2).any(|pair| pair == ["port".to_owned(), from.to_string()]))
            });
            client.send("SENTINEL MASTERS");
            assert_eq!(client.records().len(), 2);
            client.send("SENTINEL MASTER mymaster");
            assert!(client.texts().contains(&to.to_string()));
            client.send("SENTINEL SENTINELS mymaster");
            assert!(client.records().is_empty(), "all machines have one address here");
        }
        wait("the role of the master", || Keys::at(to).try_call("role").filter(|role| role.contains("master")));
    }
}

#[test]
fn clients_of_sentinel_hear_of_a_takeover_and_of_a_switchover() {
    let mut watched = Watched::new();
    let owner = watched.hosts.owner(0);
    let from = watched.hosts.hosts[owner].port;
    // One port answers, whatever becomes of the machine's only node.
    signal("KILL", watched.hosts.hosts[owner].node());
    let asked = (owner + 1) % 3;
    wait("another machine owns the shard", || (watched.hosts.owner(asked) != owner).then_some(()));
    let to = watched.hosts.hosts[watched.hosts.owner(asked)].port;
    watched.hears(from, to);

    watched.hosts.has_standby(owner);
    wait("it changes hands", || {
        holdfast(&["cluster", "switchover", "1", "--to", &format!("127.0.0.1:{from}"), "-p", &to.to_string()]);
        (watched.hosts.owner(asked) == owner).then_some(())
    });
    watched.hears(to, from);

    let mut client = Client::new(watched.ports[0]);
    for refused in ["SET mymaster quorum 1", "MONITOR other 127.0.0.1 1 1"] {
        client.send(&format!("SENTINEL {refused}"));
        let reply = client.line();
        assert!(reply.starts_with("-ERR") && reply.contains("not supported"), "{reply}");
    }
}
