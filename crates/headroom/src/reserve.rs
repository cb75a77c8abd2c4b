//! Address space that is kept for the moment when the system gives no more. It has two pieces, so that one emergency
//! leaves another piece.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use crate::{PIECE, TIGHT, limit, margin};

static PIECES: [AtomicPtr<libc::c_void>; 2] = [const { AtomicPtr::new(null_mut()) }; 2];

static REFUSALS: AtomicU64 = AtomicU64::new(0);

/// How often the system has refused memory.
pub fn refusals() -> u64 {
    REFUSALS.load(SeqCst)
}

/// Bytes of a piece: the largest possible block fits.
fn piece() -> usize {
    (limit() / PIECE).next_multiple_of(1 << 20) as usize
}

/// Bytes of the reserve that are mapped. The process does not use them.
pub fn mapped() -> u64 {
    if limit() == u64::MAX {
        return 0;
    }
    PIECES.iter().filter(|piece| !piece.load(SeqCst).is_null()).count() as u64 * piece() as u64
}

/// Bytes of the reserve that are not mapped, because they were given up.
pub fn missing() -> u64 {
    if limit() == u64::MAX { 0 } else { PIECES.len() as u64 * piece() as u64 - mapped() }
}

/// The system has refused memory: gives a piece of the reserve back to it. Returns true if there was one, so that
/// another try is worthwhile.
#[cold]
pub fn release() -> bool {
    if limit() == u64::MAX {
        return false;
    }
    REFUSALS.fetch_add(1, SeqCst);
    TIGHT.store(true, Relaxed);
    let Some(piece_at) = PIECES.iter().map(|piece| piece.swap(null_mut(), SeqCst)).find(|at| !at.is_null()) else {
        return false;
    };
    // SAFETY: mapped by `restock` with this length, never touched, and nobody else has taken it.
    unsafe { libc::munmap(piece_at, piece()) == 0 }
}

/// Maps the missing pieces of the reserve, as long as a margin is left besides. `in_use`: bytes of the limit that are
/// mapped without the reserve.
pub fn restock(in_use: u64) {
    if limit() == u64::MAX {
        return;
    }
    for place in &PIECES {
        let free = limit().saturating_sub(in_use + mapped());
        if !place.load(SeqCst).is_null() || in_use > 0 && free < piece() as u64 + margin(limit()) / 8 {
            continue;
        }
        // Private and writable, so that it counts by all limits. No page of it is ever touched.
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new anonymous mapping, at an address of the kernel's choice, touches no existing memory.
        let at = unsafe { libc::mmap(null_mut(), piece(), protection, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return;
        }
        if place.compare_exchange(null_mut(), at, SeqCst, SeqCst).is_err() {
            // Another thread came first.
            // SAFETY: just mapped with this length, and nobody has seen it.
            unsafe { libc::munmap(at, piece()) };
        }
    }
}
