//! Pending entries: records in the order of their IDs, in a tree of small arrays.

use super::id::Id;
use crate::tree::{LEAF_BYTES_MAX, Leaf, Tree};
use std::ops::Range;

/// The record of an entry in the order of IDs.
pub(super) trait Record: Copy {
    fn id(&self) -> Id;
}

impl Record for Id {
    fn id(&self) -> Id {
        *self
    }
}

/// A leaf.
#[derive(Clone)]
pub(super) struct Run<T>(pub(super) Vec<T>);

impl<T> Default for Run<T> {
    fn default() -> Self {
        Run(Vec::new())
    }
}

impl<T: Record> Run<T> {
    fn search(&self, id: Id) -> Result<usize, usize> {
        match self.0.last() {
            // A delivered entry is newer than all pending ones.
            Some(last) if last.id() < id => Err(self.0.len()),
            _ => self.0.binary_search_by_key(&id, Record::id),
        }
    }
}

impl<T: Record> Leaf for Run<T> {
    type Sep = Id;
    const SORTED: bool = true;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        self.0.len() * size_of::<T>()
    }

    fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<T>()
    }

    fn split(&mut self, keep: usize) -> Self {
        let at = (keep / size_of::<T>()).clamp(1, self.0.len().saturating_sub(1).max(1));
        let upper = Run(self.0.split_off(at.min(self.0.len())));
        self.0.shrink_to_fit();
        upper
    }

    fn append(&mut self, next: Self) {
        self.0.extend(next.0);
    }

    fn remove_range(&mut self, range: Range<usize>) {
        self.0.drain(range);
    }

    fn first_sep(&self) -> Id {
        self.0.first().map_or(Id::MIN, Record::id)
    }
}

/// Records by their IDs. Cloning is O(1), everything else O(log n).
#[derive(Clone)]
pub(super) struct Pending<T: Record>(pub(super) Tree<Run<T>>);

impl<T: Record> Default for Pending<T> {
    fn default() -> Self {
        Pending(Tree::new())
    }
}

impl<T: Record> Pending<T> {
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.0.memory()
    }

    pub fn shed(&mut self, budget: &mut usize) {
        self.0.shed(budget);
    }

    pub fn get(&self, id: Id) -> Option<T> {
        let (_, run) = self.0.find(|first| *first <= id)?;
        run.search(id).ok().and_then(|at| run.0.get(at).copied())
    }

    /// Puts a record, and returns the one of the same ID that was there.
    pub fn put(&mut self, record: T) -> Option<T> {
        let id = record.id();
        self.0.modify_at(
            |first| *first <= id,
            |run, _| match run.search(id) {
                Ok(at) => Some(std::mem::replace(&mut run.0[at], record)),
                Err(at) => {
                    // Grown to the size of a leaf at most, not beyond.
                    if run.0.len() == run.0.capacity() {
                        let most = LEAF_BYTES_MAX / size_of::<T>() + 1;
                        let room = run.0.len().max(4).min(most.saturating_sub(run.0.len()).max(1));
                        run.0.reserve_exact(room);
                    }
                    run.0.insert(at, record);
                    None
                }
            },
        )
    }

    /// Takes a record out.
    pub fn take(&mut self, id: Id) -> Option<T> {
        if self.0.is_empty() {
            return None;
        }
        self.0.modify_at(|first| *first <= id, |run, _| run.search(id).ok().map(|at| run.0.remove(at)))
    }

    /// Keeps those for which `keep` holds. Takes as long as there are records.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        let runs = self.0.leaves_from(0).map(|(run, _)| Run(run.0.iter().copied().filter(&keep).collect()));
        let runs: Vec<_> = runs.collect();
        self.0.renew(runs);
    }

    /// The records from an ID on.
    pub fn from(&self, id: Id) -> impl Iterator<Item = T> {
        let rank = match self.0.find(|first| *first <= id) {
            Some((base, run)) => base + run.search(id).unwrap_or_else(|at| at) as u64,
            None => 0,
        };
        let leaves = (rank < self.0.len()).then(|| self.0.leaves_from(rank));
        leaves.into_iter().flatten().flat_map(|(run, at)| run.0.get(at..).unwrap_or_default().iter().copied())
    }

    pub fn first(&self) -> Option<T> {
        self.0.first().and_then(|run| run.0.first().copied())
    }

    pub fn last(&self) -> Option<T> {
        self.0.last().and_then(|run| run.0.last().copied())
    }
}

/// Records that are in order as leaves, with room to grow.
pub(super) fn sorted_runs<T: Record>(records: Vec<T>) -> Vec<Run<T>> {
    let most = (LEAF_BYTES_MAX * 3 / 4 / size_of::<T>()).max(1);
    records.chunks(most).map(|records| Run(records.to_vec())).collect()
}
