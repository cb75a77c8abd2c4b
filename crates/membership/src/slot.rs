//! A slot, as a type of its own. A slot taken for the place of a node in the map would send a key to the wrong node.

use std::fmt;

/// Slots of a cluster (Redis Cluster specification).
pub const SLOTS: usize = 16384;

/// A slot of a cluster. There is none outside of 0 to 16383.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Slot(u16);

impl Slot {
    /// The first slot.
    pub const FIRST: Self = Self(0);
    /// The last slot.
    pub const LAST: Self = Self(SLOTS as u16 - 1);

    /// The slot of this number; none if there is no such slot.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        if number < SLOTS as u16 { Some(Self(number)) } else { None }
    }

    /// The slot of a key with this hash: its low 14 bits are the slot's number.
    #[inline]
    #[must_use]
    pub const fn of(hash: u16) -> Self {
        Self(hash & (SLOTS as u16 - 1))
    }

    /// Its number, below [`SLOTS`].
    #[inline]
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// All slots, ascending.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SLOTS as u16).map(Self)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_cannot_be_made() {
        assert_eq!([0, 16383, 16384, u16::MAX].map(Slot::new), [Some(Slot::FIRST), Some(Slot::LAST), None, None]);
        assert!((0..=u16::MAX).all(|hash| usize::from(Slot::of(hash).get()) < SLOTS));
        assert_eq!((Slot::all().count(), Slot::all().last()), (SLOTS, Some(Slot::LAST)));
    }
}
