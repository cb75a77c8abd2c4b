//! Free blocks in transit: a lock-free list per class, used only while another thread holds the class's lock. So
//! freeing never waits for a thread that the system has suspended. Protocol: any thread pushes a whole chain, and a
//! thread that takes takes everything. There is no pop of a single element, hence no ABA. What is left here is adopted
//! by the next worker that refills from or flushes to the class.

use std::ptr::{NonNull, null_mut};

use super::sync::{AtomicPtr, Ordering};

/// Written over the first 8 bytes of a free block while it is in a chain. Blocks are aligned to 4.
#[repr(C, packed(4))]
pub struct Link {
    /// The next free block of the chain.
    pub next: *mut Link,
}

/// The list.
#[derive(Default)]
pub struct Exchange {
    head: AtomicPtr<Link>,
}

impl Exchange {
    /// Adds the chain from `first` to `last`.
    ///
    /// # Safety
    /// The caller alone owns the blocks of the chain, whose links are written from `first` to `last`, and gives them
    /// up.
    pub unsafe fn push(&self, first: NonNull<Link>, last: NonNull<Link>) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: until the exchange succeeds the chain is the caller's.
            unsafe { (*last.as_ptr()).next = head };
            // Release: the taker sees the links, and everything that the blocks' last owners did before freeing them.
            match self.head.compare_exchange_weak(head, first.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes everything: the first link of a chain that ends in null, which the caller now owns alone.
    pub fn take(&self) -> Option<NonNull<Link>> {
        // The common case, nothing there, shall not take the line away from others.
        if self.head.load(Ordering::Relaxed).is_null() {
            return None;
        }
        NonNull::new(self.head.swap(null_mut(), Ordering::Acquire))
    }
}
