//! The heap for entries: key, header and small value of an entry are one block of it.
//!
//! It is made for entries, so that fragmentation is under control. The caller that frees a block knows its size, so
//! blocks need no header. Classes are fine ([`class`]). Blocks may be moved under their slot's latch
//! ([`Heap::is_sparse`], [`LocalHeap::relocate`]), so that a change of sizes leaves no sparse pages behind.
//!
//! From the inside out: a [`source`] maps chunks of 4 MB. A [`chunk`] is cut into [`page`]s of 64 or 256 KB. Empty
//! pages are in the [`pool`]. The others are on the [`shelf`] of their size class, shared by all workers under a lock
//! per class. A worker's [`local`] heap keeps a magazine of free blocks per class and visits shelves half a magazine at
//! a time. A worker that finds a shelf locked leaves what it frees in the class's lock-free [`exchange`].
//!
//! Order of locks: shelf, then pool. Nothing else is locked, called back or waited for under them.

mod chunk;
mod class;
mod exchange;
mod local;
mod page;
mod pool;
mod shelf;
mod source;
mod stats;
mod sync;
#[cfg(test)]
mod tests;

use std::{ptr::NonNull, sync::Arc};

use class::Class;
pub use local::LocalHeap;
use pool::Pool;
use shelf::Shelf;
use stats::Registry;
pub use stats::Stats;

/// A handle to the heap of a keyspace; clones share it.
///
/// The pages are unmapped when the last handle and the last [`LocalHeap`] are gone. Each owner of blocks keeps one.
/// Large blocks that were not freed leak then.
#[derive(Clone)]
pub struct Heap(Arc<Shared>);

struct Shared {
    shelves: Box<[Shelf]>,
    pool: Pool,
    registry: Registry,
}

/// Gives the memory of a range of bytes back to the system; they are zero afterwards. Only whole system pages inside
/// it.
///
/// # Safety
/// The range is allocated memory that its owner alone can reach and does not need the contents of.
pub unsafe fn give_back(start: NonNull<u8>, len: usize) {
    // SAFETY: by the caller's promise.
    unsafe { source::purge(start, len) }
}

/// Bytes that a block of `size` bytes really has: it may be overwritten in place, and freed, with any size that has
/// the same usable length.
#[inline]
pub const fn usable(size: usize) -> usize {
    match Class::of(size) {
        Some(class) => class.size(),
        None => size.saturating_add(7) & !7,
    }
}

impl Heap {
    /// An empty heap; takes memory from the system when first used.
    pub fn new() -> Self {
        let shelves = Class::all().map(|_| Shelf::default()).collect();
        Self(Arc::new(Shared { shelves, pool: Pool::default(), registry: Registry::default() }))
    }

    /// A worker's part of the heap.
    pub fn local(&self) -> LocalHeap {
        LocalHeap::new(Arc::clone(&self.0))
    }

    /// True if the block lies in a page of low occupancy, in a class that has many free blocks elsewhere, so that
    /// moving it ([`LocalHeap::relocate`]) would help to free the page. Takes no lock and touches no block.
    ///
    /// # Safety
    /// The block is in use, came from this heap, and `size` has its usable length.
    #[inline]
    pub unsafe fn is_sparse(&self, block: NonNull<u8>, size: usize) -> bool {
        // SAFETY: by the caller's promise.
        Class::of(size).is_some_and(|class| unsafe { self.0.shelves[class.index()].is_sparse(block.addr().get()) })
    }

    /// Gives the memory of up to `pages` empty pages back to the system: those above a bound of 512 KB and a 2048th of
    /// the memory in use. Returns false if more are left. Workers call it now and then. About 10 microseconds a page.
    pub fn trim(&self, pages: usize) -> bool {
        self.0.pool.trim(pages)
    }

    /// Gives the memory of up to `pages` empty pages back to the system, all if need be (MEMORY PURGE); returns the
    /// bytes.
    pub fn shrink(&self, pages: usize) -> usize {
        self.0.pool.shrink(0, pages)
    }

    /// Bytes of blocks in use, and of free blocks in pages with others in use, in the classes of these sizes.
    pub fn use_of_sizes(&self, sizes: impl Iterator<Item = usize>) -> (usize, usize) {
        sizes.filter_map(Class::of).fold((0, 0), |(used, free), class| {
            let counts = self.0.shelves[class.index()].counts();
            (used + counts.used * class.size(), free + counts.free * class.size())
        })
    }

    /// Bytes in use in pages, each block counted with its usable length; what has been retired is not. Larger blocks
    /// come from the global allocator, which counts them. Sums one counter per worker.
    pub fn in_pages(&self) -> usize {
        // Below zero for a moment when one worker has freed what another allocates just now.
        (self.0.registry.totals().in_pages as i64).max(0) as usize
    }

    /// [`Self::in_pages`] but for 16 KB per worker: one load of a line that rarely changes.
    #[inline]
    pub fn in_pages_about(&self) -> usize {
        self.0.registry.in_pages_about()
    }

    /// The figures of the heap. Takes about a microsecond.
    pub fn stats(&self) -> Stats {
        let totals = self.0.registry.totals();
        let pool = self.0.pool.bytes();
        let mut stats = Stats {
            live: totals.in_pages.wrapping_add(totals.large) as usize,
            requested: totals.requested as usize,
            large: totals.large as usize,
            held: pool.headers + pool.assigned + pool.ready + totals.large as usize,
            ready: pool.ready,
            returned: pool.returned,
            ..Stats::default()
        };
        for (class, shelf) in Class::all().zip(&self.0.shelves) {
            let counts = shelf.counts();
            stats.free_in_pages += counts.free * class.size();
            stats.pages_full += counts.pages_full;
            stats.pages_partial += counts.pages.saturating_sub(counts.pages_full);
        }
        stats
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}
