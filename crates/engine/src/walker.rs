//! Work over several turns: walks over the keyspace (KEYS, SCAN, RANDOMKEY), one slot's latch at a time, in bounded
//! steps, and long replies.

use std::sync::Arc;

use command::{Error, Position, Rest, Visited, Walk};
use keyspace::{Held, Unreadable, Version, Waiter, Whereabouts};
use resp::{Protocol, Reply};

use crate::cold::{Asked, Listing, Span};
use crate::engine::Engine;

/// Buckets that a walk visits before it lets other connections run: a fifth of a millisecond.
const BUCKETS_PER_STEP: u64 = 400;
/// Names that a walk asks the store for: the first time, and each time twice as many, up to the second number.
const LISTED: (usize, usize) = (16, 1024);

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
    /// The reply is being written: the place where the walk stopped.
    ended: Option<Option<Position>>,
    /// The store's listing around the position.
    listing: Option<Listing>,
    /// The request for it.
    asked: Option<Arc<Asked>>,
    /// Names to ask for next.
    most: usize,
}

/// The end of a visit of a slot.
#[derive(PartialEq, Eq)]
enum Visit {
    /// At its end.
    Ended,
    /// Inside: it is enough.
    Stopped,
    /// Inside: the store's listing from there on has to be asked for.
    Unlisted,
}

/// The end of a step of a walk.
pub enum Step {
    /// More to do: let others run, then step again. Some of the reply may have been written.
    More,
    /// The slot's latch is busy.
    Busy(u16),
    /// The store is being read: the connection is woken when it has answered.
    Awaited,
    /// The reply has been written.
    Done,
}

impl Walking {
    pub(crate) fn new(walk: Box<dyn Walk>, db: u16, protocol: Protocol) -> Self {
        Self(Way::Walk(Walker::new(walk, db, protocol)))
    }

    /// The rest of a long reply.
    pub fn rest(rest: Rest, protocol: Protocol) -> Self {
        Self(Way::Rest(rest, protocol))
    }
}

impl Walker {
    pub(crate) fn new(walk: Box<dyn Walk>, db: u16, protocol: Protocol) -> Self {
        let at = walk.start();
        Self { at, walk, buckets: 0, db, protocol, ended: None, listing: None, asked: None, most: LISTED.0 }
    }

    /// The next request to the store.
    fn next_span(&mut self) -> Span {
        let most = self.most;
        self.most = LISTED.1.min(2 * most);
        Span { from: self.at, end: self.walk.end(), most }
    }
}

impl Engine {
    /// Goes on with a walk or a long reply of the connection `token` for a bounded time.
    pub fn step_walk(&mut self, walking: &mut Walking, token: u64, out: &mut Vec<u8>) -> Step {
        match &mut walking.0 {
            Way::Walk(walker) => self.step_walker(walker, token, out),
            Way::Rest(rest, protocol) => {
                if rest.step(&mut Reply::new(out, *protocol)) {
                    Step::More
                } else {
                    Step::Done
                }
            }
        }
    }

    fn step_walker(&mut self, walking: &mut Walker, token: u64, out: &mut Vec<u8>) -> Step {
        let step = self.walk_on(walking, token, out);
        self.note_everything();
        step
    }

    fn walk_on(&mut self, walking: &mut Walker, token: u64, out: &mut Vec<u8>) -> Step {
        if let Some(next) = walking.ended {
            return self.finish_walk(walking, next, out);
        }
        if let Some(asked) = &walking.asked {
            match asked.take() {
                None => return Step::Awaited,
                Some(Err(Unreadable)) => return self.give_up(walking, out),
                Some(Ok(listing)) => (walking.listing, walking.asked) = (Some(listing), None),
            }
        }
        if walking.buckets > 0 && headroom::is_tight() {
            // Its findings take memory, and its reply will take as much.
            Reply::new(out, walking.protocol).error(Error::OOM.as_bytes());
            return Step::Done;
        }
        let limit = walking.buckets + BUCKETS_PER_STEP;
        loop {
            let Some(slot) = self.next_slot(walking) else { return self.finish_walk(walking, None, out) };
            let Some(held) = self.acquire_one(slot) else { return Step::Busy(slot) };
            self.fx.interest = self.has_interest(&held);
            let visit = self.walk_slot(walking, &held, limit);
            self.publish(&held);
            self.release(held);
            if walking.walk.enough(walking.at, walking.buckets) {
                let ended = visit == Visit::Ended;
                let next = if ended { self.next_slot(walking).map(|_| walking.at) } else { Some(walking.at) };
                return self.finish_walk(walking, next, out);
            }
            if visit == Visit::Unlisted {
                let (physical, span) = (self.shared.keyspace.physical(walking.db), walking.next_span());
                let waiter = Waiter { worker: self.index, token };
                walking.asked = Some(Asked::ask(&self.shared, physical, span, waiter));
                return Step::Awaited;
            }
            if walking.buckets >= limit {
                return Step::More;
            }
        }
    }

