//! An owner's knowledge of its acceptors, and the blocks that it sends them.

use super::marks::Told;
use super::stream::Fetch;
use super::{Event, Owner, Stage, Stream};
use crate::id::stream_ids;
use crate::planted::Mistake;
use crate::{AcceptorId, Base, Block, BlockId, History, Order, StreamId};

/// How far an acceptor is in a stream. All places are of blocks of the owner's log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Mark {
    /// The place of the next block to send.
    next: u64,
    /// The last block that it has written.
    pub written: u64,
    /// The last block that it has on the disk.
    pub synced: u64,
    /// Where its blocks began when it answered the seal.
    begins: Base,
    /// It can be read above this place: at first, above where its blocks began.
    base: u64,
    /// True if it was told to begin where the log does, and has not done so yet.
    is_resetting: bool,
    /// The read of the next block that is under way, where memory does not have that one.
    read: Option<Fetch>,
    /// True if blocks under way go apart from those of now. It changes when none is under way: each of the two ways keeps
    /// its order, and they have none between them.
    is_apart: bool,
}

impl Mark {
    /// Blocks that are under way to it, in a stream that begins behind `base`.
    pub fn sent(&self, base: u64) -> u64 {
        self.next.saturating_sub(1 + self.written.max(base))
    }

    fn reads_from(&self, source: AcceptorId) -> bool {
        self.read.is_some_and(|read| read.source == source)
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Peer {
    /// True if it has promised this term on its present connection.
    pub is_here: bool,
    /// True if its marks are known as well.
    pub is_following: bool,
    pub is_failed: bool,
    /// True if its folder has no room for more blocks.
    pub is_full: bool,
    /// True if its folder was set back: blocks are gone that it had acknowledged to this owner. It counts for nothing any
    /// more, and is brought up all the same: the less it lacks, the better for an owner that does not know of this.
    pub is_set_back: bool,
    /// Its answer to the seal, until the owner has found where the two logs part.
    pub answer: Option<Vec<History>>,
    pub marks: Vec<Mark>,
    /// What it was told of each stream, for the standby that reads there. None: there is none.
    pub told: Option<Vec<Told>>,
}

impl Peer {
    pub fn new(streams: usize) -> Self {
        Self {
            is_here: false,
            is_following: false,
            is_failed: false,
            is_full: false,
            is_set_back: false,
            answer: None,
            marks: vec![Mark::default(); streams],
            told: None,
        }
    }

    /// True if the owner may send it orders.
    pub fn follows(&self) -> bool {
        self.is_following && !self.is_failed
    }

    fn mark(&self, stream: StreamId) -> Mark {
        self.marks.get(stream.index()).copied().unwrap_or_default()
    }
}

impl Owner {
    /// Finds where an acceptor that has answered the seal parts from the owner's log, and sends it what follows.
    pub(super) fn position(&mut self, acceptor: AcceptorId, out: &mut Vec<Event>) {
        // One that was lost since answers again on its next connection.
        let Some(peer) = self.peers.get_mut(&acceptor).filter(|peer| peer.is_here) else { return };
        let Some(answer) = peer.answer.take() else { return };
        peer.is_following = true;
        let (mut resets, trusts) = (Vec::new(), self.planted.is(Mistake::TrustsSetBack));
        let of_streams = stream_ids(self.streams.len()).zip(&self.streams).zip(&answer).zip(&mut peer.marks);
        for (((id, stream), history), mark) in of_streams {
            let common = stream.history.common(history);
            let base = stream.history.base();
            if common.is_none() {
                resets.push((id, base));
            }
            let has = common.unwrap_or(0);
            let next = common.unwrap_or(base.id.sequence) + 1;
            // Rule G9: what it has acknowledged in this term does not go by any order of it. So the folder is an older one.
            // If the log was cut behind its end, its names are not known any more, and places have to do.
            let lacks = common.unwrap_or(history.last().sequence) < mark.synced && !trusts;
            peer.is_set_back |= lacks;
            let synced = if lacks { has } else { mark.synced.max(has) };
            let begins = history.base();
            let (base, is_resetting) = (begins.id.sequence, common.is_none());
            let (written, read, is_apart) = (has, None, false);
            *mark = Mark { next, written, synced, begins, base, is_resetting, read, is_apart };
        }
        for (stream, base) in resets {
            self.send(acceptor, Order::Reset { stream, base }, out);
        }
        self.look(out);
        self.pump_all(out);
    }

    pub(super) fn acknowledged(
        &mut self,
        from: AcceptorId,
        id: StreamId,
        written: BlockId,
        synced: BlockId,
        out: &mut Vec<Event>,
    ) {
        let Some(stream) = self.streams.get(id.index()) else { return };
        let Some(peer) = self.peers.get_mut(&from).filter(|peer| peer.is_following) else { return };
        let Some(mark) = peer.marks.get_mut(id.index()) else { return };
        // A name that the owner's log has stands for all blocks before it. Another one is of a tail that will go.
        if stream.history.has(written) {
            mark.written = mark.written.max(written.sequence);
            mark.next = mark.next.max(written.sequence + 1);
            mark.is_resetting = false;
        }
        if stream.history.has(synced) {
            mark.synced = mark.synced.max(synced.sequence);
        }
        self.look(out);
        self.pump(id, out);
    }

    /// An order did not fit the blocks of an acceptor. The owner sends the blocks behind its last one, or seals again.
    pub(super) fn missed(&mut self, from: AcceptorId, id: StreamId, last: BlockId, out: &mut Vec<Event>) {
        let Some(stream) = self.streams.get(id.index()) else { return };
        let has = stream.history.has(last);
        let Some(peer) = self.peers.get_mut(&from).filter(|peer| peer.is_following) else { return };
        if !has {
            return self.connected(from, out);
        }
        if let Some(mark) = peer.marks.get_mut(id.index()) {
            mark.next = last.sequence + 1;
            mark.is_resetting = false;
            // Nobody knows which blocks are still under way: either way is open.
            mark.is_apart = stream.is_far(mark.next, self.limits.window_bytes);
        }
        self.pump(id, out);
    }

    /// An acceptor did not give the block that another one needs next: it has dropped that one, and all before it. It
    /// may have later ones, which perhaps no other acceptor in reach has.
    fn cannot_read(&mut self, from: AcceptorId, id: StreamId) {
        let mut lacks = None;
        for mark in self.peers.values_mut().filter_map(|peer| peer.marks.get_mut(id.index())) {
            if mark.reads_from(from) {
                mark.read = None;
                lacks = Some(lacks.map_or(mark.next, |lacks: u64| lacks.min(mark.next)));
            }
        }
        let mark = self.peers.get_mut(&from).and_then(|peer| peer.marks.get_mut(id.index()));
        if let (Some(mark), Some(lacks)) = (mark, lacks) {
            mark.base = mark.base.max(lacks);
        }
    }

    pub(super) fn blocks(&mut self, from: AcceptorId, id: StreamId, blocks: Vec<Block>, out: &mut Vec<Event>) {
        if blocks.is_empty() {
            self.cannot_read(from, id);
            self.source_is_gone(from, out);
            return self.pump(id, out);
        }
        if self.stage == Stage::Fetching {
            return self.fetched(from, id, blocks, out);
        }
        for to in self.peers.keys().copied().collect::<Vec<_>>() {
            self.catch_up(to, from, id, &blocks, out);
        }
        self.pump(id, out);
    }

    /// Passes blocks of one acceptor on to another one that lags behind the ring.
    fn catch_up(&mut self, to: AcceptorId, from: AcceptorId, id: StreamId, blocks: &[Block], out: &mut Vec<Event>) {
        let Some(stream) = self.streams.get(id.index()) else { return };
        let Some(mark) = self.peers.get_mut(&to).and_then(|peer| peer.marks.get_mut(id.index())) else { return };
        // Another answer is one to an earlier read, or to a read for another acceptor: the own one is still to come.
        let any = self.planted.is(Mistake::TakesAnyAnswer);
        let begins = |place| blocks.first().is_some_and(|block| block.id.sequence == place);
        let is_it = |read: Fetch| read.source == from && (any || begins(read.next));
        if !mark.read.is_some_and(is_it) {
            return;
        }
        mark.read = None;
        let mut orders = Vec::new();
        for block in blocks.iter().filter(|block| stream.history.has(block.id)) {
            let before = block.id.sequence.checked_sub(1).and_then(|before| stream.history.at(before));
            if let Some(before) = before.filter(|_| block.id.sequence == mark.next) {
                mark.next += 1;
                let (block, committed) = (block.clone(), stream.synced);
                orders.push(Order::Append { stream: id, before, committed, through: true, block });
            }
        }
        for order in orders {
            self.send_by(to, order, true, out);
        }
    }

    /// An acceptor cannot be asked any more, or anew only: blocks that it was asked for, for another one, do not come.
    /// They are asked for again.
    pub fn read_elsewhere(&mut self, from: AcceptorId, out: &mut Vec<Event>) {
        for id in stream_ids(self.streams.len()) {
            if self.forget_reads(from, id) {
                self.pump(id, out);
            }
        }
    }

    /// Blocks of a stream that an acceptor was asked for do not come. Returns true if there were any.
    pub(super) fn forget_reads(&mut self, from: AcceptorId, id: StreamId) -> bool {
        let marks = self.peers.values_mut().filter_map(|peer| peer.marks.get_mut(id.index()));
        let mut asked = false;
        for mark in marks.filter(|mark| mark.reads_from(from)) {
            (mark.read, asked) = (None, true);
        }
        asked
    }

    /// The log begins later than before: acceptors that were told to begin where it did are told again.
    pub(super) fn reset_again(&mut self, id: StreamId) {
        let marks = self.peers.values_mut().filter_map(|peer| peer.marks.get_mut(id.index()));
        marks.for_each(|mark| mark.is_resetting = false);
    }

    pub(super) fn pump_all(&mut self, out: &mut Vec<Event>) {
        stream_ids(self.streams.len()).for_each(|stream| self.pump(stream, out));
    }

    /// Sends every acceptor the blocks of a stream that its window has room for.
    pub(super) fn pump(&mut self, id: StreamId, out: &mut Vec<Event>) {
        if !matches!(self.stage, Stage::Copying | Stage::Begun | Stage::Leading) {
            return;
        }
        for to in self.peers.keys().copied().collect::<Vec<_>>() {
            while let Some((order, apart)) = self.next_order(to, id, out) {
                self.send_by(to, order, apart, out);
            }
        }
    }

    /// The next order for an acceptor, and whether it goes apart.
    fn next_order(&mut self, to: AcceptorId, id: StreamId, out: &mut Vec<Event>) -> Option<(Order, bool)> {
        let stream = self.streams.get(id.index())?;
        let mark = self.peers.get(&to).filter(|peer| peer.follows())?.mark(id);
        let base = stream.history.base();
        let (next, last) = (mark.next, stream.history.last().sequence);
        let flying = mark.sent(base.id.sequence);
        if next > last || flying >= self.limits.window_blocks || mark.read.is_some() || mark.is_resetting {
            return None;
        }
        let set = |owner: &mut Self, f: &dyn Fn(&mut Mark)| {
            let mark = owner.peers.get_mut(&to).and_then(|peer| peer.marks.get_mut(id.index()));
            mark.into_iter().for_each(f);
        };
        // The blocks that it needs were cut: it begins where the log does.
        if next <= base.id.sequence {
            set(self, &|mark| (mark.next, mark.is_resetting) = (base.id.sequence + 1, true));
            return Some((Order::Reset { stream: id, base }, false));
        }
        let block = stream.block(next);
        let is_far = || stream.is_far(next, self.limits.window_bytes);
        let apart = if flying == 0 || mark.is_apart { is_far() } else { block.is_none() };
        if flying > 0 && apart != mark.is_apart {
            // The other way is open when what is under way has come.
            return None;
        }
        let Some(block) = block else {
            let Some(source) = self.source_of(to, id, next) else {
                let base = self.begin_of_another(to, id, next).filter(|_| flying == 0)?;
                set(self, &|mark| (mark.next, mark.is_resetting) = (base.id.sequence + 1, true));
                return Some((Order::Reset { stream: id, base }, false));
            };
            let order = Order::Read { stream: id, from: next, most: self.limits.read_blocks };
            set(self, &|mark| (mark.read, mark.is_apart) = (Some(Fetch { source, next }), true));
            self.send_by(source, order, true, out);
            return None;
        };
        let ahead: usize = (next - flying..next).filter_map(|at| stream.block(at)).map(Block::size).sum();
        if flying > 0 && ahead + block.size() > self.limits.window_bytes {
            return None;
        }
        let before = stream.history.at(next - 1)?;
        let (block, committed) = (block.clone(), stream.synced);
        let through = self.limits.through || self.is_late(stream, next);
        let order = Order::Append { stream: id, before, committed, through, block };
        set(self, &|mark| (mark.next, mark.is_apart) = (next + 1, apart));
        Some((order, apart))
    }

    /// True if nobody may order a sync behind a block: no records are appended yet, or a majority has written it, and may
    /// have been asked to sync. It is written past the cache.
    fn is_late(&self, stream: &Stream, sequence: u64) -> bool {
        self.stage != Stage::Leading || sequence <= stream.received.max(stream.held)
    }

    /// The acceptors that may help another one.
    fn others(&self, but: AcceptorId) -> impl Iterator<Item = (&AcceptorId, &Peer)> {
        self.peers
            .iter()
            .filter(move |(id, peer)| **id != but && peer.follows() && !peer.is_set_back && self.heeds(**id))
    }

    /// An acceptor that has a block which memory has not.
    fn source_of(&self, but: AcceptorId, stream: StreamId, sequence: u64) -> Option<AcceptorId> {
        let mut others = self.others(but);
        others
            .find(|(_, peer)| (peer.mark(stream).base + 1..=peer.mark(stream).synced).contains(&sequence))
            .map(|(id, _)| *id)
    }

    /// Where to begin an acceptor that needs a block which nobody has, if others begin behind that one: an owner of before
    /// has cut it, and an acceptor that had not heard of that gave this owner its log. What was cut is committed, and in
    /// the store of every copy that counts (rule G12).
    fn begin_of_another(&self, but: AcceptorId, stream: StreamId, sequence: u64) -> Option<Base> {
        let history = &self.streams.get(stream.index())?.history;
        let begins = self.others(but).map(|(_, peer)| peer.mark(stream).begins);
        begins.filter(|base| base.id.sequence >= sequence && history.has(base.id)).min_by_key(|base| base.id.sequence)
    }

    /// The place up to which a majority of the acceptors has a stream: of the old ones and of the new ones, while they
    /// change. So a change that is pending may be withdrawn (rule G11).
    pub(super) fn majority(&self, stream: StreamId, of: impl Fn(Mark) -> u64) -> u64 {
        self.majority_of(|id| {
            self.peers.get(&id).filter(|peer| !peer.is_set_back).map_or(0, |peer| of(peer.mark(stream)))
        })
    }

    pub(super) fn majority_of(&self, of: impl Fn(AcceptorId) -> u64) -> u64 {
        self.pending.as_ref().map_or(u64::MAX, |set| majority_in(set, &of)).min(majority_in(&self.settled, &of))
    }

    /// The same of the settled acceptors alone.
    pub(super) fn majority_of_settled(&self, of: impl Fn(AcceptorId) -> u64) -> u64 {
        majority_in(&self.settled, &of)
    }

    /// Looks how far the acceptors are: the shard may be led, and watermarks may move.
    ///
    /// Rule G5: only a block of the own term is committed by counting copies, and all before it with it. So nothing is
    /// said before every stream's start block is on a majority.
    pub(super) fn look(&mut self, out: &mut Vec<Event>) {
        let held: Vec<u64> = stream_ids(self.streams.len()).map(|id| self.majority(id, |mark| mark.synced)).collect();
        for (stream, held) in self.streams.iter_mut().zip(&held) {
            stream.held = stream.held.max(*held);
        }
        if self.stage == Stage::Begun && self.streams.iter().zip(&held).all(|(stream, held)| *held >= stream.start) {
            self.stage = Stage::Leading;
            out.push(Event::Leads);
            if self.pending.is_some() {
                out.push(Event::MaySettle);
            }
        }
        if self.stage == Stage::Leading || self.planted.is(Mistake::CountsOldTerms) {
            self.tell(&held, out);
        }
        let ring_bytes = self.limits.ring_bytes;
        self.streams.iter_mut().for_each(|stream| stream.let_go(ring_bytes));
    }

    /// Rule G6: blocks that a majority has are *received*, and those that a majority has on the disk are *synced*.
    fn tell(&mut self, held: &[u64], out: &mut Vec<Event>) {
        for (id, held) in stream_ids(held.len()).zip(held) {
            let written = self.majority(id, |mark| mark.written.max(mark.synced));
            let Some(stream) = self.streams.get_mut(id.index()) else { continue };
            if let Some(block) = stream.block(written).filter(|_| written > stream.received) {
                out.push(Event::Received { stream: id, id: block.id, cut: block.cut });
                stream.received = written;
            }
            if let Some(block) = stream.block(*held).filter(|_| *held > stream.synced) {
                out.push(Event::Synced { stream: id, id: block.id, cut: block.cut });
                stream.synced = *held;
            }
        }
    }
}

/// The place that a majority of a set has reached.
fn majority_in(set: &[AcceptorId], of: impl Fn(AcceptorId) -> u64) -> u64 {
    let mut places: Vec<u64> = set.iter().map(|id| of(*id)).collect();
    places.sort_unstable_by(|a, b| b.cmp(a));
    places.get(places.len() / 2).copied().unwrap_or(0)
}
