//! The clock that never goes back.

use std::ops::Add;

/// A moment of a clock that never goes back, in nanoseconds. It means nothing but its distance to other moments, so it
/// cannot be taken for Unix time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct MonoNs(pub u64);

impl MonoNs {
    /// Later than any moment that comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment so many nanoseconds earlier.
    #[inline]
    #[must_use]
    pub const fn earlier(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }

    /// The nanoseconds from `earlier` to this moment; 0 if `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The same moment in milliseconds.
    #[inline]
    #[must_use]
    pub const fn ms(self) -> MonoMs {
        MonoMs(self.0 / 1_000_000)
    }
}

/// The moment so many nanoseconds later.
impl Add<u64> for MonoNs {
    type Output = Self;

    #[inline]
    fn add(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// A moment of the clock of [`MonoNs`], in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct MonoMs(pub u64);

impl MonoMs {
    /// The beginning of the clock: no moment is earlier.
    pub const ZERO: Self = Self(0);

    /// The milliseconds from `earlier` to this moment; 0 if `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The moment so many milliseconds later.
impl Add<u64> for MonoMs {
    type Output = Self;

    #[inline]
    fn add(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}
