//! Size classes: 4-byte steps up to 1 KB, then 32 steps per doubling (1.6% mean rounding) up to a little over 16 KB.
//!
//! General allocators step by 12-25%, which is most of their overhead on small entries. A heap that holds nothing but
//! entries can afford many classes, because a class costs one partly filled page.

/// Largest size served from pages; larger blocks come from the global allocator.
pub const SMALL_MAX: usize = LINEAR_MAX * 16 + LINEAR_MAX / 2;
/// Number of size classes.
pub const COUNT: usize = LINEAR_COUNT + 4 * PER_DOUBLING + 1;

const STEP: usize = 4;
/// A free block holds a link of its chain.
const SMALLEST: usize = 8;
const LINEAR_MAX: usize = 1024;
const LINEAR_COUNT: usize = (LINEAR_MAX - SMALLEST) / STEP + 1;
const PER_DOUBLING: usize = 32;
/// Blocks up to this size live in small pages, so that what a page cannot use at its end stays near 1%.
const SMALL_PAGE_BLOCK_MAX: usize = 2048;
/// Bytes (and, below, blocks) that a worker keeps at hand per class.
const MAGAZINE_BYTES: usize = 16 * 1024;
/// Most blocks that a worker keeps at hand per class.
pub const MAGAZINE_MAX: usize = 32;

/// A size class; always below [`COUNT`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class(u16);

/// Length of the pages that a chunk is cut into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageKind {
    /// 64 KB.
    Small,
    /// 256 KB.
    Large,
}

impl PageKind {
    /// Every kind, in the order of its discriminant.
    pub const ALL: [Self; 2] = [Self::Small, Self::Large];

    /// Binary logarithm of the page's length.
    pub const fn shift(self) -> u32 {
        match self {
            Self::Small => 16,
            Self::Large => 18,
        }
    }
}

impl Class {
    /// The class that serves blocks of `size` bytes; none above [`SMALL_MAX`].
    #[inline]
    pub const fn of(size: usize) -> Option<Self> {
        if size <= LINEAR_MAX {
            // Everything up to the smallest shares the first class.
            Some(Self((size.saturating_sub(SMALLEST - STEP + 1) / STEP) as u16))
        } else if size <= SMALL_MAX {
            let last = size - 1;
            let doubling = last.ilog2() as usize;
            let step = last >> (doubling - 5);
            Some(Self((LINEAR_COUNT + (doubling - 10) * PER_DOUBLING + step - PER_DOUBLING) as u16))
        } else {
            None
        }
    }

    /// Every class, in the order of size.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..COUNT as u16).map(Self)
    }

    /// Position in tables of [`COUNT`] rows.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Bytes of a block; a multiple of 4.
    #[inline]
    pub const fn size(self) -> usize {
        TABLE[self.index()].size as usize
    }

    /// `offset / size()` without a division, for offsets below 4 GB.
    #[inline]
    pub const fn index_in_page(self, offset: usize) -> usize {
        ((offset as u64 * TABLE[self.index()].reciprocal as u64) >> 32) as usize
    }

    /// Pages that hold this class's blocks.
    pub const fn page_kind(self) -> PageKind {
        if self.size() <= SMALL_PAGE_BLOCK_MAX { PageKind::Small } else { PageKind::Large }
    }

    /// Most free blocks that one worker keeps at hand; from 2 to [`MAGAZINE_MAX`].
    #[inline]
    pub const fn magazine(self) -> usize {
        TABLE[self.index()].magazine as usize
    }
}

#[derive(Clone, Copy)]
struct Row {
    size: u16,
    magazine: u16,
    /// 2^32 / size, rounded up: exact for every offset below 2^32, because the error of at most `size` per unit stays
    /// under one whole quotient.
    reciprocal: u32,
}

const TABLE: [Row; COUNT] = {
    let mut table = [Row { size: 0, magazine: 0, reciprocal: 0 }; COUNT];
    let mut i = 0;
    while i < COUNT {
        let size = if i < LINEAR_COUNT {
            SMALLEST + i * STEP
        } else {
            let above = i - LINEAR_COUNT;
            (PER_DOUBLING + above % PER_DOUBLING + 1) << (above / PER_DOUBLING + 5)
        };
        let fits = MAGAZINE_BYTES / size;
        let magazine = if fits < 2 {
            2
        } else if fits > MAGAZINE_MAX {
            MAGAZINE_MAX
        } else {
            fits
        };
        table[i] =
            Row { size: size as u16, magazine: magazine as u16, reciprocal: (1u64 << 32).div_ceil(size as u64) as u32 };
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_tight_and_ordered() {
        let mut before = 0;
        for class in Class::all() {
            assert!(class.size() > before && class.size() % 4 == 0);
            assert_eq!(Class::of(class.size()), Some(class));
            assert_eq!(Class::of(before + 1), Some(class));
            assert!(class.size() - before <= SMALLEST.max(before / 32), "steps are fine");
            before = class.size();
        }
        assert_eq!(before, SMALL_MAX);
        assert_eq!(Class::of(SMALL_MAX + 1), None);
        assert_eq!(Class::of(0), Class::of(8));
    }

    #[test]
    fn reciprocals_divide() {
        for class in Class::all() {
            let page = 1 << class.page_kind().shift();
            for n in 0..page / class.size() {
                assert_eq!(class.index_in_page(n * class.size()), n);
                assert_eq!(class.index_in_page(n * class.size() + class.size() - 1), n);
            }
        }
    }
}
