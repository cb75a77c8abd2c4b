//! A page: some elements (number, string, value) in order, in one refcounted run of bytes.
//!
//! ```text
//! 0   u16  elements
//! 2   u16  bytes of strings at the end of the page, those of removed elements included
//! 4   u16  bytes of strings of removed elements
//! 6        slots: number, value, u16 place, u8 length; then free room, then the strings
//! ```
//!
//! All integers are little-endian. A string's place is the distance of its first byte from the end of the page, so that
//! strings need no change when a page grows. They lie in any order. The length [`LONG`] marks a string that lies out of
//! line. Its place is then an index into the list beside the page.
//!
//! Any operation on a cold page costs a few cache misses. The parent tells where in the page a number should be, and a
//! slot has everything except the string. An insertion moves half of the slots and no strings. Everything is safe code:
//! the page is an `Arc<[u8]>`, copied when written while shared.

use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use super::item::{Bounds, Item, Number, Place, Scalar, Tie};
use super::prefetch::prefetch;

/// Bytes before the slots.
const HEADER: usize = 6;
/// The length of strings that are out of line. All others are shorter.
const LONG: u8 = u8::MAX;
/// Bytes of the two reference counts in front of what an `Arc` holds.
const ARC: usize = 2 * size_of::<usize>();

type LongStrings = Vec<Arc<[u8]>>;

