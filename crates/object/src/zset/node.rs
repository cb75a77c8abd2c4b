//! The nodes of a [`super::tree::Tree`] and the changes that run down one path of them.

use std::sync::Arc;

use crate::saved::Ledger;

use super::item::{Bounds, Item, Number, Place, Scalar, Tie};
use super::page::Page;

/// Most bytes of a leaf after an insertion. Smaller leaves cost more nodes, larger ones more copying at every
/// insertion.
pub(super) const LEAF_MAX: usize = if cfg!(test) { 160 } else { 3 << 10 };
/// The most bytes of strings that are out of line in a leaf of several elements: with them it is 8 KB in a store.
const LONG_MAX: usize = if cfg!(test) { 300 } else { 5 << 10 };
/// The most children an inner node has.
const FANOUT: usize = if cfg!(test) { 8 } else { 192 };

/// Children in order, with what separates and what counts them.
pub(super) struct Inner<K, V> {
    /// One less than there are children: all elements left of a separator are smaller, none to its right is.
    pub(super) separators: Page<K, ()>,
    /// Elements below each child.
    pub(super) counts: Vec<u64>,
    pub(super) children: Vec<Node<K, V>>,
    /// The greatest stamp of all leaves below.
    pub(super) stamp: u32,
}

/// The figures of all of a tree's nodes, to be kept right while they change.
pub(super) struct Books<'a> {
    /// Bytes of heap.
    pub(super) heap: &'a mut usize,
    pub(super) ledger: &'a mut Ledger,
}

pub(super) enum Node<K, V> {
    Leaf(Page<K, V>),
    Inner(Arc<Inner<K, V>>),
}

/// A node that did not fit any more, cut off to the right, and what separates it.
pub(super) struct Split<K, V> {
    separator: (K, Arc<[u8]>),
    right: Node<K, V>,
    count: u64,
}

/// Bytes of the two reference counts in front of what an `Arc` holds.
const ARC: usize = 2 * size_of::<usize>();

impl<K, V> Clone for Node<K, V> {
    fn clone(&self) -> Self {
        match self {
            Node::Leaf(leaf) => Node::Leaf(leaf.clone()),
            Node::Inner(inner) => Node::Inner(inner.clone()),
        }
    }
}

impl<K, V> Clone for Inner<K, V> {
    fn clone(&self) -> Self {
        Inner {
            separators: self.separators.clone(),
            counts: self.counts.clone(),
            children: self.children.clone(),
            stamp: self.stamp,
        }
    }
}

/// Cuts a leaf if it has grown too heavy by an insertion at `inserted`. Where elements arrive in order it is cut right
/// behind the last one, so that full leaves stay behind; otherwise in the middle.
fn split_leaf<K: Number, V: Scalar>(
    leaf: &mut Page<K, V>,
    inserted: usize,
    ledger: &mut Ledger,
) -> Option<Split<K, V>> {
    let len = leaf.len();
    if leaf.weight() <= LEAF_MAX && leaf.long_bytes() <= LONG_MAX || len < 2 {
        return None;
    }
    let at = match inserted {
        0 => 1,
        i if i + 1 == len => i,
        _ => len / 2,
    };
    let mut right = leaf.split_off(at);
    (right.label, right.stamp) = (ledger.count_up(), ledger.mark());
    ledger.leaves += 1;
    let separator = leaf.separator(&right);
    Some(Split { separator, count: right.len() as u64, right: Node::Leaf(right) })
}

/// Makes room for one more, an eighth at a time: doubling would waste a quarter of the memory.
fn reserve<T>(v: &mut Vec<T>) {
    if v.len() == v.capacity() {
        v.reserve_exact(v.len() / 8 + 1);
    }
}

impl<K: Number, V: Scalar> Inner<K, V> {
    /// A new root above one that was split; `len` counts both halves.
    pub(super) fn root(left: Node<K, V>, len: u64, split: Split<K, V>) -> Node<K, V> {
        let stamp = left.stamp().max(split.right.stamp());
        let mut inner = Inner { separators: Page::new(), counts: vec![len], children: vec![left], stamp };
        inner.adopt(0, split);
        Node::Inner(Arc::new(inner))
    }

