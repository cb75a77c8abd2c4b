//! Counters of the measurement, and their sums over threads.

use std::time::{Duration, Instant};

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
    /// Connections that were made again.
    pub reconnects: u64,
    /// Commands whose replies were lost with a connection.
    pub lost: u64,
    /// See `--timeline`.
    pub timeline: Option<Timeline>,
}

/// What happened in intervals of the measured time.
#[derive(Clone, Debug)]
pub struct Timeline {
    began: Instant,
    /// When it began, in milliseconds of unix time.
    pub began_ms: u64,
    /// The length of an interval, in milliseconds.
    pub step_ms: u64,
    /// One for each.
    pub steps: Vec<Step>,
}

/// An interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Batches that were answered, without an error and with one.
    pub answered: u64,
    pub failed: u64,
    /// The sum of their latencies, and the longest one, in nanoseconds.
    pub latency: u64,
    pub longest: u64,
}

impl Timeline {
    /// Begins now.
    pub fn new(step_ms: u64, began: Instant, began_ms: u64) -> Self {
        Self { began, began_ms, step_ms, steps: Vec::new() }
    }

    fn record(&mut self, now: Instant, has_failed: bool, latency: u64) {
        let at = (now.saturating_duration_since(self.began).as_millis() as u64 / self.step_ms) as usize;
        if at >= self.steps.len() {
            self.steps.resize(at + 1, Step::default());
        }
        let step = &mut self.steps[at];
        *(if has_failed { &mut step.failed } else { &mut step.answered }) += 1;
        step.latency += latency;
        step.longest = step.longest.max(latency);
    }

    /// Another thread's, which began at about the same time.
    fn add(&mut self, other: &Self) {
        self.steps.resize(self.steps.len().max(other.steps.len()), Step::default());
        for (step, more) in self.steps.iter_mut().zip(&other.steps) {
            step.answered += more.answered;
            step.failed += more.failed;
            step.latency += more.latency;
            step.longest = step.longest.max(more.longest);
        }
    }
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
            reconnects: 0,
            lost: 0,
            timeline: None,
        }
    }

    /// Counts a batch that was answered now.
    #[inline]
    pub fn record(&mut self, commands: u32, latency: Duration, now: Instant, has_failed: bool) {
        self.batches += 1;
        self.commands += u64::from(commands);
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_MAX_NS);
        self.latency.saturating_record(nanos);
        if let Some(timeline) = &mut self.timeline {
            timeline.record(now, has_failed, nanos);
        }
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
        self.reconnects += other.reconnects;
        self.lost += other.lost;
        match (&mut self.timeline, other.timeline) {
            (Some(timeline), Some(other)) => timeline.add(&other),
            (timeline, other) => *timeline = timeline.take().or(other),
        }
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
