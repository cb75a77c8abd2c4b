//! Before it leads, an owner chooses logs out of a majority's answers, and reads the blocks that it lacks.

use std::cmp::Reverse;

use super::{Event, Owner, Stage};
use crate::id::stream_ids;
use crate::planted::Mistake;
use crate::{AcceptorId, Block, History, Order, StreamId};

impl Owner {
    /// An acceptor has promised this term, and says what it has on the disk.
    pub(super) fn sealed(&mut self, from: AcceptorId, histories: Vec<History>, out: &mut Vec<Event>) {
        let streams = self.streams.len();
        let Some(peer) = self.peers.get_mut(&from).filter(|_| histories.len() == streams) else { return };
        // Of its room, and of a standby that reads there, it speaks behind this.
        (peer.is_here, peer.is_failed, peer.is_full, peer.told) = (true, false, false, None);
        // Its promise is lost, or this term is: a block of a higher term is there.
        if let Some(by) = histories.iter().map(|history| history.last().term).max().filter(|last| *last > self.term) {
            return self.contradicted(from, by, out);
        }
        peer.answer = Some(histories);
        match self.stage {
            Stage::Sealing => self.choose(out),
            Stage::Fetching => {}
            _ => {
                // Reads that the acceptor was asked for before its answer may be lost, on any connection.
                stream_ids(streams).for_each(|id| _ = self.forget_reads(from, id));
                self.position(from, out);
            }
        }
    }

    /// The answers of acceptors that are heeded and can be asked for blocks.
    fn answers(&self) -> impl Iterator<Item = (AcceptorId, &Vec<History>)> {
        let sound = self.peers.iter().filter(|(id, peer)| !peer.is_failed && !peer.is_set_back && self.heeds(**id));
        sound.filter_map(|(id, peer)| Some((*id, peer.answer.as_ref()?)))
    }

    /// Rule G4: of a majority's answers the log whose last block is highest by term and sequence, for each stream. Rule
    /// G11: while acceptors change, a majority of the old ones and of the new ones has to answer.
    pub(super) fn choose(&mut self, out: &mut Vec<Event>) {
        let votes = |peer: &super::Peer| peer.answer.is_some() && !peer.is_failed && !peer.is_set_back;
        let answered = |id: &AcceptorId| self.peers.get(id).is_some_and(votes);
        let has_majority = |set: &Vec<AcceptorId>| set.iter().filter(|id| answered(id)).count() * 2 > set.len();
        if !has_majority(&self.settled) || !self.pending.as_ref().is_none_or(has_majority) {
            return;
        }
        let is_silent = |peer: &super::Peer| peer.answer.is_none() && !peer.is_failed;
        if self.awaited.and_then(|id| self.peers.get(&id)).is_some_and(is_silent) {
            return;
        }
        if !self.is_own_source {
            stream_ids(self.streams.len()).for_each(|stream| self.choose_log_of(stream));
            out.push(Event::Chosen);
        }
        self.stage = Stage::Fetching;
        // One that was lost since it answered gives nothing.
        let is_here = |id: &AcceptorId| self.peers.get(id).is_some_and(|peer| peer.is_here);
        let mut sources = self.streams.iter().filter_map(|stream| Some(stream.fetch?.source));
        match sources.find(|source| !is_here(source)) {
            Some(gone) => self.source_is_gone(gone, out),
            None => self.fetch(None, out),
        }
    }

    fn choose_log_of(&mut self, stream: StreamId) {
        let longest = self.planted.is(Mistake::LongestLog);
        let of_stream = self.answers().filter_map(|(id, answer)| Some((id, answer.get(stream.index())?)));
        let rank = |history: &History| if longest { (0, history.last().sequence) } else { ranked(history) };
        // Of equal ones the log that begins first: a store that was lost may need what the others have cut.
        let begins = |history: &History| Reverse(history.base().id.sequence);
        let best = of_stream.max_by_key(|(_, history)| (rank(history), begins(history)));
        let Some((source, chosen)) = best else { return };
        let chosen = chosen.clone();
        let common = |id: AcceptorId| {
            let answer = self.peers.get(&id).and_then(|peer| peer.answer.as_ref());
            answer.and_then(|answer| chosen.common(answer.get(stream.index())?)).unwrap_or(0)
        };
        let held = (self.majority_of(common), self.majority_of_settled(common));
        if let Some(own) = self.streams.get_mut(stream.index()) {
            own.take_over(chosen, held, source);
        }
    }

    /// Reads the next blocks of a stream, or of all. If nothing is lacking any more the caller may merge.
    fn fetch(&mut self, of: Option<StreamId>, out: &mut Vec<Event>) {
        let lacking = stream_ids(self.streams.len()).zip(&self.streams);
        let lacking: Vec<_> = lacking.filter_map(|(id, stream)| Some((id, stream.fetch?))).collect();
        if lacking.is_empty() {
            self.stage = Stage::Copying;
            out.push(Event::Sealed { bases: self.streams.iter().map(|stream| stream.history.base()).collect() });
            for acceptor in self.peers.keys().copied().collect::<Vec<_>>() {
                self.position(acceptor, out);
            }
            return;
        }
        for (stream, fetch) in lacking.into_iter().filter(|(id, _)| of.is_none_or(|of| of == *id)) {
            let order = Order::Read { stream, from: fetch.next, most: self.limits.read_blocks };
            self.send(fetch.source, order, out);
        }
    }

    /// Takes blocks of the log that was chosen. Blocks of before came late, or twice. Of a source that gives others than it
    /// has named the owner hears once more what is there.
    pub(super) fn fetched(&mut self, from: AcceptorId, id: StreamId, blocks: Vec<Block>, out: &mut Vec<Event>) {
        let ring_bytes = self.limits.ring_bytes;
        let Some(stream) = self.streams.get_mut(id.index()) else { return };
        let mut is_new = false;
        let first = blocks.first().map_or(0, |block| block.id.sequence);
        for block in blocks {
            let Some(fetch) = stream.fetch.filter(|fetch| fetch.source == from) else { break };
            if block.id.sequence != fetch.next || !stream.history.has(block.id) {
                continue;
            }
            is_new = true;
            let next = fetch.next + 1;
            stream.fetch = (next <= stream.history.last().sequence).then_some(super::stream::Fetch { next, ..fetch });
            out.push(Event::Replay { stream: id, block: block.clone() });
            stream.keep(block);
            stream.let_go(ring_bytes);
        }
        let is_other = stream.fetch.is_some_and(|fetch| fetch.source == from && fetch.next <= first);
        if is_new {
            self.fetch(Some(id), out);
        } else if is_other {
            self.source_is_gone(from, out);
            self.connected(from, out);
        }
    }

    /// An acceptor cannot be asked any more. If blocks were read from it, the logs are chosen anew: blocks that it
    /// alone had are on no majority. No block of this term has left so far, so no second block has its name.
    pub(super) fn source_is_gone(&mut self, acceptor: AcceptorId, out: &mut Vec<Event>) {
        let is_source = |stream: &super::Stream| stream.fetch.is_some_and(|fetch| fetch.source == acceptor);
        if self.stage == Stage::Fetching && self.streams.iter().any(is_source) {
            if let Some(peer) = self.peers.get_mut(&acceptor) {
                peer.answer = None;
            }
            self.stage = Stage::Sealing;
            self.choose(out);
        }
    }
}

fn ranked(history: &History) -> (u32, u64) {
    let last = history.last();
    (last.term.get(), last.sequence)
}
