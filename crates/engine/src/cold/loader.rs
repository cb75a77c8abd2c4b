//! Reads cold keys from the store and puts them into memory.

use std::collections::VecDeque;
use std::sync::Arc;

use clocks::MonoMs;
use keyspace::access::AccessClock;
use keyspace::{Db, Fetched, Held, Local, PhysicalKey, Ticket, Unreadable, Version, Waiter, slot_of};

use super::Request;
use super::budget::is_large;
use super::due::{Found, Search};
use super::portion::Portion;
use crate::engine::Shared;

/// Milliseconds for which a fetched key stays for the commands that have waited for it: they run again in that time, or
/// ask again.
const STAYS_MS: u64 = 250;
/// Milliseconds for which nothing more is read while memory is tight. Then one load goes on, and as many small ones as
/// make a portion: there may never be room for them.
pub(super) const PATIENCE_MS: u64 = 1000;
/// Attempts at a busy latch before it is left to its holder, about a microsecond.
const SPINS: u32 = 40;

/// A fetch.
struct Load {
    key: PhysicalKey,
    ticket: Ticket,
    /// When it was asked for.
    asked: MonoMs,
    /// Bytes of the budget that it takes.
    bytes: u64,
    /// The value could not be put into memory, because the latch was busy, and was dropped, because other loads needed
    /// the room.
    gave_up: bool,
}

/// One of several: reads block it. It has no thread of its own: a thread calls [`Loader::serve`].
pub struct Loader {
    pub(super) shared: Arc<Shared>,
    pub(super) local: Local,
    pub(super) clock: AccessClock,
    /// Fetched values that could not be put into memory, because the latch was busy.
    fetched: Vec<(Load, Result<Option<Fetched>, Unreadable>)>,
    /// Loads that wait until others have put their values into memory, in the order in which they were asked for.
    postponed: VecDeque<Load>,
    /// Bytes read since there was room last.
    portion: Portion,
    /// When the last read despite tight memory was.
    forced: MonoMs,
    /// Loads to be ended, and when; ascending.
    known: VecDeque<(MonoMs, PhysicalKey, Ticket)>,
    /// Searches for expired keys.
    searches: VecDeque<Search>,
}

impl Loader {
    /// With a part of the keyspace of its own ([`keyspace::Keyspace::local`]).
    pub fn new(shared: Arc<Shared>, index: usize) -> Self {
        let local = shared.keyspace.local(index);
        Self {
            shared,
            local,
            clock: AccessClock::new(1),
            fetched: Vec::new(),
            postponed: VecDeque::new(),
            portion: Portion::default(),
            forced: MonoMs::ZERO,
            known: VecDeque::new(),
            searches: VecDeque::new(),
        }
    }

    /// True if it has work soon without a request.
    pub fn is_busy(&self) -> bool {
        !self.fetched.is_empty() || !self.postponed.is_empty() || !self.searches.is_empty()
    }

    /// True if all of that waits for other loaders, which takes longer than a latch is busy.
    pub fn only_postpones(&self) -> bool {
        self.fetched.is_empty() && self.searches.is_empty() && !self.postponed.is_empty()
    }

    /// Does the requests, as far as latches are free. Connections that have waited are handed to `wake`.
    pub fn serve(&mut self, requests: Vec<Request>, now: MonoMs, mut wake: impl FnMut(Waiter)) {
        self.local.begin_turn();
        for request in requests {
            match request {
                Request::Key { physical, key, ticket } => {
                    self.load((physical, key), ticket, now, &mut wake);
                }
                Request::Forget { physical, key, ticket } => {
                    self.known.push_back((now + STAYS_MS, (physical, key), ticket));
                }
                Request::List(order) => wake(order.fulfil(&self.shared)),
                Request::Due { physical, slot, now } => self.searches.push_back(Search::new(physical, slot, now)),
            }
        }
        for (load, found) in std::mem::take(&mut self.fetched) {
            self.put(load, found, now, &mut wake);
        }
        self.serve_postponed(now, &mut wake);
        self.search(now, &mut wake);
        self.forget(now, &mut wake);
        self.local.end_turn();
    }

    /// Fetches keys that have waited for other loads, as far as there is room now.
    fn serve_postponed(&mut self, now: MonoMs, wake: &mut impl FnMut(Waiter)) {
        for _ in 0..self.postponed.len() {
            let Some(mut load) = self.postponed.pop_front() else { return };
            // It would be read in vain, again and again, while a script holds the latch.
            if load.gave_up && !self.is_free(slot_of(&load.key.1), wake) {
                // No other load waits for its turn.
                self.shared.budget.leave(load.ticket);
                self.postponed.push_back(load);
                continue;
            }
            let found = if !self.shared.budget.take(load.ticket, load.bytes) {
                None
            } else if self.fits(load.asked, load.bytes, now) {
                self.fetch(&mut load, false, now)
            } else {
                self.shared.budget.give_back(load.bytes);
                None
            };
            let Some(found) = found else {
                self.postponed.push_front(load);
                return;
            };
            self.put(load, found, now, wake);
        }
    }

    /// Goes on with the first search for expired keys.
    fn search(&mut self, now: MonoMs, wake: &mut impl FnMut(Waiter)) {
        let Some(mut search) = self.searches.pop_front() else { return };
        match self.look_for_due(&mut search, wake) {
            Found::End => return,
            Found::Busy => {}
            Found::Some(due) => {
                for (key, ticket) in due {
                    if !self.load(key, ticket, now, wake) {
                        search.postpone();
                    }
                }
            }
        }
        self.searches.push_back(search);
    }

