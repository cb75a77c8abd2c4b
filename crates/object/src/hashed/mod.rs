//! The large form of hashes and sets: a leaf tree ordered by a hash of the field or member.
//!
//! A record is found, inserted and removed by its key in O(log n), found by rank in O(log n), and scanned from any mark
//! on, whatever was inserted and removed since the scan began. The cursor is a place in the order of hashes, which does
//! not depend on other records.

mod leaf;
mod page;
mod saved;
mod seed;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod varint;

pub use leaf::RECORD_BYTES_MAX;
pub(crate) use leaf::{Leaf, Record};
pub(crate) use saved::{each_record, seed_check};
pub use seed::hand_in as hand_in_seed;
pub(crate) use table::{Records, Table};

/// The place of a record in the order of hashes: the upper 32 bits of the hash of its key.
///
/// A few records of a large table share a mark, so a mark is a hint where to look, not an identity. As a scan cursor it
/// stays exact in clients that read cursors as floating point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Mark(pub(crate) u32);

impl Mark {
    #[inline]
    pub fn of(key: &[u8]) -> Mark {
        Mark((seed::hash(key) >> 32) as u32)
    }

    /// Estimates where this mark lies among `n` marks from `first` to `last`, which are uniform.
    #[inline]
    pub fn among(self, first: Mark, last: Mark, n: usize) -> usize {
        let (above, span) = (self.0.saturating_sub(first.0), last.0.saturating_sub(first.0).max(1));
        // In floating point: a division of integers takes longer, and the result needs no precision.
        ((above as f32 / span as f32) * n.saturating_sub(1) as f32) as usize
    }

    /// [`among`](Self::among) as the tree asks for it.
    #[inline]
    fn guess(self) -> impl Fn(&Mark, &Mark, usize) -> usize {
        move |first, last, n| self.among(*first, *last, n)
    }
}
