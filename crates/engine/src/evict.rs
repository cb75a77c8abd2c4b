//! Making room: keys are evicted, by sampling, while memory is above the limit.
//!
//! As in Redis, a small pool keeps the best candidates of all samples so far. With five samples a round, that comes
//! close to a true LRU or LFU order. Where only keys with an expiry may go and few have one, a sample may find none.
//! The next one goes on from there, so that in the end every slot was visited.

mod all;

use clocks::UnixMs;
use command::{class, effects::op};
use keyspace::access::{AccessClock, Tracks};
use keyspace::{Db, EntryRef, Key, SLOTS};

use crate::engine::Engine;

pub(crate) use all::Round;
pub use all::Stayed;

/// Candidates kept between samples (Redis `EVPOOL_SIZE`).
const POOL: usize = 16;
/// Random slots tried for one that is not empty.
const SLOT_TRIES: usize = 32;
/// Slots visited for one sample before it has failed.
const SLOTS_PER_SAMPLE: usize = 256;
/// Buckets visited in one slot before its latch is given back.
const BUCKETS_PER_HOLD: usize = 32;
/// Samples without a candidate between two readings of the clock.
const EMPTY_SAMPLES: usize = 4;
/// Evictions between two readings of the clock.
const EVICTIONS_PER_LOOK: usize = 8;
/// Allocations of deleted values that are freed in the place of one eviction.
const GARBAGE_STEP: usize = 32;

/// The keys to evict, and their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Keys with an expiry only.
    pub volatile: bool,
    /// How candidates are compared.
    pub order: Order,
    /// Keys per sample (`maxmemory-samples`).
    pub samples: usize,
    /// They leave for the store, which has them already: keys that it does not have as they are stay.
    pub to_store: bool,
}

/// How eviction candidates are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Idle the longest. Also for LFU: used the least; for LRM: unchanged the longest.
    Access,
    /// Any.
    Random,
    /// Expires first.
    Expiry,
}

impl Order {
    /// The rank of an entry: the higher, the sooner it goes; `None` if chance decides.
    fn score(self, entry: &EntryRef<'_>, clock: &AccessClock) -> Option<u64> {
        match self {
            Order::Access if clock.is_lfu() => Some(255 - u64::from(clock.frequency(entry.access()))),
            Order::Access => Some(u64::from(clock.idle_seconds(entry.access()))),
            Order::Random => None,
            Order::Expiry => Some(UnixMs::NEVER.since(entry.expiry().unwrap_or(UnixMs::NEVER))),
        }
    }
}

/// A candidate for eviction.
struct Candidate {
    /// Higher goes first.
    score: u64,
    db: u16,
    key: Box<[u8]>,
}

/// A worker's state between two samples.
#[derive(Default)]
pub(crate) struct Pool {
    /// The best candidates, best last.
    best: Vec<Candidate>,
    /// The policy, and the meaning of the access bits.
    scored_by: Option<(Policy, Tracks)>,
    /// The place where a sample ended without a candidate: database, slot and hash.
    stopped: Option<(u16, u16, u64)>,
}

impl Pool {
    /// Adds a candidate if it is better than the worst one there.
    fn offer(&mut self, score: u64, db: u16, key: &[u8]) {
        if self.best.len() >= POOL && self.best.first().is_some_and(|worst| worst.score >= score) {
            return;
        }
        if let Some(known) = self.best.iter().position(|c| *c.key == *key && c.db == db) {
            if self.best.get(known).is_some_and(|c| c.score >= score) {
                return;
            }
            // Idle for longer by now.
            self.best.remove(known);
        }
        let at = self.best.partition_point(|c| c.score < score);
        self.best.insert(at, Candidate { score, db, key: key.into() });
        if self.best.len() > POOL {
            self.best.remove(0);
        }
    }
}

/// The result of making room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Memory is below the limit.
    Enough,
    /// Time was up, and more can be freed.
    Soon,
    /// No key is left that the store has as it is: after a checkpoint there may be more.
    Dirty,
    /// There is nothing to free.
    None,
}

