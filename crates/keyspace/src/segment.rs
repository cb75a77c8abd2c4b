//! A segment: 1 to 64 buckets that grow in small steps, in hash order.
//!
//! The bucket at home for hash bits `frag` is `frag * n >> 16`: a larger `frag` never lives at an earlier home. That is
//! what makes growth in small steps possible and gives `SCAN` an order that no resize disturbs. An entry that finds its
//! home full lives in one of the next [`PROBES`] - 1 buckets (cyclically) and is counted in the home's overflow byte.
//! If these are full, too, entries further on make room as in hopscotch hashing: that lets a segment fill to more than
//! nine tenths.

use std::ptr::NonNull;

use crate::bucket::{Bucket, Ways, frag_of};
use crate::heap::{Heap, LocalHeap};
use crate::keyspace::prefetch_write;

/// Buckets looked at for one key: its home and the next ones.
pub(crate) const PROBES: usize = 4;
/// Buckets of the largest segment; a larger table has several segments.
pub(crate) const MAX_BUCKETS: usize = 64;
/// How far from its home a new entry looks for a free way to bring nearer.
const REACH: usize = 16;
/// Steps of a twelfth on average: a segment is copied about ten times on its way to the largest.
pub(crate) const SIZES: [usize; 32] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48, 52, 56, 60,
    64,
];
const ADDRESS: u64 = 0x0000_ffff_ffff_ffc0;

/// The address and size of a segment in one word: 64-aligned address, low six bits `buckets - 1`. The upper 16 bits
/// are the owner's (the table keeps the segment's depth there). Copying the handle does not copy the segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment(pub(crate) u64);

/// Where an entry is: bucket and way, and its home bucket for the overflow counter.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) segment: Segment,
    bucket: u8,
    way: u8,
}

impl Place {
    #[inline]
    pub(crate) fn word(self) -> u64 {
        self.segment.buckets()[usize::from(self.bucket)].word(usize::from(self.way))
    }

    /// Points the place to another address, the hash bits unchanged.
    #[inline]
    pub(crate) fn set_address(self, address: u64) {
        let bucket = &self.segment.buckets()[usize::from(self.bucket)];
        let word = bucket.word(usize::from(self.way));
        bucket.set_word(usize::from(self.way), crate::bucket::pack(address, frag_of(word)));
    }

    /// Empties the place.
    pub(crate) fn vacate(self) {
        let buckets = self.segment.buckets();
        let home = self.segment.home(frag_of(self.word()));
        buckets[usize::from(self.bucket)].vacate(usize::from(self.way));
        if home != usize::from(self.bucket) {
            buckets[home].add_overflow(-1);
        }
    }
}

impl Segment {
    /// An empty segment of at least `buckets` buckets.
    pub(crate) fn new(buckets: usize, heap: &mut LocalHeap) -> Segment {
        let n = SIZES.iter().copied().find(|&n| n >= buckets).unwrap_or(MAX_BUCKETS);
        // Every size is a size class of the heap, so that nothing is lost to rounding; hence aligned to 64.
        let block = heap.alloc(n * size_of::<Bucket>());
        debug_assert!(block.addr().get().is_multiple_of(align_of::<Bucket>()));
        // SAFETY: the block is ours and that long. Zeroes are empty buckets.
        unsafe { block.write_bytes(0, n * size_of::<Bucket>()) };
        Segment(block.expose_provenance().get() as u64 | (n as u64 - 1))
    }

    /// Frees the buckets, not the entries.
    ///
    /// # Safety
    /// Nobody uses the segment any more, this is called once, and `heap` is of the heap that it came from.
    pub(crate) unsafe fn free(self, heap: &mut LocalHeap) {
        if let Some(block) = self.block() {
            // SAFETY: allocated in `new` with the same size; the caller's promise.
            unsafe { heap.free(block, self.bytes()) }
        }
    }

    /// Bytes of its buckets.
    pub(crate) fn bytes(self) -> usize {
        self.len() * size_of::<Bucket>()
    }

    /// Number of buckets.
    #[inline]
    pub(crate) fn len(self) -> usize {
        (self.0 & 63) as usize + 1
    }

    /// Address of the home bucket of `frag`, to prefetch it.
    #[inline]
    pub(crate) fn home_address(self, frag: u16) -> *const Bucket {
        ((self.0 & ADDRESS) as *const Bucket).wrapping_add(self.home(frag))
    }

    #[inline]
    pub(crate) fn buckets<'a>(self) -> &'a [Bucket] {
        // SAFETY: a segment handle lives in its table under the latch (or an epoch pin, for prefetching), and its
        // buckets with it. Buckets are atomics, so shared access is all that is needed.
        unsafe { std::slice::from_raw_parts((self.0 & ADDRESS) as *const Bucket, self.len()) }
    }

    #[inline]
    pub(crate) fn home(self, frag: u16) -> usize {
        (usize::from(frag) * self.len()) >> 16
    }

    /// The smallest hash bits at home in `bucket` or later.
    pub(crate) fn first_frag(self, bucket: usize) -> u32 {
        (bucket as u32 * 65536).div_ceil(self.len() as u32)
    }

