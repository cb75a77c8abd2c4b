//! What a worker does besides commands: frees what was flushed, sweeps expired keys, makes room, ends idle connections.

use std::sync::atomic::Ordering::Relaxed;

use engine::{Order, Policy, Room, Swept};

use crate::config::{EvictionPolicy, Settings};
use crate::conn::Wait;
use crate::stats::add;
use crate::worker::Worker;

/// Between two rounds when the last sweep ran out of time.
const CATCH_UP_MS: u64 = 4;
/// Time of a sweep per step of `active-expire-effort`, in nanoseconds: at effort 1 at most a quarter of the CPU.
const SWEEP_NS: u64 = 1_000_000;

impl Worker {
    /// Does what is due.
    pub(crate) fn housekeeping(&mut self, now: u64, settings: &Settings) {
        self.reclaiming = self.engine.step_reclaims();
        if now < self.next_round {
            return;
        }
        let begun = self.node.clock.monotonic_ns();
        // Between two rounds when there is nothing to catch up with.
        let mut wait = 1000 / u64::from(settings.hz.max(1));
        if self.node.active_expire.load(Relaxed) {
            let clock = self.node.clock.clone();
            let until = clock.monotonic_ns() + SWEEP_NS * u64::from(settings.active_expire_effort.max(1));
            if self.engine.sweep(self.node.workers() as u16, || clock.monotonic_ns() < until) == Swept::Part {
                wait = CATCH_UP_MS;
            }
        }
        if settings.maxmemory > 0 && self.make_room(settings) == Room::Soon {
            wait = CATCH_UP_MS;
        }
        if settings.timeout > 0 {
            self.end_idle(now, settings.timeout * 1000);
        }
        if self.index == 0 {
            self.node.sample(now);
        }
        self.next_round = now + wait;
        let nanos = self.node.clock.monotonic_ns().saturating_sub(begun);
        add(&self.stats.housekeeping_nanos, nanos);
        add(&self.stats.turn_nanos, nanos);
    }

    /// Evicts keys if memory is above the limit.
    pub(crate) fn make_room(&mut self, settings: &Settings) -> Room {
        let node = self.node.clone();
        if node.used_memory() <= settings.maxmemory {
            return Room::Enough;
        }
        match policy(settings) {
            Some(policy) => self.engine.make_room(policy, settings.maxmemory, || node.used_memory()),
            None => Room::None,
        }
    }

    /// Closes connections that have been silent for longer than `idle_ms`; blocked ones are not silent but patient.
    fn end_idle(&mut self, now: u64, idle_ms: u64) {
        let idle = |c: &crate::conn::Conn| {
            matches!(c.wait, Wait::No) && now.saturating_sub(c.session.client.last_active.load(Relaxed)) > idle_ms
        };
        let tokens: Vec<_> = self.conns.iter().flatten().filter(|c| idle(c)).map(|c| c.token).collect();
        for token in tokens {
            self.closed_by_us(token);
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
