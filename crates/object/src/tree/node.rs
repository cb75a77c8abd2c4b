//! Inner nodes: routing, splitting, merging.
//!
//! Separators are lower bounds, written when a leaf comes into being and moved, never recomputed, afterwards. Every
//! element of child i is at or above its separator, and every element of child i-1 is below it. The separator of a
//! node's *first* child is never used for routing (everything below goes left). It may be stale until that child gets a
//! left neighbour: merging and pushing at the front repair it then.

use super::near::partition_near;
use super::{LEAF_BYTES_MAX, LEAF_BYTES_MERGED, LEAF_BYTES_MIN, Leaf};
use crate::saved::Ledger;
use crate::shed;
use std::ops::Range;
use std::sync::Arc;

/// Most children of an inner node.
pub(super) const FANOUT: usize = 64;

/// Children per node when a level is built at once or split.
const FANOUT_BUILT: usize = FANOUT / 4 * 3;

/// Running figures of a tree, in bytes.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(crate) struct Totals {
    /// Those that the elements take.
    pub bytes: usize,
    /// Those held on the heap, spare capacity included.
    pub heap: usize,
}

impl Totals {
    pub fn add<L: Leaf>(&mut self, leaf: &L) {
        self.bytes += leaf.bytes();
        self.heap += leaf.heap_bytes();
    }

    fn subtract<L: Leaf>(&mut self, leaf: &L) {
        self.bytes -= leaf.bytes();
        self.heap -= leaf.heap_bytes();
    }
}

#[derive(Clone)]
pub(super) enum Node<L: Leaf> {
    Leaf(Arc<L>),
    Inner(Arc<Inner<L>>),
}

#[derive(Clone)]
pub(super) struct Child<L: Leaf> {
    pub sep: L::Sep,
    /// The ledger's mark at the last change below.
    pub stamp: u32,
    /// A leaf's name in a store; nothing for inner nodes.
    pub label: u64,
    pub len: u64,
    /// The least [`Leaf::least`] of all leaves below; `u64::MAX` where it is not kept.
    pub least: u64,
    pub node: Node<L>,
}

#[derive(Clone)]
pub(super) struct Inner<L: Leaf> {
    pub children: Vec<Child<L>>,
}

/// How to choose a child on the way down.
pub(super) trait Route<L: Leaf> {
    /// Index of the child to take; `children` is not empty, `len` is the number of elements below them.
    fn pick(&mut self, children: &[Child<L>], len: u64) -> usize;
}

/// To the element of a rank; `left` ends as the position in the leaf. The rank `len` leads behind the last element.
pub(super) struct ByRank {
    pub left: u64,
}

impl<L: Leaf> Route<L> for ByRank {
    fn pick(&mut self, children: &[Child<L>], len: u64) -> usize {
        let last = children.len() - 1;
        if self.left > len / 2 {
            // From the nearer end: pushing and popping at the tail reads one child.
            let mut before = len;
            for (i, child) in children.iter().enumerate().rev() {
                before -= child.len;
                if before <= self.left {
                    self.left -= before;
                    return i;
                }
            }
        }
        for (i, child) in children.iter().enumerate() {
            if self.left < child.len || i == last {
                return i;
            }
            self.left -= child.len;
        }
        last
    }
}

/// To the last child whose separator is reached; `base` ends as the rank of the leaf's first element.
pub(super) struct BySep<F> {
    pub reached: F,
    pub base: u64,
}

impl<L: Leaf, F: Fn(&L::Sep) -> bool> Route<L> for BySep<F> {
    fn pick(&mut self, children: &[Child<L>], _len: u64) -> usize {
        let i = children[1..].partition_point(|child| (self.reached)(&child.sep));
        self.base += children[..i].iter().map(|child| child.len).sum::<u64>();
        i
    }
}

/// As [`BySep`], without ranks, and beginning the search at a guess: the place among `n` children whose first and last
/// separators are given. `first` ends as whether the leaf is the first of all.
pub(super) struct BySepNear<F, G> {
    pub reached: F,
    pub guess: G,
    pub first: bool,
}

