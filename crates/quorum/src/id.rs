//! Identities: shards, acceptors, terms, streams and blocks.

use std::sync::Arc;

/// The number of a shard in the cluster's metadata. It counts apart from the numbers of nodes and is never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct ShardId(pub u32);

/// The name of an acceptor: chosen by chance when its folder is new. A folder that lost anything gets another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct AcceptorId(pub [u8; 16]);

/// One owner's time of writing. Metadata give each term once, to one process (rule G1). Terms of a shard rise by one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Term(u32);

impl Term {
    /// Before the first one.
    pub const ZERO: Self = Self(0);
    /// The last one: an incarnation of the log has 24 bits for it.
    pub const MAX: Self = Self((1 << 24) - 1);

    /// The term of a number, unless the number is too high.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// True if no term lies between `before` and this one.
    #[must_use]
    pub const fn is_next_of(self, before: Self) -> bool {
        self.0 == before.0 + 1
    }
}

/// A stream of a shard, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct StreamId(pub u16);

impl StreamId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Numbers of streams beside their places in a list.
pub(crate) fn stream_ids(count: usize) -> impl Iterator<Item = StreamId> {
    (0..count).map(|at| StreamId(at as u16))
}

/// The name of a block in a stream of the shard's log: the term that made it, and its place.
///
/// Two blocks of one name are the same block, and so are all blocks before them. The order of names is rule G4's: by
/// term first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BlockId {
    /// The term whose owner made it.
    pub term: Term,
    /// Its place in the stream, counted from 1. Zero is the place before the first block.
    pub sequence: u64,
}

/// The end of something as an LSN of `redolog`: it stands for everything at or below that LSN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Cut(pub u64);

/// Where a stream begins: blocks up to this one are not kept any more, as every copy that counts has their records in
/// its store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Base {
    /// The last block that is not kept.
    pub id: BlockId,
    /// Where that block ends.
    pub cut: Cut,
}

/// A folder's own count of its beginnings for a stream. A start of the process and a drop of blocks begin a new one.
///
/// Blocks in a folder are chained by it. So a block that was dropped never comes back as the successor of another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct FolderLife(pub u64);

/// A block of a stream: records, or the start of a term.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Block {
    /// Its name.
    pub id: BlockId,
    /// Where it ends. Of a start block: where what is valid before it ends; records above that are void.
    pub cut: Cut,
    /// True if it starts a term.
    pub is_start: bool,
    /// Its records, as the log encodes them. A start block has none.
    pub body: Arc<[u8]>,
}

impl Block {
    /// The bytes that it takes in a ring or a window.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.body.len()
    }
}
