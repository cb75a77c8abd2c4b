//! Lists: one block, or a leaf tree of blocks.
//!
//! The form in memory follows from the size alone: up to [`LEAF_BYTES_MAX`] a list is one block. The encoding that
//! `OBJECT ENCODING` reports is kept beside it, by Redis's rules. These depend on a setting and on the list's history
//! (a quicklist turns back into a listpack only below half of the limit).

mod codec;
pub(crate) mod leaf;
mod range;
mod remove;
#[cfg(test)]
mod tests;

pub use range::Range;

use crate::Limits;
use crate::block::{Block, Elem, Needle};
use crate::tree::{LEAF_BYTES_MAX, Tree};
use leaf::Run;

/// One of the two ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The head, index 0: `LEFT` in commands.
    Front,
    /// The tail, index -1: `RIGHT` in commands.
    Back,
}

/// Bytes that Redis's listpack adds to its elements; part of the size that its limits are compared with.
const LISTPACK_BYTES: usize = 7;

/// First allocation of a further leaf at an end of the list.
const NEW_LEAF_BYTES: usize = LEAF_BYTES_MAX / 4;

/// A list of byte strings. See the module's text.
///
/// Pushing and popping at either end is amortised O(1) within a leaf plus O(log n) for the tree's counts. Access by
/// index is O(log n) plus a walk through at most half a leaf. Cloning is O(1) for large lists.
#[derive(Clone)]
pub struct List {
    form: Form,
    /// True if Redis would keep this list as a quicklist by now.
    quicklist: bool,
}

#[derive(Clone)]
enum Form {
    Small(Block),
    Large(Tree<Run>),
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl List {
    /// An empty list.
    pub const fn new() -> Self {
        List { form: Form::Small(Block::new()), quicklist: false }
    }

    /// As [`List::new`], with room for elements of about so many bytes.
    pub(crate) fn with_room(bytes: usize) -> Self {
        List { form: Form::Small(Block::with_room(bytes)), quicklist: false }
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        match &self.form {
            Form::Small(block) => block.len() as u64,
            Form::Large(tree) => tree.len(),
        }
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Heap bytes. O(1).
    pub fn memory(&self) -> usize {
        match &self.form {
            Form::Small(block) => block.heap_bytes(),
            Form::Large(tree) => tree.memory(),
        }
    }

    /// Frees a part of a value that will not be read any more: see [`crate::shed`].
    pub fn shed(&mut self, budget: &mut usize) {
        if let Form::Large(tree) = &mut self.form {
            tree.shed(budget);
        }
    }

    /// Bytes the encoded elements take.
    fn bytes(&self) -> usize {
        match &self.form {
            Form::Small(block) => block.bytes(),
            Form::Large(tree) => tree.bytes(),
        }
    }

    /// The answer of `OBJECT ENCODING`: `listpack` or `quicklist`.
    pub fn encoding(&self) -> &'static str {
        if self.quicklist { "quicklist" } else { "listpack" }
    }

    /// The element of an index, counted from 0 at the head.
    pub fn get(&self, index: u64) -> Option<Elem<'_>> {
        match &self.form {
            Form::Small(block) => {
                let index = usize::try_from(index).ok().filter(|i| *i < block.len())?;
                Some(block.get(block.seek(index)?))
            }
            Form::Large(tree) => {
                let (run, at) = tree.get(index)?;
                Some(run.0.get(run.0.seek(at)?))
            }
        }
    }

    /// Adds strings at an end, one after the other, as `LPUSH` and `RPUSH` do.
    pub fn push_all<'a, I>(&mut self, end: End, items: I, limits: &Limits)
    where
        I: Iterator<Item = &'a [u8]> + Clone,
    {
        if !self.quicklist {
            let (bytes, count) = items.clone().fold((0, 0), |(bytes, n), item| (bytes + item.len(), n + 1));
            self.grow(bytes, count, limits);
        }
        items.for_each(|item| self.push_elem(end, Elem::from_bytes(item)));
    }

    /// Adds one string at an end.
    pub fn push(&mut self, end: End, item: &[u8], limits: &Limits) {
        self.grow(item.len(), 1, limits);
        self.push_elem(end, Elem::from_bytes(item));
    }

    fn push_elem(&mut self, end: End, elem: Elem<'_>) {
        fn add(block: &mut Block, end: End, elem: Elem<'_>) {
            match end {
                End::Front => block.push_front(elem),
                End::Back => block.push_back(elem),
            }
        }
        let size = Block::size_of(elem);
        if let Form::Small(block) = &mut self.form {
            if block.is_empty() || block.bytes() + size <= LEAF_BYTES_MAX {
                return add(block, end, elem);
            }
            self.form = Form::Large(Tree::from_leaves([Run(std::mem::take(block))]));
        }
        let Form::Large(tree) = &mut self.form else { return };
        let rank = if end == End::Front { 0 } else { tree.len() };
        let added = tree.modify(rank, |Run(block), _| {
            let fits = block.is_empty() || block.bytes() + size <= LEAF_BYTES_MAX;
            if fits {
                add(block, end, elem);
            } else if block.heap_bytes() > block.bytes() + block.bytes() / 16 {
                block.shrink_to_fit();
            }
            fits
        });
        if !added {
            let mut block = Block::with_capacity(NEW_LEAF_BYTES);
            add(&mut block, end, elem);
            match end {
                End::Front => tree.push_front_leaf(Run(block)),
                End::Back => tree.push_back_leaf(Run(block)),
            }
        }
    }

