//! A B+ tree of (number, string) -> value, ordered, with counts.
//!
//! Both halves of a large sorted set are such trees: `Tree<f64, ()>` orders scores and members, `Tree<u32, f64>` finds
//! a member's score by the hash of the member. Leaves and inner nodes lie behind `Arc` and are copied when they are
//! written while shared, so a clone of the whole tree is one reference count.
//!
//! An inner node keeps a separator between any two children. Separators are as short as they can be; in particular
//! their strings are empty where the numbers differ. Ranks are positions in the whole order, from 0.

use std::sync::Arc;

use crate::saved::Ledger;

use super::item::{Bounds, Item, Number, Place, Scalar, Tie};
use super::node::{Books, Inner, Node};
use super::page::Page;

/// See the module.
pub(super) struct Tree<K, V> {
    root: Node<K, V>,
    len: u64,
    /// Bytes of heap of all nodes.
    heap: usize,
    ledger: Ledger,
}

impl<K, V> Clone for Tree<K, V> {
    fn clone(&self) -> Self {
        Tree { root: self.root.clone(), len: self.len, heap: self.heap, ledger: self.ledger.clone() }
    }
}

impl<K: Number, V: Scalar> Tree<K, V> {
    pub(super) fn new() -> Self {
        let mut ledger = Ledger::default();
        // There is always a leaf. This one is called 0.
        ledger.leaves = 1;
        ledger.count_up();
        let root = Node::empty();
        Tree { heap: root.heap(), len: 0, root, ledger }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of heap, nodes shared with clones included, long strings counted by their pointers only.
    pub(super) fn heap(&self) -> usize {
        self.heap
    }

    /// The tree's state for checkpoints.
    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The ledger, to be changed.
    pub(super) fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Shows the leaves that were changed since the freeze that began mark `since` (0: all), in order.
    pub(super) fn changed<E>(&self, since: u32, mut each: impl FnMut(&Page<K, V>) -> Result<(), E>) -> Result<(), E> {
        self.root.changed(since, &mut each)
    }

    /// Builds a tree of leaves that are in order. None are made up, and none may be empty.
    pub(super) fn of_pages(pages: Vec<Page<K, V>>, ledger: Ledger) -> Self {
        let len = pages.iter().map(|page| page.len() as u64).sum();
        let root = super::node::stack(pages);
        Tree { heap: root.heap(), len, root, ledger }
    }

    /// Frees a part of a tree that will not be read any more: see [`crate::shed`].
    pub(super) fn shed(&mut self, budget: &mut usize) {
        if let Node::Inner(inner) = &mut self.root
            && let Some(inner) = Arc::get_mut(inner)
        {
            inner.shed(budget);
        }
    }

    /// Asks for the leaf that a search for `number` will come to, while there is something else to do.
    pub(super) fn prefetch(&self, number: K) {
        let Node::Inner(inner) = &self.root else { return };
        let mut inner = inner;
        let mut bounds = Bounds::UNKNOWN;
        loop {
            let i;
            (i, bounds) = inner.route(Place { number, tie: Tie::Last }, bounds);
            match &inner.children[i] {
                Node::Leaf(leaf) => return leaf.prefetch(number, bounds, inner.counts[i] as usize),
                Node::Inner(next) => inner = next,
            }
        }
    }

    pub(super) fn get(&self, number: K, string: &[u8]) -> Option<V> {
        let mut node = &self.root;
        let mut bounds = Bounds::UNKNOWN;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf.find(number, string, bounds).ok().map(|i| leaf.value(i)),
                Node::Inner(inner) => {
                    let i;
                    (i, bounds) = inner.route(Place { number, tie: Tie::Through(string) }, bounds);
                    node = &inner.children[i];
                }
            }
        }
    }

    /// How many elements lie before `place`. O(log n).
    pub(super) fn rank(&self, place: Place<'_, K>) -> u64 {
        let mut node = &self.root;
        let mut bounds = Bounds::UNKNOWN;
        let mut before = 0;
        loop {
            match node {
                Node::Leaf(leaf) => return before + leaf.rank(place, bounds) as u64,
                Node::Inner(inner) => {
                    let i;
                    (i, bounds) = inner.route(place, bounds);
                    before += inner.counts[..i].iter().sum::<u64>();
                    node = &inner.children[i];
                }
            }
        }
    }

    /// The leaf that holds the element of a rank, and its position there; past the end, the end of the last leaf.
    fn at(&self, mut rank: u64) -> (&Page<K, V>, usize) {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf, leaf.len().min(rank as usize)),
                Node::Inner(inner) => {
                    let mut i = 0;
                    while i + 1 < inner.children.len() && rank >= inner.counts[i] {
                        rank -= inner.counts[i];
                        i += 1;
                    }
                    node = &inner.children[i];
                }
            }
        }
    }

    fn edit<R>(&mut self, number: K, string: &[u8], f: impl FnOnce(&mut Page<K, V>, Result<usize, usize>) -> R) -> R {
        let mut books = Books { heap: &mut self.heap, ledger: &mut self.ledger };
        let (result, delta, split) = self.root.edit(number, string, Bounds::UNKNOWN, &mut books, f);
        self.len = self.len.wrapping_add_signed(delta);
        if let Some(split) = split {
            let old = std::mem::replace(&mut self.root, Node::empty());
            self.root = Inner::root(old, self.len, split);
            self.heap += self.root.own_heap();
        }
        self.lower();
        result
    }

    /// Drops inner nodes with a single child from the top.
    fn lower(&mut self) {
        while let Node::Inner(inner) = &self.root
            && let [only] = inner.children.as_slice()
        {
            self.heap -= self.root.own_heap();
            self.root = only.clone();
        }
    }

    /// Finds an element and replaces its value by the result of `decide`, which gets the old one; `None` if the element
    /// is not there: it is inserted then. If `decide` returns `None`, nothing changes. Returns the old value.
    pub(super) fn update(&mut self, number: K, item: Item, decide: impl FnOnce(Option<V>) -> Option<V>) -> Option<V> {
        // The item moves into the leaf, so its bytes are borrowed apart for the search.
        let long: Arc<[u8]>;
        let string = match &item {
            Item::Inline(s) => *s,
            Item::Long(s) => {
                long = s.clone();
                &long
            }
        };
        self.edit(number, string, |leaf, found| {
            let old = found.ok().map(|i| leaf.value(i));
            match (decide(old), found) {
                (None, _) => {}
                (Some(new), Ok(i)) => leaf.set_value(i, new),
                (Some(new), Err(i)) => leaf.insert(i, number, item, new),
            }
            old
        })
    }

    /// Inserts an element, or sets the value of one that is there.
    pub(super) fn insert(&mut self, number: K, item: Item, value: V) {
        self.update(number, item, |_| Some(value));
    }

    /// Removes an element; if it was there, its value, and its string if that is shared.
    pub(super) fn take(&mut self, number: K, string: &[u8]) -> Option<(V, Option<Arc<[u8]>>)> {
        self.edit(number, string, |leaf, found| {
            let i = found.ok()?;
            let long = match leaf.item(i) {
                Item::Inline(_) => None,
                Item::Long(s) => Some(s),
            };
            let value = leaf.value(i);
            leaf.remove(i, i + 1);
            Some((value, long))
        })
    }

    /// Removes the elements of ranks `from..to`. O(log n + removed leaves).
    pub(super) fn remove_range(&mut self, from: u64, to: u64) {
        let to = to.min(self.len);
        if from >= to {
            return;
        }
        if to - from == self.len {
            *self = Tree::new();
            return;
        }
        self.root.cut(from, to, &mut Books { heap: &mut self.heap, ledger: &mut self.ledger });
        self.len -= to - from;
        self.lower();
    }

    /// All elements with their strings in a form that can be put into another tree.
    pub(super) fn items(&self) -> impl Iterator<Item = (K, Item<'_>)> {
        let mut all = self.range(0, self.len);
        std::iter::from_fn(move || all.step().map(|(leaf, i)| (leaf.number(i), leaf.item(i))))
    }

    /// The elements of ranks `from..to`, in order from either end.
    pub(super) fn range(&self, from: u64, to: u64) -> Range<'_, K, V> {
        Range { tree: self, from, to: to.min(self.len), front: None, back: None }
    }
}

