//! Expired cold keys are fetched, so that the sweep finds and deletes them.

use clocks::UnixMs;
use command::Position;
use keyspace::{Db, Held, PhysicalKey, Ticket, Version, Whereabouts};

use super::listing::{Listing, Span};
use super::loader::Loader;

/// Names that are visited in one hold, and keys that are fetched after it at most.
const NAMES_PER_STEP: usize = 64;
/// After so long a store that cannot be read is asked again, in milliseconds.
const AGAIN_MS: u64 = 10_000;

/// A search for expired keys in a slot.
pub(super) struct Search {
    physical: u16,
    slot: u16,
    /// The time: keys with an earlier time have expired.
    now: UnixMs,
    /// The hash from which on it has not looked.
    from: u64,
    /// The earliest later expiry among those that it has seen.
    earliest: UnixMs,
    /// The names that it visits now: the latch was busy.
    listing: Option<Listing>,
    /// It has visited everything.
    ended: bool,
}

impl Search {
    pub(super) fn new(physical: u16, slot: u16, now: UnixMs) -> Self {
        Self { physical, slot, now, from: 0, earliest: UnixMs::NEVER, listing: None, ended: false }
    }

    /// A part of the store could not be read.
    pub(super) fn postpone(&mut self) {
        self.earliest = self.earliest.min(self.now + AGAIN_MS);
    }
}

/// The result of a step of a search.
pub(super) enum Found {
    /// The latch was busy.
    Busy,
    /// These keys are to be fetched.
    Some(Vec<(PhysicalKey, Ticket)>),
    /// All is done.
    End,
}

impl Loader {
    /// Visits some names of a slot.
    pub(super) fn look_for_due(&mut self, search: &mut Search, wake: &mut impl FnMut(keyspace::Waiter)) -> Found {
        if search.listing.is_none() && !search.ended {
            let from = Position { slot: search.slot, hash: search.from };
            let span = Span { from, end: search.slot + 1, most: NAMES_PER_STEP };
            search.listing = Listing::make(&self.shared, search.physical, span).ok();
            if search.listing.is_none() {
                search.postpone();
                search.ended = true;
            }
        }
        let Some(held) = self.acquire(search.slot) else { return Found::Busy };
        let found = match search.listing.take() {
            Some(listing) => Found::Some(self.look_at(search, &listing, &held)),
            None => {
                self.settle(search, &held);
                Found::End
            }
        };
        self.local.publish_counts();
        self.shared.keyspace.release(held, wake);
        found
    }

    fn look_at(&mut self, search: &mut Search, listing: &Listing, held: &Held) -> Vec<(PhysicalKey, Ticket)> {
        let shared = self.shared.clone();
        let mut due = Vec::new();
        let Some(logical) = shared.logical(search.physical) else { return due };
        if !listing.holds(&shared.keyspace, search.physical) {
            // Once more.
            return due;
        }
        let mut db = Db::new(&shared.keyspace, held, &mut self.local, &self.clock, logical, Version::ZERO);
        for (hash, listed) in listing.names() {
            let Some(expires) = listed.expiry.into_iter().chain(listed.fields).min() else { continue };
            if *hash < search.from {
                continue;
            }
            let key = shared.keyspace.hasher().key(&listed.key);
            match db.whereabouts(&key) {
                Whereabouts::Known => {}
                _ if expires >= search.now => search.earliest = search.earliest.min(expires),
                Whereabouts::Cold => {
                    let ticket = db.await_key(&key, None);
                    due.extend(ticket.map(|ticket| ((search.physical, listed.key.clone()), ticket)));
                }
                // Another loader fetches it, or failed to.
                Whereabouts::Awaited | Whereabouts::Unreadable => search.postpone(),
            }
        }
        match listing.until() {
            Some(until) => search.from = until.hash,
            None => search.ended = true,
        }
        due
    }

    /// Notes when more expires. Keys that were evicted meanwhile have noted it themselves.
    fn settle(&mut self, search: &Search, held: &Held) {
        let keyspace = &self.shared.keyspace;
        if let Some(figures) = keyspace.cold(held, search.slot, search.physical) {
            let earliest = figures.earliest.min(search.earliest);
            keyspace.set_cold_earliest(held, search.slot, search.physical, earliest);
        }
    }
}