impl<L, F, G> Route<L> for BySepNear<F, G>
where
    L: Leaf,
    F: Fn(&L::Sep) -> bool,
    G: Fn(&L::Sep, &L::Sep, usize) -> usize,
{
    #[inline]
    fn pick(&mut self, children: &[Child<L>], _len: u64) -> usize {
        let i = match children {
            [_, rest @ ..] if !rest.is_empty() => {
                let guess = (self.guess)(&rest[0].sep, &rest[rest.len() - 1].sep, rest.len());
                partition_near(rest.len(), guess, |i| (self.reached)(&rest[i].sep))
            }
            _ => 0,
        };
        self.first &= i == 0;
        i
    }
}

/// To the first child with a leaf whose `least` is at most `limit`; `base` ends as the rank of the leaf's first
/// element.
pub(super) struct ByLeast {
    pub limit: u64,
    pub base: u64,
}

impl<L: Leaf> Route<L> for ByLeast {
    fn pick(&mut self, children: &[Child<L>], _len: u64) -> usize {
        let i = children.iter().position(|child| child.least <= self.limit).unwrap_or(0);
        self.base += children[..i].iter().map(|child| child.len).sum::<u64>();
        i
    }
}

/// The result of a change: the caller's result, the change in elements, and nodes to insert after this one.
pub(super) struct Done<L: Leaf, R> {
    pub result: R,
    pub grown: i64,
    /// The leaf's [`Leaf::least`] is another one now.
    pub least_moved: bool,
    pub siblings: Vec<Child<L>>,
}

impl<L: Leaf> Child<L> {
    /// A record for a leaf, which is not empty.
    pub fn of_leaf(leaf: L, label: u64, stamp: u32) -> Self {
        let (sep, len, least) = (leaf.first_sep(), leaf.len() as u64, leaf.least());
        Child { sep, stamp, label, len, least, node: Node::Leaf(Arc::new(leaf)) }
    }

    /// A record for an inner node; `None` if it has no children.
    pub fn over(inner: Arc<Inner<L>>) -> Option<Self> {
        let sep = inner.children.first()?.sep.clone();
        let len = inner.children.iter().map(|c| c.len).sum();
        let stamp = inner.children.iter().map(|c| c.stamp).max().unwrap_or(0);
        Some(Child { sep, stamp, label: 0, len, least: inner.least(), node: Node::Inner(inner) })
    }

    /// The label of the first leaf below.
    pub fn first_label(&self) -> u64 {
        let mut child = self;
        while let Node::Inner(inner) = &child.node
            && let Some(first) = inner.children.first()
        {
            child = first;
        }
        child.label
    }

    /// The label of the last leaf below.
    pub fn last_label(&self) -> u64 {
        let mut child = self;
        while let Node::Inner(inner) = &child.node
            && let Some(last) = inner.children.last()
        {
            child = last;
        }
        child.label
    }

    fn underfull(&self) -> bool {
        match &self.node {
            Node::Leaf(leaf) => leaf.bytes() < LEAF_BYTES_MIN,
            Node::Inner(inner) => inner.children.len() < FANOUT / 4,
        }
    }

    /// Subtracts everything below from the totals: it is leaving the tree.
    fn untally(&self, ledger: &mut Ledger) {
        match &self.node {
            Node::Leaf(leaf) => {
                ledger.totals.subtract(&**leaf);
                ledger.leaves -= 1;
                ledger.bury(self.label, L::SORTED);
            }
            Node::Inner(inner) => inner.children.iter().for_each(|c| c.untally(ledger)),
        }
    }
}

/// Appends a leaf as one child, or as several if it is too large, and counts them. Labels are still to be given.
pub(super) fn push_pieces<L: Leaf>(children: &mut Vec<Child<L>>, leaf: L, ledger: &mut Ledger) {
    let mut rest = vec![leaf];
    while let Some(mut leaf) = rest.pop() {
        if leaf.is_empty() {
            continue;
        }
        if leaf.bytes() > LEAF_BYTES_MAX && leaf.len() > 1 {
            let upper = leaf.split(leaf.bytes() / 2);
            debug_assert!(!leaf.is_empty() && !upper.is_empty());
            rest.push(upper);
            rest.push(leaf);
            continue;
        }
        ledger.totals.add(&leaf);
        ledger.leaves += 1;
        children.push(Child::of_leaf(leaf, 0, ledger.mark()));
    }
}

