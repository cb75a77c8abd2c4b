//! The state of a log's copies, for people and metrics.

use std::sync::Arc;

use quorum::{AcceptorId, Behind, Contact, Cut, Having, ShardId, Stage, Term};
use redolog::Lsn;

use super::Driver;
use crate::port::Port;

/// The state of a log's copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The shard.
    pub shard: ShardId,
    /// The owner's term.
    pub term: Term,
    /// Its stage.
    pub stage: Stage,
    /// Bytes of blocks that no majority has.
    pub uncommitted_bytes: u64,
    /// The copies, the own folder among them.
    pub copies: Vec<CopyShown>,
}

/// The state of a copy. Figures are sums over all streams.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyShown {
    /// Its folder.
    pub acceptor: AcceptorId,
    /// True if it is the folder that the owner writes itself.
    pub is_own: bool,
    /// True if its acknowledgements count.
    pub counts: bool,
    /// The state of its connection.
    pub contact: Contact,
    /// The reason why it cannot be reached, or why the own disk takes nothing for now, in words, if it is known.
    pub trouble: Option<String>,
    /// Blocks that it has not on the disk.
    pub blocks: u64,
    /// Their bytes, roughly.
    pub bytes: u64,
    /// Blocks that are under way to it.
    pub sent: u64,
}

impl Driver {
    /// Nanoseconds of the longest time, since the last call, for which the log waited for other copies while its own disk
    /// had a block. A wait that lasts is among them.
    #[must_use]
    pub fn longest_wait(&self) -> u64 {
        self.lock().waits.take_longest()
    }

    /// How many copies beside the own folder have each stream up to its LSN; none have what is in no block yet.
    #[must_use]
    pub fn having(&self, ends: &[Lsn]) -> Having {
        let inner = self.lock();
        let cuts: Vec<Cut> = ends.iter().map(|end| Cut(end.0)).collect();
        let having = inner.owner.having(self.own, &cuts);
        let are_sent = inner.marks.iter().zip(&cuts).all(|(mark, cut)| *cut <= mark.end);
        if are_sent { having } else { Having { all: having.all, ..Having::default() } }
    }

    /// The state of the copies. It waits for nothing but the driver's lock.
    #[must_use]
    pub fn shown(&self) -> Shown {
        let (mut shown, ports, around) = {
            let inner = self.lock();
            let around = inner.around.values().next().filter(|_| !inner.is_own_lost).copied();
            let owner = &inner.owner;
            let of = |standing: quorum::Standing| {
                let sum = |of: fn(&Behind) -> u64| standing.streams.iter().map(of).sum();
                let port: Option<Arc<dyn Port>> = inner.ports.get(&standing.acceptor).cloned();
                let copy = CopyShown {
                    acceptor: standing.acceptor,
                    is_own: standing.acceptor == self.own,
                    counts: standing.counts,
                    contact: standing.contact,
                    trouble: None,
                    blocks: sum(|behind| behind.blocks),
                    bytes: sum(|behind| behind.bytes),
                    sent: sum(|behind| behind.sent),
                };
                (copy, port)
            };
            let (copies, ports): (Vec<_>, Vec<_>) = owner.standings().into_iter().map(of).unzip();
            let uncommitted_bytes = owner.uncommitted_bytes() as u64;
            let shown =
                Shown { shard: self.shard, term: owner.term(), stage: owner.stage(), uncommitted_bytes, copies };
            (shown, ports, around)
        };
        // A port has a lock of its own.
        for (copy, port) in shown.copies.iter_mut().zip(ports) {
            copy.trouble = match around.filter(|_| copy.is_own) {
                Some(why) => Some(why.to_string()),
                None => port.filter(|_| copy.contact == Contact::Silent).and_then(|port| port.trouble()),
            };
        }
        shown
    }
}
