//! Visiting the keys of one held slot in hash order, in steps.

use crate::db::{Db, EntryRef};
use crate::key::Key;

impl Db<'_> {
    /// Calls `f` with the entries of `slot` from hash `from` on that share a bucket, and says where the next bucket begins;
    /// `None` after the last. A key that stays present is visited exactly once over a walk, whatever grows or shrinks.
    pub fn walk(&self, slot: u16, from: u64, mut f: impl FnMut(EntryRef<'_>)) -> Option<u64> {
        self.keyspace().body(self.held(), slot).table(self.physical())?.step(from, |entry| f(EntryRef::new(entry)))
    }

    /// Number of keys of the database in a held slot.
    pub fn slot_len(&self, slot: u16) -> u32 {
        self.keyspace().body(self.held(), slot).table(self.physical()).map_or(0, |t| t.count.get())
    }

    /// Number of keys with an expiry of the database in a held slot.
    pub fn slot_expires(&self, slot: u16) -> u32 {
        self.keyspace().body(self.held(), slot).table(self.physical()).map_or(0, |t| t.expiring)
    }

    /// No key of the database in this slot expires before this time; `None` if none expires at all.
    pub fn next_expiry(&self, slot: u16) -> Option<u64> {
        let table = self.keyspace().body(self.held(), slot).table(self.physical())?;
        (table.volatile.get() > 0).then(|| table.next_expiry.get())
    }

    /// Says that no key of the database in this slot expires before `ms`: for the expiry sweep, which has looked.
    pub fn set_next_expiry(&mut self, slot: u16, ms: u64) {
        if let Some(table) = self.keyspace().body(self.held(), slot).table(self.physical()) {
            table.next_expiry.set(ms);
        }
    }

    /// Shrinks a sparse part of the slot's table at hash `from`, and says where the next part begins.
    pub fn compact(&mut self, slot: u16, from: u64) -> Option<u64> {
        let table = self.keyspace().body(self.held(), slot).table(self.physical())?;
        table.compact_step(from, self.local())
    }

    /// Moves the blocks of `keys` that lie in sparse pages of the heap. Returns how many moved.
    pub fn defragment_keys(&mut self, keys: &[Key<'_>]) -> usize {
        keys.iter().filter(|key| self.defragment(key)).count()
    }
}
