//! The large form: one tree orders scores and members, another finds the score of a member by its hash.
//!
//! Redis keeps a hash table and a skip list that share member strings. They cost about eight allocations' worth of
//! pointers for each member and a cache miss for each step of a search. Here both trees store short members and share
//! long ones. A member costs about 26 bytes beside twice its length, and a search a handful of cache misses.

use std::ops::Range;

use crate::saved::Ledger;

use super::hash::hash;
use super::item::{Item, Place, Tie};
use super::node::LEAF_MAX;
use super::page::Page;
use super::ranges::{LexBound, LexRange, ScoreBound, ScoreRange};
use super::small::Small;
use super::tree::{self, Tree};

/// See the module.
#[derive(Clone)]
pub(super) struct Large {
    pub(super) order: Tree<f64, ()>,
    index: Tree<u32, f64>,
    /// Bytes of heap of members that are out of line.
    long: usize,
}

/// Bytes of heap behind the pointers to a member that is out of line.
fn long_heap(item: &Item) -> usize {
    match item {
        Item::Inline(_) => 0,
        Item::Long(s) => 2 * size_of::<usize>() + s.len(),
    }
}

impl Large {
    pub(super) fn new() -> Self {
        Large { order: Tree::new(), index: Tree::new(), long: 0 }
    }

    pub(super) fn from_small(small: &Small) -> Self {
        let mut large = Large::new();
        for (member, score) in small.iter(0..small.len(), false) {
            large.insert(score, member);
        }
        large
    }

