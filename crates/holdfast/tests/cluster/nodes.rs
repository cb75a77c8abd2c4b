//! A cluster of real servers.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::support::{Client, Scratch, Server, free_ports};

/// So many ports whose ports for nodes are free, too.
pub(crate) fn ports(n: u16) -> Vec<u16> {
    let first = free_ports(n);
    (first..first + n).collect()
}

pub(crate) fn start(port: u16, seeds: &str, dir: &Scratch, more: &[&str]) -> Server {
    let dir = dir.path().display().to_string();
    let settings = ["--bind", "127.0.0.1", "--dir", &dir, "--appendonly", "yes", "--cluster-seeds", seeds];
    // A start reads the newest segments whole. Without optimization that takes seconds if they have the usual size.
    Server::on_port(port, &[&settings[..], &["--log-segment-size", "1mb"], more].concat())
}

/// Asks until the reply is the expected one.
fn until(server: &Server, command: &str, is_it: impl Fn(&str) -> bool) -> String {
    let mut last = String::new();
    let end = Instant::now() + Duration::from_secs(120);
    while Instant::now() < end {
        last = server.client().call(command);
        if is_it(&last) {
            return last;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut client = server.client();
    panic!("never: {last}\n{}\n{}", client.call("cluster info"), client.call("cluster status"));
}

/// Asks again while a node's lease has run out, as the node may not get the processor for a while.
fn comes(client: &mut Client, command: &str, expected: &str) {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let reply = client.call(command);
        if reply == expected {
            return;
        }
        assert!(reply.contains("CLUSTERDOWN") && Instant::now() < end, "{command}: {reply}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn until_ok(server: &Server) {
    until(server, "cluster info", |info| info.contains("cluster_state:ok"));
}

/// The line of a reply about this node.
fn line_of<'a>(reply: &'a str, id: &str) -> &'a str {
    reply.split('\n').find(|line| line.contains(id)).unwrap_or_else(|| panic!("{id}: {reply}"))
}

fn id_of(server: &Server) -> String {
    server.client().call("cluster myid").split(' ').next_back().unwrap().to_owned()
}

/// Runs `holdfast cluster ...` for the server. Returns true if it succeeded, and its output.
fn cluster_tool(server: &Server, words: &[&str]) -> (bool, String) {
    let tool = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    let port = server.port().to_string();
    let output = { tool }.arg("cluster").args(words).args(["--port", &port]).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), said)
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
        comes(&mut clients[i % 3], &format!("set key:{i} {i}"), "+OK");
    }
    for i in 0..60 {
        let value = i.to_string();
        let expected = format!("${} {value}", value.len());
        comes(&mut clients[(i + 1) % 3], &format!("get key:{i}"), &expected);
    }
    comes(&mut clients[0], "dbsize", ":60");
    drop(clients);
    // All nodes are killed, and come back as the same nodes with their data.
    drop(servers);
    let servers: Vec<Server> =
        ports.iter().zip(&dirs).map(|(port, dir)| start(*port, &seeds, dir, &["--cluster-secret", "s"])).collect();
    servers.iter().for_each(until_ok);
    let mut client = servers[1].client();
    comes(&mut client, "dbsize", ":60");
    assert!(client.call("cluster info").contains("cluster_known_nodes:3"));
}

