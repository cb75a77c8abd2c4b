//! What workers count. Each worker writes its own counters; INFO sums them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one command in one worker.
#[derive(Default)]
pub struct CommandStats {
    /// Times it ran.
    pub calls: AtomicU64,
    /// Nanoseconds it ran.
    pub nanos: AtomicU64,
    /// Times it was refused before it ran.
    pub rejected: AtomicU64,
    /// Times it ended with an error.
    pub failed: AtomicU64,
}

/// Counters of one worker.
#[repr(align(64))]
pub struct WorkerStats {
    /// By command id.
    pub commands: Box<[CommandStats]>,
    /// Commands processed.
    pub processed: AtomicU64,
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections refused because of maxclients.
    pub rejected: AtomicU64,
    /// Connections now.
    pub clients: AtomicU64,
    /// Blocked connections now.
    pub blocked: AtomicU64,
    /// Bytes received.
    pub bytes_in: AtomicU64,
    /// Bytes sent.
    pub bytes_out: AtomicU64,
    /// Error replies.
    pub errors: AtomicU64,
    /// Connections parked for a latch, in total.
    pub parked: AtomicU64,
    /// Changes (Redis `rdb_changes_since_last_save`).
    pub dirty: AtomicU64,
    /// CPU nanoseconds of the longest turn since measuring began; anybody may reset it.
    pub longest_turn: AtomicU64,
    /// Turns of the loop that did something.
    pub turns: AtomicU64,
    /// Bytes of query buffers, as of the last turn.
    pub query_memory: AtomicU64,
    /// Bytes of waiting output, as of the last turn.
    pub output_memory: AtomicU64,
}

impl WorkerStats {
    /// Zeros for a table of `commands` commands.
    pub fn new(commands: usize) -> Self {
        let zero = AtomicU64::default;
        Self {
            commands: (0..commands).map(|_| CommandStats::default()).collect(),
            processed: zero(),
            connections: zero(),
            rejected: zero(),
            clients: zero(),
            blocked: zero(),
            bytes_in: zero(),
            bytes_out: zero(),
            errors: zero(),
            parked: zero(),
            dirty: zero(),
            longest_turn: zero(),
            turns: zero(),
            query_memory: zero(),
            output_memory: zero(),
        }
    }
}

impl WorkerStats {
    /// Sets what CONFIG RESETSTAT resets to zero. Only its own worker may: others would undo it with what they add.
    pub fn reset(&self) {
        for command in &self.commands {
            for counter in [&command.calls, &command.nanos, &command.rejected, &command.failed] {
                counter.store(0, Relaxed);
            }
        }
        let counters = [
            &self.processed,
            &self.connections,
            &self.rejected,
            &self.bytes_in,
            &self.bytes_out,
            &self.errors,
            &self.parked,
        ];
        for counter in counters {
            counter.store(0, Relaxed);
        }
    }
}

/// Adds to a counter that only this worker writes.
#[inline]
pub fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Subtracts from a counter that only this worker writes.
#[inline]
pub fn sub(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_sub(n), Relaxed);
}
