//! `holdfast export` of a cluster: files of one moment, with every transaction over nodes whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rdb::{Item, Reader, Value};

use crate::support::{Nodes, Scratch, random};

const ACCOUNTS: u64 = 24;
const CLIENTS: u64 = 4;
const EXPORTS: u64 = 24;

/// Runs `holdfast export`. Returns what it says.
fn export(nodes: &Nodes, node: usize, words: &[&str]) -> String {
    let port = nodes.ports[node].to_string();
    let all = [&["export", "-p", &port][..], words].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast")).args(all).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {text}");
    text.trim().to_owned()
}

/// The numbers in the files of a folder, by key. No key is in them twice.
fn numbers(folder: &Path) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    for file in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        while let Some(item) = reader.next_item().unwrap() {
            let Item::Entry(entry) = item else { continue };
            let key = String::from_utf8(entry.key.clone()).unwrap();
            let Value::String(value) = entry.value(&object::Limits::default()).unwrap() else { panic!("{key}") };
            let value = String::from_utf8(value.into_owned()).unwrap().parse().unwrap();
            assert_eq!(found.insert(key.clone(), value), None, "{key} is there twice");
        }
    }
    found
}

/// Moves money between accounts of different nodes, also of three at once.
fn transfers(nodes: &Nodes, me: u64, is_over: &AtomicBool, made: &AtomicU64) {
    let mut chance = random(7 + 31 * me);
    let mut client = nodes.client(me as usize % 3);
    while !is_over.load(Relaxed) {
        let (from, to, third, n) = (chance(ACCOUNTS), chance(ACCOUNTS), chance(ACCOUNTS), chance(100));
        let (one, two) = (format!("decrby account:{from} {n}"), format!("incrby account:{to} {}", 2 * n));
        client.send(&format!("multi;{one};{two};decrby account:{third} {n};exec"));
        let replies: Vec<String> = (0..5).map(|_| client.reply()).collect();
        assert!(replies[4].starts_with("*3 :"), "{replies:?}");
        made.fetch_add(1, Relaxed);
    }
}

/// Counts two keys of different nodes up, the second one when the first is answered.
fn counts(nodes: &Nodes, is_over: &AtomicBool) {
    let mut client = nodes.client(1);
    let mut n = 0;
    while !is_over.load(Relaxed) {
        n += 1;
        for key in ["first", "second:b"] {
            assert_eq!(client.call(&format!("incr {key}")), format!(":{n}"));
        }
    }
}

#[test]
fn a_transaction_is_whole_or_absent_and_all_files_are_of_one_moment() {
    let nodes = Nodes::new(3, 3);
    let mut client = nodes.client(0);
    let owner = |key: &str| keyspace::slot_of(key.as_bytes()) / 5461;
    assert_ne!(owner("first"), owner("second:b"));
    (0..ACCOUNTS).for_each(|account| assert_eq!(client.call(&format!("set account:{account} 0")), "+OK"));
    let (is_over, made) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (nodes, is_over, made) = (&nodes, &is_over, &made);
        scope.spawn(move || counts(nodes, is_over));
        (0..CLIENTS).for_each(|me| drop(scope.spawn(move || transfers(nodes, me, is_over, made))));
        let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..EXPORTS {
                let scratch = Scratch::new();
                let file = scratch.path().join("dump.rdb");
                let words = [file.to_str().unwrap(), "--merge"];
                let merges = round % 2 == 0;
                let said = export(nodes, (round % 3) as usize, if merges { &words } else { &words[..1] });
                let numbers = numbers(scratch.path());
                assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), if merges { 1 } else { 3 }, "{said}");
                let of_accounts = || numbers.iter().filter(|(key, _)| key.starts_with("account:"));
                assert_eq!(of_accounts().count(), ACCOUNTS as usize);
                assert_eq!(of_accounts().map(|(_, money)| money).sum::<i64>(), 0, "round {round}: {said}");
                let of = |key: &str| numbers.get(key).copied().unwrap_or_default();
                let (first, second) = (of("first"), of("second:b"));
                assert!(first == second || first == second + 1, "round {round}: {first} and {second}, {said}");
            }
        }));
        is_over.store(true, Relaxed);
        end.unwrap();
    });
    assert!(made.load(Relaxed) > EXPORTS, "{made:?}");
}
