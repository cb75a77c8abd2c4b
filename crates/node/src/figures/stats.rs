//! Counters of workers. Each worker writes its own; INFO sums them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::figures::histogram::{Distribution, Histogram};

/// Codes of errors that are counted separately, as many as in Redis.
const CODES_MAX: usize = 128;
/// Longest code in bytes.
const CODE_MAX: usize = 64;

/// Counters of one command in one worker.
#[derive(Default)]
pub struct CommandStats {
    /// The number of times that it ran.
    pub calls: AtomicU64,
    /// Nanoseconds for which it ran.
    pub nanos: AtomicU64,
    /// The number of times that it was refused before it ran.
    pub rejected: AtomicU64,
    /// The number of times that it ended with an error.
    pub failed: AtomicU64,
    /// Its durations; made when it first runs.
    histogram: OnceLock<Histogram>,
}

impl CommandStats {
    /// Its durations.
    pub(crate) fn histogram(&self) -> &Histogram {
        self.histogram.get_or_init(Histogram::default)
    }

    /// Adds its durations to a sum.
    pub(crate) fn add_latencies(&self, sum: &mut Distribution) {
        if let Some(histogram) = self.histogram.get() {
            histogram.add_to(sum);
        }
    }
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
    /// Links to other nodes of which it is the origin and that are open, now.
    pub links: AtomicU64,
    /// Bytes of commands that wait for nodes that do not answer, now.
    pub held_bytes: AtomicU64,
    /// Blocked connections now.
    pub blocked: AtomicU64,
    /// Connections that wait until less is left for the log, now.
    pub awaits_log: AtomicU64,
    /// How often a connection waited because the log's tail grew faster than it may.
    pub slowed: AtomicU64,
    /// Connections that wait until a checkpoint lets data leave memory, now.
    pub awaits_room: AtomicU64,
    /// Bytes received.
    pub bytes_in: AtomicU64,
    /// Bytes sent.
    pub bytes_out: AtomicU64,
    /// Error replies.
    pub errors: AtomicU64,
    /// Error replies by their code.
    codes: Mutex<BTreeMap<Box<[u8]>, u64>>,
    /// Logins that failed.
    pub denied: AtomicU64,
    /// Connections parked for a latch, in total.
    pub parked: AtomicU64,
    /// Scripts that were undone to run again, because another command held a key that they had not declared.
    pub script_reruns: AtomicU64,
    /// Transactions over nodes that clients began here and that are over.
    pub transactions: AtomicU64,
    /// Their attempts beyond the first, because other transactions had their keys.
    pub transaction_retries: AtomicU64,
    /// Of them, those that ran in the transaction of another.
    pub transactions_joined: AtomicU64,
    /// Commands and parts of transactions that were refused, because their keys are locked by a transaction that waits
    /// for a silent node.
    pub refused_in_doubt: AtomicU64,
    /// Commands and parts of transactions that wait for a lock, a load or a claim for longer than a minute, now.
    pub waits_long: AtomicU64,
    /// How many have waited so long, in total.
    pub waited_long: AtomicU64,
    /// Attempts that are over and have claims for longer than a minute, now: nothing would give them back.
    pub ownerless: AtomicU64,
    /// Changes (Redis `rdb_changes_since_last_save`).
    pub dirty: AtomicU64,
    /// CPU nanoseconds of the longest turn since measuring began, with the driver's work before the next; any thread
    /// may reset it.
    pub longest_turn: AtomicU64,
    /// Turns of the loop that did something.
    pub turns: AtomicU64,
    /// Blocked connections with a timeout.
    pub waiting_with_deadline: AtomicU64,
    /// Percent of a processor that defragmenting uses now.
    pub defrag_percent: AtomicU64,
    /// Nanoseconds of tidying and defragmenting.
    pub defrag_nanos: AtomicU64,
    /// Reads from sockets.
    pub reads: AtomicU64,
    /// Times that commands of a connection were executed: each may have been several.
    pub pipelines: AtomicU64,
    /// Turns in which commands were executed.
    pub busy_turns: AtomicU64,
    /// Id of the client whose commands are executed now; 0 for none.
    pub serves: AtomicU64,
    /// Writes to sockets.
    pub writes: AtomicU64,
    /// Connections closed because of `client-query-buffer-limit`.
    pub query_overruns: AtomicU64,
    /// Connections closed because of `client-output-buffer-limit`.
    pub output_overruns: AtomicU64,
    /// Connections closed because of `maxmemory-clients`.
    pub evicted_clients: AtomicU64,
    /// Bytes that its connections take, roughly, while `maxmemory-clients` bounds them.
    pub client_memory: AtomicU64,
    /// Nanoseconds in commands.
    pub command_nanos: AtomicU64,
    /// Nanoseconds in turns that executed commands, and in housekeeping.
    pub turn_nanos: AtomicU64,
    /// Nanoseconds in housekeeping.
    pub housekeeping_nanos: AtomicU64,
    /// Nanoseconds of the longest run of commands between two looks at sockets.
    pub longest_window: AtomicU64,
    /// CPU time of its thread that it spent itself, in microseconds, as of its last housekeeping.
    pub cpu_user: AtomicU64,
    /// The same that the system spent for it.
    pub cpu_system: AtomicU64,
    /// Most commands in a turn.
    pub most_commands: AtomicU64,
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
            links: zero(),
            held_bytes: AtomicU64::new(0),
            blocked: zero(),
            bytes_in: zero(),
            bytes_out: zero(),
            errors: zero(),
            codes: Mutex::default(),
            denied: zero(),
            parked: zero(),
            awaits_log: zero(),
            slowed: zero(),
            awaits_room: zero(),
            script_reruns: zero(),
            transactions: zero(),
            transaction_retries: zero(),
            transactions_joined: zero(),
            refused_in_doubt: zero(),
            waits_long: zero(),
            waited_long: zero(),
            ownerless: zero(),
            dirty: zero(),
            longest_turn: zero(),
            turns: zero(),
            waiting_with_deadline: zero(),
            defrag_percent: zero(),
            defrag_nanos: zero(),
            reads: zero(),
            pipelines: zero(),
            busy_turns: zero(),
            serves: zero(),
            writes: zero(),
            query_overruns: zero(),
            output_overruns: zero(),
            evicted_clients: zero(),
            client_memory: zero(),
            command_nanos: zero(),
            turn_nanos: zero(),
            housekeeping_nanos: zero(),
            longest_window: zero(),
            cpu_user: zero(),
            cpu_system: zero(),
            most_commands: zero(),
        }
    }
}

