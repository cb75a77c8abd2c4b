//! Operations of a disk that are kept in memory, because the disk has no room or does not return: see `own.rs`.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock};

use crate::aligned::Aligned;

/// Bytes that are kept for the disk of a stream. With more the own disk is given up.
pub(crate) const AROUND_MAX: usize = 128 << 20;

/// Bytes that an operation counts for besides those that it writes.
const EACH: usize = 128;

/// A file, once it is open.
pub(crate) type Slot<F> = Arc<OnceLock<F>>;

/// An operation.
pub(crate) enum Op<F> {
    Create { name: String, size: u64, slot: Slot<F> },
    Open { name: String, slot: Slot<F> },
    Rename { from: String, to: String },
    Remove { name: String },
    SyncNames,
    Write { slot: Slot<F>, at: u64, bytes: Vec<u8> },
    Through { slot: Slot<F>, at: u64, bytes: Aligned },
    Sync { slot: Slot<F> },
}

impl<F> Op<F> {
    fn size(&self) -> usize {
        EACH + match self {
            Self::Write { bytes, .. } => bytes.len(),
            Self::Through { bytes, .. } => bytes.bytes().len(),
            _ => 0,
        }
    }

    /// True if it can be done again after a lack. A sync has dropped bytes then.
    pub(crate) fn may_lack(&self) -> bool {
        !matches!(self, Self::Through { .. } | Self::Sync { .. } | Self::SyncNames)
    }
}

/// The operations that are left for a disk, in their order.
pub(crate) struct Around<F> {
    ops: VecDeque<Op<F>>,
    bytes: usize,
    /// Earlier operations that other threads are at.
    pub(crate) under_way: usize,
    /// The error of one of those, where the log cannot go on without the own disk.
    pub(crate) broken: Option<io::Error>,
}

impl<F> Default for Around<F> {
    fn default() -> Self {
        Self { ops: VecDeque::new(), bytes: 0, under_way: 0, broken: None }
    }
}

impl<F> Around<F> {
    /// Keeps an operation. False: there is too much.
    pub(crate) fn push(&mut self, op: Op<F>) -> bool {
        let size = op.size();
        if self.bytes + size > AROUND_MAX {
            return false;
        }
        self.bytes += size;
        self.ops.push_back(op);
        true
    }

    /// The next one. Its bytes count until it is [`Self::done`].
    pub(crate) fn next(&mut self) -> Option<Op<F>> {
        self.ops.pop_front()
    }

    pub(crate) fn done(&mut self, op: &Op<F>) {
        self.bytes = self.bytes.saturating_sub(op.size());
    }

    /// It is tried again later.
    pub(crate) fn put_back(&mut self, op: Op<F>) {
        self.ops.push_front(op);
    }

    pub(crate) fn clear(&mut self) {
        (self.ops, self.bytes) = (VecDeque::new(), 0);
    }
}
