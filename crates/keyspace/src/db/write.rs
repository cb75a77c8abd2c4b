//! Changes of entries, with their consequences for counters and marks.

use std::sync::Arc;

use clocks::UnixMs;
use object::Stream;
use object::number::parse_i64 as canonical_int;
use object::saved::string_has_leaves;

use super::{Db, EntryRef, WrongType};
use crate::cold::Record;
use crate::counts::Counts;
use crate::entry::{Entry, INLINE_MAX, Part};
use crate::key::Key;
use crate::mark::Mark;
use crate::sizes::{Changing, Measured, Size, are_alike_ints};
use crate::snapshot::Change;
use crate::value::{Blob, Collection, Kind, Value};
use crate::version::Version;

/// The effect of a write on the expiry of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// None afterwards.
    Clear,
    /// As before.
    Keep,
    /// At this time.
    At(UnixMs),
}

/// The value that was replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// There was no such key.
    Nothing,
    /// A string without an expiry, of which the store has one record.
    Plain,
    /// Something else.
    Other,
}

impl Over {
    #[inline]
    fn of(old: Entry) -> Self {
        let has_leaves = old.kind() == Kind::Blob && string_has_leaves(old.blob().len());
        let is_plain = old.kind().is_string() && !has_leaves && old.expiry().is_none();
        if is_plain { Over::Plain } else { Over::Other }
    }
}

