//! The clocks of workers, handed in.

use ::membership::BootNs;

/// The clocks of a node. Real ones live in the driver; the simulator has its own.
pub trait Clock: Send + Sync {
    /// Unix time in milliseconds.
    fn unix_ms(&self) -> u64;

    /// Unix time in microseconds, if the clock is so fine.
    fn unix_us(&self) -> u64 {
        self.unix_ms() * 1000
    }

    /// Nanoseconds that never go back and mean nothing but their differences. Cheap: it is read around commands.
    fn monotonic_ns(&self) -> u64;

    /// As [`Self::monotonic_ns`], but it goes on while the machine sleeps: the clock of leases (rule O1).
    fn boot_ns(&self) -> BootNs {
        BootNs(self.monotonic_ns())
    }

    /// CPU time of the calling thread in nanoseconds. It is a system call, so it is read only while turns are measured.
    fn thread_cpu_ns(&self) -> u64;
}
