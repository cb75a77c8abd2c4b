//! What threads share by, apart so that loom's can take its place (`tests/cuts.rs`).

pub use std::sync::atomic::{AtomicU64, Ordering};
pub use std::sync::{Mutex, MutexGuard, PoisonError};
