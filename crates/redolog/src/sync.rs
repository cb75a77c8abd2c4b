//! Primitives that threads share, apart so that loom's can replace them (`tests/cuts.rs`).

pub use std::sync::atomic::{AtomicBool, AtomicUsize};
pub use std::sync::atomic::{AtomicU64, Ordering, fence};
pub use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
pub use std::thread;
