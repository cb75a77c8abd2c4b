//! Making room: keys are evicted, by sampling, while memory is above the limit.
//!
//! As in Redis, a small pool keeps the best candidates of all samples so far: with five samples a round that comes close to a
//! true LRU or LFU order.

use command::{class, effects::op};
use keyspace::{EntryRef, SLOTS};

use crate::engine::Engine;

/// Candidates kept between samples (Redis `EVPOOL_SIZE`).
const POOL: usize = 16;
/// Keys evicted before a command is let through although memory is still above the limit.
const EVICTIONS_PER_COMMAND: usize = 64;
/// Slots tried in a row without a candidate before giving up.
const EMPTY_TRIES: usize = 64;

/// Which keys to evict, and by what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Keys with an expiry only.
    pub volatile: bool,
    /// How candidates are compared.
    pub order: Order,
    /// Keys looked at per sample (`maxmemory-samples`).
    pub samples: usize,
}

/// How eviction candidates are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Idle the longest. Also for LFU: used the least.
    Access,
    /// Any.
    Random,
    /// Expires first.
    Expiry,
}

/// A key that might be evicted.
pub(crate) struct Candidate {
    /// Higher goes first.
    score: u64,
    db: u16,
    key: Box<[u8]>,
}

/// What became of the attempt to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Memory is below the limit.
    Enough,
    /// Keys were evicted and more must follow; the command may run.
    Soon,
    /// There is nothing to evict.
    None,
}

impl Engine {
    /// Evicts keys until `used()` is at most `limit`, for a bounded time. Nothing must be held.
    pub fn make_room(&mut self, policy: Policy, limit: u64, used: impl Fn() -> u64) -> Room {
        let mut evicted = 0;
        while used() > limit {
            if evicted == EVICTIONS_PER_COMMAND {
                return Room::Soon;
            }
            if !self.evict_one(policy) {
                return if evicted > 0 { Room::Soon } else { Room::None };
            }
            evicted += 1;
        }
        Room::Enough
    }

    fn evict_one(&mut self, policy: Policy) -> bool {
        for _ in 0..EMPTY_TRIES {
            self.sample(policy);
            while let Some(candidate) = self.pool.pop() {
                if self.evict(&candidate, policy) {
                    return true;
                }
            }
        }
        false
    }

    /// Adds the keys of a random place to the pool.
    fn sample(&mut self, policy: Policy) {
        let keyspace = &self.shared.clone().keyspace;
        let from = self.rng.below(SLOTS as u64) as u16;
        let Some(slot) = keyspace.next_occupied(from).or_else(|| keyspace.next_occupied(0)) else { return };
        let Some(held) = self.acquire_one(slot) else { return };
        let databases = keyspace.databases() as u16;
        let first_db = self.rng.below(u64::from(databases)) as u16;
        let start = self.rng.next_u64();
        let lfu = self.clock.is_lfu();
        let mut found = Vec::new();
        for db in (0..databases).map(|i| (first_db + i) % databases) {
            let salt = self.rng.next_u64();
            let view = self.db(&held, db, 0);
            if view.slot_len(slot) == 0 {
                continue;
            }
            let mut look = |entry: EntryRef<'_>| {
                if policy.volatile && entry.expiry().is_none() {
                    return;
                }
                let score = match policy.order {
                    Order::Access if lfu => 255 - u64::from(view.clock().frequency(entry.access())),
                    Order::Access => u64::from(view.clock().idle_seconds(entry.access())),
                    Order::Random => salt,
                    Order::Expiry => u64::MAX - entry.expiry().unwrap_or(u64::MAX),
                };
                found.push(Candidate { score, db, key: entry.key().into() });
            };
            let mut at = view.walk(slot, start, &mut look);
            let mut buckets = 1;
            while let Some(hash) = at
                && buckets < policy.samples
            {
                at = view.walk(slot, hash, &mut look);
                buckets += 1;
            }
            if at.is_none() && buckets < policy.samples {
                view.walk(slot, 0, &mut look);
            }
            if found.len() >= policy.samples {
                break;
            }
        }
        self.release(held);
        found.truncate(policy.samples.max(1) * 2);
        self.pool.append(&mut found);
        self.pool.sort_by_key(|c| c.score);
        let excess = self.pool.len().saturating_sub(POOL);
        self.pool.drain(..excess);
    }

    fn evict(&mut self, candidate: &Candidate, policy: Policy) -> bool {
        let shared = self.shared.clone();
        let key = shared.keyspace.hasher().key(&candidate.key);
        let Some(held) = self.acquire_one(key.slot) else { return false };
        let version = self.next_version(&held);
        self.fx.interest = shared.keyspace.interest(&held, key.slot);
        let mut view = self.db(&held, candidate.db, version);
        let there = view.peek(&key).is_some_and(|e| !policy.volatile || e.expiry().is_some());
        if there {
            view.remove(&key);
            keyspace::bump(&self.local.counters().evicted, 1);
            self.fx.push(op::DELETE, candidate.db, &key, |_| {});
            self.event(class::EVICTED, "evicted", candidate.db, &key);
            self.publish(&held);
        }
        self.release(held);
        there
    }
}
