//! What threads share by, apart so that loom's can take its place (`tests/latches.rs`, `tests/epochs.rs`).

pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
