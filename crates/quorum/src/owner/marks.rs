//! What standbys need to know beside the blocks of their acceptors (rule S1): how far each stream is committed, where no
//! append says so, and below which LSN nothing more comes in it. An idle stream would hold up the others otherwise.

use super::{Owner, Stage};
use crate::id::stream_ids;
use crate::{AcceptorId, Cut, Event, Order, StreamId};

/// What an acceptor was told of a stream: the place up to which it is committed, and the owner's word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Told {
    committed: u64,
    quiet: (u64, Cut),
}

impl Owner {
    /// A standby reads from an acceptor, or does not any more.
    pub(super) fn wants(&mut self, from: AcceptorId, marks: bool) {
        let streams = self.streams.len();
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.told = marks.then(|| vec![Told::default(); streams]);
        }
    }

    /// True if the shard is led, and a standby reads from an acceptor that follows.
    #[must_use]
    pub fn wants_marks(&self) -> bool {
        self.stage == Stage::Leading && self.peers.values().any(|peer| peer.follows() && peer.told.is_some())
    }

    /// The caller has appended all records of a stream that have an LSN at or below `cut`, and gives none to a later one.
    /// While the shard is led.
    pub fn quiet(&mut self, stream: StreamId, cut: Cut) {
        if self.stage != Stage::Leading {
            return;
        }
        if let Some(stream) = self.streams.get_mut(stream.index()) {
            stream.quiet = stream.quiet.max((stream.history.last().sequence, cut));
        }
    }

    /// Has everything told again that standbys were told: so they know how old their knowledge is, also while nothing is
    /// written.
    pub fn repeat_marks(&mut self) {
        let told = self.peers.values_mut().filter_map(|peer| peer.told.as_mut());
        told.for_each(|told| told.fill(Told::default()));
    }

    /// Tells the acceptors that standbys read from what they do not know yet. Others hear nothing.
    pub fn tell_marks(&mut self, out: &mut Vec<Event>) {
        if !self.wants_marks() {
            return;
        }
        let mut orders = Vec::new();
        for (to, peer) in self.peers.iter_mut().filter(|(_, peer)| peer.follows()) {
            let of_streams = stream_ids(self.streams.len()).zip(&self.streams).zip(peer.told.iter_mut().flatten());
            for ((id, stream), told) in of_streams {
                let now = Told { committed: stream.synced, quiet: stream.quiet };
                let Some(committed) = stream.history.at(now.committed).filter(|_| *told != now) else { continue };
                *told = now;
                let (after, quiet) = now.quiet;
                orders.push((*to, Order::Mark { stream: id, committed, after, quiet }));
            }
        }
        orders.into_iter().for_each(|(to, order)| self.send(to, order, out));
    }
}
