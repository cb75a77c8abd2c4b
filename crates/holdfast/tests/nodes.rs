//! A cluster of real servers.

#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

mod support;

use std::net::TcpListener;
use std::time::Duration;

use support::{Scratch, Server};

/// So many ports for which the ports for nodes are free, too.
fn ports(n: usize) -> Vec<u16> {
    let mut ports = Vec::new();
    let mut held = Vec::new();
    while ports.len() < n {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bus = port.checked_add(10_000).and_then(|bus| TcpListener::bind(("127.0.0.1", bus)).ok());
        if let Some(bus) = bus {
            ports.push(port);
            held.extend([listener, bus]);
        }
    }
    ports
}

fn start(port: u16, seeds: &str, dir: &Scratch, more: &[&str]) -> Server {
    let dir = dir.path().display().to_string();
    let settings = ["--bind", "127.0.0.1", "--dir", &dir, "--appendonly", "yes", "--cluster-seeds", seeds];
    Server::on_port(port, &[&settings[..], more].concat())
}

fn until_ok(server: &Server) {
    for _ in 0..1500 {
        if server.client().call("cluster info").contains("cluster_state:ok") {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("never: {}", server.client().call("cluster info"));
}

#[test]
fn three_servers_serve_every_key_and_remember_them() {
    let ports = ports(3);
    let seeds = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let dirs: Vec<Scratch> = (0..3).map(|_| Scratch::new()).collect();
    let servers: Vec<Server> =
        ports.iter().zip(&dirs).map(|(port, dir)| start(*port, &seeds, dir, &["--cluster-secret", "s"])).collect();
    servers.iter().for_each(until_ok);
    let mut clients: Vec<_> = servers.iter().map(Server::client).collect();
    for i in 0..60 {
        assert_eq!(clients[i % 3].call(&format!("set key:{i} {i}")), "+OK");
    }
    for i in 0..60 {
        let value = i.to_string();
        let expected = format!("${} {value}", value.len());
        assert_eq!(clients[(i + 1) % 3].call(&format!("get key:{i}")), expected);
    }
    assert_eq!(clients[0].call("dbsize"), ":60");
    drop(clients);
    // All of them are killed, and come back as the same nodes with what they had.
    drop(servers);
    let servers: Vec<Server> =
        ports.iter().zip(&dirs).map(|(port, dir)| start(*port, &seeds, dir, &["--cluster-secret", "s"])).collect();
    servers.iter().for_each(until_ok);
    let mut client = servers[1].client();
    assert_eq!(client.call("dbsize"), ":60");
    assert!(client.call("cluster info").contains("cluster_known_nodes:3"));
}

#[test]
fn a_server_that_is_no_node_says_so() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for command in ["cluster info", "cluster meet 1 2", "readonly", "asking"] {
        assert_eq!(client.call(command), "-ERR This instance has cluster support disabled", "{command}");
    }
    assert!(Server::refused(&["--cluster-seeds", "nowhere"]).contains("cluster-seeds"));
}
