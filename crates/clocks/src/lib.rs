//! Moments of the clocks that a server reads, each clock's as a type of its own. Amounts of time are plain numbers, so
//! a moment cannot be taken for an amount either: a TTL is no time of expiry.

#![warn(clippy::missing_errors_doc)]

mod boot;
mod mono;
mod unix;

pub use boot::BootMs;
pub use mono::{MonoMs, MonoNs};
pub use unix::UnixMs;
