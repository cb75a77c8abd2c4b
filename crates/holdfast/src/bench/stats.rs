//! Counters of the measurement, and their sums over threads.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::scan::Tally;

/// Latencies are kept in nanoseconds up to this; longer ones count as this long.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
/// Different error messages that are kept.
const MESSAGES_MAX: usize = 8;

/// How batches were shared out among the connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Of the connection with the fewest, as a share of the mean.
    pub least: f64,
    /// Of the one with the most.
    pub most: f64,
    /// Jain's index: 1 if all have equally many, 1/n if one of n has all.
    pub fairness: f64,
}

impl Shares {
    /// From the number of batches of each connection; all alike if there are none.
    pub fn of(batches: &[u64]) -> Self {
        let (count, sum) = (batches.len() as f64, batches.iter().sum::<u64>() as f64);
        if sum == 0.0 {
            return Self { least: 1.0, most: 1.0, fairness: 1.0 };
        }
        let squares: f64 = batches.iter().map(|batches| (*batches as f64).powi(2)).sum();
        let share = |batches: Option<&u64>| batches.map_or(0.0, |batches| *batches as f64 * count / sum);
        Self {
            least: share(batches.iter().min()),
            most: share(batches.iter().max()),
            fairness: sum * sum / (count * squares),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!(Shares::of(&[5, 5, 5]), Shares { least: 1.0, most: 1.0, fairness: 1.0 });
        assert_eq!(Shares::of(&[0, 0, 0, 8]), Shares { least: 0.0, most: 4.0, fairness: 0.25 });
        assert_eq!(Shares::of(&[0, 0]), Shares { least: 1.0, most: 1.0, fairness: 1.0 });
    }
}
