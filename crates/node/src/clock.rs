//! Time as it is handed to workers.

use ::membership::BootNs;

/// The clocks of a node. Real ones live in the driver; the simulator has its own.
pub trait Clock: Send + Sync {
    /// Unix time in milliseconds.
    fn unix_ms(&self) -> u64;

    /// Unix time in microseconds, where the clock is as fine.
    fn unix_us(&self) -> u64 {
        self.unix_ms() * 1000
    }

    /// A time in nanoseconds that never goes back and has no meaning but its differences. Cheap: it is read around commands.
    fn monotonic_ns(&self) -> u64;

    /// As [`Self::monotonic_ns`], but that it goes on while the machine sleeps: what leases are reckoned by (rule O1).
    fn boot_ns(&self) -> BootNs {
        BootNs(self.monotonic_ns())
    }

    /// CPU time of the calling thread in nanoseconds. A system call: asked only while turns are measured.
    fn thread_cpu_ns(&self) -> u64;
}
