//! The block of one key: header, key and small value in one allocation.
//!
//! ```text
//! 0  version  u56   version of the last write
//! 7  access   u24   LRU seconds or LFU minutes and counter
//! 10 tag      u8    kind (low nibble), HAS_EXPIRY, FIELD_EXPIRY, upper half of the mark
//! 11 vlen     u16   length of the value part that follows the key (14 bits), lower half of the mark
//! 13 klen     u8    length of the key, or LONG_KEY
//! 14 [expiry  u64]  unix milliseconds, if HAS_EXPIRY
//!    [klen    u32]  if LONG_KEY
//!    key, value
//! ```
//! The mark says what the store has ([`Mark`]). The value part is the string itself (`Short`, `Raw`), an i64 (`Int`),
//! or one pointer (`Blob` and collections). All fields are read unaligned: a byte of padding in each of ten million
//! entries is ten megabytes.
//!
//! Invariants of this module (`unsafe` relies on them): an `Entry` points to a live block laid out as above. The holder
//! of an entry holds the latch of its slot. A pointer in the value part is owned by the entry and matches its kind.

use std::ptr::NonNull;
use std::sync::Arc;

use clocks::UnixMs;

use crate::heap::{Heap, LocalHeap, usable};
use crate::local::Local;
use crate::mark::Mark;
use crate::sizes::are_alike;
use crate::value::{Blob, Collection, Kind, Value};
use crate::version::{VERSION_BITS, Version};

const VERSION: usize = 0;
const ACCESS: usize = 7;
const TAG: usize = 10;
const VLEN: usize = 11;
const KLEN: usize = 13;
const HEADER: usize = 14;

const KIND_MASK: u8 = 0x0f;
const HAS_EXPIRY: u8 = 0x10;
const FIELD_EXPIRY: u8 = 0x40;
/// The two upper bits of a mark in the tag.
const MARK_HIGH: u8 = 0x80;
const MARK_LOW: u8 = 0x20;
/// A length of the value part; above it the two lower bits of a mark.
const VLEN_MASK: u16 = (1 << VLEN_BITS) - 1;
const VLEN_BITS: u32 = 14;

/// The length of a key that says that it stands elsewhere.
const LONG_KEY: u8 = 255;

/// Longest string kept inside the entry, in bytes; a longer one is a reference-counted [`Blob`].
pub const INLINE_MAX: usize = VLEN_MASK as usize;

/// Longest key, in bytes (Redis: 512 MB).
pub const KEY_MAX: usize = 512 * 1024 * 1024;

/// A handle to an entry's block. Copying it copies the pointer, not the entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry(NonNull<u8>);

