//! The clocks of workers, handed in.

use ::membership::BootNs;
pub use clocks::{MonoNs, UnixMs};

/// The clocks of a node. Real ones live in the driver; the simulator has its own.
pub trait Clock: Send + Sync {
    /// Unix time.
    fn unix_ms(&self) -> UnixMs;

    /// Unix time in microseconds, if the clock is so fine.
    fn unix_us(&self) -> u64 {
        self.unix_ms().0 * 1000
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
