//! A worker's part of the heap: per size class a magazine of free blocks, used last in, first out while still warm in
//! its caches. Only a full or an empty magazine goes to the class's shelf, with half a magazine at once.

use std::{
    alloc::{Layout, handle_alloc_error},
    ptr::NonNull,
    sync::Arc,
};

use super::{
    Shared,
    class::{COUNT, Class, MAGAZINE_MAX},
    stats::Counters,
};

/// Allocates and frees on behalf of one worker. Made by [`super::Heap::local`]; may move between threads. Dropping it
/// gives its free blocks back.
pub struct LocalHeap {
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    magazines: Box<[Magazine]>,
}

#[derive(Clone)]
struct Magazine {
    len: usize,
    /// Addresses of free blocks that belong to this magazine alone; those below `len` count.
    blocks: [usize; MAGAZINE_MAX],
}

impl LocalHeap {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let magazines = vec![Magazine { len: 0, blocks: [0; MAGAZINE_MAX] }; COUNT].into_boxed_slice();
        Self { counters: shared.registry.add(), shared, magazines }
    }

    /// A block of at least `size` bytes ([`super::usable`] says how many), aligned to 4, contents undefined. One whose
    /// usable length is a multiple of 64, up to 16 KB, is aligned to 64. Aborts when the system has no memory, as
    /// collections of the standard library do.
    #[inline]
    pub fn alloc(&mut self, size: usize) -> NonNull<u8> {
        let Some(class) = Class::of(size) else { return self.alloc_large(size) };
        self.counters.allocated(size, class.size());
        let magazine = &mut self.magazines[class.index()];
        if magazine.len == 0 {
            Self::refill(&self.shared, class, magazine);
        }
        magazine.len -= 1;
        let block = std::ptr::with_exposed_provenance_mut(magazine.blocks[magazine.len]);
        // SAFETY: a magazine holds addresses of blocks, which are not null.
        unsafe { NonNull::new_unchecked(block) }
    }

    /// Gives a block of `size` bytes back.
    ///
    /// # Safety
    /// The block came from `alloc` of this heap (any worker's). `size` is the requested size or another with the same
    /// [`super::usable`] length. The caller alone owns the block, and does not use it any more.
    #[inline]
    pub unsafe fn free(&mut self, block: NonNull<u8>, size: usize) {
        let Some(class) = Class::of(size) else {
            // SAFETY: by the caller's promise.
            unsafe { self.free_large(block, size) };
            return;
        };
        self.counters.freed(size, class.size());
        let magazine = &mut self.magazines[class.index()];
        if magazine.len >= class.magazine() {
            // SAFETY: the magazine's blocks belong to it alone and are of this class.
            unsafe { Self::flush_half(&self.shared, class, magazine) };
        }
        magazine.blocks[magazine.len] = block.addr().get();
        magazine.len += 1;
    }

    /// Tells the heap that a block's owner now uses it for another size with the same [`super::usable`] length, so
    /// that the requested bytes of [`super::Stats`] stay right. Optional.
    #[inline]
    pub fn resized(&mut self, old: usize, new: usize) {
        debug_assert_eq!(super::usable(old), super::usable(new));
        self.counters.freed(old, 0);
        self.counters.allocated(new, 0);
    }

    /// Counts a block in a page as free that will be freed soon, when nobody can be reading it any more.
    pub(crate) fn retiring(&mut self, size: usize) {
        if let Some(class) = Class::of(size) {
            self.counters.retired(class.size());
        }
    }

    /// Takes [`Self::retiring`] back, as the block is freed now.
    pub(crate) fn retired(&mut self, size: usize) {
        if let Some(class) = Class::of(size) {
            self.counters.retired_freed(class.size());
        }
    }

    /// Moves a block into a fuller page and returns its new address, or leaves it where it is: for blocks that
    /// [`super::Heap::is_sparse`] names. Copies `size` bytes.
    ///
    /// # Safety
    /// As for [`LocalHeap::free`]; if a new block comes back the old one is gone.
    pub unsafe fn relocate(&mut self, block: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
        let class = Class::of(size)?;
        let copy = |to: usize| {
            let to = std::ptr::with_exposed_provenance_mut::<u8>(to);
            // SAFETY: both blocks have at least `size` bytes, are different blocks of the heap, and belong to us.
            unsafe { block.copy_to_nonoverlapping(NonNull::new_unchecked(to), size) };
        };
        let shelf = &self.shared.shelves[class.index()];
        // SAFETY: by the caller's promise.
        let moved = unsafe { shelf.relocate(class, &self.shared.pool, block.addr().get(), copy)? };
        NonNull::new(std::ptr::with_exposed_provenance_mut(moved))
    }

    /// A block like `block`, but in a fuller page; `block` stays in use: for what cannot be moved at once.
    ///
    /// # Safety
    /// `block` is in use, came from this heap, and `size` has its usable length.
    pub unsafe fn alloc_denser(&mut self, block: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
        let class = Class::of(size)?;
        // SAFETY: by the caller's promise.
        let taken = unsafe { self.shared.shelves[class.index()].take_denser(class, block.addr().get())? };
        self.counters.allocated(size, class.size());
        NonNull::new(std::ptr::with_exposed_provenance_mut(taken))
    }

    /// Gives all free blocks kept at hand back to their pages, because they keep pages from becoming empty. It is for a
    /// worker that goes to sleep, and for the end of a pass of defragmenting. Takes up to some hundred microseconds.
    pub fn flush(&mut self) {
        for (class, magazine) in Class::all().zip(&mut self.magazines) {
            let blocks = &magazine.blocks[..std::mem::take(&mut magazine.len)];
            if !blocks.is_empty() {
                // SAFETY: the blocks belonged to the magazine alone, which is empty now, and are of this class.
                unsafe { self.shared.shelves[class.index()].flush(class, &self.shared.pool, blocks) };
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn refill(shared: &Shared, class: Class, magazine: &mut Magazine) {
        let mut got = 0;
        let want = class.magazine() / 2;
        shared.shelves[class.index()].refill(class, &shared.pool, want, |block| {
            magazine.blocks[got] = block;
            got += 1;
        });
        if got == 0 {
            handle_alloc_error(Layout::new::<[u8; 4096]>());
        }
        // Pages hand out ascending addresses; magazines are used from the end.
        magazine.blocks[..got].reverse();
        magazine.len = got;
    }

    /// # Safety
    /// The magazine is full and its blocks are of this class.
    #[cold]
    #[inline(never)]
    unsafe fn flush_half(shared: &Shared, class: Class, magazine: &mut Magazine) {
        // The oldest go: they are the coldest.
        let half = class.magazine().div_ceil(2);
        // SAFETY: by the caller's promise; they leave the magazine below.
        unsafe { shared.shelves[class.index()].flush(class, &shared.pool, &magazine.blocks[..half]) };
        magazine.blocks.copy_within(half..magazine.len, 0);
        magazine.len -= half;
    }

    #[cold]
    fn alloc_large(&mut self, size: usize) -> NonNull<u8> {
        let usable = super::usable(size);
        let Ok(layout) = Layout::from_size_align(usable, 8) else {
            // More than the address space.
            handle_alloc_error(Layout::new::<[u8; 4096]>())
        };
        self.counters.allocated(size, 0);
        self.counters.large_changed(usable as isize);
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { std::alloc::alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// # Safety
    /// As for [`LocalHeap::free`], and `size` is that of a large block.
    #[cold]
    unsafe fn free_large(&mut self, block: NonNull<u8>, size: usize) {
        let usable = super::usable(size);
        self.counters.freed(size, 0);
        self.counters.large_changed(-(usable as isize));
        // SAFETY: `alloc_large` allocated the block with this layout, which was valid then.
        unsafe { std::alloc::dealloc(block.as_ptr(), Layout::from_size_align_unchecked(usable, 8)) };
    }
}

impl Drop for LocalHeap {
    fn drop(&mut self) {
        self.flush();
        self.shared.registry.remove(&self.counters);
    }
}
