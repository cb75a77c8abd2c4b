//! `holdfast export` from a running server.

use std::fs;
use std::process::Command;

use rdb::{Item, Reader};

use crate::support::{Scratch, Server};

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
