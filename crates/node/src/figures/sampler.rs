//! Rates of the last moments, for INFO: the counters of all workers, sampled ten times a second.

use std::sync::{Mutex, PoisonError};

use clocks::UnixMs;

/// Samples kept: rates are averages over their time.
const SAMPLES: usize = 16;

/// Sums of counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When it was taken.
    pub at: UnixMs,
    /// Commands.
    pub commands: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Turns of the workers' loops.
    pub turns: u64,
    /// Nanoseconds in them.
    pub turn_nanos: u64,
}

/// Changes per second, but for the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Commands.
    pub commands: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Turns of one worker's loop, in the mean.
    pub turns: u64,
    /// Mean microseconds of a turn.
    pub turn_micros: u64,
}

/// The last samples.
#[derive(Default)]
pub struct Sampler {
    ring: Mutex<Vec<Sample>>,
}

impl Sampler {
    /// Adds a sample.
    pub fn push(&self, sample: Sample) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        // After CONFIG RESETSTAT counters begin again, and so do the samples.
        if ring.last().is_some_and(|last| sample.commands < last.commands || sample.turns < last.turns) {
            ring.clear();
        }
        if ring.len() > SAMPLES {
            ring.remove(0);
        }
        ring.push(sample);
    }

    /// The rates over the time of the samples, for a node of `workers` workers.
    pub fn rates(&self, workers: u64) -> Rates {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(first), Some(last)) = (ring.first(), ring.last()) else { return Rates::default() };
        let ms = last.at.since(first.at);
        if ms == 0 {
            return Rates::default();
        }
        let per_second = |counter: fn(&Sample) -> u64| counter(last).saturating_sub(counter(first)) * 1000 / ms;
        let turns = last.turns.saturating_sub(first.turns);
        let nanos = last.turn_nanos.saturating_sub(first.turn_nanos);
        Rates {
            commands: per_second(|s| s.commands),
            bytes_in: per_second(|s| s.bytes_in),
            bytes_out: per_second(|s| s.bytes_out),
            turns: per_second(|s| s.turns) / workers.max(1),
            // A value below a microsecond is not zero.
            turn_micros: if nanos == 0 { 0 } else { (nanos / 1000 / turns.max(1)).max(1) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_last_samples() {
        let sampler = Sampler::default();
        assert_eq!(sampler.rates(1), Rates::default());
        for i in 0..40 {
            sampler.push(Sample {
                at: UnixMs(i * 100),
                commands: i * 50,
                turns: i * 4,
                turn_nanos: i * 8000,
                ..Sample::default()
            });
        }
        let rates = sampler.rates(2);
        assert_eq!((rates.commands, rates.turns, rates.turn_micros), (500, 20, 2));
        sampler.push(Sample { at: UnixMs(4000), ..Sample::default() });
        assert_eq!(sampler.rates(1), Rates::default());
    }
}
