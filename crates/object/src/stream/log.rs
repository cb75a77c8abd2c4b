//! The entries of a stream and the figures of all that ever were.

use clocks::UnixMs;

use super::entry::Entry;
use super::id::Id;
use super::node::Node;
use super::range::{Backward, Forward};
use crate::Limits;
use crate::block::Elem;
use crate::tree::Tree;

/// A node is closed at this size whatever the settings say: a longer one would be searched for too long.
const NODE_BYTES_MAX: usize = 64 * 1024;

/// Most bytes of fields and values of one entry (Redis's limit too).
pub const ENTRY_BYTES_MAX: usize = 1 << 30;

/// Figures about the entries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Marks {
    /// Number of entries.
    pub len: u64,
    /// The first entry's ID; 0-0 if there is none.
    pub first: Id,
    /// The ID given last: the next is greater. May be beyond the last entry's.
    pub last: Id,
    /// The greatest ID that was deleted one by one; 0-0 if none was.
    pub max_deleted: Id,
    /// Entries ever added.
    pub added: u64,
}

/// How far [`Log::trim`] goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trim {
    /// Down to this many entries (`MAXLEN`).
    Length(u64),
    /// Up to the first entry with this ID or a greater one (`MINID`).
    Below(Id),
}

/// Why an entry is not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Its ID is not above the last one.
    NotAbove,
    /// It has more than [`ENTRY_BYTES_MAX`] bytes.
    TooLarge,
}

/// See the module's text. All nodes but the last are in a tree, which cloning shares; the last one, where entries are
/// added, is at hand.
#[derive(Clone, Default)]
pub struct Log {
    pub(crate) sealed: Tree<Node>,
    /// The last node; empty only if there are no entries at all.
    pub(crate) tail: Node,
    pub(super) marks: Marks,
    /// The mark at the last change of the last node: see [`crate::saved`].
    pub(super) tail_stamp: u32,
}

impl Log {
    /// Figures about the entries.
    #[inline]
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// Number of nodes: the meaning of `radix-tree-keys` in Redis.
    pub fn nodes(&self) -> u64 {
        self.sealed.len() + u64::from(self.tail.live > 0)
    }

    /// Heap bytes; nodes that are shared count in full.
    pub fn memory(&self) -> usize {
        use crate::tree::Leaf;
        self.sealed.memory() + self.tail.heap_bytes()
    }

    pub(super) fn shed(&mut self, budget: &mut usize) {
        self.sealed.shed(budget);
    }

    /// The ID that `*` stands for at `now`; `None` after the greatest of all.
    pub fn next_id(&self, now: UnixMs) -> Option<Id> {
        if now.0 > self.marks.last.ms { Some(Id::new(now.0, 0)) } else { self.marks.last.next() }
    }

    /// Adds an entry of `fields` pairs at the end.
    ///
    /// # Errors
    ///
    /// The stream cannot take the entry: nothing has changed.
    pub fn append<'a, P>(&mut self, id: Id, fields: usize, pairs: P, limits: &Limits) -> Result<(), Refused>
    where
        P: Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    {
        if id <= self.marks.last {
            return Err(Refused::NotAbove);
        }
        let bytes: usize = pairs.clone().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > ENTRY_BYTES_MAX {
            return Err(Refused::TooLarge);
        }
        let pairs = pairs.map(|(name, value)| (Elem::from_bytes(name), Elem::from_bytes(value)));
        // A tombstone may have a greater ID than XSETID left.
        if self.tail.live == 0 || self.is_full(bytes, limits) || id <= self.tail.last {
            self.begin_node(id, pairs.clone().map(|(name, _)| name));
        }
        self.tail.push(id, fields, pairs);
        self.tail_changes();
        if self.marks.len == 0 {
            self.marks.first = id;
        }
        self.marks.len += 1;
        // Redis counts no further either.
        if self.marks.added < i64::MAX as u64 {
            self.marks.added += 1;
        }
        self.marks.last = id;
        Ok(())
    }

    /// True if the last node has no room for an entry of `bytes`, by Redis's rules.
    fn is_full(&self, bytes: usize, limits: &Limits) -> bool {
        let most = match limits.stream_node_max_bytes {
            0 => ENTRY_BYTES_MAX,
            most => most.min(ENTRY_BYTES_MAX),
        };
        let count = u64::from(self.tail.live) + u64::from(self.tail.deleted);
        self.tail.packed() + bytes >= most
            || limits.stream_node_max_entries > 0 && count >= limits.stream_node_max_entries
            || self.tail.size() >= NODE_BYTES_MAX
    }

