//! The global allocator, counted: `used_memory` is what is in use, not what the allocator holds.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use mimalloc::MiMalloc;

/// mimalloc with a count of the bytes in use.
pub struct Counted;

/// Bytes in use, but for what threads have not reported yet.
static IN_USE: AtomicI64 = AtomicI64::new(0);
/// A thread reports when it has changed by this much: the error of the sum is at most this per thread.
const REPORT: i64 = 8 * 1024;

thread_local! {
    static UNREPORTED: Cell<i64> = const { Cell::new(0) };
}

#[inline]
fn count(change: i64) {
    // A thread that is ending has no cell any more; its last frees are reported one by one.
    let reported = UNREPORTED.try_with(|cell| {
        let sum = cell.get() + change;
        if sum.abs() < REPORT {
            cell.set(sum);
            0
        } else {
            cell.set(0);
            sum
        }
    });
    let sum = reported.unwrap_or(change);
    if sum != 0 {
        IN_USE.fetch_add(sum, Relaxed);
    }
}

// SAFETY: every call goes to mimalloc unchanged.
unsafe impl GlobalAlloc for Counted {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.dealloc(p, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.realloc(p, layout, size) }
    }
}

/// Bytes in use.
pub fn in_use() -> u64 {
    IN_USE.load(Relaxed).max(0) as u64
}

/// Resident bytes of the process, or 0 where the system does not say.
pub fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
