//! Durations of commands: counts by duration, with buckets about 6% wide.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets per power of two.
const STEPS: u64 = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Durations below 2^`LOW` ns share the finest steps; those above 2^`HIGH` ns (18 minutes) the last bucket.
const LOW: u32 = 6;
const HIGH: u32 = 40;
const BUCKETS: usize = ((HIGH - LOW + 1) as u64 * STEPS) as usize;

/// Counts of durations. One thread writes, others may read meanwhile.
pub struct Histogram {
    counts: Box<[AtomicU64]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < 1 << LOW {
        return (nanos >> (LOW - STEP_BITS)) as usize;
    }
    let power = nanos.ilog2();
    if power >= HIGH {
        return BUCKETS - 1;
    }
    let step = (nanos >> (power - STEP_BITS)) - STEPS;
    ((u64::from(power - LOW) + 1) * STEPS + step) as usize
}

/// The longest duration of a bucket, in nanoseconds.
fn upper(bucket: usize) -> u64 {
    let (group, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    if group == 0 {
        return ((step + 1) << (LOW - STEP_BITS)) - 1;
    }
    let power = LOW + group as u32 - 1;
    ((STEPS + step + 1) << (power - STEP_BITS)) - 1
}

impl Histogram {
    /// Counts `n` durations of `nanos`. Only the owning thread may call it.
    pub fn record(&self, nanos: u64, n: u64) {
        let count = &self.counts[bucket(nanos)];
        count.store(count.load(Relaxed) + n, Relaxed);
    }

    /// Forgets all counts.
    pub fn clear(&self) {
        self.counts.iter().for_each(|count| count.store(0, Relaxed));
    }

    /// Adds its counts to a sum.
    pub fn add_to(&self, sum: &mut Distribution) {
        sum.counts.resize(BUCKETS, 0);
        self.counts.iter().zip(&mut sum.counts).for_each(|(count, sum)| *sum += count.load(Relaxed));
    }
}

/// The sum of some histograms.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    counts: Vec<u64>,
}

impl Distribution {
    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The duration in nanoseconds that `percent` of all do not exceed (0: the shortest); 0 if there is none.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = (self.count() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(i);
            }
        }
        0
    }

    /// Powers of two of microseconds with the number of durations that do not exceed them, where that number grows.
    pub fn cumulative_by_micros(&self) -> Vec<(u64, u64)> {
        let total = self.count();
        let mut result: Vec<(u64, u64)> = Vec::new();
        for power in 0..=(HIGH - LOW) {
            let micros = 1u64 << power;
            let within: u64 =
                self.counts.iter().enumerate().filter(|(i, _)| upper(*i) <= micros * 1000).map(|(_, n)| n).sum();
            if within > result.last().map_or(0, |(_, before)| *before) {
                result.push((micros, within));
            }
            if within == total {
                break;
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(durations: &[u64]) -> Distribution {
        let histogram = Histogram::default();
        durations.iter().for_each(|nanos| histogram.record(*nanos, 1));
        let mut sum = Distribution::default();
        histogram.add_to(&mut sum);
        sum
    }

    proptest! {
        #[test]
        fn a_duration_lies_in_its_bucket(nanos in 0u64..1 << HIGH) {
            let i = bucket(nanos);
            prop_assert!(nanos <= upper(i));
            prop_assert!(i == 0 || nanos > upper(i - 1));
            prop_assert!(upper(i) - nanos <= nanos / STEPS + 4);
        }
    }

    #[test]
    fn the_longest_durations_share_a_bucket() {
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket(0), 0);
    }

    #[test]
    fn percentiles() {
        assert_eq!(of(&[]).percentile(50.0), 0);
        let sum = of(&(1..=1000).map(|n| n * 1000).collect::<Vec<_>>());
        assert_eq!(sum.count(), 1000);
        for percent in [0.1, 50.0, 99.0, 100.0] {
            let exact = percent * 10_000.0;
            let found = sum.percentile(percent) as f64;
            assert!(found >= exact && found <= exact * 1.07, "{percent}: {found}");
        }
        assert!(sum.percentile(0.0) < 1100);
    }

    #[test]
    fn powers_of_two_add_up() {
        let sum = of(&[900, 1500, 3_000, 3_100, 9_000]);
        assert_eq!(sum.cumulative_by_micros(), [(1, 1), (2, 2), (4, 4), (16, 5)]);
        assert_eq!(of(&[]).cumulative_by_micros(), []);
    }
}
