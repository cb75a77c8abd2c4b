//! What a worker does besides commands: frees what was flushed, sweeps expired keys, makes room, ends idle connections.

use std::sync::atomic::Ordering::Relaxed;

use engine::{Order, Policy, Room, Swept};

use crate::config::{EvictionPolicy, Settings};
use crate::conn::Wait;
use crate::crowd;
use crate::latency::Event;
use crate::stats::add;
use crate::worker::Worker;

/// Between two rounds when the last sweep ran out of time, at `active-expire-effort` 1 and 10.
const CATCH_UP_MS: [u64; 2] = [4, 1];
/// Time of a sweep in nanoseconds, at `active-expire-effort` 1 and 10: a fifth and two thirds of the CPU.
const SWEEP_NS: [u64; 2] = [1_000_000, 2_000_000];
/// Time for eviction in a turn per step of `maxmemory-eviction-tenacity`, in nanoseconds (as in Redis).
const EVICTION_NS: u64 = 50_000;
/// Most time for eviction in a turn.
const EVICTION_NS_MAX: u64 = 2_000_000;
/// Writes wait for eviction when memory is above the limit by more than this part of it: 0.8%.
const EXCESS: u64 = 128;
/// Allocations of what was deleted or flushed that are freed in a turn: about half a millisecond.
const GARBAGE_STEP: usize = 2048;

/// Empty pages of the heap given back to the system in a turn: about a third of a millisecond.
const TRIM_PAGES: usize = 64;

/// Between what is for effort 1 and what is for effort 10.
fn by_effort([least, most]: [u64; 2], effort: u32) -> u64 {
    let step = u64::from(effort.clamp(1, 10) - 1);
    if most > least { least + (most - least) * step / 9 } else { least - (least - most) * step / 9 }
}

impl Worker {
    /// Does what is due.
    pub(crate) fn housekeeping(&mut self, now: u64, settings: &Settings) {
        if self.reclaiming || self.engine.has_garbage() || now >= self.next_round {
            let more = self.engine.has_garbage() && self.engine.step_garbage(GARBAGE_STEP);
            self.reclaiming = !self.node.engine.keyspace.heap().trim(TRIM_PAGES) || more;
        }
        self.tidy(now, settings);
        if now < self.next_round {
            return;
        }
        let begun = self.node.clock.monotonic_ns();
        // Between two rounds when there is nothing to catch up with.
        let mut wait = 1000 / u64::from(settings.hz.max(1));
        // What a pause is for must not be undone by time: expired keys stay until it ends.
        if self.node.active_expire.load(Relaxed) && self.paused.is_none() && self.may_log() {
            let clock = self.node.clock.clone();
            let effort = settings.active_expire_effort;
            let until = begun + by_effort(SWEEP_NS, effort);
            let workers = self.node.active_workers.load(Relaxed) as u16;
            if self.engine.sweep(workers, || clock.monotonic_ns() < until) == Swept::Part {
                wait = by_effort(CATCH_UP_MS, effort);
            }
            self.meter.event(Event::ExpireCycle, clock.monotonic_ns().saturating_sub(begun));
        }
        if settings.maxmemory > 0 && self.make_room(settings) == Room::Soon {
            wait = by_effort(CATCH_UP_MS, 10);
        }
        if settings.timeout > 0 {
            self.end_idle(now, settings.timeout * 1000);
        }
        if settings.output_limit_normal.soft > 0 || settings.output_limit_pubsub.soft > 0 {
            self.check_soft_limits(settings, now);
        }
        if crowd::limit(settings).is_some() {
            self.weigh_all(settings);
        }
        if self.index == 0 {
            self.node.sample(now);
        }
        self.next_round = now + wait;
        let nanos = self.node.clock.monotonic_ns().saturating_sub(begun);
        add(&self.stats.housekeeping_nanos, nanos);
        add(&self.stats.turn_nanos, nanos);
    }

    /// Evicts keys if memory is above the limit, as long as this turn's time for it goes.
    pub(crate) fn make_room(&mut self, settings: &Settings) -> Room {
        let node = self.node.clone();
        let above = || node.uses_more_than(settings.maxmemory);
        if !above() {
            return Room::Enough;
        }
        if !self.may_log() {
            return Room::None;
        }
        let now = node.clock.monotonic_ns();
        if self.evict_until == 0 {
            let time = EVICTION_NS * u64::from(settings.maxmemory_eviction_tenacity);
            self.evict_until = now + time.min(EVICTION_NS_MAX);
        } else if now >= self.evict_until {
            return Room::Soon;
        }
        let until = self.evict_until;
        let room = self.engine.make_room(policy(settings), above, || node.clock.monotonic_ns() < until);
        self.meter.event(Event::EvictionCycle, node.clock.monotonic_ns().saturating_sub(now));
        room
    }

    /// Whether a command that may need memory must wait until more keys have been evicted. Redis would let it run; so would we
    /// exceed the limit by whatever clients send faster than keys are evicted.
    pub(crate) fn must_wait_for_room(&self, settings: &Settings) -> bool {
        let excess =
            if settings.maxmemory_policy == EvictionPolicy::NoEviction { 0 } else { settings.maxmemory / EXCESS };
        self.node.uses_more_than(settings.maxmemory.saturating_add(excess))
    }

    /// Closes connections that have been silent for longer than `idle_ms`; blocked ones are not silent but patient, and
    /// those who have subscribed or monitor listen.
    fn end_idle(&mut self, now: u64, idle_ms: u64) {
        let idle = |c: &crate::conn::Conn| {
            (matches!(c.wait, Wait::No) || c.stalled)
                && !c.session.is_subscribed()
                && !c.session.monitors
                && now.saturating_sub(c.session.client.last_active.load(Relaxed)) > idle_ms
        };
        let tokens: Vec<_> = self.conns.iter().flatten().filter(|c| idle(c)).map(|c| c.token).collect();
        for token in tokens {
            self.cut(token);
        }
    }
}

fn policy(settings: &Settings) -> Option<Policy> {
    use EvictionPolicy::*;
    let (volatile, order) = match settings.maxmemory_policy {
        NoEviction => return None,
        VolatileLru | VolatileLfu => (true, Order::Access),
        VolatileRandom => (true, Order::Random),
        VolatileTtl => (true, Order::Expiry),
        AllKeysLru | AllKeysLfu => (false, Order::Access),
        AllKeysRandom => (false, Order::Random),
    };
    Some(Policy { volatile, order, samples: settings.maxmemory_samples as usize })
}
