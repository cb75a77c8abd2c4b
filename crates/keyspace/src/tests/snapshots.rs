//! Copies that commands hand over to a snapshot, and how much of them may wait.

use object::hash::Expiry as FieldExpiry;
use object::{Hash, Limits};

use crate::testing::Single;
use crate::{Expiry, Keyspace, Value};

/// About a megabyte each: 40 of them are more than may wait.
const HASHES: u32 = 40;

fn name(n: u32) -> Vec<u8> {
    format!("hash:{n}").into_bytes()
}

/// True if commands have to wait, after each of many large hashes has changed while a snapshot is under way.
fn is_crowded_after(mut change: impl FnMut(&mut crate::Db<'_>, &[u8])) -> bool {
    let ks = Keyspace::new(1, 1, 11);
    let mut single = Single::new(&ks);
    single.with(0, |db| {
        for n in 0..HASHES {
            let mut hash = Hash::new();
            for field in 0..1000u32 {
                hash.set(&field.to_be_bytes(), &[7; 1000], FieldExpiry::Clear, &Limits::default());
            }
            db.set_value(&db.key(&name(n)), Value::Collection(hash.into()), Expiry::Clear);
        }
    });
    let snapshot = single.with_all(|ks, held, _| ks.begin_snapshot(held));
    single.with(0, |db| (0..HASHES).for_each(|n| change(db, &name(n))));
    let crowded = ks.copies_are_too_many();
    let mut taken = Vec::new();
    ks.take_handed(&snapshot, &mut taken);
    assert_eq!(taken.len(), HASHES as usize);
    assert!(!ks.copies_are_too_many());
    crowded
}

#[test]
fn values_that_only_a_snapshot_keeps_count_in_full() {
    assert!(is_crowded_after(|db, name| assert!(db.remove(&db.key(name)))));
    assert!(is_crowded_after(|db, name| {
        db.set_int(&db.key(name), 1, Expiry::Clear);
    }));
    // The other leaves are shared.
    assert!(!is_crowded_after(|db, name| {
        let key = db.key(name);
        let mut hash = db.get_mut::<Hash>(&key).unwrap().unwrap();
        hash.set(b"field", b"value", FieldExpiry::Clear, &Limits::default());
    }));
}
