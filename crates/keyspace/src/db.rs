//! One logical database as a command sees it: the latched slots, and what can be done with the keys in them.
//!
//! Expired keys are gone already: the engine deletes a command's expired keys before it runs (and logs that first, rule
//! L3), so nothing here compares times.

use std::sync::Arc;

use crate::access::AccessClock;
use crate::entry::{Entry, INLINE_MAX, Part};
use crate::key::Key;
use crate::keyspace::{Held, Keyspace};
use crate::local::{Local, bump, shift};
use crate::value::{Blob, Collection, Kind, Value, clone_collection, describe_collection};
use object::number::parse_i64 as canonical_int;

/// The value has another type than the command works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongType;

/// What a write does to the expiry of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// None afterwards.
    Clear,
    /// As before.
    Keep,
    /// At this unix time in milliseconds.
    At(u64),
}

/// A string value, borrowed.
#[derive(Clone, Copy, Debug)]
pub enum Str<'a> {
    /// A canonical integer.
    Int(i64),
    /// Bytes inside the entry.
    Bytes(&'a [u8]),
    /// A long string, to be cloned cheaply.
    Blob(&'a Arc<Blob>),
}

impl Str<'_> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Str::Int(n) => itoa::Buffer::new().format(*n).len(),
            Str::Bytes(b) => b.len(),
            Str::Blob(b) => b.len(),
        }
    }

    /// Whether the string is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with the text.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Str::Int(n) => f(itoa::Buffer::new().format(*n).as_bytes()),
            Str::Bytes(b) => f(b),
            Str::Blob(b) => f(b),
        }
    }

    /// A copy of the text.
    pub fn to_vec(&self) -> Vec<u8> {
        self.with(<[u8]>::to_vec)
    }
}

/// A present entry, borrowed for reading.
#[derive(Clone, Copy)]
pub struct EntryRef<'a> {
    entry: Entry,
    _db: std::marker::PhantomData<&'a ()>,
}

impl<'a> EntryRef<'a> {
    pub(crate) fn new(entry: Entry) -> Self {
        Self { entry, _db: std::marker::PhantomData }
    }

    pub(crate) fn entry(self) -> Entry {
        self.entry
    }

    /// Kind of the value.
    #[inline]
    pub fn kind(self) -> Kind {
        self.entry.kind()
    }

    /// The key's bytes.
    pub fn key(self) -> &'a [u8] {
        self.entry.key()
    }

    /// When the key expires, in unix milliseconds.
    pub fn expiry(self) -> Option<u64> {
        self.entry.expiry()
    }

    /// Whether the key is a hash with fields that expire.
    pub fn has_field_expiry(self) -> bool {
        self.entry.has_field_expiry()
    }

    /// Whether the key's time is over at `now`: in the millisecond named by its expiry it still lives (Redis `keyIsExpired`).
    #[inline]
    pub fn expired(self, now: u64) -> bool {
        self.expiry().is_some_and(|at| at < now)
    }

    /// Version of the last write.
    pub fn version(self) -> u64 {
        self.entry.version()
    }

    /// The 24 access bits (LRU clock or LFU state, see [`crate::access`]).
    pub fn access(self) -> u32 {
        self.entry.access()
    }

    /// The string, or that it is none.
    #[inline]
    pub fn string(self) -> Result<Str<'a>, WrongType> {
        match self.entry.kind() {
            Kind::Short | Kind::Raw => Ok(Str::Bytes(self.entry.inline())),
            Kind::Int => Ok(Str::Int(self.entry.int())),
            Kind::Blob => Ok(Str::Blob(self.entry.blob())),
            _ => Err(WrongType),
        }
    }

    /// The collection, if it is a `T`.
    #[inline]
    pub fn collection<T: Collection>(self) -> Result<&'a T, WrongType> {
        self.entry.collection::<T>().ok_or(WrongType)
    }

    /// A copy of the value; cheap for large ones.
    pub fn to_value(self) -> Value {
        let e = self.entry;
        match e.kind() {
            Kind::Int => Value::Int(e.int()),
            Kind::Short => Value::Short(e.inline().into()),
            Kind::Raw => Value::Raw(e.inline().into()),
            Kind::Blob => Value::Blob(e.blob().clone()),
            _ => clone_collection(e).map_or(Value::Int(0), Value::Collection),
        }
    }

    /// Redis's name of the encoding (`OBJECT ENCODING`).
    pub fn encoding(self) -> &'static str {
        match self.entry.kind() {
            Kind::Int => "int",
            // Redis keeps strings of up to 44 bytes beside their header.
            Kind::Short if self.entry.inline().len() <= 44 => "embstr",
            Kind::Short | Kind::Raw | Kind::Blob => "raw",
            _ => describe_collection(self.entry).map_or("raw", |(encoding, _)| encoding),
        }
    }

    /// Bytes of the entry with everything it points to, the table's share included.
    pub fn memory(self) -> usize {
        let own = self.entry.size() + 11;
        match self.entry.kind() {
            Kind::Int | Kind::Short | Kind::Raw => own,
            Kind::Blob => own + 40 + self.entry.blob().capacity(),
            _ => own + describe_collection(self.entry).map_or(0, |(_, bytes)| bytes),
        }
    }
}

