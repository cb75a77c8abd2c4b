//! Hashes: named values, each with an expiry of its own if asked for.
//!
//! | form | `OBJECT ENCODING` | used while |
//! |---|---|---|
//! | compact block of names and values | `listpack` | at most `hash-max-listpack-entries`, nothing longer than `hash-max-listpack-value` |
//! | the same with a time of expiry behind each value | `listpackex` | once a field was given one |
//! | leaf tree in the order of the names' hashes | `hashtable` | otherwise |
//!
//! As in Redis a hash changes its form when it grows and never turns back.
//!
//! A field is *expired* once its time has passed. It stays until it is
//! [reclaimed](Hash::reclaim). Until then [`get`](Hash::get) and [`iter`](Hash::iter) do not show it, while
//! [`len`](Hash::len), [`find`](Hash::find) and ranks still count it.

mod codec;
pub(crate) mod field;
#[cfg(test)]
mod tests;
mod triples;

use clocks::UnixMs;

use crate::Limits;
use crate::block::{Block, Elem, Needle};
use crate::hashed::{Mark, Records, Table};
pub use field::{EXPIRY_MAX, Field};
use field::{Head, Stored};
use triples::Triples;

/// The treatment of the expiry of a field that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It stays as it is; a new field has none.
    Keep,
    /// The field will not expire.
    Clear,
    /// The field expires after this time, from 1 to [`EXPIRY_MAX`].
    At(UnixMs),
}

/// A hash. Every field has a rank from 0 to `len() - 1` by which it is found in O(log n). Ranks change with every
/// change of the hash.
#[derive(Clone)]
pub struct Hash {
    form: Form,
}

#[derive(Clone)]
enum Form {
    Pairs(Block),
    Triples(Triples),
    Table(Table<Stored>),
}

impl Default for Hash {
    fn default() -> Self {
        Hash { form: Form::Pairs(Block::new()) }
    }
}

impl Hash {
    /// Most bytes of a field's name and value together.
    pub const FIELD_BYTES_MAX: usize = crate::hashed::RECORD_BYTES_MAX - field::HEAD_BYTES_MAX;

    /// An empty hash.
    pub fn new() -> Self {
        Hash::default()
    }

