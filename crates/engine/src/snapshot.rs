//! A snapshot of one moment: a walk over all keys, also those that only the store has, while workers go on.
//!
//! A command that changes a key meanwhile hands over a copy first (see `keyspace::Snapshot`). A key that memory does not
//! know when the walk comes to it did not change since the moment, so the store has it as it was. The store is read
//! without a latch; values that were read count until a checkpoint ends (see `cold::listing`).

use std::sync::Arc;

use command::Position;
use keyspace::{Fetched, Held, Kept, Need, SLOTS, Snapshot, Unreadable, Waiter};

use crate::cold::{ReadAhead, Stored};
use crate::engine::Shared;

/// Attempts at a busy latch before it is left to its holder, about a microsecond.
const SPINS: u32 = 40;
/// Bytes copied in one hold.
const BYTES_PER_HOLD: usize = if cfg!(test) { 200 } else { 16 * 1024 };
/// Buckets that are visited in one hold.
const BUCKETS_PER_HOLD: usize = if cfg!(test) { 1 } else { 32 };

/// A database at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfDatabase {
    /// Its logical number.
    pub logical: u16,
    /// Its physical number.
    pub physical: u16,
    /// Its keys.
    pub keys: u64,
    /// Those with a time of expiry.
    pub expires: u64,
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is more.
    More,
    /// A latch is busy: again, in a moment.
    Busy,
    /// That was all.
    Done,
}

/// Why there is no snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spoiled {
    /// A database was emptied meanwhile: another snapshot may be begun.
    Emptied,
    /// FLUSHALL has emptied all of them meanwhile.
    AllEmptied,
    /// The store cannot be read.
    Unreadable,
}

impl From<Unreadable> for Spoiled {
    fn from(Unreadable: Unreadable) -> Self {
        Spoiled::Unreadable
    }
}

/// See the module's text. One at a time; it ends when it is dropped.
pub struct SnapshotWalk {
    shared: Arc<Shared>,
    snapshot: Arc<Snapshot>,
    databases: Vec<OfDatabase>,
    at: usize,
    slot: u16,
    hash: u64,
    read: Option<ReadAhead>,
}

impl Drop for SnapshotWalk {
    fn drop(&mut self) {
        self.shared.keyspace.end_snapshot();
    }
}

impl SnapshotWalk {
    /// Begins a snapshot of this moment. `at_moment` is called while nothing changes. `None`: a latch is busy, try
    /// again.
    pub fn begin<R>(
        shared: &Arc<Shared>,
        mut wake: impl FnMut(Waiter),
        at_moment: impl FnOnce(&Held) -> R,
    ) -> Option<(Self, R)> {
        let keyspace = &shared.keyspace;
        let held = keyspace.try_acquire(&Need::All, &mut wake).ok()?;
        let snapshot = keyspace.begin_snapshot(&held);
        let of = |logical| OfDatabase {
            logical,
            physical: keyspace.physical(logical),
            keys: keyspace.len(logical),
            expires: keyspace.expires(logical),
        };
        let databases: Vec<OfDatabase> = (0..keyspace.databases() as u16).map(of).collect();
        let result = at_moment(&held);
        if let Some(first) = databases.first() {
            snapshot.go_to(first.physical, 0);
        }
        keyspace.release(held, wake);
        Some((Self { shared: shared.clone(), snapshot, databases, at: 0, slot: 0, hash: 0, read: None }, result))
    }

    /// The databases, in the order in which they are visited.
    pub fn databases(&self) -> &[OfDatabase] {
        &self.databases
    }

    /// True if the next step will fail.
    pub fn is_spoiled(&self) -> bool {
        self.snapshot.is_void()
    }

    /// About how many bytes of copies commands have handed over.
    pub fn copied(&self) -> u64 {
        self.snapshot.copied()
    }

    /// Goes on, and appends keys of any database to `to`. A latch is held for one hold at most.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a database was emptied.
    pub fn step(&mut self, to: &mut Vec<Kept>, mut wake: impl FnMut(Waiter)) -> Result<Progress, Spoiled> {
        self.check()?;
        // Copies are in memory twice until they are written.
        let before = to.len();
        self.shared.keyspace.take_handed(&self.snapshot, to);
        if to.len() > before {
            return Ok(Progress::More);
        }
        let shared = self.shared.clone();
        let keyspace = &shared.keyspace;
        let Some(of) = self.databases.get(self.at).copied() else {
            // Nothing is handed over any more, and a database that was emptied earlier is noted by now.
            return self.check().map(|()| Progress::Done);
        };
        match keyspace.next_occupied(self.slot).filter(|_| of.keys > 0) {
            Some(slot) if slot == self.slot => {}
            next => {
                self.go_to_slot(next);
                return Ok(Progress::More);
            }
        }
        let Some(held) = self.acquire() else { return Ok(Progress::Busy) };
        let end = self.hold(&held, of, to);
        if let Ok(Some(true)) = end {
            self.snapshot.leave(of.physical, self.slot);
            self.go_to_slot((usize::from(self.slot) + 1 < SLOTS).then_some(self.slot + 1));
        }
        keyspace.release(held, &mut wake);
        if end?.is_none() {
            self.read_on(of)?;
        }
        Ok(Progress::More)
    }

