//! A leaf: some records in the order of their marks.
//!
//! Marks are uniform, so a record is found by interpolation. The first guess is off by a few places in a leaf of some
//! hundred records, and one or two cache lines of tags are touched before the record itself. Only the speed relies on
//! the uniformity; a skewed leaf costs a binary search.

use std::marker::PhantomData;
use std::ops::Range;

use clocks::UnixMs;

use super::Mark;
use super::page::Page;
use crate::tree;
use crate::tree::near::partition_near;

/// Longest record, in bytes. A leaf holds one long record beside at most [`tree::LEAF_BYTES_MAX`] bytes of others until
/// the tree has split it, so every start fits 32 bits.
pub const RECORD_BYTES_MAX: usize = (u32::MAX as usize) - tree::LEAF_BYTES_MAX;

/// How the bytes of a record are to be read.
pub(crate) trait Record: 'static {
    /// True if records can expire at all.
    const EXPIRES: bool;

    /// The part of the record that identifies it, whose hash orders it.
    fn key(record: &[u8]) -> &[u8];

    /// The time at which the record expires, or [`UnixMs::NEVER`].
    fn expiry(record: &[u8]) -> UnixMs;

    /// True if bytes from a store are a record. Any record can be read by the functions above whatever its bytes are.
    fn is_record(record: &[u8]) -> bool;

    /// The place of a key. Tests let many keys share one.
    #[inline]
    fn mark(key: &[u8]) -> Mark {
        Mark::of(key)
    }
}

/// See the module's text.
pub(crate) struct Leaf<R> {
    page: Page,
    /// The marks of the first and the last record, here so that a search need not read them elsewhere. Anything in an
    /// empty leaf.
    first: Mark,
    last: Mark,
    /// The earliest expiry of any record, or [`UnixMs::NEVER`].
    expiry: UnixMs,
    record: PhantomData<fn() -> R>,
}

impl<R> Clone for Leaf<R> {
    fn clone(&self) -> Self {
        Leaf { page: self.page.clone(), record: PhantomData, ..*self }
    }
}

impl<R> Default for Leaf<R> {
    fn default() -> Self {
        Leaf {
            page: Page::default(),
            first: Mark::default(),
            last: Mark::default(),
            expiry: UnixMs::NEVER,
            record: PhantomData,
        }
    }
}

impl<R: Record> Leaf<R> {
    fn new(page: Page, expiry: UnixMs) -> Self {
        let mut leaf = Leaf { page, expiry, ..Leaf::default() };
        leaf.find_bounds();
        leaf
    }

    /// The mark of record `at`, which must exist.
    pub fn mark(&self, at: usize) -> Mark {
        self.page.mark(at)
    }

    /// Record `at`, which must exist.
    #[inline]
    pub fn record(&self, at: usize) -> &[u8] {
        self.page.record(at)
    }

    /// The index of the first record whose mark is not below `mark`.
    #[inline]
    pub fn lower_bound(&self, mark: Mark) -> usize {
        let guess = mark.among(self.first, self.last, self.page.len());
        partition_near(self.page.len(), guess, |at| self.page.mark(at) < mark)
    }

    /// Where the record of `key` is, or else where it would have to be inserted.
    ///
    /// # Errors
    ///
    /// Where the record would have to be inserted.
    #[inline]
    pub fn find(&self, mark: Mark, key: &[u8]) -> Result<usize, usize> {
        let mut at = self.lower_bound(mark);
        while at < self.page.len() && self.page.mark(at) == mark {
            if R::key(self.record(at)) == key {
                return Ok(at);
            }
            at += 1;
        }
        Err(at)
    }

    /// Inserts a record at the index that [`find`](Self::find) named. The parts are joined.
    pub fn insert(&mut self, at: usize, mark: Mark, parts: &[&[u8]]) {
        self.page.insert(at, mark, parts);
        self.find_bounds();
        self.expiry = self.expiry.min(R::expiry(self.record(at)));
    }

    /// Replaces record `at`, which must exist, by another one of the same key.
    pub fn replace(&mut self, at: usize, parts: &[&[u8]]) {
        let before = R::expiry(self.record(at));
        self.page.replace(at, parts);
        self.expiry_changed(before, R::expiry(self.record(at)));
    }

    /// Removes record `at`, which must exist.
    pub fn remove(&mut self, at: usize) {
        let before = R::expiry(self.record(at));
        self.page.remove(at..at + 1);
        self.find_bounds();
        self.expiry_changed(before, UnixMs::NEVER);
    }

    /// Keeps the records for which `keep` is true; it is called once for each, in order.
    pub fn retain(&mut self, keep: impl FnMut(&[u8]) -> bool) {
        self.page.retain(keep);
        self.find_bounds();
        self.find_expiry();
    }

    fn find_bounds(&mut self) {
        if let Some(last) = self.page.len().checked_sub(1) {
            (self.first, self.last) = (self.page.mark(0), self.page.mark(last));
        }
    }

    fn expiry_changed(&mut self, before: UnixMs, after: UnixMs) {
        if after <= self.expiry {
            self.expiry = after;
        } else if before == self.expiry {
            self.find_expiry();
        }
    }

    fn find_expiry(&mut self) {
        if R::EXPIRES {
            self.expiry = (0..self.page.len()).map(|at| R::expiry(self.record(at))).min().unwrap_or(UnixMs::NEVER);
        }
    }
}

impl<R: Record> tree::Leaf for Leaf<R> {
    type Sep = Mark;
    const KEEPS_LEAST: bool = R::EXPIRES;
    const SORTED: bool = true;

    fn least(&self) -> u64 {
        self.expiry.0
    }

    fn len(&self) -> usize {
        self.page.len()
    }

    fn bytes(&self) -> usize {
        self.page.used()
    }

    fn heap_bytes(&self) -> usize {
        self.page.heap()
    }

    fn split(&mut self, keep: usize) -> Self {
        let (mut low, mut high) = (1, self.page.len() - 1);
        while low < high {
            let at = (low + high) / 2;
            if self.page.used_by(at) < keep {
                low = at + 1;
            } else {
                high = at;
            }
        }
        let mut right = Leaf::new(self.page.split_off(low), UnixMs::NEVER);
        self.find_bounds();
        if self.expiry != UnixMs::NEVER {
            self.find_expiry();
            right.find_expiry();
        }
        right
    }

    fn append(&mut self, next: Self) {
        self.page.append(&next.page);
        self.find_bounds();
        self.expiry = self.expiry.min(next.expiry);
    }

    fn remove_range(&mut self, range: Range<usize>) {
        self.page.remove(range);
        self.find_bounds();
        if self.expiry != UnixMs::NEVER {
            self.find_expiry();
        }
    }

    fn first_sep(&self) -> Mark {
        self.mark(0)
    }
}
