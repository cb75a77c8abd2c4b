//! A position in a stream, as a type of its own. A position taken for a place in a file, or for the number of a block,
//! would cut a stream where it does not end.

use std::fmt;

/// A position in a stream: a hybrid timestamp (rule L1), whose low [`STREAM_BITS`] bits name the stream. Records of
/// workers that have seen nothing of each other may have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Lsn(pub u64);

/// Low bits of an LSN that name its stream.
pub const STREAM_BITS: u32 = 4;

/// Most streams of a node. The LSNs of one further stream are for versions that belong to no record.
pub const STREAMS_MAX: usize = (1 << STREAM_BITS) - 1;

impl Lsn {
    /// Before everything.
    pub const ZERO: Self = Self(0);
    /// Behind everything.
    pub const MAX: Self = Self(u64::MAX);

    /// The stream that it belongs to.
    #[inline]
    #[must_use]
    pub const fn stream(self) -> u16 {
        (self.0 & ((1 << STREAM_BITS) - 1)) as u16
    }

    /// The lowest of a stream whose timestamp is later.
    #[inline]
    #[must_use]
    pub const fn above(self, stream: u16) -> Self {
        Self(((self.0 >> STREAM_BITS) + 1) << STREAM_BITS | stream as u64)
    }

    /// The next LSN.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The LSN right before; of [`Self::ZERO`] itself.
    #[inline]
    #[must_use]
    pub const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
