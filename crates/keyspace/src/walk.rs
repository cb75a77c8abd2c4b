//! Visiting the keys of one held slot in hash order, in steps.

use clocks::UnixMs;

use crate::db::{Db, EntryRef};
use crate::table::Tidied;

impl Db<'_> {
    /// Calls `f` with the entries of `slot` from hash `from` on that share a bucket. Returns where the next bucket
    /// begins; `None` after the last. A key that stays present is visited exactly once over a walk, whatever grows or
    /// shrinks.
    pub fn walk(&self, slot: u16, from: u64, mut f: impl FnMut(EntryRef<'_>)) -> Option<u64> {
        self.keyspace().body(self.held(), slot).table(self.physical())?.step(from, |entry| f(EntryRef::new(entry)))
    }

    /// Number of keys of the database in a held slot.
    pub fn slot_len(&self, slot: u16) -> u32 {
        self.keyspace().body(self.held(), slot).table(self.physical()).map_or(0, |t| t.count.get())
    }

    /// Number of keys with an expiry of the database in a held slot.
    pub fn slot_expires(&self, slot: u16) -> u32 {
        self.keyspace().body(self.held(), slot).table(self.physical()).map_or(0, |t| t.expiring.get())
    }

    /// No key of the database in this slot expires before this time; `None` if none expires at all.
    pub fn next_expiry(&self, slot: u16) -> Option<UnixMs> {
        let table = self.keyspace().body(self.held(), slot).table(self.physical())?;
        (table.volatile.get() > 0).then(|| table.next_expiry.get())
    }

    /// Sets the time before which no key of the database in this slot expires: for the expiry sweep, which has looked.
    pub fn set_next_expiry(&mut self, slot: u16, ms: UnixMs) {
        if let Some(table) = self.keyspace().body(self.held(), slot).table(self.physical()) {
            table.next_expiry.set(ms);
        }
    }

    /// Tidies the part of the slot's table at hash `from`, at most some hundred entries. It shrinks sparse segments and
    /// moves those in sparse pages of the heap; entries only if `entries` says so.
    pub fn tidy(&mut self, slot: u16, from: u64, entries: bool) -> Tidied {
        let (ks, physical) = (self.keyspace(), self.physical());
        match ks.body(self.held(), slot).table(physical) {
            Some(table) => table.tidy(from, entries, ks.heap(), self.local()),
            None => Tidied::default(),
        }
    }
}
