//! Values in an ordered store of keys and bytes: small ones as one *record*, large ones as a record (their *header*)
//! and leaves. A checkpoint writes only the changed leaves of a collection, and all those of a string. So no reader or
//! writer of the store needs to hold more than a leaf at once. Formats: `docs/formats.md`, "Values in the store".
//!
//! This module knows neither keys nor stores. For a value to be checkpointed the caller
//!
//! 1. under the key's latch either freezes it ([`Freeze::freeze`] and [`Frozen::of_string`], O(1), what is large) or
//!    saves it ([`save_small`], everything else);
//! 2. off the latch fetches the record that the store has under the same key, and asks a frozen value for its
//!    [`Frozen::changes`] against that;
//! 3. writes in one atomic batch: what [`Changes::discarded`] and [`Changes::removed`] name is deleted, then
//!    [`Changes::leaves`] and [`Changes::header`] are put. If the new record is that of a small value, or the key is
//!    gone, the leaves of the old record's [`object_of`] are deleted.
//!
//! Leaves lie under (object, label), a `u64` each, so that a scan in this order yields them as [`Assembler::add`] takes
//! them.
//!
//! # What makes it safe
//!
//! Each freeze has an *epoch*, a number that no other freeze of any value has or had, not even before a restart. The
//! value remembers the last one, and its header in the store has it too. Leaves are written one by one only if the two
//! are the same: then the store holds exactly the value as it was at that freeze. Otherwise the value is written whole,
//! as a new object that is named after the epoch. That is the case if the checkpoint failed or was never made, and if
//! the key holds a copy of another's value, a renamed one, or an older one after an undo.

mod assemble;
mod frozen;
mod ledger;
mod small;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;

use crate::{Corrupt, Hash, List, Set, Stream, ZSet};

pub use assemble::{Assembled, Assembler, Loaded, load};
pub use frozen::{Changes, Frozen};
pub(crate) use ledger::Ledger;
pub use small::save_small;

/// A collection whose large form consists of this many bytes has leaves of its own in a store; below, it is one record.
pub const LARGE_BYTES: usize = if cfg!(test) { 2 << 10 } else { 16 << 10 };

/// Bytes of a string's leaf, but for the last; shorter strings are one record.
const STRING_LEAF: usize = if cfg!(test) { 1 << 10 } else { 256 << 10 };

/// True if a string of so many bytes has leaves of its own in a store.
pub fn string_has_leaves(len: usize) -> bool {
    len > STRING_LEAF
}

/// The version of all formats here, in the upper half of the first byte of records and leaves.
const VERSION: u8 = 1 << 4;

/// Numbers of what can be saved, in the lower half of the first byte.
mod kind {
    pub(super) const INT: u8 = 0;
    pub(super) const SHORT: u8 = 1;
    pub(super) const RAW: u8 = 2;
    pub(super) const BLOB: u8 = 3;
    pub(super) const LIST: u8 = 4;
    pub(super) const SET: u8 = 5;
    pub(super) const ZSET: u8 = 6;
    pub(super) const HASH: u8 = 7;
    pub(super) const STREAM: u8 = 8;
    /// Added to a collection's number for headers and leaves.
    pub(super) const LARGE: u8 = 5;
    /// Headers and leaves of strings.
    pub(super) const LARGE_STRING: u8 = STREAM + LARGE + 1;
}

/// A value to be saved.
#[derive(Clone, Copy)]
pub enum ValueRef<'a> {
    /// A string that is a canonical integer.
    Int(i64),
    /// A short string.
    Short(&'a [u8]),
    /// A short string that was changed in place.
    Raw(&'a [u8]),
    /// A long string.
    Blob(&'a [u8]),
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

/// A collection that was read.
#[derive(Clone)]
pub enum Collection {
    /// A list.
    List(List),
    /// A set.
    Set(Set),
    /// A sorted set.
    ZSet(ZSet),
    /// A hash.
    Hash(Hash),
    /// A stream.
    Stream(Stream),
}

/// The common operations of large collections.
pub trait Freeze {
    /// True if it is saved as leaves: see [`LARGE_BYTES`]. O(1), but O(groups) for streams.
    fn is_large(&self) -> bool;

    /// The present value, for a checkpoint; `None` if it is not large. O(1): the frozen value shares its leaves.
    ///
    /// `epoch` must never have been handed to another freeze of any value: see the module's text.
    fn freeze(&mut self, epoch: NonZeroU64) -> Option<Frozen>;
}

/// True if a value is to be frozen; others are saved by [`save_small`].
pub fn is_large(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Int(_) | ValueRef::Short(_) | ValueRef::Raw(_) | ValueRef::Blob(_) => false,
        ValueRef::List(list) => list.is_large(),
        ValueRef::Set(set) => set.is_large(),
        ValueRef::ZSet(zset) => zset.is_large(),
        ValueRef::Hash(hash) => hash.is_large(),
        ValueRef::Stream(stream) => stream.is_large(),
    }
}

/// The types of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// Strings of all kinds.
    String,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    ZSet,
    /// Hashes.
    Hash,
    /// Streams.
    Stream,
}

/// The type of the value of a record; only its beginning is read.
///
/// # Errors
///
/// The record is of no type.
pub fn type_of(record: &[u8]) -> Result<Type, Corrupt> {
    const LARGEST: u8 = kind::STREAM + kind::LARGE;
    let number = match record.first().ok_or(CUT)? ^ VERSION {
        small @ ..=kind::STREAM => small,
        kind::LARGE_STRING => kind::BLOB,
        large @ ..=LARGEST => large - kind::LARGE,
        _ => return Err(Corrupt("kind of a value")),
    };
    Ok(match number {
        ..kind::LIST => Type::String,
        kind::LIST => Type::List,
        kind::SET => Type::Set,
        kind::ZSET => Type::ZSet,
        kind::HASH => Type::Hash,
        _ => Type::Stream,
    })
}

/// The object whose leaves belong to a record; `None` if it has none.
pub fn object_of(record: &[u8]) -> Option<u64> {
    header_ids(record).map(|(object, _)| object)
}

/// Object and epoch of a header.
fn header_ids(record: &[u8]) -> Option<(u64, u64)> {
    let (tag, rest) = record.split_first()?;
    let (object, rest) = rest.split_first_chunk()?;
    let (epoch, _) = rest.split_first_chunk()?;
    let large = (kind::LIST + kind::LARGE..=kind::LARGE_STRING).contains(&(tag ^ VERSION));
    large.then(|| (u64::from_le_bytes(*object), u64::from_le_bytes(*epoch)))
}

const CUT: Corrupt = Corrupt("record cut short");
