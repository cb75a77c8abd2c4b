//! Drives what goes on for several turns: walks over the keyspace (KEYS, SCAN, RANDOMKEY), one slot's latch at a time, in
//! bounded steps, and long replies.

use command::{Position, Rest, Walk};
use keyspace::Held;
use resp::{Protocol, Reply};

use crate::engine::Engine;

/// Buckets looked at before a walk lets other connections run: a fifth of a millisecond.
const BUCKETS_PER_STEP: u64 = 400;

/// A command that goes on for several turns.
pub struct Walking(Way);

enum Way {
    Walk(Walker),
    Rest(Rest, Protocol),
}

/// A walk under way.
pub(crate) struct Walker {
    walk: Box<dyn Walk>,
    at: Position,
    buckets: u64,
    db: u16,
    protocol: Protocol,
    /// The reply is being written: what it says of where the walk stopped.
    ended: Option<Option<Position>>,
}

/// How a step of a walk ended.
pub enum Step {
    /// More to do: let others run, then step again. Some of the reply may have been written.
    More,
    /// The slot's latch is busy.
    Busy(u16),
    /// The reply has been written.
    Done,
}

impl Walking {
    pub(crate) fn new(walk: Box<dyn Walk>, db: u16, protocol: Protocol) -> Self {
        Self(Way::Walk(Walker::new(walk, db, protocol)))
    }

    /// The rest of a long reply.
    pub(crate) fn rest(rest: Rest, protocol: Protocol) -> Self {
        Self(Way::Rest(rest, protocol))
    }
}

impl Walker {
    pub(crate) fn new(walk: Box<dyn Walk>, db: u16, protocol: Protocol) -> Self {
        Self { at: walk.start(), walk, buckets: 0, db, protocol, ended: None }
    }
}

impl Engine {
    /// Goes on with a walk or a long reply for a bounded time.
    pub fn step_walk(&mut self, walking: &mut Walking, out: &mut Vec<u8>) -> Step {
        match &mut walking.0 {
            Way::Walk(walker) => self.step_walker(walker, out),
            Way::Rest(rest, protocol) => {
                if rest.step(&mut Reply::new(out, *protocol)) {
                    Step::More
                } else {
                    Step::Done
                }
            }
        }
    }

    fn step_walker(&mut self, walking: &mut Walker, out: &mut Vec<u8>) -> Step {
        let step = self.walk_on(walking, out);
        self.note_everything();
        step
    }

    fn walk_on(&mut self, walking: &mut Walker, out: &mut Vec<u8>) -> Step {
        if let Some(next) = walking.ended {
            return self.finish_walk(walking, next, out);
        }
        let limit = walking.buckets + BUCKETS_PER_STEP;
        loop {
            let Some(slot) = self.next_slot(walking) else { return self.finish_walk(walking, None, out) };
            let Some(held) = self.acquire_one(slot) else { return Step::Busy(slot) };
            self.fx.interest = self.has_interest(&held);
            let stopped = self.walk_slot(walking, &held, limit);
            self.publish(&held);
            self.release(held);
            if walking.walk.enough(walking.buckets) {
                let next = if stopped { Some(walking.at) } else { self.next_slot(walking).map(|_| walking.at) };
                return self.finish_walk(walking, next, out);
            }
            if walking.buckets >= limit {
                return Step::More;
            }
        }
    }

    /// Runs a walk to its end with everything held (MULTI).
    pub(crate) fn finish_walk_held(&mut self, walking: &mut Walker, held: &Held, out: &mut Vec<u8>) {
        while self.next_slot(walking).is_some() && !walking.walk.enough(walking.buckets) {
            self.walk_slot(walking, held, u64::MAX);
        }
        let next = self.next_slot(walking).map(|_| walking.at);
        while let Step::More = self.finish_walk(walking, next, out) {}
    }

    fn finish_walk(&mut self, walking: &mut Walker, next: Option<Position>, out: &mut Vec<u8>) -> Step {
        if walking.walk.finish(next, &mut Reply::new(out, walking.protocol)) {
            return Step::Done;
        }
        walking.ended = Some(next);
        Step::More
    }

    /// The slot to look at next; moves the position to its beginning if it is a later one.
    fn next_slot(&self, walking: &mut Walker) -> Option<u16> {
        loop {
            match self.shared.keyspace.next_occupied(walking.at.slot) {
                Some(slot) if slot < walking.walk.end() => {
                    if slot != walking.at.slot {
                        walking.at = Position { slot, hash: 0 };
                    }
                    return Some(slot);
                }
                _ => walking.at = walking.walk.wrap()?,
            }
        }
    }

    /// Visits the slot's keys from the position on. True: it stopped inside the slot.
    fn walk_slot(&mut self, walking: &mut Walker, held: &Held, limit: u64) -> bool {
        let now = self.now;
        while walking.buckets < limit && !walking.walk.enough(walking.buckets) {
            walking.buckets += 1;
            let mut expired = Vec::new();
            let next = self.db(held, walking.db, 0).walk(walking.at.slot, walking.at.hash, |entry| {
                if !entry.expired(now) {
                    walking.walk.visit(entry);
                } else if walking.walk.visit_expired(entry) {
                    expired.push(entry.key().to_vec());
                }
            });
            if !expired.is_empty() {
                let shared = self.shared.clone();
                let keys = expired.iter().map(|key| shared.keyspace.hasher().key(key));
                self.expire_keys(held, walking.db, 0, keys);
            }
            match next {
                Some(hash) => walking.at.hash = hash,
                None => {
                    walking.at = Position { slot: walking.at.slot + 1, hash: 0 };
                    return false;
                }
            }
        }
        true
    }
}
