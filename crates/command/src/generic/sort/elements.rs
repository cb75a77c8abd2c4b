//! The elements to sort, and their order.

use std::cmp::Ordering;
use std::ops::Range;

use clocks::UnixMs;
use keyspace::{Db, EntryRef, Kind};
use object::block::Elem;
use object::number::parse_f64;
use object::{List, Set, ZSet};

use super::options::Options;
use super::pattern::Pattern;
use crate::error::Error;

/// A collection that can be sorted.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    List(&'a List),
    Set(&'a Set),
    ZSet(&'a ZSet),
}

impl<'a> Source<'a> {
    pub(super) fn of(entry: EntryRef<'a>) -> Result<Self, Error> {
        Ok(match entry.kind() {
            Kind::List => Source::List(entry.collection()?),
            Kind::Set => Source::Set(entry.collection()?),
            Kind::ZSet => Source::ZSet(entry.collection()?),
            _ => return Err(Error::WRONG_TYPE),
        })
    }

    /// A clone, which costs nothing.
    pub(super) fn share(self) -> Shared {
        match self {
            Source::List(list) => Shared::List(list.clone()),
            Source::Set(set) => Shared::Set(set.clone()),
            Source::ZSet(zset) => Shared::ZSet(zset.clone()),
        }
    }
}

/// The same, shared with the entry.
pub(super) enum Shared {
    List(List),
    Set(Set),
    ZSet(ZSet),
}

impl Shared {
    pub(super) fn as_source(&self) -> Source<'_> {
        match self {
            Shared::List(list) => Source::List(list),
            Shared::Set(set) => Source::Set(set),
            Shared::ZSet(zset) => Source::ZSet(zset),
        }
    }
}

/// Strings one after another: a million of them are two allocations.
#[derive(Default)]
pub(super) struct Elements {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Elements {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    fn push(&mut self, elem: Elem<'_>) {
        elem.write_to(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// All elements of a list, set or sorted set; or those that are to be answered, in the order of the answer, if
    /// their order is kept.
    pub(super) fn of(source: Source<'_>, options: &Options<'_>) -> Elements {
        let mut elements = Elements::default();
        match source {
            Source::List(list) => {
                let range = options.part_kept(list.len());
                let count = range.end - range.start;
                if options.keep_order && options.descending {
                    list.range_back(list.len() - range.start, count).for_each(|elem| elements.push(elem));
                } else {
                    list.range(range.start, count).for_each(|elem| elements.push(elem));
                }
            }
            Source::Set(set) => set.iter().for_each(|elem| elements.push(elem)),
            Source::ZSet(zset) => {
                let range = options.part_kept(zset.len());
                let backwards = options.keep_order && options.descending;
                let ranks = if backwards { zset.len() - range.end..zset.len() - range.start } else { range };
                zset.iter(ranks, backwards).for_each(|(member, _)| elements.push(Elem::Bytes(member)));
            }
        }
        elements
    }

    /// Numbers of the elements in the wanted order, those within LIMIT. `place`: where and when keys of patterns are
    /// looked up.
    pub(super) fn order(&self, place: Option<(&Db<'_>, UnixMs)>, options: &Options<'_>) -> Result<Vec<usize>, Error> {
        let range = options.range(self.len());
        let by = options.by.as_ref().zip(place);
        if options.alpha {
            let keys = by.map(|(by, (db, now))| self.texts(db, now, by));
            return Ok(self.sorted(range, options.descending, |a, b| match &keys {
                Some(keys) => keys[a].cmp(&keys[b]),
                None => self.get(a).cmp(self.get(b)),
            }));
        }
        let weights = self.weights(by)?;
        Ok(self.sorted(range, options.descending, |a, b| {
            let by_weight = weights[a].partial_cmp(&weights[b]).unwrap_or(Ordering::Equal);
            by_weight.then_with(|| self.get(a).cmp(self.get(b)))
        }))
    }

    fn texts(&self, db: &Db<'_>, now: UnixMs, by: &Pattern<'_>) -> Vec<Option<Vec<u8>>> {
        let mut name = Vec::new();
        let text = |i| by.find(db, now, self.get(i), &mut name).map(|found| found.with(<[u8]>::to_vec));
        (0..self.len()).map(text).collect()
    }

    fn weights(&self, by: Option<(&Pattern<'_>, (&Db<'_>, UnixMs))>) -> Result<Vec<f64>, Error> {
        let mut name = Vec::new();
        let mut weight = |i| {
            let text = self.get(i);
            match by {
                None => parse_f64(text),
                Some((by, (db, now))) => {
                    by.find(db, now, text, &mut name).map_or(Some(0.0), |found| found.with(parse_f64))
                }
            }
        };
        let weights: Option<Vec<f64>> = (0..self.len()).map(&mut weight).collect();
        weights.ok_or(Error::new("ERR One or more scores can't be converted into double"))
    }

    /// The `range` of the elements' numbers in order: only what is in it is sorted.
    fn sorted(&self, range: Range<usize>, descending: bool, compare: impl Fn(usize, usize) -> Ordering) -> Vec<usize> {
        let compare = |a: &usize, b: &usize| {
            let order = compare(*a, *b);
            // Equal ones stay as they came: a total order, whatever the algorithm.
            (if descending { order.reverse() } else { order }).then(a.cmp(b))
        };
        let mut order: Vec<usize> = (0..self.len()).collect();
        if range.is_empty() {
            return Vec::new();
        }
        if range.end < order.len() {
            order.select_nth_unstable_by(range.end, compare);
            order.truncate(range.end);
        }
        if range.start > 0 {
            order.select_nth_unstable_by(range.start, compare);
            order.drain(..range.start);
        }
        order.sort_unstable_by(compare);
        order
    }
}

impl Options<'_> {
    /// The part of an ordered collection to visit: all, unless its order is kept.
    fn part_kept(&self, len: u64) -> Range<u64> {
        if !self.keep_order {
            return 0..len;
        }
        let range = self.range(usize::try_from(len).unwrap_or(usize::MAX));
        range.start as u64..range.end as u64
    }
}
