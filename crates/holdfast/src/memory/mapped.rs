//! Large blocks where the system limits memory: each is a mapping of its own. So it costs its own size, grows without a
//! copy, and goes back when it is free. An allocator keeps pages of many megabytes for each thread and size: a third of
//! the values that left memory stayed resident.
//!
//! Mapping and unmapping cost time, and page faults cost most. So a few freed blocks stay for later requests of the
//! same size.

use std::alloc::Layout;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

/// No block below this many bytes is one. A power of two, and so many pages that an eighth of it is whole ones.
const LEAST: usize = 64 << 10;
/// There may be so many blocks: the system limits the number of mappings, too.
const COUNT: u64 = 16 << 10;
/// Alignment of what is mapped.
const PAGE: usize = 4096;
/// Blocks of so many bytes or more never stay.
const SPARE_SIZE: usize = 1 << 20;
/// Spare blocks take at most this part of the limit.
const SPARE_PART: u64 = 128;
/// So many of a size stay.
const SPARES: usize = 4;
/// Sizes between a power of two and the next.
const STEPS: usize = 8;
const SIZES: usize = STEPS * (SPARE_SIZE.ilog2() - LEAST.ilog2()) as usize;

/// Blocks of so many bytes are mapped. Set before the first allocation that is as large, and never again.
static FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Bytes that spare blocks may take together.
static SPARE_MOST: AtomicUsize = AtomicUsize::new(0);
static SPARE: Spare = Spare::new();

/// Has large blocks mapped, as fits a limit of `limit` bytes. Before the first allocation of [`LEAST`] bytes.
pub fn begin(limit: u64) {
    FROM.store(usize::try_from(limit / COUNT).unwrap_or(usize::MAX).max(LEAST), Relaxed);
    SPARE_MOST.store(usize::try_from(limit / SPARE_PART).unwrap_or(usize::MAX), Relaxed);
}

#[inline]
pub fn is_meant(layout: Layout) -> bool {
    is_meant_at(layout.size(), layout.align())
}

/// As [`is_meant`], of an allocation of `size` bytes.
#[inline]
pub fn is_meant_at(size: usize, align: usize) -> bool {
    // The first comparison is all there is for most.
    size >= LEAST && size >= FROM.load(Relaxed) && align <= PAGE
}

/// Bytes of the mapping of a block: up to an eighth more, that is never touched and so not resident. Blocks of nearly
/// the same size take each other's place.
fn room(size: usize) -> usize {
    let step = (size.max(LEAST) / 2 + 1).next_power_of_two() / STEPS;
    size.checked_next_multiple_of(step).unwrap_or(size)
}

/// Blocks that were freed, by the bytes of their mappings.
struct Spare {
    places: [[AtomicPtr<u8>; SPARES]; SIZES],
    bytes: AtomicUsize,
}

impl Spare {
    const fn new() -> Self {
        Self { places: [const { [const { AtomicPtr::new(null_mut()) }; SPARES] }; SIZES], bytes: AtomicUsize::new(0) }
    }

    /// The places of mappings of so many bytes, as [`room`] has them.
    fn places(&self, room: usize) -> &[AtomicPtr<u8>] {
        if !(LEAST..SPARE_SIZE).contains(&room) {
            return &[];
        }
        let power = room.ilog2();
        let step = (room - (1 << power)) / ((1 << power) / STEPS);
        &self.places[STEPS * (power - LEAST.ilog2()) as usize + step]
    }

    /// A block of so many bytes; null if there is none.
    fn take(&self, room: usize) -> *mut u8 {
        for place in self.places(room) {
            if !place.load(Relaxed).is_null() {
                let block = place.swap(null_mut(), SeqCst);
                if !block.is_null() {
                    self.bytes.fetch_sub(room, Relaxed);
                    return block;
                }
            }
        }
        null_mut()
    }

