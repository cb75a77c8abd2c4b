//! Files of Redis: any bytes are read or are refused. A value that is read is written for every target, and read the
//! same.
//!
//! ```text
//! fuzz/seeds && cargo +nightly fuzz run rdb -- -max_len=4096
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use object::Limits;
use rdb::{EntryRef, Item, Reader, Target, Value, Writer, Written, aof};

const TARGETS: [Target; 4] = [Target::Redis72, Target::Redis80, Target::Redis88, Target::Valkey9];

/// Reads a file to its end or its first fault, and returns its values with their keys.
fn read(file: &[u8], limits: &Limits) -> Vec<(Vec<u8>, Value<'static>)> {
    let mut values = Vec::new();
    let Ok(reader) = Reader::new(file) else { return values };
    let mut reader = reader.skip_foreign(true);
    while let Ok(Some(item)) = reader.next_item() {
        assert!(reader.offset() <= file.len() as u64);
        let Item::Entry(entry) = item else { continue };
        assert!(entry.value_len() <= file.len());
        if let Ok(value) = entry.value(limits) {
            values.push((entry.key.clone(), owned(value)));
        }
    }
    values
}

fn owned(value: Value<'_>) -> Value<'static> {
    match value {
        Value::String(bytes) => Value::String(bytes.into_owned().into()),
        Value::List(list) => Value::List(list),
        Value::Set(set) => Value::Set(set),
        Value::ZSet(zset) => Value::ZSet(zset),
        Value::Hash(hash) => Value::Hash(hash),
        Value::Stream(stream) => Value::Stream(stream),
    }
}

/// A value's bytes once it was written and read: from then on they stay.
fn settled(value: &Value<'_>, limits: &Limits) -> Vec<u8> {
    let payload = object::rdb::dump(value.as_value_ref());
    let again = object::rdb::restore(&payload, limits).unwrap_or_else(|refused| panic!("{refused:?}: {payload:x?}"));
    object::rdb::dump(again.as_value_ref())
}

fuzz_target!(|data: &[u8]| {
    // The first byte makes collections change their form early or late.
    let Some((&size, file)) = data.split_first() else { return };
    let size = usize::from(size) * 4;
    let limits = Limits {
        list_max_listpack_size: size as i32,
        hash_max_listpack_entries: size,
        set_max_intset_entries: size,
        set_max_listpack_entries: size,
        zset_max_listpack_entries: size,
        ..Limits::default()
    };
    let values = read(file, &limits);
    for target in TARGETS {
        let mut writer = Writer::new(Vec::new(), target).expect("memory takes all");
        let mut held = Vec::new();
        for (key, value) in &values {
            let written = writer.entry(EntryRef::new(0, key, value.as_value_ref())).expect("memory takes all");
            if written == Written::Yes {
                held.push((key, value));
            }
        }
        let again = read(&writer.finish().expect("memory takes all"), &limits);
        assert_eq!(again.len(), held.len());
        for ((key, value), (key_before, before)) in again.iter().zip(held) {
            assert_eq!(key, key_before);
            assert_eq!(settled(value, &limits), settled(before, &limits), "{value:?} {target:?}");
        }
    }
    let mut reader = aof::Reader::new(file).skip_foreign(true);
    while let Ok(Some(_)) = reader.next_step() {
        assert!(reader.offset() <= file.len() as u64);
    }
    if let Some(tail) = reader.tail() {
        assert_eq!(tail.whole + tail.lost, file.len() as u64);
    }
    let _ = aof::Manifest::parse(file);
});