/// One logical database under latches.
pub struct Db<'a> {
    ks: &'a Keyspace,
    held: &'a Held,
    local: &'a mut Local,
    clock: &'a AccessClock,
    logical: u16,
    physical: u16,
    /// The version that writes of this command stamp (rule L1).
    version: u64,
}

impl<'a> Db<'a> {
    /// Logical database `logical` of `ks`, for a command that writes at `version`.
    #[inline]
    pub fn new(
        ks: &'a Keyspace,
        held: &'a Held,
        local: &'a mut Local,
        clock: &'a AccessClock,
        logical: u16,
        version: u64,
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

    /// `bytes` as a key of this keyspace.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.ks.hasher().key(bytes)
    }

    #[inline]
    fn find(&self, key: &Key<'_>) -> Option<Entry> {
        let body = self.ks.body(self.held, key.slot);
        body.table(self.physical)?.find(key).map(|(_, e)| e)
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
                bump(&self.local.counters.misses, 1);
                None
            }
        }
    }

    /// The entry for a reader that leaves the access time alone (EXISTS): counts a hit or a miss.
    pub fn look(&self, key: &Key<'_>) -> Option<EntryRef<'_>> {
        let found = self.find(key);
        let counters = &self.local.counters;
        bump(if found.is_some() { &counters.hits } else { &counters.misses }, 1);
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

    /// The string for a reader.
    #[inline]
    pub fn read_string(&self, key: &Key<'_>) -> Result<Option<Str<'_>>, WrongType> {
        self.read(key).map(EntryRef::string).transpose()
    }

    /// The collection for a reader.
    #[inline]
    pub fn read_as<T: Collection>(&self, key: &Key<'_>) -> Result<Option<&T>, WrongType> {
        self.read(key).map(EntryRef::collection::<T>).transpose()
    }

    /// The collection for a writer. Its version becomes this command's.
    #[inline]
    pub fn get_mut<T: Collection>(&mut self, key: &Key<'_>) -> Result<Option<&mut T>, WrongType> {
        let Some(entry) = self.find(key) else { return Ok(None) };
        let collection = entry.collection_mut::<T>().ok_or(WrongType)?;
        self.touch(entry);
        entry.set_version(self.version);
        Ok(Some(collection))
    }

    /// The collection for a writer that may find nothing to do: `change` says whether it did anything, and only then the
    /// version becomes this command's. `None` if the key is absent.
    #[inline]
    pub fn edit<T: Collection, R>(
        &mut self,
        key: &Key<'_>,
        change: impl FnOnce(&mut T) -> (bool, R),
    ) -> Result<Option<R>, WrongType> {
        let Some(entry) = self.find(key) else { return Ok(None) };
        let collection = entry.collection_mut::<T>().ok_or(WrongType)?;
        self.touch(entry);
        let (changed, result) = change(collection);
        if changed {
            entry.set_version(self.version);
        }
        Ok(Some(result))
    }

    /// The collection for a writer, made empty if absent: the caller adds to it, or calls [`Self::remove_if_empty`].
    pub fn get_or_create<T: Collection>(&mut self, key: &Key<'_>) -> Result<&mut T, WrongType> {
        let entry = match self.find(key) {
            Some(entry) => entry,
            None => self.insert_new(key, Value::Collection(T::default().into()), None),
        };
        let collection = entry.collection_mut::<T>().ok_or(WrongType)?;
        self.touch(entry);
        entry.set_version(self.version);
        Ok(collection)
    }

    fn insert_new(&mut self, key: &Key<'_>, value: Value, expiry: Option<u64>) -> Entry {
        let access = self.clock.fresh();
        let fields = if let Value::Collection(c) = &value { c.field_expiry() } else { None };
        let entry = match long_string(value).into_pointer() {
            Ok((kind, p)) => {
                let part = Part::Pointer(kind, p);
                Entry::new(&mut self.local.heap, key.bytes, &part, expiry, self.version, access)
            }
            Err(inline) => {
                Entry::new(&mut self.local.heap, key.bytes, &Part::of(&inline), expiry, self.version, access)
            }
        };
        self.link(key, entry);
        if fields.is_some() {
            self.set_field_expiry(key, fields);
        }
        entry
    }

    /// Puts a new entry into the table and the counters.
    fn link(&mut self, key: &Key<'_>, entry: Entry) {
        let body = self.ks.body(self.held, key.slot);
        body.written_at(self.version);
        let table = body.table_or_new(self.physical);
        table.insert(key.hash, entry, self.ks.hasher(), self.local);
        if let Some(ms) = entry.expiry() {
            table.expires_by(ms);
            self.ks.mark_volatile(key.slot);
            table.volatile.set(table.volatile.get() + 1);
            table.expiring.set(table.expiring.get() + 1);
            shift(&self.local.counters.expires[usize::from(self.physical)], 1);
        }
        shift(&self.local.counters.keys[usize::from(self.physical)], 1);
        self.ks.mark_occupied(key.slot);
    }

    /// Takes the entry out of the table and the counters; the caller frees or empties it.
    fn unlink(&mut self, key: &Key<'_>) -> Option<Entry> {
        let body = self.ks.body(self.held, key.slot);
        let table = body.table(self.physical)?;
        let (place, entry) = table.find(key)?;
        table.remove(place, self.local);
        if entry.expiry().is_some() {
            table.volatile.set(table.volatile.get() - 1);
            table.expiring.set(table.expiring.get() - 1);
            shift(&self.local.counters.expires[usize::from(self.physical)], -1);
        }
        if entry.has_field_expiry() {
            table.volatile.set(table.volatile.get() - 1);
            shift(&self.local.counters.field_expires[usize::from(self.physical)], -1);
        }
        let emptied = table.count.get() == 0;
        body.written_at(self.version);
        shift(&self.local.counters.keys[usize::from(self.physical)], -1);
        if emptied {
            self.ks.mark_if_empty(self.held, key.slot);
        }
        Some(entry)
    }

    /// Sets a string, in place where it fits. `raw`: it is the result of a change in place (APPEND, SETRANGE).
    #[inline]
    pub fn set_string(&mut self, key: &Key<'_>, bytes: &[u8], raw: bool, expiry: Expiry) {
        let part = match canonical_int(bytes) {
            Some(n) if !raw => Part::Int(n),
            _ if bytes.len() > INLINE_MAX => return self.set_value(key, Value::Blob(Arc::new(bytes.to_vec())), expiry),
            _ if raw => Part::Raw(bytes),
            _ => Part::Short(bytes),
        };
        self.set_part(key, &part, expiry);
    }

    /// Sets a string that is an integer.
    pub fn set_int(&mut self, key: &Key<'_>, n: i64, expiry: Expiry) {
        self.set_part(key, &Part::Int(n), expiry);
    }

    #[inline]
    fn set_part(&mut self, key: &Key<'_>, part: &Part<'_>, expiry: Expiry) {
        let body = self.ks.body(self.held, key.slot);
        let found = body.table(self.physical).and_then(|t| t.find(key));
        let Some((place, old)) = found else {
            let expiry = if let Expiry::At(ms) = expiry { Some(ms) } else { None };
            let access = self.clock.fresh();
            let entry = Entry::new(&mut self.local.heap, key.bytes, part, expiry, self.version, access);
            return self.link(key, entry);
        };
        let had = old.expiry();
        let expiry = match expiry {
            Expiry::Clear => None,
            Expiry::Keep => had,
            Expiry::At(ms) => Some(ms),
        };
        let had_fields = old.has_field_expiry();
        self.touch(old);
        let size = old.size();
        let entry = if old.overwrite(part, expiry) {
            if old.size() != size {
                self.local.heap.resized(size, old.size());
            }
            old.set_version(self.version);
            old
        } else {
            let new = Entry::new(&mut self.local.heap, key.bytes, part, expiry, self.version, old.access());
            place.set_address(new.to_word());
            old.free(self.local);
            new
        };
        if had.is_some() || expiry.is_some() || had_fields {
            self.account_expiry(key.slot, had, entry.expiry(), had_fields, false);
        }
        body.written_at(self.version);
    }

    /// Keeps the table's and the worker's expiry counters after an entry's expiry has changed.
    fn account_expiry(&mut self, slot: u16, had: Option<u64>, has: Option<u64>, had_fields: bool, has_fields: bool) {
        let Some(table) = self.ks.body(self.held, slot).table(self.physical) else { return };
        let before = u32::from(had.is_some()) + u32::from(had_fields);
        let after = u32::from(has.is_some()) + u32::from(has_fields);
        if let Some(ms) = has {
            table.expires_by(ms);
            self.ks.mark_volatile(slot);
        }
        table.volatile.set(table.volatile.get() + after - before);
        table.expiring.set(table.expiring.get() + u32::from(has.is_some()) - u32::from(had.is_some()));
        let delta = i64::from(has.is_some()) - i64::from(had.is_some());
        shift(&self.local.counters.expires[usize::from(self.physical)], delta);
        let delta = i64::from(has_fields) - i64::from(had_fields);
        shift(&self.local.counters.field_expires[usize::from(self.physical)], delta);
    }

    /// Sets any value, whatever was there. A hash brings the expiry of its fields along.
    pub fn set_value(&mut self, key: &Key<'_>, value: Value, expiry: Expiry) {
        let had = self.unlink(key).map(|old| {
            let had = old.expiry();
            old.free(self.local);
            had
        });
        let expiry = match expiry {
            Expiry::Clear => None,
            Expiry::Keep => had.flatten(),
            Expiry::At(ms) => Some(ms),
        };
        self.insert_new(key, value, expiry);
    }

    /// Deletes the key. False: it was absent.
    pub fn remove(&mut self, key: &Key<'_>) -> bool {
        match self.unlink(key) {
            Some(entry) => {
                entry.free(self.local);
                true
            }
            None => false,
        }
    }

    /// Takes the key out: its value and expiry.
    pub fn take(&mut self, key: &Key<'_>) -> Option<(Value, Option<u64>)> {
        let entry = self.unlink(key)?;
        let expiry = entry.expiry();
        Some((entry.take(&mut self.local.heap), expiry))
    }

    /// Deletes the key if its collection of type `T` is empty. True: it was deleted.
    pub fn remove_if_empty<T: Collection>(&mut self, key: &Key<'_>) -> bool {
        let empty = self.find(key).and_then(Entry::collection::<T>).is_some_and(|c| c.has_no_elements());
        empty && self.remove(key)
    }

    /// Changes the expiry of a present key. False: the key is absent.
    pub fn set_expiry(&mut self, key: &Key<'_>, expiry: Option<u64>) -> bool {
        let body = self.ks.body(self.held, key.slot);
        let Some((place, mut entry)) = body.table(self.physical).and_then(|t| t.find(key)) else { return false };
        let had = entry.expiry();
        match (had, expiry) {
            (None, None) => {}
            (Some(_), Some(ms)) => entry.move_expiry(ms),
            _ => {
                let new = entry.with_expiry(&mut self.local.heap, expiry);
                place.set_address(new.to_word());
                entry = new;
            }
        }
        self.touch(entry);
        entry.set_version(self.version);
        body.written_at(self.version);
        self.account_expiry(key.slot, had, expiry, false, false);
        true
    }

    /// Says whether the key, a hash, has fields that expire (the earliest at `next`), so that the sweep visits it.
    pub fn set_field_expiry(&mut self, key: &Key<'_>, next: Option<u64>) {
        let Some(entry) = self.find(key) else { return };
        let had = entry.has_field_expiry();
        entry.set_field_expiry(next.is_some());
        let Some(table) = self.ks.body(self.held, key.slot).table(self.physical) else { return };
        if let Some(ms) = next {
            table.expires_by(ms);
            self.ks.mark_volatile(key.slot);
        }
        table.volatile.set(table.volatile.get() + u32::from(next.is_some()) - u32::from(had));
        let delta = i64::from(next.is_some()) - i64::from(had);
        shift(&self.local.counters.field_expires[usize::from(self.physical)], delta);
    }

    /// A long string to be changed in place: the present string as an unshared `Vec`, made a `Blob` if it was not.
    /// Only for strings longer than [`INLINE_MAX`] or about to become so.
    pub fn blob_mut(&mut self, key: &Key<'_>) -> Result<Option<&mut Blob>, WrongType> {
        let Some(entry) = self.find(key) else { return Ok(None) };
        if !entry.kind().is_string() {
            return Err(WrongType);
        }
        let entry = if entry.kind() == Kind::Blob {
            entry
        } else {
            let text = EntryRef::new(entry).string()?.to_vec();
            self.set_value(key, Value::Blob(Arc::new(text)), Expiry::Keep);
            match self.find(key) {
                Some(entry) => entry,
                None => return Ok(None),
            }
        };
        self.touch(entry);
        entry.set_version(self.version);
        Ok(Some(Arc::make_mut(entry.blob_mut())))
    }

    /// A short string to be changed in place without changing its length; it becomes "raw". `None` if the key is absent
    /// or not an inline string.
    pub fn inline_mut(&mut self, key: &Key<'_>) -> Option<&mut [u8]> {
        let entry = self.find(key)?;
        match entry.kind() {
            Kind::Short => entry.set_raw(),
            Kind::Raw => {}
            _ => return None,
        }
        self.touch(entry);
        entry.set_version(self.version);
        Some(entry.inline_mut())
    }

    /// Adds to an integer in place. `None` if the key is absent or not an integer entry; the sum is the caller's.
    pub fn int_mut(&mut self, key: &Key<'_>, f: impl FnOnce(i64) -> Option<i64>) -> Option<Option<i64>> {
        let entry = self.find(key).filter(|e| e.kind() == Kind::Int)?;
        self.touch(entry);
        let sum = f(entry.int());
        if let Some(n) = sum {
            entry.set_int(n);
            entry.set_version(self.version);
        }
        Some(sum)
    }

    /// Overwrites the access bits (RESTORE IDLETIME and FREQ, OBJECT in tests).
    pub fn set_access(&mut self, key: &Key<'_>, access: u32) {
        if let Some(entry) = self.find(key) {
            entry.set_access(access);
        }
    }

    /// The access clock.
    pub fn clock(&self) -> &AccessClock {
        self.clock
    }

    /// Whether a held slot's table has anything that can expire.
    #[inline]
    pub fn may_expire(&self, slot: u16) -> bool {
        self.ks.body(self.held, slot).table(self.physical).is_some_and(|t| t.volatile.get() > 0)
    }

    /// Moves the key's block if it lies in a sparse page of the heap. True: it was moved.
    pub(crate) fn defragment(&mut self, key: &Key<'_>) -> bool {
        let body = self.ks.body(self.held, key.slot);
        let Some((place, entry)) = body.table(self.physical).and_then(|t| t.find(key)) else { return false };
        // SAFETY: the entry is in use and its block has this size.
        if !unsafe { self.ks.heap().is_sparse(entry.pointer(), entry.size()) } {
            return false;
        }
        match entry.relocate(&mut self.local.heap) {
            Some(moved) => {
                place.set_address(moved.to_word());
                true
            }
            None => false,
        }
    }

    /// The local part, for statistics.
    pub fn local(&mut self) -> &mut Local {
        self.local
    }
}

/// A string too long for an entry becomes a blob; everything else stays.
fn long_string(value: Value) -> Value {
    match value {
        Value::Short(b) | Value::Raw(b) if b.len() > INLINE_MAX => Value::Blob(Arc::new(b.into_vec())),
        other => other,
    }
}
