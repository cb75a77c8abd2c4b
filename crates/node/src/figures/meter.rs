//! Times commands at the cost of a clock reading for each window instead of each command.
//!
//! Commands that are always short are only counted. After a window, or before a command that is timed by itself, the
//! time since the last reading is divided among them. Such commands are in the slow log only if it wants commands of
//! less than a millisecond. Then each is timed by itself, as while HOTKEYS or CLUSTER SLOT-STATS look at them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use command::flags;
use resp::Args;

use crate::client::Client;
use crate::clock::Clock;
use crate::clock::MonoNs;
use crate::config::Settings;
use crate::figures::heat::{Heat, Shared};
use crate::figures::latency::{Event, Latencies};
use crate::figures::slowlog::{Kept, SlowLog};
use crate::figures::stats::{WorkerStats, add};
use crate::node::Node;
use crate::table::Command;

/// A command with more arguments is timed by itself, even if it is usually short.
const FEW_ARGUMENTS: usize = 8;
/// If the slow log wants commands below so many microseconds, each command is timed by itself.
const FINE: i64 = 1000;

/// A worker's stopwatch.
pub struct Meter {
    clock: Arc<dyn Clock>,
    stats: Arc<WorkerStats>,
    slow_log: Arc<SlowLog>,
    /// Nanoseconds of the last reading.
    since: MonoNs,
    /// Commands counted since: id and count, in order.
    pending: Vec<(u32, u32)>,
    /// True if histograms are kept (`latency-tracking`).
    tracking: bool,
    /// See [`FINE`].
    fine: bool,
    /// True if every command is timed by itself.
    each: bool,
    /// HOTKEYS and CLUSTER SLOT-STATS.
    pub(crate) heat: Heat,
    /// Microseconds from which on a command is in the slow log.
    threshold: Option<u64>,
    kept: Kept,
    latencies: Arc<Latencies>,
    /// Nanoseconds from which on an event is kept (`latency-monitor-threshold`).
    notable: Option<u64>,
    /// When the turn began.
    turn: UnixMs,
}

impl Meter {
    pub(crate) fn new(node: &Node, index: usize) -> Self {
        let shared = Shared {
            hot: node.hot_keys.clone(),
            slots: node.slot_figures.clone(),
            hasher: node.engine.keyspace.hasher().clone(),
        };
        Meter {
            clock: node.clock.clone(),
            stats: node.stats[index].clone(),
            slow_log: node.slow_log.clone(),
            latencies: node.latencies.clone(),
            notable: None,
            turn: UnixMs::ZERO,
            since: MonoNs::default(),
            pending: Vec::new(),
            tracking: true,
            fine: false,
            each: false,
            heat: Heat::new(node.clock.clone(), index, shared),
            threshold: None,
            kept: Kept { commands: 0, arguments: 2, bytes: 0 },
        }
    }

    pub(crate) fn configure(&mut self, settings: &Settings, is_cluster: bool) {
        let slower_than = settings.slowlog_log_slower_than;
        self.tracking = settings.latency_tracking;
        self.fine = (0..FINE).contains(&slower_than);
        self.heat.configure(settings, is_cluster);
        self.each = self.fine || self.heat.is_on();
        self.threshold = u64::try_from(slower_than).ok().filter(|_| settings.slowlog_max_len > 0);
        self.kept = Kept {
            commands: settings.slowlog_max_len,
            arguments: settings.slowlog_entry_max_argc.max(2),
            bytes: settings.slowlog_entry_max_string_len,
        };
        let millis = settings.latency_monitor_threshold;
        self.notable = (millis > 0).then(|| millis.saturating_mul(1_000_000));
    }

    /// True if a command is timed by itself.
    #[inline]
    pub fn is_exact(&self, command: &Command, args: Args<'_>) -> bool {
        !command.is_short || self.each || args.len() > FEW_ARGUMENTS
    }

    /// A command that is not timed by itself has run.
    #[inline]
    pub fn ran(&mut self, id: usize) {
        match self.pending.last_mut() {
            Some((last, n)) if *last == id as u32 => *n += 1,
            _ => self.pending.push((id as u32, 1)),
        }
    }

    /// Begins to measure: the time until now belongs to no command.
    pub fn start(&mut self) {
        self.since = self.clock.monotonic_ns();
    }