/// The contents of the value part of a new entry.
pub(crate) enum Part<'a> {
    Int(i64),
    Short(&'a [u8]),
    Raw(&'a [u8]),
    Pointer(Kind, *mut u8),
}

impl<'a> Part<'a> {
    fn kind(&self) -> Kind {
        match self {
            Part::Int(_) => Kind::Int,
            Part::Short(_) => Kind::Short,
            Part::Raw(_) => Kind::Raw,
            Part::Pointer(kind, _) => *kind,
        }
    }

    fn len(&self) -> usize {
        match self {
            Part::Int(_) | Part::Pointer(..) => 8,
            Part::Short(b) | Part::Raw(b) => b.len(),
        }
    }

    /// Splits a value into what the entry stores; the entry owns the pointer afterwards.
    pub(crate) fn of(value: &'a Value) -> Part<'a> {
        match value {
            Value::Int(n) => Part::Int(*n),
            Value::Short(b) => Part::Short(b),
            Value::Raw(b) => Part::Raw(b),
            Value::Blob(_) | Value::Collection(_) => unreachable!("pointers are moved, see Value::into_pointer"),
        }
    }
}

fn prefix_len(key_len: usize, expiry: bool) -> usize {
    HEADER + if expiry { 8 } else { 0 } + if key_len >= LONG_KEY.into() { 4 } else { 0 }
}

impl Entry {
    /// Allocates and fills an entry. `part` must be at most [`INLINE_MAX`] long and the key at most [`KEY_MAX`].
    pub(crate) fn new(
        heap: &mut LocalHeap,
        key: &[u8],
        part: &Part<'_>,
        expiry: Option<UnixMs>,
        version: Version,
        access: u32,
    ) -> Entry {
        assert!(part.len() <= INLINE_MAX && key.len() <= KEY_MAX);
        let size = prefix_len(key.len(), expiry.is_some()) + key.len() + part.len();
        let entry = Entry(heap.alloc(size));
        entry.set_version(version);
        entry.set_access(access);
        entry.fill(key, part, expiry);
        entry
    }

    fn fill(self, key: &[u8], part: &Part<'_>, expiry: Option<UnixMs>) {
        let mut tag = part.kind() as u8;
        let mut at = HEADER;
        if let Some(ms) = expiry {
            tag |= HAS_EXPIRY;
            self.write(at, ms.0);
            at += 8;
        }
        let long = key.len() >= LONG_KEY.into();
        if long {
            self.write(at, key.len() as u32);
            at += 4;
        }
        self.write(TAG, tag);
        self.write(VLEN, part.len() as u16);
        self.write(KLEN, if long { LONG_KEY } else { key.len() as u8 });
        // SAFETY: the block was allocated (or checked by the caller) for prefix + key + part bytes.
        unsafe { std::ptr::copy_nonoverlapping(key.as_ptr(), self.0.as_ptr().add(at), key.len()) };
        self.fill_value(at + key.len(), part);
    }

    fn fill_value(self, at: usize, part: &Part<'_>) {
        match part {
            Part::Int(n) => self.write(at, *n),
            Part::Pointer(_, p) => self.write(at, *p as u64),
            Part::Short(b) | Part::Raw(b) => {
                // SAFETY: as in `fill`; `ptr::copy` because a caller may hand in a part of this very entry.
                unsafe { std::ptr::copy(b.as_ptr(), self.0.as_ptr().add(at), b.len()) }
            }
        }
    }

    #[inline]
    fn read<T: Copy>(self, at: usize) -> T {
        // SAFETY: every `at` used lies inside the block by the layout above.
        unsafe { self.0.as_ptr().add(at).cast::<T>().read_unaligned() }
    }

    #[inline]
    fn write<T: Copy>(self, at: usize, value: T) {
        // SAFETY: as `read`; the holder of an `Entry` has exclusive access to the block.
        unsafe { self.0.as_ptr().add(at).cast::<T>().write_unaligned(value) }
    }

    #[inline]
    pub(crate) fn from_word(word: u64) -> Entry {
        // SAFETY: the table only stores words made by `to_word`, never null.
        Entry(unsafe { NonNull::new_unchecked((word & crate::bucket::ADDRESS) as *mut u8) })
    }

    #[inline]
    pub(crate) fn to_word(self) -> u64 {
        self.0.as_ptr() as u64
    }

    #[inline]
    fn tag(self) -> u8 {
        self.read(TAG)
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        Kind::from_nibble(self.tag() & KIND_MASK)
    }

    pub(crate) fn set_raw(self) {
        debug_assert!(self.kind() == Kind::Short);
        self.write(TAG, self.tag() & !KIND_MASK | Kind::Raw as u8);
    }

    #[inline]
    pub(crate) fn version(self) -> Version {
        Version(self.read::<u64>(VERSION) & ((1 << VERSION_BITS) - 1))
    }

    #[inline]
    pub(crate) fn set_version(self, version: Version) {
        debug_assert!(version.fits());
        // Seven bytes, in two writes that overlap.
        self.write(VERSION, version.0 as u32);
        self.write(VERSION + 3, (version.0 >> 24) as u32);
    }

    #[inline]
    pub(crate) fn access(self) -> u32 {
        self.read::<u32>(ACCESS) & 0x00ff_ffff
    }

    #[inline]
    pub(crate) fn set_access(self, access: u32) {
        self.write(ACCESS, [access as u8, (access >> 8) as u8, (access >> 16) as u8]);
    }

    #[inline]
    pub(crate) fn expiry(self) -> Option<UnixMs> {
        (self.tag() & HAS_EXPIRY != 0).then(|| UnixMs(self.read(HEADER)))
    }

    /// Overwrites the time of an entry that already has one.
    pub(crate) fn move_expiry(self, ms: UnixMs) {
        debug_assert!(self.tag() & HAS_EXPIRY != 0);
        self.write(HEADER, ms.0);
    }

    pub(crate) fn has_field_expiry(self) -> bool {
        self.tag() & FIELD_EXPIRY != 0
    }

    pub(crate) fn set_field_expiry(self, on: bool) {
        let tag = self.tag();
        self.write(TAG, if on { tag | FIELD_EXPIRY } else { tag & !FIELD_EXPIRY });
    }

    /// The store's record under this key.
    #[inline]
    pub(crate) fn mark(self) -> Mark {
        let (tag, low) = (self.tag(), self.read::<u16>(VLEN) >> VLEN_BITS);
        Mark::from_bits((tag & MARK_HIGH) >> 4 | (tag & MARK_LOW) >> 3 | low as u8)
    }

    #[inline]
    pub(crate) fn set_mark(self, mark: Mark) {
        let bits = mark.bits();
        self.write(TAG, self.tag() & !(MARK_HIGH | MARK_LOW) | (bits & 8) << 4 | (bits & 4) << 3);
        self.write(VLEN, self.read::<u16>(VLEN) & VLEN_MASK | u16::from(bits) << VLEN_BITS);
    }

    /// Offset and length of the key.
    #[inline]
    fn key_span(self) -> (usize, usize) {
        let at = HEADER + if self.tag() & HAS_EXPIRY != 0 { 8 } else { 0 };
        match self.read::<u8>(KLEN) {
            LONG_KEY => (at + 4, self.read::<u32>(at) as usize),
            len => (at, usize::from(len)),
        }
    }

    /// The key. With the lifetime the caller promises that the latch is held that long.
    #[inline]
    pub(crate) fn key<'a>(self) -> &'a [u8] {
        let (at, len) = self.key_span();
        // SAFETY: the layout; the lifetime is bounded by the callers of this crate-private function.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(at), len) }
    }

    #[inline]
    fn value_span(self) -> (usize, usize) {
        let (at, len) = self.key_span();
        (at + len, usize::from(self.read::<u16>(VLEN) & VLEN_MASK))
    }

    /// Bytes of the block in use.
    pub(crate) fn size(self) -> usize {
        let (at, len) = self.value_span();
        at + len
    }

    /// The inline string of a `Short` or `Raw` entry.
    #[inline]
    pub(crate) fn inline<'a>(self) -> &'a [u8] {
        let (at, len) = self.value_span();
        // SAFETY: as `key`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(at), len) }
    }

    /// Length of the inline string of a `Short` or `Raw` entry; `None` of any other.
    #[inline]
    pub(crate) fn inline_len(self) -> Option<usize> {
        const INLINE: [u8; 2] = [Kind::Short as u8, Kind::Raw as u8];
        let kind = self.tag() & KIND_MASK;
        INLINE.contains(&kind).then(|| usize::from(self.read::<u16>(VLEN) & VLEN_MASK))
    }

    /// The inline string, to be changed in place.
    pub(crate) fn inline_mut<'a>(self) -> &'a mut [u8] {
        let (at, len) = self.value_span();
        // SAFETY: as `key`; exclusive because the holder of the latch is alone and its `Db` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr().add(at), len) }
    }

    #[inline]
    pub(crate) fn int(self) -> i64 {
        self.read(self.value_span().0)
    }

    pub(crate) fn set_int(self, n: i64) {
        debug_assert!(self.kind() == Kind::Int);
        self.write(self.value_span().0, n);
    }

    fn raw_pointer(self) -> *mut u8 {
        self.read::<u64>(self.value_span().0) as *mut u8
    }

    /// The blob of a `Blob` entry.
    pub(crate) fn blob<'a>(self) -> &'a Arc<Blob> {
        debug_assert!(self.kind() == Kind::Blob);
        // SAFETY: the kind says that the pointer came from `Box<Arc<Blob>>`; the lifetime as `key`.
        unsafe { &*self.raw_pointer().cast::<Arc<Blob>>() }
    }

    /// The blob of a `Blob` entry, to be changed in place.
    pub(crate) fn blob_mut<'a>(self) -> &'a mut Arc<Blob> {
        debug_assert!(self.kind() == Kind::Blob);
        // SAFETY: as `blob`; exclusivity as `inline_mut`.
        unsafe { &mut *self.raw_pointer().cast::<Arc<Blob>>() }
    }

    /// The collection, if it is of type `T`. Several readers may have it at once: one key may be named twice.
    #[inline]
    pub(crate) fn collection<'a, T: Collection>(self) -> Option<&'a T> {
        // SAFETY: the kind says that the pointer came from `Box<T>`; the lifetime as `key`.
        (self.kind() == T::KIND).then(|| unsafe { &*self.raw_pointer().cast::<T>() })
    }

    /// The collection, if it is of type `T`, to be changed in place.
    #[inline]
    pub(crate) fn collection_mut<'a, T: Collection>(self) -> Option<&'a mut T> {
        // SAFETY: the kind says that the pointer came from `Box<T>`; exclusivity as `inline_mut`.
        (self.kind() == T::KIND).then(|| unsafe { &mut *self.raw_pointer().cast::<T>() })
    }

    /// Puts another string or number in place of the present value if it fits the block and the expiry keeps its shape.
    /// False: nothing was changed. `resizes` is called before a change that may be one of the value's size (see
    /// [`crate::Keyspace::sizes`]).
    #[inline]
    pub(crate) fn overwrite(self, part: &Part<'_>, expiry: Option<UnixMs>, resizes: impl FnOnce()) -> bool {
        let tag = self.tag();
        let kind = Kind::from_nibble(tag & KIND_MASK);
        if expiry.is_some() != (tag & HAS_EXPIRY != 0) || kind.owns_pointer() {
            return false;
        }
        let (at, old_len) = self.value_span();
        // Within one size class only: a small value must not sit for ever in a large block.
        if at + old_len != at + part.len() && usable(at + old_len) != usable(at + part.len()) {
            return false;
        }
        // An integer is as long as its text.
        let has_int = tag & KIND_MASK == Kind::Int as u8 || matches!(part, Part::Int(_));
        if has_int || !are_alike(old_len, part.len()) {
            resizes();
        }
        self.write(TAG, tag & !(KIND_MASK | FIELD_EXPIRY) | part.kind() as u8);
        self.write(VLEN, self.read::<u16>(VLEN) & !VLEN_MASK | part.len() as u16);
        if let Some(ms) = expiry {
            self.write(HEADER, ms.0);
        }
        self.fill_value(at, part);
        true
    }

    /// A copy of this entry's block with another expiry; the value part moves along. Frees the old block.
    pub(crate) fn with_expiry(self, heap: &mut LocalHeap, expiry: Option<UnixMs>) -> Entry {
        let kind = self.kind();
        let part = match kind {
            Kind::Int => Part::Int(self.int()),
            Kind::Short => Part::Short(self.inline()),
            Kind::Raw => Part::Raw(self.inline()),
            kind => Part::Pointer(kind, self.raw_pointer()),
        };
        let new = Entry::new(heap, self.key(), &part, expiry, self.version(), self.access());
        new.set_field_expiry(self.has_field_expiry());
        new.set_mark(self.mark());
        self.free_block(heap);
        new
    }

    /// Moves the block to a fuller page of the heap if it lies in a sparse one. `None`: it stays.
    pub(crate) fn to_denser_page(self, heap: &Heap, local: &mut LocalHeap) -> Option<Entry> {
        let size = self.size();
        // SAFETY: the block is in use, came from this heap with this size, and the latch makes us its only owner.
        unsafe { if heap.is_sparse(self.0, size) { local.relocate(self.0, size).map(Entry) } else { None } }
    }

    fn free_block(self, heap: &mut LocalHeap) {
        // SAFETY: the block came from this heap, its size is of the same class as when it was allocated (`overwrite`
        // stays within one), and the entry is gone.
        unsafe { heap.free(self.0, self.size()) }
    }

    /// Frees the block and hands out the value.
    pub(crate) fn take(self, heap: &mut LocalHeap) -> Value {
        let value = match self.kind() {
            Kind::Int => Value::Int(self.int()),
            Kind::Short => Value::Short(self.inline().into()),
            Kind::Raw => Value::Raw(self.inline().into()),
            // SAFETY: the entry owned the pointer and dies here.
            kind => unsafe { Value::from_pointer(kind, self.raw_pointer()) },
        };
        self.free_block(heap);
        value
    }

    /// Frees the block and the value, a large value in steps (see [`crate::Local::step_dying`]).
    #[inline]
    pub(crate) fn free(self, local: &mut Local) {
        let kind = self.kind();
        if kind.owns_pointer() {
            // SAFETY: as `take`.
            local.bury(unsafe { Value::from_pointer(kind, self.raw_pointer()) });
        }
        self.free_block(&mut local.heap);
    }
}
