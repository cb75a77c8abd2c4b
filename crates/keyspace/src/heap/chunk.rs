//! A chunk: what the system gives at once, cut into pages of one kind. Its header, at its start, describes the pages;
//! masking any block's address finds it.

use std::ptr::NonNull;

use super::{
    class::PageKind,
    page::{Page, PageRef},
    source::{self, CHUNK, CHUNK_SHIFT},
};

/// The start of a chunk's header. The pages' descriptions follow it.
#[repr(align(64))]
struct Header {
    page_shift: u32,
}

/// An initialised chunk. Dropping it does not unmap it: see [`Chunk::unmap`].
pub struct Chunk {
    base: NonNull<u8>,
    kind: PageKind,
}

// SAFETY: an address and a constant; what it points to is shared by the rules in `page`.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Asks the system for a chunk and describes its pages, all empty; none when the system refuses.
    pub fn map(kind: PageKind) -> Option<Self> {
        let base = source::map()?;
        // Blocks come back as addresses (tables keep them packed with other bits), and are turned into pointers again.
        let address = base.as_ptr().expose_provenance();
        assert!(address >> 48 == 0, "tables pack addresses of 48 bits");
        let pages = pages(kind);
        let header_len = header_len(kind);
        // SAFETY: header and descriptions lie in the first `header_len` bytes of the chunk, aligned to 64, before the
        // area of the first page; each area is the page's part of the chunk.
        unsafe {
            base.cast::<Header>().write(Header { page_shift: kind.shift() });
            for i in 0..pages {
                let start = (i << kind.shift()).max(header_len);
                let end = (i + 1) << kind.shift();
                description(base, i).write(Page::new(base.add(start), (end - start) as u32));
            }
        }
        Some(Self { base, kind })
    }

    /// Its pages, in the order of address.
    pub fn pages(&self) -> impl DoubleEndedIterator<Item = PageRef> {
        // SAFETY: initialised by `map`; the heap keeps the chunk mapped.
        (0..pages(self.kind)).map(|i| unsafe { PageRef::new(description(self.base, i)) })
    }

    /// Gives the chunk back to the system.
    ///
    /// # Safety
    /// No block and no `PageRef` of it is used any more.
    pub unsafe fn unmap(self) {
        // SAFETY: by the caller's promise.
        unsafe { source::unmap(self.base) }
    }

    /// Bytes that its header takes.
    pub fn header_len(&self) -> usize {
        header_len(self.kind)
    }
}

/// The page that a block lies in.
///
/// # Safety
/// `address` is that of a block of a heap that still exists.
#[inline]
pub unsafe fn page_of(address: usize) -> PageRef {
    let base = address & !(CHUNK - 1);
    // SAFETY: chunks are aligned to their length, so this is the base of the block's chunk, whose provenance `map`
    // exposed; header and description were written before any block was handed out.
    unsafe {
        let base = NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut::<u8>(base));
        let shift = base.cast::<Header>().as_ref().page_shift;
        PageRef::new(description(base, (address & (CHUNK - 1)) >> shift))
    }
}

/// Where page `i` of the chunk at `base` is described.
///
/// # Safety
/// `base` is a chunk's and `i` below its number of pages.
#[inline]
unsafe fn description(base: NonNull<u8>, i: usize) -> NonNull<Page> {
    // SAFETY: inside the chunk's header.
    unsafe { base.add(size_of::<Header>()).cast::<Page>().add(i) }
}

const fn pages(kind: PageKind) -> usize {
    1 << (CHUNK_SHIFT - kind.shift())
}

const fn header_len(kind: PageKind) -> usize {
    size_of::<Header>() + pages(kind) * size_of::<Page>()
}
