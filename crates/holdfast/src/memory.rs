//! The global allocator, counted: `used_memory` is what is in use, not what the allocator holds.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use mimalloc::MiMalloc;

/// mimalloc with a count of the bytes in use.
pub struct Counted;

/// The sum of what the ledgers have reported.
static REPORTED: AtomicI64 = AtomicI64::new(0);
/// A thread reports when it has changed by this much: the error of the sum is at most this per thread.
const REPORT: i64 = 8 * 1024;

/// What a thread has allocated less what it has freed; others read it. Each on lines of its own.
#[repr(align(128))]
struct Ledger(AtomicI64);

/// Threads with a ledger of their own. Ledgers are not used again when a thread ends: those of a server live as long as it does.
const OWN: usize = 255;
/// The last one is shared by all further threads.
static LEDGERS: [Ledger; OWN + 1] = [const { Ledger(AtomicI64::new(0)) }; OWN + 1];
/// Ledgers handed out, more than there are if threads share one.
static HANDED_OUT: AtomicUsize = AtomicUsize::new(0);

/// A thread's ledger, `NONE` before its first allocation, and what of it has not been reported.
struct Account {
    ledger: Cell<usize>,
    unreported: Cell<i64>,
}

const NONE: usize = usize::MAX;

thread_local! {
    static ACCOUNT: Account = const { Account { ledger: Cell::new(NONE), unreported: Cell::new(0) } };
}

#[inline]
fn count(change: i64) {
    ACCOUNT.with(|account| {
        let ledger = account.ledger.get();
        if ledger < OWN {
            // Only this thread writes it: no locked instruction.
            let own = &LEDGERS[ledger].0;
            own.store(own.load(Relaxed) + change, Relaxed);
        } else {
            count_shared(account, change);
        }
        let sum = account.unreported.get() + change;
        let report = sum.abs() >= REPORT;
        account.unreported.set(if report { 0 } else { sum });
        if report {
            REPORTED.fetch_add(sum, Relaxed);
        }
    });
}

/// The first change of a thread, and all of one that shares its ledger.
#[cold]
fn count_shared(account: &Account, change: i64) {
    if account.ledger.get() == NONE {
        account.ledger.set(HANDED_OUT.fetch_add(1, Relaxed).min(OWN));
    }
    LEDGERS[account.ledger.get()].0.fetch_add(change, Relaxed);
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

/// Bytes in use. Sums a counter per thread.
pub fn in_use() -> u64 {
    let ledgers = &LEDGERS[..HANDED_OUT.load(Relaxed).min(LEDGERS.len())];
    ledgers.iter().map(|ledger| ledger.0.load(Relaxed)).sum::<i64>().max(0) as u64
}

/// Bytes in use but for 8 KB per thread: one load.
pub fn in_use_about() -> u64 {
    REPORTED.load(Relaxed).max(0) as u64
}

/// Resident bytes of the process, or 0 where the system does not say. Some microseconds.
pub fn resident() -> u64 {
    static STATM: LazyLock<Option<File>> = LazyLock::new(|| File::open("/proc/self/statm").ok());
    // SAFETY: asks for a number.
    static PAGE: LazyLock<u64> =
        LazyLock::new(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.try_into().unwrap_or(4096));
    let mut text = [0; 128];
    let read = STATM.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
    let words = std::str::from_utf8(&text[..read]).unwrap_or_default();
    words.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * *PAGE
}

/// Bytes of the process that the system has swapped out, or 0 where it does not say. Some tens of microseconds.
pub fn swapped() -> u64 {
    static STATUS: LazyLock<Option<File>> = LazyLock::new(|| File::open("/proc/self/status").ok());
    let mut text = [0; 4096];
    let read = STATUS.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..read]);
    let line = text.lines().find_map(|line| line.strip_prefix("VmSwap:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}
