//! Figures of the heap: counters per worker, summed on demand, and the figures made from them.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// A worker reports to the common figure when it has changed by this many bytes.
const REPORT: u64 = 16 * 1024;

/// One worker's counters: bytes it allocated less bytes it freed. A worker that frees what others allocated goes below
/// zero, so they wrap; only the sum means something.
#[derive(Default)]
#[repr(align(128))]
pub struct Counters {
    /// The part of `in_pages` that has been reported.
    reported: AtomicU64,
    /// The figures that all workers have reported.
    common: Arc<Common>,
    /// Blocks in pages, by the length of their class, but for those that are retired.
    in_pages: AtomicU64,
    /// Blocks, by the bytes asked for.
    requested: AtomicU64,
    /// Blocks that came from the global allocator.
    large: AtomicU64,
}

/// The sum of some counters, in bytes.
#[derive(Clone, Copy, Default)]
pub struct Totals {
    /// Blocks in pages, by the length of their class, but for those that are retired.
    pub in_pages: u64,
    /// Blocks, by the bytes asked for.
    pub requested: u64,
    /// Blocks that came from the global allocator.
    pub large: u64,
}

/// On a line of its own: rarely written, and read by each caller that asks how much memory is in use.
#[derive(Default)]
#[repr(align(128))]
struct Common(AtomicU64);

impl Counters {
    #[inline]
    fn set_in_pages(&self, live: u64) {
        self.in_pages.store(live, Relaxed);
        // Between -REPORT and REPORT.
        if live.wrapping_sub(self.reported.load(Relaxed)).wrapping_add(REPORT) > 2 * REPORT {
            self.report(live);
        }
    }

    #[cold]
    fn report(&self, live: u64) {
        self.common.0.fetch_add(live.wrapping_sub(self.reported.load(Relaxed)), Relaxed);
        self.reported.store(live, Relaxed);
    }

    /// Counts an allocation; `usable` is 0 for one outside pages. Only the owning worker calls this.
    #[inline]
    pub fn allocated(&self, requested: usize, usable: usize) {
        self.set_in_pages(self.in_pages.load(Relaxed).wrapping_add(usable as u64));
        self.requested.store(self.requested.load(Relaxed).wrapping_add(requested as u64), Relaxed);
    }

    /// Counts a release. Only the owning worker calls this.
    #[inline]
    pub fn freed(&self, requested: usize, usable: usize) {
        self.set_in_pages(self.in_pages.load(Relaxed).wrapping_sub(usable as u64));
        self.requested.store(self.requested.load(Relaxed).wrapping_sub(requested as u64), Relaxed);
    }

    /// Counts a block in a page as free that will be as soon as nobody can be reading it. Only the owning worker calls
    /// this.
    #[inline]
    pub fn retired(&self, usable: usize) {
        self.set_in_pages(self.in_pages.load(Relaxed).wrapping_sub(usable as u64));
    }

    /// Takes [`Self::retired`] back: the block, of `usable` bytes, is freed next.
    #[inline]
    pub fn retired_freed(&self, usable: usize) {
        self.set_in_pages(self.in_pages.load(Relaxed).wrapping_add(usable as u64));
    }

    /// Counts a change of the bytes that came from the global allocator. Only the owning worker calls this.
    pub fn large_changed(&self, by: isize) {
        self.large.store(self.large.load(Relaxed).wrapping_add_signed(by as i64), Relaxed);
    }

    fn add_to(&self, totals: &mut Totals) {
        totals.in_pages = totals.in_pages.wrapping_add(self.in_pages.load(Relaxed));
        totals.requested = totals.requested.wrapping_add(self.requested.load(Relaxed));
        totals.large = totals.large.wrapping_add(self.large.load(Relaxed));
    }
}

/// The counters of all workers, present and past.
#[derive(Default)]
pub struct Registry {
    workers: Mutex<(Vec<Arc<Counters>>, Totals)>,
    common: Arc<Common>,
}

impl Registry {
    /// Counters for one more worker.
    pub fn add(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters { common: self.common.clone(), ..Counters::default() });
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).0.push(Arc::clone(&counters));
        counters
    }

    /// About the sum of `in_pages`: 16 KB per worker may be missing or too much.
    #[inline]
    pub fn in_pages_about(&self) -> usize {
        // Below zero when one worker has reported what it freed and another not yet what it allocated.
        (self.common.0.load(Relaxed) as i64).max(0) as usize
    }

    /// The worker is gone; what it counted stays.
    pub fn remove(&self, gone: &Arc<Counters>) {
        gone.report(gone.in_pages.load(Relaxed));
        let (counters, past) = &mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = counters.iter().position(|c| Arc::ptr_eq(c, gone)) {
            counters.swap_remove(at).add_to(past);
        }
    }

    /// The sum.
    pub fn totals(&self) -> Totals {
        let (counters, past) = &*self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = *past;
        counters.iter().for_each(|c| c.add_to(&mut totals));
        totals
    }
}

/// Figures of a heap, in bytes unless said otherwise. Exact when no worker is allocating, close otherwise.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Blocks in use, each counted with its usable length.
    pub live: usize,
    /// Blocks in use, each counted with the length asked for.
    pub requested: usize,
    /// The part of `live` that lies outside pages, in the global allocator.
    pub large: usize,
    /// Held from the system: pages with blocks, empty pages ready for use, headers, large blocks. The untouched rest
    /// of fresh pages is counted though it is not resident yet.
    pub held: usize,
    /// The part of `held` that lies in empty pages ready for use.
    pub ready: usize,
    /// Addresses kept for empty pages whose memory was given back or never used.
    pub returned: usize,
    /// Free blocks in pages that have others in use; not counting those that workers keep at hand.
    pub free_in_pages: usize,
    /// Number of pages without a free block.
    pub pages_full: usize,
    /// Number of pages with free blocks and others in use.
    pub pages_partial: usize,
}