#[test]
fn nodes_are_taken_out_of_a_cluster() {
    let mut ports = ports(4);
    // In the order of their slots.
    ports[..3].sort();
    let seeds = ports[..3].iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let dirs: Vec<Scratch> = (0..4).map(|_| Scratch::new()).collect();
    let mut servers: Vec<Server> =
        ports.iter().zip(&dirs).take(3).map(|(port, dir)| start(*port, &seeds, dir, &[])).collect();
    servers.iter().for_each(until_ok);
    servers.push(start(ports[3], &seeds, &dirs[3], &[]));
    servers.iter().for_each(until_ok);
    let ids: Vec<String> = servers.iter().map(id_of).collect();
    for i in 0..60 {
        until(&servers[i % 4], &format!("set key:{i} {i}"), |reply| reply == "+OK");
    }
    until(&servers[0], "cluster status", |status| status.contains("health: ok"));
    let (is_well, status) = cluster_tool(&servers[3], &["status"]);
    assert!(is_well && ids.iter().all(|id| status.contains(id.as_str())), "{status}");
    assert!(
        line_of(&status, &ids[0]).contains("  5462   0-5461") && line_of(&status, &ids[3]).ends_with(" 0      -"),
        "{status}"
    );

    // An owner of slots stays, and no node is forgotten by mistake.
    let owns = "owns 5462 slots, and no other node has what is stored there";
    assert!(servers[1].client().call(&format!("cluster forget {}", ids[0])).contains(owns));
    assert!(servers[0].client().call("cluster leave").contains(owns));
    assert!(servers[0].client().call(&format!("cluster forget {}", ids[0])).contains("can't forget myself"));
    assert!(servers[0].client().call("cluster forget nobody").contains("-ERR Unknown node nobody"));
    let none = "0".repeat(40);
    assert!(servers[0].client().call(&format!("cluster forget {none}")).contains("-ERR Unknown node"));
    until(&servers[1], &format!("cluster forget {} lose-data", ids[0]), |reply| reply.contains("may be alive"));

    // A node leaves by itself. It and the others know.
    let (has_left, said) = cluster_tool(&servers[3], &["leave"]);
    assert!(has_left && said.contains("has left"), "{said}");
    until(&servers[0], "cluster nodes", |nodes| !nodes.contains(&ids[3]));
    until(&servers[3], "set key 1", |reply| reply.starts_with("-CLUSTERDOWN"));
    servers.pop();

    // A node dies. All are told, no node serves its slots, and a majority may give them away.
    servers.remove(0);
    for server in &servers {
        until(server, "cluster nodes", |nodes| line_of(nodes, &ids[0]).contains("master,fail - 0 0 1 disconnected"));
        assert!(server.client().call("cluster info").contains("cluster_slots_fail:5462"));
        assert!(server.client().call("cluster shards").contains("$4 fail"));
    }
    let status = until(&servers[0], "cluster status", |status| status.contains("is down"));
    assert!(
        status.contains("nobody serves its 5462 slots") && status.contains("2 of 3 voting nodes are up"),
        "{status}"
    );
    let (forgotten, said) = cluster_tool(&servers[0], &["forget", &ids[0]]);
    assert!(!forgotten && said.contains("owns 5462 slots") && said.contains("--lose-data"), "{said}");
    let (forgotten, said) = cluster_tool(&servers[0], &["forget", &ids[0], "--lose-data"]);
    assert!(forgotten, "{said}");
    for server in &servers {
        until(server, "cluster status", |status| status.contains("health: ok") && !status.contains(&ids[0]));
        until(server, "set key:0 there", |reply| reply == "+OK");
    }
    let left: usize = until(&servers[0], "dbsize", |reply| reply.starts_with(':'))[1..].parse().unwrap();
    assert!((20..60).contains(&left), "{left}");

    // The forgotten node comes back and is not let in, and nothing of it is served.
    let back = start(ports[0], &seeds, &dirs[0], &[]);
    until(&back, "get key:0", |reply| reply.contains("-CLUSTERDOWN") && reply.contains("forgotten"));
}

#[test]
fn the_folder_of_a_node_is_served_by_a_node_only() {
    let port = ports(1)[0];
    let dir = Scratch::new();
    let seeds = format!("127.0.0.1:{port}");
    let node = start(port, &seeds, &dir, &[]);
    until_ok(&node);
    comes(&mut node.client(), "set key value", "+OK");
    drop(node);
    let path = dir.path().display().to_string();
    let alone = ["--bind", "127.0.0.1", "--dir", &path, "--appendonly", "yes", "--log-segment-size", "1mb"];
    let why = Server::refused(&alone);
    assert!(why.contains("a node of a cluster") && why.contains("cluster-seeds"), "{why}");
    let node = start(port, &seeds, &dir, &[]);
    until_ok(&node);
    comes(&mut node.client(), "get key", "$5 value");
    drop(node);
    // An operator who means it says so.
    std::fs::remove_dir_all(dir.path().join("cluster")).unwrap();
    assert_eq!(Server::start(&alone).client().call("get key"), "$5 value");
    // A server with keys cannot join as a new node, but may be the first node of a cluster.
    let why = Server::refused(&[&alone[..], &["--cluster-seeds", &seeds]].concat());
    assert!(why.contains("has 1 keys") && why.contains("cluster-enabled yes"), "{why}");
    let first = Server::start(
        &[&alone[..], &["--cluster-enabled", "yes", "--cluster-port", &(port + 10_000).to_string()]].concat(),
    );
    until_ok(&first);
    comes(&mut first.client(), "get key", "$5 value");
}

/// A node with its name and without its data would answer for its slots as if they had always been empty, and for
/// transactions as if it had promised nothing.
#[test]
fn a_node_does_not_start_without_the_data_that_it_had() {
    without_its_data("yes");
}

#[test]
fn nor_without_those_that_it_has_had_since_appendonly_was_switched_on() {
    without_its_data("no");
}

