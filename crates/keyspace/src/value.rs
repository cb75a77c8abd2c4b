//! The values of keys, owned outside their entries, and the kinds that tell them apart inside.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::entry::Entry;
use crate::sizes::Measured;
use clocks::UnixMs;
use object::saved::{self, Freeze, Frozen, ValueRef};
use object::{Corrupt, Hash, List, Set, Stream, ZSet};

/// A long string. Reference-counted so that a reply can send it without copying it under the latch.
pub type Blob = Vec<u8>;

/// Kind of the value part of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A string that is a canonical 64-bit integer.
    Int = 0,
    /// A string inside the entry.
    Short = 1,
    /// A string inside the entry that was changed in place (`OBJECT ENCODING` says "raw" whatever its length).
    Raw = 2,
    /// A string of its own, reference-counted.
    Blob = 3,
    /// A list.
    List = 4,
    /// A set.
    Set = 5,
    /// A sorted set.
    ZSet = 6,
    /// A hash.
    Hash = 7,
    /// A stream.
    Stream = 8,
}

impl Kind {
    #[inline]
    pub(crate) fn from_nibble(n: u8) -> Kind {
        match n {
            0 => Kind::Int,
            1 => Kind::Short,
            2 => Kind::Raw,
            3 => Kind::Blob,
            4 => Kind::List,
            5 => Kind::Set,
            6 => Kind::ZSet,
            7 => Kind::Hash,
            _ => Kind::Stream,
        }
    }

    /// The kind with this number, if there is one.
    pub(crate) fn from_byte(n: u8) -> Option<Kind> {
        (n <= Kind::Stream as u8).then(|| Kind::from_nibble(n))
    }

    #[inline]
    pub(crate) fn owns_pointer(self) -> bool {
        self as u8 >= Kind::Blob as u8
    }

    /// Redis's name of the type, as `TYPE` prints it.
    pub fn type_name(self) -> &'static str {
        match self {
            Kind::Int | Kind::Short | Kind::Raw | Kind::Blob => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::ZSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
        }
    }

    /// True if the value is a string in any encoding.
    #[inline]
    pub fn is_string(self) -> bool {
        self as u8 <= Kind::Blob as u8
    }
}

/// A collection type that an entry can point to.
///
/// # Safety
/// `KIND` must be used by this type alone: it is what makes a pointer in an entry a pointer to `Self`.
pub unsafe trait Collection: Clone + Default + Into<AnyCollection> + Measured {
    /// The kind of entries that point to this type.
    const KIND: Kind;

    /// True if there are no elements.
    fn has_no_elements(&self) -> bool;
}

