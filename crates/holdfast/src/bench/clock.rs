//! The one place of the load generator that reads the clock: it measures real time, so nothing hands it in.

use std::time::Instant;

/// The current time of the monotonic clock.
#[allow(clippy::disallowed_methods)]
pub fn now() -> Instant {
    Instant::now()
}