    /// Removes the element at an end; `take` sees it before. `None` if the list is empty.
    pub fn pop<R>(&mut self, end: End, limits: &Limits, take: impl FnOnce(Elem<'_>) -> R) -> Option<R> {
        if self.is_empty() {
            return None;
        }
        let pop = |block: &mut Block| {
            let pos = if end == End::Front { block.first() } else { block.last() }?;
            let taken = take(block.get(pos));
            match end {
                End::Front => block.pop_front(),
                End::Back => block.pop_back(),
            }
            Some(taken)
        };
        let taken = match &mut self.form {
            Form::Small(block) => pop(block),
            Form::Large(tree) => {
                let rank = if end == End::Front { 0 } else { tree.len() };
                tree.modify(rank, |Run(block), _| pop(block))
            }
        };
        self.shrunk(limits);
        taken
    }

    /// Replaces the element of an index (`LSET`); false if there is none.
    pub fn set(&mut self, index: u64, item: &[u8], limits: &Limits) -> bool {
        if index >= self.len() {
            return false;
        }
        self.grow(item.len(), 1, limits);
        let replace = |block: &mut Block, at: usize| {
            if let Some(pos) = block.seek(at) {
                block.replace(pos, Elem::from_bytes(item));
            }
        };
        match &mut self.form {
            Form::Small(block) => replace(block, index as usize),
            Form::Large(tree) => tree.modify(index, |Run(block), at| replace(block, at)),
        }
        self.enlarged();
        self.shrunk(limits);
        true
    }

    /// Inserts before the element of an index, or at the end for `len()` and beyond (`LINSERT`).
    pub fn insert(&mut self, index: u64, item: &[u8], limits: &Limits) {
        self.grow(item.len(), 1, limits);
        let elem = Elem::from_bytes(item);
        if index == 0 || index >= self.len() {
            return self.push_elem(if index == 0 { End::Front } else { End::Back }, elem);
        }
        let insert = |block: &mut Block, at: usize| {
            if let Some(pos) = block.seek(at) {
                block.insert(pos, elem);
            }
        };
        match &mut self.form {
            Form::Small(block) => insert(block, index as usize),
            Form::Large(tree) => tree.modify(index, |Run(block), at| insert(block, at)),
        }
        self.enlarged();
    }

    /// The index of the first element that equals `item`.
    pub fn find(&self, item: &[u8]) -> Option<u64> {
        let needle = Needle::new(item);
        self.iter().position(|elem| elem.is(&needle)).map(|index| index as u64)
    }

    /// Chooses the encoding afresh, as Redis does for a list that was just loaded or built.
    pub fn reconsider(&mut self, limits: &Limits) {
        self.quicklist = limits.list_exceeds(self.bytes() + LISTPACK_BYTES, self.len(), 1);
    }

    /// Called before `count` elements of `bytes` in all are added. Returns true if this is still a listpack afterwards.
    fn grow(&mut self, bytes: usize, count: u64, limits: &Limits) {
        if !self.quicklist {
            let bytes = self.bytes() + LISTPACK_BYTES + bytes;
            self.quicklist = limits.list_exceeds(bytes, self.len() + count, 1);
        }
    }

    /// After something grew in place: a block that became too large turns into a tree.
    fn enlarged(&mut self) {
        if let Form::Small(block) = &mut self.form
            && block.bytes() > LEAF_BYTES_MAX
            && block.len() > 1
        {
            self.form = Form::Large(Tree::from_leaves([Run(std::mem::take(block))]));
        }
    }

    /// After something was removed: a small tree turns back into a block, a short quicklist into a listpack.
    fn shrunk(&mut self, limits: &Limits) {
        if let Form::Large(tree) = &self.form
            && tree.leaf_count() <= 1
            && tree.bytes() <= LEAF_BYTES_MAX / 2
        {
            self.form = Form::Small(tree.first().map(|run| run.0.clone()).unwrap_or_default());
        }
        if self.quicklist {
            self.quicklist = limits.list_exceeds(self.bytes() + LISTPACK_BYTES, self.len(), 2);
        }
    }
}

/// For checkpoints: see [`crate::saved`].
impl List {
    /// The large form, and whether Redis would keep this list as a quicklist.
    pub(crate) fn tree_mut(&mut self) -> Option<(&mut Tree<Run>, bool)> {
        match &mut self.form {
            Form::Small(_) => None,
            Form::Large(tree) => Some((tree, self.quicklist)),
        }
    }

    /// The large form's bytes; 0 for the small one.
    pub(crate) fn large_bytes(&self) -> usize {
        match &self.form {
            Form::Small(_) => 0,
            Form::Large(tree) => tree.bytes(),
        }
    }

    /// A list in its large form.
    pub(crate) fn of_tree(tree: Tree<Run>, quicklist: bool) -> Self {
        List { form: Form::Large(tree), quicklist }
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for List {}

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
