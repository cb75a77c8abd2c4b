//! What a worker knows of the limits of memory.

use super::shortage::Shortage;
use super::tidying::Tidying;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Memory {
    /// What is known of memory that is full, and the connections that wait for room.
    pub(crate) shortage: Shortage,
    /// When this turn's time for eviction ends, monotonic nanoseconds; 0 before it has begun.
    pub(crate) evict_until: u64,
    /// Tables and entries are being moved together.
    pub(crate) tidying: Tidying,
    /// What was deleted or flushed is being freed.
    pub(crate) reclaiming: bool,
    /// Connections together take more than `maxmemory-clients`, as something was written to them.
    pub(crate) too_heavy: bool,
}