    /// True if the block stays, and all that stay take no more than `most` bytes.
    fn keep(&self, block: *mut u8, room: usize, most: usize) -> bool {
        if self.bytes.fetch_add(room, Relaxed).saturating_add(room) <= most {
            let is_free = |place: &&AtomicPtr<u8>| place.load(Relaxed).is_null();
            for place in self.places(room).iter().filter(is_free) {
                if place.compare_exchange(null_mut(), block, SeqCst, Relaxed).is_ok() {
                    return true;
                }
            }
        }
        self.bytes.fetch_sub(room, Relaxed);
        false
    }

    /// Hands all of them to `f`, with the bytes of their mappings. Returns true if there were any.
    fn take_all(&self, mut f: impl FnMut(*mut u8, usize)) -> bool {
        let mut any = false;
        for size in 0..SIZES {
            let power = LEAST << (size / STEPS);
            let room = power + size % STEPS * (power / STEPS);
            loop {
                let block = self.take(room);
                if block.is_null() {
                    break;
                }
                f(block, room);
                any = true;
            }
        }
        any
    }
}

/// Gives all spare blocks back to the system. Returns true if there were any.
pub fn drop_spares() -> bool {
    // SAFETY: mapped with this size, and nobody has it.
    SPARE.take_all(|block, room| unsafe {
        libc::munmap(block.cast(), room);
    })
}

/// A new mapping; null if the system has none.
fn fresh(room: usize) -> *mut u8 {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    loop {
        // SAFETY: a new anonymous mapping, at an address of the kernel's choice, touches no existing memory.
        let at = unsafe { libc::mmap(null_mut(), room, protection, flags, -1, 0) };
        if at != libc::MAP_FAILED {
            return at.cast();
        }
        if !drop_spares() {
            return null_mut();
        }
    }
}

/// Bytes of any content; null if there are none.
#[cold]
pub fn map(size: usize) -> *mut u8 {
    let spare = SPARE.take(room(size));
    if spare.is_null() { fresh(room(size)) } else { spare }
}

/// Zeroed bytes; null if there are none.
#[cold]
pub fn map_zeroed(size: usize) -> *mut u8 {
    fresh(room(size))
}

/// Gives back an allocation of `size` bytes.
///
/// # Safety
/// `p` was mapped with this size, and is not used any more.
#[cold]
pub unsafe fn unmap(p: *mut u8, size: usize) {
    if SPARE.keep(p, room(size), SPARE_MOST.load(Relaxed)) {
        return;
    }
    // SAFETY: the caller's promise. It fails only where one mapping would become two too many: then the bytes are lost.
    unsafe { libc::munmap(p.cast(), room(size)) };
}

/// The same bytes in a block of another size; null, and nothing has happened, if there is none.
///
/// # Safety
/// `p` was mapped with size `old`; it is not used any more if this succeeds.
#[cold]
pub unsafe fn remap(p: *mut u8, old: usize, new: usize) -> *mut u8 {
    if room(old) == room(new) {
        return p;
    }
    // To copy costs less than the faults on what is new.
    let spare = SPARE.take(room(new));
    if !spare.is_null() {
        // SAFETY: the caller's promise; both blocks have at least so many bytes, and are different ones.
        unsafe {
            std::ptr::copy_nonoverlapping(p, spare, old.min(new));
            unmap(p, old);
        }
        return spare;
    }
    loop {
        // SAFETY: the caller's promise.
        let at = unsafe { libc::mremap(p.cast(), room(old), room(new), libc::MREMAP_MAYMOVE) };
        if at != libc::MAP_FAILED {
            return at.cast();
        }
        if !drop_spares() {
            return null_mut();
        }
    }
}

