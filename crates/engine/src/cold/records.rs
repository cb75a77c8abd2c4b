//! Keys of one slot with their values, as a store has them: for a walk that wants all values.

use keyspace::{Fetched, Space, Unreadable};

/// About so many bytes of keys and values are read at once, and one value more.
pub(crate) const BYTES_AT_ONCE: usize = if cfg!(test) { 300 } else { 512 << 10 };
/// Keys that are listed at once by a source that reads them one by one.
pub(super) const KEYS_AT_ONCE: usize = if cfg!(test) { 3 } else { 256 };

/// A key with its value.
pub struct Stored {
    /// Its name.
    pub key: Box<[u8]>,
    /// Its value as the store has it, or the reason why the store cannot give it.
    pub fetched: Result<Fetched, Unreadable>,
}

/// A part of a slot.
#[derive(Default)]
pub struct Records {
    /// Its keys with their values, in the order of the upper halves of their hashes. A value that cannot be read
    /// matters only if memory does not have the key.
    pub records: Vec<Stored>,
    /// The hash at which the part ends; its lower half is 0. `None`: at the end of the slot.
    pub until: Option<u64>,
}

/// Records of a slot of a physical database that a walk has read ahead, and the time when it read them.
pub(crate) struct ReadAhead {
    /// Keys with their hashes and values, the lowest hash last.
    pub(crate) records: Vec<(u64, Stored)>,
    /// As in [`Records`].
    pub(crate) until: Option<u64>,
    pub(crate) space: Space,
    pub(crate) coverings: u64,
}
