//! DUMP and RESTORE payloads: one value in Redis's RDB format, its version and a checksum.
//!
//! ```text
//! type (1), value, RDB version (2, little-endian), CRC-64 of all before (8, little-endian)
//! ```
//!
//! Written is what Redis 8 writes, so that it restores it; read is whatever any Redis since 2.4 has written. Payloads come from
//! anybody: reading always checks what Redis checks under `sanitize-dump-payload yes`, allocates no more than a small multiple of
//! the bytes it has seen (LZF may expand 88 times), and accepts no duplicates.

mod footer;
mod input;
mod listpack;
mod load;
mod lzf;
mod output;
mod save;
mod stream;
#[cfg(test)]
mod tests;
mod ziplist;

pub use footer::VERSION;

use crate::{Corrupt, Hash, Limits, List, Set, Stream, ZSet};
use std::borrow::Cow;

/// A value read from a payload.
#[derive(Clone)]
pub enum Value<'a> {
    /// A string, borrowed from the payload where it stands there verbatim.
    String(Cow<'a, [u8]>),
    /// A list.
    List(List),
    /// A set.
    Set(Set),
    /// A sorted set.
    ZSet(ZSet),
    /// A hash. Fields whose time has passed are there.
    Hash(Hash),
    /// A stream.
    Stream(Stream),
}

/// A value to be written.
#[derive(Clone, Copy)]
pub enum ValueRef<'a> {
    /// A string.
    String(&'a [u8]),
    /// A list.
    List(&'a List),
    /// A set.
    Set(&'a Set),
    /// A sorted set.
    ZSet(&'a ZSet),
    /// A hash.
    Hash(&'a Hash),
    /// A stream.
    Stream(&'a Stream),
}

/// Why a payload is not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its version is newer than [`VERSION`], or its checksum is wrong.
    Frame,
    /// It does not hold one consistent value of a known type.
    Value(Corrupt),
}

/// The payload of a value (DUMP).
pub fn dump(value: ValueRef<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    save::value(&mut payload, value);
    footer::seal(&mut payload);
    payload
}

/// The value of a payload (RESTORE); `limits` decide its encoding.
pub fn restore<'a>(payload: &'a [u8], limits: &Limits) -> Result<Value<'a>, Refused> {
    let body = footer::open(payload).ok_or(Refused::Frame)?;
    load::value(body, limits).map_err(Refused::Value)
}

/// Appends version and checksum to a type and a value, so that [`restore`] looks at what they hold: for tests of it.
pub fn seal(body: &mut Vec<u8>) {
    footer::seal(body);
}

/// Type bytes of RDB (`RDB_TYPE_*`).
mod kind {
    pub(super) const STRING: u8 = 0;
    pub(super) const LIST: u8 = 1;
    pub(super) const SET: u8 = 2;
    pub(super) const ZSET: u8 = 3;
    pub(super) const HASH: u8 = 4;
    pub(super) const ZSET_2: u8 = 5;
    pub(super) const HASH_ZIPMAP: u8 = 9;
    pub(super) const LIST_ZIPLIST: u8 = 10;
    pub(super) const SET_INTSET: u8 = 11;
    pub(super) const ZSET_ZIPLIST: u8 = 12;
    pub(super) const HASH_ZIPLIST: u8 = 13;
    pub(super) const LIST_QUICKLIST: u8 = 14;
    pub(super) const HASH_LISTPACK: u8 = 16;
    pub(super) const ZSET_LISTPACK: u8 = 17;
    pub(super) const LIST_QUICKLIST_2: u8 = 18;
    pub(super) const SET_LISTPACK: u8 = 20;
    /// Of the release candidates of Redis 7.4, as the next.
    pub(super) const HASH_METADATA_RC: u8 = 22;
    pub(super) const HASH_LISTPACK_EX_RC: u8 = 23;
    pub(super) const HASH_METADATA: u8 = 24;
    pub(super) const HASH_LISTPACK_EX: u8 = 25;
    /// Before Redis 7.
    pub(super) const STREAM_LISTPACKS: u8 = 15;
    /// Of Redis 7.0.
    pub(super) const STREAM_LISTPACKS_2: u8 = 19;
    pub(super) const STREAM_LISTPACKS_3: u8 = 21;
    /// Of Redis 8.6, with what it keeps for idempotent producers.
    pub(super) const STREAM_LISTPACKS_4: u8 = 26;
    /// Of Redis 8.8, with entries that nobody has.
    pub(super) const STREAM_LISTPACKS_5: u8 = 27;
}