macro_rules! collections {
    ($($name:ident),*) => {
        /// Any collection, owned.
        #[derive(Clone)]
        pub enum AnyCollection { $(#[doc = stringify!($name)] $name(Box<$name>)),* }

        $(
            // SAFETY: one kind per type, by construction of this list.
            unsafe impl Collection for $name {
                const KIND: Kind = Kind::$name;
                fn has_no_elements(&self) -> bool { self.len() == 0 }
            }
            impl Measured for $name {
                const MEASURED: Kind = Kind::$name;
                #[inline]
                fn size(&self) -> u64 { if matches!(Self::MEASURED, Kind::Stream) { 0 } else { self.len() } }
            }
            impl From<$name> for AnyCollection {
                fn from(v: $name) -> Self { AnyCollection::$name(Box::new(v)) }
            }
            impl From<Box<$name>> for AnyCollection {
                fn from(v: Box<$name>) -> Self { AnyCollection::$name(v) }
            }
            impl From<$name> for Value {
                fn from(v: $name) -> Self { Value::Collection(v.into()) }
            }
        )*

        /// A copy of the entry's collection; cheap for large ones.
        pub(crate) fn clone_collection(entry: Entry) -> Option<AnyCollection> {
            match entry.kind() {
                $(Kind::$name => entry.collection::<$name>().map(|c| c.clone().into()),)*
                _ => None,
            }
        }

        /// Elements of the entry's collection.
        pub(crate) fn count_elements(entry: Entry) -> Option<u64> {
            match entry.kind() {
                $(Kind::$name => entry.collection::<$name>().map(|c| c.len()),)*
                _ => None,
            }
        }

        /// Encoding name and heap bytes of the entry's collection.
        pub(crate) fn describe_collection(entry: Entry) -> Option<(&'static str, usize)> {
            match entry.kind() {
                $(Kind::$name => entry.collection::<$name>().map(|c| (c.encoding(), c.memory() + size_of::<$name>())),)*
                _ => None,
            }
        }

        /// The entry's collection in the form in which it is saved.
        pub(crate) fn saved_collection<'a>(entry: Entry) -> Option<ValueRef<'a>> {
            match entry.kind() {
                $(Kind::$name => entry.collection::<$name>().map(ValueRef::$name),)*
                _ => None,
            }
        }

        /// Freezes the entry's collection, if it is large. The entry's latch is held, and nothing is borrowed from the
        /// entry.
        pub(crate) fn freeze_collection(entry: Entry, epochs: &mut dyn FnMut() -> NonZeroU64) -> Option<Frozen> {
            match entry.kind() {
                $(Kind::$name => entry.collection_mut::<$name>().filter(|c| c.is_large())?.freeze(epochs()),)*
                _ => None,
            }
        }

        impl From<saved::Collection> for AnyCollection {
            fn from(saved: saved::Collection) -> Self {
                match saved { $(saved::Collection::$name(c) => c.into()),* }
            }
        }

        /// Appends the own encoding of the entry's collection.
        pub(crate) fn encode_collection(entry: Entry, out: &mut Vec<u8>) {
            match entry.kind() {
                $(Kind::$name => if let Some(c) = entry.collection::<$name>() { c.encode(out) },)*
                _ => {}
            }
        }

        impl AnyCollection {
            /// The kind of the collection.
            pub fn kind(&self) -> Kind {
                match self { $(AnyCollection::$name(_) => Kind::$name),* }
            }

            /// Number of elements.
            pub fn len(&self) -> u64 {
                match self { $(AnyCollection::$name(c) => c.len()),* }
            }

            /// True if there are no elements.
            pub fn is_empty(&self) -> bool { self.len() == 0 }

            /// Heap bytes.
            pub fn memory(&self) -> usize {
                match self { $(AnyCollection::$name(c) => c.memory() + size_of::<$name>()),* }
            }

            /// Frees some of it; afterwards it can only be dropped (see `object::shed`).
            pub(crate) fn shed(&mut self, budget: &mut usize) {
                match self { $(AnyCollection::$name(c) => c.shed(budget)),* }
            }

            /// Redis's name of the encoding (`OBJECT ENCODING`).
            pub fn encoding(&self) -> &'static str {
                match self { $(AnyCollection::$name(c) => c.encoding()),* }
            }

            /// Appends the collection's own encoding (see the type in `object`).
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self { $(AnyCollection::$name(c) => c.encode(out)),* }
            }

            /// Reads what [`Self::encode`] wrote for a collection of this kind.
            ///
            /// # Errors
            ///
            /// The bytes are no such collection.
            pub fn decode(kind: Kind, bytes: &[u8]) -> Result<Self, Corrupt> {
                match kind {
                    $(Kind::$name => $name::decode(bytes).map(Into::into),)*
                    _ => Err(Corrupt("not a collection")),
                }
            }

            fn into_raw(self) -> *mut u8 {
                match self { $(AnyCollection::$name(c) => Box::into_raw(c).cast()),* }
            }

            /// # Safety
            /// `p` came from `into_raw` of a collection of this kind and is used once.
            unsafe fn from_raw(kind: Kind, p: *mut u8) -> Self {
                match kind {
                    // SAFETY: the caller's promise.
                    $(Kind::$name => AnyCollection::$name(unsafe { Box::from_raw(p.cast()) }),)*
                    _ => unreachable!("not a collection"),
                }
            }
        }
    };
}

collections!(List, Set, ZSet, Hash, Stream);

impl AnyCollection {
    /// When the first of its fields expires, if it is a hash with such fields. The entry's own expiry is apart from
    /// that.
    pub fn field_expiry(&self) -> Option<UnixMs> {
        match self {
            AnyCollection::Hash(hash) => hash.next_expiry(),
            _ => None,
        }
    }
}

/// A value, owned.
#[derive(Clone)]
pub enum Value {
    /// A string that is a canonical 64-bit integer.
    Int(i64),
    /// A short string.
    Short(Box<[u8]>),
    /// A short string that was changed in place.
    Raw(Box<[u8]>),
    /// A long string.
    Blob(Arc<Blob>),
    /// A list, set, sorted set, hash or stream.
    Collection(AnyCollection),
}

impl Value {
    /// When the first of its fields expires, if it is a hash with such fields.
    pub fn field_expiry(&self) -> Option<UnixMs> {
        if let Value::Collection(collection) = self { collection.field_expiry() } else { None }
    }

    /// The kind an entry with this value has.
    pub fn kind(&self) -> Kind {
        match self {
            Value::Int(_) => Kind::Int,
            Value::Short(_) => Kind::Short,
            Value::Raw(_) => Kind::Raw,
            Value::Blob(_) => Kind::Blob,
            Value::Collection(c) => c.kind(),
        }
    }

    /// The pointer an entry stores, for kinds that have one.
    pub(crate) fn into_pointer(self) -> Result<(Kind, *mut u8), Value> {
        match self {
            Value::Blob(b) => Ok((Kind::Blob, Box::into_raw(Box::new(b)).cast())),
            Value::Collection(c) => Ok((c.kind(), c.into_raw())),
            other => Err(other),
        }
    }

    /// # Safety
    /// `p` came from `into_pointer` with this kind and is used once.
    pub(crate) unsafe fn from_pointer(kind: Kind, p: *mut u8) -> Value {
        match kind {
            // SAFETY: the caller's promise.
            Kind::Blob => Value::Blob(*unsafe { Box::from_raw(p.cast::<Arc<Blob>>()) }),
            // SAFETY: the caller's promise.
            kind => Value::Collection(unsafe { AnyCollection::from_raw(kind, p) }),
        }
    }
}