/// See the module. At most 64 KB.
pub(super) struct Page<K, V> {
    bytes: Arc<[u8]>,
    long: Option<Arc<LongStrings>>,
    /// The leaf's name in a store; see [`crate::saved`]. Nothing to pages of separators, as is the stamp.
    pub(super) label: u64,
    /// The ledger's mark at the last change.
    pub(super) stamp: u32,
    elements: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Page<K, V> {
    fn clone(&self) -> Self {
        Page { bytes: self.bytes.clone(), long: self.long.clone(), ..*self }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    bytes[at..].first_chunk().map_or(0, |b| u16::from_le_bytes(*b)) as usize
}

fn set_u16(bytes: &mut [u8], at: usize, value: usize) {
    debug_assert!(value <= u16::MAX as usize);
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

impl<K: Number, V: Scalar> Page<K, V> {
    const PLACE: usize = K::SIZE + V::SIZE;
    pub(super) const SLOT: usize = Self::PLACE + 3;

    pub(super) fn new() -> Self {
        Self::with_room(0)
    }

    /// An empty page with `room` bytes for slots and strings.
    pub(super) fn with_room(room: usize) -> Self {
        // Allocators hand out multiples of 16 bytes.
        let size = (ARC + HEADER + room).next_multiple_of(16) - ARC;
        Page { bytes: std::iter::repeat_n(0, size).collect(), long: None, label: 0, stamp: 0, elements: PhantomData }
    }

    pub(super) fn len(&self) -> usize {
        u16_at(&self.bytes, 0)
    }

    /// Bytes of strings in the page, garbage included.
    fn heap_used(&self) -> usize {
        u16_at(&self.bytes, 2)
    }

    fn garbage(&self) -> usize {
        u16_at(&self.bytes, 4)
    }

    /// Bytes of heap held here, long strings counted by their pointers only.
    pub(super) fn heap(&self) -> usize {
        let long =
            self.long.as_ref().map_or(0, |l| ARC + size_of::<LongStrings>() + l.capacity() * size_of::<Arc<[u8]>>());
        ARC + self.bytes.len() + long
    }

    /// Allocations that are freed with it at most: itself and strings that are out of line.
    pub(super) fn allocations(&self) -> usize {
        1 + self.long.as_ref().map_or(0, |l| l.len())
    }

    /// Bytes that the elements need.
    pub(super) fn weight(&self) -> usize {
        let long = self.long.as_ref().map_or(0, |l| l.len() * size_of::<Arc<[u8]>>());
        self.len() * Self::SLOT + self.heap_used() - self.garbage() + long
    }

    /// Bytes of strings that are out of line.
    pub(super) fn long_bytes(&self) -> usize {
        self.long.as_ref().map_or(0, |l| l.iter().map(|s| s.len()).sum())
    }

    /// Puts other contents into the place of these.
    fn refill(&mut self, new: Self) {
        (self.bytes, self.long) = (new.bytes, new.long);
    }

    fn slot(&self, i: usize) -> &[u8] {
        let at = HEADER + i * Self::SLOT;
        &self.bytes[at..at + Self::SLOT]
    }

    pub(super) fn number(&self, i: usize) -> K {
        K::load(self.slot(i))
    }

    pub(super) fn value(&self, i: usize) -> V {
        V::load(&self.slot(i)[K::SIZE..])
    }

    pub(super) fn string(&self, i: usize) -> &[u8] {
        let slot = self.slot(i);
        let (place, len) = (u16_at(slot, Self::PLACE), slot[Self::PLACE + 2]);
        match (len, &self.long) {
            (LONG, Some(long)) => &long[place],
            _ => {
                let start = self.bytes.len() - place;
                &self.bytes[start..start + len as usize]
            }
        }
    }

    /// The string as it can be put into another page, shared if it is long.
    pub(super) fn item(&self, i: usize) -> Item<'_> {
        let slot = self.slot(i);
        match (slot[Self::PLACE + 2], &self.long) {
            (LONG, Some(long)) => Item::Long(long[u16_at(slot, Self::PLACE)].clone()),
            _ => Item::Inline(self.string(i)),
        }
    }

    /// Where among `n` elements the number `x` should be.
    fn guess(x: K, bounds: Bounds<K>, n: usize) -> usize {
        let guess = match bounds {
            Bounds { low: Some(low), high: Some(high) } => (x.way(low, high) * n as f32) as usize,
            _ => n / 2,
        };
        guess.min(n)
    }

    /// Asks for the cache lines that a search for `x` in this page, known to have `n` elements, will touch first.
    pub(super) fn prefetch(&self, x: K, bounds: Bounds<K>, n: usize) {
        let at = HEADER + Self::guess(x, bounds, n) * Self::SLOT;
        prefetch(&self.bytes, 0);
        prefetch(&self.bytes, at);
        prefetch(&self.bytes, at + 64);
        prefetch(&self.bytes, at.saturating_sub(64));
    }

    /// Position of the first number that is not below `x`: from a guess outwards in growing steps, then by halves.
    fn lower(&self, x: K, bounds: Bounds<K>) -> usize {
        let n = self.len();
        let slots = &self.bytes[HEADER..HEADER + n * Self::SLOT];
        let below = |i: usize| K::load(&slots[i * Self::SLOT..]) < x;
        let guess = Self::guess(x, bounds, n);
        let mut step = 2;
        // All before `low` are below, none from `high` on is.
        let (mut low, mut high);
        if guess < n && below(guess) {
            low = guess + 1;
            high = n;
            while low + step < n {
                if !below(low + step) {
                    high = low + step;
                    break;
                }
                low += step + 1;
                step *= 2;
            }
        } else {
            low = 0;
            high = guess;
            while high > step {
                if below(high - step - 1) {
                    low = high - step;
                    break;
                }
                high -= step + 1;
                step *= 2;
            }
        }
        // Each half is as likely as the other: chosen without a branch.
        let mut len = high - low;
        while len > 0 {
            let half = len.div_ceil(2);
            low = select_unpredictable(below(low + half - 1), low + half, low);
            len -= half;
        }
        low
    }

    /// How many elements lie before `place`.
    pub(super) fn rank(&self, place: Place<'_, K>, bounds: Bounds<K>) -> usize {
        let n = self.len();
        let first = self.lower(place.number, bounds);
        let equal = |i: usize| self.number(i) == place.number;
        if first == n || !equal(first) {
            return first;
        }
        let before = |i: usize| match place.tie {
            Tie::First => false,
            Tie::Last => true,
            Tie::Below(s) => self.string(i) < s,
            Tie::Through(s) => self.string(i) <= s,
        };
        if !before(first) {
            return first;
        }
        let (mut low, mut high) = (first + 1, n);
        while low < high {
            let middle = usize::midpoint(low, high);
            if equal(middle) && before(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The position of the element, or the one where it would be inserted.
    pub(super) fn find(&self, number: K, string: &[u8], bounds: Bounds<K>) -> Result<usize, usize> {
        let i = self.rank(Place { number, tie: Tie::Below(string) }, bounds);
        if i < self.len() && self.number(i) == number && self.string(i) == string { Ok(i) } else { Err(i) }
    }

    pub(super) fn set_value(&mut self, i: usize, value: V) {
        let at = HEADER + i * Self::SLOT + K::SIZE;
        value.store(&mut Arc::make_mut(&mut self.bytes)[at..]);
    }

    pub(super) fn insert(&mut self, i: usize, number: K, item: Item, value: V) {
        let need = Self::SLOT + item.inline_len();
        if self.bytes.len() - HEADER - self.len() * Self::SLOT - self.heap_used() < need {
            self.rebuild(need);
        }
        let (n, mut used) = (self.len(), self.heap_used());
        let bytes = Arc::make_mut(&mut self.bytes);
        let (place, len) = match item {
            Item::Inline(s) => {
                used += s.len();
                let start = bytes.len() - used;
                bytes[start..start + s.len()].copy_from_slice(s);
                (used, s.len() as u8)
            }
            Item::Long(s) => {
                let long = Arc::make_mut(self.long.get_or_insert_default());
                if long.len() == long.capacity() {
                    long.reserve_exact(long.len() / 4 + 1);
                }
                long.push(s);
                (long.len() - 1, LONG)
            }
        };
        set_u16(bytes, 0, n + 1);
        set_u16(bytes, 2, used);
        let at = HEADER + i * Self::SLOT;
        bytes.copy_within(at..HEADER + n * Self::SLOT, at + Self::SLOT);
        let slot = &mut bytes[at..at + Self::SLOT];
        number.store(slot);
        value.store(&mut slot[K::SIZE..]);
        set_u16(slot, Self::PLACE, place);
        slot[Self::PLACE + 2] = len;
    }

    /// Removes the elements at `from..to`. Their strings become garbage until the page is rebuilt.
    pub(super) fn remove(&mut self, from: usize, to: usize) {
        let mut garbage = self.garbage();
        for i in (from..to).rev() {
            match self.slot(i)[Self::PLACE + 2] {
                LONG => self.forget_long(i),
                len => garbage += len as usize,
            }
        }
        let n = self.len();
        let bytes = Arc::make_mut(&mut self.bytes);
        bytes.copy_within(HEADER + to * Self::SLOT..HEADER + n * Self::SLOT, HEADER + from * Self::SLOT);
        set_u16(bytes, 0, n - (to - from));
        set_u16(bytes, 4, garbage);
        if self.heap() > 2 * self.weight() + 256 {
            self.rebuild(0);
        }
    }

    /// Removes the long string of slot `i`, which is about to go, from the list; the last one of the list takes its
    /// index.
    fn forget_long(&mut self, i: usize) {
        let Some(long) = &mut self.long else { return };
        let n = u16_at(&self.bytes, 0);
        let bytes = Arc::make_mut(&mut self.bytes);
        let at = |j: usize| HEADER + j * Self::SLOT + Self::PLACE;
        let index = u16_at(bytes, at(i));
        // So that it is not taken for the owner of the string that moves.
        bytes[at(i) + 2] = 0;
        let list = Arc::make_mut(long);
        list.swap_remove(index);
        let moved = list.len();
        if moved == 0 {
            self.long = None;
        } else if let Some(j) = (0..n).find(|&j| bytes[at(j) + 2] == LONG && u16_at(bytes, at(j)) == moved) {
            set_u16(bytes, at(j), index);
        }
    }

    /// Moves everything to a page with room for `need` bytes more and some slack, without garbage.
    fn rebuild(&mut self, need: usize) {
        let spare = need.max(self.weight() / 8);
        if self.garbage() > 0 {
            self.refill(Self::collect(&[(self, 0..self.len())], spare));
            return;
        }
        // Places count from the end, so both halves move as they are.
        let (slots, strings) = (HEADER + self.len() * Self::SLOT, self.heap_used());
        let mut new = Self::with_room(slots - HEADER + strings + spare);
        if let Some(bytes) = Arc::get_mut(&mut new.bytes) {
            let (from, to) = (self.bytes.len() - strings, bytes.len() - strings);
            bytes[..slots].copy_from_slice(&self.bytes[..slots]);
            bytes[to..].copy_from_slice(&self.bytes[from..]);
        }
        self.bytes = new.bytes;
    }

    /// A page of these elements, in order, with this much room to spare.
    fn collect(parts: &[(&Self, Range<usize>)], spare: usize) -> Self {
        let strings = |(page, range): &(&Self, Range<usize>)| {
            let inline = |i: usize| match page.slot(i)[Self::PLACE + 2] {
                LONG => 0,
                len => len as usize,
            };
            range.clone().map(inline).sum::<usize>()
        };
        let n: usize = parts.iter().map(|(_, range)| range.len()).sum();
        let used: usize = parts.iter().map(strings).sum();
        let mut new = Self::with_room(n * Self::SLOT + used + spare);
        let mut long = LongStrings::new();
        if let Some(bytes) = Arc::get_mut(&mut new.bytes) {
            let end = bytes.len();
            let (mut at, mut place) = (HEADER, used);
            for (page, range) in parts {
                for i in range.clone() {
                    bytes[at..at + Self::SLOT].copy_from_slice(page.slot(i));
                    match page.item(i) {
                        Item::Inline(s) => {
                            bytes[end - place..][..s.len()].copy_from_slice(s);
                            set_u16(bytes, at + Self::PLACE, place);
                            place -= s.len();
                        }
                        Item::Long(s) => {
                            set_u16(bytes, at + Self::PLACE, long.len());
                            long.push(s);
                        }
                    }
                    at += Self::SLOT;
                }
            }
            set_u16(bytes, 0, n);
            set_u16(bytes, 2, used);
        }
        if !long.is_empty() {
            long.shrink_to_fit();
            new.long = Some(Arc::new(long));
        }
        new
    }

    /// Moves the elements from `at` on into a new page.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let spare = self.weight() / 16;
        let right = Self::collect(&[(self, at..self.len())], spare);
        self.refill(Self::collect(&[(self, 0..at)], if right.len() == 1 { 0 } else { spare }));
        right
    }

    /// Takes over the elements of `right`, which follow these.
    pub(super) fn append(&mut self, right: &Self) {
        self.refill(Self::collect(&[(self, 0..self.len()), (right, 0..right.len())], self.weight() / 8));
    }

    /// The separator of these elements from those in `right`, which follow them. It is greater than all of the first,
    /// not greater than any of the second, and as short as possible.
    pub(super) fn separator(&self, right: &Self) -> (K, Arc<[u8]>) {
        let number = right.number(0);
        let Some(last) = self.len().checked_sub(1).filter(|&i| self.number(i) == number) else {
            return (number, Arc::default());
        };
        let (a, b) = (self.string(last), right.string(0));
        let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
        let need = b.len().min(common + 1);
        match right.item(0) {
            // Shared whole rather than copied up to where it differs.
            Item::Long(s) if need > super::item::INLINE_MAX => (number, s),
            _ => (number, Arc::from(&b[..need])),
        }
    }
}