    /// Fetches a key, at once or when there is room for it. False: the store cannot be read.
    fn load(&mut self, key: PhysicalKey, ticket: Ticket, now: MonoMs, wake: &mut impl FnMut(Waiter)) -> bool {
        let mut load = Load { key, ticket, asked: now, bytes: 0, gave_up: false };
        let Some(found) = self.fetch(&mut load, !self.postponed.is_empty(), now) else {
            self.postponed.push_back(load);
            return true;
        };
        let is_readable = found.is_ok();
        self.put(load, found, now, wake);
        is_readable
    }

    /// True if the system has memory for a load of so many bytes. The bytes in use must not grow while they cannot be
    /// freed, because a checkpoint has to come first or a client has to read. A command that waits for a loader is not
    /// refused for want of room.
    fn fits(&mut self, asked: MonoMs, bytes: u64, now: MonoMs) -> bool {
        let forced = &mut self.forced;
        // The budget bounds how much of large values is read at once.
        self.portion.fits(bytes, |_| {
            if headroom::has_room_to_talk(headroom::LARGE, 0) {
                return true;
            }
            let is_overdue = now.since(asked.max(*forced)) >= PATIENCE_MS;
            if is_overdue {
                *forced = now;
            }
            is_overdue
        })
    }

    /// Fetches a key, and takes the rest of its bytes from the budget. `None`: there is no room, and nothing is taken;
    /// the load notes its need. `is_behind`: other loads wait for room, and come before this one if it is large.
    fn fetch(&mut self, load: &mut Load, is_behind: bool, now: MonoMs) -> Option<Result<Option<Fetched>, Unreadable>> {
        let shared = self.shared.clone();
        let Shared { keyspace, budget, .. } = &*shared;
        let Some(source) = shared.source.get() else { return Some(Err(Unreadable)) };
        let mut lacks = None;
        let mut has_room = |bytes| {
            let has_room = bytes <= load.bytes
                || !(is_behind && is_large(bytes))
                    && self.fits(load.asked, bytes, now)
                    && budget.grow(load.ticket, load.bytes, bytes);
            if has_room {
                load.bytes = load.bytes.max(bytes);
            } else {
                lacks = Some(bytes);
            }
            has_room
        };
        let (physical, key) = &load.key;
        let found = source.fetch_within(keyspace.present_space(*physical), &keyspace.hasher().key(key), &mut has_room);
        let Some(bytes) = lacks else { return Some(found) };
        budget.give_back(std::mem::replace(&mut load.bytes, bytes));
        None
    }

    pub(super) fn acquire(&self, slot: u16) -> Option<Held> {
        (0..SPINS).find_map(|_| {
            self.shared.keyspace.try_one(slot).or_else(|| {
                std::hint::spin_loop();
                None
            })
        })
    }

    fn is_free(&self, slot: u16, wake: &mut impl FnMut(Waiter)) -> bool {
        let held = self.acquire(slot);
        let is_free = held.is_some();
        if let Some(held) = held {
            self.shared.keyspace.release(held, wake);
        }
        is_free
    }

    fn put(
        &mut self,
        mut load: Load,
        found: Result<Option<Fetched>, Unreadable>,
        now: MonoMs,
        wake: &mut impl FnMut(Waiter),
    ) {
        let shared = self.shared.clone();
        let budget = &shared.budget;
        let (physical, bytes) = &load.key;
        let key = shared.keyspace.hasher().key(bytes);
        let Some(held) = self.acquire(key.slot) else {
            // A script may hold the latch for long: commands that wait for the bytes of this load may be faster.
            if is_large(load.bytes) && budget.is_wanted() {
                budget.give_back(load.bytes);
                load.gave_up = true;
                self.postponed.push_back(load);
            } else {
                self.fetched.push((load, found));
            }
            return;
        };
        let mut waiters = Vec::new();
        let mut stays = false;
        if let Some(logical) = shared.logical(*physical) {
            let mut db = Db::new(&shared.keyspace, &held, &mut self.local, &self.clock, logical, Version::ZERO);
            stays = db.know(&key, load.ticket, found, |waiter| waiters.push(waiter));
        }
        self.local.publish_counts();
        shared.keyspace.release(held, &mut *wake);
        budget.give_back(load.bytes);
        if stays {
            self.known.push_back((now + STAYS_MS, load.key, load.ticket));
        }
        waiters.into_iter().for_each(wake);
    }

    /// Ends loads whose time is over.
    fn forget(&mut self, now: MonoMs, wake: &mut impl FnMut(Waiter)) {
        while let Some((_, key, ticket)) = self.known.front().filter(|(until, ..)| *until <= now) {
            let slot = slot_of(&key.1);
            let Some(held) = self.acquire(slot) else { break };
            self.shared.keyspace.forget_load(&held, slot, key, *ticket);
            self.shared.keyspace.release(held, &mut *wake);
            self.known.pop_front();
        }
    }
}

impl Drop for Loader {
    /// Other threads need not wait for its unfinished requests.
    fn drop(&mut self) {
        self.fetched.iter().for_each(|(load, _)| self.shared.budget.give_back(load.bytes));
        self.postponed.iter().for_each(|load| self.shared.budget.leave(load.ticket));
    }
}
