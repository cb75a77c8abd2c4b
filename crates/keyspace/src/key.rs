//! A key with its slot and hash, computed once when the command is parsed.

use std::hash::{BuildHasher, Hasher};

use crate::slot::slot_of;

/// Hashes keys; the seed is handed in at start, so that hash floods cannot be prepared from outside.
#[derive(Clone)]
pub struct KeyHasher(foldhash::fast::FixedState);

impl KeyHasher {
    /// A hasher for `seed`, the same for the life of the keyspace.
    pub fn new(seed: u64) -> Self {
        Self(foldhash::fast::FixedState::with_seed(seed))
    }

    /// 64-bit hash of `key`. Its high bits choose the table segment and bucket, its low bits the tag.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        let mut h = self.0.build_hasher();
        h.write(key);
        h.finish()
    }

    /// `key` with slot and hash.
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key { bytes, hash: self.hash(bytes), slot: slot_of(bytes) }
    }
}

/// A key's bytes with what locates it.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The key itself.
    pub bytes: &'a [u8],
    /// Its 64-bit hash.
    pub hash: u64,
    /// Its slot, below [`crate::SLOTS`].
    pub slot: u16,
}
