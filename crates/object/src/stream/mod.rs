//! Streams: a log of entries, and groups of consumers that read it together.
//!
//! Entries lie in nodes of Redis's size ([`log`], [`node`]): IDs relative to the node's first, field names once for all
//! entries that share them. Groups ([`group`]) hold the pending entries in trees of small arrays. So a clone of
//! millions of entries, pending ones included, shares nearly everything.

mod codec;
mod entry;
mod group;
mod id;
mod lag;
mod log;
mod node;
mod order;
mod pending;
mod range;
mod saved;
#[cfg(test)]
mod tests;
mod trim;

pub use entry::{Entry, Pairs};
#[cfg(test)]
pub(crate) use group::SECTIONS_MAX;
pub use group::{COUNT_MAX, Consumer, Delivery, Group, Groups, Member};
pub use id::Id;
pub use log::{ENTRY_BYTES_MAX, Log, Marks, Refused, Trim};
pub(crate) use node::Node;
pub use range::{Backward, Forward};
pub(crate) use saved::Parts;
pub use trim::{References, Trimmed};

/// A stream. See the module's text.
#[derive(Clone, Default)]
pub struct Stream {
    /// The entries.
    pub log: Log,
    /// The groups.
    pub groups: Groups,
}

impl Stream {
    /// A stream without entries and groups.
    pub fn new() -> Self {
        Stream::default()
    }

    /// Number of entries. A stream without entries is a value like any other: its key stays.
    pub fn len(&self) -> u64 {
        self.log.marks().len
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Heap bytes. O(groups and consumers).
    pub fn memory(&self) -> usize {
        self.log.memory() + self.groups.memory()
    }

    /// Frees a part of a value that will not be read any more: see [`crate::shed`].
    pub fn shed(&mut self, budget: &mut usize) {
        self.groups.shed(budget);
        self.log.shed(budget);
    }

    /// The answer of `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        "stream"
    }
}
