//! Sorted sets: members with scores, in the order of (score, member).
//!
//! Up to Redis's thresholds a set is one block ("listpack"); beyond, it is two trees ("skiplist" by name): see `large`.
//! It stays large when it shrinks, as in Redis.
//!
//! All operations on ranges work on ranks, positions from 0 in ascending order. [`ZSet::score_range`] and
//! [`ZSet::lex_range`] find the ranks of a range in O(log n), and its length is the count. [`ZSet::iter`] and
//! [`ZSet::remove_range`] take them.

mod codec;
mod hash;
mod item;
mod large;
mod node;
mod page;
mod prefetch;
mod ranges;
mod saved;
mod small;
mod tree;

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::Limits;

pub use ranges::{LexBound, LexRange, ScoreBound, ScoreRange};

pub(crate) use saved::{Leaf, Order, leaf};

use large::Large;
use small::Small;

/// A sorted set. See the module's text.
///
/// Scores are never NaN. Cloning is O(1) for large sets.
#[derive(Clone, Default)]
pub struct ZSet(Form);

#[derive(Clone)]
enum Form {
    Small(Small),
    Large(Box<Large>),
}

impl Default for Form {
    fn default() -> Self {
        Form::Small(Small::new())
    }
}

/// When [`ZSet::add`] changes a set, and how: the options of ZADD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// Only new members (`NX`).
    pub if_absent: bool,
    /// Only members that are there (`XX`).
    pub if_present: bool,
    /// Change a score only if it becomes greater (`GT`).
    pub if_greater: bool,
    /// Change a score only if it becomes less (`LT`).
    pub if_less: bool,
    /// The score is added to the member's, 0 if it is new (`INCR`).
    pub increment: bool,
}

/// The result of [`ZSet::add`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Added {
    /// The options forbade it.
    Refused,
    /// The member had this score already.
    Same(f64),
    /// The member is new, with this score.
    New(f64),
    /// The member has this other score now.
    Changed(f64),
}

/// A score would be NaN: infinity was added to its opposite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotANumber;

impl ZSet {
    /// An empty set.
    pub const fn new() -> Self {
        ZSet(Form::Small(Small::new()))
    }

