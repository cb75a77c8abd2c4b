//! Libraries of functions of a cluster of real servers: every serving node has a library that was loaded at one node.

use crate::support::{Nodes, Scratch, Server};

/// Waits for a node's reply. Before it serves, or while its lease is over, it may only say so.
fn answers(nodes: &Nodes, node: usize, command: &str, expected: &str) {
    nodes.until_or(node, command, |reply| reply.starts_with(expected), |reply| reply.starts_with("-CLUSTERDOWN"));
}

/// Changes libraries at a node, perhaps not at once if the machine is busy.
fn changes(nodes: &Nodes, node: usize, command: &str, expected: &str) {
    let is_unknown = |reply: &str| reply.starts_with("-CLUSTERDOWN") || reply.contains("nobody knows");
    nodes.until_or(node, command, |reply| reply == expected, is_unknown);
}

fn load(name: &str, value: u32) -> String {
    let code = format!("#!lua name={name}\\nredis.register_function('{name}', function() return {value} end)");
    format!("function load replace \"{code}\"")
}

#[test]
fn who_comes_has_the_libraries_before_it_serves() {
    let mut nodes = Nodes::new(4, 3);
    changes(&nodes, 0, &load("a", 1), "$1 a");
    for node in 0..3 {
        answers(&nodes, node, "fcall a 0", ":1");
    }
    // A new node, one that starts again, and one that has lost its data.
    nodes.start(3);
    answers(&nodes, 3, "fcall a 0", ":1");
    changes(&nodes, 3, &load("b", 2), "$1 b");
    nodes.kill(3);
    nodes.start(3);
    answers(&nodes, 3, "fcall b 0", ":2");
    nodes.kill(3);
    nodes.dirs[3] = Scratch::new();
    nodes.start(3);
    answers(&nodes, 3, "fcall b 0", ":2");
    answers(&nodes, 3, "fcall a 0", ":1");
    // All nodes start again.
    (0..4).for_each(|node| nodes.kill(node));
    (0..4).for_each(|node| nodes.start(node));
    for node in 0..4 {
        answers(&nodes, node, "fcall a 0", ":1");
        answers(&nodes, node, "fcall b 0", ":2");
    }
}

#[test]
fn who_was_away_has_what_was_changed_meanwhile() {
    let mut nodes = Nodes::new(3, 3);
    for (name, value) in [("a", 1), ("b", 2), ("c", 3)] {
        changes(&nodes, value as usize - 1, &load(name, value), &format!("$1 {name}"));
    }
    answers(&nodes, 2, "fcall c 0", ":3");
    nodes.kill(2);
    changes(&nodes, 0, &load("a", 10), "$1 a");
    changes(&nodes, 1, &load("d", 4), "$1 d");
    changes(&nodes, 0, "function restore \"\" flush", "-ERR DUMP payload version or checksum are wrong");
    changes(&nodes, 1, &load("e", 5), "$1 e");
    nodes.until_or(
        0,
        "function delete c",
        |reply| reply == "+OK" || reply == "-ERR Library not found",
        |reply| reply.starts_with("-CLUSTERDOWN") || reply.contains("nobody knows"),
    );
    nodes.start(2);
    // Never the libraries that it had.
    answers(&nodes, 2, "fcall c 0", "-ERR Function not found");
    for (name, value) in [("a", 10), ("b", 2), ("d", 4), ("e", 5)] {
        answers(&nodes, 2, &format!("fcall {name} 0"), &format!(":{value}"));
    }
    changes(&nodes, 2, "function flush", "+OK");
    for node in 0..3 {
        answers(&nodes, node, "fcall a 0", "-ERR Function not found");
    }
}

#[test]
fn changes_at_once_through_several_nodes_are_all_made() {
    let nodes = Nodes::new(3, 3);
    let names = |node: usize| (0..8).map(move |i| format!("f{node}x{i}"));
    std::thread::scope(|scope| {
        for node in 0..3 {
            let nodes = &nodes;
            scope.spawn(move || {
                names(node).for_each(|name| changes(nodes, node, &load(&name, 7), &format!("${} {name}", name.len())));
            });
        }
    });
    for name in (0..3).flat_map(names) {
        (0..3).for_each(|node| answers(&nodes, node, &format!("fcall {name} 0"), ":7"));
    }
}

#[test]
fn without_a_majority_nobody_is_told_that_a_library_is_loaded() {
    let mut nodes = Nodes::new(3, 3);
    changes(&nodes, 0, &load("a", 1), "$1 a");
    nodes.kill(1);
    nodes.kill(2);
    let load = load("b", 2);
    // At first the reply may be that the outcome is unknown; in the end, that nothing was done.
    let is_open = |reply: &str| reply.contains("nobody knows whether the libraries are changed");
    nodes.until_or(0, &load, |reply| reply.starts_with("-CLUSTERDOWN"), is_open);
    nodes.start(1);
    nodes.start(2);
    changes(&nodes, 0, &load, "$1 b");
    (0..3).for_each(|node| answers(&nodes, node, "fcall b 0", ":2"));
}

#[test]
fn libraries_of_a_server_are_those_of_the_cluster_that_it_forms() {
    let mut nodes = Nodes::new(2, 0);
    let dir = nodes.dirs[0].path().display().to_string();
    let alone = ["--bind", "127.0.0.1", "--dir", &dir, "--appendonly", "yes", "--log-segment-size", "1mb"];
    assert_eq!(Server::start(&alone).client().call(&load("a", 1)), "$1 a");
    // It cannot join another cluster as a new node.
    let why = Server::refused(&[&alone[..], &["--cluster-seeds", "127.0.0.1:1"]].concat());
    assert!(why.contains("this server has 0 keys and 1 libraries of functions"), "{why}");
    let first = [&alone[..], &["--cluster-enabled", "yes"]].concat();
    nodes.servers[0] = Some(Server::on_port(nodes.ports[0], &first));
    answers(&nodes, 0, "fcall a 0", ":1");
    nodes.seeds = format!("127.0.0.1:{}", nodes.ports[0]);
    nodes.start(1);
    answers(&nodes, 1, "fcall a 0", ":1");
}

#[test]
fn libraries_that_are_too_large_for_a_cluster_stay_with_their_server() {
    let dir = Scratch::new();
    let dir = dir.path().display().to_string();
    let alone = ["--dir", &dir, "--appendonly", "yes", "--log-segment-size", "4mb"];
    let code =
        format!("#!lua name=a\\n--{}\\nredis.register_function('a', function() return 1 end)", "x".repeat(1 << 20));
    assert_eq!(Server::start(&alone).client().call(&format!("function load \"{code}\"")), "$1 a");
    let why = Server::refused(&[&alone[..], &["--cluster-enabled", "yes"]].concat());
    assert!(why.contains("bytes of libraries of functions and users, and a cluster may have 1048576"), "{why}");
    assert_eq!(Server::start(&alone).client().call("fcall a 0"), ":1", "it is a server by itself still");
}
