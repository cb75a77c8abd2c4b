//! The thread that makes checkpoints. It decides when, and how much of a core and of the disk it uses.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clocks::UnixMs;
use engine::checkpoint::{Checkpointer, Step, World};
use node::config::Settings;
use node::{Bound, Checkpoints, Floor, Node, Outside, Tail};
use redolog::{Gate, Log, State};

use super::effort::Effort;

/// Between two looks at whether one is due.
const LOOK: Duration = Duration::from_millis(100);
/// Milliseconds between two times at which the log is cut behind what others need no more.
const CUT_MS: u64 = 1_000;
/// A busy latch is free in so long, unless a script holds it.
const BUSY: Duration = Duration::from_micros(50);
/// The log commits in about so long.
const WAITING: Duration = Duration::from_micros(500);
/// Work is slept off in sleeps of at least this.
const SLEEP_MIN_NS: u64 = 1_000_000;
/// Between two words to writers about how far the tail may grow, in nanoseconds.
const PUBLISH_NS: u64 = 2_000_000;
/// More than workers write between two looks: if so much more may be, they need not look themselves.
const FAR: u64 = 256 << 20;
/// Percent of a core that a checkpoint takes at most: now and then it looks whether it is to stop.
const SHARE_MAX: u64 = 95;
/// No step is slept off for longer than this.
const SLEEP_MAX_NS: u64 = 20_000_000;
/// Milliseconds without another try after a failure, unless a client asks for one (Redis `CONFIG_BGSAVE_RETRY_DELAY`).
const RETRY_MS: u64 = 5_000;
/// Tombstones that make a checkpoint due.
const TOMBSTONES_MAX: u64 = 1 << 20;
/// The approximate bytes of a tombstone. Where memory is limited, tombstones take at most about a sixteenth of it.
const TOMBSTONE_BYTES: u64 = 128;

/// Starts the thread, which returns its work: a checkpoint may be under way. `gates` lead to the streams of the log. `floor`: of a
/// log that others may read.
pub fn start(
    node: Arc<Node>,
    log: Log,
    gates: Vec<Gate>,
    checkpointer: Checkpointer,
    checkpoints: Arc<Checkpoints>,
    tail: Arc<Tail>,
    floor: Option<Floor>,
) -> std::io::Result<JoinHandle<Checkpointer>> {
    let outside = Outside { node, log, gates, floor };
    let run = move || {
        let effort = Effort::default();
        let (owed, kept, published, warned) = (0, 0, 0, None);
        let mut runner = Runner { outside, checkpointer, checkpoints, tail, effort, owed, kept, published, warned };
        runner.run();
        runner.tail.unbind();
        runner.checkpoints.close();
        runner.checkpointer
    };
    thread::Builder::new().name("checkpoint".into()).spawn(run)
}

/// The size of the tail that makes a checkpoint due. Where data leaves memory for the store, the store must have it in
/// time, and as much room must remain for writes meanwhile.
fn most(node: &Node, settings: &Settings) -> u64 {
    let part = |bytes, parts| if bytes == 0 { u64::MAX } else { bytes / parts };
    settings
        .checkpoint_log_size
        .min(part(node.memory_bound(settings).unwrap_or(0), 4))
        .min(part(settings.checkpoint_log_max, 2))
}

/// How many tombstones make a checkpoint due.
fn most_tombstones(node: &Node, settings: &Settings) -> u64 {
    let part = node.memory_bound(settings).map(|bound| bound / 16 / TOMBSTONE_BYTES);
    part.map_or(TOMBSTONES_MAX, |part| part.clamp(TOMBSTONES_MAX / 64, TOMBSTONES_MAX))
}

struct Runner {
    outside: Outside,
    checkpointer: Checkpointer,
    checkpoints: Arc<Checkpoints>,
    /// Nanoseconds to be slept off.
    owed: u64,
    /// Where the log was when the last checkpoint began that is durable: a start replays what comes after.
    kept: u64,
    tail: Arc<Tail>,
    effort: Effort,
    /// When it was last said how far the tail may grow.
    published: u64,
    /// When it was last said that a checkpoint has failed, and why, and whether that memory is full, too.
    warned: Option<(UnixMs, String, bool)>,
}

