//! Values as one record.

use super::{VERSION, ValueRef, kind};
use crate::hashed::varint;

/// Appends the record of a value, in time and space proportional to it. Large collections can be saved in this way,
/// too, if necessary.
pub fn save_small(value: ValueRef<'_>, out: &mut Vec<u8>) {
    let kind = match value {
        ValueRef::Int(_) => kind::INT,
        ValueRef::Short(_) => kind::SHORT,
        ValueRef::Raw(_) => kind::RAW,
        ValueRef::Blob(_) => kind::BLOB,
        ValueRef::List(_) => kind::LIST,
        ValueRef::Set(_) => kind::SET,
        ValueRef::ZSet(_) => kind::ZSET,
        ValueRef::Hash(_) => kind::HASH,
        ValueRef::Stream(_) => kind::STREAM,
    };
    out.push(VERSION | kind);
    match value {
        ValueRef::Int(int) => varint::write(out, zigzag(int)),
        ValueRef::Short(bytes) | ValueRef::Raw(bytes) | ValueRef::Blob(bytes) => out.extend_from_slice(bytes),
        ValueRef::List(list) => list.encode(out),
        ValueRef::Set(set) => set.encode(out),
        ValueRef::ZSet(zset) => zset.encode(out),
        ValueRef::Hash(hash) => hash.encode(out),
        ValueRef::Stream(stream) => stream.save(out),
    }
}

fn zigzag(int: i64) -> u64 {
    ((int << 1) ^ (int >> 63)) as u64
}

/// The record that `save_small` made of an integer.
pub(super) fn load_int(bytes: &[u8]) -> Option<i64> {
    let (number, size) = varint::read(bytes)?;
    (size == bytes.len()).then_some((number >> 1) as i64 ^ -((number & 1) as i64))
}