    /// Reads the clock and divides the time since the last reading among the commands that were counted. Returns the
    /// reading.
    pub fn settle(&mut self) -> MonoNs {
        let now = self.clock.monotonic_ns();
        let elapsed = now.since(self.since);
        self.since = now;
        if let [(id, 1)] = self.pending[..] {
            // The usual case: a client waits for its reply before it sends more.
            self.pending.clear();
            self.event(Event::FastCommand, elapsed);
            self.account(id as usize, 1, elapsed);
        } else if !self.pending.is_empty() {
            self.divide(elapsed);
        }
        now
    }

    /// Divides the time since the reading before among the commands that were counted.
    fn divide(&mut self, elapsed: u64) {
        let total: u64 = self.pending.iter().map(|(_, n)| u64::from(*n)).sum();
        let Some(each) = elapsed.checked_div(total) else { return };
        // Together they take microseconds: one of them was delayed.
        self.event(Event::FastCommand, elapsed);
        let mut pending = std::mem::take(&mut self.pending);
        for (id, n) in pending.drain(..) {
            self.account(id as usize, u64::from(n), each);
        }
        self.pending = pending;
    }

    /// Counts a command that was begun at reading `from`. Returns the nanoseconds that it took.
    pub fn finish(&mut self, command: &Command, args: Args<'_>, client: &Client, now: UnixMs, from: MonoNs) -> u64 {
        let nanos = self.settle().since(from);
        self.exact(command, args, client, now, nanos);
        nanos
    }

    /// Counts a command that took `nanos`.
    pub fn exact(&mut self, command: &Command, args: Args<'_>, client: &Client, now: UnixMs, nanos: u64) {
        self.account(command.counted_as, 1, nanos);
        self.notice(command, args, client, now, nanos, true);
    }

    /// A command that was begun at reading `from` has run and is not counted. `is_logged`: the slow log may take it.
    pub(crate) fn passed(
        &mut self,
        command: &Command,
        args: Args<'_>,
        client: &Client,
        now: UnixMs,
        from: MonoNs,
        is_logged: bool,
    ) {
        let nanos = self.settle().since(from);
        self.notice(command, args, client, now, nanos, is_logged);
    }

    fn notice(&self, command: &Command, args: Args<'_>, client: &Client, now: UnixMs, nanos: u64, is_logged: bool) {
        self.event(if command.spec.has(flags::FAST) { Event::FastCommand } else { Event::Command }, nanos);
        let is_slow = is_logged && self.threshold.is_some_and(|least| nanos / 1000 >= least);
        if is_slow && !command.spec.has(flags::SKIP_SLOWLOG) {
            self.slow_log.push(command.counted_as, args, client, now.seconds(), nanos / 1000, self.kept);
        }
    }

    /// Notes that an event took `nanos`: it is kept from `latency-monitor-threshold` on.
    #[inline]
    pub(crate) fn event(&self, event: Event, nanos: u64) {
        if self.notable.is_some_and(|least| nanos >= least) {
            self.latencies.add(event, (self.turn + nanos / 1_000_000).seconds(), nanos / 1_000_000);
        }
    }

    /// Checks if HOTKEYS counts commands at `now`.
    #[inline]
    pub(crate) fn look_at_heat(&mut self, now: UnixMs) {
        self.heat.follow(now);
        self.each = self.fine || self.heat.is_on();
    }

    /// A turn begins at `now`.
    pub(crate) fn begin_turn(&mut self, now: UnixMs) {
        self.turn = now;
        self.look_at_heat(now);
    }

    fn account(&mut self, id: usize, n: u64, each: u64) {
        let stats = &self.stats.commands[id];
        add(&stats.calls, n);
        add(&stats.nanos, n * each);
        add(&self.stats.processed, n);
        add(&self.stats.command_nanos, n * each);
        if self.tracking {
            stats.histogram().record(each, n);
        }
    }

    /// Ends a turn that was begun with [`Meter::start`] at reading `from` and ran `commands` commands before it.
    pub(crate) fn end_turn(&mut self, from: MonoNs, processed_before: u64) {
        let nanos = self.settle().since(from);
        let stats = &self.stats;
        add(&stats.turn_nanos, nanos);
        stats.longest_window.store(stats.longest_window.load(Relaxed).max(nanos), Relaxed);
        let commands = stats.processed.load(Relaxed).wrapping_sub(processed_before);
        stats.most_commands.store(stats.most_commands.load(Relaxed).max(commands), Relaxed);
    }

    /// The last reading.
    pub fn last_reading(&self) -> MonoNs {
        self.since
    }
}
