//! A worker's state about the limits of memory.

use super::shortage::Shortage;
use super::tidying::Tidying;
use crate::clock::MonoNs;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Memory {
    /// Its state about full memory, and the connections that wait for room.
    pub(crate) shortage: Shortage,
    /// When this turn's time for eviction ends, monotonic nanoseconds; 0 before it has begun.
    pub(crate) evict_until: MonoNs,
    /// Moving tables and entries together.
    pub(crate) tidying: Tidying,
    /// Deleted and flushed values are being freed.
    pub(crate) reclaiming: bool,
    /// Something was written to connections, which together take more than `maxmemory-clients`.
    pub(crate) too_heavy: bool,
}