    /// Runs a walk to its end with everything held (MULTI).
    pub(crate) fn finish_walk_held(&mut self, walking: &mut Walker, held: &Held, out: &mut Vec<u8>) {
        while self.next_slot(walking).is_some() && !walking.walk.enough(walking.at, walking.buckets) {
            if self.walk_slot(walking, held, u64::MAX) == Visit::Unlisted {
                let physical = self.shared.keyspace.physical(walking.db);
                match Listing::make(&self.shared, physical, walking.next_span()) {
                    Ok(listing) => walking.listing = Some(listing),
                    Err(Unreadable) => {
                        self.give_up(walking, out);
                        return;
                    }
                }
            }
        }
        let next = self.next_slot(walking).map(|_| walking.at);
        while let Step::More = self.finish_walk(walking, next, out) {}
    }

    fn give_up(&mut self, walking: &Walker, out: &mut Vec<u8>) -> Step {
        Reply::new(out, walking.protocol).error(Error::UNREADABLE.as_bytes());
        Step::Done
    }

    fn finish_walk(&mut self, walking: &mut Walker, next: Option<Position>, out: &mut Vec<u8>) -> Step {
        if walking.walk.finish(next, &mut Reply::new(out, walking.protocol)) {
            return Step::Done;
        }
        walking.ended = Some(next);
        Step::More
    }

    /// The next slot to visit; moves the position to its beginning if it is a later one.
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

    /// Visits the slot's keys from the position on.
    fn walk_slot(&mut self, walking: &mut Walker, held: &Held, limit: u64) -> Visit {
        let cold = self.view(held, walking.db).may_be_cold(walking.at.slot);
        while walking.buckets < limit && !walking.walk.enough(walking.at, walking.buckets) {
            walking.buckets += 1;
            let mut expired = Vec::new();
            let next = match cold {
                true => match self.walk_with_store(walking, held, &mut expired) {
                    Some(next) => next,
                    None => return Visit::Unlisted,
                },
                false => self.walk_memory(walking, held, None, &mut expired),
            };
            if !expired.is_empty() {
                let shared = self.shared.clone();
                let mut keys: Vec<_> = expired.iter().map(|key| shared.keyspace.hasher().key(key)).collect();
                // Rule K6: prepared effects are for the keys as they are.
                keys.retain(|key| !self.is_locked(held, walking.db, key));
                self.expire_keys(held, walking.db, Version::ZERO, keys.into_iter());
            }
            match next {
                Some(hash) => walking.at.hash = hash,
                None => {
                    walking.at = Position { slot: walking.at.slot + 1, hash: 0 };
                    return Visit::Ended;
                }
            }
        }
        Visit::Stopped
    }

    /// Visits the keys in memory in the bucket at the position; in a table with cold keys, those with a hash before
    /// `until`. Returns where the next bucket begins.
    fn walk_memory(
        &mut self,
        walking: &mut Walker,
        held: &Held,
        until: Option<Option<u64>>,
        expired: &mut Vec<Vec<u8>>,
    ) -> Option<u64> {
        let (now, at, keep) = (self.now, walking.at, self.keep_expired);
        let shared = self.shared.clone();
        let hasher = shared.keyspace.hasher();
        self.view(held, walking.db).walk(at.slot, at.hash, |entry| {
            if let Some(until) = until {
                let hash = hasher.key(entry.key()).hash;
                if hash < at.hash || until.is_some_and(|until| hash >= until) {
                    return;
                }
            }
            if !entry.expired(now) {
                walking.walk.visit(entry.into());
            } else if walking.walk.visit_expired(entry.into(), keep) {
                expired.push(entry.key().to_vec());
            }
        })
    }

    /// As [`Self::walk_memory`] in a slot with cold keys, some of which are visited, too. `None`: the store's keys
    /// there must be listed first.
    fn walk_with_store(
        &mut self,
        walking: &mut Walker,
        held: &Held,
        expired: &mut Vec<Vec<u8>>,
    ) -> Option<Option<u64>> {
        let shared = self.shared.clone();
        let keyspace = &shared.keyspace;
        let (at, now, keep) = (walking.at, self.now, self.keep_expired);
        let physical = keyspace.physical(walking.db);
        let listing =
            walking.listing.take().filter(|listing| listing.covers(at) && listing.holds(keyspace, physical))?;
        let (names, end_of_names) = listing.names_from(at);
        let end_of_bucket = self.view(held, walking.db).walk(at.slot, at.hash, |_| {});
        let next = end_of_names.into_iter().chain(end_of_bucket).min();
        self.walk_memory(walking, held, Some(next), expired);
        let db = self.view(held, walking.db);
        for (hash, listed) in names {
            if *hash < at.hash || next.is_some_and(|next| *hash >= next) {
                continue;
            }
            if db.whereabouts(&keyspace.hasher().key(&listed.key)) == Whereabouts::Known {
                continue;
            }
            let found = Visited { key: &listed.key, kind: listed.kind };
            if listed.expiry.is_none_or(|ms| ms >= now) {
                walking.walk.visit(found);
            } else {
                // The sweep has it fetched and deletes it.
                walking.walk.visit_expired(found, keep);
            }
        }
        walking.listing = Some(listing);
        Some(next)
    }
}
