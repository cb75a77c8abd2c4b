//! `holdfast export` from a running server.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rdb::{Item, Reader};

use crate::support::{Client, Scratch, Server};

/// Runs `holdfast export`, and returns whether it succeeded, and what it said.
fn export(server: &Server, words: &[&str]) -> (bool, String) {
    let port = server.port().to_string();
    let all = [&["export", "-p", &port][..], words].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast")).args(all).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.trim().to_owned())
}

#[test]
fn all_keys_are_exported_for_each_server() {
    let scratch = Scratch::new();
    let server = Server::start(&[]);
    let mut client = server.client();
    client.call("set text hello");
    client.call("hset plain f 1");
    client.call("hset fields f 1 g 2");
    client.call("hpexpireat fields 4102444800000 fields 1 f");
    client.call("select 3");
    client.call("rpush list a b");
    for (name, version, keys) in [("", 14, 4), ("7.2", 11, 3), ("8.0", 12, 4), ("8.8", 14, 4), ("valkey9", 80, 4)] {
        let path = scratch.path().join(format!("file{name}.rdb"));
        let path = path.to_str().unwrap();
        let words = if name.is_empty() { vec![path] } else { vec![path, "--for", name] };
        let (good, said) = export(&server, &words);
        assert!(good, "{name}: {said}");
        assert_eq!(said.contains("key 'fields' is left out"), name == "7.2", "{said}");
        let file = fs::read(path).unwrap();
        let mut reader = Reader::new(&file[..]).unwrap();
        assert_eq!(reader.version(), version);
        let mut found = 0;
        while let Some(item) = reader.next_item().unwrap() {
            found += usize::from(matches!(item, Item::Entry(_)));
        }
        assert_eq!(found, keys, "{name}");
        let (good, said) = export(&server, &words);
        assert!(!good && said.contains("is there already"), "{said}");
    }
    client.call("acl setuser default -psync -sync");
    let path = scratch.path().join("refused.rdb");
    let (good, said) = export(&server, &[path.to_str().unwrap()]);
    assert!(!good && said.contains("NOPERM"), "{said}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 5);
}

/// A client that has taken the first step of an export over nodes.
fn exporter(server: &Server) -> Client {
    let mut exporter = server.client();
    assert_eq!(exporter.call("holdfast export begin"), "+OK");
    exporter
}

#[test]
fn writes_go_on_when_the_exporter_dies() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for closes in [true, false] {
        let mut exporter = exporter(&server);
        assert_eq!(exporter.call("holdfast export hold 5000"), "+OK");
        let begun = Instant::now();
        client.send("set a 1");
        client.waits();
        assert_eq!(server.client().call("dbsize"), if closes { ":0" } else { ":1" });
        match closes {
            true => drop(exporter),
            false => assert_eq!(exporter.call("reset"), "+RESET"),
        }
        assert_eq!(client.reply(), "+OK");
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    }
    // The exporter is stopped, and its connection stays.
    let mut exporter = exporter(&server);
    assert_eq!(exporter.call("holdfast export hold 300"), "+OK");
    client.send("set a 2");
    client.waits();
    assert_eq!(client.reply(), "+OK");
    assert_eq!(exporter.call("holdfast export moment"), "*2 *0 *0");
    assert_eq!(exporter.call("holdfast export release"), "-ERR writes went on before");
}

#[test]
fn steps_of_an_export_over_nodes_come_in_their_order() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let wrong = [
        ("hold 0", "-ERR writes are held back for 1 to 5000 milliseconds"),
        ("hold 5001", "-ERR writes are held back for 1 to 5000 milliseconds"),
        ("hold", "-ERR syntax error"),
        ("release now", "-ERR syntax error"),
        ("moment", "-ERR HOLDFAST EXPORT BEGIN comes first"),
    ];
    for (step, error) in wrong {
        assert_eq!(client.call(&format!("holdfast export {step}")), error);
    }
    let mut exporter = exporter(&server);
    assert_eq!(exporter.call("holdfast export release"), "-ERR writes went on before");
    // Another export waits.
    let mut second = server.client();
    second.send("holdfast export begin");
    second.waits();
    client.call("set a 1");
    assert_eq!(exporter.call("holdfast export moment"), "*2 *0 *0");
    client.call("flushall");
    let emptied = "-ERR a snapshot could not be made: a database was emptied meanwhile";
    assert_eq!(exporter.call("holdfast export send"), emptied);
    assert!(exporter.call("holdfast export moment").starts_with("-ERR this export is over"));
    assert_eq!(second.reply(), "+OK");
    assert_eq!(second.call("holdfast export send"), "-ERR HOLDFAST EXPORT MOMENT comes first");
}
