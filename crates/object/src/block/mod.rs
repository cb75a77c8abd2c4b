//! The compact block: a run of byte strings and integers in one allocation, walkable both ways.
//!
//! Every small collection is one block, and most leaves of large ones hold one. An element is
//!
//! ```text
//! tag (1) [length (1, 4 or 8)] payload, back-length (1 to 10)
//! ```
//!
//! | tag | meaning |
//! |---|---|
//! | `00..7f` | the integer 0 to 127 itself |
//! | `80..bf` | a string of 0 to 63 bytes |
//! | `c0..cf` | a string of up to 4095 bytes: low bits, then one byte, are the length |
//! | `d0` `d1` | a string; its length follows in 4 or 8 bytes |
//! | `e0 + n` | an integer in n bytes (1 to 8), two's complement |
//!
//! All numbers are little-endian. The back-length is the size of the preceding bytes in base 128, lowest digit last.
//! Every digit but the first has the high bit set, so that it can be read from its end.
//!
//! A block keeps spare room at its front as well as at its end: pushing and popping at either end moves nothing else.

mod elem;
#[cfg(test)]
mod tests;

pub use elem::{Elem, Needle};
pub(crate) use elem::{append_bare, read_bare, take_bare};

use crate::Corrupt;
use elem::{HEADER_MAX, back_len_size, write_back_len};
use std::ops::Range;

/// Where an element begins in a [`Block`]. Valid until the block changes at or before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pos(usize);

/// See the module's text.
#[derive(Clone, Default)]
pub struct Block {
    /// Spare room at the front, the elements, spare capacity.
    buf: Vec<u8>,
    /// Where the elements begin.
    start: usize,
    count: u32,
}

impl Block {
    /// An empty block without an allocation.
    pub const fn new() -> Self {
        Block { buf: Vec::new(), start: 0, count: 0 }
    }

    /// An empty block for elements of about so many bytes, none of which may come. More than a small form has use for
    /// are not provided: an announced length is no reason to allocate.
    pub(crate) fn with_room(bytes: usize) -> Self {
        const ROOM_MAX: usize = 4096;
        if bytes > ROOM_MAX { Self::new() } else { Self::with_capacity(bytes.next_multiple_of(16)) }
    }

    /// An empty block with room for `bytes` at its end.
    pub fn with_capacity(bytes: usize) -> Self {
        Block { buf: Vec::with_capacity(bytes), start: 0, count: 0 }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes the elements take.
    pub fn bytes(&self) -> usize {
        self.buf.len() - self.start
    }

    /// Bytes allocated.
    pub fn heap_bytes(&self) -> usize {
        self.buf.capacity()
    }

    /// The encoded elements: what [`Block::from_bytes`] reads.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buf[self.start..]
    }

