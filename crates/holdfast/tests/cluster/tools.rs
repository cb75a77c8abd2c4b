//! The commands of the binary that reach a server, over TLS; and an import into a cluster.

use std::fs;
use std::path::Path;
use std::process::Command;

use rdb::{EntryRef, Item, Reader, Target, ValueRef, Writer, Written};

use crate::certificates::{Authority, Flaw};
use crate::support::{Nodes, Scratch, free_ports};

/// Runs a command of the binary. Returns true if it succeeded, and its output.
fn run(words: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.trim().to_owned())
}

/// A file with `keys` strings in each of two databases, and a library of functions.
fn dump(file: &Path, keys: usize) {
    let mut writer = Writer::new(Vec::new(), Target::Redis72).unwrap();
    writer.function(b"#!lua name=lib\nredis.register_function('f', function() return 7 end)").unwrap();
    for (db, n) in [0, 3].into_iter().flat_map(|db| (0..keys).map(move |n| (db, n))) {
        let (key, value) = (format!("key:{n}"), format!("{db}-{n}"));
        let entry = EntryRef::new(db, key.as_bytes(), ValueRef::String(value.as_bytes()));
        assert_eq!(writer.entry(entry).unwrap(), Written::Yes);
    }
    fs::write(file, writer.finish().unwrap()).unwrap();
}

/// The keys and libraries in a file.
fn counted(file: &Path) -> (usize, usize) {
    let bytes = fs::read(file).unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let (mut keys, mut libraries) = (0, 0);
    while let Some(item) = reader.next_item().unwrap() {
        keys += usize::from(matches!(item, Item::Entry(_)));
        libraries += usize::from(matches!(item, Item::Function(_)));
    }
    (keys, libraries)
}

#[test]
fn every_command_speaks_tls_with_a_cluster() {
    let (scratch, authority) = (Scratch::new(), Authority::new("authority"));
    let folder = |name: &str| scratch.path().join(name);
    authority.equip("server", &folder("server"));
    authority.issue("app", Flaw::None, &folder("app"));
    Authority::new("other").issue("app", Flaw::None, &folder("stranger"));
    let path = |folder: &str, name: &str| scratch.path().join(folder).join(name).display().to_string();
    let (cert, key, ca) = (path("server", "cert.pem"), path("server", "key.pem"), path("server", "ca.pem"));
    let port = free_ports(3);
    let files = format!("tls-cert-file {cert}\ntls-key-file {key}\ntls-ca-cert-file {ca}\n");
    let text = |node: u16| format!("tls-port {}\n{files}", port + node);
    let nodes = Nodes::with_files(3, 3, &[&text(0), &text(1), &text(2)]);
    dump(&folder("in.rdb"), 100);
    let (input, one, all) = (folder("in.rdb"), folder("one.rdb"), folder("all.rdb"));
    let [input, one, all] = [&input, &one, &all].map(|path| path.to_str().unwrap());
    let commands: [(&[&str], &str); 8] = [
        (&["ping"], "PONG"),
        (&["cluster", "status"], "health: ok"),
        (&["import", input], "200 keys, 1 libraries"),
        (&["export", "--merge", one], "200 keys, 1 libraries"),
        (&["export", all], "slots 10923-16383"),
        (&["export", "--node", "--for", "7.2", &path("", "node.rdb")], "1 libraries"),
        (&["backup", "place"], "has written a backup to place"),
        (&["bench", "--operations", "10", "--connections", "1", "--keys", "10", "--quiet"], "commands"),
    ];
    let at = (port + 1).to_string();
    for (words, expected) in commands {
        let tls = ["-p", &at, "--tls", "--cacert", &ca];
        let as_client = |name: &str| {
            let (cert, key) = (path(name, "cert.pem"), path(name, "key.pem"));
            run(&[words, &tls, &["--cert", &cert, "--key", &key]].concat())
        };
        let (good, said) = run(&[words, &["-p", &at]].concat());
        assert!(!good, "without TLS: {words:?}: {said}");
        let (good, said) = run(&[words, &tls].concat());
        assert!(!good, "without a certificate: {words:?}: {said}");
        let (good, said) = as_client("stranger");
        assert!(!good, "with another authority's certificate: {words:?}: {said}");
        let (good, said) = as_client("app");
        assert!(good && said.contains(expected), "{words:?}: {said}");
    }
    assert_eq!(counted(&folder("one.rdb")), (200, 1));
    let shards: Vec<_> = (1..=3).map(|shard| counted(&folder(&format!("all-{shard}.rdb")))).collect();
    assert_eq!(shards.iter().map(|(keys, _)| keys).sum::<usize>(), 200);
    assert!(shards.iter().all(|(keys, libraries)| *keys > 0 && *libraries == 1), "{shards:?}");
    assert!(nodes.dirs[1].path().join("place/BACKUP").exists());
}

#[test]
fn a_cluster_takes_a_file_by_any_node_and_a_node_that_fails_loses_none_of_it() {
    let mut nodes = Nodes::new(3, 3);
    let scratch = Scratch::new();
    let file = scratch.path().join("dump.rdb");
    dump(&file, 1000);
    let file = file.to_str().unwrap();
    let ports: Vec<String> = nodes.ports.iter().map(u16::to_string).collect();
    let import = |node: usize, more: &[&str]| run(&[&["import", "-p", &ports[node]], more, &[file]].concat());
    let (good, said) = import(1, &["--db", "3"]);
    assert!(good && said.contains("1000 keys, 1 libraries"), "{said}");
    assert_eq!(nodes.client(0).call("dbsize"), ":0");
    assert_eq!(nodes.client(2).call("fcall f 0"), ":7");
    nodes.client(0).call("flushall");
    nodes.kill(2);
    nodes.until(0, "cluster info", |info| !info.contains("cluster_state:ok"));
    let (good, said) = import(0, &[]);
    assert!(!good && said.contains("CLUSTERDOWN"), "{said}");
    nodes.start(2);
    nodes.serves(2);
    nodes.serves(0);
    let skip = said.split("--skip ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    // A worker that has no link to the node yet refuses keys once more.
    let mut tries = (0..100).map(|_| import(0, &["--skip", skip])).skip_while(|(good, said)| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        !good && said.contains("CLUSTERDOWN")
    });
    let (good, said) = tries.next().unwrap();
    assert!(good, "{said}");
    let mut client = nodes.client(1);
    for db in [0, 3] {
        client.call(&format!("select {db}"));
        assert_eq!(client.call("dbsize"), ":1000");
        assert_eq!(client.call("get key:999"), format!("$5 {db}-999"));
    }
}
