//! The memory of a leaf: tags and records in one allocation.
//!
//! ```text
//! tags     u64 each, ascending: the record's mark (32 bits), then the start of the record among the records (32 bits)
//! room     for some more tags
//! records  one after another, without gaps, in the order of the tags
//! ```
//!
//! One allocation, because the cost of a lookup in a large collection is the lines and pages of memory that it touches.

use std::ops::Range;

use super::Mark;

const TAG_BYTES: usize = size_of::<u64>();
const START_MASK: u64 = u32::MAX as u64;

/// Spare tags when there is no better guess.
const ROOM_MIN: usize = 4;

/// See the module's text. Starts fit 32 bits: the caller bounds the contents.
#[derive(Clone, Default)]
pub(super) struct Page {
    buf: Vec<u8>,
    len: u32,
    /// Number of tags there is room for.
    room: u32,
}

type Tag = [u8; TAG_BYTES];

fn mark_of(tag: u64) -> Mark {
    Mark((tag >> 32) as u32)
}

impl Page {
    /// Number of records.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.len() * TAG_BYTES + self.records_len()
    }

    /// Bytes allocated.
    pub fn heap(&self) -> usize {
        self.buf.capacity()
    }

    #[inline]
    fn tags(&self) -> &[Tag] {
        self.buf[..self.len() * TAG_BYTES].as_chunks().0
    }

    #[inline]
    fn tags_mut(&mut self) -> &mut [Tag] {
        let end = self.len() * TAG_BYTES;
        self.buf[..end].as_chunks_mut().0
    }

    /// Where the records begin.
    #[inline]
    fn base(&self) -> usize {
        self.room as usize * TAG_BYTES
    }

    fn records_len(&self) -> usize {
        self.buf.len() - self.base()
    }

    /// The mark of record `at`, which must exist.
    #[inline]
    pub fn mark(&self, at: usize) -> Mark {
        mark_of(u64::from_le_bytes(self.tags()[at]))
    }

    /// Where record `at` begins among the records; their end for `len()`.
    #[inline]
    fn start(&self, at: usize) -> usize {
        match self.tags().get(at) {
            Some(tag) => (u64::from_le_bytes(*tag) & START_MASK) as usize,
            None => self.records_len(),
        }
    }

    /// Record `at`, which must exist.
    #[inline]
    pub fn record(&self, at: usize) -> &[u8] {
        let base = self.base();
        &self.buf[base + self.start(at)..base + self.start(at + 1)]
    }

    /// Bytes that the first `count` records take, their tags included.
    pub fn used_by(&self, count: usize) -> usize {
        self.start(count) + count * TAG_BYTES
    }

    /// Inserts a record, given in parts that are joined, before record `at`.
    pub fn insert(&mut self, at: usize, mark: Mark, parts: &[&[u8]]) {
        let size = parts.iter().map(|part| part.len()).sum::<usize>();
        if self.len == self.room {
            let room = self.len() + (self.len() / 8).max(ROOM_MIN);
            self.rebuild(room, size);
        }
        let start = self.start(at);
        let (from, to) = (at * TAG_BYTES, self.len() * TAG_BYTES);
        self.buf.copy_within(from..to, from + TAG_BYTES);
        self.len += 1;
        self.tags_mut()[at] = (u64::from(mark.0) << 32 | start as u64).to_le_bytes();
        self.splice(start..start, size, parts);
        self.shift(at + 1, 0, size);
    }

    /// Replaces record `at`, which must exist.
    pub fn replace(&mut self, at: usize, parts: &[&[u8]]) {
        let old = self.start(at)..self.start(at + 1);
        let (old_size, size) = (old.len(), parts.iter().map(|part| part.len()).sum::<usize>());
        self.splice(old, size, parts);
        self.shift(at + 1, old_size, size);
    }

    /// Removes records.
    pub fn remove(&mut self, range: Range<usize>) {
        let old = self.start(range.start)..self.start(range.end);
        let (size, len) = (old.len(), self.len());
        self.splice(old, 0, &[]);
        self.buf.copy_within(range.end * TAG_BYTES..len * TAG_BYTES, range.start * TAG_BYTES);
        self.len -= range.len() as u32;
        self.shift(range.start, size, 0);
        self.shrink();
    }

    /// Keeps the records for which `keep` is true; it is called once for each, in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        let base = self.base();
        let (mut kept, mut end) = (0, 0);
        for at in 0..self.len() {
            let (from, to) = (self.start(at), self.start(at + 1));
            if keep(&self.buf[base + from..base + to]) {
                self.buf.copy_within(base + from..base + to, base + end);
                let mark = u64::from(self.mark(at).0) << 32;
                // Written at or before `at`: the starts that are still to be read are intact.
                self.tags_mut()[kept] = (mark | end as u64).to_le_bytes();
                kept += 1;
                end += to - from;
            }
        }
        self.len = kept as u32;
        self.buf.truncate(base + end);
        self.shrink();
    }

    /// Takes the records from `at` on away.
    pub fn split_off(&mut self, at: usize) -> Page {
        let (start, count) = (self.start(at), self.len() - at);
        let tags = self.tags()[at..].iter().map(|tag| (u64::from_le_bytes(*tag) - start as u64).to_le_bytes());
        let mut buf = Vec::with_capacity(self.used() - self.used_by(at));
        tags.for_each(|tag| buf.extend_from_slice(&tag));
        buf.extend_from_slice(&self.buf[self.base() + start..]);
        self.buf.truncate(self.base() + start);
        self.len = at as u32;
        self.rebuild(at, 0);
        Page { buf, len: count as u32, room: count as u32 }
    }

    /// Takes over the records of the page that belongs behind this one.
    pub fn append(&mut self, next: &Page) {
        let (len, end) = (self.len(), self.records_len());
        self.rebuild(len + next.len(), next.records_len());
        self.len += next.len;
        for (tag, moved) in self.tags_mut()[len..].iter_mut().zip(next.tags()) {
            *tag = (u64::from_le_bytes(*moved) + end as u64).to_le_bytes();
        }
        self.buf.extend_from_slice(&next.buf[next.base()..]);
    }

    /// Moves everything into an allocation with room for `room` tags and `more` bytes of records.
    fn rebuild(&mut self, room: usize, more: usize) {
        let spare = more.max(self.records_len() / 8);
        let mut buf = Vec::with_capacity(room * TAG_BYTES + self.records_len() + if more > 0 { spare } else { 0 });
        buf.extend_from_slice(&self.buf[..self.len() * TAG_BYTES]);
        buf.resize(room * TAG_BYTES, 0);
        buf.extend_from_slice(&self.buf[self.base()..]);
        self.buf = buf;
        self.room = room as u32;
    }

    /// Gives memory back when less than half of it is used.
    fn shrink(&mut self) {
        let used = self.used();
        if self.buf.capacity() / 2 > used + 64 {
            self.rebuild(self.len() + self.len() / 8, used / 8);
        }
    }

    /// Replaces a range of the records' bytes by the parts, `size` bytes in all. It grows by an eighth. A leaf lives
    /// long and is one of many, so the slack of doubling would cost more than the copies of at most 8 KB that it saves.
    fn splice(&mut self, old: Range<usize>, size: usize, parts: &[&[u8]]) {
        let base = self.base();
        let (start, old_end, len) = (base + old.start, base + old.end, self.buf.len());
        let end = start + size;
        if end > old_end {
            let more = end - old_end;
            if self.buf.capacity() - len < more {
                self.buf.reserve_exact(more.max(len / 8));
            }
            self.buf.resize(len + more, 0);
            self.buf.copy_within(old_end..len, end);
        } else if end < old_end {
            self.buf.copy_within(old_end..len, end);
            self.buf.truncate(len - (old_end - end));
        }
        let mut at = start;
        for part in parts {
            self.buf[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    }

    /// Corrects the starts from tag `from` on after `old` bytes before them have become `new`.
    fn shift(&mut self, from: usize, old: usize, new: usize) {
        if old == new {
            return;
        }
        let by = (new as u64).wrapping_sub(old as u64);
        for tag in &mut self.tags_mut()[from..] {
            // A start before and after: the low 32 bits neither overflow nor borrow.
            *tag = u64::from_le_bytes(*tag).wrapping_add(by).to_le_bytes();
        }
    }
}