    #[inline]
    fn probe(self, home: usize) -> impl Iterator<Item = usize> {
        let n = self.len();
        (home..home + PROBES.min(n)).map(move |i| if i >= n { i - n } else { i })
    }

    /// Finds the entry with these hash bits for which `is_it` (given the word) holds.
    #[inline]
    pub(crate) fn find(self, frag: u16, tag: u8, mut is_it: impl FnMut(u64) -> bool) -> Option<Place> {
        let buckets = self.buckets();
        let home = self.home(frag);
        for i in self.probe(home) {
            let bucket = &buckets[i];
            for way in Ways(bucket.matches(tag)) {
                let word = bucket.word(way);
                if frag_of(word) == frag && word != 0 && is_it(word) {
                    return Some(Place { segment: self, bucket: i as u8, way: way as u8 });
                }
            }
            if i == home && bucket.overflow() == 0 {
                break;
            }
        }
        None
    }

    /// The word of the entry that probably has these hash bits, without looking at entries.
    #[inline]
    pub(crate) fn probable(self, frag: u16, tag: u8) -> Option<u64> {
        let buckets = self.buckets();
        let home = self.home(frag);
        for i in self.probe(home) {
            let mut words = Ways(buckets[i].matches(tag)).map(|way| buckets[i].word(way));
            if let Some(word) = words.find(|&word| frag_of(word) == frag) {
                return Some(word);
            }
            if i == home && buckets[i].overflow() == 0 {
                break;
            }
        }
        None
    }

    /// Puts a word (with its hash bits) into a free way near its home. False: there is none, the segment must grow.
    #[inline]
    pub(crate) fn insert(self, tag: u8, word: u64) -> bool {
        let buckets = self.buckets();
        let home = self.home(frag_of(word));
        let free = self.probe(home).find(|&i| buckets[i].free_way().is_some());
        let Some(i) = free.or_else(|| self.make_room(home)) else { return false };
        let Some(way) = buckets[i].free_way() else { return false };
        buckets[i].occupy(way, tag, word);
        if i != home {
            buckets[home].add_overflow(1);
        }
        true
    }

    /// Moves entries further from their homes until one of the buckets for `home` has a free way, and says which.
    #[cold]
    fn make_room(self, home: usize) -> Option<usize> {
        let (buckets, n) = (self.buckets(), self.len());
        let mut gap = (PROBES..n.min(REACH)).find(|d| buckets[(home + d) % n].free_way().is_some())?;
        while gap >= PROBES {
            let to = (home + gap) % n;
            // From as far back as may be: the entry must still be in reach of its own home.
            let (back, from, way) = (1..PROBES).rev().find_map(|back| {
                let from = (home + gap - back) % n;
                let may_move = |way: &usize| (to + n - self.home(frag_of(buckets[from].word(*way)))) % n < PROBES;
                Ways(buckets[from].used()).find(may_move).map(|way| (back, from, way))
            })?;
            self.shift(from, way, to);
            gap -= back;
        }
        Some((home + gap) % n)
    }

    /// Moves an entry to another bucket, which has a free way.
    fn shift(self, from: usize, way: usize, to: usize) {
        let buckets = self.buckets();
        let Some(free) = buckets[to].free_way() else { return };
        let (tag, word) = (buckets[from].tag(way), buckets[from].word(way));
        let home = self.home(frag_of(word));
        buckets[to].occupy(free, tag, word);
        buckets[from].vacate(way);
        if from == home {
            buckets[home].add_overflow(1);
        } else if to == home {
            buckets[home].add_overflow(-1);
        }
    }

    /// Calls `f` with (tag, word) of everything at home in `bucket`.
    pub(crate) fn each_at_home(self, bucket: usize, mut f: impl FnMut(u8, u64)) {
        let buckets = self.buckets();
        for i in self.probe(bucket) {
            for way in Ways(buckets[i].used()) {
                let word = buckets[i].word(way);
                if self.home(frag_of(word)) == bucket {
                    f(buckets[i].tag(way), word);
                }
            }
            if i == bucket && buckets[i].overflow() == 0 {
                break;
            }
        }
    }

    /// Calls `f` with (tag, word) of everything, bucket by bucket.
    pub(crate) fn each(self, mut f: impl FnMut(u8, u64)) {
        for bucket in self.buckets() {
            for way in Ways(bucket.used()) {
                f(bucket.tag(way), bucket.word(way));
            }
        }
    }

    /// Calls `f` with the place of every entry.
    pub(crate) fn each_place(self, mut f: impl FnMut(Place)) {
        for (i, bucket) in self.buckets().iter().enumerate() {
            // The caller's work on the entries is a cache miss for each.
            if let Some(next) = self.buckets().get(i + 1) {
                Ways(next.used())
                    .for_each(|way| prefetch_write((next.word(way) & crate::bucket::ADDRESS) as *const u8));
            }
            for way in Ways(bucket.used()) {
                f(Place { segment: self, bucket: i as u8, way: way as u8 });
            }
        }
    }