    /// As [`Hash::new`], with room for fields of about so many bytes.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Hash { form: Form::Pairs(Block::with_room(bytes)) }
    }

    /// Changes the form early if `count` fields are about to be set, as `HSET` does before it reads any of them.
    pub fn expect(&mut self, count: usize, limits: &Limits) {
        if count > limits.hash_max_listpack_entries {
            self.spread();
        }
    }

    /// Changes the form if the hash, decoded from elsewhere, is too large for it here.
    pub fn fit(&mut self, limits: &Limits) {
        let longest = |field: Field<'_>| field.name.str_len().max(field.value.str_len());
        if self.len() > limits.hash_max_listpack_entries as u64
            || self.fields().any(|field| longest(field) > limits.hash_max_listpack_value)
        {
            self.spread();
        }
    }

    /// Number of fields, those included that have expired and were not reclaimed.
    pub fn len(&self) -> u64 {
        match &self.form {
            Form::Pairs(block) => block.len() as u64 / 2,
            Form::Triples(triples) => triples.len() as u64,
            Form::Table(table) => table.len(),
        }
    }

    /// True if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of fields that have not expired at `now`. O(n) if some have.
    pub fn live_len(&self, now: UnixMs) -> u64 {
        if self.next_expiry().is_none_or(|next| next >= now) {
            return self.len();
        }
        self.iter(now).count() as u64
    }

    /// Heap bytes.
    pub fn memory(&self) -> usize {
        match &self.form {
            Form::Pairs(block) => block.heap_bytes(),
            Form::Triples(triples) => triples.heap_bytes(),
            Form::Table(table) => table.memory(),
        }
    }

    /// Frees a part of a value that will not be read any more: see [`crate::shed`].
    pub fn shed(&mut self, budget: &mut usize) {
        if let Form::Table(table) = &mut self.form {
            table.shed(budget);
        }
    }

    /// Redis's name of the form (`OBJECT ENCODING`).
    pub fn encoding(&self) -> &'static str {
        match &self.form {
            Form::Pairs(_) => "listpack",
            Form::Triples(_) => "listpackex",
            Form::Table(_) => "hashtable",
        }
    }

    /// The earliest expiry of any field; None if no field expires. O(1).
    pub fn next_expiry(&self) -> Option<UnixMs> {
        let expiry = match &self.form {
            Form::Pairs(_) => UnixMs::NEVER,
            Form::Triples(triples) => triples.expiry(),
            Form::Table(table) => table.expiry(),
        };
        (expiry != UnixMs::NEVER).then_some(expiry)
    }

    /// As [`Self::next_expiry`], of the fields that have not expired at `now`. O(fields) while expired ones are still
    /// there.
    pub fn next_expiry_from(&self, now: UnixMs) -> Option<UnixMs> {
        let next = self.next_expiry()?;
        if next >= now { Some(next) } else { self.iter(now).filter_map(|field| field.expiry).min() }
    }

    /// The value of a field that has not expired at `now`.
    #[inline]
    pub fn get(&self, name: &[u8], now: UnixMs) -> Option<Elem<'_>> {
        self.find(name).filter(|found| !found.expired(now)).map(|found| found.value)
    }

    /// A field, expired or not.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<Found<'_>> {
        match &self.form {
            Form::Table(table) => {
                let Field { value, expiry, .. } = field::read(table.get(name)?);
                Some(Found { value, expiry })
            }
            Form::Pairs(block) => {
                let (_, pos) = block.find(&Needle::new(name), 0, 2)?;
                Some(Found { value: block.get(block.after(pos)), expiry: None })
            }
            Form::Triples(triples) => triples.find(name),
        }
    }

    /// Sets a field; true if it is new. Name and value have at most [`FIELD_BYTES_MAX`](Self::FIELD_BYTES_MAX) bytes
    /// together.
    ///
    /// A field that has expired counts as being there, and `Keep` keeps its expiry: look first.
    pub fn set(&mut self, name: &[u8], value: &[u8], expiry: Expiry, limits: &Limits) -> bool {
        if name.len().max(value.len()) > limits.hash_max_listpack_value {
            self.spread();
        }
        if let (Form::Pairs(_), Expiry::At(_)) = (&self.form, expiry) {
            self.make_triples();
        }
        let (created, entries) = match &mut self.form {
            Form::Table(table) => return set_in_table(table, name, value, expiry),
            Form::Pairs(block) => (set_in_pairs(block, name, value), block.len() / 2),
            Form::Triples(triples) => (triples.set(name, value, expiry), triples.len()),
        };
        if entries > limits.hash_max_listpack_entries {
            self.spread();
        }
        created
    }

    /// Removes a field, expired or not; false if there is none.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        match &mut self.form {
            Form::Table(table) => table.change(name, |mut place| place.remove()),
            Form::Triples(triples) => triples.remove(name),
            Form::Pairs(block) => {
                let found = block.find(&Needle::new(name), 0, 2);
                if let Some((_, pos)) = found {
                    block.remove(pos, 2);
                }
                found.is_some()
            }
        }
    }

    /// Gives a field a time of expiry (from 1 to [`EXPIRY_MAX`]) or takes it away; false if there is
    /// no such field.
    pub fn set_expiry(&mut self, name: &[u8], expiry: Option<UnixMs>) -> bool {
        if let Form::Pairs(block) = &self.form {
            let found = block.find(&Needle::new(name), 0, 2).is_some();
            if !found || expiry.is_none() {
                return found;
            }
            self.make_triples();
        }
        match &mut self.form {
            Form::Pairs(_) => false,
            Form::Triples(triples) => triples.set_expiry(name, expiry),
            Form::Table(table) => table.change(name, |mut place| {
                let Some((old, _, value)) = place.record().and_then(field::split) else { return false };
                if old != expiry {
                    // Taken out of the place that is rewritten.
                    let value = value.to_vec();
                    place.set(&[Head::new(name.len(), expiry).as_bytes(), name, &value]);
                }
                true
            }),
        }
    }

    /// The field of a rank, expired or not; None from `len()` on.
    pub fn nth(&self, rank: u64) -> Option<Field<'_>> {
        let index = usize::try_from(rank).ok()?;
        match &self.form {
            Form::Table(table) => table.nth(rank).map(field::read),
            Form::Pairs(block) => Fields::of_block(block.iter_from(index.checked_mul(2)?), 2).next(),
            Form::Triples(triples) => triples.fields_from(index).next(),
        }
    }

    /// The fields that have not expired at `now`, in the order of their ranks.
    pub fn iter(&self, now: UnixMs) -> impl Iterator<Item = Field<'_>> {
        self.fields().filter(move |field| !field.expired(now))
    }

    /// All fields, expired or not, in the order of their ranks.
    pub fn fields(&self) -> Fields<'_> {
        self.fields_from(0)
    }

    /// The fields from this rank on, expired or not.
    pub fn fields_from(&self, rank: u64) -> Fields<'_> {
        let index = usize::try_from(rank).unwrap_or(usize::MAX);
        match &self.form {
            Form::Pairs(block) => Fields::of_block(block.iter_from(index.saturating_mul(2)), 2),
            Form::Triples(triples) => triples.fields_from(index),
            Form::Table(table) => Fields(Walk::Table(table.iter_from(rank))),
        }
    }

    /// Shows about `count` fields to `each`, expired or not, from a cursor on that is 0 at first; returns the next
    /// cursor, 0 at the end.
    ///
    /// A field that is there from the first call to the last is shown at least once, whatever happens to others. A
    /// compact hash is shown whole.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, mut each: impl FnMut(Field<'a>)) -> u64 {
        let Form::Table(table) = &self.form else {
            self.fields().for_each(each);
            return 0;
        };
        let Ok(from) = u32::try_from(cursor) else { return 0 };
        table.scan(Mark(from), count.max(1), |record| each(field::read(record))).map_or(0, |next| u64::from(next.0))
    }

    /// Removes up to `max` fields that have expired at `now`; `gone` sees the name of each. Returns how many.
    pub fn reclaim(&mut self, now: UnixMs, max: usize, mut gone: impl FnMut(Elem<'_>)) -> usize {
        // A field is there until its time has passed, so those of the millisecond before and earlier go.
        let Some(until) = now.0.checked_sub(1).map(UnixMs) else { return 0 };
        match &mut self.form {
            Form::Pairs(_) => 0,
            Form::Triples(triples) => triples.reclaim(until, max, gone),
            Form::Table(table) => table.reclaim(until, max, |record| gone(field::read(record).name)),
        }
    }

    fn make_triples(&mut self) {
        if let Form::Pairs(block) = &self.form {
            self.form = Form::Triples(Triples::of_pairs(block));
        }
    }

    /// Changes to the large form.
    fn spread(&mut self) {
        if matches!(self.form, Form::Table(_)) {
            return;
        }
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for field in self.fields() {
            bytes.extend_from_slice(Head::new(field.name.str_len(), field.expiry).as_bytes());
            field.name.write_to(&mut bytes);
            field.value.write_to(&mut bytes);
            ends.push(bytes.len());
        }
        let mut start = 0;
        let table = Table::build(ends.into_iter().map(|end| &bytes[std::mem::replace(&mut start, end)..end]));
        self.form = Form::Table(table);
    }
}

