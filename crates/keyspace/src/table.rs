//! The table of one slot and database: extendible hashing over segments, iterated in hash order.
//!
//! The root is one word, so that it can be read and prefetched from without the latch. It is 0 (empty), a segment, or a
//! directory (`DIRECTORY` set) of 2^g segment words, indexed by the top g bits of the hash. A segment of depth d fills
//! 2^(g-d) consecutive directory cells. A segment that is full grows by a tenth or so; at 64 buckets it splits in two.
//!
//! The holder of the latch has a shared reference only, and the counts are cells. A prefetching worker reads the root
//! at any time, which an exclusive reference to the table would not allow. Roots and cells are stored with Release and
//! loaded with Acquire, so that what they lead to has been initialised (free on x86).

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::*};

use clocks::UnixMs;

use crate::bucket::{frag_of, pack, tag_of};
use crate::entry::Entry;
use crate::heap::{Heap, LocalHeap};
use crate::key::{Key, KeyHasher};
use crate::local::Local;
use crate::segment::{MAX_BUCKETS, Place, Segment};
use crate::tombstone::Graves;

const DIRECTORY: u64 = 1 << 63;
const ADDRESS: u64 = 0x0000_ffff_ffff_ffc0;
const DEPTH_SHIFT: u32 = 48;
const UNDEPTH: u64 = 0x0000_ffff_ffff_ffff;

/// Sets of keys ordered by hash.
#[derive(Default)]
pub(crate) struct Table {
    root: AtomicU64,
    /// Number of entries.
    pub(crate) count: Cell<u32>,
    /// Entries the expiry sweep must look at: those with an expiry or with fields that have one.
    pub(crate) volatile: Cell<u32>,
    /// Entries with an expiry.
    pub(crate) expiring: Cell<u32>,
    /// No entry expires before.
    pub(crate) next_expiry: Cell<UnixMs>,
    /// Tombstones of this table's keys, and whether a checkpoint is walking it: see [`crate::tombstone`].
    pub(crate) graves: Graves,
}

/// True if two keys are the same. Most are so short that a call costs more than the comparison.
#[inline]
fn are_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (a.first_chunk::<8>(), a.last_chunk::<8>(), b.first_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(first), Some(last), Some(other_first), Some(other_last)) if a.len() <= 16 => {
            u64::from_ne_bytes(*first) == u64::from_ne_bytes(*other_first)
                && u64::from_ne_bytes(*last) == u64::from_ne_bytes(*other_last)
        }
        _ => a == b,
    }
}

/// The 16 ordering bits of `hash` in a segment of `depth`.
#[inline]
fn frag(hash: u64, depth: u32) -> u16 {
    ((hash << depth) >> 48) as u16
}

#[derive(Clone, Copy)]
struct Directory(u64);

impl Directory {
    fn bits(self) -> u32 {
        (self.0 & 63) as u32
    }

    #[inline]
    fn index(self, hash: u64) -> usize {
        (hash >> (64 - self.bits())) as usize
    }

    #[inline]
    fn cells<'a>(self) -> &'a [AtomicU64] {
        // SAFETY: a directory handle is used under the latch or an epoch pin, its memory lives as long; cells are
        // atomics.
        unsafe { std::slice::from_raw_parts((self.0 & ADDRESS) as *const AtomicU64, 1 << self.bits()) }
    }

    fn layout(bits: u32) -> Layout {
        Layout::from_size_align(8 << bits, 64).expect("a directory fits the address space")
    }

    fn new(bits: u32, cell: impl Fn(usize) -> u64) -> Directory {
        let layout = Self::layout(bits);
        // SAFETY: the layout is not empty.
        let p = unsafe { alloc(layout) }.cast::<u64>();
        if p.is_null() {
            handle_alloc_error(layout);
        }
        for i in 0..1usize << bits {
            // SAFETY: inside the allocation.
            unsafe { p.add(i).write(cell(i)) };
        }
        let word = p as u64;
        assert!(word & !ADDRESS == 0, "addresses have 48 bits");
        Directory(word | u64::from(bits) | DIRECTORY)
    }

