//! The clocks of the machine: for the node, and in local time for people to read.

use std::fmt;

use clocks::UnixMs;
use membership::BootNs;
use node::{Clock, MonoNs};

/// The clocks as the node reads them.
///
/// A worker reads them four times for a lone command, so each reading is one call and no arithmetic on `Duration`.
pub struct SystemClock {
    /// The monotonic clock when the process started, in nanoseconds.
    started: u64,
}

impl SystemClock {
    /// Begins to count.
    pub fn new() -> Self {
        Self { started: nanos(libc::CLOCK_MONOTONIC) }
    }
}

impl Clock for SystemClock {
    fn unix_ms(&self) -> UnixMs {
        UnixMs(nanos(libc::CLOCK_REALTIME) / 1_000_000)
    }

    fn unix_us(&self) -> u64 {
        nanos(libc::CLOCK_REALTIME) / 1000
    }

    fn monotonic_ns(&self) -> MonoNs {
        MonoNs(nanos(libc::CLOCK_MONOTONIC).saturating_sub(self.started))
    }

    fn boot_ns(&self) -> BootNs {
        BootNs(nanos(libc::CLOCK_BOOTTIME))
    }

    fn thread_cpu_ns(&self) -> u64 {
        net::thread_cpu_ns()
    }
}

/// The time of a clock of the system, in nanoseconds; 0 before its epoch. (64 bits last until the year 2554.)
fn nanos(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a plain system call that fills `time`.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec.max(0) as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Milliseconds of a clock that only goes forward.
pub fn monotonic_ms() -> u64 {
    nanos(libc::CLOCK_MONOTONIC) / 1_000_000
}

/// A point in local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Day of the month, from 1.
    pub day: i32,
    /// Month, from 0.
    pub month: i32,
    /// Year.
    pub year: i32,
    /// Hour.
    pub hour: i32,
    /// Minute.
    pub minute: i32,
    /// Second.
    pub second: i32,
    /// Thousandth of a second.
    pub millisecond: u32,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let Moment { day, month, year, hour, minute, second, millisecond } = self;
        let month = usize::try_from(*month).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"???");
        write!(f, "{day:02} {month} {year} {hour:02}:{minute:02}:{second:02}.{millisecond:03}")
    }
}

/// Now, in the time zone of the machine.
pub fn local_now() -> Moment {
    let now = nanos(libc::CLOCK_REALTIME);
    let seconds = libc::time_t::try_from(now / 1_000_000_000).unwrap_or(libc::time_t::MAX);
    // SAFETY: `tm` is a plain C structure, for which all zeroes are a value.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to valid values of ours, and the function keeps neither. On failure `parts` stays zero.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut parts) };
    Moment {
        day: parts.tm_mday,
        month: parts.tm_mon,
        year: parts.tm_year.saturating_add(1900),
        hour: parts.tm_hour,
        minute: parts.tm_min,
        second: parts.tm_sec,
        millisecond: (now / 1_000_000 % 1000) as u32,
    }
}
