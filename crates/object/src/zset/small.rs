//! The small form: one block of alternating members and scores, in order, searched from end to end.
//!
//! A score that is an integer is stored as one, which takes one to eight bytes (and makes -0 a 0, as Redis's listpacks
//! do). Any other is its eight bytes. Members are always stored as strings, so that they can be lent out.

use std::ops::Range;

use crate::block::{self, Block, Elem, Pos};
use crate::number::exact_i64;

use super::ranges::{LexRange, ScoreRange};

/// See the module.
#[derive(Clone, Default)]
pub(super) struct Small(Block);

impl Small {
    /// An empty one, with room for members and scores of about so many bytes.
    pub(super) fn with_room(bytes: usize) -> Self {
        Small(Block::with_room(bytes))
    }
}

/// A score as an element, borrowing `raw` if it is not an integer.
fn score_elem(score: f64, raw: &mut [u8; 8]) -> Elem<'_> {
    match exact_i64(score) {
        Some(i) => Elem::Int(i),
        None => {
            *raw = score.to_le_bytes();
            Elem::Bytes(raw)
        }
    }
}

fn score_of(elem: Elem<'_>) -> f64 {
    match elem {
        Elem::Int(i) => i as f64,
        Elem::Bytes(raw) => raw.first_chunk().map_or(0.0, |raw| f64::from_le_bytes(*raw)),
    }
}

fn member_of(elem: Elem<'_>) -> &[u8] {
    match elem {
        Elem::Bytes(member) => member,
        // Never written by this module.
        Elem::Int(_) => b"",
    }
}

/// Where a member stands.
pub(super) struct Found {
    pos: Pos,
    /// From 0, in ascending order.
    pub(super) rank: u64,
    pub(super) score: f64,
}

impl Small {
    pub(super) const fn new() -> Self {
        Small(Block::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len() / 2
    }

    pub(super) fn heap(&self) -> usize {
        self.0.heap_bytes()
    }

    pub(super) fn find(&self, member: &[u8]) -> Option<Found> {
        let mut next = self.0.first();
        let mut rank = 0;
        while let Some(pos) = next {
            let score = self.0.after(pos);
            if member_of(self.0.get(pos)) == member {
                return Some(Found { pos, rank, score: score_of(self.0.get(score)) });
            }
            next = self.0.next(score);
            rank += 1;
        }
        None
    }

    /// Inserts a member that is not there.
    pub(super) fn insert(&mut self, score: f64, member: &[u8]) {
        let mut at = self.0.end();
        let mut next = self.0.first();
        while let Some(pos) = next {
            let score_pos = self.0.after(pos);
            let other = score_of(self.0.get(score_pos));
            if other > score || (other == score && member_of(self.0.get(pos)) > member) {
                at = pos;
                break;
            }
            next = self.0.next(score_pos);
        }
        self.insert_at(at, score, member);
    }

    /// Adds a member behind all others.
    pub(super) fn push(&mut self, score: f64, member: &[u8]) {
        self.insert_at(self.0.end(), score, member);
    }

    fn insert_at(&mut self, at: Pos, score: f64, member: &[u8]) {
        self.0.insert(at, Elem::Bytes(member));
        self.0.insert(self.0.after(at), score_elem(score, &mut [0; 8]));
    }

    pub(super) fn remove(&mut self, found: &Found) {
        self.0.remove(found.pos, 2);
    }

    pub(super) fn remove_range(&mut self, ranks: Range<usize>) {
        self.0.remove_range(2 * ranks.start..2 * ranks.end);
    }

    /// Ranks of the elements in the range.
    pub(super) fn score_range(&self, range: &ScoreRange) -> Range<u64> {
        self.span(|_, score| range.is_above(score), |_, score| range.is_below(score))
    }

    /// Ranks of the elements in the range: from the first that is not below it to the next that is above it, whatever
    /// the scores.
    pub(super) fn lex_range(&self, range: &LexRange<'_>) -> Range<u64> {
        self.span(|member, _| range.is_above(member), |member, _| range.is_below(member))
    }

    fn span(&self, below: impl Fn(&[u8], f64) -> bool, above: impl Fn(&[u8], f64) -> bool) -> Range<u64> {
        let mut elements = self.iter(0..self.len(), false);
        let start = elements.by_ref().take_while(|&(member, score)| below(member, score)).count();
        // `take_while` has taken the first element that is not below.
        let rest = self.iter(start..self.len(), false);
        let count = rest.take_while(|&(member, score)| !above(member, score)).count();
        start as u64..(start + count) as u64
    }

    /// The elements of these ranks, which must be within the set.
    pub(super) fn iter(&self, ranks: Range<usize>, reverse: bool) -> Iter<'_> {
        let pairs = if reverse { self.0.iter_to(2 * ranks.end) } else { self.0.iter_from(2 * ranks.start) };
        Iter { pairs, left: ranks.len(), reverse }
    }
}

/// Elements in either order.
pub(super) struct Iter<'a> {
    pairs: block::Iter<'a>,
    left: usize,
    reverse: bool,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        if self.reverse {
            let score = score_of(self.pairs.next_back()?);
            Some((member_of(self.pairs.next_back()?), score))
        } else {
            let member = member_of(self.pairs.next()?);
            Some((member, score_of(self.pairs.next()?)))
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
