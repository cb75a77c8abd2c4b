//! The output of one connection: bytes of its own, long strings that are sent from where they are, and how much of it
//! may be sent already.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use keyspace::Version;
use resp::{Part, Parts};
use smallvec::SmallVec;

use crate::worker::holes::{Holes, Inserted};

/// Query buffers and output buffers of this size are kept for reuse.
pub(crate) const BUFFER: usize = 16 * 1024;

/// Pieces sent in one system call.
pub const SLICES: usize = 16;

/// Bytes before a hole that is filled soon, up to which they wait for its reply: then one send is enough instead of
/// two.
const HELD: usize = 16 * 1024;

/// The output of a connection, and how much of it has been sent.
#[derive(Default)]
pub struct Outgoing {
    /// Its own bytes.
    pub(crate) bytes: Vec<u8>,
    /// How many of them are sent.
    sent: usize,
    /// Long strings that are not sent yet, and their places among the bytes.
    parts: VecDeque<Part>,
    /// Bytes of the first one that are sent.
    part_sent: usize,
    /// Bytes of all parts still to be sent.
    parts_unsent: usize,
    /// Places from which on the output waits for a version to be committed (rule L7), in order.
    gates: SmallVec<[Gate; 1]>,
    /// Replies that are to come from other nodes.
    holes: Option<Box<Holes>>,
    /// True if these replies come soon: see [`Self::hold`].
    holds: bool,
}

struct Gate {
    /// The place among the own bytes.
    at: usize,
    version: Version,
    /// The turn of the worker in which it was put there.
    turn: u64,
}

