//! The clocks of the machine: for the node, and in local time for people to read.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use membership::BootNs;
use node::{Clock, MonoNs};

/// The clocks as the node reads them.
pub struct SystemClock(Instant);

#[expect(clippy::disallowed_methods, reason = "this is where the real clocks enter")]
impl SystemClock {
    /// Begins to count.
    pub fn new() -> Self {
        Self(Instant::now())
    }

    fn since_start(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Clock for SystemClock {
    fn unix_ms(&self) -> u64 {
        unix().as_millis() as u64
    }

    fn unix_us(&self) -> u64 {
        unix().as_micros() as u64
    }

    fn monotonic_ns(&self) -> MonoNs {
        MonoNs(self.since_start().as_nanos() as u64)
    }

    fn boot_ns(&self) -> BootNs {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a plain system call that fills `time`.
        unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
        BootNs(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    fn thread_cpu_ns(&self) -> u64 {
        net::thread_cpu_ns()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where the real clocks enter")]
fn unix() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds of a clock that only goes forward.
pub fn monotonic_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a plain system call that fills `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
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
    let now = unix();
    let seconds = libc::time_t::try_from(now.as_secs()).unwrap_or(libc::time_t::MAX);
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
        millisecond: now.subsec_millis(),
    }
}