impl Db<'_> {
    /// The collection for a writer. Its version becomes this command's.
    ///
    /// # Errors
    ///
    /// The key holds a value of another type.
    #[inline]
    pub fn get_mut<T: Collection>(&mut self, key: &Key<'_>) -> Result<Option<Changing<'_, T>>, WrongType> {
        let Some(entry) = self.find(key) else { return Ok(None) };
        let collection = entry.collection_mut::<T>().ok_or(WrongType)?;
        self.hand_over(key, entry);
        self.touch(entry);
        self.stamp_entry(entry);
        Ok(Some(self.changing(collection)))
    }

    /// As [`Self::get_mut`], for a stream: its size does not count.
    ///
    /// # Errors
    ///
    /// The key holds a value of another type.
    pub fn stream_mut(&mut self, key: &Key<'_>) -> Result<Option<&mut Stream>, WrongType> {
        let Some(entry) = self.find(key) else { return Ok(None) };
        let stream = entry.collection_mut::<Stream>().ok_or(WrongType)?;
        self.hand_over(key, entry);
        self.touch(entry);
        self.stamp_entry(entry);
        Ok(Some(stream))
    }

    /// As [`Self::get_or_create`], for a stream.
    ///
    /// # Errors
    ///
    /// The key holds a value of another type.
    pub fn stream_or_create(&mut self, key: &Key<'_>) -> Result<&mut Stream, WrongType> {
        let entry = self.find_or_create::<Stream>(key);
        let stream = entry.collection_mut::<Stream>().ok_or(WrongType)?;
        self.hand_over(key, entry);
        self.touch(entry);
        self.stamp_entry(entry);
        Ok(stream)
    }

    fn find_or_create<T: Collection>(&mut self, key: &Key<'_>) -> Entry {
        match self.find(key) {
            Some(entry) => entry,
            None => {
                self.note_birth(key);
                self.insert_new(key, Value::Collection(T::default().into()), None)
            }
        }
    }

    /// Before a present entry changes: a snapshot that has not come to it gets it as it is.
    #[inline]
    fn hand_over(&self, key: &Key<'_>, entry: Entry) {
        self.hand_over_for(key, entry, Change::InPlace);
    }

    /// As [`Self::hand_over`], and the entry's value goes.
    #[inline]
    fn hand_over_gone(&self, key: &Key<'_>, entry: Entry) {
        self.hand_over_for(key, entry, Change::Gone);
    }

    #[inline]
    fn hand_over_for(&self, key: &Key<'_>, entry: Entry, change: Change) {
        if self.ks.snapshots.are_on() {
            self.ks.hand_over(self.physical, key, Some((entry, change)));
        }
    }

    /// A key is made that is not there: no snapshot under way has it.
    #[inline]
    fn note_birth(&self, key: &Key<'_>) {
        self.local.sightings.born(self.logical, key.bytes);
        if self.ks.snapshots.are_on() {
            self.ks.hand_over(self.physical, key, None);
        }
    }

    /// A value of this database, to be changed.
    #[inline]
    fn changing<'v, T: Measured>(&'v self, value: &'v mut T) -> Changing<'v, T> {
        Changing::new(value, &self.local.counters, self.physical)
    }

    /// The collection for a writer that may find nothing to do: `change` returns whether it has changed anything, and
    /// only then the version becomes this command's. `None` if the key is absent.
    ///
    /// # Errors
    ///
    /// The key holds a value of another type.
    #[inline]
    pub fn edit<T: Collection, R>(
        &mut self,
        key: &Key<'_>,
        change: impl FnOnce(&mut T) -> (bool, R),
    ) -> Result<Option<R>, WrongType> {
        let Some(entry) = self.find(key) else { return Ok(None) };
        let collection = entry.collection_mut::<T>().ok_or(WrongType)?;
        self.hand_over(key, entry);
        self.touch(entry);
        let (changed, result) = change(&mut self.changing(collection));
        if changed {
            self.stamp_entry(entry);
        }
        Ok(Some(result))
    }

    /// The collection for a writer, made empty if absent: the caller adds to it, or calls [`Self::remove_if_empty`].
    ///
    /// # Errors
    ///
    /// The key holds a value of another type.
    pub fn get_or_create<T: Collection>(&mut self, key: &Key<'_>) -> Result<Changing<'_, T>, WrongType> {
        let entry = self.find_or_create::<T>(key);
        let collection = entry.collection_mut::<T>().ok_or(WrongType)?;
        self.hand_over(key, entry);
        self.touch(entry);
        self.stamp_entry(entry);
        Ok(self.changing(collection))
    }

    fn insert_new(&mut self, key: &Key<'_>, value: Value, expiry: Option<UnixMs>) -> Entry {
        let access = self.clock.fresh();
        let fields = value.field_expiry();
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

    /// The worker's figures of the database.
    #[inline]
    fn counts(&mut self) -> &mut Counts {
        self.local.unpublished.of(self.physical)
    }

    /// Puts a new entry into the table and the counters.
    fn link(&mut self, key: &Key<'_>, entry: Entry) {
        self.local.stamped = true;
        let table = self.ks.body(self.held, key.slot).table_or_new(self.physical);
        table.insert(key.hash, entry, self.ks.hasher(), self.local);
        if let Some(ms) = entry.expiry() {
            table.expires_by(ms);
            self.ks.mark_volatile(key.slot);
            table.volatile.set(table.volatile.get() + 1);
            table.expiring.set(table.expiring.get() + 1);
            self.counts().expires += 1;
        }
        self.counts().keys += 1;
        self.local.counters.count_size(self.physical, Size::of(entry), 1);
        self.ks.mark_occupied(key.slot);
        if table.graves.are_of_interest()
            && let Some(mark) = self.ks.dig_up(self.held, key, self.physical, self.local)
        {
            entry.set_mark(mark);
        }
    }

    /// Takes the entry out of the table and the counters; the caller frees or empties it. `for_good`: no other takes
    /// its place.
    fn unlink(&mut self, key: &Key<'_>, for_good: bool) -> Option<Entry> {
        let Some(entry) = self.detach(key) else {
            self.note_absence(key.slot);
            return None;
        };
        self.hand_over_gone(key, entry);
        self.local.stamped = true;
        let walked =
            || self.ks.body(self.held, key.slot).table(self.physical).is_some_and(|table| table.graves.are_walked());
        let mark = entry.mark();
        if for_good && (!mark.is_none() || walked()) {
            self.ks.bury_key(self.held, key, self.physical, (self.version, mark), self.local);
        }
        Some(entry)
    }

    /// Takes the entry out of the table and the counters.
    fn detach(&mut self, key: &Key<'_>) -> Option<Entry> {
        let body = self.ks.body(self.held, key.slot);
        let (table, (place, entry)) = body.table(self.physical).and_then(|t| Some((t, t.find(key)?)))?;
        table.remove(place, self.local);
        if entry.expiry().is_some() {
            table.volatile.set(table.volatile.get() - 1);
            table.expiring.set(table.expiring.get() - 1);
            self.counts().expires -= 1;
        }
        if entry.has_field_expiry() {
            table.volatile.set(table.volatile.get() - 1);
            self.counts().field_expires -= 1;
        }
        self.counts().keys -= 1;
        self.local.counters.count_size(self.physical, Size::of(entry), -1);
        if table.count.get() == 0 {
            self.ks.mark_if_empty(self.held, key.slot);
        }
        Some(entry)
    }

    /// Sets a string, in place where it fits. `raw`: it is the result of a change in place (APPEND, SETRANGE).
    #[inline]
    pub fn set_string(&mut self, key: &Key<'_>, bytes: &[u8], raw: bool, expiry: Expiry) {
        self.replace_string(key, bytes, raw, expiry);
    }

    /// As [`Self::set_string`]; returns the value that was there.
    #[inline]
    pub fn replace_string(&mut self, key: &Key<'_>, bytes: &[u8], raw: bool, expiry: Expiry) -> Over {
        let part = match canonical_int(bytes) {
            Some(n) if !raw => Part::Int(n),
            _ if bytes.len() > INLINE_MAX => return self.replace(key, Value::Blob(Arc::new(bytes.to_vec())), expiry),
            _ if raw => Part::Raw(bytes),
            _ => Part::Short(bytes),
        };
        self.set_part(key, &part, expiry)
    }

    /// Sets a string that is an integer; returns the value that was there.
    pub fn set_int(&mut self, key: &Key<'_>, n: i64, expiry: Expiry) -> Over {
        self.set_part(key, &Part::Int(n), expiry)
    }

    #[inline]
    fn set_part(&mut self, key: &Key<'_>, part: &Part<'_>, expiry: Expiry) -> Over {
        let body = self.ks.body(self.held, key.slot);
        let found = body.table(self.physical).and_then(|t| t.find(key));
        let Some((place, old)) = found else {
            let expiry = if let Expiry::At(ms) = expiry { Some(ms) } else { None };
            let access = self.clock.fresh();
            let entry = Entry::new(&mut self.local.heap, key.bytes, part, expiry, self.version, access);
            self.note_birth(key);
            self.link(key, entry);
            return Over::Nothing;
        };
        self.hand_over_gone(key, old);
        let over = Over::of(old);
        let had = old.expiry();
        let expiry = match expiry {
            Expiry::Clear => None,
            Expiry::Keep => had,
            Expiry::At(ms) => Some(ms),
        };
        let had_fields = old.has_field_expiry();
        self.touch(old);
        let size = old.size();
        let entry = if old.overwrite(part, expiry, || self.count_over(old, part)) {
            if old.size() != size {
                self.local.heap.resized(size, old.size());
            }
            self.stamp_entry(old);
            old
        } else {
            self.count_over(old, part);
            let new = Entry::new(&mut self.local.heap, key.bytes, part, expiry, self.version, old.access());
            self.local.stamped = true;
            new.set_mark(old.mark());
            place.set_address(new.to_word());
            old.free(self.local);
            new
        };
        if had.is_some() || expiry.is_some() || had_fields {
            self.account_expiry(key.slot, had, entry.expiry(), had_fields, false);
        }
        over
    }

    /// Counts the size of a string that is about to replace an entry's value.
    #[inline(never)]
    fn count_over(&self, old: Entry, part: &Part<'_>) {
        self.local.counters.count_resized(self.physical, Size::of(old), Size::of_part(part));
    }

    /// Keeps the table's and the worker's expiry counters after an entry's expiry has changed.
    fn account_expiry(
        &mut self,
        slot: u16,
        had: Option<UnixMs>,
        has: Option<UnixMs>,
        had_fields: bool,
        has_fields: bool,
    ) {
        let Some(table) = self.ks.body(self.held, slot).table(self.physical) else { return };
        let before = u32::from(had.is_some()) + u32::from(had_fields);
        let after = u32::from(has.is_some()) + u32::from(has_fields);
        if let Some(ms) = has {
            table.expires_by(ms);
            self.ks.mark_volatile(slot);
        }
        table.volatile.set(table.volatile.get() + after - before);
        table.expiring.set(table.expiring.get() + u32::from(has.is_some()) - u32::from(had.is_some()));
        let counts = self.counts();
        counts.expires += i64::from(has.is_some()) - i64::from(had.is_some());
        counts.field_expires += i64::from(has_fields) - i64::from(had_fields);
    }

    /// Sets any value, whatever was there. A hash brings the expiry of its fields along.
    pub fn set_value(&mut self, key: &Key<'_>, value: Value, expiry: Expiry) {
        self.replace(key, value, expiry);
    }

    /// As [`Self::set_value`], for a command that deletes the former value: the key counts as new.
    pub fn set_new_value(&mut self, key: &Key<'_>, value: Value, expiry: Expiry) {
        self.count_as_new(key);
        self.replace(key, value, expiry);
    }

    /// Makes a key that is about to be replaced count as new, for a command that deletes the former value.
    pub fn count_as_new(&mut self, key: &Key<'_>) {
        if self.peek_entry(key).is_some() {
            self.local.sightings.born(self.logical, key.bytes);
        }
    }

    fn replace(&mut self, key: &Key<'_>, value: Value, expiry: Expiry) -> Over {
        let over = self.peek_entry(key).map_or(Over::Nothing, Over::of);
        let had = self.unlink(key, false).map(|old| {
            let had = (old.expiry(), old.mark());
            old.free(self.local);
            had
        });
        if had.is_none() {
            self.note_birth(key);
        }
        let expiry = match expiry {
            Expiry::Clear => None,
            Expiry::Keep => had.and_then(|(expiry, _)| expiry),
            Expiry::At(ms) => Some(ms),
        };
        let entry = self.insert_new(key, value, expiry);
        if let Some((_, mark)) = had {
            entry.set_mark(mark);
        }
        over
    }

    /// Puts the store's record of an unknown key into the table: that is no change.
    pub fn install(&mut self, key: &Key<'_>, record: Record) {
        debug_assert!(self.peek_entry(key).is_none(), "rule C5");
        let stamped = self.local.stamped;
        let version = std::mem::replace(&mut self.version, record.version);
        let entry = self.insert_new(key, record.value, record.expiry);
        entry.set_access(record.access);
        entry.set_mark(record.mark);
        self.version = version;
        self.local.stamped = stamped;
    }

    /// Takes a present entry that the store has out of memory: that is no change.
    pub(crate) fn drop_entry(&mut self, key: &Key<'_>) {
        if let Some(entry) = self.detach(key) {
            entry.free(self.local);
        }
    }

    /// Notes that the store's record of an unknown key says that it was gone at `version`.
    pub fn install_gone(&mut self, key: &Key<'_>, version: Version) {
        self.ks.bury_key(self.held, key, self.physical, (version, Mark::DEAD), self.local);
    }

    /// Notes that the store has a note of a deleted key, which the store is to lose, even if the key is there again.
    pub fn note_gone(&mut self, key: &Key<'_>) {
        if let Some(entry) = self.peek_entry(key).filter(|entry| entry.mark().is_none()) {
            entry.set_mark(Mark::DEAD);
        }
    }

    /// Deletes the key. False: it was absent.
    pub fn remove(&mut self, key: &Key<'_>) -> bool {
        match self.unlink(key, true) {
            Some(entry) => {
                entry.free(self.local);
                true
            }
            None => false,
        }
    }

    /// Takes the key out: its value and expiry.
    pub fn take(&mut self, key: &Key<'_>) -> Option<(Value, Option<UnixMs>)> {
        let entry = self.unlink(key, true)?;
        let expiry = entry.expiry();
        Some((entry.take(&mut self.local.heap), expiry))
    }

    /// Deletes the key if its collection of type `T` is empty. True: it was deleted.
    pub fn remove_if_empty<T: Collection>(&mut self, key: &Key<'_>) -> bool {
        let empty = self.find(key).and_then(Entry::collection::<T>).is_some_and(|c| c.has_no_elements());
        empty && self.remove(key)
    }

    /// Changes the expiry of a present key. False: the key is absent.
    pub fn set_expiry(&mut self, key: &Key<'_>, expiry: Option<UnixMs>) -> bool {
        let body = self.ks.body(self.held, key.slot);
        let Some((place, mut entry)) = body.table(self.physical).and_then(|t| t.find(key)) else {
            self.note_absence(key.slot);
            return false;
        };
        self.hand_over(key, entry);
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
        self.stamp_entry(entry);
        self.account_expiry(key.slot, had, expiry, false, false);
        true
    }

    /// Sets whether the key, a hash, has fields that expire (the earliest at `next`), so that the sweep visits it.
    pub fn set_field_expiry(&mut self, key: &Key<'_>, next: Option<UnixMs>) {
        let Some(entry) = self.find(key) else { return };
        let had = entry.has_field_expiry();
        entry.set_field_expiry(next.is_some());
        let Some(table) = self.ks.body(self.held, key.slot).table(self.physical) else { return };
        if let Some(ms) = next {
            table.expires_by(ms);
            self.ks.mark_volatile(key.slot);
        }
        table.volatile.set(table.volatile.get() + u32::from(next.is_some()) - u32::from(had));
        self.counts().field_expires += i64::from(next.is_some()) - i64::from(had);
    }

    /// A long string to be changed: the present one, made a `Blob` if it was not. Replies that share it do not see the
    /// change. Only for strings longer than [`INLINE_MAX`] or about to become so.
    ///
    /// # Errors
    ///
    /// The key holds a value of another type.
    pub fn blob_mut(&mut self, key: &Key<'_>) -> Result<Option<Changing<'_, Arc<Blob>>>, WrongType> {
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
        self.hand_over(key, entry);
        self.touch(entry);
        self.stamp_entry(entry);
        Ok(Some(self.changing(entry.blob_mut())))
    }

    /// A short string to be changed in place without changing its length; it becomes "raw". `None` if the key is absent
    /// or not an inline string.
    pub fn inline_mut(&mut self, key: &Key<'_>) -> Option<&mut [u8]> {
        let entry = self.find(key)?;
        match entry.kind() {
            Kind::Short => {
                self.hand_over(key, entry);
                entry.set_raw();
            }
            Kind::Raw => self.hand_over(key, entry),
            _ => return None,
        }
        self.touch(entry);
        self.stamp_entry(entry);
        Some(entry.inline_mut())
    }

    /// Adds to an integer in place. Returns the record of the entry. `None` if the key is absent or not an integer
    /// entry; the sum is the caller's.
    pub fn int_mut(&mut self, key: &Key<'_>, f: impl FnOnce(i64) -> Option<i64>) -> Option<(Option<i64>, Over)> {
        let entry = self.find(key).filter(|e| e.kind() == Kind::Int)?;
        self.touch(entry);
        let old = entry.int();
        let sum = f(old);
        if let Some(n) = sum {
            self.hand_over(key, entry);
            if !are_alike_ints(old, n) {
                self.local.counters.count_resized(self.physical, Size::of_int(old), Size::of_int(n));
            }
            entry.set_int(n);
            self.stamp_entry(entry);
        }
        Some((sum, Over::of(entry)))
    }

    #[inline]
    fn stamp_entry(&mut self, entry: Entry) {
        entry.set_version(self.version);
        self.local.stamped = true;
    }

    /// Gives a key this `Db`'s version, if it is there: the change with that version was its own.
    pub fn stamp(&mut self, key: &Key<'_>) {
        if let Some(entry) = self.find(key) {
            self.stamp_entry(entry);
        }
    }

    /// Overwrites the access bits (RESTORE IDLETIME and FREQ, OBJECT in tests).
    pub fn set_access(&mut self, key: &Key<'_>, access: u32) {
        if let Some(entry) = self.find(key) {
            entry.set_access(access);
        }
    }
}

/// A string too long for an entry becomes a blob; everything else stays.
fn long_string(value: Value) -> Value {
    match value {
        Value::Short(b) | Value::Raw(b) if b.len() > INLINE_MAX => Value::Blob(Arc::new(b.into_vec())),
        other => other,
    }
}
