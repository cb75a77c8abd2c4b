//! Messages between an owner and an acceptor. Their bytes are in `wire`.

use crate::{Base, Block, BlockId, Cut, History, ShardId, StreamId, Term};

/// A message of an owner to an acceptor.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Request {
    /// The shard whose log is meant.
    pub shard: ShardId,
    /// The owner's term.
    pub term: Term,
    /// The order.
    pub order: Order,
}

/// An order to an acceptor.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Order {
    /// Promise to take nothing of lower terms, and say which blocks there are. It comes first on every connection.
    Seal,
    /// Take a block.
    Append {
        /// The block's stream.
        stream: StreamId,
        /// The block before it.
        before: BlockId,
        /// The place up to which the owner knows everything committed.
        committed: u64,
        /// True if the block is to be written past the cache, so that it is on the disk when the write returns.
        through: bool,
        /// The block.
        block: Block,
    },
    /// Put on the disk what was written to a stream.
    Sync {
        /// The stream.
        stream: StreamId,
    },
    /// Hear how far everything is committed.
    Advance {
        /// The stream.
        stream: StreamId,
        /// The place up to which the owner knows everything committed.
        committed: u64,
    },
    /// Send blocks.
    Read {
        /// Their stream.
        stream: StreamId,
        /// The place of the first one.
        from: u64,
        /// How many at most.
        most: u32,
    },
    /// Forget blocks that every copy has in its store.
    Cut {
        /// The stream.
        stream: StreamId,
        /// The last block to forget.
        base: Base,
    },
    /// Hear how far a standby may apply a stream. Only an acceptor that has asked for it is told so ([`Report::Wants`]).
    Mark {
        /// The stream.
        stream: StreamId,
        /// The last block that the owner knows committed.
        committed: BlockId,
        /// The place of a block of the owner's term. With `quiet`: behind it no record of the term gets an LSN at or below.
        after: u64,
        /// See `after`.
        quiet: Cut,
    },
    /// Begin behind a block that the acceptor does not have, and that is committed.
    Reset {
        /// The stream.
        stream: StreamId,
        /// Where to begin.
        base: Base,
    },
}

/// A message of an acceptor to an owner.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reply {
    /// The shard whose log is meant.
    pub shard: ShardId,
    /// The term of the owner that the reply is for.
    pub term: Term,
    /// The answer.
    pub report: Report,
}

/// The answer of an acceptor.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Report {
    /// The promise is on the disk, and so are the blocks that the answer names.
    Sealed {
        /// The blocks of each stream, in the order of the streams.
        histories: Vec<History>,
    },
    /// The term is not the one that was promised.
    Refused {
        /// That one.
        promised: Term,
    },
    /// The progress of a stream's copy.
    Ack {
        /// The stream.
        stream: StreamId,
        /// The last block that was written; all before it were written, too.
        written: BlockId,
        /// The last block that is on the disk; all before it are there, too.
        synced: BlockId,
    },
    /// An append or a reset did not fit what is there.
    Missed {
        /// The stream.
        stream: StreamId,
        /// The last block that is there.
        last: BlockId,
    },
    /// Blocks that were asked for.
    Blocks {
        /// Their stream.
        stream: StreamId,
        /// They follow one another. None: the first one is not there.
        blocks: Vec<Block>,
    },
    /// The disk failed. Nothing is taken and nothing is promised any more.
    Failed,
    /// The folder's room for more blocks (rule L8). It is told when that changes, and behind an answer to a seal.
    Full {
        /// True if there is none. Blocks that were sent wait.
        is_full: bool,
    },
    /// Whether a standby reads from the acceptor. It is told when that changes, and behind an answer to a seal. An owner of
    /// a build before there were standbys does not know it.
    Wants {
        /// True if the acceptor wants [`Order::Mark`]s.
        marks: bool,
    },
}
