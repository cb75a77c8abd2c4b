//! The global allocator, counted: `used_memory` is the memory in use, not the memory that the allocator holds.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use mimalloc::MiMalloc;

mod group;
mod mapped;

pub use group::limit as group_limit;

/// mimalloc with a count of the bytes in use.
pub struct Counted;

/// The sum of what the ledgers have reported.
static REPORTED: AtomicI64 = AtomicI64::new(0);
/// A thread reports when it has changed by this much: the error of the sum is at most this per thread.
const REPORT: i64 = 8 * 1024;

/// The bytes that a thread has allocated less those that it has freed; others read it. Each is on cache lines of its
/// own.
#[repr(align(128))]
struct Ledger(AtomicI64);

/// Threads with a ledger of their own. Ledgers are not used again when a thread ends: those of a server live as long as
/// it does.
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

/// Tries again for as long as the system refuses memory and there is a reserve to give up.
#[inline]
fn insist(mut attempt: impl FnMut() -> *mut u8) -> *mut u8 {
    loop {
        let p = attempt();
        if !p.is_null() || !headroom::release() {
            return p;
        }
    }
}

// SAFETY: every call goes to mimalloc unchanged, or for what is large, where the system limits memory, to `mapped`:
// which of them depends on the layout only.
unsafe impl GlobalAlloc for Counted {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        if mapped::is_meant(layout) {
            return insist(|| mapped::map(layout.size()));
        }
        // SAFETY: the caller's promise.
        insist(|| unsafe { MiMalloc.alloc(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        if mapped::is_meant(layout) {
            // SAFETY: mapped with this size.
            return unsafe { mapped::unmap(p, layout.size()) };
        }
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.dealloc(p, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        if mapped::is_meant(layout) {
            return insist(|| mapped::map_zeroed(layout.size()));
        }
        // SAFETY: the caller's promise.
        insist(|| unsafe { MiMalloc.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_meant = |size| mapped::is_meant_at(size, layout.align());
        match (is_meant(layout.size()), is_meant(size)) {
            (false, false) => {
                count(size as i64 - layout.size() as i64);
                // SAFETY: the caller's promise.
                insist(|| unsafe { MiMalloc.realloc(p, layout, size) })
            }
            (true, true) => {
                count(size as i64 - layout.size() as i64);
                // SAFETY: mapped with the size of the layout.
                insist(|| unsafe { mapped::remap(p, layout.size(), size) })
            }
            // SAFETY: the caller's promise; both blocks have at least so many bytes, and are different ones.
            _ => unsafe {
                let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                if !new.is_null() {
                    std::ptr::copy_nonoverlapping(p, new, layout.size().min(size));
                    self.dealloc(p, layout);
                }
                new
            },
        }
    }
}

/// True if the allocator has a block of so many bytes without the reserve: takes it, and gives it back untouched.
pub fn has_block(bytes: usize) -> bool {
    mapped::is_there(bytes)
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

/// A number of `/proc/self/statm` in bytes, or 0 where the system does not say. Some microseconds.
fn statm(word: usize) -> u64 {
    static STATM: LazyLock<Option<File>> = LazyLock::new(|| File::open("/proc/self/statm").ok());
    // SAFETY: asks for a number.
    static PAGE: LazyLock<u64> =
        LazyLock::new(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.try_into().unwrap_or(4096));
    let mut text = [0; 128];
    let read = STATM.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
    let words = std::str::from_utf8(&text[..read]).unwrap_or_default();
    words.split(' ').nth(word).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * *PAGE
}

/// Resident bytes of the process.
pub fn resident() -> u64 {
    statm(1)
}

/// Bytes of address space that the process has, as RLIMIT_AS counts them.
pub fn address_space() -> u64 {
    statm(0)
}

/// Bytes of private writable mappings and stacks, about as RLIMIT_DATA counts them.
pub fn data() -> u64 {
    statm(5)
}

/// `mi_option_arena_reserve`: how much address space mimalloc takes at a time, in KB.
#[cfg(test)]
const ARENA_RESERVE: libc::c_int = 23;
/// `mi_option_disallow_arena_alloc`: every page is a mapping of its own, which goes back when it is free.
const NO_ARENAS: libc::c_int = 26;
/// `mi_option_purge_delay`: for so many milliseconds free pages stay resident, at least.
const PURGE_DELAY: libc::c_int = 15;
/// The delay that [`give_back_soon`] sets.
const SOON_MS: libc::c_long = 10;

unsafe extern "C" {
    fn mi_heap_new() -> *mut libc::c_void;
    fn mi_heap_collect(heap: *mut libc::c_void, force: bool);
    fn mi_option_set(option: libc::c_int, value: libc::c_long);
    #[cfg(test)]
    fn mi_option_get(option: libc::c_int) -> libc::c_long;
}

/// Before the first allocation that is large: no memory comes in huge pages, of which little may be used, until the
/// settings say otherwise. Where the system limits memory, large blocks are not mimalloc's. Under a limit of the
/// address space, mimalloc takes only the memory that it needs, and gives the rest back. Otherwise it takes a gigabyte
/// at a time and keeps it.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static SAVE_MEMORY: extern "C" fn() = {
    extern "C" fn save() {
        // SAFETY: changes a property of the process, and takes no pointers.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        let limit = |which| {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the pointer is to a valid value of ours, which the call fills.
            let read = unsafe { libc::getrlimit(which, &raw mut limit) } == 0;
            if read { limit.rlim_cur } else { libc::RLIM_INFINITY }
        };
        let limit = limit(libc::RLIMIT_AS).min(limit(libc::RLIMIT_DATA));
        if limit != libc::RLIM_INFINITY {
            // SAFETY: sets a number.
            unsafe { mi_option_set(NO_ARENAS, 1) };
        }
        let limit = limit.min(group_limit().unwrap_or(u64::MAX));
        if limit != libc::RLIM_INFINITY {
            mapped::begin(limit);
        }
    }
    save
};

/// Makes mimalloc give free pages back after some milliseconds instead of a second: until then data cannot use the
/// memory that checkpoints and compaction have freed.
pub fn give_back_soon() {
    // SAFETY: sets a number.
    unsafe { mi_option_set(PURGE_DELAY, SOON_MS) };
}

/// Makes mimalloc give the free memory of all threads back at once. After [`give_back_soon`] it does so only when a
/// thread has allocated a lot.
pub fn give_back() {
    mapped::drop_spares();
    // A heap without blocks: to collect a thread's own one is to look at each of its pages.
    static NOBODYS: LazyLock<usize> = LazyLock::new(|| {
        // SAFETY: takes nothing.
        unsafe { mi_heap_new() as usize }
    });
    let heap = *NOBODYS as *mut libc::c_void;
    if !heap.is_null() {
        // SAFETY: the heap was made above and is never deleted. With mimalloc 3, which this is, any thread may collect
        // it (it works on a part of its own).
        unsafe { mi_heap_collect(heap, true) };
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use store::{Batch, Embedded, Store};

    use super::*;

    /// The bytes that the calling thread has allocated less those that it has freed.
    fn in_use_by_this_thread() -> u64 {
        ACCOUNT
            .with(|account| LEDGERS.get(account.ledger.get()).map_or(0, |ledger| ledger.0.load(Relaxed).max(0) as u64))
    }

    /// Compaction kept one block in memory for each block that it had written to a table. With values as large as a
    /// block that compress well, that was many times the size of the table.
    #[test]
    fn compaction_keeps_no_more_in_memory_than_a_table() {
        const VALUE: usize = 20_000;
        const BATCHES: usize = 12;
        const KEYS: usize = 100;
        let folder = std::env::temp_dir().join(format!("holdfast-compaction-{}", std::process::id()));
        let most = Arc::new(AtomicU64::new(0));
        // Compaction asks for the time again and again, on its own thread.
        let seen = most.clone();
        let clock = Arc::new(move || {
            if std::thread::current().name() == Some("store") {
                seen.fetch_max(in_use_by_this_thread(), Relaxed);
            }
            Duration::ZERO
        });
        let limits = store::Limits {
            memory: 64 << 20,
            cache: 1 << 20,
            table: 2 << 20,
            compaction_per_second: u64::MAX,
            ..store::Limits::default()
        };
        let store = Embedded::open(&folder, &store::Settings { node: [7; 16], at_least: 0, limits, clock }).unwrap();
        for n in 0..BATCHES {
            let mut batch = Batch::new();
            for key in 0..KEYS {
                let key = format!("a key that is too long to be kept inline {:06}", key * BATCHES + n);
                batch.put(key.as_bytes(), key.repeat(VALUE / key.len()).as_bytes());
            }
            store.write(&batch).unwrap();
            store.flush().unwrap();
        }
        store.settle();
        let compacted = store.figures().compactions;
        drop(store);
        std::fs::remove_dir_all(&folder).unwrap();
        let (most, all) = (most.load(Relaxed), (BATCHES * KEYS * VALUE) as u64);
        assert!(compacted > 0 && most > 0, "nothing was compacted");
        assert!(most < all / 4, "compaction held {most} bytes of {all}");
    }

    #[test]
    fn the_allocators_option_is_the_one_that_is_meant() {
        // SAFETY: reads numbers.
        let found = unsafe { (mi_option_get(ARENA_RESERVE), mi_option_get(NO_ARENAS), mi_option_get(PURGE_DELAY)) };
        assert_eq!(found, (1 << 20, 0, 1000), "1 GB in KB, a second in milliseconds");
        assert!(address_space() >= resident() && data() > 0);
    }
}