/// Elements of a range of ranks; goes down the tree once for each leaf.
pub(super) struct Range<'a, K, V> {
    tree: &'a Tree<K, V>,
    from: u64,
    to: u64,
    /// Where the next element is, while that leaf lasts.
    front: Option<(&'a Page<K, V>, usize)>,
    /// Behind the last element, while that leaf lasts.
    back: Option<(&'a Page<K, V>, usize)>,
}

impl<'a, K: Number, V: Scalar> Range<'a, K, V> {
    /// Where the next element is.
    fn step(&mut self) -> Option<(&'a Page<K, V>, usize)> {
        if self.from >= self.to {
            return None;
        }
        let (leaf, i) = match self.front {
            Some((leaf, i)) if i < leaf.len() => (leaf, i),
            _ => self.tree.at(self.from),
        };
        self.from += 1;
        self.front = Some((leaf, i + 1));
        Some((leaf, i))
    }
}

impl<'a, K: Number, V: Scalar> Iterator for Range<'a, K, V> {
    type Item = (K, &'a [u8], V);

    fn next(&mut self) -> Option<Self::Item> {
        self.step().map(|(leaf, i)| (leaf.number(i), leaf.string(i), leaf.value(i)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.to.saturating_sub(self.from) as usize;
        (n, Some(n))
    }
}

impl<K: Number, V: Scalar> DoubleEndedIterator for Range<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.from >= self.to {
            return None;
        }
        self.to -= 1;
        let (leaf, i) = match self.back {
            Some((leaf, i)) if i > 0 => (leaf, i - 1),
            _ => self.tree.at(self.to),
        };
        self.back = Some((leaf, i));
        Some((leaf.number(i), leaf.string(i), leaf.value(i)))
    }
}

impl<K: Number, V: Scalar> ExactSizeIterator for Range<'_, K, V> {}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