    /// Number of members.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Form::Small(small) => small.len() as u64,
            Form::Large(large) => large.len(),
        }
    }

    /// True if there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of heap; parts shared with clones count in full.
    pub fn memory(&self) -> usize {
        match &self.0 {
            Form::Small(small) => small.heap(),
            Form::Large(large) => size_of::<Large>() + large.heap(),
        }
    }

    /// Frees a part of a value that will not be read any more: see [`crate::shed`].
    pub fn shed(&mut self, budget: &mut usize) {
        if let Form::Large(large) = &mut self.0 {
            large.shed(budget);
        }
    }

    /// Redis's name of the encoding.
    pub fn encoding(&self) -> &'static str {
        match &self.0 {
            Form::Small(_) => "listpack",
            Form::Large(_) => "skiplist",
        }
    }

    /// As [`ZSet::new`], with room for members and scores of about so many bytes.
    pub(crate) fn with_room(bytes: usize) -> Self {
        ZSet(Form::Small(Small::with_room(bytes)))
    }

    /// Takes the large form already if `members` are about to come of which one has `longest` bytes, as Redis does.
    pub fn expect(&mut self, members: usize, longest: usize, limits: &Limits) {
        if members > limits.zset_max_listpack_entries || longest > limits.zset_max_listpack_value {
            self.grow();
        }
    }

    /// The large form.
    fn grow(&mut self) -> &mut Large {
        if let Form::Small(small) = &self.0 {
            self.0 = Form::Large(Box::new(Large::from_small(small)));
        }
        match &mut self.0 {
            Form::Large(large) => large,
            Form::Small(_) => unreachable!("made large above"),
        }
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Form::Small(small) => small.find(member).map(|found| found.score),
            Form::Large(large) => large.score(member),
        }
    }

    /// The rank and the score of a member. O(log n).
    pub fn rank(&self, member: &[u8]) -> Option<(u64, f64)> {
        match &self.0 {
            Form::Small(small) => small.find(member).map(|found| (found.rank, found.score)),
            Form::Large(large) => large.score(member).map(|score| (large.rank(score, member), score)),
        }
    }

    /// Adds a member or changes its score, as ZADD does. `score` must not be NaN.
    ///
    /// # Errors
    ///
    /// The score would be NaN: nothing has changed.
    pub fn add(
        &mut self,
        score: f64,
        member: &[u8],
        options: AddOptions,
        limits: &Limits,
    ) -> Result<Added, NotANumber> {
        if score.is_nan() {
            return Err(NotANumber);
        }
        let small = match &mut self.0 {
            Form::Small(small) => small,
            Form::Large(large) => return add_large(large, score, member, options),
        };
        let found = small.find(member);
        let old = found.as_ref().map(|found| found.score);
        let added = decide(old, score, options)?;
        match (added, found) {
            (Added::New(score), _) => {
                if small.len() >= limits.zset_max_listpack_entries || member.len() > limits.zset_max_listpack_value {
                    self.grow().insert(score, member);
                } else {
                    small.insert(score, member);
                }
            }
            (Added::Changed(score), Some(found)) => {
                small.remove(&found);
                small.insert(score, member);
            }
            _ => {}
        }
        Ok(added)
    }

    /// Sets the score of a member, which may be new. `score` must not be NaN.
    ///
    /// # Errors
    ///
    /// The score would be NaN: nothing has changed.
    pub fn insert(&mut self, score: f64, member: &[u8], limits: &Limits) -> Result<Added, NotANumber> {
        self.add(score, member, AddOptions::default(), limits)
    }

    /// Removes a member; the score it had.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.0 {
            Form::Small(small) => {
                let found = small.find(member)?;
                small.remove(&found);
                Some(found.score)
            }
            Form::Large(large) => large.remove(member),
        }
    }

    /// The ranks of the members with a score in the range. O(log n).
    pub fn score_range(&self, range: &ScoreRange) -> Range<u64> {
        match &self.0 {
            Form::Small(small) => small.score_range(range),
            Form::Large(large) => large.score_range(range),
        }
    }

    /// The ranks of the members in the range. O(log n). Meaningful only where all scores are equal, as in Redis.
    pub fn lex_range(&self, range: &LexRange<'_>) -> Range<u64> {
        match &self.0 {
            Form::Small(small) => small.lex_range(range),
            Form::Large(large) => large.lex_range(range),
        }
    }

    /// Ranks cut to those that exist.
    fn clip(&self, ranks: Range<u64>) -> Range<u64> {
        let end = ranks.end.min(self.len());
        ranks.start.min(end)..end
    }

    /// The members of these ranks with their scores, backwards if `reverse`. Ranks beyond the end are ignored.
    pub fn iter(&self, ranks: Range<u64>, reverse: bool) -> Iter<'_> {
        let ranks = self.clip(ranks);
        match &self.0 {
            Form::Small(small) => Iter(Items::Small(small.iter(ranks.start as usize..ranks.end as usize, reverse))),
            Form::Large(large) if reverse => Iter(Items::Backward(large.iter(ranks))),
            Form::Large(large) => Iter(Items::Forward(large.iter(ranks))),
        }
    }

    /// The member of a rank and its score. O(log n).
    pub fn get(&self, rank: u64) -> Option<(&[u8], f64)> {
        self.iter(rank..rank.saturating_add(1), false).next()
    }

    /// Removes the members of these ranks. Ranks beyond the end are ignored.
    pub fn remove_range(&mut self, ranks: Range<u64>) {
        let ranks = self.clip(ranks);
        match &mut self.0 {
            Form::Small(small) => small.remove_range(ranks.start as usize..ranks.end as usize),
            Form::Large(large) => large.remove_range(ranks),
        }
    }

    /// Visits at least `count` members, if there are as many, from a cursor on. Returns the next cursor, 0 at the end.
    /// A scan from 0 to 0 visits every member that is there all the while at least once. A small set is visited whole.
    pub fn scan<'a>(&'a self, cursor: u64, count: u64, mut visit: impl FnMut(&'a [u8], f64)) -> u64 {
        match &self.0 {
            Form::Small(small) => {
                small.iter(0..small.len(), false).for_each(|(member, score)| visit(member, score));
                0
            }
            Form::Large(large) => large.scan(cursor, count.max(1), visit),
        }
    }
}

fn add_large(large: &mut Large, score: f64, member: &[u8], options: AddOptions) -> Result<Added, NotANumber> {
    let mut result = Ok(Added::Refused);
    large.update(member, score, |old| {
        result = decide(old, score, options);
        match result {
            Ok(Added::New(score) | Added::Changed(score)) => Some(score),
            _ => None,
        }
    });
    result
}

/// ZADD's decision about a member with this score, if it is there.
fn decide(old: Option<f64>, score: f64, options: AddOptions) -> Result<Added, NotANumber> {
    let Some(old) = old else {
        return Ok(if options.if_present { Added::Refused } else { Added::New(score) });
    };
    if options.if_absent {
        return Ok(Added::Refused);
    }
    let new = if options.increment { old + score } else { score };
    if new.is_nan() {
        return Err(NotANumber);
    }
    if (options.if_less && new >= old) || (options.if_greater && new <= old) {
        return Ok(Added::Refused);
    }
    Ok(if new == old { Added::Same(old) } else { Added::Changed(new) })
}

/// Members and scores of a [`ZSet`], in either order.
pub struct Iter<'a>(Items<'a>);

enum Items<'a> {
    Small(small::Iter<'a>),
    Forward(tree::Range<'a, f64, ()>),
    Backward(tree::Range<'a, f64, ()>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Items::Small(pairs) => pairs.next(),
            Items::Forward(range) => range.next().map(|(score, member, ())| (member, score)),
            Items::Backward(range) => range.next_back().map(|(score, member, ())| (member, score)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Items::Small(pairs) => pairs.size_hint(),
            Items::Forward(range) | Items::Backward(range) => range.size_hint(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}
