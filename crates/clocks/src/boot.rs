//! The clock of leases and of transactions over nodes.

use std::fmt;
use std::ops::Add;

/// A moment of CLOCK_BOOTTIME, in milliseconds. That clock never goes back and goes on while the machine sleeps. It
/// means nothing to another machine, so it cannot be taken for Unix time or for a time of the hybrid clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct BootMs(pub u64);

impl BootMs {
    /// The beginning of the clock: no moment is earlier.
    pub const ZERO: Self = Self(0);
    /// Later than any moment that comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The milliseconds from `earlier` to this moment; 0 if `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The moment so many milliseconds later; [`BootMs::NEVER`] at the latest.
impl Add<u64> for BootMs {
    type Output = Self;

    #[inline]
    fn add(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

impl fmt::Display for BootMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_stay_within_the_clock() {
        assert_eq!((BootMs(5) + 2, BootMs(5) + u64::MAX), (BootMs(7), BootMs::NEVER));
        assert_eq!((BootMs(5).since(BootMs(2)), BootMs(2).since(BootMs(5))), (3, 0));
    }
}