impl WorkerStats {
    /// Resets the counters of CONFIG RESETSTAT to zero. Only its own worker may: others would undo it with their
    /// additions.
    pub fn reset(&self) {
        for command in &self.commands {
            for counter in [&command.calls, &command.nanos, &command.rejected, &command.failed] {
                counter.store(0, Relaxed);
            }
            if let Some(histogram) = command.histogram.get() {
                histogram.clear();
            }
        }
        let counters = [
            &self.processed,
            &self.connections,
            &self.rejected,
            &self.bytes_in,
            &self.bytes_out,
            &self.errors,
            &self.denied,
            &self.parked,
            &self.transactions,
            &self.transaction_retries,
            &self.transactions_joined,
            &self.refused_in_doubt,
            &self.waited_long,
            &self.script_reruns,
            &self.turns,
            &self.reads,
            &self.pipelines,
            &self.busy_turns,
            &self.writes,
            &self.query_overruns,
            &self.output_overruns,
            &self.evicted_clients,
            &self.command_nanos,
            &self.turn_nanos,
            &self.housekeeping_nanos,
            &self.longest_window,
            &self.most_commands,
        ];
        for counter in counters {
            counter.store(0, Relaxed);
        }
        self.codes().clear();
    }

    /// Counts an error reply; `text` begins with its code.
    #[cold]
    pub fn count_error(&self, text: &[u8]) {
        add(&self.errors, 1);
        let end = text.iter().take(CODE_MAX).position(|byte| matches!(byte, b' ' | b'\r')).unwrap_or(0);
        let code = if end == 0 { b"ERR" } else { &text[..end] };
        let mut codes = self.codes();
        if let Some(count) = codes.get_mut(code) {
            *count += 1;
        } else if codes.len() < CODES_MAX {
            codes.insert(code.into(), 1);
        }
    }

    /// Counts of error replies by their code.
    pub fn codes(&self) -> MutexGuard<'_, BTreeMap<Box<[u8]>, u64>> {
        self.codes.lock().unwrap_or_else(PoisonError::into_inner)
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
