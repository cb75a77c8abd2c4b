//! Settings of the cluster: they are in its metadata, and nodes take them from there.

use crate::net::{Net, keys};

#[test]
fn what_is_set_at_one_node_holds_at_all() {
    let mut net = Net::new(3, 2, 3);
    net.keeps_libraries();
    let clients = [0, 1, 2].map(|node| net.connect(node));
    let set = ["config", "set", "notify-keyspace-events", "KEA", "hash-max-listpack-entries", "2", "maxmemory", "1gb"];
    assert_eq!(net.arrange(clients[1], &set), "OK");
    for client in clients {
        assert_eq!(net.say(client, "config get notify-keyspace-events"), "[notify-keyspace-events AKE]");
        assert_eq!(net.say(client, "config get hash-max-listpack-entries"), "[hash-max-listpack-entries 2]");
    }
    let own = clients.map(|client| net.say(client, "config get maxmemory"));
    assert_eq!(own, ["[maxmemory 0]", "[maxmemory 1073741824]", "[maxmemory 0]"]);
    let listener = net.connect(0);
    net.send(listener, "psubscribe __keyevent@0__:hset");
    net.heard(listener);
    for key in keys::<6>(3) {
        assert_eq!(net.say(clients[2], &format!("hset {key} a 1 b 2 c 3")), "3");
        assert_eq!(net.say(clients[2], &format!("object encoding {key}")), "hashtable");
    }
    assert_eq!(net.heard(listener).len(), 6, "events of keys of all nodes");
}

#[test]
fn what_is_wrong_changes_nothing() {
    let mut net = Net::new(2, 1, 3);
    let librarian = net.keeps_libraries();
    let client = net.connect(0);
    let about = |setting: &str| format!("-ERR CONFIG SET failed (possibly related to argument '{setting}') - ");
    for (words, why) in [
        (&["maxmemory", "1gb", "timeout", "x"][..], about("timeout")),
        (&["timeout", "5", "maxmemory", "x"], about("maxmemory")),
        (&["timeout", "5", "timeout", "6"], about("timeout")),
        (&["timeout", "5", "port"], "-ERR".to_owned()),
        (&["timeout", "5", "nothing", "1"], "-ERR Unknown option".to_owned()),
        (&["timeout", "5", "databases", "3"], about("databases")),
        (&["maxmemory", "1gb", "requirepass", &"x".repeat(1025)], about("requirepass")),
    ] {
        let reply = net.say_words(client, &[&["config", "set"], words].concat());
        assert!(reply.starts_with(&why), "{words:?}: {reply}");
    }
    for setting in ["timeout", "maxmemory"] {
        assert_eq!(net.say(client, &format!("config get {setting}")), format!("[{setting} 0]"));
    }
    // Before any setting is set.
    for words in [&["MULTI"][..], &["config", "set", "maxmemory", "1gb", "timeout", "5"], &["EXEC"]] {
        net.send_words(client, words);
    }
    let reply = net.heard(client).pop().unwrap();
    assert!(reply.contains("not allowed in a transaction"), "{reply}");
    assert_eq!(net.say(client, "config get maxmemory"), "[maxmemory 0]");
    librarian.fails("no majority");
    let reply = net.arrange(client, &["config", "set", "timeout", "5"]);
    assert_eq!(reply, "-CLUSTERDOWN it is not certain that the cluster's settings were changed: no majority");
}

#[test]
fn a_node_without_a_lease_sets_its_own_settings_alone() {
    let mut net = Net::new(2, 1, 3);
    net.keeps_libraries();
    let client = net.connect(0);
    net.lease(0, 0);
    let why = "-CLUSTERDOWN the cluster's settings were not changed: this node has no lease: a test says so";
    assert_eq!(net.arrange(client, &["config", "set", "timeout", "5"]), why);
    assert_eq!(net.arrange(client, &["config", "set", "timeout", "5", "maxmemory", "1gb"]), why);
    assert_eq!(net.say(client, "config get maxmemory"), "[maxmemory 1073741824]");
    assert_eq!(net.say(client, "config set maxmemory 2gb"), "OK");
    net.lease(0, u64::MAX);
    assert_eq!(net.arrange(client, &["config", "set", "timeout", "5"]), "OK");
    assert_eq!(net.say(client, "config get timeout"), "[timeout 5]");
}

/// Smart clients ask each node for the same change.
#[test]
fn smart_clients_set_at_every_node() {
    let mut net = Net::new(3, 1, 2);
    net.keeps_libraries();
    for node in 0..3 {
        let client = net.connect_smart(node);
        assert_eq!(net.arrange(client, &["config", "set", "requirepass", "", "compatibility", "valkey"]), "OK");
        assert_eq!(net.say(client, "config get compatibility"), "[compatibility valkey]");
    }
}
