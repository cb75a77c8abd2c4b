//! The leaf tree: a sequence of compact leaves under inner nodes with counts.
//!
//! Every large collection is one. Leaves hold at most [`LEAF_BYTES_MAX`] bytes (a single larger element has a leaf of
//! its own). So a million elements are about a thousand allocations, and a checkpoint writes only changed leaves. A
//! clone shares everything: nodes are behind `Arc` and copied when written while shared (`Arc::make_mut`).
//!
//! Elements are found by rank (inner nodes know counts) or, in ordered collections, by a predicate over separators.
//! Only the leaf interprets an element.

mod iter;
pub(crate) mod near;
mod node;
#[cfg(test)]
mod tests;

use crate::Corrupt;
use crate::saved::Ledger;
pub use iter::Leaves;
pub(crate) use node::Totals;
use node::{ByLeast, ByRank, BySep, BySepNear, Child, Inner, Node, group};
use std::ops::Range;
use std::sync::Arc;

/// Most bytes of elements in a leaf of more than one element.
pub const LEAF_BYTES_MAX: usize = 8192;

/// A leaf that shrinks below this looks for a neighbour to merge with.
const LEAF_BYTES_MIN: usize = LEAF_BYTES_MAX / 4;

/// Neighbours are merged only if together they stay below this, so that the next insertion does not split them again.
const LEAF_BYTES_MERGED: usize = LEAF_BYTES_MAX / 4 * 3;

/// A compact run of consecutive elements.
pub trait Leaf: Clone + Default {
    /// Describes the smallest element of a leaf for ordered search; `()` where elements have no order of their own.
    type Sep: Clone;

    /// True if the tree keeps the least [`Leaf::least`] of every subtree.
    const KEEPS_LEAST: bool = false;

    /// True if the order of leaves follows from their contents: see [`crate::saved`].
    const SORTED: bool;

    /// The least of some figure of the elements, such as the time of expiry; see [`Tree::find_least`].
    fn least(&self) -> u64 {
        u64::MAX
    }

    /// Number of elements.
    fn len(&self) -> usize;

    /// True if there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes the elements take: splitting and merging depend on them.
    fn bytes(&self) -> usize;

    /// Bytes held on the heap, spare capacity included: [`Tree::memory`] sums them up.
    fn heap_bytes(&self) -> usize {
        self.bytes()
    }

    /// Keeps about the first `keep` bytes and returns the rest. Called with two elements or more; both parts must
    /// be left with at least one.
    fn split(&mut self, keep: usize) -> Self;

    /// Takes over the elements of the next leaf, at the end.
    fn append(&mut self, next: Self);

    /// Removes the elements at these positions (within `0..len()`).
    fn remove_range(&mut self, range: Range<usize>);

    /// The separator of the first element. Called only on leaves with elements.
    fn first_sep(&self) -> Self::Sep;
}

/// A sequence of elements in leaves. See the module's text.
///
/// Cloning is O(1); `len` and `memory` are O(1); everything else is O(log n) plus the work inside one leaf.
pub struct Tree<L: Leaf> {
    root: Arc<Inner<L>>,
    len: u64,
    /// Out of line, because small collections have room for a tree's fields and no more; `None` only if there are no
    /// leaves.
    ledger: Option<Box<Ledger>>,
}

impl<L: Leaf> Clone for Tree<L> {
    fn clone(&self) -> Self {
        Tree { root: self.root.clone(), len: self.len, ledger: self.ledger.clone() }
    }
}

