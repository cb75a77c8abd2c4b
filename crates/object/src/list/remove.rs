//! Removing elements by range and by value.

use super::leaf::Run;
use super::{End, Form, List};
use crate::Limits;
use crate::block::{Block, Needle};
use crate::tree::Tree;
use std::ops::Range;

impl List {
    /// Removes the elements of these indexes; those beyond the end are ignored. O(log n + leaves dropped).
    pub fn remove_range(&mut self, range: Range<u64>, limits: &Limits) {
        let range = range.start.min(self.len())..range.end.min(self.len());
        match &mut self.form {
            Form::Small(block) => block.remove_range(range.start as usize..range.end as usize),
            Form::Large(tree) => tree.remove_range(range),
        }
        self.shrunk(limits);
    }

    /// Keeps only the elements of these indexes (`LTRIM`).
    pub fn trim(&mut self, keep: Range<u64>, limits: &Limits) {
        self.remove_range(keep.end.max(keep.start)..u64::MAX, limits);
        self.remove_range(0..keep.start, limits);
    }

    /// Removes up to `count` elements at an end.
    pub fn drop_end(&mut self, end: End, count: u64, limits: &Limits) {
        let range = match end {
            End::Front => 0..count,
            End::Back => self.len().saturating_sub(count)..u64::MAX,
        };
        self.remove_range(range, limits);
    }

    /// Removes up to `count` elements equal to `item`, the nearest to `from` first (`LREM`). Returns how many.
    pub fn remove_equal(&mut self, from: End, item: &[u8], count: u64, limits: &Limits) -> u64 {
        let needle = Needle::new(item);
        let removed = match &mut self.form {
            Form::Small(block) => remove_in_block(block, from, &needle, count),
            Form::Large(tree) => remove_in_tree(tree, from, &needle, count),
        };
        if removed > 0 {
            self.shrunk(limits);
        }
        removed
    }
}

fn remove_in_block(block: &mut Block, from: End, needle: &Needle<'_>, count: u64) -> u64 {
    // From the back: all matches but those that the forward walk has to spare.
    let mut spare = match from {
        End::Front => 0,
        End::Back => (block.iter().filter(|elem| elem.is(needle)).count() as u64).saturating_sub(count),
    };
    let mut removed = 0;
    block.retain(|elem| {
        if removed == count || !elem.is(needle) {
            return true;
        }
        if spare > 0 {
            spare -= 1;
            return true;
        }
        removed += 1;
        false
    });
    removed
}

/// Only leaves with a match are written (and copied, if shared).
fn remove_in_tree(tree: &mut Tree<Run>, from: End, needle: &Needle<'_>, count: u64) -> u64 {
    let mut removed = 0;
    // Forwards: everything before `at` is done. Backwards: everything from `at` on is.
    let mut at = if from == End::Front { 0 } else { tree.len() };
    while removed < count {
        let Some(rank) = next_match(tree, from, at, needle) else { break };
        let left = count - removed;
        let (here, before) = tree.modify(rank, |Run(block), index| {
            let before = block.len();
            let removed = remove_in_block(block, from, needle, left);
            (removed, (index as u64, before as u64))
        });
        removed += here;
        let (index, len) = before;
        at = match from {
            End::Front => rank - index + len - here,
            End::Back => rank - index,
        };
    }
    removed
}

/// The rank of the match nearest to `at` in the direction away from `from`.
fn next_match(tree: &Tree<Run>, from: End, at: u64, needle: &Needle<'_>) -> Option<u64> {
    let mut rank = at;
    match from {
        End::Front => {
            for (run, start) in tree.leaves_from(at) {
                match run.0.iter_from(start).position(|elem| elem.is(needle)) {
                    Some(i) => return Some(rank + i as u64),
                    None => rank += (run.0.len() - start) as u64,
                }
            }
        }
        End::Back => {
            for (run, end) in tree.leaves_back(at) {
                match run.0.iter_to(end).rev().position(|elem| elem.is(needle)) {
                    Some(i) => return Some(rank - 1 - i as u64),
                    None => rank -= end as u64,
                }
            }
        }
    }
    None
}
