//! A clock that advances when the simulation says so.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clocks::UnixMs;
use membership::BootNs;
use node::MonoNs;

/// The cost of each reading of the fine clock, in nanoseconds: time passes while code runs.
const READING_NS: u64 = 200;

/// The clocks of a machine. They go on while it is off.
pub struct Clock {
    unix_us: AtomicU64,
    monotonic_ns: AtomicU64,
    /// The clock that leases are measured by. Readings cost nothing, so that the clocks of machines differ only as
    /// their plan says.
    boot_ns: AtomicU64,
}

impl Clock {
    /// Clocks that begin at this time.
    pub fn new(unix: UnixMs) -> Self {
        Self { unix_us: AtomicU64::new(unix.0 * 1000), monotonic_ns: AtomicU64::new(1), boot_ns: AtomicU64::new(1) }
    }

    /// Time passes.
    pub fn advance_us(&self, us: u64) {
        self.unix_us.fetch_add(us, Relaxed);
        self.monotonic_ns.fetch_add(us * 1000, Relaxed);
        self.boot_ns.fetch_add(us * 1000, Relaxed);
    }

    /// The machine's wall clock is set back.
    pub fn set_back_ms(&self, ms: u64) {
        self.unix_us.fetch_sub(ms * 1000, Relaxed);
    }

    /// Unix time in microseconds.
    pub fn unix_us(&self) -> u64 {
        self.unix_us.load(Relaxed)
    }

    /// A time in nanoseconds that never goes back, and that no reading moves.
    pub fn boot_ns(&self) -> BootNs {
        BootNs(self.boot_ns.load(Relaxed))
    }

    /// Unix time.
    pub fn unix_ms(&self) -> UnixMs {
        UnixMs(self.unix_us.load(Relaxed) / 1000)
    }

    /// A time in nanoseconds that never goes back.
    pub fn nanos(&self) -> u64 {
        self.monotonic_ns.fetch_add(READING_NS, Relaxed)
    }
}

impl node::Clock for Clock {
    fn unix_ms(&self) -> UnixMs {
        Clock::unix_ms(self)
    }

    fn unix_us(&self) -> u64 {
        Clock::unix_us(self)
    }

    fn monotonic_ns(&self) -> MonoNs {
        MonoNs(self.nanos())
    }

    fn boot_ns(&self) -> BootNs {
        Clock::boot_ns(self)
    }

    fn thread_cpu_ns(&self) -> u64 {
        self.nanos()
    }
}
