//! Keys read from the store one by one are those that a start would have loaded.

use clocks::UnixMs;
use command::{Digest, Position};
use keyspace::access::AccessClock;
use keyspace::{Db, Fetched, Keyspace, Need, SLOTS, Version};
use store::Store;

use super::model::{DATABASES, Machine};
use crate::checkpoint::format;
use crate::checkpoint::list::list;
use crate::checkpoint::round::Planted;
use crate::checkpoint::{fetch, fetch_from, header};
use crate::cold::{Names, Span};

#[test]
fn one_key_after_the_other() {
    for seed in 0..5 {
        let mut machine = Machine::new(seed, Planted::None);
        (0..400).for_each(|_| machine.hand.act());
        machine.checkpoint();
        let wanted = machine.digest();
        let databases = header(&machine.store).expect("our own").expect("there is a checkpoint").databases;
        let keyspace = Keyspace::new(1, DATABASES, 7);
        let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { panic!("nobody else is there") };
        assert!(keyspace.restore_databases(&held, &databases));
        let (mut local, clock) = (keyspace.local(0), AccessClock::new(7));
        let snapshot = machine.store.snapshot();
        for logical in 0..DATABASES as u16 {
            let space = databases.spaces[usize::from(keyspace.physical(logical))];
            for entry in snapshot.prefix(&format::space_prefix(space)) {
                let (stored_key, value) = entry.expect("it can be read");
                let (bytes, _) = format::read_entry(&stored_key, &value).expect("our own");
                let key = keyspace.hasher().key(&bytes);
                let now = fetch(&machine.store, space, &key).expect("our own").expect("it is there");
                let then = fetch_from(&*snapshot, space, &key).expect("our own").expect("it is there");
                assert_eq!(now.version(), then.version());
                Db::new(&keyspace, &held, &mut local, &clock, logical, Version::ZERO).warm(&key, Some(now));
            }
            let nobody = keyspace.hasher().key(b"nobody");
            assert!(fetch(&machine.store, space, &nobody).expect("our own").is_none());
        }
        let digest =
            Digest::of_everything(&mut Db::new(&keyspace, &held, &mut local, &clock, 0, Version(1)), UnixMs(0));
        keyspace.release(held, |_| {});
        assert_eq!(digest, wanted, "seed {seed}");
    }
}

/// The store's key has only the beginning of a long name, also of a key that is gone.
#[test]
fn long_keys() {
    let mut machine = Machine::new(1, Planted::None);
    let long = "{t}".repeat(20_000);
    crate::testing::run(&mut machine.hand.engine, 0, &["set", &long, "value"]);
    machine.checkpoint();
    let keyspace = &machine.hand.engine.shared.keyspace;
    let key = keyspace.hasher().key(long.as_bytes());
    assert!(matches!(fetch(&machine.store, 1, &key), Ok(Some(Fetched::There(_)))));
    let mut other = long.clone();
    other.replace_range(59_999.., "|");
    assert!(matches!(fetch(&machine.store, 1, &keyspace.hasher().key(other.as_bytes())), Ok(None)));
}

/// Portions of a listing, however small, add up to all keys, even if keys expire between two of them.
#[test]
fn names_in_portions() {
    let mut machine = Machine::new(3, Planted::None);
    (0..400).for_each(|_| machine.hand.act());
    machine.checkpoint();
    let databases = header(&machine.store).expect("our own").expect("there is a checkpoint").databases;
    let keyspace = &machine.hand.engine.shared.keyspace;
    let snapshot = machine.store.snapshot();
    let mut listed = 0;
    for space in databases.spaces.iter().copied().filter(|space| *space > 0) {
        let mut wanted = Vec::new();
        for entry in snapshot.prefix(&format::space_prefix(space)) {
            let (stored_key, value) = entry.expect("it can be read");
            let (key, stored) = format::read_entry(&stored_key, &value).expect("our own");
            let format::Stored::Entry(head, _) = stored else { continue };
            let Some(Fetched::There(record)) =
                fetch(&machine.store, space, &keyspace.hasher().key(&key)).expect("our own")
            else {
                panic!("it is there")
            };
            assert_eq!((head.expiry, head.field_expiry), (record.expiry, record.value.field_expiry()));
            wanted.push((key, head.expiry, head.field_expiry, record.value.kind().type_name()));
        }
        for most in [1, 3, 1000] {
            let mut span = Span { from: Position::default(), end: SLOTS as u16, most };
            let mut found = Vec::new();
            loop {
                let Names { names, until } = list(&machine.store, space, span).expect("our own");
                for name in names {
                    let at = Position { slot: name.slot, hash: keyspace.hasher().key(&name.key).hash };
                    assert!(span.from <= at && until.is_none_or(|until| at < until), "{at:?} in {span:?}");
                    found.push((name.key, name.expiry, name.fields, name.kind.type_name()));
                }
                let Some(until) = until else { break };
                assert!(span.from < until && most < 1000);
                span.from = until;
            }
            assert_eq!(found, wanted);
        }
        listed += wanted.len();
    }
    assert!(listed > 10);
}
