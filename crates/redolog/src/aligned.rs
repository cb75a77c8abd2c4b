//! Memory for writes past the cache.

use crate::disk::PAGE;
use crate::intake::KEPT;

/// Bytes that begin at a multiple of [`PAGE`] in memory.
#[derive(Default)]
pub(crate) struct Aligned {
    /// Their memory, and unused bytes before them.
    bytes: Vec<u8>,
    from: usize,
}

impl Aligned {
    /// Empties it; it has room for `size` bytes.
    pub(crate) fn clear(&mut self, size: usize) {
        let size = size.next_multiple_of(PAGE) + PAGE;
        let is_aligned = self.bytes.as_ptr().wrapping_add(self.from).align_offset(PAGE) == 0;
        if is_aligned && self.bytes.len() >= self.from && self.bytes.capacity() >= size {
            return self.bytes.truncate(self.from);
        }
        self.bytes.clear();
        self.bytes.reserve(size);
        self.from = self.bytes.as_ptr().align_offset(PAGE).min(PAGE);
        self.bytes.resize(self.from, 0);
    }

    /// Appends these bytes. More than there is room for would move the memory, which would no longer be aligned.
    pub(crate) fn append(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        append(&mut self.bytes);
    }

    /// A copy of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut copy = Self::default();
        copy.clear(bytes.len());
        copy.append(|to| to.extend_from_slice(bytes));
        copy
    }

    /// Appends zeros up to a multiple of [`PAGE`].
    pub(crate) fn pad(&mut self) {
        let whole = (self.bytes.len() - self.from).next_multiple_of(PAGE);
        self.bytes.resize(self.from + whole, 0);
    }

    /// To be used again.
    pub(crate) fn emptied(mut self) -> Self {
        self.bytes.truncate(self.from);
        if self.bytes.capacity() > KEPT {
            return Self::default();
        }
        self
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned() {
        let mut buffer = Aligned::default();
        for size in [1, 5000, 100, 1 << 20, 3] {
            buffer.clear(size);
            buffer.append(|bytes| bytes.resize(bytes.len() + size, 7));
            assert_eq!(buffer.bytes(), vec![7; size]);
            buffer.pad();
            assert!(buffer.bytes().as_ptr().align_offset(PAGE) == 0);
            assert!(buffer.bytes().len() == size.next_multiple_of(PAGE));
            if size == 5000 {
                buffer = buffer.emptied();
            }
        }
    }
}
