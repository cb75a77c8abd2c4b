//! The clocks of workers, handed in.

use std::ops::Add;

use ::membership::BootNs;

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
}

/// The moment so many nanoseconds later.
impl Add<u64> for MonoNs {
    type Output = Self;

    #[inline]
    fn add(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// The clocks of a node. Real ones live in the driver; the simulator has its own.
pub trait Clock: Send + Sync {
    /// Unix time in milliseconds.
    fn unix_ms(&self) -> u64;

    /// Unix time in microseconds, if the clock is so fine.
    fn unix_us(&self) -> u64 {
        self.unix_ms() * 1000
    }

    /// A moment of a clock that never goes back. Cheap: it is read around commands.
    fn monotonic_ns(&self) -> MonoNs;

    /// As [`Self::monotonic_ns`], but it goes on while the machine sleeps: the clock of leases (rule O1).
    fn boot_ns(&self) -> BootNs {
        BootNs(self.monotonic_ns().0)
    }

    /// CPU time of the calling thread in nanoseconds. It is a system call, so it is read only while turns are measured.
    fn thread_cpu_ns(&self) -> u64;
}
