//! The one place of the load generator that reads the clock: it measures real time, so nothing hands it in.

use std::time::{Instant, SystemTime};

/// The current time of the monotonic clock.
#[allow(clippy::disallowed_methods)]
pub fn now() -> Instant {
    Instant::now()
}

/// The time of the system's clock, in milliseconds of unix time: for whoever notes other events beside.
#[allow(clippy::disallowed_methods)]
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
