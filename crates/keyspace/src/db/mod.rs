//! One logical database as a command sees it: the latched slots, and the operations on their keys.
//!
//! Expired keys are gone already: the engine deletes a command's expired keys before it runs (and logs that first, rule
//! L3), so nothing here compares times.

mod undo;
mod view;
mod write;

use crate::access::{AccessClock, Tracks};
use crate::entry::Entry;
use crate::key::Key;
use crate::keyspace::{Held, Keyspace};
use crate::local::{Counters, Local, bump};
use crate::value::Collection;
use crate::version::Version;

pub use undo::{Hidden, Saved};
pub use view::{EntryRef, Str, WrongType};
pub use write::{Expiry, Over};

/// One logical database under latches.
pub struct Db<'a> {
    ks: &'a Keyspace,
    held: &'a Held,
    local: &'a mut Local,
    clock: &'a AccessClock,
    logical: u16,
    physical: u16,
    /// The version that writes of this command stamp (rule L1).
    version: Version,
}

impl<'a> Db<'a> {
    /// Logical database `logical` of `ks`, for a command that writes at `version`. `held` and `local` are of `ks`; one
    /// `Db` of a `Held` is used at a time: what it lends is exclusive only as far as it is.
    #[inline]
    pub fn new(
        ks: &'a Keyspace,
        held: &'a Held,
        local: &'a mut Local,
        clock: &'a AccessClock,
        logical: u16,
        version: Version,
    ) -> Self {
        Self { ks, held, local, clock, logical, physical: ks.physical(logical), version }
    }

    /// The keyspace behind it.
    pub fn keyspace(&self) -> &'a Keyspace {
        self.ks
    }

    /// The latches behind it.
    pub fn held(&self) -> &'a Held {
        self.held
    }

    /// Number of the logical database.
    pub fn logical(&self) -> u16 {
        self.logical
    }

    /// Number of the physical database.
    pub fn physical(&self) -> u16 {
        self.physical
    }

    /// Switches to another logical database of the same slots (COPY and MOVE), and says which it was.
    pub fn switch(&mut self, logical: u16) -> u16 {
        self.physical = self.ks.physical(logical);
        std::mem::replace(&mut self.logical, logical)
    }

    /// The bytes as a key of this keyspace.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.ks.hasher().key(bytes)
    }

    #[inline]
    fn find(&self, key: &Key<'_>) -> Option<Entry> {
        let body = self.ks.body(self.held, key.slot);
        let found = body.table(self.physical).and_then(|table| table.find(key)).map(|(_, entry)| entry);
        match found {
            Some(entry) => self.local.seen.note(entry.version()),
            None => self.note_absence(key.slot),
        }
        found
    }

    /// The entry, without noting the lookup.
    pub(crate) fn peek_entry(&self, key: &Key<'_>) -> Option<Entry> {
        let body = self.ks.body(self.held, key.slot);
        body.table(self.physical).and_then(|table| table.find(key)).map(|(_, entry)| entry)
    }

    /// Notes that a key is absent: its deletion may not be committed yet.
    #[inline]
    fn note_absence(&self, slot: u16) {
        self.local.seen.note(self.ks.last_version_of(self.held, std::iter::once(slot)));
    }

    /// The entry, without counting or touching.
    #[inline]
    pub fn peek(&self, key: &Key<'_>) -> Option<EntryRef<'_>> {
        self.find(key).map(EntryRef::new)
    }

    /// The entry for a reader: counts a hit or a miss, touches the access time.
    #[inline]
    pub fn read(&self, key: &Key<'_>) -> Option<EntryRef<'_>> {
        match self.find(key) {
            Some(entry) => {
                bump(&self.local.counters.hits, 1);
                self.touch(entry);
                Some(EntryRef::new(entry))
            }
            None => {
                self.missed(key);
                None
            }
        }
    }

    #[inline]
    fn missed(&self, key: &Key<'_>) {
        bump(&self.local.counters.misses, 1);
        self.local.sightings.missed(self.logical, key.bytes);
    }

    /// The entry for a reader that leaves the access time alone (EXISTS): counts a hit or a miss.
    pub fn look(&self, key: &Key<'_>) -> Option<EntryRef<'_>> {
        let found = self.find(key);
        match found {
            Some(_) => bump(&self.local.counters.hits, 1),
            None => self.missed(key),
        }
        found.map(EntryRef::new)
    }

    #[inline]
    fn touch(&self, entry: Entry) {
        let was = entry.access();
        let now = self.clock.touched(was);
        if now != was {
            entry.set_access(now);
        }
    }

    /// Notes that a key was changed, for an LRM policy.
    #[inline]
    pub fn note_change(&mut self, key: &Key<'_>) {
        if self.clock.tracks() == Tracks::Change {
            self.renew(key);
        }
    }

    #[cold]
    fn renew(&mut self, key: &Key<'_>) {
        if let Some(entry) = self.peek_entry(key) {
            entry.set_access(self.clock.fresh());
        }
    }

    /// The string for a reader.
    ///
    /// # Errors
    ///
    /// The key holds a value of another type.
    #[inline]
    pub fn read_string(&self, key: &Key<'_>) -> Result<Option<Str<'_>>, WrongType> {
        self.read(key).map(EntryRef::string).transpose()
    }

    /// The collection for a reader.
    ///
    /// # Errors
    ///
    /// The key holds a value of another type.
    #[inline]
    pub fn read_as<T: Collection>(&self, key: &Key<'_>) -> Result<Option<&T>, WrongType> {
        self.read(key).map(EntryRef::collection::<T>).transpose()
    }

    /// The access clock.
    pub fn clock(&self) -> &AccessClock {
        self.clock
    }

    /// True if a held slot's table has anything that can expire.
    #[inline]
    pub fn may_expire(&self, slot: u16) -> bool {
        self.ks.body(self.held, slot).table(self.physical).is_some_and(|t| t.volatile.get() > 0)
    }

    /// Keys in the logical database, with those that have come and gone under these latches.
    pub fn len(&self) -> u64 {
        let published = Counters::sum(self.ks.counters(), |counters| &counters.keys, self.physical);
        (published + self.local.unpublished.peek(self.physical).keys).max(0) as u64
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The local part, for statistics.
    pub fn local(&mut self) -> &mut Local {
        self.local
    }
}
