//! The store's keys from some hash on: names for walks, and their expiry times.
//!
//! A listing is made without latches. Under the latch of a slot it tells which keys are cold there: those of its names
//! that memory does not know. Memory knows keys that were deleted meanwhile, unless a checkpoint has ended after which
//! it forgets them. Keys that were evicted meanwhile are in the listing, unless a checkpoint has ended that put them
//! into the store. So a listing holds until a checkpoint ends.

use std::sync::{Arc, Mutex, PoisonError};

use clocks::UnixMs;
use command::Position;
use keyspace::{Keyspace, Kind, Space, Unreadable, Waiter};

use super::{Request, Source};
use crate::engine::Shared;

/// A key that the store has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its slot.
    pub slot: u16,
    /// Its name.
    pub key: Box<[u8]>,
    /// Its type; for strings any kind of string.
    pub kind: Kind,
    /// When it expires.
    pub expiry: Option<UnixMs>,
    /// Of hashes: no field expires before this time; `None`: none ever.
    pub fields: Option<UnixMs>,
}

/// A request for keys, in the order of slots and hashes.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The begin; only the upper half of the hash counts.
    pub from: Position,
    /// The slot before which to end.
    pub end: u16,
    /// About how many keys.
    pub most: usize,
}

/// All keys that a space has in a part of it.
#[derive(Debug, Default)]
pub struct Names {
    /// Them, in the order of slots and upper halves of hashes.
    pub names: Vec<Listed>,
    /// The end of the part; the lower half of its hash is 0; `None`: it is the whole request.
    pub until: Option<Position>,
}

/// Half of a hash does not tell keys apart: keys with the same half come together.
const HALF: u32 = 32;
/// Names that a walk visits at once: as many as a bucket of a table has.
const AT_ONCE: usize = 8;

fn half_of(hash: u64) -> u64 {
    hash >> HALF << HALF
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Listing {
    physical: u16,
    space: Space,
    coverings: u64,
    from: Position,
    /// `None`: it goes to the end of the request.
    until: Option<Position>,
    end: u16,
    /// The keys with their hashes.
    names: Vec<(u64, Listed)>,
}

impl Listing {
    /// Reads the store.
    pub(crate) fn make(shared: &Shared, physical: u16, span: Span) -> Result<Listing, Unreadable> {
        let keyspace = &shared.keyspace;
        let (space, coverings) = (keyspace.present_space(physical), keyspace.coverings());
        let source: &dyn Source = &*shared.source.get().ok_or(Unreadable)?;
        let Names { names, until } = source.list(space, span)?;
        let names = names.into_iter().map(|listed| (keyspace.hasher().key(&listed.key).hash, listed)).collect();
        let from = Position { hash: half_of(span.from.hash), ..span.from };
        Ok(Listing { physical, space, coverings, from, until, end: span.end, names })
    }

    /// True if it still tells which keys of a physical database are cold. A latch is held.
    pub(crate) fn holds(&self, keyspace: &Keyspace, physical: u16) -> bool {
        self.physical == physical
            && self.space == keyspace.present_space(physical)
            && self.coverings == keyspace.coverings()
    }

    /// True if it covers a place.
    pub(crate) fn covers(&self, at: Position) -> bool {
        self.from <= at && at.slot < self.end && self.until.is_none_or(|until| at < until)
    }

    /// All its names, with their hashes.
    pub(super) fn names(&self) -> &[(u64, Listed)] {
        &self.names
    }

    /// Its end, if that is not the end of the request.
    pub(super) fn until(&self) -> Option<Position> {
        self.until
    }

    /// Some names from a covered place on, in the same slot, with all names of a hash, and the hash before which they
    /// end: the slot ends there, or there are more. `None`: those are the last of the slot.
    pub(crate) fn names_from(&self, at: Position) -> (&[(u64, Listed)], Option<u64>) {
        let place = |(hash, listed): &(u64, Listed)| Position { slot: listed.slot, hash: half_of(*hash) };
        let first = self.names.partition_point(|name| place(name) < Position { hash: half_of(at.hash), ..at });
        let there = &self.names[first..];
        let there = &there[..there.partition_point(|(_, listed)| listed.slot == at.slot)];
        let mut count = AT_ONCE.min(there.len());
        while let (Some(last), Some(next)) = (there[..count].last(), there.get(count))
            && half_of(last.0) == half_of(next.0)
        {
            count += 1;
        }
        match there.get(count) {
            Some((hash, _)) => (&there[..count], Some(half_of(*hash))),
            None => (there, self.until.filter(|until| until.slot == at.slot).map(|until| until.hash)),
        }
    }
}

/// The request of a walk.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<Option<Result<Listing, Unreadable>>>);

impl Asked {
    /// Asks for a listing; `waiter` is woken when it is there.
    pub(crate) fn ask(shared: &Shared, physical: u16, span: Span, waiter: Waiter) -> Arc<Asked> {
        let asked = Arc::new(Asked::default());
        shared.requests.push(Request::List(Order { physical, span, asked: asked.clone(), waiter }));
        asked
    }

    /// The listing, if it has been made.
    pub(crate) fn take(&self) -> Option<Result<Listing, Unreadable>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A listing to be made for a walk.
#[derive(Debug)]
pub struct Order {
    physical: u16,
    span: Span,
    asked: Arc<Asked>,
    waiter: Waiter,
}

impl Order {
    /// Makes it. Returns the connection to wake.
    pub(super) fn fulfil(self, shared: &Shared) -> Waiter {
        let listing = Listing::make(shared, self.physical, self.span);
        *self.asked.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(listing);
        self.waiter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(slot: u16, hash: u64) -> (u64, Listed) {
        (hash, Listed { slot, key: Box::default(), kind: Kind::Short, expiry: None, fields: None })
    }

    #[test]
    fn names_come_in_portions_that_end_between_hashes() {
        let at = |slot, hash| Position { slot, hash: hash << HALF };
        let mut names: Vec<_> = (0..20).map(|n| listed(3, ((n / 10) << HALF) | (n % 3))).collect();
        names.push(listed(4, 7));
        let mut listing =
            Listing { physical: 0, space: 1, coverings: 0, from: at(3, 0), until: Some(at(4, 9)), end: 100, names };
        assert!(listing.covers(at(3, 0)) && listing.covers(at(4, 8)) && !listing.covers(at(4, 9)));
        let (first, until) = listing.names_from(at(3, 0));
        assert_eq!((first.len(), until), (10, Some(1 << HALF)));
        let (second, until) = listing.names_from(at(3, 1));
        assert_eq!((second.len(), until), (10, None));
        assert_eq!(listing.names_from(at(3, 2)), (&[][..], None));
        let (last, until) = listing.names_from(at(4, 0));
        assert_eq!((last.len(), until), (1, Some(9 << HALF)));
        listing.until = None;
        assert!(listing.covers(at(99, u64::from(u32::MAX))) && !listing.covers(at(100, 0)));
        assert_eq!(listing.names_from(at(50, 3)), (&[][..], None));
    }
}
