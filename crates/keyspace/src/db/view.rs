//! An entry as a reader sees it.

use std::sync::Arc;

use clocks::UnixMs;
use object::Hash;
use object::saved::ValueRef;

use crate::entry::Entry;
use crate::mark::Mark;
use crate::value::{
    Blob, Collection, Kind, Value, clone_collection, count_elements, describe_collection, saved_collection,
};
use crate::version::Version;

/// The value has another type than the command works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongType;

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

    /// True if the string is empty.
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

    /// When the key expires.
    pub fn expiry(self) -> Option<UnixMs> {
        self.entry.expiry()
    }

    /// True if the key is a hash with fields that expire.
    pub fn has_field_expiry(self) -> bool {
        self.entry.has_field_expiry()
    }

    /// True if the key has expired at `now`: in the millisecond named by its expiry it still lives (Redis
    /// `keyIsExpired`).
    #[inline]
    pub fn expired(self, now: UnixMs) -> bool {
        self.expiry().is_some_and(|at| at < now)
    }

    /// When the first field of a hash expires.
    pub fn field_expiry(self) -> Option<UnixMs> {
        self.entry.collection::<Hash>().and_then(Hash::next_expiry)
    }

    /// When the first field of a hash expires that has not expired at `now`.
    pub fn field_expiry_from(self, now: UnixMs) -> Option<UnixMs> {
        self.entry.collection::<Hash>().and_then(|hash| hash.next_expiry_from(now))
    }

    /// The store's record under the key.
    pub fn mark(self) -> Mark {
        self.entry.mark()
    }

    /// Version of the last write.
    pub fn version(self) -> Version {
        self.entry.version()
    }

    /// The 24 access bits (LRU clock or LFU state, see [`crate::access`]).
    pub fn access(self) -> u32 {
        self.entry.access()
    }

    /// The string, or the error that it is none.
    ///
    /// # Errors
    ///
    /// The key holds a value of another type.
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
    ///
    /// # Errors
    ///
    /// The key holds a value of another type.
    #[inline]
    pub fn collection<T: Collection>(self) -> Result<&'a T, WrongType> {
        self.entry.collection::<T>().ok_or(WrongType)
    }

    /// The value, to be saved.
    pub fn saved(self) -> ValueRef<'a> {
        match self.entry.kind() {
            Kind::Int => ValueRef::Int(self.entry.int()),
            Kind::Short => ValueRef::Short(self.entry.inline()),
            Kind::Raw => ValueRef::Raw(self.entry.inline()),
            Kind::Blob => ValueRef::Blob(self.entry.blob()),
            _ => saved_collection(self.entry).unwrap_or(ValueRef::Short(b"")),
        }
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

    /// Elements of a collection; 0 of anything else.
    pub fn elements(self) -> u64 {
        count_elements(self.entry).unwrap_or(0)
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
