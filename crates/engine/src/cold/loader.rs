//! Asks the store for cold keys and puts what it has into memory.

use std::collections::VecDeque;
use std::sync::Arc;

use keyspace::access::AccessClock;
use keyspace::{Db, Fetched, Held, Local, PhysicalKey, Ticket, Unreadable, Waiter, slot_of};

use super::Request;
use super::due::{Found, Search};
use crate::engine::Shared;

/// For so long a key that was fetched stays for those who have waited for it, in milliseconds: they run again in that time, or ask again.
const STAYS_MS: u64 = 250;
/// Attempts at a busy latch before it is left to its holder, about a microsecond.
const SPINS: u32 = 40;

/// One of several: reads block it. Without a thread of its own: who has one calls [`Loader::serve`].
pub struct Loader {
    pub(super) shared: Arc<Shared>,
    pub(super) local: Local,
    pub(super) clock: AccessClock,
    /// What was fetched and could not be put into memory, as the latch was busy.
    fetched: Vec<(PhysicalKey, Ticket, Result<Option<Fetched>, Unreadable>)>,
    /// Loads to be ended, and when: milliseconds, ascending.
    known: VecDeque<(u64, PhysicalKey, Ticket)>,
    /// Searches for what has expired.
    searches: VecDeque<Search>,
}

impl Loader {
    /// With a part of the keyspace that is nobody else's ([`keyspace::Keyspace::local`]).
    pub fn new(shared: Arc<Shared>, index: usize) -> Self {
        let local = shared.keyspace.local(index);
        Self {
            shared,
            local,
            clock: AccessClock::new(1),
            fetched: Vec::new(),
            known: VecDeque::new(),
            searches: VecDeque::new(),
        }
    }

    /// Whether something is left to be done soon that nobody asks for.
    pub fn is_busy(&self) -> bool {
        !self.fetched.is_empty() || !self.searches.is_empty()
    }

    /// Does what was asked for, as far as latches are free. `now`: monotonic milliseconds. Who has waited is handed to `wake`.
    pub fn serve(&mut self, requests: Vec<Request>, now: u64, mut wake: impl FnMut(Waiter)) {
        self.local.begin_turn();
        for request in requests {
            match request {
                Request::Key { physical, key, ticket } => {
                    let found = self.fetch(physical, &key);
                    self.put((physical, key), ticket, found, now, &mut wake);
                }
                Request::Forget { physical, key, ticket } => {
                    self.known.push_back((now + STAYS_MS, (physical, key), ticket));
                }
                Request::List(order) => wake(order.fulfil(&self.shared)),
                Request::Due { physical, slot, now } => self.searches.push_back(Search::new(physical, slot, now)),
            }
        }
        for (key, ticket, found) in std::mem::take(&mut self.fetched) {
            self.put(key, ticket, found, now, &mut wake);
        }
        self.search(now, &mut wake);
        self.forget(now, &mut wake);
        self.local.end_turn();
    }

    /// Goes on with the first search for what has expired.
    fn search(&mut self, now: u64, wake: &mut impl FnMut(Waiter)) {
        let Some(mut search) = self.searches.pop_front() else { return };
        match self.look_for_due(&mut search, wake) {
            Found::End => return,
            Found::Busy => {}
            Found::Some(due) => {
                for (key, ticket) in due {
                    let found = self.fetch(key.0, &key.1);
                    if found.is_err() {
                        search.postpone();
                    }
                    self.put(key, ticket, found, now, wake);
                }
            }
        }
        self.searches.push_back(search);
    }

    fn fetch(&self, physical: u16, key: &[u8]) -> Result<Option<Fetched>, Unreadable> {
        let keyspace = &self.shared.keyspace;
        let source = self.shared.source.get().ok_or(Unreadable)?;
        source.fetch(keyspace.present_space(physical), &keyspace.hasher().key(key))
    }

    pub(super) fn acquire(&self, slot: u16) -> Option<Held> {
        (0..SPINS).find_map(|_| {
            self.shared.keyspace.try_one(slot).or_else(|| {
                std::hint::spin_loop();
                None
            })
        })
    }

    fn put(
        &mut self,
        (physical, bytes): PhysicalKey,
        ticket: Ticket,
        found: Result<Option<Fetched>, Unreadable>,
        now: u64,
        wake: &mut impl FnMut(Waiter),
    ) {
        let shared = self.shared.clone();
        let key = shared.keyspace.hasher().key(&bytes);
        let Some(held) = self.acquire(key.slot) else {
            self.fetched.push(((physical, bytes), ticket, found));
            return;
        };
        let mut waiters = Vec::new();
        if let Some(logical) = shared.logical(physical) {
            let mut db = Db::new(&shared.keyspace, &held, &mut self.local, &self.clock, logical, 0);
            if db.know(&key, ticket, found, |waiter| waiters.push(waiter)) {
                self.known.push_back((now + STAYS_MS, (physical, bytes), ticket));
            }
        }
        shared.keyspace.release(held, &mut *wake);
        waiters.into_iter().for_each(wake);
    }

    /// Ends loads whose time is over.
    fn forget(&mut self, now: u64, wake: &mut impl FnMut(Waiter)) {
        while let Some((_, key, ticket)) = self.known.front().filter(|(until, ..)| *until <= now) {
            let slot = slot_of(&key.1);
            let Some(held) = self.acquire(slot) else { break };
            self.shared.keyspace.forget_load(&held, slot, key, *ticket);
            self.shared.keyspace.release(held, &mut *wake);
            self.known.pop_front();
        }
    }
}
