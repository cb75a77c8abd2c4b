//! The version of a write, as a type of its own. A time or a count taken for a version is below versions that it must
//! be above: a write is lost, or a reply leaves too early.

use std::fmt;

/// Low bits of a version that name the stream of its record (rule L1).
pub const STREAM_BITS: u32 = 4;
/// Most streams. The number of one further stream is for versions that belong to no record: a block's, before it has
/// one, and all versions while there is no log.
pub const STREAMS: usize = (1 << STREAM_BITS) - 1;
/// Bits of a version.
pub const VERSION_BITS: u32 = 56;

/// The version of a write: a hybrid timestamp of [`VERSION_BITS`] bits (rule L1). The version of a logged write is the
/// LSN of its record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Version(pub u64);

impl Version {
    /// Below every write: the version of a key that is absent, and of a reader that stamps nothing.
    pub const ZERO: Self = Self(0);
    /// Above every write. No key has it.
    pub const MAX: Self = Self(u64::MAX);

    /// The stream that it names; [`STREAMS`] for a version without a record.
    #[inline]
    #[must_use]
    pub const fn stream(self) -> usize {
        self.0 as usize & STREAMS
    }

    /// The lowest version above this one that names `stream`.
    #[inline]
    #[must_use]
    pub const fn above(self, stream: usize) -> Self {
        Self(((self.0 | STREAMS as u64) + 1) | stream as u64)
    }

    /// Whether it is one that a key can have: an entry has room for [`VERSION_BITS`] bits.
    #[inline]
    #[must_use]
    pub const fn fits(self) -> bool {
        self.0 >> VERSION_BITS == 0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_name_their_streams() {
        for floor in [0, 1, 15, 16, 1000, 12345] {
            for stream in 0..=STREAMS {
                let version = Version(floor).above(stream);
                assert!(version > Version(floor) && version.0 <= floor + 2 * (1 << STREAM_BITS));
                assert_eq!(version.stream(), stream);
            }
        }
    }

    #[test]
    fn an_entry_has_room_for_56_bits() {
        assert!(Version((1 << 56) - 1).fits());
        assert!(!Version(1 << 56).fits() && !Version::MAX.fits());
    }
}