/// Stacks levels of inner nodes over children until they fit under one node.
pub(super) fn group<L: Leaf>(mut children: Vec<Child<L>>) -> Vec<Child<L>> {
    while children.len() > FANOUT {
        children = chunks(children).into_iter().filter_map(|c| Child::over(Arc::new(Inner { children: c }))).collect();
    }
    children
}

/// Deals children out evenly, at most [`FANOUT_BUILT`] together.
fn chunks<L: Leaf>(children: Vec<Child<L>>) -> Vec<Vec<Child<L>>> {
    let parts = children.len().div_ceil(FANOUT_BUILT).max(1);
    let (size, more) = (children.len() / parts, children.len() % parts);
    let mut from = children.into_iter();
    (0..parts).map(|i| from.by_ref().take(size + usize::from(i < more)).collect()).collect()
}

impl<L: Leaf> Inner<L> {
    /// The least [`Leaf::least`] of all leaves below.
    pub fn least(&self) -> u64 {
        if !L::KEEPS_LEAST {
            return u64::MAX;
        }
        self.children.iter().map(|child| child.least).min().unwrap_or(u64::MAX)
    }

    /// The leaf a route leads to; `None` only if there are no children.
    pub fn descend<'a, T: Route<L>>(&'a self, len: u64, route: &mut T) -> Option<&'a L> {
        let (mut inner, mut len) = (self, len);
        loop {
            if inner.children.is_empty() {
                return None;
            }
            let child = &inner.children[route.pick(&inner.children, len)];
            match &child.node {
                Node::Leaf(leaf) => return Some(leaf),
                Node::Inner(next) => (inner, len) = (next, child.len),
            }
        }
    }

    /// Changes the leaf a route leads to. `first` says whether this node is the first of its level, `next` is the
    /// following one.
    pub fn modify<R, T: Route<L>>(
        &mut self,
        len: u64,
        route: &mut T,
        first: bool,
        next: Option<&Child<L>>,
        change: impl FnOnce(&mut L, &T) -> R,
        ledger: &mut Ledger,
    ) -> Done<L, R> {
        let i = route.pick(&self.children, len);
        let first = first && i == 0;
        let Some((child, behind)) = self.children[i..].split_first_mut() else {
            unreachable!("the route has picked it")
        };
        child.stamp = ledger.mark();
        let (result, grown, least_moved);
        match &mut child.node {
            Node::Leaf(leaf) => {
                // Before a copy is made: it may have less spare room than was counted.
                ledger.totals.subtract(&**leaf);
                let leaf = Arc::make_mut(leaf);
                let bytes = leaf.bytes();
                result = change(leaf, route);
                ledger.totals.add(leaf);
                grown = leaf.len() as i64 - child.len as i64;
                child.len = leaf.len() as u64;
                least_moved = child.least != leaf.least();
                child.least = leaf.least();
                if leaf.bytes() > LEAF_BYTES_MAX && leaf.len() > 1 {
                    self.split_leaf(i, first, next, ledger);
                } else if leaf.bytes() < LEAF_BYTES_MIN && (leaf.bytes() < bytes || leaf.is_empty()) {
                    self.mend(i, ledger);
                }
            }
            Node::Inner(inner) => {
                let inner = Arc::make_mut(inner);
                let before = inner.children.len();
                let next = behind.first().or(next);
                let done = inner.modify(child.len, route, first, next, change, ledger);
                (result, grown, least_moved) = (done.result, done.grown, done.least_moved);
                let left_over: u64 = done.siblings.iter().map(|c| c.len).sum();
                child.len = child.len.wrapping_add_signed(grown) - left_over;
                if least_moved || !done.siblings.is_empty() {
                    child.least = inner.least();
                }
                if !done.siblings.is_empty() {
                    self.children.splice(i + 1..i + 1, done.siblings);
                } else if inner.children.len() < before && child.underfull() {
                    self.mend(i, ledger);
                }
            }
        }
        Done { result, grown, least_moved, siblings: self.overflow() }
    }

    /// Adds children at one end of the leaf level; returns nodes to insert after this one.
    pub fn push(&mut self, pieces: Vec<Child<L>>, front: bool, mark: u32) -> Vec<Child<L>> {
        let at = if front { 0 } else { self.children.len().saturating_sub(1) };
        match self.children.get_mut(at) {
            Some(Child { stamp, len, least, node: Node::Inner(inner), .. }) => {
                *stamp = mark;
                *len += pieces.iter().map(|c| c.len).sum::<u64>();
                let siblings = Arc::make_mut(inner).push(pieces, front, mark);
                *least = inner.least();
                *len -= siblings.iter().map(|c| c.len).sum::<u64>();
                self.children.splice(at + 1..at + 1, siblings);
            }
            Some(Child { sep, node: Node::Leaf(leaf), .. }) if front => {
                *sep = leaf.first_sep();
                self.children.splice(0..0, pieces);
            }
            _ => self.children.extend(pieces),
        }
        self.overflow()
    }

    /// Removes elements, none of whose ranks is beyond the end.
    pub fn remove_range(&mut self, ranks: Range<u64>, ledger: &mut Ledger) {
        let (mut at, mut i, mut seam) = (0, 0, None);
        while i < self.children.len() && at < ranks.end {
            let child = &mut self.children[i];
            let len = child.len;
            let (from, to) = (ranks.start.max(at), ranks.end.min(at + len));
            at += len;
            if from >= to {
                i += 1;
                continue;
            }
            seam = seam.or(Some(i));
            if to - from == len {
                // Neighbours go together with it: one shift of the children behind, however many leave.
                let mut end = i + 1;
                while end < self.children.len() && at + self.children[end].len <= ranks.end {
                    at += self.children[end].len;
                    end += 1;
                }
                self.children.drain(i..end).for_each(|c| c.untally(ledger));
                continue;
            }
            let within = from + len - at..to + len - at;
            child.len -= to - from;
            child.stamp = ledger.mark();
            match &mut child.node {
                Node::Leaf(leaf) => {
                    ledger.totals.subtract(&**leaf);
                    let leaf = Arc::make_mut(leaf);
                    leaf.remove_range(within.start as usize..within.end as usize);
                    ledger.totals.add(leaf);
                    child.least = leaf.least();
                }
                Node::Inner(inner) => {
                    let inner = Arc::make_mut(inner);
                    inner.remove_range(within, ledger);
                    child.least = inner.least();
                }
            }
            i += 1;
        }
        let Some(seam) = seam else { return };
        for i in [seam + 1, seam] {
            if self.children.get(i).is_some_and(Child::underfull) {
                self.mend(i, ledger);
            }
        }
    }

    /// Replaces an overfull leaf by its parts. At an edge of the tree, elements probably keep arriving at that edge. So
    /// the part on the inside is left nearly full and the one outside nearly empty. `next` is the node after this one.
    fn split_leaf(&mut self, i: usize, first: bool, next: Option<&Child<L>>, ledger: &mut Ledger) {
        let next = self.children.get(i + 1).or(next);
        let edge = (first, next.is_none());
        let high = if L::SORTED { None } else { next.map(Child::first_label) };
        let child = &mut self.children[i];
        let Node::Leaf(leaf) = &mut child.node else { return };
        ledger.totals.subtract(&**leaf);
        ledger.leaves -= 1;
        let leaf = Arc::make_mut(leaf);
        let bytes = leaf.bytes();
        let keep = match edge {
            (false, true) => bytes - bytes / 8,
            (true, false) => bytes / 8,
            _ => bytes / 2,
        };
        let upper = leaf.split(keep);
        let lower = std::mem::take(leaf);
        debug_assert!(!lower.is_empty() && !upper.is_empty());
        let mut parts = Vec::with_capacity(2);
        push_pieces(&mut parts, lower, ledger);
        push_pieces(&mut parts, upper, ledger);
        if let Some((first, others)) = parts.split_first_mut() {
            first.sep = child.sep.clone();
            first.label = child.label;
            let n = others.len() as u64;
            for (other, at) in others.iter_mut().zip(0..) {
                let label = if L::SORTED { ledger.count_up() } else { ledger.between(child.label, high, at, n) };
                other.label = label;
            }
        }
        self.children.splice(i..=i, parts);
    }

    /// Drops child `i` if it is empty, else merges it with a neighbour if the two are small enough.
    fn mend(&mut self, i: usize, ledger: &mut Ledger) {
        if self.children[i].len == 0 {
            self.children.remove(i).untally(ledger);
        } else if !self.merge(i, ledger) && i > 0 {
            self.merge(i - 1, ledger);
        }
    }

    /// Merges child `i` with the next one, if there is one and they fit together.
    fn merge(&mut self, i: usize, ledger: &mut Ledger) -> bool {
        let [a, b, ..] = &mut self.children[i..] else { return false };
        match (&mut a.node, &mut b.node) {
            (Node::Leaf(x), Node::Leaf(y)) if x.bytes() + y.bytes() <= LEAF_BYTES_MERGED => {
                ledger.totals.subtract(&**x);
                ledger.totals.subtract(&**y);
                Arc::make_mut(x).append(std::mem::take(Arc::make_mut(y)));
                ledger.totals.add(&**x);
                ledger.leaves -= 1;
                ledger.bury(b.label, L::SORTED);
                a.stamp = ledger.mark();
            }
            (Node::Inner(x), Node::Inner(y)) if x.children.len() + y.children.len() <= FANOUT_BUILT => {
                let y = Arc::make_mut(y);
                if let Some(first) = y.children.first_mut() {
                    first.sep = b.sep.clone();
                }
                Arc::make_mut(x).children.append(&mut y.children);
                a.stamp = a.stamp.max(b.stamp);
            }
            _ => return false,
        }
        a.len += b.len;
        a.least = a.least.min(b.least);
        self.children.remove(i + 1);
        true
    }

    /// Frees leaves from the end while there is a budget; counts and separators are of no use afterwards.
    pub fn shed(&mut self, budget: &mut usize) {
        while *budget > 0
            && let Some(child) = self.children.last_mut()
        {
            let cost = match &mut child.node {
                Node::Leaf(leaf) => shed::cost(leaf.heap_bytes()),
                Node::Inner(inner) => {
                    if let Some(own) = Arc::get_mut(inner) {
                        own.shed(budget);
                        if !own.children.is_empty() {
                            return;
                        }
                    }
                    1
                }
            };
            self.children.pop();
            *budget = budget.saturating_sub(cost);
        }
    }

    /// If there are too many children, keeps the first part and returns nodes with the rest.
    #[inline]
    fn overflow(&mut self) -> Vec<Child<L>> {
        if self.children.len() <= FANOUT { Vec::new() } else { self.divide() }
    }

    #[cold]
    fn divide(&mut self) -> Vec<Child<L>> {
        let mut parts = chunks(std::mem::take(&mut self.children)).into_iter();
        self.children = parts.next().unwrap_or_default();
        parts.filter_map(|children| Child::over(Arc::new(Inner { children }))).collect()
    }

    /// Gives every leaf a label.
    pub fn relabel(&mut self, next: &mut impl FnMut() -> u64) {
        for child in &mut self.children {
            match &mut child.node {
                Node::Leaf(_) => child.label = next(),
                Node::Inner(inner) => Arc::make_mut(inner).relabel(next),
            }
        }
    }

    /// Shows the leaves that were changed since the freeze that began mark `since`, with their labels.
    ///
    /// # Errors
    ///
    /// The error of `each`.
    pub fn changed<E>(&self, since: u32, each: &mut impl FnMut(u64, &L) -> Result<(), E>) -> Result<(), E> {
        for child in self.children.iter().filter(|child| child.stamp >= since) {
            match &child.node {
                Node::Leaf(leaf) => each(child.label, leaf)?,
                Node::Inner(inner) => inner.changed(since, each)?,
            }
        }
        Ok(())
    }
}
