//! One cache line of a table: seven tags, an overflow counter and seven words.
//!
//! Word 0 holds the tags in bytes 0..7: 0 is empty, a tag has its top bit set. Byte 7 counts the entries whose home is
//! this bucket and that live in one of the next. A word holds the entry's address (48 bits, 4-aligned) and, above it,
//! the 16 hash bits that order the segment. So a segment grows without touching its entries.
//!
//! Words are atomics only because prefetching reads them without the latch; under the latch plain order is enough.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Entries per bucket.
pub(crate) const WAYS: usize = 7;
/// The address in a word.
pub(crate) const ADDRESS: u64 = 0x0000_ffff_ffff_fffc;
const LOW_BYTES: u64 = 0x0001_0101_0101_0101;
const HIGH_BITS: u64 = 0x0080_8080_8080_8080;

#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Bucket {
    tags: AtomicU64,
    words: [AtomicU64; WAYS],
}

/// The tag of a hash: never 0.
#[inline]
pub(crate) fn tag_of(hash: u64) -> u8 {
    hash as u8 | 0x80
}

#[inline]
pub(crate) fn pack(address: u64, frag: u16) -> u64 {
    assert!(address & !ADDRESS == 0, "heap addresses are 48 bits and 4-aligned");
    address | u64::from(frag) << 48
}

/// The ordering hash bits of a word.
#[inline]
pub(crate) fn frag_of(word: u64) -> u16 {
    (word >> 48) as u16
}

impl Bucket {
    /// A bit set (bit 8i+7 for way i) of the ways whose tag may equal `tag`; may hold false positives.
    #[inline]
    pub(crate) fn matches(&self, tag: u8) -> u64 {
        let x = self.tags.load(Relaxed) ^ (LOW_BYTES * u64::from(tag));
        x.wrapping_sub(LOW_BYTES) & !x & HIGH_BITS
    }

    /// A bit set of the ways in use.
    #[inline]
    pub(crate) fn used(&self) -> u64 {
        self.tags.load(Relaxed) & HIGH_BITS
    }

    /// A free way.
    #[inline]
    pub(crate) fn free_way(&self) -> Option<usize> {
        let free = !self.tags.load(Relaxed) & HIGH_BITS;
        (free != 0).then(|| free.trailing_zeros() as usize / 8)
    }

    #[inline]
    pub(crate) fn word(&self, way: usize) -> u64 {
        self.words[way].load(Relaxed)
    }

    /// Replaces the word of a way in use.
    #[inline]
    pub(crate) fn set_word(&self, way: usize, word: u64) {
        self.words[way].store(word, Relaxed);
    }

    #[inline]
    pub(crate) fn occupy(&self, way: usize, tag: u8, word: u64) {
        self.words[way].store(word, Relaxed);
        let tags = self.tags.load(Relaxed);
        self.tags.store(tags & !(0xff << (way * 8)) | u64::from(tag) << (way * 8), Relaxed);
    }

    #[inline]
    pub(crate) fn vacate(&self, way: usize) {
        let tags = self.tags.load(Relaxed);
        self.tags.store(tags & !(0xff << (way * 8)), Relaxed);
        self.words[way].store(0, Relaxed);
    }

    /// The tag of a way in use.
    #[inline]
    pub(crate) fn tag(&self, way: usize) -> u8 {
        (self.tags.load(Relaxed) >> (way * 8)) as u8
    }

    /// How many entries at home here live further on. Sticks at 255.
    #[inline]
    pub(crate) fn overflow(&self) -> u8 {
        (self.tags.load(Relaxed) >> 56) as u8
    }

    pub(crate) fn add_overflow(&self, delta: i8) {
        let now = self.overflow();
        if now != u8::MAX {
            let next = now.wrapping_add_signed(delta);
            self.tags.store(self.tags.load(Relaxed) & (u64::MAX >> 8) | u64::from(next) << 56, Relaxed);
        }
    }
}

/// Iterates over the ways of a bit set made by [`Bucket::matches`] or [`Bucket::used`].
#[derive(Clone, Copy)]
pub(crate) struct Ways(pub(crate) u64);

impl Iterator for Ways {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let way = self.0.trailing_zeros() as usize / 8;
        self.0 &= self.0 - 1;
        Some(way)
    }
}
