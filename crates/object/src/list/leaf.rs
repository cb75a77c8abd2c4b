//! A leaf of a large list.

use crate::block::Block;
use crate::tree::Leaf;
use std::ops::Range;

/// A run of consecutive elements.
#[derive(Clone, Default)]
pub(crate) struct Run(pub Block);

impl Leaf for Run {
    type Sep = ();
    const SORTED: bool = false;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn split(&mut self, keep: usize) -> Self {
        let at = self.0.split_index(keep, 1);
        Run(self.0.split_off(at))
    }

    fn append(&mut self, next: Self) {
        self.0.append(&next.0);
    }

    fn remove_range(&mut self, range: Range<usize>) {
        self.0.remove_range(range);
    }

    fn first_sep(&self) {}
}
