//! Settings of a cluster of real servers: what was set at one node holds at every node.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::Nodes;

/// Sets settings at a node, perhaps not at once if the machine is busy.
fn sets(nodes: &Nodes, node: usize, settings: &str) {
    let command = format!("config set {settings}");
    nodes.until_or(node, &command, |reply| reply == "+OK", |reply| reply.starts_with("-CLUSTERDOWN"));
}

fn get(nodes: &Nodes, node: usize, setting: &str) -> String {
    let reply = nodes.client(node).call(&format!("config get {setting}"));
    reply.rsplit(' ').next().unwrap_or_default().to_owned()
}

/// Waits until a node has a value.
fn has(nodes: &Nodes, node: usize, setting: &str, value: &str) {
    nodes.until(node, &format!("config get {setting}"), |reply| reply.ends_with(&format!(" {value}")));
}

#[test]
fn events_of_keys_of_all_nodes_are_published() {
    let nodes = Nodes::new(3, 3);
    sets(&nodes, 1, "notify-keyspace-events KEA hash-max-listpack-entries 3");
    assert_eq!(get(&nodes, 1, "notify-keyspace-events"), "AKE", "it holds at once where it was set");
    (0..3).for_each(|node| has(&nodes, node, "notify-keyspace-events", "AKE"));
    let mut listener = nodes.client(0);
    assert!(listener.call("psubscribe __keyevent@0__:set").starts_with("*3 $10 psubscribe"));
    let mut writer = nodes.client(2);
    for key in 0..60 {
        assert_eq!(writer.call(&format!("set k{key} 1")), "+OK");
    }
    let mut keys: Vec<String> = (0..60).map(|_| listener.reply().rsplit(' ').next().unwrap().to_owned()).collect();
    keys.sort();
    let mut wanted: Vec<String> = (0..60).map(|key| format!("k{key}")).collect();
    wanted.sort();
    assert_eq!(keys, wanted);
    // As the encodings of their values are the same.
    for key in 0..30 {
        assert_eq!(writer.call(&format!("hset h{key} a 1 b 2 c 3 d 4")), ":4");
        assert_eq!(writer.call(&format!("object encoding h{key}")), "$9 hashtable");
    }
    // A node's own setting stays there.
    sets(&nodes, 0, "maxmemory 500mb slowlog-max-len 7");
    assert_eq!((get(&nodes, 0, "slowlog-max-len"), get(&nodes, 1, "slowlog-max-len")), ("7".into(), "128".into()));
    assert_eq!(get(&nodes, 1, "maxmemory"), "0");
}

#[test]
fn who_was_away_and_who_is_new_have_what_was_set() {
    let mut nodes = Nodes::new(4, 3);
    sets(&nodes, 0, "timeout 100");
    nodes.kill(2);
    sets(&nodes, 1, "timeout 200 notify-keyspace-events Ex");
    nodes.start(2);
    nodes.serves(2);
    assert_eq!((get(&nodes, 2, "timeout"), get(&nodes, 2, "notify-keyspace-events")), ("200".into(), "xE".into()));
    nodes.start(3);
    nodes.serves(3);
    assert_eq!((get(&nodes, 3, "timeout"), get(&nodes, 3, "notify-keyspace-events")), ("200".into(), "xE".into()));
    sets(&nodes, 3, "timeout 300");
    (0..4).for_each(|node| has(&nodes, node, "timeout", "300"));
    (0..4).for_each(|node| nodes.kill(node));
    (0..4).for_each(|node| nodes.start(node));
    for node in 0..4 {
        assert_eq!(get(&nodes, node, "timeout"), "300", "before it has heard of others");
    }
}

