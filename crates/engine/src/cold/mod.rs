//! Keys that only the store has are made resident before a command works with them (rule C5).
//!
//! A command whose keys memory does not know leaves loads for them and gives its latches back. Its connection waits, a
//! [`Loader`] reads the store, and the command runs again ([`Busy::awaited`]). A command that cannot wait (a waiting
//! command that is served, a block that holds everything) reads the store itself, under its latches. A block that can
//! be undone is undone, and begins again when it can have the key (rule K3).

mod budget;
mod due;
mod listing;
mod loader;
mod portion;
mod records;
mod requests;
mod shelf;
#[cfg(test)]
mod tests;

pub use budget::Budget;
pub(crate) use listing::{Asked, Listing};
pub use listing::{Listed, Names, Order, Span};
pub use loader::Loader;
pub(crate) use portion::Portion;
pub(crate) use records::{BYTES_AT_ONCE, ReadAhead};
pub use records::{Records, Stored};
pub use requests::{Request, Requests};
pub use shelf::Shelf;

use clocks::UnixMs;
use command::{Error, Outcome, Position, flags};
use keyspace::{ColdFigures, Db, Fetched, Held, Key, KeyHasher, Need, SLOTS, Space, Unreadable, Waiter, Whereabouts};
use resp::Reply;
use smallvec::SmallVec;

use crate::call::{Busy, Call};
use crate::engine::Engine;

/// The source of cold keys.
pub trait Source: Send + Sync {
    /// The record under a key, written or durable.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or the record is damaged.
    fn fetch(&self, space: Space, key: &Key<'_>) -> Result<Option<Fetched>, Unreadable> {
        self.fetch_within(space, key, &mut |_| true)
    }

    /// The same, if there is room: before a value is made, `has_room` is asked about so many bytes, and again when it
    /// turns out to have more. If it refuses, the returned value does not count.
    ///
    /// # Errors
    ///
    /// As for [`Self::fetch`].
    fn fetch_within(
        &self,
        space: Space,
        key: &Key<'_>,
        has_room: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Fetched>, Unreadable>;

    /// The keys in a part of a space, written or durable. Keys that are noted as gone are not among them.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    fn list(&self, space: Space, span: Span) -> Result<Names, Unreadable>;

    /// Keys of the slot of a position with their values, from there on, written or durable.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    fn read(&self, space: Space, from: Position, hasher: &KeyHasher) -> Result<Records, Unreadable> {
        let Names { names, until } =
            self.list(space, Span { from, end: from.slot + 1, most: records::KEYS_AT_ONCE })?;
        let fetch = |Listed { key, .. }: Listed| {
            let fetched = self.fetch(space, &hasher.key(&key)).and_then(|fetched| fetched.ok_or(Unreadable));
            Stored { key, fetched }
        };
        let until = until.filter(|until| until.slot == from.slot).map(|until| until.hash);
        Ok(Records { records: names.into_iter().map(fetch).collect(), until })
    }
}

/// A command that finds its keys only while it runs waits for them so often.
const ATTEMPTS: u32 = 200;
/// Keys that are listed at once where everything is held.
const AT_ONCE: usize = 1000;

/// Keys of a command that memory does not know, with their logical databases.
type Lacking<'a> = SmallVec<[(u16, Key<'a>); 2]>;