    /// Takes over encoded elements after checking them all: never panics, and accepts only bytes that a block would
    /// have written itself.
    ///
    /// # Errors
    ///
    /// The bytes are no elements.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut count = 0u32;
        let mut at = 0;
        while at < bytes.len() {
            at += elem::check(&bytes[at..])?;
            count = count.checked_add(1).ok_or(Corrupt("too many elements in a block"))?;
        }
        Ok(Block { buf: bytes.to_vec(), start: 0, count })
    }

    /// Takes encoded elements from the front until `bytes_max` are full: at least one, however large. Returns the block
    /// and the rest; checks like [`Block::from_bytes`].
    ///
    /// # Errors
    ///
    /// The bytes are no elements.
    pub fn take_bytes(bytes: &[u8], bytes_max: usize) -> Result<(Self, &[u8]), Corrupt> {
        let (mut at, mut count) = (0, 0u32);
        while at < bytes.len() && count < u32::MAX {
            let size = elem::check(&bytes[at..])?;
            if count > 0 && at + size > bytes_max {
                break;
            }
            at += size;
            count += 1;
        }
        let (taken, rest) = bytes.split_at(at);
        Ok((Block { buf: taken.to_vec(), start: 0, count }, rest))
    }

    /// The first element's position.
    pub fn first(&self) -> Option<Pos> {
        (self.count > 0).then_some(Pos(0))
    }

    /// The last element's position.
    pub fn last(&self) -> Option<Pos> {
        self.prev(self.end())
    }

    /// The position behind the last element: where [`Block::insert`] appends.
    pub fn end(&self) -> Pos {
        Pos(self.bytes())
    }

    /// The position of the element after the one at `pos`; `None` after the last.
    pub fn next(&self, pos: Pos) -> Option<Pos> {
        let next = self.after(pos);
        (next.0 < self.bytes()).then_some(next)
    }

    /// The position of the element before `pos` (which may be [`Block::end`]); `None` before the first.
    pub fn prev(&self, pos: Pos) -> Option<Pos> {
        let before = self.as_bytes().get(..pos.0)?;
        if before.is_empty() {
            return None;
        }
        Some(Pos(pos.0 - elem::size_before(before)))
    }

    /// The position right behind the element at `pos`, which may be [`Block::end`].
    pub fn after(&self, pos: Pos) -> Pos {
        Pos(pos.0 + elem::size(&self.as_bytes()[pos.0..]))
    }

    /// The element at `pos`.
    pub fn get(&self, pos: Pos) -> Elem<'_> {
        elem::read(&self.as_bytes()[pos.0..])
    }

    /// The position of the element of this index, walking from the nearer end; [`Block::end`] for `len()`, and `None`
    /// beyond it.
    pub fn seek(&self, index: usize) -> Option<Pos> {
        let len = self.len();
        if index > len {
            return None;
        }
        let bytes = self.as_bytes();
        let mut at;
        if index <= len / 2 {
            at = 0;
            for _ in 0..index {
                at += elem::size(&bytes[at..]);
            }
        } else {
            at = bytes.len();
            for _ in index..len {
                at -= elem::size_before(&bytes[..at]);
            }
        }
        Some(Pos(at))
    }

    /// All elements, in either direction.
    pub fn iter(&self) -> Iter<'_> {
        Iter { rest: self.as_bytes(), left: self.len() }
    }

    /// The elements from index `from` on; nothing if there are fewer.
    pub fn iter_from(&self, from: usize) -> Iter<'_> {
        match self.seek(from) {
            Some(pos) => Iter { rest: &self.as_bytes()[pos.0..], left: self.len() - from },
            None => Iter { rest: &[], left: 0 },
        }
    }

    /// The elements before index `to`, for walking backwards with `rev()`; all if there are fewer.
    pub fn iter_to(&self, to: usize) -> Iter<'_> {
        match self.seek(to) {
            Some(pos) => Iter { rest: &self.as_bytes()[..pos.0], left: to },
            None => self.iter(),
        }
    }

    /// Index and position of the first element equal to `needle` among the elements `from`, `from + stride`, ...;
    /// `stride` 2 compares only the names of name-value pairs. `stride` is at least 1.
    pub fn find(&self, needle: &Needle<'_>, from: usize, stride: usize) -> Option<(usize, Pos)> {
        let bytes = self.as_bytes();
        let mut at = self.seek(from)?.0;
        let mut index = from;
        while at < bytes.len() {
            if elem::read(&bytes[at..]).is(needle) {
                return Some((index, Pos(at)));
            }
            for _ in 0..stride {
                if at < bytes.len() {
                    at += elem::size(&bytes[at..]);
                }
            }
            index += stride;
        }
        None
    }

    /// Bytes an element takes in a block.
    pub fn size_of(elem: Elem<'_>) -> usize {
        let mut head = [0; HEADER_MAX];
        let (n, payload) = elem::header(elem, &mut head);
        let size = n + payload.len();
        size + back_len_size(size)
    }

    /// Adds an element at the end.
    pub fn push_back(&mut self, elem: Elem<'_>) {
        let mut head = [0; HEADER_MAX];
        let (n, payload) = elem::header(elem, &mut head);
        let size = n + payload.len();
        self.reserve_back(size + back_len_size(size));
        self.buf.extend_from_slice(&head[..n]);
        self.buf.extend_from_slice(payload);
        let (back, k) = elem::back_len(size);
        self.buf.extend_from_slice(&back[..k]);
        self.count += 1;
    }

    /// Adds an element at the front.
    pub fn push_front(&mut self, elem: Elem<'_>) {
        let size = Self::size_of(elem);
        if self.start < size {
            self.make_front_room(size);
        }
        self.start -= size;
        let start = self.start;
        write(&mut self.buf[start..start + size], elem);
        self.count += 1;
    }

    /// Inserts an element before the one at `pos`, or at the end for [`Block::end`]. It is found at `pos` afterwards.
    pub fn insert(&mut self, pos: Pos, elem: Elem<'_>) {
        if pos.0 == 0 {
            return self.push_front(elem);
        }
        if pos.0 == self.bytes() {
            return self.push_back(elem);
        }
        let size = Self::size_of(elem);
        let at = self.resize(pos.0, 0, size);
        write(&mut self.buf[at..at + size], elem);
        self.count += 1;
    }

    /// Replaces the element at `pos`; the new one is found there afterwards.
    pub fn replace(&mut self, pos: Pos, elem: Elem<'_>) {
        let old = self.after(pos).0 - pos.0;
        let size = Self::size_of(elem);
        let at = self.resize(pos.0, old, size);
        write(&mut self.buf[at..at + size], elem);
    }

    /// Removes up to `n` elements from the one at `pos` on; the next one is found at `pos` afterwards.
    pub fn remove(&mut self, pos: Pos, n: usize) {
        let mut end = pos.0;
        let mut removed = 0;
        while removed < n && end < self.bytes() {
            end = self.after(Pos(end)).0;
            removed += 1;
        }
        self.cut(pos.0..end, removed);
    }

    /// Removes the elements of these indexes; those out of range are ignored.
    pub fn remove_range(&mut self, range: Range<usize>) {
        let end = range.end.min(self.len());
        if range.start >= end {
            return;
        }
        if let (Some(Pos(from)), Some(Pos(to))) = (self.seek(range.start), self.seek(end)) {
            self.cut(from..to, end - range.start);
        }
    }

    /// Removes the first element. Its bytes become spare room at the front.
    pub fn pop_front(&mut self) {
        if self.count > 0 {
            let size = elem::size(self.as_bytes());
            self.cut(0..size, 1);
        }
    }

    /// Removes the last element.
    pub fn pop_back(&mut self) {
        if let Some(last) = self.last() {
            self.cut(last.0..self.bytes(), 1);
        }
    }

    /// Keeps only the elements for which `keep` is true; it is asked in order.
    pub fn retain(&mut self, mut keep: impl FnMut(Elem<'_>) -> bool) {
        let (mut read, mut write, end) = (self.start, self.start, self.buf.len());
        let mut kept = 0;
        while read < end {
            let (elem, size) = elem::read_sized(&self.buf[read..]);
            if keep(elem) {
                if write < read {
                    self.buf.copy_within(read..read + size, write);
                }
                write += size;
                kept += 1;
            }
            read += size;
        }
        self.buf.truncate(write);
        self.count = kept;
        self.release();
    }

    /// Moves the elements from index `at` on into a new block.
    pub fn split_off(&mut self, at: usize) -> Block {
        let Some(pos) = self.seek(at) else { return Block::new() };
        let rest = Block { buf: self.as_bytes()[pos.0..].to_vec(), start: 0, count: self.count - at as u32 };
        self.cut(pos.0..self.bytes(), rest.len());
        rest
    }

    /// The index of the element at which about `keep` bytes precede, between 1 and `len() - 1`: where a
    /// [`Leaf`](crate::tree::Leaf) splits. With `stride` 2 the index is even, so that pairs stay together. Asks for
    /// two elements (pairs) or more.
    pub fn split_index(&self, keep: usize, stride: usize) -> usize {
        let bytes = self.as_bytes();
        let (mut at, mut index) = (0, 0);
        while index + 2 * stride <= self.len() {
            for _ in 0..stride {
                at += elem::size(&bytes[at..]);
            }
            index += stride;
            if at >= keep {
                break;
            }
        }
        index
    }

    /// Takes over the elements of `next`, at the end.
    pub fn append(&mut self, next: &Block) {
        self.reserve_back(next.bytes());
        self.buf.extend_from_slice(next.as_bytes());
        self.count += next.count;
    }

    /// Gives spare room back.
    pub fn shrink_to_fit(&mut self) {
        if self.start > 0 {
            self.rebuild(0, 0);
        } else {
            self.buf.shrink_to_fit();
        }
    }

    /// Removes bytes that hold `removed` elements, moving the smaller side.
    fn cut(&mut self, range: Range<usize>, removed: usize) {
        self.count -= removed as u32;
        let (from, to) = (self.start + range.start, self.start + range.end);
        if range.start < self.buf.len() - to {
            self.buf.copy_within(self.start..from, self.start + range.len());
            self.start += range.len();
        } else {
            self.buf.copy_within(to.., from);
            self.buf.truncate(self.buf.len() - range.len());
        }
        self.release();
    }

    /// Gives memory back if little of it is used.
    fn release(&mut self) {
        if self.count == 0 {
            *self = Block::new();
            return;
        }
        let (used, capacity) = (self.bytes(), self.buf.capacity());
        if capacity > 64 && capacity / 4 > used {
            self.rebuild(used / 8, used / 4);
        }
    }

    /// Makes the `old` bytes at `at` `new` bytes, moving the bytes behind; returns the place in `buf`.
    fn resize(&mut self, at: usize, old: usize, new: usize) -> usize {
        if new > old {
            self.reserve_back(new - old);
            let (end, tail) = (self.buf.len(), self.start + at + old);
            self.buf.resize(end + new - old, 0);
            self.buf.copy_within(tail..end, tail + new - old);
        } else if new < old {
            let tail = self.start + at + old;
            self.buf.copy_within(tail.., tail + new - old);
            self.buf.truncate(self.buf.len() + new - old);
        }
        self.start + at
    }

    /// Makes room for `more` bytes at the end: first by taking back unused room at the front, then by growing by a
    /// quarter.
    fn reserve_back(&mut self, more: usize) {
        if self.buf.capacity() - self.buf.len() >= more {
            return;
        }
        let used = self.bytes();
        if self.start > used / 2 && self.buf.capacity() - used >= more {
            // A queue: half of the buffer was popped, so moving the rest down is paid for.
            self.buf.copy_within(self.start.., 0);
            self.buf.truncate(used);
            self.start = 0;
            return;
        }
        let room = more.max(used / 4);
        let capacity = (self.buf.len() + room).next_multiple_of(16);
        self.buf.reserve_exact(capacity - self.buf.len());
    }

    /// Makes room for `more` bytes at the front, growing by a quarter.
    fn make_front_room(&mut self, more: usize) {
        let used = self.bytes();
        let free = self.buf.capacity() - self.buf.len();
        if self.start + free >= more && free > used / 2 {
            // The mirror image of the queue above: move the elements up into room that the tail does not need.
            let shift = free - free / 8;
            if self.start + shift >= more {
                let start = self.start;
                self.buf.resize(self.buf.len() + shift, 0);
                self.buf.copy_within(start..start + used, start + shift);
                self.start += shift;
                return;
            }
        }
        self.rebuild(more.max(used / 4), 0);
    }

    /// Moves the elements into an allocation with about this much room before and behind.
    fn rebuild(&mut self, front: usize, back: usize) {
        let used = self.bytes();
        let capacity = (front + used + back).next_multiple_of(16);
        let front = capacity - used - back;
        let mut buf = Vec::with_capacity(capacity);
        buf.resize(front, 0);
        buf.extend_from_slice(self.as_bytes());
        *self = Block { buf, start: front, count: self.count };
    }
}

/// Writes an element into a place of exactly its size.
fn write(place: &mut [u8], elem: Elem<'_>) {
    let mut head = [0; HEADER_MAX];
    let (n, payload) = elem::header(elem, &mut head);
    let size = n + payload.len();
    place[..n].copy_from_slice(&head[..n]);
    place[n..size].copy_from_slice(payload);
    write_back_len(&mut place[size..], size);
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Block {}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &'a Block {
    type Item = Elem<'a>;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The elements of a block or of a part of it, in either direction.
#[derive(Clone, Default)]
pub struct Iter<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Elem<'a>;

    fn next(&mut self) -> Option<Elem<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (elem, size) = elem::read_sized(self.rest);
        self.rest = &self.rest[size..];
        self.left -= 1;
        Some(elem)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let at = self.rest.len() - elem::size_before(self.rest);
        let elem = elem::read(&self.rest[at..]);
        self.rest = &self.rest[..at];
        self.left -= 1;
        Some(elem)
    }
}

impl ExactSizeIterator for Iter<'_> {}