    /// # Safety
    /// Nobody uses the directory any more, and this is called once.
    unsafe fn free(self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc((self.0 & ADDRESS) as *mut u8, Self::layout(self.bits())) }
    }
}

/// Memory a table no longer uses but an unlatched prefetch may still read.
pub(crate) enum Garbage {
    Segment(Segment),
    Directory(u64),
}

impl Garbage {
    /// Frees what [`Local::retire`] has taken.
    ///
    /// # Safety
    /// No worker can still be reading it, and `heap` is of the heap that segments come from.
    pub(crate) unsafe fn free(self, heap: &mut LocalHeap) {
        match self {
            Garbage::Segment(s) => {
                heap.retired(s.bytes());
                // SAFETY: the caller's promise.
                unsafe { s.free(heap) }
            }
            // SAFETY: the caller's promise.
            Garbage::Directory(word) => unsafe { Directory(word).free() },
        }
    }
}

impl Table {
    /// The segment for `hash` and its depth.
    #[inline]
    fn segment(&self, hash: u64) -> Option<(Segment, u32)> {
        let root = self.root.load(Acquire);
        if root == 0 {
            return None;
        }
        if root & DIRECTORY == 0 {
            return Some((Segment(root), 0));
        }
        let dir = Directory(root);
        let cell = dir.cells()[dir.index(hash)].load(Acquire);
        Some((Segment(cell & UNDEPTH), (cell >> DEPTH_SHIFT) as u32))
    }

    /// Address of the bucket at home for `hash`. Without the latch: needs an epoch pin, and is a hint only.
    #[inline]
    pub(crate) fn home_bucket(&self, hash: u64) -> Option<*const crate::bucket::Bucket> {
        self.segment(hash).map(|(s, depth)| s.home_address(frag(hash, depth)))
    }

    /// Address of the entry that probably is `hash`'s. Without the latch: needs an epoch pin, and is a hint only.
    #[inline]
    pub(crate) fn probable_entry(&self, hash: u64) -> Option<*const u8> {
        let (segment, depth) = self.segment(hash)?;
        let word = segment.probable(frag(hash, depth), tag_of(hash))?;
        Some((word & crate::bucket::ADDRESS) as *const u8)
    }

    #[inline]
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<(Place, Entry)> {
        let (segment, depth) = self.segment(key.hash)?;
        let place = segment
            .find(frag(key.hash, depth), tag_of(key.hash), |word| are_same(Entry::from_word(word).key(), key.bytes))?;
        Some((place, Entry::from_word(place.word())))
    }

    /// Adds an entry whose key is known to be absent.
    pub(crate) fn insert(&self, hash: u64, entry: Entry, hasher: &KeyHasher, local: &mut Local) {
        self.count.set(self.count.get() + 1);
        if self.root.load(Relaxed) == 0 {
            self.root.store(Segment::new(1, &mut local.heap).0, Release);
        }
        while !self.try_insert(hash, entry) {
            self.grow(hash, hasher, local);
        }
    }

    #[inline]
    fn try_insert(&self, hash: u64, entry: Entry) -> bool {
        match self.segment(hash) {
            Some((segment, depth)) => segment.insert(tag_of(hash), pack(entry.to_word(), frag(hash, depth))),
            None => false,
        }
    }

    /// Makes room where `hash` belongs: one segment grows or splits.
    fn grow(&self, hash: u64, hasher: &KeyHasher, local: &mut Local) {
        let Some((old, depth)) = self.segment(hash) else { return };
        match old.grown(&mut local.heap) {
            Some(new) => self.replace(hash, depth, new),
            None => self.split(hash, old, depth, hasher, local),
        }
        local.retire(Garbage::Segment(old));
    }

