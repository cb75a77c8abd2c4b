//! The background work of a worker: it frees flushed entries, sweeps expired keys, makes room, and ends idle
//! connections.

use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use engine::{Room, Swept};

use crate::config::Settings;
use crate::figures::latency::Event;
use crate::figures::stats::add;
use crate::limits::crowd;
use crate::limits::tidying::Scene;
use crate::worker::Worker;

/// Milliseconds between two rounds when the last sweep ran out of time, at `active-expire-effort` 1 and 10.
const CATCH_UP_MS: [u64; 2] = [4, 1];
/// Time of a sweep in nanoseconds, at `active-expire-effort` 1 and 10: a fifth and two thirds of the CPU.
const SWEEP_NS: [u64; 2] = [1_000_000, 2_000_000];
/// Allocations of deleted or flushed values that are freed in a turn: about half a millisecond.
const GARBAGE_STEP: usize = 2048;

/// Empty pages of the heap that are given back to the system in a turn: about a third of a millisecond.
const TRIM_PAGES: usize = 64;

/// A value between that for effort 1 and that for effort 10.
fn by_effort([least, most]: [u64; 2], effort: u32) -> u64 {
    let step = u64::from(effort.clamp(1, 10) - 1);
    if most > least { least + (most - least) * step / 9 } else { least - (least - most) * step / 9 }
}

impl Worker {
    /// Does the work that is due.
    pub(crate) fn housekeeping(&mut self, now: UnixMs, settings: &Settings) {
        if self.memory.reclaiming || self.engine.has_garbage() || now >= self.next_round {
            let more = self.engine.has_garbage() && self.engine.step_garbage(GARBAGE_STEP);
            self.memory.reclaiming = !self.node.engine.keyspace.heap().trim(TRIM_PAGES) || more;
        }
        let scene = Scene { node: &self.node, engine: &mut self.engine, stats: &self.stats, meter: &mut self.meter };
        // Pages that became empty go back.
        self.memory.reclaiming |= self.memory.tidying.tidy(now, settings, scene);
        if now < self.next_round {
            return;
        }
        if self.next_round == UnixMs::ZERO {
            self.node.worker_has_begun();
        }
        let begun = self.node.clock.monotonic_ns();
        // Between two rounds without a backlog.
        let mut wait = 1000 / u64::from(settings.hz.max(1));
        // Time must not undo what a pause is for: expired keys stay until it ends.
        let may_log = self.may_log() && !self.promises.backlog.is_slowed();
        if self.node.active_expire.load(Relaxed) && self.paused.is_none() && may_log {
            let clock = self.node.clock.clone();
            let effort = settings.active_expire_effort;
            let until = begun + by_effort(SWEEP_NS, effort);
            let workers = self.node.active_workers.load(Relaxed) as u16;
            if self.engine.sweep(workers, || clock.monotonic_ns() < until) == Swept::Part {
                wait = by_effort(CATCH_UP_MS, effort);
            }
            self.meter.event(Event::ExpireCycle, clock.monotonic_ns().since(begun));
        }
        if self.node.is_bounded(settings) && self.make_room(settings, 0) == Room::Soon {
            wait = by_effort(CATCH_UP_MS, 10);
        }
        if let Some(cpu) = self.node.facts.thread_cpu {
            let (user, system) = cpu();
            self.stats.cpu_user.store(user, Relaxed);
            self.stats.cpu_system.store(system, Relaxed);
        }
        self.look_at_long_waits();
        self.stats.links.store(self.peers.open_links().len() as u64, Relaxed);
        if settings.timeout > 0 {
            self.end_idle(now, settings.timeout * 1000);
        }
        if settings.output_limit_normal.soft > 0 || settings.output_limit_pubsub.soft > 0 {
            self.check_soft_limits(settings, now);
        }
        if crowd::limit(settings).is_some() {
            self.weigh_all(settings);
        }
        if headroom::is_short() {
            self.close_heaviest(headroom::talk());
        }
        if self.index == 0 {
            self.node.sample(now);
            self.forwarding().give_texts();
        }
        self.next_round = now + wait;
        let nanos = self.node.clock.monotonic_ns().since(begun);
        add(&self.stats.housekeeping_nanos, nanos);
        add(&self.stats.turn_nanos, nanos);
    }

    /// Closes connections that have been silent for longer than `idle_ms`. A blocked client is not silent but patient;
    /// a subscriber or a monitoring client listens.
    fn end_idle(&mut self, now: UnixMs, idle_ms: u64) {
        let idle = |c: &crate::worker::conn::Conn| {
            c.is_client()
                && !c.out.has_holes()
                && (c.wait.is_over() || c.stalled)
                && !c.session.is_subscribed()
                && !c.session.monitors
                && c.session.exporter.is_none()
                && now.since(UnixMs(c.session.client.last_active.load(Relaxed))) > idle_ms
        };
        let tokens: Vec<_> = self.conns.iter().flatten().filter(|c| idle(c)).map(|c| c.token).collect();
        for token in tokens {
            self.cut(token);
        }
    }
}
