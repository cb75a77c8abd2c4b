//! Values in Redis's RDB format: DUMP and RESTORE payloads, and what the files of the crate `rdb` hold.
//!
//! A payload is one value, its version and a checksum:
//!
//! ```text
//! type (1), value, RDB version (2, little-endian), CRC-64 of all before (8, little-endian)
//! ```
//!
//! The bytes are those of Redis 8, so that it restores them. The reader takes the bytes of any Redis since 2.4. A
//! payload may come from any client. So the reader always checks what Redis checks under `sanitize-dump-payload yes`,
//! and accepts no duplicates. It allocates no more than a small multiple of the bytes it has seen (LZF may expand 88
//! times).

mod fault;
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
pub mod walk;
mod ziplist;

pub use fault::describe;
pub use footer::VERSION;

use output::Output;

use crate::{Corrupt, Hash, Limits, List, Set, Stream, ZSet};
use std::borrow::Cow;
use std::fmt;

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

impl Value<'_> {
    /// The value as it is written.
    pub fn as_value_ref(&self) -> ValueRef<'_> {
        match self {
            Value::String(bytes) => ValueRef::String(bytes),
            Value::List(list) => ValueRef::List(list),
            Value::Set(set) => ValueRef::Set(set),
            Value::ZSet(zset) => ValueRef::ZSet(zset),
            Value::Hash(hash) => ValueRef::Hash(hash),
            Value::Stream(stream) => ValueRef::Stream(stream),
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::String(bytes) => write!(f, "string '{}'", bytes.escape_ascii()),
            Value::List(list) => write!(f, "list of {}", list.len()),
            Value::Set(set) => write!(f, "set of {}", set.len()),
            Value::ZSet(zset) => write!(f, "sorted set of {}", zset.len()),
            Value::Hash(hash) => write!(f, "hash of {}", hash.len()),
            Value::Stream(stream) => write!(f, "stream of {}", stream.len()),
        }
    }
}

/// Why a payload is not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its version is newer than [`VERSION`], or its checksum is wrong.
    Frame,
    /// It does not hold one consistent value of a known type.
    Value(Corrupt),
}

/// Which servers a type byte is of: some numbers mean one thing to Redis and another to Valkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Redis, and Valkey before 9.
    Redis,
    /// Valkey from 9 on.
    Valkey,
}

/// A server that values are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Redis 7.2 (RDB 11), and Valkey 7.2 and 8.
    Redis72,
    /// Redis 7.4 to 8.4 (RDB 12).
    Redis80,
    /// Redis 8.8 (RDB 14).
    Redis88,
    /// Valkey 9 (RDB 80).
    Valkey9,
}

/// The part of a value that a target has no form for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotHold(pub &'static str);

/// The reason why a collection without elements is refused. Redis has none, but some versions have written them: a
/// reader of a file skips such a key.
pub const EMPTY: Corrupt = Corrupt("empty collection");

/// The payload of a value (DUMP).
pub fn dump(value: ValueRef<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    save::value(&mut Output::new(&mut payload, true), value);
    footer::seal(&mut payload);
    payload
}

/// The value of a payload (RESTORE); `limits` decide its encoding.
///
/// # Errors
///
/// The payload has another version or checksum, or its value is damaged.
pub fn restore<'a>(payload: &'a [u8], limits: &Limits) -> Result<Value<'a>, Refused> {
    let body = footer::open(payload, false).ok_or(Refused::Frame)?;
    load::value(body, Dialect::Redis, limits).map_err(Refused::Value)
}

/// As [`restore`], but the checksum may be wrong.
///
/// # Errors
///
/// The payload has another version, or its value is damaged.
pub fn restore_unchecked<'a>(payload: &'a [u8], limits: &Limits) -> Result<Value<'a>, Refused> {
    let body = footer::open(payload, true).ok_or(Refused::Frame)?;
    load::value(body, Dialect::Redis, limits).map_err(Refused::Value)
}

/// The value of a file: its type byte and what follows, from the first byte to the last; `limits` decide its encoding.
///
/// # Errors
///
/// The value is damaged.
pub fn decode<'a>(body: &'a [u8], dialect: Dialect, limits: &Limits) -> Result<Value<'a>, Corrupt> {
    load::value(body, dialect, limits)
}

/// The string that `bytes` hold from their first to their last.
///
/// # Errors
///
/// The bytes are no string.
pub fn decode_string(bytes: &[u8]) -> Result<Cow<'_, [u8]>, Corrupt> {
    let mut input = input::Input::new(bytes);
    let string = input.string()?;
    input.finish()?;
    Ok(string)
}

/// Appends a value's type byte and its bytes, as `target` reads them. Nothing is appended if it cannot hold the value.
/// `compresses`: texts are compressed where that makes them shorter.
///
/// # Errors
///
/// The target has no form for the value.
pub fn encode(out: &mut Vec<u8>, value: ValueRef<'_>, target: Target, compresses: bool) -> Result<(), CannotHold> {
    let out = &mut Output::new(out, compresses);
    if let ValueRef::Hash(hash) = value
        && hash.next_expiry().is_some()
    {
        match target {
            Target::Redis72 => return Err(CannotHold("fields of a hash that expire")),
            Target::Valkey9 => save::hash_of_valkey(out, hash),
            Target::Redis80 | Target::Redis88 => save::value(out, value),
        }
        return Ok(());
    }
    if let ValueRef::Stream(stream) = value
        && target != Target::Redis88
        && stream.groups.iter().any(|(_, group)| group.released_len() > 0)
    {
        return Err(CannotHold("entries of a stream's group that XNACK has released"));
    }
    save::value(out, value);
    Ok(())
}

/// Appends a string. `compresses`: as for [`encode`].
pub fn encode_string(out: &mut Vec<u8>, bytes: &[u8], compresses: bool) {
    output::string(&mut Output::new(out, compresses), bytes);
}

/// Appends a length or a count.
pub fn encode_length(out: &mut Vec<u8>, length: u64) {
    output::length(out, length);
}

/// Appends version and checksum to a type and a value, so that [`restore`] reads the contents: for its tests.
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
    /// Of the release candidates of Redis 4: only the module knows where it ends.
    pub(super) const MODULE_PRE_GA: u8 = 6;
    pub(super) const MODULE_2: u8 = 7;
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
    /// From Valkey 9, with the number of a release candidate of Redis: a hash with times of expiry.
    pub(super) const VALKEY_HASH_2: u8 = 22;
    pub(super) const HASH_METADATA: u8 = 24;
    pub(super) const HASH_LISTPACK_EX: u8 = 25;
    /// Before Redis 7.
    pub(super) const STREAM_LISTPACKS: u8 = 15;
    /// Of Redis 7.0.
    pub(super) const STREAM_LISTPACKS_2: u8 = 19;
    pub(super) const STREAM_LISTPACKS_3: u8 = 21;
    /// Of Redis 8.6, with its state for idempotent producers.
    pub(super) const STREAM_LISTPACKS_4: u8 = 26;
    /// Of Redis 8.8, with entries without a consumer.
    pub(super) const STREAM_LISTPACKS_5: u8 = 27;
    /// Of Redis 8.8.
    pub(super) const ARRAY: u8 = 28;
    pub(super) const RATE_LIMITER: u8 = 29;
}
