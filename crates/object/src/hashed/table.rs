//! Records in a tree of leaves: by key, by rank, by mark.

use clocks::UnixMs;

use crate::tree::{Leaf as _, Leaves, Tree};

use super::Mark;
use super::leaf::{Leaf, Record};

/// A set of records with distinct keys. Clones share their leaves.
pub(crate) struct Table<R: Record> {
    pub(super) tree: Tree<Leaf<R>>,
}

impl<R: Record> Clone for Table<R> {
    fn clone(&self) -> Self {
        Table { tree: self.tree.clone() }
    }
}

/// Where a key is or would be, with the means to change it. See [`Table::change`].
pub(crate) struct Place<'a, R> {
    leaf: &'a mut Leaf<R>,
    at: Result<usize, usize>,
    mark: Mark,
}

impl<R: Record> Place<'_, R> {
    /// The record of the key, if there is one.
    pub fn record(&self) -> Option<&[u8]> {
        self.at.ok().map(|at| self.leaf.record(at))
    }

    /// Sets the record of the key, given in parts that are joined.
    pub fn set(&mut self, parts: &[&[u8]]) {
        match self.at {
            Ok(at) => self.leaf.replace(at, parts),
            Err(at) => {
                self.leaf.insert(at, self.mark, parts);
                self.at = Ok(at);
            }
        }
    }

    /// Removes the record of the key; false if there is none.
    pub fn remove(&mut self) -> bool {
        let Ok(at) = self.at else { return false };
        self.leaf.remove(at);
        self.at = Err(at);
        true
    }
}

impl<R: Record> Table<R> {
    pub fn new() -> Self {
        Table { tree: Tree::new() }
    }