#[test]
fn a_password_holds_at_all_nodes_and_from_the_start() {
    let mut nodes = Nodes::new(3, 3);
    sets(&nodes, 0, "requirepass s3cret");
    (0..3).for_each(|node| drop(nodes.until(node, "get k", |reply| reply.starts_with("-NOAUTH"))));
    nodes.kill(1);
    nodes.start(1);
    assert!(nodes.client(1).call("ping").starts_with("-NOAUTH"), "before it has heard of others");
    let mut client = nodes.client(1);
    assert_eq!(client.call("auth s3cret"), "+OK");
    assert_eq!(client.call("config get requirepass"), "*2 $11 requirepass $6 s3cret");
    for node in 0..3 {
        assert!(!nodes.log(node).contains("s3cret"), "{}", nodes.log(node));
        let files = fs::read_dir(nodes.dirs[node].path().join("cluster")).unwrap();
        for file in files.map(Result::unwrap).filter(|file| file.file_name() == "state") {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}

#[test]
fn the_cluster_wins_over_files_and_says_so() {
    let first = "timeout 11\nnotify-keyspace-events KEA\nhz 20\nmaxmemory-policy allkeys-lru\n";
    let second = "timeout 22\nrequirepass s3cret\nnotify-keyspace-events AKE\nhz 30\nset-max-intset-entries 512\n";
    let mut nodes = Nodes::with_files(3, 3, &[first, second]);
    for node in 0..3 {
        has(&nodes, node, "timeout", "11");
        assert_eq!(get(&nodes, node, "notify-keyspace-events"), "AKE");
        assert_eq!(get(&nodes, node, "maxmemory-policy"), "allkeys-lru");
        assert_eq!(nodes.client(node).call("config get requirepass"), "*2 $11 requirepass $0", "the first has none");
    }
    assert_eq!((get(&nodes, 1, "hz"), get(&nodes, 2, "hz")), ("30".into(), "10".into()));
    let warnings = |nodes: &Nodes, node: usize, setting: &str| {
        let log = nodes.log(node);
        let about = format!("'{setting}' is '");
        log.lines().filter(|line| line.contains(&about)).map(str::to_owned).collect::<Vec<_>>()
    };
    let [timeout] = &warnings(&nodes, 1, "timeout")[..] else { panic!("{}", nodes.log(1)) };
    assert!(timeout.contains("'timeout' is '22' in this node's configuration and '11' in the cluster"), "{timeout}");
    let [password] = &warnings(&nodes, 1, "requirepass")[..] else { panic!("{}", nodes.log(1)) };
    assert!(password.contains("'(redacted)'") && !password.contains("s3cret"), "{password}");
    for (node, setting) in [(0, "timeout"), (2, "timeout"), (1, "notify-keyspace-events"), (1, "maxmemory-policy")] {
        assert!(warnings(&nodes, node, setting).is_empty(), "{}", nodes.log(node));
    }
    // The file is brought up to date, and says to whom each setting belongs.
    sets(&nodes, 0, "set-max-intset-entries 100");
    has(&nodes, 1, "set-max-intset-entries", "100");
    assert_eq!(nodes.client(1).call("config rewrite"), "+OK");
    let file = fs::read_to_string(nodes.file(1)).unwrap();
    for line in ["timeout 11", "set-max-intset-entries 100", "maxmemory-policy allkeys-lru", "hz 30"] {
        assert!(file.lines().any(|found| found == line), "{line}: {file}");
    }
    let mark = file.lines().find(|line| line.starts_with("# The cluster's")).unwrap();
    assert!(mark.ends_with(": maxmemory-policy notify-keyspace-events set-max-intset-entries timeout"), "{mark}");
    assert!(!file.contains("s3cret"), "{file}");
    nodes.kill(1);
    fs::remove_file(nodes.log_file(1)).unwrap();
    nodes.start(1);
    nodes.serves(1);
    assert!(!nodes.log(1).contains("in this node's configuration"), "{}", nodes.log(1));
}

#[test]
fn without_a_majority_a_node_sets_its_own_settings_alone() {
    let mut nodes = Nodes::new(3, 3);
    sets(&nodes, 0, "timeout 100");
    nodes.kill(1);
    nodes.kill(2);
    let refused = nodes.until(0, "config set timeout 200", |reply| {
        assert!(reply.starts_with("-CLUSTERDOWN"), "{reply}");
        reply.contains("this node has no lease")
    });
    assert!(refused.contains("the cluster's settings were not changed"), "{refused}");
    assert_eq!(nodes.client(0).call("config set maxmemory 100mb"), "+OK");
    let both = nodes.client(0).call("config set maxmemory 200mb timeout 300");
    assert!(both.starts_with("-CLUSTERDOWN the cluster's settings were not changed"), "{both}");
    assert_eq!((get(&nodes, 0, "maxmemory"), get(&nodes, 0, "timeout")), ("209715200".into(), "100".into()));
    // A wrong value is refused before anything is set.
    let wrong = nodes.client(0).call("config set maxmemory 300mb timeout x");
    assert!(wrong.starts_with("-ERR CONFIG SET failed (possibly related to argument 'timeout')"), "{wrong}");
    assert_eq!(get(&nodes, 0, "maxmemory"), "209715200");
    nodes.start(1);
    sets(&nodes, 0, "timeout 400");
    has(&nodes, 1, "timeout", "400");
}

#[test]
fn settings_at_once_through_two_nodes_end_the_same() {
    let nodes = Nodes::new(3, 3);
    std::thread::scope(|scope| {
        for node in 0..2 {
            let nodes = &nodes;
            scope.spawn(move || (1..=15).for_each(|n| sets(nodes, node, &format!("timeout {}", 100 * node + n))));
        }
    });
    let last = nodes.until(0, "config get timeout", |reply| reply.ends_with("15"));
    (1..3).for_each(|node| drop(nodes.until(node, "config get timeout", |reply| reply == last)));
}

/// Waits until a node logs this.
fn logs(nodes: &Nodes, node: usize, text: &str) {
    let end = Instant::now() + Duration::from_secs(120);
    while !nodes.log(node).contains(text) {
        assert!(Instant::now() < end, "never: {text}\n{}", nodes.log(node));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(name: &str, process: &str) {
    assert!(Command::new("kill").args(["-s", name, process]).status().unwrap().success());
}

#[test]
fn the_length_of_leases_is_the_same_at_all_nodes_and_a_lost_one_is_logged() {
    let short = "cluster-lease 600\n";
    let mut nodes = Nodes::with_files(3, 2, &[short, short]);
    assert_eq!(get(&nodes, 1, "cluster-lease"), "600");
    let info = nodes.client(1).call("info server");
    let process = info.split_whitespace().find_map(|field| field.strip_prefix("process_id:")).expect("its process");
    signal("STOP", process);
    std::thread::sleep(Duration::from_millis(1500));
    signal("CONT", process);
    logs(&nodes, 1, "this node was without a lease for ");
    nodes.start(2);
    logs(&nodes, 2, "cluster-lease is 2000 ms at this node and 600 ms in the cluster");
}
