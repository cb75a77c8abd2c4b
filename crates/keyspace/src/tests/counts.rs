//! The number of keys, as other threads see it while keys move, are replaced, come and go.

use clocks::UnixMs;

use super::name;
use crate::access::AccessClock;
use crate::{Db, Expiry, Fetched, Keyspace, Mark, Record, Value, Version};

/// Miri is slow.
const TURNS: u64 = if cfg!(miri) { 20 } else { 20_000 };
const KEYS: u64 = 3;

/// The store's state of a key, as fetched.
fn stored(db: &Db<'_>, key: &crate::Key<'_>) -> Fetched {
    let Some(entry) = db.peek(key) else { panic!("it is there") };
    let mark = Mark::live(entry.expiry().is_some(), false, false);
    entry.entry().set_mark(mark);
    let value = Value::Short(entry.string().unwrap().to_vec().as_slice().into());
    Fetched::There(Record { value, expiry: entry.expiry(), access: 7, version: entry.version(), mark })
}

#[test]
fn a_key_that_moves_or_is_replaced_is_there_once() {
    let ks = Keyspace::new(2, 1, 1);
    let mut local = ks.local(0);
    let names: Vec<Vec<u8>> = (0..KEYS).map(|n| [b"{tag}".as_slice(), &name(n as u16)].concat()).collect();
    let slot = ks.hasher().key(&names[0]).slot;
    let mut version = Version::ZERO;
    let mut act = |f: &mut dyn FnMut(&mut Db<'_>)| {
        local.begin_turn();
        let Some(held) = ks.try_one(slot) else { panic!("nobody else takes latches") };
        version.0 += 1;
        let clock = AccessClock::new(1);
        f(&mut Db::new(&ks, &held, &mut local, &clock, 0, version));
        local.publish_counts();
        ks.release(held, |_| {});
        local.end_turn();
        version
    };
    act(&mut |db| {
        names.iter().for_each(|name| db.set_string(&db.key(name), b"short", false, Expiry::At(UnixMs(1000))))
    });
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            for turn in 0..TURNS {
                let name = &names[(turn % KEYS) as usize];
                let written =
                    act(&mut |db| db.set_value(&db.key(name), Value::Short(b"other".as_slice().into()), Expiry::Keep));
                ks.set_covered(slot, written);
                let mut kept = None;
                act(&mut |db| {
                    let key = db.key(name);
                    kept = Some(stored(db, &key));
                    assert!(db.evict(&key));
                });
                act(&mut |db| {
                    let key = db.key(name);
                    db.know_now(&key, kept.take(), |_| {});
                    db.let_go(&key);
                });
                act(&mut |db| {
                    let key = db.key(name);
                    let Some((value, expiry)) = db.take(&key) else { panic!("it is there") };
                    db.set_value(&key, value, Expiry::At(expiry.unwrap_or_default()));
                });
            }
        });
        while !mover.is_finished() {
            assert_eq!((ks.len(0), ks.expires(0)), (KEYS, KEYS));
        }
    });
}
