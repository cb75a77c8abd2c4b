//! Slow events (LATENCY): the last samples of each kind of event, from `latency-monitor-threshold` on.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Samples kept of an event; one per second at most, so at least this many seconds (as in Redis).
const SAMPLES_MAX: usize = 160;
/// Widest graph in columns.
const COLUMNS: usize = 80;
/// Lines of a graph above its labels.
const ROWS: u64 = 4;

/// Kinds of events, by Redis's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A command that may be slow.
    Command,
    /// A command that should never be slow.
    FastCommand,
    /// Expired keys were looked for and deleted.
    ExpireCycle,
    /// Keys were evicted.
    EvictionCycle,
    /// Entries and tables were moved together.
    DefragCycle,
    /// The log waited for copies of a block that its own disk had.
    LogCopies,
}

impl Event {
    /// All of them.
    pub const ALL: [Event; 6] = [
        Event::Command,
        Event::FastCommand,
        Event::ExpireCycle,
        Event::EvictionCycle,
        Event::DefragCycle,
        Event::LogCopies,
    ];

    /// The name in LATENCY.
    pub fn name(self) -> &'static str {
        match self {
            Event::Command => "command",
            Event::FastCommand => "fast-command",
            Event::ExpireCycle => "expire-cycle",
            Event::EvictionCycle => "eviction-cycle",
            Event::DefragCycle => "active-defrag-cycle",
            Event::LogCopies => "log-copies",
        }
    }
}

/// The longest event of a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Unix seconds.
    pub time: u64,
    /// Milliseconds that it took.
    pub millis: u64,
}

/// The samples of one kind of event, oldest first.
#[derive(Clone, Default, Debug)]
pub struct Series {
    samples: VecDeque<Sample>,
    /// Milliseconds of the longest since the last reset.
    pub longest: u64,
}

impl Series {
    fn add(&mut self, time: u64, millis: u64) {
        self.longest = self.longest.max(millis);
        if let Some(last) = self.samples.back_mut().filter(|last| last.time == time) {
            last.millis = last.millis.max(millis);
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { time, millis });
    }

    /// Its samples, oldest first.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = Sample> + '_ {
        self.samples.iter().copied()
    }

    /// The newest.
    pub fn last(&self) -> Option<Sample> {
        self.samples.back().copied()
    }

    fn range(&self) -> (u64, u64) {
        let millis = || self.samples.iter().map(|sample| sample.millis);
        (millis().min().unwrap_or(0), millis().max().unwrap_or(0))
    }

    /// The number and the length of the events, in words. `now` in unix seconds.
    pub fn summary(&self, now: u64) -> String {
        let count = self.samples.len().max(1) as u64;
        let average = self.samples.iter().map(|sample| sample.millis).sum::<u64>() / count;
        let deviation = self.samples.iter().map(|sample| sample.millis.abs_diff(average)).sum::<u64>() / count;
        let since = self.samples.front().map_or(0, |first| now.saturating_sub(first.time)).max(1);
        format!(
            "{} latency spikes (average {average}ms, mean deviation {deviation}ms, period {:.2} sec). Worst all time event {}ms.",
            self.samples.len(),
            since as f64 / count as f64,
            self.longest
        )
    }

    /// The samples as columns, each with its age under it. `now` in unix seconds.
    pub fn graph(&self, name: &str, now: u64) -> String {
        /// The character at the end of a column: a third, two thirds, all of a line.
        const ENDS: [char; 3] = ['_', 'o', '#'];
        let (low, high) = self.range();
        let mut text = format!("{name} - high {high} ms, low {low} ms (all time high {} ms)\n", self.longest);
        text.push_str(&"-".repeat(COLUMNS));
        text.push('\n');
        let steps = ENDS.len() as u64 * ROWS;
        let step_of = |sample: &Sample| {
            let part = u128::from(sample.millis - low) * u128::from(steps) / u128::from((high - low).max(1));
            (part as u64).min(steps - 1)
        };
        let samples: Vec<Sample> = self.samples.iter().copied().collect();
        for columns in samples.chunks(COLUMNS) {
            for row in (0..ROWS).rev() {
                let from = row * ENDS.len() as u64;
                text.extend(columns.iter().map(|sample| match step_of(sample).checked_sub(from) {
                    None => ' ',
                    Some(above) => ENDS.get(above as usize).copied().unwrap_or('|'),
                }));
                text.push('\n');
            }
            let ages: Vec<Vec<u8>> = columns.iter().map(|s| age(now.saturating_sub(s.time)).into_bytes()).collect();
            text.push('\n');
            for i in 0..ages.iter().map(Vec::len).max().unwrap_or(0) {
                text.extend(ages.iter().map(|age| age.get(i).map_or(' ', |byte| char::from(*byte))));
                text.push('\n');
            }
        }
        text
    }
}