impl Runner {
    fn run(&mut self) {
        self.checkpoints.serve();
        let mut last_position = 0;
        let mut last = self.outside.now();
        let (mut retry_at, mut cut_at) = (UnixMs::ZERO, UnixMs::ZERO);
        loop {
            let (asked, _, stopping) = self.checkpoints.orders();
            let (now, position) = (self.outside.now(), self.position());
            let settings = self.outside.node.config.settings();
            let grown = position.saturating_sub(last_position);
            let most = most(&self.outside.node, &settings);
            let interval = u64::from(settings.checkpoint_interval) * 1000;
            let due = grown >= most
                // A shorter log may be what there is room for.
                || (matches!(self.outside.log.state(), State::Full(lack) if lack.is_of_disk()) && now.since(last) >= RETRY_MS)
                || (interval > 0 && grown > 0 && now.since(last) >= interval)
                || self.outside.node.engine.keyspace.tombstones() > most_tombstones(&self.outside.node, &settings);
            if !asked && (stopping || !due || now < retry_at || !self.checkpoints.may_begin()) {
                if stopping {
                    return;
                }
                self.publish();
                if now >= cut_at && self.outside.floor.is_some() {
                    self.checkpointer.cut_again(&mut self.outside);
                    cut_at = now + CUT_MS;
                }
                thread::park_timeout(LOOK);
                continue;
            }
            if self.failed_log().is_some() && stopping {
                return;
            }
            (last, last_position) = (now, position);
            if self.round(position) {
                self.kept = position;
            } else {
                retry_at = self.outside.now() + RETRY_MS;
            }
        }
    }

    fn position(&self) -> u64 {
        self.tail.position(&self.outside.log)
    }

    /// How far the log may go before the checkpoint under way ends, or the next one.
    fn limit(&self, settings: &Settings) -> u64 {
        match settings.checkpoint_log_max {
            0 => u64::MAX,
            // A backup has put them off.
            _ if !self.effort.is_under_way() && !self.checkpoints.may_begin() => u64::MAX,
            // As much is left for the next one.
            most => (self.kept + most).min(self.effort.began().map_or(u64::MAX, |began| began + most / 2)),
        }
    }

    /// Tells writers how far the tail may grow.
    fn publish(&mut self) {
        let settings = self.outside.node.config.settings();
        let (now, position, kept) = (self.outside.node.clock.monotonic_ns().0, self.position(), self.kept);
        self.published = now;
        self.effort.saw(now, position);
        let limit = self.limit(&settings);
        let (ends_at, least_ns) = self.effort.ends_at(now);
        let is_early =
            !self.effort.is_under_way() && position.saturating_sub(kept) < most(&self.outside.node, &settings) / 2;
        let is_far = is_early && limit.saturating_sub(position) >= FAR;
        self.tail.set(Bound { kept, limit, ends_at, least_ns }, is_far);
        self.tail.alive(now);
    }

    /// Percent of a core that the running checkpoint may take: enough to end before writers have to wait. Where they
    /// never wait, the share grows with the time that a start would take now.
    fn share(&self) -> u64 {
        let settings = self.outside.node.config.settings();
        let share = u64::from(settings.checkpoint_cpu).clamp(1, 100);
        let position = self.position();
        let needed = match self.limit(&settings) {
            u64::MAX => {
                let most = most(&self.outside.node, &settings).max(1);
                let above = position.saturating_sub(self.kept).saturating_sub(most);
                share + SHARE_MAX.saturating_sub(share) * above.min(most) / most
            }
            limit => self.effort.share(limit.saturating_sub(position)),
        };
        share.max(needed).min(SHARE_MAX.max(share))
    }

    fn failed_log(&self) -> Option<String> {
        match self.outside.log.state() {
            State::Failed(why) => Some(why),
            _ => None,
        }
    }

    /// Makes a checkpoint. False: it failed, or the server stops.
    fn round(&mut self, position: u64) -> bool {
        let (began, tail_from) = (self.outside.now(), self.kept);
        let changes = self.outside.changes();
        self.checkpoints.begun(began);
        self.effort.begin(position, position.saturating_sub(self.kept));
        let outcome = self.steps();
        let (work_ns, walk) = self.effort.work();
        self.effort.end(outcome.is_ok());
        self.tail.ended(outcome.as_ref().err().map(String::as_str));
        if let Err(why) = &outcome {
            self.warn(why);
        }
        let (good, now) = (outcome.is_ok(), self.outside.now());
        let figures = self.checkpointer.figures();
        self.checkpoints.ended(outcome.map(|()| figures), changes, now);
        if good {
            tracing::debug!(
                "Checkpoint: {} changes in {} slots, {} bytes, {} ms, {} of work, {walk}% of that to copy; {} bytes of the log",
                figures.changes,
                figures.slots,
                figures.bytes,
                now.since(began),
                work_ns / 1_000_000,
                position.saturating_sub(tail_from)
            );
        }
        good
    }

