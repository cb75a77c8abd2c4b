//! The time, which passes when a test says so, and leases that end by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use membership::BootNs;
use node::cluster::Lease;
use node::{MonoNs, UnixMs};

/// A clock that stands still unless it is told not to.
pub struct Hand {
    /// Unix time in microseconds.
    pub us: AtomicU64,
    /// Nanoseconds to add to that.
    pub ns: AtomicU64,
    /// Nanoseconds that pass at each reading.
    pub step: AtomicU64,
}

impl node::Clock for Hand {
    fn unix_ms(&self) -> UnixMs {
        UnixMs(self.us.load(Relaxed) / 1000)
    }

    fn monotonic_ns(&self) -> MonoNs {
        MonoNs(self.ns.fetch_add(self.step.load(Relaxed), Relaxed))
    }

    fn boot_ns(&self) -> BootNs {
        BootNs(self.unix_ms().0 * 1_000_000)
    }

    fn thread_cpu_ns(&self) -> u64 {
        self.ns.load(Relaxed)
    }
}

/// The clocks of a machine.
pub struct Clocks {
    /// The time that all machines share.
    pub hand: Arc<Hand>,
    /// Milliseconds by which the machine's wall clock is ahead of others.
    pub ahead_ms: AtomicU64,
}

impl node::Clock for Clocks {
    fn unix_ms(&self) -> UnixMs {
        self.hand.unix_ms() + self.ahead_ms.load(Relaxed)
    }

    fn monotonic_ns(&self) -> MonoNs {
        self.hand.monotonic_ns()
    }

    fn boot_ns(&self) -> BootNs {
        self.hand.boot_ns()
    }

    fn thread_cpu_ns(&self) -> u64 {
        self.hand.thread_cpu_ns()
    }
}

/// A lease that tests give.
pub struct Given(pub AtomicU64);

impl Lease for &'static Given {
    fn until(&self) -> BootNs {
        BootNs(self.0.load(Relaxed))
    }

    fn reason(&self) -> String {
        "this node has no lease: a test says so".into()
    }
}

/// Settings of a node. By default nothing waits for a node that does not answer, so that tests need not wait either.
pub fn without_waits(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let waits = [("cluster-takeover-wait", "0")];
    waits.iter().chain(settings).map(|(name, value)| (name.to_string(), value.to_string())).collect()
}