/// Seconds in the largest unit that fits.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The events of a node.
#[derive(Default)]
pub struct Latencies {
    series: Mutex<[Option<Series>; Event::ALL.len()]>,
}

impl Latencies {
    fn series(&self) -> MutexGuard<'_, [Option<Series>; Event::ALL.len()]> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an event that took `millis`; `now` in unix seconds.
    #[cold]
    pub fn add(&self, event: Event, now: u64, millis: u64) {
        self.series()[event as usize].get_or_insert_default().add(now, millis);
    }

    /// The figures of every event that has happened.
    pub fn all(&self) -> Vec<(Event, Series)> {
        let series = self.series();
        Event::ALL.into_iter().filter_map(|event| Some((event, series[event as usize].clone()?))).collect()
    }

    /// The figures of the event of this name, if it has happened.
    pub fn find(&self, name: &[u8]) -> Option<(Event, Series)> {
        self.all().into_iter().find(|(event, _)| event.name().as_bytes() == name)
    }

    /// Forgets the events for which `wanted` is true. Returns how many there were.
    pub fn reset(&self, wanted: impl Fn(&str) -> bool) -> usize {
        let mut series = self.series();
        Event::ALL.into_iter().filter(|event| wanted(event.name()) && series[*event as usize].take().is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_one_sample_and_the_newest_stay() {
        let latencies = Latencies::default();
        for (time, millis) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            latencies.add(Event::ExpireCycle, time, millis);
        }
        let (event, series) = latencies.find(b"expire-cycle").unwrap();
        assert_eq!(event, Event::ExpireCycle);
        let samples: Vec<_> = series.samples().map(|s| (s.time, s.millis)).collect();
        assert_eq!((samples, series.longest), (vec![(1, 9), (2, 3)], 9));
        assert!(latencies.find(b"command").is_none() && latencies.find(b"Expire-Cycle").is_none());
        (3..1000).for_each(|time| latencies.add(Event::ExpireCycle, time, 1));
        let series = latencies.find(b"expire-cycle").unwrap().1;
        assert_eq!((series.samples().len(), series.last().unwrap().time), (SAMPLES_MAX, 999));
        assert_eq!(series.longest, 9);
        latencies.add(Event::Command, 5, u64::MAX);
        assert_eq!(latencies.reset(|name| name == "command"), 1);
        assert_eq!((latencies.reset(|_| true), latencies.reset(|_| true)), (1, 0));
    }

    #[test]
    fn graphs_have_a_column_for_each_sample() {
        let mut series = Series::default();
        for (time, millis) in [(100, 10), (150, 20), (195, 60), (199, 40)] {
            series.add(time, millis);
        }
        let graph = series.graph("command", 200);
        let lines: Vec<&str> = graph.lines().collect();
        assert_eq!(lines[0], "command - high 60 ms, low 10 ms (all time high 60 ms)");
        assert_eq!(lines[2..6], ["  # ", "  |o", "  ||", "_#||"].map(|line| line));
        assert_eq!(lines[7..], ["1551", "m0ss", " s  "].map(|line| line));
        assert_eq!(
            series.summary(200),
            "4 latency spikes (average 32ms, mean deviation 17ms, period 25.00 sec). Worst all time event 60ms."
        );
        // No division by zero, no overflow.
        series.add(0, u64::MAX);
        series.graph("command", 0);
        assert!(Series::default().graph("command", 1).starts_with("command - high 0 ms"));
    }
}
