//! The store's state of a key.

/// The store's state of a key, in its entry or tombstone: as it will be when all copies of the checkpoint so far are
/// written. So it is exact under the latch, whatever the disk has done yet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mark(u8);

const LIVE: u8 = 8;
const EXPIRING: u8 = 4;
const FIELDS: u8 = 2;
const OBJECT: u8 = 1;

impl Mark {
    /// Nothing, also before the last round that ended.
    pub const NONE: Mark = Mark(0);

    /// No value. It may have a note that the key is gone, or have lost its value in a round that has not ended yet: the
    /// key's deletion leaves a tombstone.
    pub const DEAD: Mark = Mark(1);

    /// A value: of a key that expires, a hash with fields that expire, an object with leaves.
    pub const fn live(expiring: bool, fields: bool, object: bool) -> Mark {
        let expiring = if expiring { EXPIRING } else { 0 };
        let fields = if fields { FIELDS } else { 0 };
        Mark(LIVE | expiring | fields | if object { OBJECT } else { 0 })
    }

    /// True if it is [`Mark::NONE`].
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// True if the store has a value.
    #[inline]
    pub const fn is_live(self) -> bool {
        self.0 & LIVE != 0
    }

    /// True if that is of a key that expires.
    pub const fn is_expiring(self) -> bool {
        self.is_live() && self.0 & EXPIRING != 0
    }

    /// True if it is a hash with fields that expire.
    pub const fn has_expiring_fields(self) -> bool {
        self.is_live() && self.0 & FIELDS != 0
    }

    /// True if it is an object with leaves.
    pub const fn is_object(self) -> bool {
        self.is_live() && self.0 & OBJECT != 0
    }

    /// Four bits.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// Of what [`Self::bits`] has given.
    pub(crate) const fn from_bits(bits: u8) -> Mark {
        Mark(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::Mark;

    #[test]
    fn marks_say_what_they_were_made_of() {
        for n in 0..8u8 {
            let (expiring, fields, object) = (n & 1 != 0, n & 2 != 0, n & 4 != 0);
            let mark = Mark::from_bits(Mark::live(expiring, fields, object).bits());
            assert!(mark.is_live() && !mark.is_none() && mark.bits() < 16);
            assert_eq!((mark.is_expiring(), mark.has_expiring_fields(), mark.is_object()), (expiring, fields, object));
        }
        for mark in [Mark::NONE, Mark::DEAD] {
            assert!(!mark.is_live() && !mark.is_expiring() && !mark.has_expiring_fields() && !mark.is_object());
        }
        assert!(Mark::NONE.is_none() && !Mark::DEAD.is_none());
    }
}
