//! IDs of entries.

use std::fmt;

/// The ID of an entry: milliseconds and a sequence number within them. Ordered as the entries of a stream are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Hash)]
pub struct Id {
    /// Unix milliseconds, usually.
    pub ms: u64,
    /// Number within the millisecond.
    pub seq: u64,
}

impl Id {
    /// 0-0, which no entry has.
    pub const MIN: Id = Id { ms: 0, seq: 0 };
    /// The greatest ID.
    pub const MAX: Id = Id { ms: u64::MAX, seq: u64::MAX };

    /// The ID `ms`-`seq`.
    pub const fn new(ms: u64, seq: u64) -> Id {
        Id { ms, seq }
    }

    /// The ID that follows; `None` after the greatest.
    pub fn next(self) -> Option<Id> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Id { ms: self.ms, seq }),
            None => Some(Id { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The ID before; `None` before 0-0.
    pub fn previous(self) -> Option<Id> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Id { ms: self.ms, seq }),
            None => Some(Id { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// Appends `ms-seq`.
    pub fn append_to(self, out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(digits.format(self.ms).as_bytes());
        out.push(b'-');
        out.extend_from_slice(digits.format(self.seq).as_bytes());
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours() {
        assert_eq!(Id::new(1, u64::MAX).next(), Some(Id::new(2, 0)));
        assert_eq!(Id::new(2, 0).previous(), Some(Id::new(1, u64::MAX)));
        assert_eq!(Id::MAX.next(), None);
        assert_eq!(Id::MIN.previous(), None);
        assert!(Id::new(1, 9) < Id::new(2, 0));
        assert_eq!(Id::new(5, 7).to_string(), "5-7");
    }
}
