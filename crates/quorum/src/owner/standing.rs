//! The state of an owner's acceptors, for people: an owner decides nothing by it.

use super::Owner;
use crate::{AcceptorId, Cut};

/// What an owner hears of an acceptor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Contact {
    /// It has promised the term on its present connection, and takes blocks.
    Follows,
    /// It has not: there is no connection, or it has not answered there.
    Silent,
    /// Its folder has no room: what is sent waits there.
    Full,
    /// Its disk has failed: it takes nothing any more.
    Failed,
    /// Its folder was set back to an earlier state: it lacked blocks that it had acknowledged, and counts for nothing.
    SetBack,
}

/// How far an acceptor is behind in a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Behind {
    /// Blocks that it has not on the disk.
    pub blocks: u64,
    /// Their bytes. Of more than some thousands, or of blocks that memory does not have, it is an estimate.
    pub bytes: u64,
    /// How many of them are sent, and not answered as written.
    pub sent: u64,
}

/// The state of an acceptor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Standing {
    /// The acceptor.
    pub acceptor: AcceptorId,
    /// True if the metadata have settled on it. Then its acknowledgements count, unless its folder was set back.
    pub counts: bool,
    /// The state of its connection.
    pub contact: Contact,
    /// Each stream. Of an acceptor that has never answered this owner everything is missing, as far as it knows.
    pub streams: Vec<Behind>,
}

/// How many acceptors have something.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Having {
    /// They have written it.
    pub written: usize,
    /// They have it on the disk.
    pub synced: usize,
    /// All that there are.
    pub all: usize,
}

impl Owner {
    /// How many acceptors that count, but for one, have each stream up to its cut: the caller has appended that. For
    /// clients: an owner decides nothing by it.
    #[must_use]
    pub fn having(&self, but: AcceptorId, cuts: &[Cut]) -> Having {
        let mut having = Having::default();
        for peer in self.settled.iter().filter(|id| **id != but).filter_map(|id| self.peers.get(id)) {
            let has = |place: fn(&super::peer::Mark) -> u64| {
                let mut of = self.streams.iter().zip(&peer.marks).zip(cuts);
                !peer.is_set_back && of.all(|((stream, mark), cut)| stream.reaches(place(mark), *cut))
            };
            having.all += 1;
            having.written += usize::from(has(|mark| mark.written));
            having.synced += usize::from(has(|mark| mark.synced));
        }
        having
    }
    /// The state of each acceptor.
    #[must_use]
    pub fn standings(&self) -> Vec<Standing> {
        let of = |(id, peer): (&AcceptorId, &super::Peer)| Standing {
            acceptor: *id,
            counts: self.settled.contains(id),
            contact: match (peer.is_failed, peer.follows()) {
                (true, _) => Contact::Failed,
                _ if peer.is_set_back => Contact::SetBack,
                (_, true) if peer.is_full => Contact::Full,
                (_, true) => Contact::Follows,
                _ => Contact::Silent,
            },
            streams: self.streams.iter().zip(&peer.marks).map(|(stream, mark)| stream.behind(mark)).collect(),
        };
        self.peers.iter().map(of).collect()
    }
}
