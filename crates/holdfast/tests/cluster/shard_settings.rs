//! The settings of a shard: whichever node owns it runs by them.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::copies::Copied;
use crate::log_servers::holdfast;
use crate::support::{Client, Nodes};

/// The longest wait for anything that a cluster must do, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn get(nodes: &Nodes, node: usize, setting: &str) -> String {
    let reply = nodes.client(node).call(&format!("config get {setting}"));
    reply.rsplit(' ').next().unwrap_or_default().to_owned()
}

/// Sets a setting, perhaps not at once if the machine is busy.
fn sets(nodes: &Nodes, node: usize, settings: &str) {
    let command = format!("config set {settings}");
    nodes.until_or(node, &command, |reply| reply == "+OK", |reply| reply.starts_with("-CLUSTERDOWN"));
}

#[test]
fn what_the_log_of_a_shard_promises_is_in_the_metadata_a13() {
    let mut nodes = Nodes::new(3, 3);
    sets(&nodes, 1, "appendfsync everysec slowlog-max-len 7");
    assert_eq!((get(&nodes, 1, "appendfsync"), get(&nodes, 1, "slowlog-max-len")), ("everysec".into(), "7".into()));
    assert_eq!(get(&nodes, 0, "appendfsync"), "always", "the other shards have their own");
    let mut client = nodes.client(1);
    assert_eq!(client.call("multi"), "+OK");
    assert_eq!(client.call("config set appendfsync no"), "+QUEUED");
    let said = client.call("exec");
    assert!(said.contains("CONFIG SET appendfsync is not allowed in a transaction or script"), "{said}");

    let differ = "shards differ in appendfsync: 1 (always), 2 (everysec), 3 (always)";
    nodes.until(0, "cluster status", |status| status.contains(differ));

    // Another value in the file does not hold.
    nodes.kill(1);
    fs::write(nodes.file(1), "appendfsync no\n").unwrap();
    nodes.start(1);
    assert_eq!(get(&nodes, 1, "appendfsync"), "everysec", "before it has heard of others");
    nodes.serves(1);
    let log = nodes.log(1);
    assert!(log.contains("'appendfsync' is 'no' in this node's configuration and 'everysec' in the shard"), "{log}");
    assert_eq!(nodes.client(1).call("config rewrite"), "+OK");
    assert!(fs::read_to_string(nodes.file(1)).unwrap().contains("appendfsync everysec"));

    // Without a majority nothing changes.
    nodes.kill(0);
    nodes.kill(2);
    nodes.until(1, "get k", |reply| reply.starts_with("-CLUSTERDOWN"));
    let said = nodes.client(1).call("config set appendfsync always");
    assert!(said.starts_with("-CLUSTERDOWN the settings of this node's shard were not changed"), "{said}");
    assert_eq!(get(&nodes, 1, "appendfsync"), "everysec");
    nodes.start(0);
    nodes.start(2);
    sets(&nodes, 1, "appendfsync always");
    nodes.kill(1);
    nodes.start(1);
    assert_eq!(get(&nodes, 1, "appendfsync"), "always");
}

/// A shard without copies may be without a log. A start that asks for the log has it.
#[test]
fn a_log_that_was_switched_off_stays_so_until_a_start_asks_for_it() {
    let mut nodes = Nodes::new(1, 1);
    assert_eq!(nodes.client(0).call("set before 1"), "+OK");
    sets(&nodes, 0, "appendonly no");
    assert_eq!(get(&nodes, 0, "appendonly"), "no");
    nodes.kill(0);
    nodes.start(0);
    nodes.serves(0);
    assert_eq!((get(&nodes, 0, "appendonly"), nodes.client(0).call("get before")), ("yes".into(), "$1 1".into()));
    // From then on a start that asks for no log has one.
    nodes.until(0, "cluster group show", |shown| shown.contains("  always  "));
    nodes.kill(0);
    nodes.start_with(0, &["--appendonly", "no"]);
    nodes.serves(0);
    assert_eq!((get(&nodes, 0, "appendonly"), nodes.client(0).call("get before")), ("yes".into(), "$1 1".into()));
}

#[test]
fn a_node_that_recovers_a_shard_runs_by_the_shards_settings_a13() {
    let mut copied = Copied::new();
    copied.sets(50);
    let said = copied.nodes.client(0).call("config set appendonly no");
    assert!(said.contains("the log of shard 1 has copies"), "{said}");
    // Nor does a start switch the log off.
    copied.nodes.kill(0);
    copied.nodes.start_with(0, &["--appendonly", "no", "--appendfsync", "no"]);
    copied.is_whole();
    copied.has_all();
    let of = |nodes: &Nodes, node| (get(nodes, node, "appendonly"), get(nodes, node, "appendfsync"));
    assert_eq!(of(&copied.nodes, 0), ("yes".into(), "always".into()));
    let log = copied.nodes.log(0);
    assert!(log.contains("'appendonly' is 'no' in this node's configuration and 'yes' in the shard"), "{log}");

    // A node that has never had a log takes the shard over.
    copied.nodes.start_with(1, &["--appendonly", "no", "--appendfsync", "no"]);
    copied.nodes.serves(1);
    assert_eq!(of(&copied.nodes, 1), ("no".into(), "no".into()));
    copied.nodes.kill(0);
    for part in ["holdfast", "cluster"] {
        fs::remove_dir_all(copied.nodes.dirs[0].path().join(part)).unwrap();
    }
    let [to, at] = [format!("127.0.0.1:{}", copied.nodes.ports[1]), copied.nodes.ports[1].to_string()];
    let end = Instant::now() + PATIENCE;
    let mut said = String::new();
    while !said.contains("owns shard 1 now") {
        assert!(Instant::now() < end, "{said}");
        thread::sleep(Duration::from_millis(50));
        said = holdfast(&["cluster", "recover", "1", "--on", &to, "-p", &at]);
    }
    let has = |port| Client::connect(port).and_then(|mut client| client.try_call("get key:7"));
    while has(copied.nodes.ports[1]).is_none_or(|reply| reply.starts_with('-')) {
        assert!(Instant::now() < end, "{}", copied.nodes.log(1));
        thread::sleep(Duration::from_millis(50));
    }
    copied.has_all_at(1);
    assert_eq!(of(&copied.nodes, 1), ("yes".into(), "always".into()));
}