impl<L: Leaf> Default for Tree<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: Leaf> Tree<L> {
    /// An empty tree.
    pub fn new() -> Self {
        Tree { root: Arc::new(Inner { children: Vec::new() }), len: 0, ledger: None }
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of leaves.
    pub fn leaf_count(&self) -> u64 {
        self.ledger.as_ref().map_or(0, |ledger| ledger.leaves)
    }

    /// Sum of the leaves' [`Leaf::bytes`].
    pub fn bytes(&self) -> usize {
        self.ledger.as_ref().map_or(0, |ledger| ledger.totals.bytes)
    }

    /// Heap bytes: the leaves' own figures plus what the tree adds for each leaf. Shared leaves count in full.
    pub fn memory(&self) -> usize {
        // Two counters precede the content of an `Arc`; inner nodes are charged to the leaves, one record each.
        let per_leaf = size_of::<L>() + size_of::<Child<L>>() + 2 * size_of::<usize>();
        let per_root = size_of::<Inner<L>>() + 2 * size_of::<usize>();
        self.ledger.as_ref().map_or(0, |ledger| ledger.totals.heap) + self.leaf_count() as usize * per_leaf + per_root
    }

    /// Collects leaves, in order. Empty ones are left out; oversized ones are split.
    pub fn from_leaves(leaves: impl IntoIterator<Item = L>) -> Self {
        Self::with_ledger(leaves, Box::default())
    }

    /// [`Tree::from_leaves`] with the ledger of a tree whose place this one takes.
    fn with_ledger(leaves: impl IntoIterator<Item = L>, mut ledger: Box<Ledger>) -> Self {
        ledger.lose();
        (ledger.leaves, ledger.totals) = (0, Totals::default());
        let mut children = Vec::new();
        for leaf in leaves {
            node::push_pieces(&mut children, leaf, &mut ledger);
        }
        for (child, at) in children.iter_mut().zip(0..) {
            child.label = if L::SORTED { ledger.count_up() } else { ledger.spread(at) };
        }
        let len = children.iter().map(|c: &Child<L>| c.len).sum();
        Tree { root: Arc::new(Inner { children: group(children) }), len, ledger: Some(ledger) }
    }

    /// Replaces all leaves.
    pub fn renew(&mut self, leaves: impl IntoIterator<Item = L>) {
        *self = Self::with_ledger(leaves, self.ledger.take().unwrap_or_default());
    }

    /// Builds from elements that come in order: `push` adds one at the end of a leaf. Leaves are filled to three
    /// quarters if `room` is true, for collections that grow in the middle, and otherwise full.
    pub fn build<T>(items: impl IntoIterator<Item = T>, room: bool, mut push: impl FnMut(&mut L, T)) -> Self {
        let limit = if room { LEAF_BYTES_MERGED } else { LEAF_BYTES_MAX - LEAF_BYTES_MAX / 16 };
        let mut items = items.into_iter().peekable();
        Self::from_leaves(std::iter::from_fn(|| {
            items.peek()?;
            let mut leaf = L::default();
            while leaf.bytes() < limit {
                let Some(item) = items.next() else { break };
                push(&mut leaf, item);
            }
            Some(leaf)
        }))
    }

    /// The leaf that holds the element of this rank and the element's position in it; `None` from `len()` on.
    pub fn get(&self, rank: u64) -> Option<(&L, usize)> {
        if rank >= self.len {
            return None;
        }
        let mut route = ByRank { left: rank };
        let leaf = self.root.descend(self.len, &mut route)?;
        Some((leaf, route.left as usize))
    }

    /// The leaf where `reached` changes from true to false, with the rank of its first element. It is the last leaf
    /// whose separator satisfies `reached`, or the first leaf if none does. `None` if the tree is empty.
    ///
    /// `reached(sep)` must be monotone over the elements, typically `*sep <= target`. Where several elements may
    /// compare equal to the target, `*sep < target` finds the leaf that holds (or precedes) the first of them.
    pub fn find(&self, reached: impl Fn(&L::Sep) -> bool) -> Option<(u64, &L)> {
        let mut route = BySep { reached, base: 0 };
        let leaf = self.root.descend(self.len, &mut route)?;
        Some((route.base, leaf))
    }

    /// The leaf that [`Tree::find`] finds, and whether it is the first. It does not count, so it is faster for
    /// separators that are evenly spread numbers. `guess(first, last, n)` estimates where the target lies among `n`
    /// separators from `first` to `last`. A bad guess costs time only.
    #[inline]
    pub fn seek(
        &self,
        reached: impl Fn(&L::Sep) -> bool,
        guess: impl Fn(&L::Sep, &L::Sep, usize) -> usize,
    ) -> Option<(&L, bool)> {
        let mut route = BySepNear { reached, guess, first: true };
        let leaf = self.root.descend(self.len, &mut route)?;
        Some((leaf, route.first))
    }

    /// The least [`Leaf::least`] of all leaves; `u64::MAX` if it is not kept or there are no leaves.
    pub fn least(&self) -> u64 {
        self.root.least()
    }

    /// The first leaf whose [`Leaf::least`] is at most `limit`, with the rank of its first element.
    pub fn find_least(&self, limit: u64) -> Option<(u64, &L)> {
        if self.least() > limit {
            return None;
        }
        let mut route = ByLeast { limit, base: 0 };
        let leaf = self.root.descend(self.len, &mut route)?;
        Some((route.base, leaf))
    }

    /// The first leaf.
    pub fn first(&self) -> Option<&L> {
        self.root.descend(self.len, &mut ByRank { left: 0 })
    }

    /// The last leaf.
    pub fn last(&self) -> Option<&L> {
        self.root.descend(self.len, &mut ByRank { left: self.len })
    }

    /// Changes the leaf that holds `rank`. `change` gets the leaf and the position in it; it may insert, remove and
    /// replace anything there. `rank` from `len()` on means the end of the last leaf. Leaves that
    /// became too large, too small or empty are split, merged or dropped afterwards.
    ///
    /// An empty tree gets a fresh leaf for the occasion.
    pub fn modify<R>(&mut self, rank: u64, change: impl FnOnce(&mut L, usize) -> R) -> R {
        let route = ByRank { left: rank.min(self.len) };
        self.modify_by(route, |leaf, route| {
            let at = route.left.min(leaf.len() as u64);
            change(leaf, at as usize)
        })
    }

    /// Changes the leaf that [`Tree::find`] would return; `change` gets the leaf and the rank of its first element.
    /// Inserted elements must not precede those of earlier leaves nor follow those of later ones.
    pub fn modify_at<R>(&mut self, reached: impl Fn(&L::Sep) -> bool, change: impl FnOnce(&mut L, u64) -> R) -> R {
        self.modify_by(BySep { reached, base: 0 }, |leaf, route| change(leaf, route.base))
    }

    /// Changes the leaf that [`Tree::seek`] would return, as [`Tree::modify_at`] does.
    pub fn modify_near<R>(
        &mut self,
        reached: impl Fn(&L::Sep) -> bool,
        guess: impl Fn(&L::Sep, &L::Sep, usize) -> usize,
        change: impl FnOnce(&mut L, bool) -> R,
    ) -> R {
        self.modify_by(BySepNear { reached, guess, first: true }, |leaf, route| change(leaf, route.first))
    }

    #[inline]
    fn modify_by<R, T: node::Route<L>>(&mut self, mut route: T, change: impl FnOnce(&mut L, &T) -> R) -> R {
        let root = Arc::make_mut(&mut self.root);
        if root.children.is_empty() {
            return self.first_leaf(&mut route, change);
        }
        let ledger = match &mut self.ledger {
            Some(ledger) => ledger,
            none => none.insert(Box::default()),
        };
        let done = root.modify(self.len, &mut route, true, None, change, ledger);
        let exhausted = !L::SORTED && ledger.is_exhausted();
        self.len = self.len.wrapping_add_signed(done.grown);
        self.settle(done.siblings);
        if exhausted {
            self.relabel();
        }
        done.result
    }

    /// [`Tree::modify_by`] on an empty tree.
    #[cold]
    fn first_leaf<R, T: node::Route<L>>(&mut self, route: &mut T, change: impl FnOnce(&mut L, &T) -> R) -> R {
        let mut leaf = L::default();
        let result = change(&mut leaf, route);
        self.renew([leaf]);
        result
    }

    /// Adds a leaf after all others, without looking for a merge. An empty one is ignored.
    pub fn push_back_leaf(&mut self, leaf: L) {
        self.push_leaf(leaf, false);
    }

    /// Adds a leaf before all others, without looking for a merge. An empty one is ignored.
    pub fn push_front_leaf(&mut self, leaf: L) {
        self.push_leaf(leaf, true);
    }

    fn push_leaf(&mut self, leaf: L, front: bool) {
        let ledger = self.ledger.get_or_insert_default();
        let mut pieces = Vec::new();
        node::push_pieces(&mut pieces, leaf, ledger);
        let n = pieces.len() as u64;
        let (first, last) = (self.root.children.first(), self.root.children.last());
        for (piece, at) in pieces.iter_mut().zip(0..) {
            piece.label = match (first, last) {
                _ if L::SORTED => ledger.count_up(),
                (Some(first), _) if front => ledger.before(first.first_label(), at, n),
                (_, Some(last)) => ledger.between(last.last_label(), None, at, n),
                _ => ledger.spread(at),
            };
        }
        self.len += pieces.iter().map(|c| c.len).sum::<u64>();
        let siblings = Arc::make_mut(&mut self.root).push(pieces, front, ledger.mark());
        let exhausted = ledger.is_exhausted();
        self.settle(siblings);
        if exhausted {
            self.relabel();
        }
    }

    /// Removes the elements of these ranks; ranks beyond the end are ignored.
    pub fn remove_range(&mut self, ranks: Range<u64>) {
        let end = ranks.end.min(self.len);
        if ranks.start >= end {
            return;
        }
        if ranks.start == 0 && end == self.len {
            self.renew([]);
            return;
        }
        let ledger = self.ledger.get_or_insert_default();
        Arc::make_mut(&mut self.root).remove_range(ranks.start..end, ledger);
        self.len -= end - ranks.start;
        self.settle(Vec::new());
    }

    /// Frees leaves from the end, for a tree that will not be read any more: see [`crate::shed`].
    pub fn shed(&mut self, budget: &mut usize) {
        if let Some(root) = Arc::get_mut(&mut self.root) {
            root.shed(budget);
        }
    }

    /// All leaves from the one that holds `rank`, forwards. Each comes with the position in it to start from.
    pub fn leaves_from(&self, rank: u64) -> Leaves<'_, L> {
        Leaves::forward(self, rank)
    }

