//! Prometheus asks the endpoints of three nodes: leases, links, slots and transactions.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{Nodes, free_ports};

/// A scrape of the endpoint at this port.
pub fn scrape(port: u16) -> String {
    get(port, "/metrics")
}

/// The answer of the endpoint at this port, its head included.
pub fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// The value of a metric without labels.
fn value(port: u16, name: &str) -> f64 {
    let text = scrape(port);
    let sample = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    sample.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// Scrapes until the values of a metric, one of each node, are as they are to be. A worker counts some things a few times a
/// second only, and a busy machine delays leases.
fn until_values(ports: &[u16], name: &str, are_right: impl Fn(&[f64]) -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let values: Vec<f64> = ports.iter().map(|port| value(*port, name)).collect();
        if are_right(&values) {
            return;
        }
        assert!(Instant::now() < end, "{name}: {values:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Scrapes until a metric of each node has its value.
fn until(ports: &[u16], name: &str, expected: &[f64]) {
    until_values(ports, name, |values| values == expected);
}

#[test]
fn nodes_tell_of_leases_links_slots_and_transactions() {
    let first = free_ports(3);
    let ports = [first, first + 1, first + 2];
    let files = ports.map(|port| format!("metrics-port {port}\n"));
    let mut nodes = Nodes::with_files(3, 3, &files.each_ref().map(String::as_str));
    until(&ports, "holdfast_lease", &[1.0; 3]);
    until(&ports, "holdfast_ready", &[1.0; 3]);
    until(&ports, "redis_cluster_state", &[1.0; 3]);
    until_values(&ports, "holdfast_lease_seconds_left", |seconds| seconds.iter().any(|left| *left > 0.0));
    let slots: Vec<f64> = ports.iter().map(|port| value(*port, "holdfast_slots")).collect();
    assert!(slots.iter().sum::<f64>() == 16384.0 && slots.iter().all(|slots| *slots > 5000.0), "{slots:?}");

    // Each node forwards, so that it has links to both others. One of them begins transactions.
    for node in 0..3 {
        for i in 0..20 {
            nodes.until(node, &format!("set key:{i} 1"), |reply| reply == "+OK");
        }
    }
    for _ in 0..5 {
        nodes.until(1, "mset key:1 1 key:2 1 key:3 1 key:4 1 key:5 1 key:6 1", |reply| reply == "+OK");
    }
    until_values(&ports, "holdfast_links", |links| links.iter().all(|links| *links >= 2.0));
    let of_all = |name: &str| ports.map(|port| value(port, name));
    let (transactions, attempts) =
        (of_all("holdfast_transactions_over_nodes_total"), of_all("holdfast_transaction_attempts_total"));
    assert!(transactions[1] >= 5.0 && attempts[1] >= transactions[1], "{transactions:?}, {attempts:?}");
    assert_eq!((transactions[0], transactions[2]), (0.0, 0.0), "the node of their client counts them");
    until(&ports, "holdfast_claims_without_owner", &[0.0; 3]);

    nodes.kill(2);
    until(&ports[..2], "holdfast_cluster_failed_nodes", &[1.0; 2]);
    until(&ports[..2], "redis_cluster_state", &[0.0; 2]);
    until(&ports[..2], "redis_cluster_slots_fail", &[slots[2]; 2]);
}
