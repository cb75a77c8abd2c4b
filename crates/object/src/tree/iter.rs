//! Walking the leaves of a tree from a rank, either way.

use super::node::{Child, Node};
use super::{Leaf, Tree};
use smallvec::SmallVec;

/// Iterator over leaves; see [`Tree::leaves_from`] and [`Tree::leaves_back`].
pub struct Leaves<'a, L: Leaf> {
    /// For each level the nodes that are still to visit: children after (or before) the path.
    path: SmallVec<[&'a [Child<L>]; 6]>,
    /// Position in the first leaf to be returned, taken by the first call.
    start: Option<usize>,
    back: bool,
}

impl<'a, L: Leaf> Leaves<'a, L> {
    pub(super) fn forward(tree: &'a Tree<L>, rank: u64) -> Self {
        let mut walk = Leaves { path: SmallVec::new(), start: None, back: false };
        if rank < tree.len {
            walk.descend(&tree.root.children, rank);
        }
        walk
    }

    pub(super) fn backward(tree: &'a Tree<L>, rank: u64) -> Self {
        let mut walk = Leaves { path: SmallVec::new(), start: None, back: true };
        let rank = rank.min(tree.len);
        if rank > 0 {
            walk.descend(&tree.root.children, rank - 1);
        }
        walk
    }

    /// Follows `rank`, leaving on the path the children from (or up to) the taken one. The leaf's own level keeps the
    /// leaf; upper levels do not keep the node that was entered.
    fn descend(&mut self, mut children: &'a [Child<L>], mut rank: u64) {
        loop {
            let mut i = 0;
            while let Some(child) = children.get(i) {
                if rank < child.len {
                    break;
                }
                rank -= child.len;
                i += 1;
            }
            let Some(child) = children.get(i) else { return };
            match &child.node {
                Node::Leaf(_) => {
                    self.start = Some(rank as usize + usize::from(self.back));
                    self.path.push(if self.back { &children[..=i] } else { &children[i..] });
                    return;
                }
                Node::Inner(inner) => {
                    self.path.push(if self.back { &children[..i] } else { &children[i + 1..] });
                    children = &inner.children;
                }
            }
        }
    }
}

impl<'a, L: Leaf> Iterator for Leaves<'a, L> {
    type Item = (&'a L, usize);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let level = self.path.last_mut()?;
            let taken = if self.back { level.split_last() } else { level.split_first() };
            let Some((child, rest)) = taken else {
                self.path.pop();
                continue;
            };
            *level = rest;
            match &child.node {
                Node::Leaf(leaf) => {
                    let whole = if self.back { leaf.len() } else { 0 };
                    return Some((leaf, self.start.take().unwrap_or(whole)));
                }
                Node::Inner(inner) => self.path.push(&inner.children),
            }
        }
    }
}