    fn block(self) -> Option<NonNull<u8>> {
        NonNull::new(std::ptr::with_exposed_provenance_mut((self.0 & ADDRESS) as usize))
    }

    /// A copy in a fuller page of the heap, if this one lies in a sparse page.
    pub(crate) fn denser(self, heap: &Heap, local: &mut LocalHeap) -> Option<Segment> {
        let (block, size) = (self.block()?, self.len() * size_of::<Bucket>());
        // SAFETY: the segment is in use and has this size.
        let new = unsafe {
            if !heap.is_sparse(block, size) {
                return None;
            }
            local.alloc_denser(block, size)?
        };
        // SAFETY: both blocks have that many bytes and are not the same. Nobody writes to this segment: its latch is
        // held; prefetching reads atomics, of this one only.
        unsafe { block.copy_to_nonoverlapping(new, size) };
        Some(Segment(new.expose_provenance().get() as u64 | (self.0 & 63)))
    }

    /// Number of entries.
    pub(crate) fn count(self) -> usize {
        self.buckets().iter().map(|b| b.used().count_ones() as usize).sum()
    }

    /// A copy with the next larger size, or `None` at the largest.
    pub(crate) fn grown(self, heap: &mut LocalHeap) -> Option<Segment> {
        SIZES.iter().copied().filter(|&n| n > self.len()).find_map(|n| self.resized(n, heap))
    }

    /// A copy with `n` buckets, or `None` if the entries do not fit their probe windows.
    pub(crate) fn resized(self, n: usize, heap: &mut LocalHeap) -> Option<Segment> {
        let new = Segment::new(n, heap);
        let mut fits = true;
        self.each(|tag, word| fits = fits && new.insert(tag, word));
        if fits {
            return Some(new);
        }
        // SAFETY: nobody has seen it.
        unsafe { new.free(heap) };
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{WAYS, pack};
    use crate::heap::usable;

    #[test]
    fn sizes_are_classes_of_the_heap() {
        for n in SIZES {
            assert_eq!(usable(n * size_of::<Bucket>()), n * size_of::<Bucket>());
        }
    }

    /// Stragglers of a size that most have left are moved together.
    #[test]
    fn segments_leave_sparse_pages() {
        let heap = Heap::new();
        let mut local = heap.local();
        let mut all: Vec<Segment> = (0..1000).map(|_| Segment::new(20, &mut local)).collect();
        let mut kept = Vec::new();
        for (i, segment) in all.drain(..).enumerate() {
            if i % 10 == 0 {
                assert!(segment.insert(0x80, pack(8 * (i as u64 + 1), i as u16)));
                kept.push(segment);
            } else {
                // SAFETY: nobody uses it.
                unsafe { segment.free(&mut local) };
            }
        }
        local.flush();
        let before = heap.stats().free_in_pages;
        let mut moved = 0;
        for segment in &mut kept {
            if let Some(new) = segment.denser(&heap, &mut local) {
                // SAFETY: nobody uses it.
                unsafe { std::mem::replace(segment, new).free(&mut local) };
                moved += 1;
            }
        }
        local.flush();
        let after = heap.stats().free_in_pages;
        assert!(moved > 50 && after < before / 4, "{moved} moved, {before} to {after} bytes free");
        for (i, segment) in kept.into_iter().enumerate() {
            let i = i as u64 * 10;
            assert!(segment.find(i as u16, 0x80, |word| word & crate::bucket::ADDRESS == 8 * (i + 1)).is_some());
        }
    }

    /// Fills segments until the first entry that finds no place: entries stay findable, iteration sees each once at its
    /// home, and little room is left.
    #[test]
    fn segments_fill_to_nine_tenths() {
        let heap = Heap::new();
        let mut local = heap.local();
        let mut random = 1u64;
        let (mut placed, mut room) = (0, 0);
        for _ in 0..40 {
            let segment = Segment::new(64, &mut local);
            let mut words = Vec::new();
            loop {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let word = pack((words.len() as u64 + 1) * 64, (random >> 48) as u16);
                if !segment.insert(0x80 | random as u8, word) {
                    break;
                }
                words.push((0x80 | random as u8, word));
            }
            for &(tag, word) in &words {
                assert!(segment.find(frag_of(word), tag, |w| w == word).is_some());
            }
            let mut seen = Vec::new();
            (0..segment.len()).for_each(|home| segment.each_at_home(home, |tag, word| seen.push((tag, word))));
            seen.sort_by_key(|&(_, word)| word & 0xffff_ffff_ffff);
            assert_eq!(seen, words);
            (placed, room) = (placed + words.len(), room + segment.len() * WAYS);
            for (tag, word) in words {
                if let Some(place) = segment.find(frag_of(word), tag, |w| w == word) {
                    place.vacate();
                }
            }
            assert!(segment.buckets().iter().all(|bucket| bucket.overflow() == 0 && bucket.used() == 0));
            // SAFETY: nobody uses it.
            unsafe { segment.free(&mut local) };
        }
        assert!(placed * 10 > room * 9, "{placed} of {room}");
    }
}