    /// All leaves from the one that holds `rank - 1`, backwards. Each comes with the position in it before which to
    /// start, so `leaves_back(len())` walks everything.
    pub fn leaves_back(&self, rank: u64) -> Leaves<'_, L> {
        Leaves::backward(self, rank)
    }

    /// Gives the root its overflow as siblings under a new root, and drops levels of one child.
    #[inline]
    fn settle(&mut self, siblings: Vec<Child<L>>) {
        if !siblings.is_empty() {
            self.grow(siblings);
        }
        while let [Child { node: Node::Inner(only), .. }] = self.root.children.as_slice() {
            self.root = only.clone();
        }
    }

    #[cold]
    fn grow(&mut self, siblings: Vec<Child<L>>) {
        let old = std::mem::replace(&mut self.root, Arc::new(Inner { children: Vec::new() }));
        let mut children = Vec::with_capacity(siblings.len() + 1);
        children.extend(Child::over(old));
        children.extend(siblings);
        self.root = Arc::new(Inner { children: group(children) });
    }

    /// Gives all leaves new labels, with gaps between them.
    #[cold]
    fn relabel(&mut self) {
        let ledger = self.ledger.get_or_insert_default();
        ledger.relabelled();
        let mut at = 0;
        Arc::make_mut(&mut self.root).relabel(&mut || {
            at += 1;
            ledger.spread(at - 1)
        });
    }

    /// The tree's state for checkpoints; `None` only if there are no leaves.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_deref()
    }

    /// The ledger, to be changed.
    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        self.ledger.get_or_insert_default()
    }

    /// Follows the mark of a value of several trees: see [`Ledger::follow`].
    pub(crate) fn follow(&mut self, mark: u32) {
        // The value was not frozen at mark 0.
        if mark > 0 {
            self.ledger_mut().follow(mark);
        }
    }

    /// Shows the leaves that were changed since the freeze that began mark `since` (0: all), with their labels, in
    /// order.
    pub(crate) fn changed<E>(&self, since: u32, mut each: impl FnMut(u64, &L) -> Result<(), E>) -> Result<(), E> {
        self.root.changed(since, &mut each)
    }

    /// Builds the tree that a freeze called `epoch` left in a store from its labels and leaves, in order. The caller
    /// has checked the order of their contents.
    pub(crate) fn assemble(leaves: Vec<(u64, L)>, epoch: u64) -> Result<Self, Corrupt> {
        let mut totals = Totals::default();
        let mut next = 0;
        let mut children = Vec::with_capacity(leaves.len());
        for (label, leaf) in leaves {
            // Larger than any that was written; `LEAF_BYTES_MAX` may have been another then.
            if leaf.is_empty() || leaf.len() > 1 && leaf.bytes() > 8 * LEAF_BYTES_MAX {
                return Err(Corrupt("size of a leaf"));
            }
            totals.add(&leaf);
            next = next.max(label.saturating_add(1));
            children.push(Child::of_leaf(leaf, label, 0));
        }
        let mut ledger = Ledger::loaded(epoch, children.len() as u64, next);
        ledger.totals = totals;
        let len = children.iter().map(|c: &Child<L>| c.len).sum();
        Ok(Tree { root: Arc::new(Inner { children: group(children) }), len, ledger: Some(Box::new(ledger)) })
    }
}
