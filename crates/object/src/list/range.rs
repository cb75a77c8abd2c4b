//! Walking over elements, in either direction.

use super::leaf::Run;
use super::{Form, List};
use crate::block::{self, Elem};
use crate::tree::Leaves;

/// Consecutive elements of a list; see [`List::range`] and [`List::range_back`].
pub struct Range<'a> {
    /// Leaves after the one being walked.
    leaves: Option<Leaves<'a, Run>>,
    block: block::Iter<'a>,
    left: u64,
    back: bool,
}

impl List {
    /// All elements, from the head.
    pub fn iter(&self) -> Range<'_> {
        self.range(0, self.len())
    }

    /// Up to `count` elements from index `start` on, forwards.
    pub fn range(&self, start: u64, count: u64) -> Range<'_> {
        let left = count.min(self.len().saturating_sub(start));
        match &self.form {
            Form::Small(small) => {
                let block = small.iter_from(usize::try_from(start).unwrap_or(usize::MAX));
                Range { leaves: None, block, left, back: false }
            }
            Form::Large(tree) => {
                let mut leaves = tree.leaves_from(start);
                let block = leaves.next().map(|(run, at)| run.0.iter_from(at)).unwrap_or_default();
                Range { leaves: Some(leaves), block, left, back: false }
            }
        }
    }

    /// Up to `count` elements backwards, beginning with the one before index `end` (`len()` is the whole list).
    pub fn range_back(&self, end: u64, count: u64) -> Range<'_> {
        let end = end.min(self.len());
        let left = count.min(end);
        match &self.form {
            Form::Small(small) => Range { leaves: None, block: small.iter_to(end as usize), left, back: true },
            Form::Large(tree) => {
                let mut leaves = tree.leaves_back(end);
                let block = leaves.next().map(|(run, at)| run.0.iter_to(at)).unwrap_or_default();
                Range { leaves: Some(leaves), block, left, back: true }
            }
        }
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = Elem<'a>;

    #[inline]
    fn next(&mut self) -> Option<Elem<'a>> {
        if self.left == 0 {
            return None;
        }
        loop {
            let elem = if self.back { self.block.next_back() } else { self.block.next() };
            if elem.is_some() {
                self.left -= 1;
                return elem;
            }
            let (run, at) = self.leaves.as_mut()?.next()?;
            self.block = if self.back { run.0.iter_to(at) } else { run.0.iter_from(at) };
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = Elem<'a>;
    type IntoIter = Range<'a>;
    fn into_iter(self) -> Range<'a> {
        self.iter()
    }
}