/// True if the system has a mapping for so many bytes: takes it, and gives it back untouched.
pub fn is_there(size: usize) -> bool {
    let room = room(size.max(1));
    let block = fresh(room);
    if !block.is_null() {
        // SAFETY: just mapped with this size, and nobody has seen it.
        unsafe { libc::munmap(block.cast(), room) };
    }
    !block.is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_its_bytes_as_it_grows_and_shrinks() {
        // One that shrinks will take the place of this one.
        assert!(SPARE.keep(map(70_000), room(70_000), usize::MAX));
        let block = map(100_000);
        // SAFETY: the block has these sizes in turn, and is used as long as it is there.
        unsafe {
            block.write_bytes(7, 100_000);
            let block = remap(block, 100_000, 50 << 20);
            assert!((0..100_000).all(|i| *block.add(i) == 7));
            assert_eq!(*block.add((50 << 20) - 1), 0);
            let block = remap(block, 50 << 20, 70_000);
            assert!((0..70_000).all(|i| *block.add(i) == 7));
            // A used block is kept, but is not handed out as zeroed.
            assert!(SPARE.keep(block, room(70_000), usize::MAX));
            let zeroed = map_zeroed(70_000);
            assert!(zeroed != block && (0..70_000).all(|i| *zeroed.add(i) == 0));
            unmap(zeroed, 70_000);
        }
        drop_spares();
        assert!(!drop_spares(), "all of them were given back");
        assert!(map(isize::MAX as usize).is_null() && !is_there(isize::MAX as usize) && is_there(1 << 20));
        assert!(!is_meant_at(1 << 30, 8), "there is no limit");
    }

    #[test]
    fn mappings_are_up_to_an_eighth_longer_than_blocks_and_whole_pages() {
        for size in (LEAST..5 << 20).step_by(1001).chain([LEAST, 2 * LEAST, 2 * LEAST - 1, 2 * LEAST + 1, 1 << 30]) {
            let room = room(size);
            assert!(
                room >= size && room - size <= size / 8 && room.is_multiple_of(PAGE) && super::room(room) == room,
                "{size}"
            );
        }
        assert!(room(isize::MAX as usize).is_multiple_of(PAGE));
    }

    #[test]
    fn spare_blocks_are_bounded_and_handed_out_once() {
        let spare = Spare::new();
        let block = |n: usize| std::ptr::without_provenance_mut::<u8>(n * PAGE);
        assert!(spare.take(LEAST).is_null());
        assert!((1..=SPARES).all(|n| spare.keep(block(n), LEAST, 1 << 20)));
        assert!(!spare.keep(block(99), LEAST, 1 << 20), "enough of a size");
        assert!(!spare.keep(block(99), room(200_000), (SPARES + 1) * LEAST), "too much");
        assert!(spare.keep(block(99), room(200_000), 1 << 20) && !spare.keep(block(98), SPARE_SIZE, usize::MAX));
        assert_eq!(spare.take(room(200_000)), block(99));
        assert!(spare.take(room(200_000)).is_null() && spare.take(SPARE_SIZE).is_null());
        assert!((1..=SPARES).all(|n| spare.take(LEAST) == block(n)) && spare.take(LEAST).is_null());
        assert_eq!(spare.bytes.load(Relaxed), 0);
        // Each size has places of its own.
        let sizes: Vec<usize> = (0..SIZES).map(|n| (LEAST << (n / STEPS)) / STEPS * (STEPS + n % STEPS)).collect();
        assert!(sizes.iter().enumerate().all(|(n, size)| spare.keep(block(n + 1), *size, usize::MAX)));
        assert!(sizes.iter().enumerate().all(|(n, size)| spare.take(*size) == block(n + 1)));
        assert!(sizes.iter().enumerate().all(|(n, size)| spare.keep(block(n + 1), *size, usize::MAX)));
        let mut all = Vec::new();
        assert!(spare.take_all(|block, room| all.push((block, room))));
        let expected: Vec<_> = sizes.iter().enumerate().map(|(n, size)| (block(n + 1), *size)).collect();
        assert_eq!(all, expected);
    }
}