    /// Builds from records in any order. Of records with equal keys one is kept: the table is shorter than the input.
    pub fn build<'r>(records: impl IntoIterator<Item = &'r [u8]>) -> Self {
        let mut sorted: Vec<(Mark, &[u8])> =
            records.into_iter().map(|record| (R::mark(R::key(record)), record)).collect();
        // By mark and key, so that equal keys become neighbours.
        sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| R::key(a.1).cmp(R::key(b.1))));
        sorted.dedup_by(|a, b| a.0 == b.0 && R::key(a.1) == R::key(b.1));
        let tree = Tree::build(sorted, true, |leaf: &mut Leaf<R>, (mark, record)| {
            leaf.insert(leaf.len(), mark, &[record]);
        });
        Table { tree }
    }

    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Heap bytes.
    pub fn memory(&self) -> usize {
        self.tree.memory()
    }

    /// Frees a part of a table that will not be read any more: see [`crate::shed`].
    pub fn shed(&mut self, budget: &mut usize) {
        self.tree.shed(budget);
    }

    /// The earliest expiry of any record, or [`UnixMs::NEVER`].
    pub fn expiry(&self) -> UnixMs {
        UnixMs(self.tree.least())
    }

    /// The record of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let mark = R::mark(key);
        let (leaf, first) = self.tree.seek(|sep| *sep <= mark, mark.guess())?;
        match leaf.find(mark, key) {
            Ok(at) => Some(leaf.record(at)),
            Err(_) if !first && leaf.lower_bound(mark) == 0 => self.nth(self.rank_before(mark, key)?),
            Err(_) => None,
        }
    }

    /// The rank of a key in the leaves before the one of its mark. Records of equal marks may lie in several leaves,
    /// and separators lead to the last of them.
    #[cold]
    fn rank_before(&self, mark: Mark, key: &[u8]) -> Option<u64> {
        let (mut base, _) = self.tree.find(|sep| *sep <= mark)?;
        while base > 0 {
            let (leaf, last) = self.tree.get(base - 1)?;
            base = base - 1 - last as u64;
            if let Ok(at) = leaf.find(mark, key) {
                return Some(base + at as u64);
            }
            if leaf.lower_bound(mark) > 0 {
                break;
            }
        }
        None
    }

    /// Looks a key up and lets `change` do something about it.
    pub fn change<T>(&mut self, key: &[u8], change: impl FnOnce(Place<'_, R>) -> T) -> T {
        let mark = R::mark(key);
        let reached = |sep: &Mark| *sep <= mark;
        let tried = self.tree.modify_near(reached, mark.guess(), |leaf, first| {
            let at = leaf.find(mark, key);
            if at.is_err() && !first && leaf.lower_bound(mark) == 0 {
                return Err(change);
            }
            Ok(change(Place { leaf, at, mark }))
        });
        match tried {
            Ok(done) => done,
            Err(change) => match self.rank_before(mark, key) {
                Some(rank) => self.tree.modify(rank, |leaf, at| change(Place { leaf, at: Ok(at), mark })),
                None => self.tree.modify_near(reached, mark.guess(), |leaf, _| {
                    let at = leaf.find(mark, key);
                    change(Place { leaf, at, mark })
                }),
            },
        }
    }

    /// The record of a rank: every record has one, below [`len`](Self::len).
    pub fn nth(&self, rank: u64) -> Option<&[u8]> {
        let (leaf, at) = self.tree.get(rank)?;
        Some(leaf.record(at))
    }

    /// Removes the record of a rank, after `taken` has seen it.
    pub fn remove_nth<T>(&mut self, rank: u64, taken: impl FnOnce(&[u8]) -> T) -> Option<T> {
        if rank >= self.len() {
            return None;
        }
        Some(self.tree.modify(rank, |leaf, at| {
            let result = taken(leaf.record(at));
            leaf.remove(at);
            result
        }))
    }

    /// All records in the order of their marks.
    pub fn iter(&self) -> Records<'_, R> {
        self.iter_from(0)
    }

    /// The records from a rank on.
    pub fn iter_from(&self, rank: u64) -> Records<'_, R> {
        Records { leaves: self.tree.leaves_from(rank), leaf: None }
    }

    /// Shows about `count` records from a mark on to `each`. Returns the mark to go on from, None at the end.
    ///
    /// Records of one mark are shown together, so that the mark alone says how far a scan has come.
    pub fn scan<'a>(&'a self, from: Mark, count: usize, mut each: impl FnMut(&'a [u8])) -> Option<Mark> {
        let (base, leaf) = self.tree.find(|sep| *sep < from)?;
        let (mut shown, mut last) = (0, None);
        for (leaf, start) in self.tree.leaves_from(base + leaf.lower_bound(from) as u64) {
            for at in start..leaf.len() {
                let mark = leaf.mark(at);
                if shown >= count && last != Some(mark) {
                    return Some(mark);
                }
                each(leaf.record(at));
                shown += 1;
                last = Some(mark);
            }
        }
        None
    }

    /// Removes up to `max` records that have expired at `now`; `gone` sees them first. Returns how many.
    pub fn reclaim(&mut self, now: UnixMs, max: usize, mut gone: impl FnMut(&[u8])) -> usize {
        let mut taken = 0;
        while taken < max {
            let Some((base, _)) = self.tree.find_least(now.0) else { break };
            self.tree.modify(base, |leaf, _| {
                leaf.retain(|record| {
                    let stays = taken == max || R::expiry(record) > now;
                    if !stays {
                        taken += 1;
                        gone(record);
                    }
                    stays
                });
            });
        }
        taken
    }
}

/// The records of a table, in the order of their marks.
pub(crate) struct Records<'a, R: Record> {
    leaves: Leaves<'a, Leaf<R>>,
    leaf: Option<(&'a Leaf<R>, usize)>,
}

impl<'a, R: Record> Iterator for Records<'a, R> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if let Some((leaf, at)) = &mut self.leaf
                && *at < leaf.len()
            {
                *at += 1;
                return Some(leaf.record(*at - 1));
            }
            self.leaf = Some(self.leaves.next()?);
        }
    }
}