fn without_its_data(appendonly: &str) {
    let port = ports(1)[0];
    let dir = Scratch::new();
    let seeds = format!("127.0.0.1:{port}");
    let node = start(port, &seeds, &dir, &["--appendonly", appendonly]);
    until_ok(&node);
    comes(&mut node.client(), "config set appendonly yes", "+OK");
    comes(&mut node.client(), "set key value", "+OK");
    drop(node);
    let (data, aside) = (dir.path().join("holdfast"), dir.path().join("aside"));
    std::fs::rename(&data, &aside).unwrap();
    let path = dir.path().display().to_string();
    let settings = ["--bind", "127.0.0.1", "--dir", &path, "--appendonly", "yes", "--cluster-seeds", &seeds];
    let refused = || {
        let why = Server::refused(&[&settings[..], &["--log-segment-size", "1mb"]].concat());
        assert!(why.contains("the data that this node of a cluster had is gone"), "{why}");
    };
    // Nothing is made in place of the data: once moved back, they are used.
    refused();
    assert!(!data.exists());
    // Empty directories, such as those of a disk that is not mounted, stay empty.
    for folder in ["log", "store"] {
        std::fs::create_dir_all(data.join(folder)).unwrap();
    }
    refused();
    for folder in ["log", "store"] {
        std::fs::remove_dir(data.join(folder)).unwrap();
    }
    std::fs::remove_dir(&data).unwrap();
    // Nor does it start with the data of another node.
    let other = Scratch::new();
    let theirs = other.path().display().to_string();
    drop(Server::start(&["--dir", &theirs, "--appendonly", "yes", "--log-segment-size", "1mb"]));
    std::fs::rename(other.path().join("holdfast"), &data).unwrap();
    refused();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&aside, &data).unwrap();
    let node = start(port, &seeds, &dir, &[]);
    until_ok(&node);
    comes(&mut node.client(), "get key", "$5 value");
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

