//! The names of a stream's blocks, in a few numbers. Terms never fall in a chain, so runs of one term suffice.

use crate::format::Name;

/// Blocks of one term that follow one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The place of the first one.
    pub first: u64,
    /// The term that made them.
    pub term: u32,
}

/// The names of the blocks in a folder, from the first one that is left to the end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chain {
    base: Name,
    runs: Vec<Run>,
    last: u64,
}

impl Chain {
    pub(crate) fn new(base: Name) -> Self {
        Self { base, runs: Vec::new(), last: base.sequence }
    }

    /// The block before the first one that is left.
    #[must_use]
    pub fn base(&self) -> Name {
        self.base
    }

    /// Its runs, the lowest first.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The last block, or the base.
    #[must_use]
    pub fn last(&self) -> Name {
        Name { term: self.runs.last().map_or(self.base.term, |run| run.term), sequence: self.last }
    }

    /// The name of the block at a place, the base included.
    #[must_use]
    pub fn at(&self, sequence: u64) -> Option<Name> {
        if sequence == self.base.sequence {
            return Some(self.base);
        }
        let run = self.runs.iter().rev().find(|run| run.first <= sequence)?;
        (sequence <= self.last).then_some(Name { term: run.term, sequence })
    }

    /// Appends a block, of which it is known that `before` is the term of the one before it. False, and nothing
    /// changes: it does not follow.
    pub(crate) fn push(&mut self, name: Name, before: u32) -> bool {
        let last = self.last();
        if last.sequence.checked_add(1) != Some(name.sequence) || last.term != before || name.term < before {
            return false;
        }
        if self.runs.last().is_none_or(|run| run.term != name.term) {
            self.runs.push(Run { first: name.sequence, term: name.term });
        }
        self.last = name.sequence;
        true
    }

    /// Drops the blocks behind this one. False, and nothing changes: it is not there.
    pub(crate) fn keep(&mut self, name: Name) -> bool {
        if self.at(name.sequence) != Some(name) {
            return false;
        }
        self.last = name.sequence;
        self.runs.retain(|run| run.first <= name.sequence);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_one_another() {
        let name = |term, sequence| Name { term, sequence };
        let mut chain = Chain::new(name(2, 7));
        assert!(chain.push(name(2, 8), 2) && chain.push(name(4, 9), 2) && chain.push(name(4, 10), 4));
        assert!(!chain.push(name(4, 12), 4), "one is missing");
        assert!(!chain.push(name(4, 11), 2), "the one before is another");
        assert!(!chain.push(name(3, 11), 4), "terms do not fall");
        let all = (6..12).map(|sequence| chain.at(sequence).map(|name| name.term)).collect::<Vec<_>>();
        assert_eq!(all, [None, Some(2), Some(2), Some(4), Some(4), None]);
        assert!(!chain.keep(name(2, 9)) && chain.keep(name(4, 9)));
        assert_eq!((chain.last(), chain.base()), (name(4, 9), name(2, 7)));
        assert!(chain.keep(name(2, 8)) && chain.runs().len() == 1);
        assert!(chain.keep(name(2, 7)) && chain.runs().is_empty() && chain.last() == name(2, 7));
    }
}
