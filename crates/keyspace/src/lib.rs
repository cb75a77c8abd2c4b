//! Slots, latches, tables, entries, versions, expiry, eviction and memory accounting.
//!
//! From the outside in: a [`Keyspace`] has 16384 slots. A command takes the latches of its keys' slots ([`Held`]) and
//! sees one logical database through them ([`Db`]). Inside, a slot's line holds the latch and the root of its `table`,
//! a table is made of `segment`s of `bucket`s, and a bucket's words point to [`entry`] blocks from the [`heap`].

#![warn(clippy::missing_errors_doc)]

pub mod access;
mod acquire;
mod bucket;
mod cold;
mod counts;
mod db;
mod dying;
mod entry;
mod epoch;
mod flush;
pub mod heap;
mod image;
mod key;
mod keyspace;
mod latch;
mod local;
mod lot;
mod mark;
mod seen;
mod segment;
mod sizes;
mod slot;
mod snapshot;
mod space;
mod sync;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tombstone;
mod value;
mod version;
mod walk;

pub use cold::{ColdFigures, Fetched, Record, Ticket, Unreadable, Whereabouts};
pub use counts::{Counts, Unpublished};
pub use db::{Db, EntryRef, Expiry, Hidden, Over, Saved, Str, WrongType};
pub use entry::{INLINE_MAX, KEY_MAX};
pub use flush::Reclaim;
pub use image::SharedImage;
pub use key::{Key, KeyHasher};
pub use keyspace::{Held, Keyspace, Need};
pub use local::{Counters, Local, Sighted, Sighting, bump};
pub use lot::Waiter;
pub use mark::Mark;
pub use object::number::parse_i64 as canonical_int;
pub use seen::Horizon;
pub use sizes::{Changing, Measured, SIZED_TYPES, SIZES};
pub use slot::{SLOTS, crc16, slot_of};
pub use snapshot::{Kept, Snapshot};
pub use space::{Databases, Space};
pub use table::Tidied;
pub use tombstone::PhysicalKey;
pub use value::{AnyCollection, Blob, Collection, Kind, Value};
pub use version::{STREAM_BITS, STREAMS, VERSION_BITS, Version};
