//! Replies that are still to come from other nodes: their places in the output of the connection, which is in the order
//! of its commands.
//!
//! Nothing behind the first open hole is sent. A reply for the first hole is written into its place. A reply for a
//! later hole is kept until that hole is the first.

use std::collections::VecDeque;

/// The holes of one output.
#[derive(Default)]
pub(crate) struct Holes {
    queue: VecDeque<Hole>,
    /// Number of the first in the queue.
    first: u64,
    /// To be added to every [`Hole::at`]: bytes that were written before all holes, or dropped there, move all of them.
    /// Wraps.
    shift: usize,
    /// Replies for holes that are not the first.
    kept: Vec<u8>,
    /// Bytes of such replies that have come in parts.
    begun: usize,
}

struct Hole {
    /// Its place among the output's own bytes, without the shift.
    at: usize,
    state: State,
    /// Bytes right behind its reply that are no reply: the keys that the client must forget again.
    after: Vec<u8>,
}

impl Hole {
    /// Bytes that are to be written for it when everything before it is written.
    fn ready(&self) -> Option<usize> {
        match &self.state {
            State::Kept(from, to) => Some(to - from + self.after.len()),
            State::Begun(begun, true) => Some(begun.len() + self.after.len()),
            State::Begun(begun, false) if !begun.is_empty() => Some(begun.len()),
            State::Open | State::Begun(..) => None,
        }
    }
}

enum State {
    /// All bytes that have come are written.
    Open,
    /// The whole reply is in `kept`, from here to there.
    Kept(usize, usize),
    /// The beginning of a long reply has come, or all of it in parts.
    Begun(Vec<u8>, bool),
}

/// Bytes were written at the place of a hole: the place, and how many bytes.
pub(crate) type Inserted = (usize, usize);

/// Bytes that [`Holes`] keeps allocated.
const KEPT: usize = 16 * 1024;

impl Holes {
    /// A hole at the end of `bytes`, behind all others. Its number.
    pub(crate) fn open(&mut self, at: usize) -> u64 {
        self.queue.push_back(Hole { at: at.wrapping_sub(self.shift), state: State::Open, after: Vec::new() });
        self.first + self.queue.len() as u64 - 1
    }

    /// How many holes are not settled.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The number of the first.
    pub(crate) fn next(&self) -> Option<u64> {
        (!self.queue.is_empty()).then_some(self.first)
    }