    /// Logs that a checkpoint has failed. Full memory causes many tries, so not every failure is logged.
    fn warn(&mut self, why: &str) {
        let (now, node) = (self.outside.now(), &self.outside.node);
        let is_full = node.uses_more_than(node.usable(&node.config.settings()));
        let has_said = |(before, of_what, of_memory): &(UnixMs, String, bool)| {
            now.since(*before) < RETRY_MS && is_same_reason(of_what, why) && (*of_memory || !is_full)
        };
        if self.warned.as_ref().is_some_and(has_said) {
            return;
        }
        self.warned = Some((now, why.to_owned(), is_full));
        let refuses = if is_full {
            "; memory is full, and changed values cannot leave it for the store until a checkpoint succeeds: commands that need memory are refused"
        } else {
            ""
        };
        tracing::warn!(cause = "checkpoint", "A checkpoint has failed: {why}{refuses}");
    }

    fn steps(&mut self) -> Result<(), String> {
        // A round that could not go on has copied data from before the request for this one.
        if self.checkpointer.is_running() {
            self.one_round()?;
        }
        self.one_round()
    }

    fn one_round(&mut self) -> Result<(), String> {
        while self.checkpointer.begin(&mut self.outside) == Step::Busy {
            self.pause(BUSY)?;
        }
        loop {
            let clock = self.outside.node.clock.clone();
            let (before, cpu_before) = (clock.monotonic_ns().0, clock.thread_cpu_ns());
            match self.checkpointer.step(&mut self.outside).map_err(|error| error.to_string())? {
                Step::Done | Step::Idle => return Ok(()),
                Step::Busy => self.pause(BUSY)?,
                Step::Waiting => self.pause(WAITING)?,
                Step::More => {}
            }
            let (now, cpu) = (clock.monotonic_ns().0, clock.thread_cpu_ns().saturating_sub(cpu_before));
            let took = now.saturating_sub(before);
            self.effort.spent(took, self.checkpointer.figures().progress as f64 / keyspace::SLOTS as f64);
            if now.saturating_sub(self.published) >= PUBLISH_NS {
                self.publish();
            }
            let share = self.share();
            self.owed += (cpu * (100 - share) / share).min(SLEEP_MAX_NS);
            if self.owed >= SLEEP_MIN_NS {
                let (asked, urgent, stopping) = self.checkpoints.orders();
                self.checkpoints.progress(self.checkpointer.figures());
                if stopping && !asked && !urgent {
                    return Err(STOPPING.into());
                }
                if !urgent {
                    thread::park_timeout(Duration::from_nanos(self.owed));
                }
                self.owed = 0;
            }
        }
    }

    /// Gives way to the threads that the checkpointer waits for.
    fn pause(&mut self, time: Duration) -> Result<(), String> {
        let (_, urgent, stopping) = self.checkpoints.orders();
        if let Some(why) = waits_in_vain(&self.outside.log.state(), urgent, stopping, time == BUSY) {
            return Err(why);
        }
        thread::park_timeout(time);
        Ok(())
    }
}

/// True if two failures are the same but for the numbers of the files that they name.
fn is_same_reason(a: &str, b: &str) -> bool {
    let is_no_digit = |c: &char| !c.is_ascii_digit();
    a.chars().filter(is_no_digit).eq(b.chars().filter(is_no_digit))
}

/// The reason for giving up a round that no client waits for.
const STOPPING: &str = "no more are made, as the server stops or appendonly has been turned off";

/// Returns a reason if a round waits in vain. `urgent`: a client waits for the round. `latch`: the round waits for a
/// latch, otherwise for the log.
fn waits_in_vain(log: &State, urgent: bool, stopping: bool, latch: bool) -> Option<String> {
    match log {
        State::Failed(why) => return Some(format!("the log has failed: {why}")),
        // It could wait for ever, and the process with it: what was left and is not written is not confirmed to
        // anybody.
        State::Full(lack) if stopping => return Some(format!("{STOPPING}; and the log does not go on: {lack}")),
        State::Full(_) | State::Running => {}
    }
    // Workers have ended when it stops: a latch that is busy then, as a script had it, is never given back.
    (stopping && (!urgent || latch)).then(|| STOPPING.into())
}

#[cfg(test)]
mod tests {
    use redolog::Lack;

    use super::*;

    #[test]
    fn failures_differ_by_more_than_the_number_of_a_table() {
        assert!(is_same_reason("tables/9: no space left", "tables/10: no space left"));
        assert!(!is_same_reason("tables/9: no space left", "tables/9: input/output error"));
    }

    #[test]
    fn a_server_that_stops_waits_only_for_what_comes() {
        let failed = State::Failed("no disk".into());
        for (urgent, stopping, latch) in (0..8).map(|bits| (bits & 1 > 0, bits & 2 > 0, bits & 4 > 0)) {
            let ends = |log: &State| waits_in_vain(log, urgent, stopping, latch).is_some();
            assert!(ends(&failed));
            assert_eq!(ends(&State::Running), stopping && (!urgent || latch));
            assert_eq!(ends(&State::Full(Lack::Space)), stopping, "urgent {urgent}, latch {latch}");
        }
    }
}
