//! A leaf: some records in the order of their marks, in one run of bytes, with an array of tags to find them by.
//!
//! ```text
//! tags   u64 each, ascending: the record's mark (32 bits), then the start of the record in `bytes` (32 bits)
//! bytes  the records one after another, without gaps, in the order of the tags
//! ```
//!
//! Marks are uniform, so a tag is found by interpolation: the first guess is off by a few places in a leaf of some
//! hundred records, and one or two cache lines of tags are touched before the record itself. Nothing relies on the
//! uniformity but the speed; a skewed leaf costs a binary search.

use std::marker::PhantomData;
use std::ops::Range;

use crate::tree;
use crate::tree::near::partition_near;

use super::Mark;

const TAG_BYTES: usize = size_of::<u64>();
const START_MASK: u64 = u32::MAX as u64;

/// Longest record, in bytes. A leaf holds one long record beside at most [`tree::LEAF_BYTES_MAX`] bytes of others until
/// the tree has split it, so every start fits 32 bits.
pub const RECORD_BYTES_MAX: usize = (u32::MAX as usize) - tree::LEAF_BYTES_MAX;

/// No expiry.
pub(crate) const NEVER: u64 = u64::MAX;

/// How the bytes of a record are to be read.
pub(crate) trait Record: 'static {
    /// Whether records can expire at all.
    const EXPIRES: bool;

    /// The part of the record that identifies it, whose hash orders it.
    fn key(record: &[u8]) -> &[u8];

    /// Unix time in milliseconds at which the record expires, or [`NEVER`].
    fn expiry(record: &[u8]) -> u64;

    /// The place of a key. Tests let many keys share one.
    #[inline]
    fn mark(key: &[u8]) -> Mark {
        Mark::of(key)
    }
}

/// See the module's text.
pub(crate) struct Leaf<R> {
    tags: Vec<u64>,
    bytes: Vec<u8>,
    /// The earliest expiry of any record, or [`NEVER`].
    expiry: u64,
    record: PhantomData<fn() -> R>,
}

impl<R> Clone for Leaf<R> {
    fn clone(&self) -> Self {
        Leaf { tags: self.tags.clone(), bytes: self.bytes.clone(), expiry: self.expiry, record: PhantomData }
    }
}

impl<R> Default for Leaf<R> {
    fn default() -> Self {
        Leaf { tags: Vec::new(), bytes: Vec::new(), expiry: NEVER, record: PhantomData }
    }
}

fn mark_of(tag: u64) -> Mark {
    Mark((tag >> 32) as u32)
}

impl<R: Record> Leaf<R> {
    /// The mark of record `at`, which must exist.
    pub fn mark(&self, at: usize) -> Mark {
        mark_of(self.tags[at])
    }

    fn start(&self, at: usize) -> usize {
        self.tags.get(at).map_or(self.bytes.len(), |tag| (tag & START_MASK) as usize)
    }

    /// Record `at`, which must exist.
    pub fn record(&self, at: usize) -> &[u8] {
        &self.bytes[self.start(at)..self.start(at + 1)]
    }

    /// The index of the first record whose mark is not below `mark`.
    pub fn lower_bound(&self, mark: Mark) -> usize {
        let (tags, target) = (&self.tags[..], u64::from(mark.0) << 32);
        let (Some(&first), Some(&last)) = (tags.first(), tags.last()) else { return 0 };
        let guess = mark.among(mark_of(first), mark_of(last), tags.len());
        partition_near(tags.len(), guess, |at| tags[at] < target)
    }

    /// Where the record of `key` is, or else where it would have to be inserted.
    pub fn find(&self, mark: Mark, key: &[u8]) -> Result<usize, usize> {
        let mut at = self.lower_bound(mark);
        while self.tags.get(at).is_some_and(|tag| mark_of(*tag) == mark) {
            if R::key(self.record(at)) == key {
                return Ok(at);
            }
            at += 1;
        }
        Err(at)
    }

    /// Inserts a record at the index that [`find`](Self::find) named. The parts are joined.
    pub fn insert(&mut self, at: usize, mark: Mark, parts: &[&[u8]]) {
        let start = self.start(at);
        grow(&mut self.tags, 1);
        self.tags.insert(at, u64::from(mark.0) << 32 | start as u64);
        let end = self.splice(start..start, parts);
        self.shift(at + 1, 0, end - start);
        self.expiry = self.expiry.min(R::expiry(&self.bytes[start..end]));
    }

    /// Replaces record `at`, which must exist, by another one of the same key.
    pub fn replace(&mut self, at: usize, parts: &[&[u8]]) {
        let old = self.start(at)..self.start(at + 1);
        let before = R::expiry(&self.bytes[old.clone()]);
        let (start, old_len) = (old.start, old.len());
        let end = self.splice(old, parts);
        self.shift(at + 1, old_len, end - start);
        self.expiry_changed(before, R::expiry(&self.bytes[start..end]));
    }

    /// Removes record `at`, which must exist.
    pub fn remove(&mut self, at: usize) {
        let old = self.start(at)..self.start(at + 1);
        let before = R::expiry(&self.bytes[old.clone()]);
        let old_len = old.len();
        self.bytes.drain(old);
        self.tags.remove(at);
        self.shrink();
        self.shift(at, old_len, 0);
        self.expiry_changed(before, NEVER);
    }