    /// Closes the last node and opens the next.
    fn begin_node<'a>(&mut self, id: Id, names: impl Iterator<Item = Elem<'a>>) {
        let room = self.tail.size().min(crate::tree::LEAF_BYTES_MAX);
        self.push_node(Node::open(id, names, room));
    }

    /// Notes that the last node changes.
    #[inline]
    fn tail_changes(&mut self) {
        self.tail_stamp = self.sealed.ledger().map_or(0, |ledger| ledger.mark());
    }

    /// Adds a node after all others.
    pub(crate) fn push_node(&mut self, node: Node) {
        let mut full = std::mem::replace(&mut self.tail, node);
        if full.live > 0 {
            full.shrink();
            self.sealed.push_back_leaf(full);
        }
    }

    /// The entry of this ID.
    pub fn get(&self, id: Id) -> Option<Entry<'_>> {
        let node = self.node_of(id)?;
        node.find(id).map(|raw| node.entry(raw))
    }

    /// The node that holds an ID if any does.
    fn node_of(&self, id: Id) -> Option<&Node> {
        if self.tail.live > 0 && self.tail.first <= id {
            return Some(&self.tail);
        }
        self.sealed.find(|first| *first <= id).map(|(_, node)| node)
    }

    /// The ID of the last entry.
    pub fn last_entry(&self) -> Option<Id> {
        (self.tail.live > 0).then_some(self.tail.last_live)
    }

    /// The entries from `start` to `end`, both included.
    pub fn range(&self, start: Id, end: Id) -> Forward<'_> {
        Forward::new(self, start, end)
    }

    /// The entries from `end` back to `start`, both included.
    pub fn range_back(&self, start: Id, end: Id) -> Backward<'_> {
        Backward::new(self, start, end)
    }

    /// Deletes an entry, and notes that there is a gap. False: it is not there.
    pub fn delete(&mut self, id: Id) -> bool {
        let there = self.remove(id);
        if there {
            self.marks.max_deleted = self.marks.max_deleted.max(id);
        }
        there
    }

    /// Removes an entry as trimming does, which leaves no gap as far as marks tell. False: it is not there.
    pub fn remove(&mut self, id: Id) -> bool {
        if self.get(id).is_none() {
            return false;
        }
        if self.tail.first <= id {
            self.tail_changes();
            self.tail.delete(id);
            self.mend_tail();
        } else {
            self.sealed.modify_at(|first| *first <= id, |node, _| node.delete(id));
        }
        self.marks.len -= 1;
        if id == self.marks.first {
            self.find_first();
        }
        true
    }

    /// Removes entries from the front: with `approx` only whole nodes, and no more than `limit` entries (0: any
    /// number). Returns how many.
    pub fn trim(&mut self, to: Trim, approx: bool, limit: u64) -> u64 {
        let (mut nodes, mut removed) = (0, 0);
        let mut partly = false;
        for (node, tail) in self.sealed.leaves_from(0).map(|(node, _)| (node, false)).chain([(&self.tail, true)]) {
            let (live, left) = (u64::from(node.live), self.marks.len - removed);
            let done = match to {
                Trim::Length(len) => left <= len,
                Trim::Below(_) => live == 0,
            };
            if done || limit > 0 && removed + live > limit {
                break;
            }
            let whole = match to {
                Trim::Length(len) => left - live >= len,
                Trim::Below(id) => node.last < id,
            };
            if !whole {
                partly = !approx;
                break;
            }
            removed += live;
            nodes += u64::from(!tail);
            if tail {
                nodes = u64::MAX;
            }
        }
        if nodes == u64::MAX {
            self.tail_changes();
            self.sealed.renew([]);
            self.tail = Node::default();
        } else if nodes > 0 {
            self.sealed.remove_range(0..nodes);
        }
        if partly {
            removed += self.trim_node(to, self.marks.len - removed);
        }
        self.marks.len -= removed;
        if removed > 0 {
            self.find_first();
        }
        removed
    }

    /// Removes entries of the first node; `left` is how many the stream has.
    fn trim_node(&mut self, to: Trim, left: u64) -> u64 {
        let trim = |node: &mut Node| match to {
            Trim::Length(len) => node.trim(left.saturating_sub(len), |_| true),
            Trim::Below(bound) => node.trim(u64::MAX, |id| id < bound),
        };
        if !self.sealed.is_empty() {
            return self.sealed.modify(0, |node, _| trim(node));
        }
        self.tail_changes();
        let removed = trim(&mut self.tail);
        self.mend_tail();
        removed
    }

    /// Drops deleted entries in front: for replay, where only the number of entries counts.
    pub fn remove_first(&mut self, count: u64) -> u64 {
        self.trim(Trim::Length(self.marks.len.saturating_sub(count)), false, 0)
    }

    /// A last node that became empty gives way to the one before.
    fn mend_tail(&mut self) {
        if self.tail.live == 0 {
            self.tail = self.sealed.last().cloned().unwrap_or_default();
            let nodes = self.sealed.len();
            self.sealed.remove_range(nodes.saturating_sub(1)..nodes);
        }
    }

    fn find_first(&mut self) {
        let node = self.sealed.first().unwrap_or(&self.tail);
        self.marks.first = node.first_live().unwrap_or(Id::MIN);
    }

    /// Sets what XSETID sets; the caller has checked that it fits.
    pub fn set_marks(&mut self, last: Id, added: u64, max_deleted: Id) {
        self.marks.last = last;
        self.marks.added = added;
        self.marks.max_deleted = max_deleted;
    }

    /// After nodes were added by [`Self::push_node`]: counts them. Returns true if their IDs are in order and not above
    /// `last`.
    pub(crate) fn count(&mut self, last: Id, added: u64, max_deleted: Id) -> bool {
        let (mut len, mut before) = (0, None);
        for node in self.sealed.leaves_from(0).map(|(node, _)| node).chain([&self.tail]).filter(|node| node.live > 0) {
            // Tombstones may be above what follows: XSETID can go back behind them.
            if before.is_some_and(|before| node.first <= before) || node.last_live > last {
                return false;
            }
            before = Some(node.last_live.max(node.first));
            len += u64::from(node.live);
        }
        self.marks = Marks { len, first: Id::MIN, last, max_deleted, added };
        self.find_first();
        true
    }
}