/// Commands of one node's clients for another node that shuts down: each is executed and answered, or refused and not
/// executed.
#[test]
fn a_node_that_shuts_down_answers_what_it_has_executed() {
    let ports = ports(3);
    let seeds = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let dirs: Vec<Scratch> = (0..3).map(|_| Scratch::new()).collect();
    let begin = |i: usize| start(ports[i], &seeds, &dirs[i], &["--workers", "2"]);
    let mut servers: Vec<Server> = (0..3).map(begin).collect();
    servers.iter().for_each(until_ok);
    let key = &lists_of(&ports, &servers[0])[2];
    let (answered, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let ask = |mut client: Client| {
        // A refused client asks again at once: the last commands arrive while the node ends.
        let mut left = 50;
        while left > 0 {
            let reply = client.try_call(&format!("incr {key}")).expect("nobody is closed");
            let counter = if reply.starts_with(':') { &answered } else { &refused };
            assert!(reply.starts_with(':') || reply.starts_with("-CLUSTERDOWN"), "{reply}");
            left -= usize::from(reply.starts_with('-'));
            counter.fetch_add(1, Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let clients: Vec<Client> = (0..16).map(|i| servers[i % 2].client()).collect();
        clients.into_iter().for_each(|client| drop(scope.spawn(|| ask(client))));
        let end = Instant::now() + Duration::from_secs(120);
        while answered.load(Relaxed) < 1000 {
            assert!(Instant::now() < end, "{} are answered, {} refused", answered.load(Relaxed), refused.load(Relaxed));
            std::thread::sleep(Duration::from_millis(5));
        }
        servers[2].client().send("shutdown");
    });
    assert!(servers[2].ends_well());
    servers[2] = begin(2);
    servers.iter().for_each(until_ok);
    let expected = answered.load(Relaxed).to_string();
    comes(&mut servers[0].client(), &format!("get {key}"), &format!("${} {expected}", expected.len()));
}

/// Every transaction appends the same to lists at three nodes. A reader of all three at one moment finds them equal,
/// with any node killed meanwhile.
#[test]
fn nodes_that_are_killed_leave_no_half_transactions() {
    let ports = ports(3);
    let seeds = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let dirs: Vec<Scratch> = (0..3).map(|_| Scratch::new()).collect();
    // One node of each kind: several workers, several streams of the log, and both.
    let settings: [&[&str]; 3] =
        [&["--workers", "2"], &["--log-dirs", "one", "two"], &["--workers", "2", "--log-dirs", "one", "two", "three"]];
    let begin = |i: usize| start(ports[i], &seeds, &dirs[i], settings[i]);
    let mut servers: Vec<Server> = (0..3).map(begin).collect();
    servers.iter().for_each(until_ok);
    let slots = servers[0].client().call("cluster slots");
    // One list of each node: lists of one node might be in one transaction by luck.
    let lists = lists_of(&ports, &servers[0]);
    assert_eq!(lists.len(), 3, "{slots}");
    let read =
        format!("multi;{};exec", lists.iter().map(|list| format!("lrange {list} 0 -1")).collect::<Vec<_>>().join(";"));
    let ended = AtomicBool::new(false);
    let answered = Mutex::new(Vec::new());
    let reads = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..4u64 {
            let (lists, read, ports) = (&lists, &read, &ports);
            let (ended, answered, reads) = (&ended, &answered, &reads);
            scope.spawn(move || {
                let mut chance = crate::support::random(writer * 7919 + 11);
                let (mut client, mut id) = (None, writer * 1_000_000);
                while !ended.load(Relaxed) {
                    let Some(mut there) = client.take().or_else(|| connect(ports[chance(3) as usize])) else {
                        std::thread::sleep(Duration::from_millis(20));
                        continue;
                    };
                    id += 1;
                    let append = lists.iter().map(|list| format!("rpush {list} {id}")).collect::<Vec<_>>().join(";");
                    let writes = chance(3) > 0;
                    let reply = exec(&mut there, &if writes { format!("multi;{append};exec") } else { read.clone() });
                    match reply {
                        Some(reply) if writes && reply.starts_with("*3") => {
                            answered.lock().unwrap().push(id.to_string())
                        }
                        Some(reply) if !writes && reply.starts_with("*3") => {
                            equal_lists(&reply);
                            reads.fetch_add(1, Relaxed);
                        }
                        Some(_) => std::thread::sleep(Duration::from_millis(10)),
                        None => continue,
                    }
                    client = Some(there);
                }
            });
        }
        // Also if this fails: the writers would not end.
        let _ends = Ends(&ended);
        let go_on = || {
            let (answers, seen) = (answered.lock().unwrap().len() + 10, reads.load(Relaxed) + 5);
            let end = Instant::now() + Duration::from_secs(120);
            while answered.lock().unwrap().len() < answers || reads.load(Relaxed) < seen {
                assert!(Instant::now() < end, "nothing is answered any more");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        for round in 0..6 {
            std::thread::sleep(Duration::from_millis(400));
            go_on();
            let i = round % 3;
            let server = servers.remove(i);
            drop(server);
            std::thread::sleep(Duration::from_millis(300));
            servers.insert(i, begin(i));
            servers.iter().for_each(until_ok);
        }
        std::thread::sleep(Duration::from_millis(500));
        go_on();
    });
    // Doubts are settled after a while.
    let end = Instant::now() + Duration::from_secs(120);
    let seen = loop {
        match exec(&mut servers[1].client(), &read) {
            Some(reply) if reply.starts_with("*3") => break reply,
            reply => assert!(Instant::now() < end, "the lists cannot be read: {reply:?}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let there = equal_lists(&seen);
    let answered = answered.into_inner().unwrap();
    for id in &answered {
        assert_eq!(there.iter().filter(|there| *there == id).count(), 1, "{id} was answered");
    }
    // Nothing stays locked: plain commands run.
    for list in &lists {
        until(&servers[2], &format!("llen {list}"), |reply| reply.starts_with(':'));
    }
}

/// Sets the flag when it is dropped.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A list of each node.
pub(crate) fn lists_of(ports: &[u16], server: &Server) -> Vec<String> {
    let nodes = server.client().call("cluster nodes");
    let ranges: Vec<(u16, u16)> = ports
        .iter()
        .filter_map(|port| {
            let line = nodes.split('\n').find(|line| line.contains(&format!("@{}", port + 10_000)))?;
            let range = line.split_whitespace().last()?;
            let (first, last) = range.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        })
        .collect();
    let in_range = |range: &(u16, u16)| {
        let slot = |key: &String| keyspace::slot_of(key.as_bytes());
        (0..).map(|i| format!("list{i}")).find(|key| (range.0..=range.1).contains(&slot(key)))
    };
    ranges.iter().filter_map(in_range).collect()
}

fn connect(port: u16) -> Option<Client> {
    Client::connect(port)
}

/// The last reply of a block; `None` if the connection has ended.
fn exec(client: &mut Client, block: &str) -> Option<String> {
    let mut last = None;
    for command in block.split(';') {
        last = Some(client.try_call(command)?);
    }
    last
}

/// The elements of the lists of a reply. Asserts that all lists are equal.
fn equal_lists(reply: &str) -> Vec<String> {
    let mut lists: Vec<Vec<String>> = Vec::new();
    for word in reply.split(' ').skip(1) {
        match word.chars().next() {
            Some('*') => lists.push(Vec::new()),
            Some('$') => {}
            _ => lists.last_mut().expect("a list").push(word.to_owned()),
        }
    }
    assert_eq!(lists.len(), 3, "{reply}");
    assert!(lists[0] == lists[1] && lists[1] == lists[2], "half a transaction is seen: {lists:?}");
    lists.swap_remove(0)
}

/// A transaction that was prepared when the log ended would wait for its outcome for ever, since the others have
/// forgotten it.
#[test]
fn a_log_that_is_switched_off_leaves_nothing_in_doubt() {
    let ports = ports(3);
    let seeds = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let dirs: Vec<Scratch> = ports.iter().map(|_| Scratch::new()).collect();
    let mut nodes: Vec<Server> = ports.iter().zip(&dirs).map(|(port, dir)| start(*port, &seeds, dir, &[])).collect();
    nodes.iter().for_each(until_ok);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for n in 0..16 {
            let (stop, mut client) = (&stop, nodes[1 + n % 2].client());
            scope.spawn(move || {
                for round in 0.. {
                    if stop.load(Relaxed) {
                        break;
                    }
                    let pairs: String = (0..6).map(|key| format!(" key{n}.{key} {round}")).collect();
                    let reply = client.call(&format!("mset{pairs}"));
                    assert!(reply == "+OK" || reply.contains("CLUSTERDOWN"), "{reply}");
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        let reply = nodes[0].client().call("config set appendonly no");
        std::thread::sleep(Duration::from_millis(500));
        stop.store(true, Relaxed);
        assert_eq!(reply, "+OK");
    });
    drop(nodes.remove(0));
    nodes.insert(0, start(ports[0], &seeds, &dirs[0], &[]));
    nodes.iter().for_each(until_ok);
    let mut client = nodes[0].client();
    for key in (0..16).flat_map(|n| (0..6).map(move |key| format!("key{n}.{key}"))) {
        comes(&mut client, &format!("set {key} done"), "+OK");
    }
}

/// CLUSTER SLOTS names a port of its own for smart clients, unless that is switched off.
#[test]
fn smart_clients_have_a_port_of_their_own() {
    let (ports, dir) = (ports(2), [Scratch::new(), Scratch::new()]);
    let seeds = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let mut servers: Vec<Server> = ports.iter().zip(&dir).map(|(port, dir)| start(*port, &seeds, dir, &[])).collect();
    servers.iter().for_each(until_ok);
    let smart = ports.iter().map(|port| port + 1000).collect::<Vec<_>>();
    let slots = servers[0].client().call("cluster slots");
    assert!(smart.iter().all(|port| slots.contains(&format!(":{port}"))), "{slots}");
    assert!(ports.iter().all(|port| !slots.contains(&format!(":{port}"))), "{slots}");
    let mut clients: Vec<Client> = smart.iter().map(|port| Client::at(*port)).collect();
    for i in 0..40 {
        comes(&mut servers[i % 2].client(), &format!("set key:{i} {i}"), "+OK");
    }
    comes(&mut servers[0].client(), "dbsize", ":40");
    let counts: Vec<usize> = clients.iter_mut().map(|client| client.call("dbsize")[1..].parse().unwrap()).collect();
    assert!(counts.iter().sum::<usize>() == 40 && !counts.contains(&0), "{counts:?}");
    let moved = clients.iter_mut().map(|client| client.call("get key:1")).find(|reply| reply.starts_with("-MOVED"));
    let moved = moved.expect("one of them does not have it");
    assert!(smart.iter().any(|port| moved.ends_with(&format!(" 127.0.0.1:{port}"))), "{moved}");
    // A node without such a port any more tells the others so when it starts again.
    drop(clients);
    drop(servers.remove(0));
    servers.insert(0, start(ports[0], &seeds, &dir[0], &["--cluster-client-port", "0"]));
    let named = |reply: &str, port: u16| reply.contains(&format!(":{port}"));
    until(&servers[1], "cluster slots", |slots| named(slots, ports[0]) && named(slots, smart[1]));
    drop(servers.remove(0));
    let announced = ["--cluster-announce-client-port", "7"];
    servers.insert(0, start(ports[0], &seeds, &dir[0], &announced));
    until(&servers[1], "cluster nodes", |nodes| nodes.contains(&format!("127.0.0.1:7@{}", ports[0] + 10_000)));
}
