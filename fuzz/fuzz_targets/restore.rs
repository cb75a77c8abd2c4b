//! RESTORE payloads: any bytes inside a correct frame are a value or are refused; a value is dumped and restored the
//! same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use object::Limits;
use object::rdb::{Value, ValueRef, dump, restore, seal};

fn dump_of(value: &Value<'_>) -> Vec<u8> {
    dump(match value {
        Value::String(bytes) => ValueRef::String(bytes),
        Value::List(list) => ValueRef::List(list),
        Value::Set(set) => ValueRef::Set(set),
        Value::ZSet(zset) => ValueRef::ZSet(zset),
        Value::Hash(hash) => ValueRef::Hash(hash),
        Value::Stream(stream) => ValueRef::Stream(stream),
    })
}

fn memory(value: &Value<'_>) -> usize {
    match value {
        Value::String(bytes) => bytes.len(),
        Value::List(list) => list.memory(),
        Value::Set(set) => set.memory(),
        Value::ZSet(zset) => zset.memory(),
        Value::Hash(hash) => hash.memory(),
        Value::Stream(stream) => stream.memory(),
    }
}

fuzz_target!(|data: &[u8]| {
    // The first byte makes collections change their form early or late.
    let Some((&size, body)) = data.split_first() else { return };
    let size = usize::from(size) * 4;
    let limits = Limits {
        list_max_listpack_size: size as i32,
        hash_max_listpack_entries: size,
        set_max_intset_entries: size,
        set_max_listpack_entries: size,
        zset_max_listpack_entries: size,
        ..Limits::default()
    };
    let _ = restore(body, &limits);
    let mut payload = body.to_vec();
    seal(&mut payload);
    let Ok(value) = restore(&payload, &limits) else { return };
    // LZF makes 88 bytes of one at most; an element of a collection costs a few dozen bytes beside its own.
    assert!(memory(&value) <= 64 * 1024 + payload.len() * 88 * 64, "{} of {}", memory(&value), payload.len());
    let first = dump_of(&value);
    let again = restore(&first, &limits).unwrap_or_else(|refused| panic!("{refused:?}: {first:x?}"));
    let second = dump_of(&again);
    let third = restore(&second, &limits).unwrap_or_else(|refused| panic!("{refused:?}: {second:x?}"));
    assert_eq!(dump_of(&third), second, "a value that was dumped stays as it is");
});