    /// Bytes of replies for holes that are not the first.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len() + self.begun
    }

    /// Where the first is.
    #[inline]
    pub(crate) fn at(&self) -> Option<usize> {
        Some(self.queue.front()?.at.wrapping_add(self.shift))
    }

    /// Moves all places by `n` bytes to the front: so many were dropped there.
    pub(crate) fn move_up(&mut self, n: usize) {
        self.shift = self.shift.wrapping_sub(n);
    }

    /// True if a reply has begun to come for the first hole and has not ended. Then nothing else may be written before
    /// it.
    pub(crate) fn is_begun(&self) -> bool {
        self.queue.front().is_some_and(|hole| matches!(hole.state, State::Begun(..)))
    }

    /// Notes that `n` bytes were written before the first hole, which is at the end.
    pub(crate) fn move_down(&mut self, n: usize) {
        self.shift = self.shift.wrapping_add(n);
    }

    /// Takes the reply for a hole, or its next part. `whole`: it is the last part. It is written at once if nothing
    /// stands behind it, else by [`Self::settle`].
    pub(crate) fn put(&mut self, number: u64, reply: &[u8], whole: bool, out: &mut Vec<u8>) {
        let Some(index) = number.checked_sub(self.first).and_then(|i| usize::try_from(i).ok()) else { return };
        let start = self.kept.len();
        let Some(hole) = self.queue.get_mut(index) else { return };
        let nothing_kept = match &hole.state {
            State::Open => true,
            State::Kept(..) => false,
            State::Begun(begun, _) => begun.is_empty(),
        };
        if index == 0 && nothing_kept && hole.at.wrapping_add(self.shift) == out.len() {
            // Nothing stands behind it: the usual case.
            out.extend_from_slice(reply);
            self.shift = self.shift.wrapping_add(reply.len());
            match whole {
                true => {
                    out.extend_from_slice(&hole.after);
                    self.shift = self.shift.wrapping_add(hole.after.len());
                    self.pop();
                }
                false => hole.state = State::Begun(Vec::new(), false),
            }
            return;
        }
        match &mut hole.state {
            State::Open if whole => {
                self.kept.extend_from_slice(reply);
                hole.state = State::Kept(start, self.kept.len());
            }
            State::Open => {
                self.begun += reply.len();
                hole.state = State::Begun(reply.to_vec(), false);
            }
            State::Begun(begun, ended) => {
                self.begun += reply.len();
                begun.extend_from_slice(reply);
                *ended = whole;
            }
            State::Kept(..) => {}
        }
    }

    /// Puts bytes that are no reply right behind the reply for the hole `last`, which has come, or behind such bytes
    /// there. True: they are behind the reply of a hole. False: they belong before all holes, where the caller writes
    /// them.
    pub(crate) fn put_behind(&mut self, last: Option<u64>, bytes: &[u8]) -> bool {
        let queued = last.and_then(|last| last.checked_sub(self.first)).and_then(|i| usize::try_from(i).ok());
        let begun = || self.is_begun().then_some(0);
        let Some(index) = queued.filter(|i| *i < self.queue.len()).or_else(begun) else { return false };
        self.queue[index].after.extend_from_slice(bytes);
        true
    }

    fn pop(&mut self) {
        self.queue.pop_front();
        self.first += 1;
        if self.queue.is_empty() {
            self.kept.clear();
            self.kept.shrink_to(KEPT);
        }
    }

    /// Writes the replies that have come for the first holes, all at once, so that the bytes behind them move once.
    /// `inserted` gets their places.
    pub(crate) fn settle(&mut self, out: &mut Vec<u8>, mut inserted: impl FnMut(Inserted)) {
        let (mut count, mut more) = (0, 0);
        for hole in &self.queue {
            let Some(ready) = hole.ready() else { break };
            more += ready;
            count += 1;
            if let State::Begun(_, false) = hole.state {
                break;
            }
        }
        let (mut end, mut shift) = (out.len(), more);
        out.resize(end + more, 0);
        // From the last one on: no byte is overwritten that still has to be moved.
        for hole in self.queue.range(..count).rev() {
            let at = hole.at.wrapping_add(self.shift);
            let (reply, after) = match &hole.state {
                State::Kept(from, to) => (&self.kept[*from..*to], &*hole.after),
                State::Begun(begun, true) => (&**begun, &*hole.after),
                State::Begun(begun, false) => (&**begun, &[][..]),
                State::Open => (&[][..], &[][..]),
            };
            out.copy_within(at..end, at + shift);
            shift -= reply.len() + after.len();
            out[at + shift..][..reply.len()].copy_from_slice(reply);
            out[at + shift + reply.len()..][..after.len()].copy_from_slice(after);
            inserted((at, reply.len() + after.len()));
            end = at;
        }
        // The remaining holes stand behind everything that was written.
        self.shift = self.shift.wrapping_add(more);
        for _ in 0..count {
            match self.queue.front_mut().map(|hole| &mut hole.state) {
                Some(State::Begun(begun, false)) => {
                    self.begun -= begun.len();
                    *begun = Vec::new();
                    return;
                }
                Some(State::Begun(begun, true)) => self.begun -= begun.len(),
                _ => {}
            }
            self.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::sync::Arc;

    use proptest::prelude::*;
    use resp::{Parts, Protocol, Reply};

    use crate::worker::outgoing::{Outgoing, SLICES};

    fn send(out: &mut Outgoing, most: usize, split: bool, sent: &mut Vec<u8>) {
        let mut take = |out: &mut Outgoing, most: usize| {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = out.slices(&mut slices, most);
            let next: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
            out.advance(next.len(), drop);
            sent.extend_from_slice(&next);
            next.len()
        };
        if split {
            let mut taken = out.split_sendable();
            assert!(!taken.has_holes());
            while take(&mut taken, usize::MAX) > 0 {}
            return;
        }
        let before = out.sendable();
        let n = take(out, most);
        assert_eq!((before - n, n == 0), (out.sendable(), before == 0 || most == 0));
        out.compact(0);
    }

    /// The next output of the connection: a reply of its own, or one from another node, with the parts it comes in.
    #[derive(Clone, Debug)]
    enum Step {
        Own { len: usize, shared: bool, version: u64 },
        Hole { parts: Vec<usize> },
        Fill { which: Option<prop::sample::Index>, settle: bool },
        Send { most: usize, split: bool },
        Commit,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0usize..40, any::<bool>(), 0u64..3).prop_map(|(len, shared, version)| Step::Own { len, shared, version }),
            prop::collection::vec(0usize..40, 1..4).prop_map(|parts| Step::Hole { parts }),
            any::<(prop::sample::Index, bool)>().prop_map(|(which, settle)| Step::Fill { which: Some(which), settle }),
            any::<(prop::sample::Index, bool)>().prop_map(|(which, settle)| Step::Fill { which: Some(which), settle }),
            (0usize..100, any::<bool>()).prop_map(|(most, split)| Step::Send { most, split }),
            Just(Step::Commit),
        ]
    }

    /// A reply that is to come: its place among all replies, what has come, and what is to come.
    struct Due {
        hole: u64,
        at: usize,
        parts: Vec<Vec<u8>>,
    }

    proptest! {
        #[test]
        fn replies_of_other_nodes_come_where_they_belong(steps in prop::collection::vec(step(), 1..80)) {
            let (mut out, mut shared_parts, mut sent) = (Outgoing::default(), Parts::default(), Vec::new());
            // All replies, as far as they have come, true if they are whole, and the event that they wait for.
            let mut replies: Vec<(Vec<u8>, bool, u64)> = Vec::new();
            let mut due: Vec<Due> = Vec::new();
            let mut committed = 0;
            let finish = [Step::Fill { which: None, settle: true }, Step::Commit].into_iter();
            let last = [Step::Send { most: usize::MAX, split: true }, Step::Send { most: 0, split: false }];
            let count = steps.len();
            for (i, step) in steps.into_iter().chain(finish.cycle().take(count * 8)).chain(last).enumerate() {
                match step {
                    Step::Own { len, shared, version } => {
                        let at = out.bytes.len();
                        if version > 0 {
                            out.gate(at, keyspace::Version(version * 16), i as u64);
                        }
                        let (text, mut expected) = (Arc::new(vec![i as u8; len]), Vec::new());
                        Reply::new(&mut expected, Protocol::Resp2).bulk(&*text);
                        let mut reply = Reply::sharing(&mut out.bytes, Protocol::Resp2, &mut shared_parts);
                        if shared { reply.bulk_shared(&text) } else { reply.bulk(&*text) }
                        out.adopt(&mut shared_parts);
                        replies.push((expected, true, version));
                    }
                    Step::Hole { parts } => {
                        let parts = parts.iter().enumerate().map(|(n, len)| vec![(i + n) as u8; *len]).collect();
                        due.push(Due { hole: out.open_hole(), at: replies.len(), parts });
                        replies.push((Vec::new(), false, 0));
                    }
                    Step::Fill { which, settle } => {
                        if due.is_empty() {
                            continue;
                        }
                        let index = which.map_or(0, |which| which.index(due.len()));
                        let next = due[index].parts.remove(0);
                        let whole = due[index].parts.is_empty();
                        out.put(due[index].hole, &next, whole);
                        if settle || !whole {
                            out.settle();
                        }
                        replies[due[index].at].0.extend_from_slice(&next);
                        replies[due[index].at].1 = whole;
                        if whole {
                            due.remove(index);
                        }
                    }
                    Step::Send { most, split } => {
                        out.settle();
                        out.release(|version| version <= keyspace::Version(committed * 16));
                        send(&mut out, most, split, &mut sent);
                    }
                    Step::Commit => committed += 1,
                }
                let mut may_go: Vec<u8> = Vec::new();
                for (bytes, whole, version) in &replies {
                    if *version > committed {
                        break;
                    }
                    may_go.extend_from_slice(bytes);
                    if !whole {
                        break;
                    }
                }
                prop_assert!(may_go.starts_with(&sent), "sent {:?} of {:?}", sent, may_go);
            }
            let expected: Vec<u8> = replies.iter().flat_map(|(bytes, ..)| bytes.iter().copied()).collect();
            prop_assert!(due.is_empty() && out.is_done());
            prop_assert_eq!(sent, expected);
        }
    }
}
