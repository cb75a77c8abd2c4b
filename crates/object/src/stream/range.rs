//! Walking over entries, forwards and backwards.

use super::entry::Entry;
use super::id::Id;
use super::log::Log;
use super::node::{Node, RawEntries};
use crate::tree::Leaves;
use smallvec::SmallVec;

/// See [`Log::range`].
pub struct Forward<'a> {
    now: Option<(&'a Node, RawEntries<'a>)>,
    /// `None` where the range begins in the last node: the usual case, which then costs no walk through the tree.
    leaves: Option<Leaves<'a, Node>>,
    tail: Option<&'a Node>,
    start: Id,
    end: Id,
}

impl<'a> Forward<'a> {
    pub(super) fn new(log: &'a Log, start: Id, end: Id) -> Self {
        let in_tail = log.sealed.is_empty() || log.tail.live > 0 && log.tail.first <= start;
        let leaves = (!in_tail).then(|| {
            let rank = log.sealed.find(|first| *first <= start).map_or(0, |(rank, _)| rank);
            log.sealed.leaves_from(rank)
        });
        Forward { now: None, leaves, tail: Some(&log.tail), start, end }
    }
}

impl<'a> Iterator for Forward<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            if let Some((node, raw)) = &mut self.now {
                for raw in raw {
                    if raw.id >= self.start && !raw.deleted {
                        if raw.id > self.end {
                            self.end_here();
                            return None;
                        }
                        return Some(node.entry(raw));
                    }
                }
            }
            let sealed = self.leaves.as_mut().and_then(Iterator::next).map(|(node, _)| node);
            let node = sealed.or_else(|| self.tail.take())?;
            self.now = Some((node, node.raw()));
        }
    }
}

impl Forward<'_> {
    fn end_here(&mut self) {
        (self.now, self.leaves, self.tail) = (None, None, None);
    }
}

/// See [`Log::range_back`].
pub struct Backward<'a> {
    /// Entries of the node at hand that are left, in order.
    now: SmallVec<[Entry<'a>; 16]>,
    tail: Option<&'a Node>,
    leaves: Option<Leaves<'a, Node>>,
    start: Id,
    end: Id,
}

impl<'a> Backward<'a> {
    pub(super) fn new(log: &'a Log, start: Id, end: Id) -> Self {
        let tail = (log.tail.live > 0 && log.tail.first <= end).then_some(&log.tail);
        let before_tail = log.tail.live == 0 || start < log.tail.first;
        let leaves = before_tail.then(|| {
            let rank = log.sealed.find(|first| *first <= end).map_or(0, |(rank, _)| rank + 1);
            log.sealed.leaves_back(rank)
        });
        Backward { now: SmallVec::new(), tail, leaves, start, end }
    }
}

impl<'a> Iterator for Backward<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            if let Some(entry) = self.now.pop() {
                return Some(entry);
            }
            let node = self.tail.take().or_else(|| Some(self.leaves.as_mut()?.next()?.0))?;
            let within = node.raw().skip_while(|raw| raw.id < self.start).take_while(|raw| raw.id <= self.end);
            self.now.extend(within.filter(|raw| !raw.deleted).map(|raw| node.entry(raw)));
            if self.now.is_empty() && node.first < self.start {
                return None;
            }
        }
    }
}
