//! Strings on their way into a page, and places between elements.

use std::sync::Arc;

/// Strings longer than this, in bytes, are kept out of line. Below it a second copy costs less than two pointers, a
/// reference count and a cache miss.
pub(super) const INLINE_MAX: usize = 48;

/// A string on its way into a [`super::page::Page`]. A long one is shared by the two trees of a sorted set.
#[derive(Clone)]
pub(super) enum Item<'a> {
    Inline(&'a [u8]),
    Long(Arc<[u8]>),
}

impl<'a> Item<'a> {
    /// Makes the shared copy if `s` is long: once, for both trees.
    pub(super) fn new(s: &'a [u8]) -> Self {
        if s.len() <= INLINE_MAX { Item::Inline(s) } else { Item::Long(Arc::from(s)) }
    }

    /// The form for a string that is shared already.
    pub(super) fn from_shared(s: &'a Arc<[u8]>) -> Self {
        if s.len() <= INLINE_MAX { Item::Inline(s) } else { Item::Long(s.clone()) }
    }

    /// A copy that lives by itself.
    pub(super) fn shared(self) -> Arc<[u8]> {
        match self {
            Item::Inline(s) => Arc::from(s),
            Item::Long(s) => s,
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Item::Inline(s) => s,
            Item::Long(s) => s,
        }
    }

    /// Bytes of a page that the string takes.
    pub(super) fn inline_len(&self) -> usize {
        match self {
            Item::Inline(s) => s.len(),
            Item::Long(_) => 0,
        }
    }
}

/// A fixed-size part of an element, as it lies in a page.
pub(super) trait Scalar: Copy {
    /// Bytes it takes.
    const SIZE: usize;
    /// Reads it from the first `SIZE` bytes.
    fn load(bytes: &[u8]) -> Self;
    /// Writes it to the first `SIZE` bytes.
    fn store(self, bytes: &mut [u8]);
}

/// The number by which elements are sorted before their strings decide: a score or a hash. Never NaN.
pub(super) trait Number: Scalar + PartialOrd {
    /// How far this is on the way from `low` to `high`, as a guess: 0 to 1 where it lies between, anything (NaN
    /// included) elsewhere.
    fn way(self, low: Self, high: Self) -> f32;
}

impl Scalar for f64 {
    const SIZE: usize = 8;
    #[inline]
    fn load(bytes: &[u8]) -> Self {
        bytes.first_chunk().map_or(0.0, |b| f64::from_le_bytes(*b))
    }
    #[inline]
    fn store(self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&self.to_le_bytes());
    }
}

impl Number for f64 {
    #[inline]
    fn way(self, low: Self, high: Self) -> f32 {
        ((self - low) / (high - low)) as f32
    }
}

impl Scalar for u32 {
    const SIZE: usize = 4;
    #[inline]
    fn load(bytes: &[u8]) -> Self {
        bytes.first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
    }
    #[inline]
    fn store(self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&self.to_le_bytes());
    }
}

impl Number for u32 {
    #[inline]
    fn way(self, low: Self, high: Self) -> f32 {
        self.wrapping_sub(low) as f32 / high.wrapping_sub(low) as f32
    }
}

impl Scalar for () {
    const SIZE: usize = 0;
    #[inline]
    fn load(_: &[u8]) -> Self {}
    #[inline]
    fn store(self, _: &mut [u8]) {}
}

/// A place between elements: after all that are smaller than `number`, and among those equal to it as [`Tie`] says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a, K> {
    pub(super) number: K,
    pub(super) tie: Tie<'a>,
}

/// Which elements with an equal number lie before a [`Place`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Tie<'a> {
    /// None of them.
    First,
    /// Those with a smaller string.
    Below(&'a [u8]),
    /// Those with a smaller string, and the string itself.
    Through(&'a [u8]),
    /// All of them.
    Last,
}

/// The bounds of the numbers in a node, known from above: the search starts by them. Wrong bounds cost time only.
#[derive(Clone, Copy)]
pub(super) struct Bounds<K> {
    pub(super) low: Option<K>,
    pub(super) high: Option<K>,
}

impl<K> Bounds<K> {
    pub(super) const UNKNOWN: Self = Bounds { low: None, high: None };
}