    fn check(&self) -> Result<(), Spoiled> {
        match self.snapshot.is_void() {
            false => Ok(()),
            true if self.snapshot.is_all_void() => Err(Spoiled::AllEmptied),
            true => Err(Spoiled::Emptied),
        }
    }

    /// The walk comes to this slot of the present database, or to the next database.
    fn go_to_slot(&mut self, slot: Option<u16>) {
        (self.hash, self.read) = (0, None);
        match slot {
            Some(slot) => self.slot = slot,
            None => (self.at, self.slot) = (self.at + 1, 0),
        }
        match self.databases.get(self.at) {
            Some(of) => self.snapshot.go_to(of.physical, self.slot),
            None => self.snapshot.end(),
        }
    }

    fn acquire(&self) -> Option<Held> {
        (0..SPINS).find_map(|_| {
            self.shared.keyspace.try_one(self.slot).or_else(|| {
                std::hint::spin_loop();
                None
            })
        })
    }

    /// One hold. Whether the slot is done; `None`: the store must be read first.
    fn hold(&mut self, held: &Held, of: OfDatabase, to: &mut Vec<Kept>) -> Result<Option<bool>, Spoiled> {
        let shared = self.shared.clone();
        let (keyspace, place) = (&shared.keyspace, (self.slot, of.physical));
        let is_cold = keyspace.cold(held, self.slot, of.physical).is_some();
        let (mut buckets, mut bytes, mut weighed) = (0, 0, to.len());
        while buckets < BUCKETS_PER_HOLD && bytes < BYTES_PER_HOLD {
            buckets += 1;
            let next = if is_cold {
                let Some(next) = self.visit_with_store(held, of, to)? else { return Ok(None) };
                next
            } else {
                keyspace.copy_for_snapshot(held, &self.snapshot, place, self.hash, to)
            };
            bytes += to[weighed..].iter().map(Kept::weight).sum::<usize>();
            weighed = to.len();
            let Some(next) = next else { return Ok(Some(true)) };
            self.hash = next;
            self.snapshot.go_on_at(next);
        }
        Ok(Some(false))
    }

    /// Visits what memory and the store have in the bucket at the position. Returns where to go on, which is `None` at
    /// the end of the slot; without that, the store must be read first.
    fn visit_with_store(
        &mut self,
        held: &Held,
        of: OfDatabase,
        to: &mut Vec<Kept>,
    ) -> Result<Option<Option<u64>>, Spoiled> {
        let shared = self.shared.clone();
        let (keyspace, place) = (&shared.keyspace, (self.slot, of.physical));
        let holds = |read: &ReadAhead| {
            read.space == keyspace.present_space(of.physical)
                && read.coverings == keyspace.coverings()
                && read.until.is_none_or(|until| self.hash < until)
        };
        let Some(mut read) = self.read.take().filter(holds) else { return Ok(None) };
        let next = read.until.into_iter().chain(keyspace.bucket_end(held, place, self.hash)).min();
        let (from, is_before) = (self.hash, |hash: u64| next.is_none_or(|next| hash < next));
        let mut at = to.len();
        keyspace.copy_for_snapshot(held, &self.snapshot, place, from, to);
        while let Some(kept) = to.get(at) {
            let hash = keyspace.hasher().hash(&kept.key);
            // The store's part may end, and have begun, inside of a bucket.
            if hash >= from && is_before(hash) {
                at += 1;
            } else {
                to.swap_remove(at);
            }
        }
        while let Some((hash, Stored { key: name, fetched })) = read.records.pop_if(|(hash, _)| is_before(*hash)) {
            let key = keyspace.hasher().key(&name);
            let is_due = hash >= from && keyspace.is_cold(held, of.physical, &key);
            if is_due
                && !self.snapshot.passes_over(of.physical, &key)
                && let Fetched::There(record) = fetched?
            {
                let (value, expiry, access) = (record.value, record.expiry, record.access);
                to.push(Kept { physical: of.physical, key: name, value, expiry, access });
            }
        }
        self.read = Some(read);
        Ok(Some(next))
    }

    /// Reads the store from the position on.
    fn read_on(&mut self, of: OfDatabase) -> Result<(), Spoiled> {
        let keyspace = &self.shared.keyspace;
        let (space, coverings) = (keyspace.present_space(of.physical), keyspace.coverings());
        let source = self.shared.source.get().ok_or(Spoiled::Unreadable)?;
        let read = source.read(space, Position { slot: self.slot, hash: self.hash }, keyspace.hasher())?;
        let with_hash = |stored: Stored| (keyspace.hasher().hash(&stored.key), stored);
        let mut records: Vec<_> = read.records.into_iter().map(with_hash).collect();
        records.sort_unstable_by_key(|(hash, _)| std::cmp::Reverse(*hash));
        self.read = Some(ReadAhead { records, until: read.until, space, coverings });
        Ok(())
    }
}
