//! The store keeps long strings in leaves, like large collections.

use keyspace::Fetched;

use super::model::Machine;
use crate::checkpoint::fetch::fetch_within;
use crate::checkpoint::round::Planted;
use crate::checkpoint::{Unloadable, fetch};

fn run(machine: &mut Machine, words: &[&str]) -> String {
    machine.hand.run(0, words)
}

#[test]
fn a_long_string_has_leaves_until_something_else_takes_its_place() {
    let mut machine = Machine::new(1, Planted::None);
    let long = "x".repeat(600 << 10);
    run(&mut machine, &["set", "k", &long]);
    machine.checkpoint();
    assert_eq!(machine.store.leaves(), (3, 0));
    run(&mut machine, &["append", "k", &long[..200 << 10]]);
    machine.checkpoint();
    assert_eq!(machine.store.leaves(), (4, 0), "those of before are gone");
    let hasher = machine.hand.engine.shared.keyspace.hasher();
    let (mut asked, key) = (Vec::new(), hasher.key(b"k"));
    let found = fetch_within(&machine.store, 1, &key, &mut |bytes| {
        asked.push(bytes);
        true
    });
    assert!(matches!(found, Ok(Some(Fetched::There(_)))) && asked == [800 << 10], "{asked:?}");
    assert!(matches!(fetch_within(&machine.store, 1, &key, &mut |_| false), Err(Unloadable::NoRoom)));
    assert!(matches!(fetch(&machine.store, 1, &hasher.key(b"k")), Ok(Some(Fetched::There(_)))));

    let mut machine = machine.restart(2).expect("what was written");
    assert_eq!(run(&mut machine, &["strlen", "k"]), format!(":{}\r\n", 800 << 10));
    assert_eq!(run(&mut machine, &["getrange", "k", "-3", "-1"]), "$3\r\nxxx\r\n");
    run(&mut machine, &["set", "k", "short"]);
    machine.checkpoint();
    assert_eq!(machine.store.leaves(), (0, 0));
}

/// The header estimates its leaves as if elements were short.
#[test]
fn long_elements_are_counted_as_they_are_read() {
    let mut machine = Machine::new(1, Planted::None);
    let long = "x".repeat(300 << 10);
    for field in 0..10 {
        run(&mut machine, &["hset", "k", &field.to_string(), &long]);
    }
    machine.checkpoint();
    let hasher = machine.hand.engine.shared.keyspace.hasher();
    let read = |most: u64| {
        let mut last = 0;
        let found = fetch_within(&machine.store, 1, &hasher.key(b"k"), &mut |bytes| {
            last = bytes;
            bytes <= most
        });
        (matches!(found, Ok(Some(Fetched::There(_)))), last)
    };
    let (is_there, bytes) = read(u64::MAX);
    assert!(is_there && (3000 << 10..6002 << 10).contains(&bytes), "{bytes}");
    assert!(matches!(read(1 << 20), (false, 1_048_577..)));
}

/// A start does not read the value that an effect replaces; but the leaves of that value have to go.
#[test]
fn leaves_go_also_if_the_log_alone_says_what_took_their_place() {
    for over in [&["set", "k", "short"][..], &["set", "k", "7"], &["del", "k"], &["getset", "k", "short"]] {
        let mut machine = Machine::new(1, Planted::None);
        run(&mut machine, &["set", "k", &"x".repeat(600 << 10)]);
        machine.checkpoint();
        run(&mut machine, over);
        let mut machine = machine.restart(2).expect("what was written");
        machine.checkpoint();
        assert_eq!(machine.store.leaves(), (0, 0), "{over:?}");
        machine.counts_are_right().expect("they are");
    }
}
