//! What is counted while measuring, and the sums over threads.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::scan::Tally;

/// Latencies are kept in nanoseconds up to this; longer ones count as this long.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
/// Different error messages that are kept.
const MESSAGES_MAX: usize = 8;

/// One thread's counts, or the sums of all.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Batches answered.
    pub batches: u64,
    /// Commands answered.
    pub commands: u64,
    /// Errors and nils in replies.
    pub tally: Tally,
    /// Transactions sent again because EXEC answered nil or an error.
    pub retried: u64,
    /// Transactions given up after all retries.
    pub failed: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Latencies of batches, in nanoseconds.
    pub latency: Histogram<u64>,
    /// The first different error messages.
    pub messages: Vec<String>,
}

impl Stats {
    /// Zero.
    pub fn new() -> Self {
        let Ok(latency) = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3) else {
            unreachable!("the bounds are constants that the histogram accepts");
        };
        Self {
            batches: 0,
            commands: 0,
            tally: Tally::default(),
            retried: 0,
            failed: 0,
            bytes_in: 0,
            bytes_out: 0,
            latency,
            messages: Vec::new(),
        }
    }

    /// Counts a batch.
    #[inline]
    pub fn record(&mut self, commands: u32, latency: Duration) {
        self.batches += 1;
        self.commands += u64::from(commands);
        self.latency.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_MAX_NS));
    }

    /// Keeps an error's message if it is new and there is room.
    pub fn message(&mut self, text: String) {
        if self.messages.len() < MESSAGES_MAX && !self.messages.contains(&text) {
            self.messages.push(text);
        }
    }

    /// Adds another thread's counts.
    pub fn add(&mut self, other: Self) {
        self.batches += other.batches;
        self.commands += other.commands;
        self.tally.errors += other.tally.errors;
        self.tally.nils += other.tally.nils;
        self.retried += other.retried;
        self.failed += other.failed;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        if self.latency.add(&other.latency).is_err() {
            unreachable!("all histograms have the same bounds");
        }
        for message in other.messages {
            self.message(message);
        }
    }
}