    /// Points all cells of the segment at `hash` to `new`, which has the same depth.
    fn replace(&self, hash: u64, depth: u32, new: Segment) {
        let root = self.root.load(Relaxed);
        if root & DIRECTORY == 0 {
            self.root.store(new.0, Release);
            return;
        }
        let dir = Directory(root);
        let span = 1usize << (dir.bits() - depth);
        let first = dir.index(hash) & !(span - 1);
        for cell in &dir.cells()[first..first + span] {
            cell.store(new.0 | u64::from(depth) << DEPTH_SHIFT, Release);
        }
    }

    fn split(&self, hash: u64, old: Segment, depth: u32, hasher: &KeyHasher, local: &mut Local) {
        let halves = split_segment(old, depth, hasher, &mut local.heap);
        let root = self.root.load(Relaxed);
        let dir = if root & DIRECTORY == 0 {
            Directory::new(1, |_| root)
        } else if Directory(root).bits() == depth {
            let cells = Directory(root).cells();
            let doubled = Directory::new(depth + 1, |i| cells[i / 2].load(Relaxed));
            local.retire(Garbage::Directory(root));
            doubled
        } else {
            Directory(root)
        };
        self.root.store(dir.0, Release);
        let span = 1usize << (dir.bits() - depth);
        let first = dir.index(hash) & !(span - 1);
        for (i, cell) in dir.cells()[first..first + span].iter().enumerate() {
            let half = halves[usize::from(i >= span / 2)];
            cell.store(half.0 | u64::from(depth + 1) << DEPTH_SHIFT, Release);
        }
    }

    /// Takes the entry at `place` out of the table; the caller frees it.
    pub(crate) fn remove(&self, place: Place, local: &mut Local) {
        place.vacate();
        self.count.set(self.count.get() - 1);
        let root = self.root.load(Relaxed);
        if self.count.get() == 0 {
            self.dismantle(|garbage| local.retire(garbage));
        } else if root & DIRECTORY == 0 {
            let segment = Segment(root);
            // Under a third full: shrink to about three quarters.
            if segment.len() > 2 && (self.count.get() as usize) * 3 < segment.len() * crate::bucket::WAYS {
                let wanted = (self.count.get() as usize * 4).div_ceil(3 * crate::bucket::WAYS);
                if let Some(new) = segment.resized(wanted, &mut local.heap) {
                    self.root.store(new.0, Release);
                    local.retire(Garbage::Segment(segment));
                }
            }
        }
    }

    /// Takes everything out: the table is empty afterwards.
    pub(crate) fn take(&self) -> Table {
        self.graves.reset();
        Table {
            root: AtomicU64::new(self.root.swap(0, Relaxed)),
            count: self.count.take().into(),
            volatile: self.volatile.take().into(),
            expiring: self.expiring.take().into(),
            next_expiry: self.next_expiry.take().into(),
            // The tombstones are void: the store has lost all of the table.
            graves: Graves::default(),
        }
    }

    /// Notes that something expires at `ms`. To be called before it is counted as volatile.
    pub(crate) fn expires_by(&self, ms: UnixMs) {
        self.next_expiry.set(if self.volatile.get() == 0 { ms } else { self.next_expiry.get().min(ms) });
    }

    /// Hands out all segments and directories and is empty afterwards. The entries are the caller's.
    pub(crate) fn dismantle(&self, mut garbage: impl FnMut(Garbage)) {
        let root = self.root.swap(0, Relaxed);
        if root & DIRECTORY != 0 {
            let mut last = 0;
            for cell in Directory(root).cells() {
                let word = cell.load(Relaxed) & UNDEPTH;
                if word != last {
                    garbage(Garbage::Segment(Segment(word)));
                    last = word;
                }
            }
            garbage(Garbage::Directory(root));
        } else if root != 0 {
            garbage(Garbage::Segment(Segment(root)));
        }
    }

