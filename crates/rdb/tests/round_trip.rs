//! Every file that is written can be read again, for every target.

mod support;

use clocks::UnixMs;
use proptest::prelude::*;
use rdb::{EntryRef, Item, Target, Writer, Written};
use support::{TARGETS, bytes, described, entries, file_of, items, value};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    #[test]
    fn values_come_back(
        values in proptest::collection::vec((bytes(), value(), 0u64..4, prop::option::of((0u64..1 << 62).prop_map(UnixMs))), 0..5),
        idle in prop::option::of(0u64..1 << 33),
        frequency in prop::option::of(any::<u8>()),
    ) {
        for target in TARGETS {
            let mut writer = Writer::new(Vec::new(), target).unwrap();
            let mut held = Vec::new();
            for (key, value, db, expiry) in &values {
                let entry =
                    EntryRef { db: *db, key, value: value.as_value_ref(), expiry: *expiry, idle, frequency };
                match writer.entry(entry).unwrap() {
                    Written::Yes => held.push((key, value, *db, *expiry)),
                    Written::CannotHold(_) => prop_assert!(target != Target::Redis88),
                }
            }
            let file = writer.finish().unwrap();
            let read = entries(&file).unwrap();
            prop_assert_eq!(read.len(), held.len());
            for (read, (key, value, db, expiry)) in read.iter().zip(held) {
                prop_assert_eq!((&read.key, read.db, read.expiry), (key, db, expiry));
                prop_assert_eq!((read.idle, read.frequency), (idle, frequency));
                prop_assert_eq!(described(&read.value(&Default::default()).unwrap()), described(value));
                // RESTORE takes it as well.
                let payload = read.clone().into_payload(&Default::default()).unwrap();
                let restored = object::rdb::restore(&payload, &Default::default()).unwrap();
                prop_assert_eq!(described(&restored), described(value));
            }
        }
    }
}

#[test]
fn what_a_target_cannot_hold_is_named() {
    let held = |target: Target, value: &rdb::Value<'_>| {
        let mut writer = Writer::new(Vec::new(), target).unwrap();
        let written =
            writer.entry(EntryRef { expiry: Some(UnixMs(1)), ..EntryRef::new(2, b"k", value.as_value_ref()) }).unwrap();
        let _: Written = writer.entry(EntryRef::new(2, b"next", rdb::ValueRef::String(b"v"))).unwrap();
        let file = writer.finish().unwrap();
        let keys = entries(&file).unwrap();
        // The next key gets none of the fields of this one.
        let next = keys.last().unwrap();
        assert_eq!((next.key.as_slice(), next.expiry, next.db), (&b"next"[..], None, 2));
        assert_eq!(keys.len(), if written == Written::Yes { 2 } else { 1 });
        written
    };
    let samples = support::samples();
    let expiring: Vec<usize> = vec![11, 13];
    let released = 15;
    for (at, value) in samples.iter().enumerate() {
        for target in TARGETS {
            let can = match target {
                Target::Redis72 => !expiring.contains(&at) && at != released,
                Target::Redis80 | Target::Valkey9 => at != released,
                Target::Redis88 => true,
            };
            assert_eq!(held(target, value) == Written::Yes, can, "{at} {target:?}");
        }
    }
}

#[test]
fn fields_and_functions_are_read() {
    let mut writer = Writer::new(Vec::new(), Target::Redis72).unwrap();
    writer.aux(b"redis-bits", b"64").unwrap();
    writer.function(b"#!lua name=x").unwrap();
    writer.database(3, 1000, 5).unwrap();
    let _: Written = writer.entry(EntryRef::new(3, b"k", rdb::ValueRef::String(b"v"))).unwrap();
    let file = writer.finish().unwrap();
    let read = items(&file).unwrap();
    assert_eq!(read[0], Item::Aux { name: b"redis-bits".to_vec(), value: b"64".to_vec() });
    assert_eq!(read[1], Item::Function(b"#!lua name=x".to_vec()));
    assert_eq!(read[2], Item::Size { db: 3, keys: 1000, expires: 5 });
    assert!(matches!(&read[3], Item::Entry(entry) if entry.db == 3 && entry.key == b"k"));
    assert_eq!(read.len(), 4);
    // The last eight bytes are the checksum.
    assert!(!file_of(Target::Redis88, &[]).ends_with(&[0; 8]));
}

/// Writes files of all samples for the fuzz target, with the byte that it takes first, into the folder `RDB_SEEDS`.
#[test]
fn seeds_are_written_if_asked_for() {
    for target in TARGETS {
        for (at, value) in support::samples().iter().enumerate() {
            let file = file_of(
                target,
                &[EntryRef { expiry: Some(UnixMs(1)), ..EntryRef::new(0, b"k", value.as_value_ref()) }],
            );
            assert!(entries(&file).unwrap().len() <= 1);
            if let Some(folder) = std::env::var_os("RDB_SEEDS") {
                let name = format!("seed-sample-{target:?}-{at}");
                std::fs::write(std::path::Path::new(&folder).join(name), [&[0x20], file.as_slice()].concat()).unwrap();
            }
        }
    }
}