impl Engine {
    /// Leaves loads for the keys of `calls`, and for `further` ones in logical databases, that memory does not know.
    /// `None`: it knows them all, or as many as it can. All of them are held.
    pub(crate) fn await_keys<'a>(
        &mut self,
        calls: &[Call<'a>],
        further: impl Iterator<Item = (u16, &'a [u8])>,
        held: &Held,
        token: u64,
    ) -> Option<Busy> {
        // Loads that take longer than keys stay, or need more than memory has room for, would be waited for in vain
        // again and again.
        if !self.shared.keyspace.has_cold() || self.insists {
            return None;
        }
        let mut lacking = Lacking::new();
        for call in calls {
            self.lacking(call, held, |db, key| lacking.push((db, key)));
        }
        let shared = self.shared.clone();
        for (db, bytes) in further {
            let key = shared.keyspace.hasher().key(bytes);
            if is_lacking(&self.view(held, db), &key) {
                lacking.push((db, key));
            }
        }
        // Its connection is woken once, when the last key was fetched.
        let (last_db, last) = lacking.pop()?;
        for (db, key) in &lacking {
            self.ask_for(held, *db, key, None);
        }
        self.ask_for(held, last_db, &last, Some(Waiter { worker: self.index, token }));
        let need = if held.is_all() { Need::All } else { Need::Slots(held.slots().into()) };
        Some(Busy { need, slot: last.slot, awaited: true })
    }

    fn ask_for(&mut self, held: &Held, db: u16, key: &Key<'_>, waiter: Option<Waiter>) {
        let mut view = self.view(held, db);
        let physical = view.physical();
        if let Some(ticket) = view.await_key(key, waiter) {
            let key = key.bytes.into();
            self.shared.requests.push(Request::Key { physical, key, ticket });
        }
    }

    /// Calls `f` with the keys of a command that memory does not know. Keys that are not held are not its own.
    fn lacking<'a>(&mut self, call: &Call<'a>, held: &Held, mut f: impl FnMut(u16, Key<'a>)) {
        let other_db = call.row.spec.has(flags::OTHER_DB);
        if let Some(key) = call.first
            && !other_db
        {
            if is_lacking(&self.view(held, call.db), &key) {
                f(call.db, key);
            }
            return;
        }
        let mut positions = std::mem::take(&mut self.positions);
        positions.clear();
        call.row.spec.keys_of(call.args, &mut positions);
        // MOVE and COPY make keys elsewhere.
        let databases = if other_db { 0..self.shared.keyspace.databases() as u16 } else { call.db..call.db + 1 };
        let shared = self.shared.clone();
        for bytes in positions.iter().filter_map(|at| call.args.get(at.index)) {
            let key = shared.keyspace.hasher().key(bytes);
            for db in databases.clone().filter(|_| held.covers(key.slot)) {
                if is_lacking(&self.view(held, db), &key) {
                    f(db, key);
                }
            }
        }
        self.positions = positions;
    }

    /// The keys of a command that has waited for them, and has run, need not stay in memory any longer. Otherwise a
    /// client that reads cold keys fast would have in memory all that it has read while keys stay for waiting commands.
    #[cold]
    pub(crate) fn let_go(&mut self, call: &Call<'_>, held: &Held) {
        let mut positions = std::mem::take(&mut self.positions);
        positions.clear();
        call.row.spec.keys_of(call.args, &mut positions);
        let shared = self.shared.clone();
        for bytes in positions.iter().filter_map(|at| call.args.get(at.index)) {
            let key = shared.keyspace.hasher().key(bytes);
            if held.covers(key.slot) {
                self.view(held, call.db).let_go(&key);
            }
        }
        self.positions = positions;
    }

    /// Makes the keys of a command known that runs now: commands that could wait for them have done so. An error: the
    /// store cannot be read, or there is no memory for its value.
    #[inline]
    pub(crate) fn settle(&mut self, call: &Call<'_>, held: &Held) -> Result<(), Error> {
        if self.shared.keyspace.has_cold() { self.fetch_now(call, held) } else { Ok(()) }
    }

    #[cold]
    fn fetch_now(&mut self, call: &Call<'_>, held: &Held) -> Result<(), Error> {
        let mut lacking = Lacking::new();
        self.lacking(call, held, |db, key| lacking.push((db, key)));
        for (db, key) in lacking {
            self.fetch_for_command(held, db, &key)?;
        }
        let unreadable = self.any_unreadable(call, held);
        if unreadable { Err(Error::UNREADABLE) } else { Ok(()) }
    }

    /// Makes a held key known at once, if memory does not know it.
    pub(crate) fn fetch_key(&mut self, held: &Held, db: u16, key: &Key<'_>) -> Result<(), Error> {
        let shared = self.shared.clone();
        let source = shared.source.get().ok_or(Error::UNREADABLE)?;
        let space = shared.keyspace.present_space(shared.keyspace.physical(db));
        let fetched = source.fetch(space, key).map_err(|Unreadable| Error::UNREADABLE)?;
        self.know_now(held, db, key, fetched);
        Ok(())
    }

    /// The same for a command, which is refused if the system has no memory for the store's value.
    pub(crate) fn fetch_for_command(&mut self, held: &Held, db: u16, key: &Key<'_>) -> Result<(), Error> {
        let space = self.shared.keyspace.present_space(self.shared.keyspace.physical(db));
        let fetched = self.read_for_command(space, key)?;
        self.know_now(held, db, key, fetched);
        Ok(())
    }

    fn read_for_command(&mut self, space: Space, key: &Key<'_>) -> Result<Option<Fetched>, Error> {
        let shared = self.shared.clone();
        let source = shared.source.get().ok_or(Error::UNREADABLE)?;
        let mut is_refused = false;
        let fetched = source.fetch_within(space, key, &mut |bytes| {
            is_refused = !self.portion.fits(bytes, |bytes| headroom::has_room_to_talk(bytes, 0));
            !is_refused
        });
        if is_refused { Err(Error::OOM) } else { fetched.map_err(|Unreadable| Error::UNREADABLE) }
    }

    fn know_now(&mut self, held: &Held, db: u16, key: &Key<'_>, fetched: Option<Fetched>) {
        let physical = self.shared.keyspace.physical(db);
        let mut wakes = std::mem::take(&mut self.wakes);
        let ticket = self.view(held, db).know_now(key, fetched, |waiter| wakes.push(waiter));
        self.wakes = wakes;
        self.shared.requests.push(Request::Forget { physical, key: key.bytes.into(), ticket });
    }

    /// Has expired cold keys of a held slot fetched, for the sweep.
    pub(crate) fn ask_for_due(&mut self, held: &Held, slot: u16, db: u16) {
        let keyspace = &self.shared.keyspace;
        let physical = keyspace.physical(db);
        let Some(figures) = keyspace.cold(held, slot, physical) else { return };
        if figures.is_volatile() && figures.earliest < self.now {
            // Once: the search notes when to look again, and evicted keys note it, too.
            keyspace.set_cold_earliest(held, slot, physical, UnixMs::NEVER);
            self.shared.requests.push(Request::Due { physical, slot, now: self.now });
        }
    }

    /// Runs the handler as [`Self::run_handler`]. If it finds out that it needs further keys, makes them known at once.
    pub(crate) fn run_handler_now(&mut self, call: &Call<'_>, held: &Held, out: &mut Vec<u8>) -> Outcome {
        loop {
            match self.run_handler(call, held, out) {
                Outcome::Load(keys) => {
                    let shared = self.shared.clone();
                    let mut keys = keys.iter().map(|key| shared.keyspace.hasher().key(key));
                    if let Err(error) = keys.try_for_each(|key| self.fetch_for_command(held, call.db, &key)) {
                        Reply::new(out, call.protocol).error(error.as_bytes());
                        return Outcome::Done;
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// Waits for keys that a handler has found out it needs.
    pub(crate) fn await_found(&mut self, call: &Call<'_>, keys: &[Box<[u8]>], held: &Held) -> Option<Busy> {
        let again = self.found.take().filter(|(token, _)| *token == call.token).map_or(0, |(_, again)| again);
        self.found = Some((call.token, again + 1));
        self.await_keys(&[], keys.iter().map(|key| (call.db, &**key)), held, call.token)
    }

    /// True if a command has waited so often for keys that it has found out that it would never run otherwise.
    pub(crate) fn is_patient(&self, call: &Call<'_>) -> bool {
        !self.insists && self.found.is_none_or(|(token, again)| token != call.token || again < ATTEMPTS)
    }

    /// Puts all cold keys into memory. Everything is held: no waiter has to be told.
    #[cold]
    pub(crate) fn fetch_everything(&mut self, held: &Held) -> Result<(), Error> {
        let shared = self.shared.clone();
        let keyspace = &shared.keyspace;
        if !keyspace.has_cold() {
            return Ok(());
        }
        let source = shared.source.get().ok_or(Error::UNREADABLE)?;
        for db in 0..keyspace.databases() as u16 {
            let (physical, space) = (keyspace.physical(db), keyspace.present_space(keyspace.physical(db)));
            let mut from = Position::default();
            while let Some(slot) = keyspace.next_occupied(from.slot).filter(|slot| usize::from(*slot) < SLOTS) {
                if slot != from.slot {
                    from = Position { slot, hash: 0 };
                }
                if self.view(held, db).may_be_cold(slot) {
                    let span = Span { from, end: slot + 1, most: AT_ONCE };
                    let Names { names, until } = source.list(space, span).map_err(|Unreadable| Error::UNREADABLE)?;
                    for listed in names {
                        let key = keyspace.hasher().key(&listed.key);
                        match self.view(held, db).whereabouts(&key) {
                            Whereabouts::Known => {}
                            Whereabouts::Cold => {
                                let fetched = self.read_for_command(space, &key)?;
                                self.view(held, db).warm(&key, fetched);
                            }
                            // A loader that is fetching it must not find it absent, deleted, later.
                            Whereabouts::Awaited | Whereabouts::Unreadable => self.fetch_for_command(held, db, &key)?,
                        }
                    }
                    if let Some(until) = until {
                        from = until;
                        continue;
                    }
                    keyspace.complete(held, slot, physical, ColdFigures::default(), &mut self.local);
                }
                from = Position { slot: slot + 1, hash: 0 };
            }
        }
        Ok(())
    }

    fn any_unreadable(&mut self, call: &Call<'_>, held: &Held) -> bool {
        let mut positions = std::mem::take(&mut self.positions);
        positions.clear();
        call.row.spec.keys_of(call.args, &mut positions);
        let shared = self.shared.clone();
        let view = self.view(held, call.db);
        let unreadable = positions.iter().filter_map(|at| call.args.get(at.index)).any(|bytes| {
            let key = shared.keyspace.hasher().key(bytes);
            held.covers(key.slot) && view.whereabouts(&key) == Whereabouts::Unreadable
        });
        self.positions = positions;
        unreadable
    }
}

#[inline]
pub(crate) fn is_lacking(db: &Db<'_>, key: &Key<'_>) -> bool {
    matches!(db.whereabouts(key), Whereabouts::Cold | Whereabouts::Awaited)
}