/// For checkpoints: see [`crate::saved`].
impl Hash {
    /// The large form.
    pub(crate) fn table_mut(&mut self) -> Option<&mut Table<Stored>> {
        match &mut self.form {
            Form::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The large form's bytes; 0 for others.
    pub(crate) fn large_bytes(&self) -> usize {
        match &self.form {
            Form::Table(table) => table.bytes(),
            _ => 0,
        }
    }

    /// A hash in its large form.
    pub(crate) fn of_table(table: Table<Stored>) -> Self {
        Hash { form: Form::Table(table) }
    }
}

fn set_in_table(table: &mut Table<Stored>, name: &[u8], value: &[u8], expiry: Expiry) -> bool {
    table.change(name, |mut place| {
        let old = place.record().map(|record| field::read(record).expiry);
        let expiry = match expiry {
            Expiry::Keep => old.flatten(),
            Expiry::Clear => None,
            Expiry::At(at) => Some(at),
        };
        place.set(&[Head::new(name.len(), expiry).as_bytes(), name, value]);
        old.is_none()
    })
}

fn set_in_pairs(block: &mut Block, name: &[u8], value: &[u8]) -> bool {
    let (name, value) = (Needle::new(name), Elem::from_bytes(value));
    let found = block.find(&name, 0, 2);
    match found {
        Some((_, pos)) => block.replace(block.after(pos), value),
        None => {
            block.push_back(name.elem());
            block.push_back(value);
        }
    }
    found.is_none()
}

/// The value of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// The field's value.
    pub value: Elem<'a>,
    /// The time after which the field does not exist.
    pub expiry: Option<UnixMs>,
}

impl Found<'_> {
    /// True if the time has passed.
    #[inline]
    pub fn expired(&self, now: UnixMs) -> bool {
        self.expiry.is_some_and(|at| at < now)
    }
}

/// The fields of a hash, expired or not, in the order of their ranks.
pub struct Fields<'a>(Walk<'a>);

enum Walk<'a> {
    /// The elements and how many make a field.
    Block(crate::block::Iter<'a>, u8),
    Table(Records<'a, Stored>),
}

impl<'a> Fields<'a> {
    fn of_block(elems: crate::block::Iter<'a>, stride: u8) -> Self {
        Fields(Walk::Block(elems, stride))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        match &mut self.0 {
            Walk::Table(records) => records.next().map(field::read),
            Walk::Block(elems, stride) => {
                let (name, value) = (elems.next()?, elems.next()?);
                let expiry = if *stride == 3 { field::expiry_of(elems.next()?) } else { None };
                Some(Field { name, value, expiry })
            }
        }
    }
}
