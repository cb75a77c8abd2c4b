//! What sections of INFO are made from, and the lines that they write.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clocks::UnixMs;
use keyspace::Counts;

use crate::config::Settings;
use crate::figures::stats::WorkerStats;
use crate::node::Node;

/// The inputs of sections.
pub(super) struct Report<'a> {
    pub(super) node: &'a Node,
    pub(super) settings: &'a Settings,
    /// The time of the report.
    pub(super) now: UnixMs,
    /// The counts of each database.
    pub(super) databases: Vec<Counts>,
}

impl Report<'_> {
    /// The sum of a counter over all workers.
    pub(super) fn sum(&self, counter: impl Fn(&WorkerStats) -> &AtomicU64) -> u64 {
        self.node.stats.iter().map(|stats| counter(stats).load(Relaxed)).fold(0, u64::wrapping_add)
    }

    /// The sum of a counter of the keyspace over all workers.
    pub(super) fn keys_sum(&self, counter: impl Fn(&keyspace::Counters) -> &AtomicU64) -> u64 {
        self.node.engine.keyspace.counters().iter().map(|c| counter(c).load(Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// Lines of `name:value`.
#[derive(Default)]
pub(super) struct Text(pub(super) String);

impl Text {
    pub(super) fn title(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.0.push_str("\r\n");
        }
        let _ = write!(self.0, "# {title}\r\n");
    }

    pub(super) fn line(&mut self, name: impl Display, value: impl Display) {
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    pub(super) fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.line(name, 0));
    }
}

/// `a / b`, or 0 where the quotient means nothing.
pub(super) fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}