    /// Makes the index of an order. `None`: a member is there twice.
    pub(super) fn of_order(order: Tree<f64, ()>) -> Option<Self> {
        let mut all: Vec<_> = order.items().map(|(score, item)| (hash(item.as_bytes()), item, score)).collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.as_bytes().cmp(b.1.as_bytes())));
        if all.windows(2).any(|pair| pair[0].0 == pair[1].0 && pair[0].1.as_bytes() == pair[1].1.as_bytes()) {
            return None;
        }
        let long = all.iter().map(|(_, item, _)| long_heap(item)).sum();
        let mut pages = Vec::with_capacity(order.heap() / LEAF_MAX + 1);
        let mut page = Page::new();
        for (hash, item, score) in all {
            if page.len() == 0 || page.weight() > LEAF_MAX / 4 * 3 {
                // Nothing is stored of the index, so its leaves have no labels.
                pages.extend(
                    Some(std::mem::replace(&mut page, Page::with_room(LEAF_MAX / 8 * 7))).filter(|p| p.len() > 0),
                );
            }
            page.insert(page.len(), hash, item, score);
        }
        pages.push(page);
        let ledger = Ledger::loaded(0, pages.len() as u64, 0);
        Some(Large { index: Tree::of_pages(pages, ledger), order, long })
    }

    pub(super) fn len(&self) -> u64 {
        self.order.len()
    }

    pub(super) fn heap(&self) -> usize {
        self.order.heap() + self.index.heap() + self.long
    }

    /// Frees a part of a set that will not be read any more: see [`crate::shed`].
    pub(super) fn shed(&mut self, budget: &mut usize) {
        self.order.shed(budget);
        self.index.shed(budget);
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.index.get(hash(member), member)
    }

    /// Finds the score of a member, if it is there, and replaces it by the result of `decide`; `None` leaves everything
    /// as it is. `expected` is the probable result: it is prefetched while the member is searched.
    pub(super) fn update(&mut self, member: &[u8], expected: f64, decide: impl FnOnce(Option<f64>) -> Option<f64>) {
        self.order.prefetch(expected);
        let item = Item::new(member);
        let mut new = None;
        let old = self.index.update(hash(member), item.clone(), |old| {
            new = decide(old);
            new
        });
        let Some(new) = new else { return };
        let item = match old {
            None => {
                self.long += long_heap(&item);
                item
            }
            Some(old) => match self.order.take(old, member) {
                Some(((), Some(long))) => Item::Long(long),
                _ => item,
            },
        };
        self.order.insert(new, item, ());
    }

    /// Inserts a member that is not there.
    pub(super) fn insert(&mut self, score: f64, member: &[u8]) {
        self.update(member, score, |_| Some(score));
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let (score, long) = self.index.take(hash(member), member)?;
        self.long -= long.map_or(0, |s| long_heap(&Item::Long(s)));
        self.order.take(score, member);
        Some(score)
    }

    pub(super) fn rank(&self, score: f64, member: &[u8]) -> u64 {
        self.order.rank(Place { number: score, tie: Tie::Below(member) })
    }

    /// Ranks of the elements in the range. O(log n).
    pub(super) fn score_range(&self, range: &ScoreRange) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        let (number, tie) = match range.min {
            ScoreBound::Inclusive(s) => (s, Tie::First),
            ScoreBound::Exclusive(s) => (s, Tie::Last),
        };
        let start = self.order.rank(Place { number, tie });
        let (number, tie) = match range.max {
            ScoreBound::Inclusive(s) => (s, Tie::Last),
            ScoreBound::Exclusive(s) => (s, Tie::First),
        };
        start..self.order.rank(Place { number, tie }).max(start)
    }

    /// Ranks of the elements in the range, on the condition that all scores are equal. O(log n).
    pub(super) fn lex_range(&self, range: &LexRange<'_>) -> Range<u64> {
        let Some((number, ..)) = self.order.range(0, 1).next() else { return 0..0 };
        let rank = |tie| self.order.rank(Place { number, tie });
        let start = match range.min {
            LexBound::Min => 0,
            LexBound::Inclusive(s) => rank(Tie::Below(s)),
            LexBound::Exclusive(s) => rank(Tie::Through(s)),
            LexBound::Max => self.len(),
        };
        let end = match range.max {
            LexBound::Min => 0,
            LexBound::Inclusive(s) => rank(Tie::Through(s)),
            LexBound::Exclusive(s) => rank(Tie::Below(s)),
            LexBound::Max => self.len(),
        };
        start..end.max(start)
    }

    /// Removes the elements of these ranks, which must be within the set. The order drops them in O(log n + leaves).
    /// The index loses them one by one, or is made anew if less is left than removed.
    pub(super) fn remove_range(&mut self, ranks: Range<u64>) {
        if ranks.is_empty() {
            return;
        }
        if ranks.end - ranks.start > self.len() / 2 {
            self.order.remove_range(ranks.start, ranks.end);
            self.index = Tree::new();
            self.long = 0;
            for (score, item) in self.order.items() {
                self.long += long_heap(&item);
                self.index.insert(hash(item.as_bytes()), item, score);
            }
            return;
        }
        for (_, member, ()) in self.order.range(ranks.start, ranks.end) {
            if let Some((_, Some(long))) = self.index.take(hash(member), member) {
                self.long -= long_heap(&Item::Long(long));
            }
        }
        self.order.remove_range(ranks.start, ranks.end);
    }

    /// The elements of these ranks, which must be within the set.
    pub(super) fn iter(&self, ranks: Range<u64>) -> tree::Range<'_, f64, ()> {
        self.order.range(ranks.start, ranks.end)
    }

    /// Visits at least `count` elements from the cursor on, in the order of their hashes. Returns the next cursor, 0 at
    /// the end.
    ///
    /// A cursor is the hash from which on members were not visited. Members with one hash are visited together.
    pub(super) fn scan<'a>(&'a self, cursor: u64, count: u64, mut visit: impl FnMut(&'a [u8], f64)) -> u64 {
        let Ok(from) = u32::try_from(cursor) else { return 0 };
        let rank = self.index.rank(Place { number: from, tie: Tie::First });
        let mut last = None;
        for (i, (hash, member, score)) in self.index.range(rank, u64::MAX).enumerate() {
            if i as u64 >= count && last != Some(hash) {
                return u64::from(hash);
            }
            visit(member, score);
            last = Some(hash);
        }
        0
    }
}

#[cfg(test)]
impl Large {
    /// Checks that both trees hold the same elements and that the figure of memory is right.
    pub(super) fn check(&self) {
        assert_eq!(self.order.len(), self.index.len());
        let mut long = 0;
        for (score, item) in self.order.items() {
            assert_eq!(self.score(item.as_bytes()), Some(score));
            long += long_heap(&item);
        }
        assert_eq!(self.long, long);
    }
}
