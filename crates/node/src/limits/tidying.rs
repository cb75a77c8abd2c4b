//! When the engine tidies, and how much: see `engine`'s `Engine::tidy`.
//!
//! Tables are always kept tidy: a load of many keys leaves them sparse, and moving them costs little. Entries are moved
//! as the `active-defrag-*` settings say.

use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use engine::Engine;

use crate::config::Settings;
use crate::figures::latency::Event;
use crate::figures::meter::Meter;
use crate::figures::stats::{WorkerStats, add};
use crate::node::Node;

/// Milliseconds between two looks at the heap, while there is nothing to do.
const LOOK_MS: u64 = 100;
/// Most milliseconds between two looks, after passes that found nothing to move.
const LOOK_MS_MAX: u64 = 10_000;
/// A pass is worth it if it moves one block of so many.
const WORTH: u64 = 64;
/// Nanoseconds of a step. The share of a processor follows from how often there is one.
const STEP_NS: u64 = 1_000_000;
/// Effort for tables, percent of a processor.
const TABLES_PERCENT: u64 = 5;
/// With fewer free bytes between tables nothing is done.
const TABLES_IGNORE: usize = 1 << 20;
/// Tables move when the bytes free between them are more than this part of those in use.
const TABLES_SHARE: usize = 64;
/// Milliseconds between two shrinkings of sparse tables while keys change, even if nothing else is to be done.
const TABLES_MS: u64 = 60_000;

/// A worker's state of tidying.
#[derive(Default)]
pub(crate) struct Tidying {
    /// When to look or to go on.
    next: UnixMs,
    /// Percent of a processor for the pass under way; 0 if there is none.
    percent: u64,
    /// The pass moves entries as well as tables.
    entries: bool,
    /// Wait after a pass.
    wait: u64,
    /// When the last pass ended, and the count of changes then.
    ended: UnixMs,
    dirty: u64,
}

impl Tidying {
    /// When the pass under way goes on.
    pub(crate) fn deadline(&self) -> Option<UnixMs> {
        (self.percent > 0).then_some(self.next)
    }
}

/// When entries are moved, and how much is done.
#[derive(Clone, Copy)]
struct Rule {
    on: bool,
    ignore_bytes: u64,
    /// Free bytes in percent of those in use at which it starts, and at which it does the most.
    threshold: [u64; 2],
    /// Percent of a processor at these.
    cycle: [u64; 2],
}

impl Rule {
    fn of(settings: &Settings) -> Rule {
        Rule {
            on: settings.activedefrag,
            ignore_bytes: settings.active_defrag_ignore_bytes,
            threshold: [settings.active_defrag_threshold_lower, settings.active_defrag_threshold_upper],
            cycle: [settings.active_defrag_cycle_min, settings.active_defrag_cycle_max],
        }
    }
}

/// Percent of a processor for moving entries, with `live` bytes in use and `free` bytes between them; 0 for nothing.
fn effort(rule: &Rule, live: u64, free: u64) -> u64 {
    let [lower, upper] = rule.threshold;
    let [least, most] = rule.cycle;
    let waste = free.saturating_mul(100) / live.max(1);
    if !rule.on || free < rule.ignore_bytes || waste < lower {
        return 0;
    }
    let span = upper.saturating_sub(lower).max(1);
    (least + most.saturating_sub(least) * (waste - lower).min(span) / span).max(1)
}

/// The inputs of tidying from its worker.
pub(crate) struct Scene<'a> {
    pub(crate) node: &'a Node,
    pub(crate) engine: &'a mut Engine,
    pub(crate) stats: &'a WorkerStats,
    pub(crate) meter: &'a mut Meter,
}

impl Tidying {
    /// Tidies a little if there is need, and time. Returns whether pages may have become empty, to be given back.
    #[inline]
    pub(crate) fn tidy(&mut self, now: UnixMs, settings: &Settings, of: Scene<'_>) -> bool {
        now >= self.next && self.tidy_now(now, settings, of)
    }

    fn tidy_now(&mut self, now: UnixMs, settings: &Settings, of: Scene<'_>) -> bool {
        if self.percent == 0 {
            self.consider(now, settings, &of);
        }
        if self.percent == 0 {
            self.next = now + LOOK_MS;
            return false;
        }
        let clock = of.node.clock.clone();
        let begun = clock.monotonic_ns();
        let in_time = || clock.monotonic_ns() < begun + STEP_NS;
        let (workers, entries) = (of.node.workers() as u16, self.entries);
        let passed = match of.engine.tidy(workers, entries, in_time) {
            engine::Tidied::Part => {
                self.next = now + (100 / self.percent).max(1);
                false
            }
            engine::Tidied::Pass { seen, moved } => {
                let worth = moved * WORTH > seen;
                let wait = if worth { LOOK_MS } else { (self.wait * 2).clamp(LOOK_MS, LOOK_MS_MAX) };
                let dirty = of.engine.fx.dirty;
                *self = Tidying { next: now + wait, wait, ended: now, dirty, ..Tidying::default() };
                of.stats.defrag_percent.store(0, Relaxed);
                true
            }
        };
        let nanos = clock.monotonic_ns().since(begun);
        of.meter.event(Event::DefragCycle, nanos);
        add(&of.stats.defrag_nanos, nanos);
        passed
    }

    /// Begins a pass if there is something to gain.
    fn consider(&mut self, now: UnixMs, settings: &Settings, of: &Scene<'_>) {
        let keyspace = &of.node.engine.keyspace;
        let heap = keyspace.heap().stats();
        let entries = effort(&Rule::of(settings), heap.live as u64, heap.free_in_pages as u64);
        let (used, free) = keyspace.table_memory();
        let tables = free > TABLES_IGNORE && free > used / TABLES_SHARE;
        let shrink = now >= self.ended + TABLES_MS && of.engine.fx.dirty != self.dirty;
        self.entries = entries > 0;
        self.percent = if tables || shrink { entries.max(TABLES_PERCENT) } else { entries };
        of.stats.defrag_percent.store(entries, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_follows_waste() {
        let rule = Rule { on: true, ignore_bytes: 100, threshold: [10, 50], cycle: [5, 25] };
        assert_eq!(effort(&rule, 1000, 99), 0, "too little");
        assert_eq!(effort(&rule, 10_000, 999), 0, "not much of it");
        assert_eq!(effort(&rule, 10_000, 1000), 5);
        assert_eq!(effort(&rule, 10_000, 3000), 15);
        assert_eq!(effort(&rule, 10_000, 5000), 25);
        assert_eq!(effort(&rule, 0, 50_000), 25);
        assert_eq!(effort(&Rule { on: false, ..rule }, 0, 50_000), 0);
        let odd = Rule { threshold: [50, 10], cycle: [25, 5], ..rule };
        assert_eq!(effort(&odd, 1000, 5000), 25);
    }
}