impl Outgoing {
    /// Bytes still to be sent.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.bytes.len() - self.sent + self.parts_unsent
    }

    /// Bytes that may be sent now.
    #[inline]
    pub fn sendable(&self) -> usize {
        if self.gates.is_empty() && self.holes.is_none() {
            return self.unsent();
        }
        let end = self.end();
        if end == self.bytes.len() {
            return self.unsent();
        }
        let parts = self.parts.iter().take_while(|part| part.at < end).map(|part| part.bytes.len());
        // A part whose sending has begun lies before every gate.
        end - self.sent + parts.sum::<usize>() - self.part_sent
    }

    /// True if it is time to send: there are bytes, and it does not pay to wait for replies that come soon from other
    /// nodes.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let ready = self.sendable();
        ready > 0 && (ready >= HELD || !self.holds || !self.has_holes())
    }

    /// The hole that was just opened is filled soon: the bytes before it may wait for it.
    pub(crate) fn hold(&mut self) {
        self.holds = true;
    }

    /// True if replies are to come from other nodes.
    #[inline]
    pub(crate) fn has_holes(&self) -> bool {
        self.holes() > 0
    }

    /// How many such replies there are.
    #[inline]
    pub(crate) fn holes(&self) -> usize {
        self.holes.as_ref().map_or(0, |holes| holes.len())
    }

    /// The number of the first hole.
    pub(crate) fn next_hole(&self) -> Option<u64> {
        self.holes.as_ref()?.next()
    }

    /// Bytes of replies for holes that are not the first.
    pub(crate) fn kept(&self) -> usize {
        self.holes.as_ref().map_or(0, |holes| holes.kept())
    }

    /// Bytes behind the first place that waits for another node's reply.
    pub(crate) fn behind_holes(&self) -> usize {
        let at = self.holes.as_ref().and_then(|holes| holes.at());
        at.map_or(0, |at| self.bytes.len() - at)
    }

    /// Opens a place for a reply that will come from another node, behind all bytes. Returns its number.
    pub(crate) fn open_hole(&mut self) -> u64 {
        self.holds &= self.has_holes();
        self.holes.get_or_insert_default().open(self.bytes.len())
    }

    /// Takes the reply for such a place, or a part of it. `whole`: it is the last part.
    pub(crate) fn fill(&mut self, hole: u64, reply: &[u8], whole: bool) {
        self.put(hole, reply, whole);
        self.settle();
    }

    /// As [`Self::fill`], but the bytes may be in place only after [`Self::settle`]: for callers that have several
    /// replies.
    pub(crate) fn put(&mut self, hole: u64, reply: &[u8], whole: bool) {
        if let Some(holes) = &mut self.holes {
            holes.put(hole, reply, whole, &mut self.bytes);
        }
    }

    /// Moves everything that was put to its place.
    pub(crate) fn settle(&mut self) {
        let Some(holes) = &mut self.holes else { return };
        let mut inserted: SmallVec<[Inserted; 32]> = SmallVec::new();
        holes.settle(&mut self.bytes, |at| inserted.push(at));
        if !inserted.is_empty() {
            self.make_way(&inserted);
        }
    }

    /// Moves parts and gates with the bytes that they belong to.
    fn make_way(&mut self, inserted: &[Inserted]) {
        // A part or gate of a reply written before a hole lies before the last byte of that reply, which is one of the
        // own bytes.
        let more = |before: &dyn Fn(usize) -> bool| -> usize {
            inserted.iter().filter(|(at, _)| before(*at)).map(|(_, n)| n).sum()
        };
        for part in &mut self.parts {
            part.at += more(&|at| at < part.at);
        }
        for gate in &mut self.gates {
            gate.at += more(&|at| at <= gate.at);
        }
    }

    /// Writes bytes that are no reply right behind the reply for the hole `last`, if that is still to be sent, or else
    /// as early as possible.
    pub(crate) fn insert_behind(&mut self, last: Option<u64>, bytes: &[u8]) {
        let holes = self.holes.as_mut().filter(|holes| holes.len() > 0);
        let Some((holes, at)) = holes.and_then(|holes| holes.at().map(|at| (holes, at))) else {
            return self.bytes.extend_from_slice(bytes);
        };
        if holes.put_behind(last, bytes) {
            return;
        }
        self.bytes.splice(at..at, bytes.iter().copied());
        holes.move_down(bytes.len());
        self.make_way(&[(at, bytes.len())]);
    }

    /// True if bytes that are no reply may be written before the holes, which have nothing behind them. The caller
    /// writes them there, and calls [`Self::wrote_before_holes`]. False: they have to wait for the holes.
    pub(crate) fn may_write_before_holes(&self) -> bool {
        self.holes.as_ref().is_some_and(|holes| holes.at() == Some(self.bytes.len()) && !holes.is_begun())
    }

    /// Notes that `n` bytes were written before the holes.
    pub(crate) fn wrote_before_holes(&mut self, n: usize) {
        if let Some(holes) = &mut self.holes {
            holes.move_down(n);
        }
    }

    /// True if no bytes are left to send, now or later.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.unsent() == 0 && !self.has_holes()
    }

    /// Takes the buffer of the own bytes, if that is all there is: nothing was gated or sent from elsewhere.
    #[inline]
    pub(crate) fn take_plain(&mut self) -> Option<Vec<u8>> {
        if self.parts.capacity() > 0 || self.is_gated() || self.gates.spilled() || self.has_holes() {
            return None;
        }
        (self.sent, self.holds) = (0, false);
        Some(std::mem::take(&mut self.bytes))
    }

    /// Takes everything. The memory for holes stays.
    pub(crate) fn take(&mut self) -> Outgoing {
        let holes = self.holes.take();
        let taken = std::mem::take(self);
        self.holes = holes;
        taken
    }

    /// True if some of it has to wait.
    #[inline]
    pub fn is_gated(&self) -> bool {
        !self.gates.is_empty()
    }

    /// Makes the own bytes from `at` on, and everything behind them, wait until `version` is committed.
    pub(crate) fn gate(&mut self, at: usize, version: Version, turn: u64) {
        for gate in self.gates.iter_mut().rev() {
            if gate.version.stream() != version.stream() {
                continue;
            }
            if gate.version >= version {
                return;
            }
            // Replies of one turn are mostly committed together: one gate is enough.
            if gate.turn == turn {
                return gate.version = version;
            }
            break;
        }
        self.gates.push(Gate { at, version, turn });
    }

    /// Opens the gates whose versions are committed. Returns whether gates are left.
    #[inline]
    pub(crate) fn release(&mut self, is_committed: impl Fn(Version) -> bool) -> bool {
        let open = self.gates.iter().take_while(|gate| is_committed(gate.version)).count();
        if open > 0 {
            self.gates.drain(..open);
        }
        self.is_gated()
    }

    /// The end of the own bytes that may be sent.
    #[inline]
    fn end(&self) -> usize {
        let end = self.gates.first().map_or(self.bytes.len(), |gate| gate.at);
        match self.holes.as_ref().and_then(|holes| holes.at()) {
            None => end,
            Some(at) => end.min(at),
        }
    }

    /// Takes the bytes that may be sent now.
    pub(crate) fn split_sendable(&mut self) -> Outgoing {
        let end = self.end();
        if self.gates.is_empty() && !self.has_holes() {
            return self.take();
        }
        let bytes = self.bytes.split_off(end);
        let parts = self.parts.split_off(self.parts.partition_point(|part| part.at < end));
        let mut rest = Outgoing { bytes, parts, gates: std::mem::take(&mut self.gates), ..Outgoing::default() };
        rest.parts.iter_mut().for_each(|part| part.at -= end);
        rest.gates.iter_mut().for_each(|gate| gate.at -= end);
        rest.holes = self.holes.take();
        rest.holds = self.holds;
        rest.move_holes_up(end);
        rest.parts_unsent = rest.parts.iter().map(|part| part.bytes.len()).sum();
        self.parts_unsent -= rest.parts_unsent;
        std::mem::replace(self, rest)
    }

    fn move_holes_up(&mut self, n: usize) {
        if let Some(holes) = &mut self.holes {
            holes.move_up(n);
        }
    }

    /// True if there are no parts: all there is to be sent is [`Self::plain`].
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.parts.is_empty()
    }

    /// The bytes that go before the first part.
    #[inline]
    pub fn plain(&self) -> &[u8] {
        match self.parts.front() {
            None => &self.bytes[self.sent..self.end()],
            Some(_) if self.part_sent > 0 => &[],
            Some(part) => &self.bytes[self.sent..part.at.min(self.end())],
        }
    }

    /// The next pieces to send: at most `most` bytes, and as many pieces as `slices` takes. Returns how many pieces.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES], most: usize) -> usize {
        let (mut count, mut left, mut at) = (0, most, self.sent);
        let mut put = |piece: &'a [u8]| {
            let piece = &piece[..piece.len().min(left)];
            if !piece.is_empty()
                && let Some(slice) = slices.get_mut(count)
            {
                *slice = IoSlice::new(piece);
                left -= piece.len();
                count += 1;
            }
        };
        let (mut skip, end) = (self.part_sent, self.end());
        for (i, part) in self.parts.iter().enumerate() {
            if part.at >= end {
                break;
            }
            if i == SLICES {
                return count;
            }
            put(&self.bytes[at..part.at]);
            put(&part.bytes[std::mem::take(&mut skip)..]);
            at = part.at;
        }
        put(&self.bytes[at..end]);
        count
    }

    /// A copy of the next bytes to send, at most `most`.
    pub(crate) fn next_piece(&self, most: usize) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = self.slices(&mut slices, most);
        slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect()
    }

    /// Counts `n` bytes as sent. Parts that are sent go to `gone`.
    pub(crate) fn advance(&mut self, mut n: usize, mut gone: impl FnMut(Arc<Vec<u8>>)) {
        while let Some(part) = self.parts.front() {
            let own = n.min(part.at - self.sent);
            self.sent += own;
            n -= own;
            if self.sent < part.at {
                return;
            }
            let of_part = n.min(part.bytes.len() - self.part_sent);
            self.part_sent += of_part;
            self.parts_unsent -= of_part;
            n -= of_part;
            if self.part_sent < part.bytes.len() {
                return;
            }
            self.part_sent = 0;
            if let Some(part) = self.parts.pop_front() {
                gone(part.bytes);
            }
        }
        self.sent = (self.sent + n).min(self.bytes.len());
    }

    /// Takes the long strings whose places were just written into [`Self::bytes`].
    pub(crate) fn adopt(&mut self, parts: &mut Parts) {
        self.parts_unsent += parts.len();
        self.parts.extend(parts.drain());
    }

    /// Takes back everything behind `end`.
    pub(crate) fn truncate(&mut self, end: usize) {
        self.bytes.truncate(end);
        self.gates.iter_mut().rev().take_while(|gate| gate.at > end).for_each(|gate| gate.at = end);
        while let Some(part) = self.parts.back().filter(|part| part.at > end) {
            self.parts_unsent -= part.bytes.len();
            self.parts.pop_back();
        }
    }

    /// Drops the sent bytes at the front if they are most of all, and more than `least`. Fewer bytes are moved than
    /// were sent, so moving costs no more than sending did.
    pub(crate) fn compact(&mut self, least: usize) {
        if self.sent > self.bytes.len() / 2 && self.sent > least {
            self.bytes.drain(..self.sent);
            for part in &mut self.parts {
                part.at -= self.sent;
            }
            for gate in &mut self.gates {
                gate.at -= self.sent;
            }
            self.move_holes_up(self.sent);
            self.sent = 0;
        }
    }

    /// Takes it apart: the buffer of the own bytes, emptied, and the parts.
    pub(crate) fn take_apart(self) -> (Vec<u8>, impl Iterator<Item = Arc<Vec<u8>>>) {
        let mut bytes = self.bytes;
        bytes.clear();
        (bytes, self.parts.into_iter().map(|part| part.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use resp::{Protocol, Reply};

    fn gather(out: &Outgoing, most: usize) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = out.slices(&mut slices, most);
        slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect()
    }

    proptest! {
        #[test]
        fn everything_is_sent_once_and_in_order(
            lengths in prop::collection::vec((any::<bool>(), 1usize..60), 0..60),
            steps in prop::collection::vec((1usize..200, any::<bool>()), 0..60),
        ) {
            let (mut out, mut parts, mut expected) = (Outgoing::default(), Parts::default(), Vec::new());
            let mut write = |out: &mut Outgoing, some: &[(bool, usize)]| {
                for (i, &(shared, len)) in some.iter().enumerate() {
                    let bytes = Arc::new(vec![i as u8; len]);
                    Reply::new(&mut expected, Protocol::Resp2).bulk(&*bytes);
                    let mut reply = Reply::sharing(&mut out.bytes, Protocol::Resp2, &mut parts);
                    if shared { reply.bulk_shared(&bytes) } else { reply.bulk(&*bytes) }
                    out.adopt(&mut parts);
                }
            };
            let half = lengths.len() / 2;
            write(&mut out, &lengths[..half]);
            let mut sent = Vec::new();
            let mut step = |out: &mut Outgoing, n: usize, compact: bool| {
                let next = gather(out, n);
                let before = out.unsent();
                sent.extend_from_slice(&next);
                out.advance(next.len(), drop);
                if compact {
                    out.compact(0);
                }
                assert_eq!(out.unsent(), before - next.len());
                !next.is_empty()
            };
            for &(n, compact) in &steps {
                step(&mut out, n, compact);
            }
            write(&mut out, &lengths[half..]);
            // Bytes that are taken back leave no trace.
            let end = out.bytes.len();
            Reply::sharing(&mut out.bytes, Protocol::Resp2, &mut parts).bulk_shared(&Arc::new(vec![0; 50]));
            out.adopt(&mut parts);
            out.truncate(end);
            for &(n, compact) in steps.iter().cycle().take(if steps.is_empty() { 0 } else { 10_000 }) {
                if !step(&mut out, n, compact) {
                    break;
                }
            }
            while step(&mut out, usize::MAX, false) {}
            prop_assert_eq!(out.unsent(), 0);
            prop_assert!(out.is_plain());
            prop_assert_eq!(sent, expected);
        }

        /// Rule L7: bytes that wait for a version, and all behind them, stay until it is committed.
        #[test]
        fn nothing_leaves_before_its_version_is_committed(
            replies in prop::collection::vec((any::<bool>(), 1usize..60, 0u64..20, 0usize..4), 1..60),
            steps in prop::collection::vec((1usize..200, any::<bool>(), any::<bool>()), 1..60),
        ) {
            let (mut out, mut parts, mut expected) = (Outgoing::default(), Parts::default(), Vec::new());
            let mut gates = Vec::new();
            for (i, &(shared, len, version, turn)) in replies.iter().enumerate() {
                let at = out.bytes.len();
                if version > 0 {
                    gates.push((expected.len(), version * 16));
                    out.gate(at, Version(version * 16), turn as u64);
                }
                let bytes = Arc::new(vec![i as u8; len]);
                Reply::new(&mut expected, Protocol::Resp2).bulk(&*bytes);
                let mut reply = Reply::sharing(&mut out.bytes, Protocol::Resp2, &mut parts);
                if shared { reply.bulk_shared(&bytes) } else { reply.bulk(&*bytes) }
                out.adopt(&mut parts);
            }
            let (mut committed, mut sent) = (0, Vec::new());
            let may_go = |committed| {
                gates.iter().find(|(_, version)| *version > committed).map_or(expected.len(), |(at, _)| *at)
            };
            let at_last = [(usize::MAX, true, true); 20];
            for &(n, split, more) in steps.iter().chain(&at_last) {
                committed += u64::from(more) * 16;
                out.release(|version| version <= Version(committed));
                prop_assert!(out.sendable() + sent.len() <= may_go(committed));
                if split {
                    // The driver takes the bytes that may go, and sends all of them.
                    let mut taken = out.split_sendable();
                    let next = gather(&taken, usize::MAX);
                    sent.extend_from_slice(&next);
                    taken.advance(next.len(), drop);
                    while taken.unsent() > 0 {
                        let next = gather(&taken, usize::MAX);
                        sent.extend_from_slice(&next);
                        taken.advance(next.len(), drop);
                    }
                } else {
                    let (next, before) = (gather(&out, n), out.sendable());
                    prop_assert!(next.len() <= before && next.is_empty() == (before == 0));
                    sent.extend_from_slice(&next);
                    out.advance(next.len(), drop);
                    out.compact(0);
                    prop_assert_eq!(out.sendable(), before - next.len());
                }
                prop_assert!(sent.len() <= may_go(committed));
            }
            prop_assert_eq!(out.unsent(), 0);
            prop_assert_eq!(sent, expected);
        }
    }
}
