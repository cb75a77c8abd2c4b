//! A segment: 1 to 64 buckets that grow by quarters, in hash order.
//!
//! The bucket at home for hash bits `frag` is `frag * n >> 16`: a larger `frag` never lives at an earlier home. That is
//! what makes growth by a quarter possible and gives `SCAN` an order that no resize disturbs. An entry that finds its home
//! full lives in one of the next [`PROBES`] - 1 buckets (cyclically) and is counted in the home's overflow byte.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use crate::bucket::{Bucket, Ways, frag_of};

/// Buckets looked at for one key: its home and the next ones.
pub(crate) const PROBES: usize = 4;
/// Buckets of the largest segment; a larger table has several segments.
pub(crate) const MAX_BUCKETS: usize = 64;
const SIZES: [usize; 20] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64];
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
    fn layout(buckets: usize) -> Layout {
        Layout::array::<Bucket>(buckets).expect("at most 4 KB")
    }

    /// An empty segment of at least `buckets` buckets.
    pub(crate) fn new(buckets: usize) -> Segment {
        let n = SIZES.iter().copied().find(|&n| n >= buckets).unwrap_or(MAX_BUCKETS);
        let layout = Self::layout(n);
        // SAFETY: the layout is not empty; zeroed memory is a valid array of empty buckets.
        let p = unsafe { alloc_zeroed(layout) };
        if p.is_null() {
            handle_alloc_error(layout);
        }
        Segment(p as u64 | (n as u64 - 1))
    }

    /// Frees the buckets, not the entries.
    ///
    /// # Safety
    /// Nobody uses the segment any more, and this is called once.
    pub(crate) unsafe fn free(self) {
        let layout = Self::layout(self.len());
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc((self.0 & ADDRESS) as *mut u8, layout) }
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
        // SAFETY: a segment handle lives in its table under the latch (or an epoch pin, for prefetching), and its buckets
        // with it; buckets are atomics, so shared access is all that is needed.
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

    /// Puts a word (with its hash bits) into a free way near its home. False: there is none, the segment must grow.
    #[inline]
    pub(crate) fn insert(self, tag: u8, word: u64) -> bool {
        let buckets = self.buckets();
        let home = self.home(frag_of(word));
        for i in self.probe(home) {
            if let Some(way) = buckets[i].free_way() {
                buckets[i].occupy(way, tag, word);
                if i != home {
                    buckets[home].add_overflow(1);
                }
                return true;
            }
        }
        false
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

    /// Number of entries.
    pub(crate) fn count(self) -> usize {
        self.buckets().iter().map(|b| b.used().count_ones() as usize).sum()
    }

    /// A copy with the next larger size, or `None` at the largest.
    pub(crate) fn grown(self) -> Option<Segment> {
        SIZES.iter().copied().filter(|&n| n > self.len()).find_map(|n| self.resized(n))
    }

    /// A copy with `n` buckets, or `None` if the entries do not fit their probe windows.
    pub(crate) fn resized(self, n: usize) -> Option<Segment> {
        let new = Segment::new(n);
        let mut fits = true;
        self.each(|tag, word| fits = fits && new.insert(tag, word));
        if fits {
            return Some(new);
        }
        // SAFETY: nobody has seen it.
        unsafe { new.free() };
        None
    }
}