    /// Keeps the records for which `keep` says so; it is asked once for each, in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        let (mut kept, mut end) = (0, 0);
        self.expiry = NEVER;
        for at in 0..self.tags.len() {
            let (from, to) = (self.start(at), self.start(at + 1));
            let record = &self.bytes[from..to];
            if keep(record) {
                self.expiry = self.expiry.min(R::expiry(record));
                self.bytes.copy_within(from..to, end);
                // Written at or before `at`: the starts that are still to be read are intact.
                self.tags[kept] = self.tags[at] & !START_MASK | end as u64;
                kept += 1;
                end += to - from;
            }
        }
        self.tags.truncate(kept);
        self.bytes.truncate(end);
        self.shrink();
    }

    fn shrink(&mut self) {
        shrink(&mut self.tags);
        shrink(&mut self.bytes);
    }

    /// Replaces a range of bytes by the parts; returns their end.
    fn splice(&mut self, old: Range<usize>, parts: &[&[u8]]) -> usize {
        let bytes = &mut self.bytes;
        let old_len = bytes.len();
        let end = old.start + parts.iter().map(|part| part.len()).sum::<usize>();
        if end > old.end {
            let more = end - old.end;
            grow(bytes, more);
            bytes.resize(old_len + more, 0);
            bytes.copy_within(old.end..old_len, end);
        } else {
            bytes.copy_within(old.end..old_len, end);
            bytes.truncate(old_len - (old.end - end));
            shrink(bytes);
        }
        let mut at = old.start;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        end
    }

    /// Corrects the starts from tag `from` on after `old` bytes before them have become `new`.
    fn shift(&mut self, from: usize, old: usize, new: usize) {
        let by = (new as u64).wrapping_sub(old as u64);
        // A start before and after: the low 32 bits neither overflow nor borrow.
        self.tags[from..].iter_mut().for_each(|tag| *tag = tag.wrapping_add(by));
    }

    fn expiry_changed(&mut self, before: u64, after: u64) {
        if after <= self.expiry {
            self.expiry = after;
        } else if before == self.expiry {
            self.find_expiry();
        }
    }

    fn find_expiry(&mut self) {
        self.expiry = (0..self.tags.len()).map(|at| R::expiry(self.record(at))).min().unwrap_or(NEVER);
    }

    /// Takes the records from `at` on away.
    fn split_off(&mut self, at: usize) -> Self {
        let start = self.start(at);
        let tags = self.tags[at..].iter().map(|tag| tag - start as u64).collect();
        let mut right = Leaf { tags, bytes: self.bytes[start..].to_vec(), expiry: NEVER, record: PhantomData };
        // Trimmed, not truncated: it is as likely to shrink as to grow from here on.
        self.tags.truncate(at);
        self.tags.shrink_to_fit();
        self.bytes.truncate(start);
        self.bytes.shrink_to_fit();
        if self.expiry != NEVER {
            self.find_expiry();
            right.find_expiry();
        }
        right
    }
}

impl<R: Record> tree::Leaf for Leaf<R> {
    type Sep = Mark;
    const KEEPS_LEAST: bool = R::EXPIRES;

    fn least(&self) -> u64 {
        self.expiry
    }

    fn len(&self) -> usize {
        self.tags.len()
    }

    fn bytes(&self) -> usize {
        self.tags.len() * TAG_BYTES + self.bytes.len()
    }

    fn heap_bytes(&self) -> usize {
        self.tags.capacity() * TAG_BYTES + self.bytes.capacity()
    }

    fn split(&mut self, keep: usize) -> Self {
        let (mut low, mut high) = (1, self.tags.len() - 1);
        while low < high {
            let at = (low + high) / 2;
            if self.start(at) + at * TAG_BYTES < keep {
                low = at + 1;
            } else {
                high = at;
            }
        }
        self.split_off(low)
    }

    fn append(&mut self, next: Self) {
        let base = self.bytes.len() as u64;
        grow(&mut self.tags, next.tags.len());
        self.tags.extend(next.tags.iter().map(|tag| tag + base));
        grow(&mut self.bytes, next.bytes.len());
        self.bytes.extend_from_slice(&next.bytes);
        self.expiry = self.expiry.min(next.expiry);
    }

    fn remove_range(&mut self, range: Range<usize>) {
        let (start, end) = (self.start(range.start), self.start(range.end));
        self.bytes.drain(start..end);
        self.tags.drain(range.clone());
        self.shift(range.start, end - start, 0);
        self.shrink();
        if self.expiry != NEVER {
            self.find_expiry();
        }
    }

    fn first_sep(&self) -> Mark {
        self.mark(0)
    }
}

/// Gives memory back when less than half of it is used.
fn shrink<T>(vec: &mut Vec<T>) {
    if vec.capacity() / 2 > vec.len() + 64 / size_of::<T>() {
        vec.shrink_to(vec.len() + vec.len() / 8);
    }
}

/// Makes room for `more` elements. Grows by an eighth: a leaf lives long and is one of many, so the slack of doubling
/// would cost more than the copies of at most 8 KB that it saves.
fn grow<T>(vec: &mut Vec<T>, more: usize) {
    if vec.capacity() - vec.len() < more {
        vec.reserve_exact(more.max(vec.len() / 8).max(64 / size_of::<T>()));
    }
}