impl Engine {
    /// Frees deleted values and evicts keys until memory is no longer `above` the limit or `in_time` says that time is
    /// up. Without a policy nothing is evicted. Nothing must be held.
    pub fn make_room(
        &mut self,
        policy: Option<Policy>,
        above: impl Fn() -> bool,
        mut in_time: impl FnMut() -> bool,
    ) -> Room {
        let mut done = 0;
        while above() {
            if done == EVICTIONS_PER_LOOK {
                done = 0;
                if !in_time() {
                    return Room::Soon;
                }
            }
            if self.has_garbage() {
                self.step_garbage(GARBAGE_STEP);
                done += 1;
                continue;
            }
            match policy {
                // Samples have found nothing where a round over all keys goes on: its time is not theirs.
                Some(policy) if policy.to_store && self.round.is_some() => return Room::Dirty,
                Some(policy) if self.has_evictable(policy) => {
                    done = match self.evict_one(policy) {
                        true => done + 1,
                        false if policy.to_store => return Room::Dirty,
                        false => EVICTIONS_PER_LOOK,
                    };
                }
                // Another worker is still freeing deleted values.
                _ if self.shared.keyspace.has_garbage() => return Room::Soon,
                _ => return Room::None,
            }
        }
        Room::Enough
    }

    /// Bytes of the keys in memory, without slots whose latch is busy. It stops once they are more than `most`. Nothing
    /// must be held.
    pub fn data_in_memory(&mut self, most: u64) -> u64 {
        let databases: Vec<u16> =
            (0..self.shared.keyspace.databases() as u16).filter(|&db| !self.shared.keyspace.is_empty(db)).collect();
        let (mut bytes, mut next) = (0, 0);
        while let Some(slot) = self.shared.keyspace.next_occupied(next).filter(|_| bytes <= most) {
            next = slot + 1;
            let Some(held) = self.acquire_one(slot) else { continue };
            for &db in &databases {
                let view = self.view(&held, db);
                let mut at = Some(0).filter(|_| view.slot_len(slot) > 0);
                while let Some(hash) = at.filter(|_| bytes <= most) {
                    at = view.walk(slot, hash, |entry| bytes += entry.memory() as u64);
                }
            }
            self.release(held);
        }
        bytes
    }

    fn has_evictable(&self, policy: Policy) -> bool {
        (0..self.shared.keyspace.databases() as u16).any(|db| self.has_evictable_in(db, policy))
    }

    fn has_evictable_in(&self, db: u16, policy: Policy) -> bool {
        let keyspace = &self.shared.keyspace;
        if policy.volatile { keyspace.expires(db) > 0 } else { !keyspace.is_empty(db) }
    }

    /// Evicts one key; false if none was found for now.
    fn evict_one(&mut self, policy: Policy) -> bool {
        let scored_by = Some((policy, self.clock.tracks()));
        if self.pool.scored_by != scored_by {
            self.pool = Pool { scored_by, ..Pool::default() };
        }
        for _ in 0..EMPTY_SAMPLES {
            self.sample(policy);
            while let Some(candidate) = self.pool.best.pop() {
                if self.evict(&candidate, policy) {
                    return true;
                }
            }
        }
        false
    }

    /// Adds some keys of a random place to the pool.
    fn sample(&mut self, policy: Policy) {
        let (db, mut slot, mut hash) = match self.pool.stopped.take() {
            Some((db, slot, hash)) if self.has_evictable_in(db, policy) => (db, slot, hash),
            _ => {
                let databases = self.shared.keyspace.databases() as u16;
                let first = self.rng.below(u64::from(databases)) as u16;
                let db = (0..databases).map(|i| (first + i) % databases).find(|&db| self.has_evictable_in(db, policy));
                let Some(db) = db else { return };
                (db, self.random_slot(policy), self.rng.next_u64())
            }
        };
        let (mut found, mut visited) = (0, 0);
        for _ in 0..SLOTS_PER_SAMPLE {
            let keyspace = &self.shared.keyspace;
            let next = |from| if policy.volatile { keyspace.next_volatile(from) } else { keyspace.next_occupied(from) };
            let Some(there) = next(slot).or_else(|| next(0)) else { return };
            if there != slot {
                hash = self.rng.next_u64();
            }
            slot = there;
            let (more, rest) = self.sample_slot(policy, db, slot, hash);
            found += more;
            visited += 1;
            // Where slots have few keys, a sample covers several, but has no more keys than a slot in the mean.
            if found >= policy.samples || (found > 0 && visited >= policy.samples) {
                return;
            }
            (slot, hash) = match rest {
                Some(hash) => (slot, hash),
                None if found > 0 => (self.random_slot(policy), self.rng.next_u64()),
                None => ((slot + 1) % SLOTS as u16, self.rng.next_u64()),
            };
        }
        if found == 0 {
            self.pool.stopped = Some((db, slot, hash));
        }
    }

