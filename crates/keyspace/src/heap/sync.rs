//! The atomics of the lock-free part, apart so that loom's can take their place (`tests/heap_exchange.rs`).

pub use std::sync::atomic::{AtomicPtr, Ordering};
