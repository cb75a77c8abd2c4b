//! The pages of one size class, shared by all workers.
//!
//! Workers come here a magazine's half at a time, so the lock is off the common path. All workers share the pages,
//! because any worker frees what any other allocated. Pages owned by workers would see most frees from other workers,
//! and every worker would hold a partly filled page per class.
//!
//! Pages with free blocks are listed in rows by how full they are. Blocks are taken from the fullest row, so that the
//! sparse pages drain.

use std::{
    ptr::NonNull,
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{
    chunk::page_of,
    class::Class,
    exchange::{Exchange, Link},
    page::{PageList, PageRef},
    pool::Pool,
};

/// Rows of pages with free blocks, from sparse to nearly full.
const ROWS: usize = 8;
/// The row number of pages without free blocks, which are not listed.
const FULL: usize = ROWS;
/// A class whose share of free blocks is below this is dense: none of its pages is worth draining.
const SPARSE_SHARE: usize = 16;

/// One class's pages.
#[derive(Default)]
#[repr(align(128))]
pub struct Shelf {
    rows: Mutex<[PageList; ROWS]>,
    exchange: Exchange,
    // Written under the lock, read without it.
    blocks: AtomicUsize,
    used: AtomicUsize,
    pages: AtomicUsize,
    pages_full: AtomicUsize,
}

/// Counts of one class; not a snapshot, since workers go on.
pub struct ShelfCounts {
    /// Pages of the class.
    pub pages: usize,
    /// Those without a free block.
    pub pages_full: usize,
    /// Blocks handed out.
    pub used: usize,
    /// Free blocks in pages.
    pub free: usize,
}

type Rows<'a> = MutexGuard<'a, [PageList; ROWS]>;

impl Shelf {
    /// Hands out up to `want` blocks, at least one unless the system refuses memory.
    pub fn refill(&self, class: Class, pool: &Pool, want: usize, mut out: impl FnMut(usize)) {
        let mut got = 0;
        let mut rows = self.try_lock();
        // Blocks that were freed while the lock was busy are as good as those from a page, with or without the lock.
        let mut chain = self.exchange.take();
        while got < want
            && let Some(block) = pop(&mut chain)
        {
            out(block);
            got += 1;
        }
        if got > 0 && rows.is_none() {
            self.push_back(chain);
            return;
        }
        let mut rows = rows.take().unwrap_or_else(|| self.lock());
        let mut empty = PageList::default();
        while let Some(block) = pop(&mut chain) {
            self.put(&mut rows, class, block, &mut empty);
        }
        while got < want {
            let Some(page) = fullest(&rows).or_else(|| self.add_page(&mut rows, class, pool, got)) else { break };
            got += self.take(&mut rows, class, page, want - got, &mut out);
        }
        drop(rows);
        pool.give(class.page_kind(), &mut empty);
    }

    /// Takes free blocks back; does not wait for the lock.
    ///
    /// # Safety
    /// The blocks are of this class and heap, and the caller alone owns them and gives them up.
    pub unsafe fn flush(&self, class: Class, pool: &Pool, blocks: &[usize]) {
        let Some(mut rows) = self.try_lock() else {
            let mut chain = None;
            for &block in blocks {
                // SAFETY: by the caller's promise; blocks are at least 8 bytes, aligned to 4.
                unsafe { link(&mut chain, block) };
            }
            self.push_back(chain);
            return;
        };
        let mut empty = PageList::default();
        for &block in blocks {
            self.put(&mut rows, class, block, &mut empty);
        }
        let mut chain = self.exchange.take();
        while let Some(block) = pop(&mut chain) {
            self.put(&mut rows, class, block, &mut empty);
        }
        drop(rows);
        pool.give(class.page_kind(), &mut empty);
    }

    /// True if moving this block elsewhere would help to empty a page. That is so if the class has more than a
    /// sixteenth of its blocks (and a page's worth) free, and the block's page is emptier than the class's mean. Takes
    /// no lock.
    ///
    /// # Safety
    /// `block` is in use, of this class and heap.
    pub unsafe fn is_sparse(&self, block: usize) -> bool {
        let (all, used) = (self.blocks.load(Relaxed), self.used.load(Relaxed));
        let free = all.saturating_sub(used);
        if free * SPARSE_SHARE <= all {
            return false;
        }
        // SAFETY: by the caller's promise.
        let page = unsafe { page_of(block) };
        let capacity = page.capacity();
        free > capacity && (page.used() as u128) * (all as u128) < (used as u128) * (capacity as u128)
    }

    /// Takes a block from the fullest page, if that is another and not emptier page than `block`'s, lets `copy` move
    /// the contents (from, to), and takes `block` back. None if there is no such page, or if another thread has the
    /// lock.
    ///
    /// # Safety
    /// `block` is in use, of this class and heap; the caller alone owns it, and gives it up if a new block comes back.
    pub unsafe fn relocate(&self, class: Class, pool: &Pool, block: usize, copy: impl FnOnce(usize)) -> Option<usize> {
        // SAFETY: by the caller's promise.
        let from = unsafe { page_of(block) };
        let mut rows = self.try_lock()?;
        let to = fullest(&rows).filter(|to| *to != from && to.row() >= from.row())?;
        let mut moved = None;
        self.take(&mut rows, class, to, 1, &mut |to| moved = Some(to));
        copy(moved?);
        let mut empty = PageList::default();
        self.put(&mut rows, class, block, &mut empty);
        drop(rows);
        pool.give(class.page_kind(), &mut empty);
        moved
    }

    /// A block from the fullest page, if that is another and not emptier page than `block`'s; `block` stays in use.
    /// None if there is no such page, or if another thread has the lock.
    ///
    /// # Safety
    /// `block` is in use, of this class and heap.
    pub unsafe fn take_denser(&self, class: Class, block: usize) -> Option<usize> {
        // SAFETY: by the caller's promise.
        let from = unsafe { page_of(block) };
        let mut rows = self.try_lock()?;
        let to = fullest(&rows).filter(|to| *to != from && to.row() >= from.row())?;
        let mut taken = None;
        self.take(&mut rows, class, to, 1, &mut |block| taken = Some(block));
        taken
    }

    /// Counts, without the lock.
    pub fn counts(&self) -> ShelfCounts {
        let used = self.used.load(Relaxed);
        ShelfCounts {
            pages: self.pages.load(Relaxed),
            pages_full: self.pages_full.load(Relaxed),
            used,
            free: self.blocks.load(Relaxed).saturating_sub(used),
        }
    }

    fn take(
        &self,
        rows: &mut Rows<'_>,
        class: Class,
        page: PageRef,
        want: usize,
        out: &mut impl FnMut(usize),
    ) -> usize {
        let taken = page.take(class, want, |block: NonNull<u8>| out(block.addr().get()));
        add(&self.used, taken);
        self.list(rows, page, page.row());
        taken
    }

    fn put(&self, rows: &mut Rows<'_>, class: Class, block: usize, empty: &mut PageList) {
        // SAFETY: blocks reach this only through `flush` and `relocate`, whose callers promise it.
        let page = unsafe { page_of(block) };
        page.put(class, block);
        sub(&self.used, 1);
        let old = page.row();
        if page.used() > 0 {
            self.list(rows, page, old);
            return;
        }
        if old == FULL {
            sub(&self.pages_full, 1);
        } else {
            rows[old].remove(page);
        }
        sub(&self.pages, 1);
        sub(&self.blocks, page.capacity());
        empty.push(page);
    }

    fn add_page(&self, rows: &mut Rows<'_>, class: Class, pool: &Pool, got: usize) -> Option<PageRef> {
        // Only a caller that has nothing yet gets a fresh page: a class of few entries does not grow for a magazine.
        if got > 0 {
            return None;
        }
        let page = pool.take(class.page_kind())?;
        page.assign(class);
        page.set_row(0);
        rows[0].push(page);
        add(&self.pages, 1);
        add(&self.blocks, page.capacity());
        Some(page)
    }

    /// Moves a page from row `old` to the one for its present number of used blocks.
    fn list(&self, rows: &mut Rows<'_>, page: PageRef, old: usize) {
        let new = page.used() * ROWS / page.capacity();
        if new == old {
            return;
        }
        if old == FULL {
            sub(&self.pages_full, 1);
        } else {
            rows[old].remove(page);
        }
        if new == FULL {
            add(&self.pages_full, 1);
        } else {
            rows[new].push(page);
        }
        page.set_row(new);
    }

    /// Leaves a chain for the next who has the lock.
    fn push_back(&self, chain: Option<NonNull<Link>>) {
        let Some(first) = chain else { return };
        let mut last = first;
        // SAFETY: the chain is ours alone until it is pushed, and its links are initialised.
        unsafe {
            while let Some(next) = NonNull::new(last.as_ref().next) {
                last = next;
            }
            self.exchange.push(first, last);
        }
    }

    fn lock(&self) -> Rows<'_> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<Rows<'_>> {
        match self.rows.try_lock() {
            Ok(rows) => Some(rows),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

fn fullest(rows: &Rows<'_>) -> Option<PageRef> {
    rows.iter().rev().find_map(PageList::head)
}

/// Puts a free block in front of a chain.
///
/// # Safety
/// The caller alone owns the block.
unsafe fn link(chain: &mut Option<NonNull<Link>>, block: usize) {
    let next = chain.map_or(std::ptr::null_mut(), NonNull::as_ptr);
    let first = std::ptr::with_exposed_provenance_mut::<Link>(block);
    // SAFETY: at least 8 bytes, aligned to 4 as a link is, inside a chunk whose provenance is exposed, and owned by the
    // caller.
    unsafe { first.write(Link { next }) };
    *chain = NonNull::new(first);
}

/// Takes the first block out of a chain that this thread owns.
fn pop(chain: &mut Option<NonNull<Link>>) -> Option<usize> {
    let first = (*chain)?;
    // SAFETY: chains come from `Exchange::take`, which makes this thread their only owner.
    *chain = NonNull::new(unsafe { first.as_ref() }.next);
    Some(first.addr().get())
}

// Counters change only under the lock: a plain load and store will do.

fn add(counter: &AtomicUsize, n: usize) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

fn sub(counter: &AtomicUsize, n: usize) {
    counter.store(counter.load(Relaxed) - n, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While another thread holds the lock, freeing does not wait, and the freed blocks can be had without the lock.
    #[test]
    fn a_busy_shelf_passes_blocks_on() {
        let class = Class::of(100).expect("a small size");
        let (pool, shelf) = (Pool::default(), Shelf::default());
        let mut blocks = Vec::new();
        shelf.refill(class, &pool, 6, |block| blocks.push(block));
        assert_eq!(blocks.len(), 6);

        let busy = shelf.lock();
        // SAFETY: taken above, and given up here, each once.
        unsafe {
            shelf.flush(class, &pool, &blocks[..3]);
            shelf.flush(class, &pool, &blocks[3..5]);
            assert_eq!(shelf.relocate(class, &pool, blocks[5], |_| unreachable!()), None);
        }
        let mut again = Vec::new();
        shelf.refill(class, &pool, 2, |block| again.push(block));
        assert_eq!(again.len(), 2);
        drop(busy);

        // Blocks in transit go to the next holder of the lock, the rest to the pages.
        shelf.refill(class, &pool, 1, |block| again.push(block));
        assert_eq!(shelf.used.load(Relaxed), 4, "three out again, and the last of the first six");
        assert!(again.iter().all(|block| blocks.contains(block)));
        again.push(blocks[5]);
        // SAFETY: as above.
        unsafe { shelf.flush(class, &pool, &again) };
        assert_eq!((shelf.used.load(Relaxed), shelf.counts().pages), (0, 0));
        assert_eq!(pool.bytes().assigned, 0);
    }
}
