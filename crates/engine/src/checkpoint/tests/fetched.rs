//! Keys read from the store one by one are what a start would have loaded.

use command::Digest;
use keyspace::access::AccessClock;
use keyspace::{Db, Keyspace, Need};
use store::Store;

use super::model::{DATABASES, Machine};
use crate::checkpoint::format;
use crate::checkpoint::round::Planted;
use crate::checkpoint::{fetch, fetch_from, header};

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
                now.install(&keyspace, &held, &mut local, &clock, logical, &key);
            }
            let nobody = keyspace.hasher().key(b"nobody");
            assert!(fetch(&machine.store, space, &nobody).expect("our own").is_none());
        }
        let digest = Digest::of_everything(&mut Db::new(&keyspace, &held, &mut local, &clock, 0, 1), 0);
        keyspace.release(held, |_| {});
        assert_eq!(digest, wanted, "seed {seed}");
    }
}

/// The store's key says only the beginning of a long one, also of one that is gone.
#[test]
fn long_keys() {
    let mut machine = Machine::new(1, Planted::None);
    let long = "{t}".repeat(20_000);
    crate::testing::run(&mut machine.hand.engine, 0, &["set", &long, "value"]);
    machine.checkpoint();
    let keyspace = &machine.hand.engine.shared.keyspace;
    let key = keyspace.hasher().key(long.as_bytes());
    assert!(matches!(fetch(&machine.store, 1, &key), Ok(Some(crate::checkpoint::Fetched::There(_)))));
    let mut other = long.clone();
    other.replace_range(59_999.., "|");
    assert!(matches!(fetch(&machine.store, 1, &keyspace.hasher().key(other.as_bytes())), Ok(None)));
}