    fn heap(&self) -> usize {
        ARC + size_of::<Self>()
            + self.separators.heap()
            + self.counts.capacity() * size_of::<u64>()
            + self.children.capacity() * size_of::<Node<K, V>>()
    }

    /// Frees nodes from the end while there is a budget; counts and separators are of no use afterwards.
    pub(super) fn shed(&mut self, budget: &mut usize) {
        while *budget > 0
            && let Some(child) = self.children.last_mut()
        {
            let cost = match child {
                Node::Leaf(leaf) => leaf.allocations(),
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

    /// The child for `place`, and the bounds of its numbers.
    pub(super) fn route(&self, place: Place<'_, K>, bounds: Bounds<K>) -> (usize, Bounds<K>) {
        let i = self.separators.rank(place, bounds);
        let low = if i > 0 { Some(self.separators.number(i - 1)) } else { bounds.low };
        let high = if i < self.separators.len() { Some(self.separators.number(i)) } else { bounds.high };
        (i, Bounds { low, high })
    }

    /// Puts the right part of child `i` behind it.
    fn adopt(&mut self, i: usize, split: Split<K, V>) {
        self.separators.insert(i, split.separator.0, Item::from_shared(&split.separator.1), ());
        self.counts[i] -= split.count;
        reserve(&mut self.counts);
        self.counts.insert(i + 1, split.count);
        reserve(&mut self.children);
        self.children.insert(i + 1, split.right);
    }

    /// Cuts the node if it has too many children; `inserted` as for a leaf.
    fn split(&mut self, inserted: usize) -> Option<Split<K, V>> {
        let len = self.children.len();
        if len <= FANOUT {
            return None;
        }
        let at = if inserted + 2 == len { len - 2 } else { len / 2 };
        let mut right = Inner {
            separators: self.separators.split_off(at - 1),
            counts: self.counts.split_off(at),
            children: self.children.split_off(at),
            stamp: self.stamp,
        };
        self.counts.shrink_to_fit();
        self.children.shrink_to_fit();
        let separator = (right.separators.number(0), right.separators.item(0).shared());
        right.separators.remove(0, 1);
        Some(Split { separator, count: right.counts.iter().sum(), right: Node::Inner(Arc::new(right)) })
    }

    /// Drops child `i` if it is empty, or merges it with a neighbour if it is light and the two fit together easily.
    fn settle(&mut self, i: usize, books: &mut Books<'_>) {
        if self.counts.get(i) == Some(&0) && self.children.len() > 1 {
            self.children.remove(i).leave(books);
            self.counts.remove(i);
            let separator = i.saturating_sub(1);
            self.separators.remove(separator, separator + 1);
            return;
        }
        if !self.children.get(i).is_some_and(|child| child.light()) {
            return;
        }
        let right = i + 1 < self.children.len() && self.children[i].fits(&self.children[i + 1]);
        if right {
            self.merge(i, books);
        } else if i > 0 && self.children[i - 1].fits(&self.children[i]) {
            self.merge(i - 1, books);
        }
    }

    /// Appends child `i + 1` to child `i`.
    fn merge(&mut self, i: usize, books: &mut Books<'_>) {
        let right = self.children.remove(i + 1);
        self.counts[i] += self.counts.remove(i + 1);
        *books.heap -= self.children[i].own_heap() + right.own_heap();
        match (&mut self.children[i], right) {
            (Node::Leaf(left), Node::Leaf(right)) => {
                left.append(&right);
                left.stamp = books.ledger.mark();
                books.ledger.leaves -= 1;
                books.ledger.bury(right.label, true);
            }
            (Node::Inner(left), Node::Inner(right)) => {
                let left = Arc::make_mut(left);
                let end = left.separators.len();
                left.separators.insert(end, self.separators.number(i), self.separators.item(i), ());
                left.separators.append(&right.separators);
                left.counts.extend_from_slice(&right.counts);
                left.children.extend_from_slice(&right.children);
                left.stamp = left.stamp.max(right.stamp);
            }
            // Siblings are of one kind: splits and merges keep all leaves at one depth.
            (Node::Leaf(_), Node::Inner(_)) | (Node::Inner(_), Node::Leaf(_)) => {
                unreachable!("siblings differ in depth")
            }
        }
        self.separators.remove(i, i + 1);
        *books.heap += self.children[i].own_heap();
    }
}

impl<K: Number, V: Scalar> Node<K, V> {
    pub(super) fn empty() -> Self {
        Node::Leaf(Page::new())
    }

    /// Bytes of heap of this node alone.
    pub(super) fn own_heap(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.heap(),
            Node::Inner(inner) => inner.heap(),
        }
    }

    /// Bytes of heap of this node and everything below it.
    pub(super) fn heap(&self) -> usize {
        self.own_heap()
            + match self {
                Node::Leaf(_) => 0,
                Node::Inner(inner) => inner.children.iter().map(Node::heap).sum(),
            }
    }

    /// The greatest stamp of all leaves below.
    pub(super) fn stamp(&self) -> u32 {
        match self {
            Node::Leaf(leaf) => leaf.stamp,
            Node::Inner(inner) => inner.stamp,
        }
    }

    /// Takes itself and everything below out of the books.
    fn leave(&self, books: &mut Books<'_>) {
        *books.heap -= self.own_heap();
        match self {
            Node::Leaf(leaf) => {
                books.ledger.leaves -= 1;
                books.ledger.bury(leaf.label, true);
            }
            Node::Inner(inner) => inner.children.iter().for_each(|child| child.leave(books)),
        }
    }

    /// Shows the leaves that were changed since the freeze that began mark `since`, in order.
    pub(super) fn changed<E>(&self, since: u32, each: &mut impl FnMut(&Page<K, V>) -> Result<(), E>) -> Result<(), E> {
        match self {
            _ if self.stamp() < since => Ok(()),
            Node::Leaf(leaf) => each(leaf),
            Node::Inner(inner) => inner.children.iter().try_for_each(|child| child.changed(since, each)),
        }
    }

    fn light(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.weight() < LEAF_MAX / 4,
            Node::Inner(inner) => inner.children.len() < FANOUT / 4,
        }
    }

    fn fits(&self, right: &Self) -> bool {
        match (self, right) {
            (Node::Leaf(a), Node::Leaf(b)) => {
                a.weight() + b.weight() <= LEAF_MAX * 3 / 4 && a.long_bytes() + b.long_bytes() <= LONG_MAX * 3 / 4
            }
            (Node::Inner(a), Node::Inner(b)) => a.children.len() + b.children.len() <= FANOUT * 3 / 4,
            _ => false,
        }
    }

    /// Runs `f` on the leaf where (number, string) is or would be, with its position there, and restores the shape of
    /// this subtree. `f` may insert at that position, remove the element there, or change its value.
    pub(super) fn edit<R>(
        &mut self,
        number: K,
        string: &[u8],
        bounds: Bounds<K>,
        books: &mut Books<'_>,
        f: impl FnOnce(&mut Page<K, V>, Result<usize, usize>) -> R,
    ) -> (R, i64, Option<Split<K, V>>) {
        match self {
            Node::Leaf(leaf) => {
                let (before, old) = (leaf.heap(), leaf.len());
                let found = leaf.find(number, string, bounds);
                let result = f(leaf, found);
                let delta = leaf.len() as i64 - old as i64;
                leaf.stamp = books.ledger.mark();
                let split = if delta > 0 { split_leaf(leaf, found.unwrap_or_else(|i| i), books.ledger) } else { None };
                *books.heap = *books.heap + leaf.heap() + split.as_ref().map_or(0, |s| s.right.own_heap()) - before;
                (result, delta, split)
            }
            Node::Inner(inner) => {
                let before = inner.heap();
                let inner = Arc::make_mut(inner);
                inner.stamp = books.ledger.mark();
                let (i, bounds) = inner.route(Place { number, tie: Tie::Through(string) }, bounds);
                let (result, delta, split) = inner.children[i].edit(number, string, bounds, books, f);
                inner.counts[i] = inner.counts[i].wrapping_add_signed(delta);
                let split = match split {
                    Some(split) => {
                        inner.adopt(i, split);
                        inner.split(i)
                    }
                    None => None,
                };
                if delta < 0 {
                    inner.settle(i, books);
                }
                *books.heap = *books.heap + inner.heap() + split.as_ref().map_or(0, |s| s.right.own_heap()) - before;
                (result, delta, split)
            }
        }
    }

    /// Removes the elements of ranks `from..to`, which must not be all of this subtree.
    pub(super) fn cut(&mut self, from: u64, to: u64, books: &mut Books<'_>) {
        let before = self.own_heap();
        match self {
            Node::Leaf(leaf) => {
                leaf.remove(from as usize, to as usize);
                leaf.stamp = books.ledger.mark();
            }
            Node::Inner(inner) => {
                let inner = Arc::make_mut(inner);
                inner.stamp = books.ledger.mark();
                let mut whole = 0..0;
                let mut partial = None;
                let mut start = 0;
                for i in 0..inner.children.len() {
                    let count = inner.counts[i];
                    let low = from.max(start) - start;
                    let high = to.min(start + count).saturating_sub(start);
                    start += count;
                    if low >= high {
                        continue;
                    }
                    if high - low == count {
                        inner.children[i].leave(books);
                        whole = if whole.is_empty() { i..i + 1 } else { whole.start..i + 1 };
                    } else {
                        inner.children[i].cut(low, high, books);
                        inner.counts[i] -= high - low;
                        partial = partial.or(Some(i));
                    }
                }
                // Behind the last child that stays to the left.
                let gap = if whole.is_empty() { partial.map_or(0, |i| i + 1) } else { whole.start };
                // A dropped child takes the separator to its left with it, or to its right if it has no left.
                let first = whole.start.saturating_sub(1);
                inner.separators.remove(first, first + whole.len());
                inner.counts.drain(whole.clone());
                inner.children.drain(whole);
                inner.settle(gap, books);
                inner.settle(gap.saturating_sub(1), books);
            }
        }
        *books.heap = *books.heap + self.own_heap() - before;
    }
}

/// Stacks inner nodes over leaves that are in order, none of them empty.
pub(super) fn stack<K: Number, V: Scalar>(pages: Vec<Page<K, V>>) -> Node<K, V> {
    let mut separators: Vec<_> = pages.windows(2).map(|pair| Some(pair[0].separator(&pair[1]))).collect();
    separators.insert(0, None);
    let counts: Vec<u64> = pages.iter().map(|page| page.len() as u64).collect();
    // Each node with what separates it from the one before and the number of elements below.
    let mut level: Vec<_> = separators.into_iter().zip(counts).zip(pages.into_iter().map(Node::Leaf)).collect();
    while level.len() > 1 {
        let parts = level.len().div_ceil(FANOUT / 4 * 3);
        let (size, more) = (level.len() / parts, level.len() % parts);
        let mut nodes = level.into_iter();
        level = (0..parts)
            .map(|part| {
                let size = size + usize::from(part < more);
                let mut inner = Inner {
                    separators: Page::new(),
                    counts: Vec::with_capacity(size),
                    children: Vec::with_capacity(size),
                    stamp: 0,
                };
                let mut first = None;
                for ((separator, count), node) in nodes.by_ref().take(size) {
                    match separator {
                        Some((number, string)) if !inner.children.is_empty() => {
                            let at = inner.separators.len();
                            inner.separators.insert(at, number, Item::from_shared(&string), ());
                        }
                        separator => first = separator,
                    }
                    inner.counts.push(count);
                    inner.stamp = inner.stamp.max(node.stamp());
                    inner.children.push(node);
                }
                ((first, inner.counts.iter().sum()), Node::Inner(Arc::new(inner)))
            })
            .collect();
    }
    level.pop().map_or_else(Node::empty, |(_, node)| node)
}