    /// Calls `f` with the entries at home in the bucket of hash `from`, from that hash on, and says at which hash the
    /// next bucket begins; `None` after the last. `f` must not change the table.
    pub(crate) fn step(&self, from: u64, mut f: impl FnMut(Entry)) -> Option<u64> {
        let (segment, depth) = self.segment(from)?;
        let from_frag = frag(from, depth);
        let home = segment.home(from_frag);
        segment.each_at_home(home, |_, word| {
            if frag_of(word) >= from_frag {
                f(Entry::from_word(word));
            }
        });
        let prefix = if depth == 0 { 0 } else { from >> (64 - depth) };
        let next_frag = segment.first_frag(home + 1);
        if next_frag < 65536 {
            Some((prefix << 1 << (63 - depth)) | (u64::from(next_frag) << 48 >> depth))
        } else if prefix + 1 < 1 << depth {
            Some((prefix + 1) << (64 - depth))
        } else {
            None
        }
    }

    /// Tidies the part of the table at `hash`: shrinks its segment if it is sparse, moves it, and with `entries` its
    /// entries, out of sparse pages of the heap. Says where the next part begins.
    pub(crate) fn tidy(&self, hash: u64, entries: bool, heap: &Heap, local: &mut Local) -> Tidied {
        let Some((mut segment, depth)) = self.segment(hash) else { return Tidied::default() };
        let count = segment.count();
        let mut tidied = Tidied { seen: 1, ..Tidied::default() };
        let sparse = segment.len() > 1 && count * 3 < segment.len() * crate::bucket::WAYS;
        let wanted = (count * 4).div_ceil(3 * crate::bucket::WAYS).max(1);
        let smaller = if sparse { segment.resized(wanted, &mut local.heap) } else { None };
        if let Some(new) = smaller.or_else(|| segment.denser(heap, &mut local.heap)) {
            self.replace(hash, depth, new);
            local.retire(Garbage::Segment(segment));
            segment = new;
            tidied.moved += 1;
        }
        if entries {
            segment.each_place(|place| {
                tidied.seen += 1;
                if let Some(moved) = Entry::from_word(place.word()).to_denser_page(heap, &mut local.heap) {
                    place.set_address(moved.to_word());
                    tidied.moved += 1;
                }
            });
        }
        let prefix = if depth == 0 { 0 } else { hash >> (64 - depth) };
        tidied.next = (prefix + 1 < 1 << depth).then(|| (prefix + 1) << (64 - depth));
        tidied
    }
}

/// The work of one step of tidying.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tidied {
    /// The hash at which to go on; `None` at the end of the table.
    pub next: Option<u64>,
    /// Blocks looked at.
    pub seen: u32,
    /// Blocks moved.
    pub moved: u32,
}

/// The entries of a full segment in two of the next depth. Only here are entries touched: the bits stored beside a
/// pointer end where the new ordering bits begin.
fn split_segment(old: Segment, depth: u32, hasher: &KeyHasher, heap: &mut LocalHeap) -> [Segment; 2] {
    let mut items: Vec<(u64, u64)> = Vec::with_capacity(old.len() * crate::bucket::WAYS);
    old.each(|_, word| items.push((hasher.hash(Entry::from_word(word).key()), word)));
    [0u64, 1].map(|side| {
        let mine = || items.iter().filter(move |(hash, _)| (hash << depth) >> 63 == side);
        let mut wanted = (mine().count() * 20).div_ceil(17 * crate::bucket::WAYS).max(1);
        loop {
            let half = Segment::new(wanted, heap);
            let fits = mine().all(|&(hash, word)| {
                half.insert(tag_of(hash), pack(Entry::from_word(word).to_word(), frag(hash, depth + 1)))
            });
            if fits || wanted > MAX_BUCKETS {
                assert!(fits, "more equal hashes than a segment holds");
                return half;
            }
            // SAFETY: nobody has seen it.
            unsafe { half.free(heap) };
            wanted = half.len() + 1;
        }
    })
}
