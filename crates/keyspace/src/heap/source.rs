//! Where chunks come from: `mmap`, or the global allocator where that cannot run (Miri, other systems).
//!
//! A chunk is [`CHUNK`] bytes, zeroed, aligned to its own length so that masking a block's address finds it.

use std::ptr::NonNull;

/// Binary logarithm of [`CHUNK`].
pub const CHUNK_SHIFT: u32 = if cfg!(miri) { 19 } else { 22 };
/// Length and alignment of a chunk: 4 MB.
pub const CHUNK: usize = 1 << CHUNK_SHIFT;

pub use system::{map, purge, unmap};

#[cfg(all(unix, not(miri)))]
mod system {
    use super::{CHUNK, NonNull};

    /// A fresh chunk; none when the system refuses.
    pub fn map() -> Option<NonNull<u8>> {
        // The kernel places mappings side by side: after the first one they usually come aligned.
        let first = map_bytes(CHUNK)?;
        if first.addr().get().is_multiple_of(CHUNK) {
            return Some(first);
        }
        // SAFETY: `first` is ours, of that length, and nobody has seen it.
        unsafe { unmap_bytes(first, CHUNK) };
        let wide = map_bytes(2 * CHUNK)?;
        let head = wide.addr().get().next_multiple_of(CHUNK) - wide.addr().get();
        // SAFETY: `head < CHUNK` (mappings are aligned to pages, and so is `head`): all three parts lie in the 2 *
        // CHUNK bytes just mapped, and the first and last are given back unused.
        unsafe {
            let chunk = wide.add(head);
            if head > 0 {
                unmap_bytes(wide, head);
            }
            unmap_bytes(chunk.add(CHUNK), CHUNK - head);
            Some(chunk)
        }
    }

    /// Gives a chunk back.
    ///
    /// # Safety
    /// `chunk` came from [`map`] and nothing in it is used any more.
    pub unsafe fn unmap(chunk: NonNull<u8>) {
        // SAFETY: by the caller's promise.
        unsafe { unmap_bytes(chunk, CHUNK) }
    }

    /// Gives the memory of a range of `len` bytes back to the system, keeping the addresses; only whole system pages
    /// inside it.
    ///
    /// # Safety
    /// The range is mapped memory of ours (anonymous, private) and nobody uses its contents, which become zero.
    pub unsafe fn purge(start: NonNull<u8>, len: usize) {
        // SAFETY: `sysconf` only reads a constant of the system.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let skip = start.addr().get().next_multiple_of(page) - start.addr().get();
        let len = len.saturating_sub(skip) / page * page;
        if len > 0 {
            // SAFETY: the rounded range lies in the caller's. A failure leaves the memory resident, which is harmless.
            unsafe { libc::madvise(start.add(skip).as_ptr().cast(), len, libc::MADV_DONTNEED) };
        }
    }

    fn map_bytes(len: usize) -> Option<NonNull<u8>> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping, at an address of the kernel's choice, touches no existing memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        match start {
            libc::MAP_FAILED if headroom::release() => map_bytes(len),
            libc::MAP_FAILED => None,
            start => NonNull::new(start.cast()),
        }
    }

    /// # Safety
    /// The range is mapped, ours, a whole number of system pages, and unused.
    unsafe fn unmap_bytes(start: NonNull<u8>, len: usize) {
        // SAFETY: by the caller's promise.
        unsafe { libc::munmap(start.as_ptr().cast(), len) };
    }
}

#[cfg(not(all(unix, not(miri))))]
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    use super::{CHUNK, NonNull};

    fn layout() -> Option<Layout> {
        Layout::from_size_align(CHUNK, CHUNK).ok()
    }

    /// A fresh chunk; none when the system refuses.
    pub fn map() -> Option<NonNull<u8>> {
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { alloc_zeroed(layout()?) })
    }

    /// Gives a chunk back.
    ///
    /// # Safety
    /// `chunk` came from [`map`] and nothing in it is used any more.
    pub unsafe fn unmap(chunk: NonNull<u8>) {
        if let Some(layout) = layout() {
            // SAFETY: allocated by `map` with this layout.
            unsafe { dealloc(chunk.as_ptr(), layout) }
        }
    }

    /// Forgets the contents of a range of `len` bytes; here it only clears them, so that a use after free shows.
    ///
    /// # Safety
    /// The range is memory of ours and nobody uses its contents.
    pub unsafe fn purge(start: NonNull<u8>, len: usize) {
        // SAFETY: by the caller's promise.
        unsafe { start.write_bytes(0, len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_aligned_zeroed_and_writable() {
        let chunks: Vec<_> = (0..3).map(|_| map().expect("memory")).collect();
        for chunk in &chunks {
            assert!(chunk.addr().get().is_multiple_of(CHUNK));
            // SAFETY: inside the chunk, which is ours.
            unsafe {
                assert_eq!(chunk.add(CHUNK - 1).read(), 0);
                chunk.add(CHUNK - 1).write(7);
                purge(chunk.add(CHUNK / 2), CHUNK / 2);
                assert_eq!(chunk.add(CHUNK - 1).read(), 0);
            }
        }
        for chunk in chunks {
            // SAFETY: mapped above and not used again.
            unsafe { unmap(chunk) };
        }
    }
}
