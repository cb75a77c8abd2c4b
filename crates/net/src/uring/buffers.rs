//! The ring of provided buffers. The kernel picks one when data arrives, so an idle connection holds none.
//!
//! Invariants: the memory of ring and buffers stays at fixed addresses until the io_uring is gone. A buffer belongs
//! either to the kernel (in the ring) or to us (between a completion that names it and [`Buffers::give_back`]), never
//! to both.

use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// The number of buffers, a power of two. With few, the kernel refuses receives (ENOBUFS), each of which costs a turn.
const COUNT: u16 = 128;
/// Bytes of each buffer.
pub const SIZE: usize = 16 * 1024;
/// The group's number in its io_uring.
pub const GROUP: u16 = 0;

/// The buffers of one io_uring.
pub struct Buffers {
    ring: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    tail: u16,
    published: u16,
}

/// Allocates memory that the kernel shares with us. Like its socket buffers it does not count against `maxmemory`, so
/// it comes from the system and not from the counted allocator. Pages that are never written are never resident.
fn allocate(size: usize, align: usize) -> NonNull<u8> {
    let layout = Layout::from_size_align(size, align).expect("small, and aligned to a page at most");
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { System.alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Buffers {
    /// Registers a ring of buffers. Its memory is never freed: the kernel may write to it until the io_uring is torn
    /// down, which happens after we have let go of it.
    ///
    /// # Errors
    ///
    /// There is no memory, or the kernel does not take it.
    pub fn register(submitter: &Submitter<'_>) -> io::Result<Buffers> {
        let ring = allocate(usize::from(COUNT) * size_of::<BufRingEntry>(), 4096).cast();
        let memory = allocate(usize::from(COUNT) * SIZE, 16);
        let mut buffers = Buffers { ring, memory, tail: 0, published: u16::MAX };
        // SAFETY: the ring is page-aligned, zeroed, of COUNT entries, and lives for ever.
        unsafe { submitter.register_buf_ring_with_flags(ring.as_ptr() as u64, COUNT, GROUP, 0)? };
        (0..COUNT).for_each(|id| buffers.give_back(id));
        buffers.publish();
        Ok(buffers)
    }

    /// The first `len` bytes of a buffer that a completion has named.
    pub fn bytes(&self, id: u16, len: usize) -> &[u8] {
        assert!(id < COUNT && len <= SIZE);
        // SAFETY: inside the memory, initialised (zeroed, then written by the kernel), and ours until given back.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(usize::from(id) * SIZE), len) }
    }

    /// The same bytes, to be changed in place.
    pub fn bytes_mut(&mut self, id: u16, len: usize) -> &mut [u8] {
        assert!(id < COUNT && len <= SIZE);
        // SAFETY: as in `bytes`; nobody else has them while this value is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(usize::from(id) * SIZE), len) }
    }

    /// Puts a buffer back for the kernel, which sees it after [`Self::publish`].
    pub fn give_back(&mut self, id: u16) {
        assert!(id < COUNT);
        // SAFETY: inside the ring; the entry at the tail is ours until the tail moves past it.
        unsafe {
            let entry = &mut *self.ring.as_ptr().add(usize::from(self.tail & (COUNT - 1)));
            entry.set_addr(self.memory.as_ptr().add(usize::from(id) * SIZE) as u64);
            entry.set_len(SIZE as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel the buffers that were given back.
    pub fn publish(&mut self) {
        if self.published == self.tail {
            return;
        }
        self.published = self.tail;
        // SAFETY: the tail lies in the first entry's reserved field; the kernel reads it as an atomic.
        unsafe { (*BufRingEntry::tail(self.ring.as_ptr()).cast::<AtomicU16>()).store(self.tail, Ordering::Release) };
    }
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Buffers {}
