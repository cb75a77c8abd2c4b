//! One page: blocks of one size class, packed from the start of its area, and one bit per block.
//!
//! Blocks carry no header, and a free block is not touched. The bitmap says which blocks are free, so taking a dozen
//! reads one line instead of a chain of cold ones. The bitmap lies behind the blocks and usually fits into the rest
//! that they leave anyway. That of up to 64 blocks is in the page's description: behind blocks of 2 KB it would cost a
//! block.
//!
//! While a class owns a page, only the holder of the class's lock may change it. Otherwise the holder of the pool's
//! lock may, or the thread that has unlinked it from both. All fields that change are atomics, used with relaxed
//! ordering under those locks. That costs nothing, and makes the one reader without a lock ([`Page::used`], for "is it
//! sparse?") sound.

use std::{
    ptr::NonNull,
    sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use super::class::Class;

/// Blocks whose bits the page's description holds.
const INLINE: usize = 64;

/// The description of one page, in the header of its chunk.
#[repr(align(64))]
pub struct Page {
    /// Where blocks may lie. In the first page of a chunk this starts behind the chunk's header.
    area: NonNull<u8>,
    area_len: u32,
    /// Blocks that fit, once a class has the page.
    capacity: AtomicU32,
    /// Blocks handed out.
    used: AtomicU32,
    /// The bitmap of up to [`INLINE`] blocks.
    bits: AtomicU64,
    /// No word of the bitmap below this one has a free bit.
    first_word: AtomicU32,
    class: AtomicU16,
    row: AtomicU8,
    next: AtomicPtr<Page>,
    before: AtomicPtr<Page>,
}

// SAFETY: `area` is an address whose contents are only reached by the rules in the module's text; the rest is atomics.
unsafe impl Sync for Page {}

/// A page, valid as long as the heap that made it. Chunks are unmapped only when the heap is dropped, and `PageRef`s
/// live only inside its structures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PageRef(NonNull<Page>);

// SAFETY: a shared reference to a `Sync` value that outlives the handle.
unsafe impl Send for PageRef {}

impl std::ops::Deref for PageRef {
    type Target = Page;
    #[inline]
    fn deref(&self) -> &Page {
        // SAFETY: `PageRef::new`'s promise.
        unsafe { self.0.as_ref() }
    }
}

impl PageRef {
    /// # Safety
    /// `page` is initialised and stays so while the heap exists.
    pub unsafe fn new(page: NonNull<Page>) -> Self {
        Self(page)
    }

    fn from_link(link: *mut Page) -> Option<Self> {
        NonNull::new(link).map(Self)
    }
}

impl Page {
    /// An empty page of no class.
    pub fn new(area: NonNull<u8>, area_len: u32) -> Self {
        Self {
            area,
            area_len,
            capacity: AtomicU32::new(0),
            used: AtomicU32::new(0),
            bits: AtomicU64::new(0),
            first_word: AtomicU32::new(0),
            class: AtomicU16::new(0),
            row: AtomicU8::new(0),
            next: AtomicPtr::default(),
            before: AtomicPtr::default(),
        }
    }

    /// Gives the page to a class: all its blocks are free.
    pub fn assign(&self, class: Class) {
        debug_assert_eq!(self.used.load(Relaxed), 0);
        let len = self.area_len as usize;
        let mut capacity = len / class.size();
        while capacity > INLINE && bitmap_at(capacity, class) + words(capacity) * 8 > len {
            capacity -= 1;
        }
        self.capacity.store(capacity as u32, Relaxed);
        self.class.store(class.index() as u16, Relaxed);
        self.first_word.store(0, Relaxed);
        let mut left = capacity;
        for word in self.bitmap(class) {
            let bits = left.min(64);
            word.store(if bits == 64 { u64::MAX } else { (1 << bits) - 1 }, Relaxed);
            left -= bits;
        }
    }

    /// Takes up to `want` free blocks, lowest address first, and says how many it found.
    pub fn take(&self, class: Class, want: usize, mut out: impl FnMut(NonNull<u8>)) -> usize {
        debug_assert_eq!(self.class.load(Relaxed), class.index() as u16);
        let bitmap = self.bitmap(class);
        let mut at = self.first_word.load(Relaxed) as usize;
        let mut taken = 0;
        while at < bitmap.len() {
            let mut word = bitmap[at].load(Relaxed);
            while word != 0 && taken < want {
                let block = at * 64 + word.trailing_zeros() as usize;
                word &= word - 1;
                taken += 1;
                // SAFETY: a set bit names a block below `capacity`, inside the area.
                out(unsafe { self.area.add(block * class.size()) });
            }
            bitmap[at].store(word, Relaxed);
            if word != 0 {
                break;
            }
            at += 1;
        }
        self.first_word.store(at as u32, Relaxed);
        self.used.store(self.used.load(Relaxed) + taken as u32, Relaxed);
        taken
    }

    /// Takes a block back.
    ///
    /// # Panics
    /// If `address` is not that of a block in use: the promise of `free` was broken, and going on would hand one block
    /// to two owners.
    pub fn put(&self, class: Class, address: usize) {
        debug_assert_eq!(self.class.load(Relaxed), class.index() as u16);
        let offset = address.wrapping_sub(self.area.addr().get());
        let block = class.index_in_page(offset & u32::MAX as usize);
        debug_assert_eq!(block * class.size(), offset);
        let bitmap = self.bitmap(class);
        let word = &bitmap[block / 64];
        let bit = 1 << (block % 64);
        let old = word.load(Relaxed);
        assert!(old & bit == 0 && block < self.capacity(), "a block of the heap was freed twice");
        word.store(old | bit, Relaxed);
        self.used.store(self.used.load(Relaxed) - 1, Relaxed);
        let first = self.first_word.load(Relaxed).min((block / 64) as u32);
        self.first_word.store(first, Relaxed);
    }

    /// The number of blocks that are handed out.
    #[inline]
    pub fn used(&self) -> usize {
        self.used.load(Relaxed) as usize
    }

    /// The number of blocks that fit.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity.load(Relaxed) as usize
    }

    /// The addresses that blocks may use: the first, and how many bytes there are.
    pub fn area(&self) -> (NonNull<u8>, usize) {
        (self.area, self.area_len as usize)
    }

    /// The row of its class's shelf that lists the page.
    pub fn row(&self) -> usize {
        usize::from(self.row.load(Relaxed))
    }

    /// Notes the row of its class's shelf that lists the page.
    pub fn set_row(&self, row: usize) {
        self.row.store(row as u8, Relaxed);
    }

    fn bitmap(&self, class: Class) -> &[AtomicU64] {
        let capacity = self.capacity();
        if capacity <= INLINE {
            return std::slice::from_ref(&self.bits);
        }
        // SAFETY: `assign` chose `capacity` so that blocks and bitmap lie in the area, which belongs to this page alone
        // and holds no reference of other types: the blocks end before the bitmap starts. It starts at a multiple of 8,
        // as does the area. The words were written by `assign` before any class saw the page; if read before that,
        // capacity is 0.
        unsafe {
            let start = self.area.add(bitmap_at(capacity, class)).cast::<AtomicU64>();
            std::slice::from_raw_parts(start.as_ptr(), words(capacity))
        }
    }
}

