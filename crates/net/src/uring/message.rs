//! The list of the pieces of one send, for the kernel.
//!
//! Invariants: while a send that names it is under way, a message stays at its address and is not filled again. The
//! same holds for the bytes that it points to, those of the connection's `sending`.

use std::io::IoSlice;

use node::{Outgoing, SLICES};

/// A header and the pieces it names.
pub struct Message {
    header: libc::msghdr,
    pieces: [libc::iovec; SLICES],
}

impl Default for Message {
    fn default() -> Self {
        // SAFETY: all zeros is an empty message and no pieces.
        unsafe { std::mem::zeroed() }
    }
}

impl Message {
    /// Fills it with the next bytes of `out`, at most `most`.
    pub fn fill(&mut self, out: &Outgoing, most: usize) -> *const libc::msghdr {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = out.slices(&mut slices, most);
        for (piece, slice) in self.pieces.iter_mut().zip(&slices[..count]) {
            *piece = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
        }
        self.header.msg_iov = self.pieces.as_mut_ptr();
        self.header.msg_iovlen = count as _;
        &raw const self.header
    }
}
