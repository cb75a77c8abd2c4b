//! The copy of another node's data that a standby has, as its workers see it.

use std::sync::{Arc, PoisonError, RwLock};

use ::membership::{ShardId, Term};
use redolog::Lsn;

use crate::clock::MonoNs;

/// A copy of another node's data, which follows that node's log.
pub trait CopyOfData: Send + Sync {
    /// Its shard.
    fn shard(&self) -> ShardId;

    /// How far it is. It may take a lock of the log's copy for a moment.
    fn figures(&self) -> CopyFigures;

    /// If its memory is as of one moment of the log: what was known of the log's end as its reader has applied it. `None`:
    /// nobody may read it. It waits for nothing.
    fn readable(&self) -> Option<Known>;
}

/// What a copy knows of the end of its log: all that was committed at a moment is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// The term whose owner has said what was committed.
    pub term: Term,
    /// When that owner was heard saying so.
    pub at: MonoNs,
}

/// How far a copy is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyFigures {
    /// Its memory has all records up to here.
    pub passed: Lsn,
    /// Bytes of the log that are committed and not applied, about.
    pub behind_bytes: u64,
    /// Milliseconds by which it is behind what is committed.
    pub behind_ms: u64,
    /// See [`Known::at`].
    pub known_at: MonoNs,
    /// When the log's owner was last heard.
    pub heard_at: MonoNs,
}

/// A copy whose log's owner was heard so lately is linked to it, in nanoseconds: unless it is away, it is heard 20 times a
/// second.
const LINKED_NS: u64 = 3_000_000_000;

/// True if the owner of a copy's log was heard lately.
pub(crate) fn is_linked(figures: &CopyFigures, now: MonoNs) -> bool {
    now.since(figures.heard_at) <= LINKED_NS
}

/// The copy that a node has now, if it stands by and its copy follows.
#[derive(Default)]
pub(crate) struct Present(RwLock<Option<Arc<dyn CopyOfData>>>);

impl Present {
    pub(crate) fn set(&self, copy: Option<Arc<dyn CopyOfData>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = copy;
    }

    pub(crate) fn get(&self) -> Option<Arc<dyn CopyOfData>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