/// Where the bitmap behind so many blocks starts.
const fn bitmap_at(blocks: usize, class: Class) -> usize {
    (blocks * class.size()).next_multiple_of(8)
}

/// Words of a bitmap for so many blocks.
const fn words(blocks: usize) -> usize {
    blocks.div_ceil(64)
}

/// A doubly linked list of pages through their own links. A page is in at most one list.
#[derive(Default)]
pub struct PageList {
    head: Option<PageRef>,
}

impl PageList {
    /// The first page.
    #[inline]
    pub fn head(&self) -> Option<PageRef> {
        self.head
    }

    /// Puts a page, which is in no list, at the front.
    pub fn push(&mut self, page: PageRef) {
        let old = self.head.map_or(std::ptr::null_mut(), |head| head.0.as_ptr());
        page.next.store(old, Relaxed);
        page.before.store(std::ptr::null_mut(), Relaxed);
        if let Some(head) = self.head {
            head.before.store(page.0.as_ptr(), Relaxed);
        }
        self.head = Some(page);
    }

    /// Takes the first page out.
    pub fn pop(&mut self) -> Option<PageRef> {
        let page = self.head?;
        self.remove(page);
        Some(page)
    }

    /// Takes a page of this list out.
    pub fn remove(&mut self, page: PageRef) {
        let next = PageRef::from_link(page.next.load(Relaxed));
        let before = PageRef::from_link(page.before.load(Relaxed));
        if let Some(next) = next {
            next.before.store(page.before.load(Relaxed), Relaxed);
        }
        match before {
            Some(before) => before.next.store(page.next.load(Relaxed), Relaxed),
            None => self.head = next,
        }
    }
}