    /// A random slot that may have candidates, each as likely as any other if they are not very rare. The next one
    /// after a random place would be the likelier the more empty slots precede it: keys in others would outlive their
    /// use.
    fn random_slot(&mut self, policy: Policy) -> u16 {
        let mut slot = 0;
        for _ in 0..SLOT_TRIES {
            slot = self.rng.below(SLOTS as u64) as u16;
            let keyspace = &self.shared.keyspace;
            let next = if policy.volatile { keyspace.next_volatile(slot) } else { keyspace.next_occupied(slot) };
            if next == Some(slot) {
                break;
            }
        }
        slot
    }

    /// Visits the keys of a slot from a hash on. Returns how many candidates there were, and where to go on if there
    /// was none.
    fn sample_slot(&mut self, policy: Policy, db: u16, slot: u16, from: u64) -> (usize, Option<u64>) {
        let Some(held) = self.acquire_one(slot) else { return (0, None) };
        let salt = self.rng.next_u64();
        let mut pool = std::mem::take(&mut self.pool);
        let view = self.view(&held, db);
        let there = if policy.volatile { view.slot_expires(slot) } else { view.slot_len(slot) };
        let (mut found, mut at) = (0, Some(from));
        if there > 0 {
            for _ in 0..BUCKETS_PER_HOLD {
                let Some(hash) = at.filter(|_| found < policy.samples) else { break };
                at = view.walk(slot, hash, |entry: EntryRef<'_>| {
                    if policy.volatile && entry.expiry().is_none() || policy.to_store && !view.is_clean(slot, &entry) {
                        return;
                    }
                    found += 1;
                    pool.offer(policy.order.score(&entry, view.clock()).unwrap_or(salt), db, entry.key());
                });
            }
            // The first keys of the slot lie before the begin: they are visited another time, or now if it has so few.
            if found == 0 && at.is_none() && from > 0 {
                at = Some(0);
            }
        } else {
            at = None;
        }
        self.release(held);
        self.pool = pool;
        (found, at)
    }

    fn evict(&mut self, candidate: &Candidate, policy: Policy) -> bool {
        let shared = self.shared.clone();
        let key = shared.keyspace.hasher().key(&candidate.key);
        let Some(held) = self.acquire_one(key.slot) else { return false };
        if self.is_locked(&held, candidate.db, &key) || self.only_reads && !policy.to_store {
            // Rules K6 and S2.
            self.release(held);
            return false;
        }
        if policy.to_store {
            // A loader that was looking for it has it as it was: nothing has changed.
            let mut view = self.view(&held, candidate.db);
            let goes = is_still_best(&view, &key, candidate, policy) && view.evict(&key);
            self.release(held);
            return goes;
        }
        let version = self.next_version(&held);
        self.fx.interest = self.has_interest(&held);
        self.fx.by = 0;
        let mut view = self.db(&held, candidate.db, version);
        let goes = is_still_best(&view, &key, candidate, policy);
        if goes {
            view.remove(&key);
            keyspace::bump(&self.local.counters().evicted, 1);
            self.fx.push(op::DELETE, candidate.db, &key, |_| {});
            self.event(class::EVICTED, "evicted", candidate.db, &key);
            self.publish(&held);
        }
        self.release(held);
        goes
    }
}

/// It was used, or got more time, since it was sampled: it is no longer the best candidate.
fn is_still_best(view: &Db<'_>, key: &Key<'_>, candidate: &Candidate, policy: Policy) -> bool {
    view.peek(key).is_some_and(|entry| {
        let still_best = policy.order.score(&entry, view.clock()).is_none_or(|score| score >= candidate.score);
        (!policy.volatile || entry.expiry().is_some()) && still_best
    })
}

#[cfg(test)]
mod tests;
