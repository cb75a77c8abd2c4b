//! How many entries came before one: exact where it can be known without counting, and otherwise not reported, as in
//! Redis.

use super::id::Id;
use super::log::Marks;

impl Marks {
    /// True if an entry at `start` or above was deleted one by one, as far as the greatest such ID tells.
    pub fn has_gap_from(&self, start: Id) -> bool {
        self.len > 0 && self.max_deleted != Id::MIN && start <= self.max_deleted
    }

    /// How many entries up to and including `id` were ever added; `None`: unknown.
    pub fn entries_before(&self, id: Id) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last {
            return Some(self.added);
        }
        if id != Id::MIN && id < self.max_deleted || id > self.last {
            return None;
        }
        if id == self.last {
            return Some(self.added);
        }
        if self.max_deleted == Id::MIN || self.max_deleted < self.first {
            // Nothing is missing between the first entry and the last.
            if id < self.first {
                return Some(self.added.wrapping_sub(self.len));
            }
            if id == self.first {
                return Some(self.added.wrapping_sub(self.len).wrapping_add(1));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_told() {
        let id = |seq| Id::new(1, seq);
        let marks = Marks { len: 3, first: id(2), last: id(4), max_deleted: Id::MIN, added: 4 };
        assert_eq!(marks.entries_before(id(1)), Some(1));
        assert_eq!(marks.entries_before(id(2)), Some(2));
        assert_eq!(marks.entries_before(id(3)), None);
        assert_eq!(marks.entries_before(id(4)), Some(4));
        assert_eq!(marks.entries_before(id(5)), None);
        let gap = Marks { len: 2, max_deleted: id(3), ..marks };
        assert_eq!(gap.entries_before(id(2)), None);
        assert_eq!(gap.entries_before(id(4)), Some(4));
        assert!(gap.has_gap_from(id(3)) && !gap.has_gap_from(id(4)));
        assert_eq!(Marks::default().entries_before(id(9)), Some(0));
    }
}
