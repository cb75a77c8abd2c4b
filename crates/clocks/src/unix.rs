//! Unix time: the clock of expiries.

use std::fmt;
use std::ops::{Add, AddAssign};

/// A moment in milliseconds of Unix time. A moment of another clock, or a TTL, that is taken for one lets keys expire
/// at once, or never.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct UnixMs(pub u64);

impl UnixMs {
    /// The beginning of Unix time: no key expires before.
    pub const ZERO: Self = Self(0);
    /// Later than any moment that comes: the expiry of what does not expire.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment that bytes hold in which 0 stands for none.
    #[inline]
    #[must_use]
    pub const fn from_wire(ms: u64) -> Option<Self> {
        if ms == 0 { None } else { Some(Self(ms)) }
    }

    /// What [`Self::from_wire`] reads.
    #[inline]
    #[must_use]
    pub const fn to_wire(moment: Option<Self>) -> u64 {
        match moment {
            Some(Self(ms)) => ms,
            None => 0,
        }
    }

    /// The moment so many milliseconds later, if there is one.
    #[inline]
    #[must_use]
    pub const fn checked_add(self, ms: u64) -> Option<Self> {
        match self.0.checked_add(ms) {
            Some(ms) => Some(Self(ms)),
            None => None,
        }
    }

    /// The moment so many milliseconds earlier; the beginning of Unix time at the earliest.
    #[inline]
    #[must_use]
    pub const fn earlier(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// The milliseconds from `earlier` to this moment; 0 if `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The milliseconds by which this moment is ahead of the other; negative if it is behind.
    #[inline]
    #[must_use]
    pub const fn ahead_of(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    /// The moment so many milliseconds ahead: the reverse of [`Self::ahead_of`].
    #[inline]
    #[must_use]
    pub const fn ahead_by(self, ms: i64) -> Self {
        Self(self.0.saturating_add_signed(ms))
    }

    /// The milliseconds between two moments, whichever is the later.
    #[inline]
    #[must_use]
    pub const fn abs_diff(self, other: Self) -> u64 {
        self.0.abs_diff(other.0)
    }

    /// Whole seconds of Unix time.
    #[inline]
    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.0 / 1000
    }
}

/// The moment so many milliseconds later; [`UnixMs::NEVER`] at the latest.
impl Add<u64> for UnixMs {
    type Output = Self;

    #[inline]
    fn add(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

impl AddAssign<u64> for UnixMs {
    #[inline]
    fn add_assign(&mut self, ms: u64) {
        *self = *self + ms;
    }
}

impl fmt::Display for UnixMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_stay_within_unix_time() {
        assert_eq!(UnixMs(5) + 2, UnixMs(7));
        assert_eq!(UnixMs(5) + u64::MAX, UnixMs::NEVER);
        assert_eq!(UnixMs(5).checked_add(u64::MAX), None);
        assert_eq!((UnixMs(5).earlier(2), UnixMs(5).earlier(9)), (UnixMs(3), UnixMs::ZERO));
        assert_eq!((UnixMs(5).since(UnixMs(2)), UnixMs(2).since(UnixMs(5))), (3, 0));
    }

    #[test]
    fn clocks_are_compared_in_both_directions() {
        for (one, other, ahead) in [(7, 5, 2i64), (5, 7, -2), (5, 5, 0)] {
            let (one, other) = (UnixMs(one), UnixMs(other));
            assert_eq!((one.ahead_of(other), one.abs_diff(other)), (ahead, ahead.unsigned_abs()));
            assert_eq!(other.ahead_by(ahead), one);
        }
        assert_eq!(UnixMs(5).ahead_by(-9), UnixMs::ZERO);
    }

    #[test]
    fn zero_stands_for_none_in_bytes() {
        for moment in [None, Some(UnixMs(1)), Some(UnixMs::NEVER)] {
            assert_eq!(UnixMs::from_wire(UnixMs::to_wire(moment)), moment);
        }
        assert_eq!(UnixMs::from_wire(0), None);
    }
}
