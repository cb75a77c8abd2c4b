//! The primitives of threads, in a module of their own so that loom's can take their place (`tests/latches.rs`,
//! `tests/epochs.rs`).

pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
