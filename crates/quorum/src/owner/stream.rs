//! One stream of an owner: the names of all blocks, and a ring with the last ones.

use std::collections::VecDeque;
use std::sync::Arc;

use super::peer::Mark;
use super::standing::Behind;
use crate::{AcceptorId, Base, Block, BlockId, Cut, History, Term};

/// The most blocks whose sizes are added up to say how far an acceptor is behind.
const COUNTED_MAX: usize = 4096;

/// An acceptor that lacks more blocks than this is far behind.
const FAR: usize = 256;

/// Blocks that are read from an acceptor: before the shard is led, or for another acceptor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Fetch {
    /// The acceptor whose log was chosen.
    pub source: AcceptorId,
    /// The place of the next block.
    pub next: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Stream {
    /// The blocks that the caller has at the beginning.
    known: History,
    /// All blocks of the term's log, once it is chosen.
    pub history: History,
    /// The last blocks, without gaps up to the end.
    ring: VecDeque<Block>,
    ring_bytes: usize,
    /// The place up to which a majority has everything on the disk, of whatever term. It commits nothing by itself.
    pub held: u64,
    /// The same for the settled acceptors alone. While acceptors change, the log that is taken over need not stay in
    /// memory for the new ones: it can be read again.
    pub settled_hold: u64,
    /// The place of the start block. The highest one if it is not there yet.
    pub start: u64,
    /// The place of the last [`super::Event::Received`].
    pub received: u64,
    /// The place of the last [`super::Event::Synced`].
    pub synced: u64,
    pub fetch: Option<Fetch>,
    /// Behind the place, which is of a block of the term, no record gets an LSN at or below the cut.
    pub quiet: (u64, Cut),
}

impl Stream {
    pub fn new(known: History) -> Self {
        Self {
            history: known.clone(),
            known,
            ring: VecDeque::new(),
            ring_bytes: 0,
            held: 0,
            settled_hold: 0,
            start: u64::MAX,
            received: 0,
            synced: 0,
            fetch: None,
            quiet: (0, Cut(0)),
        }
    }

    /// Another term begins: there is no start block yet.
    pub fn forget_start(&mut self) {
        self.start = u64::MAX;
        self.fetch = None;
        self.quiet = (0, Cut(0));
    }

    /// Takes over a log that was chosen, of which a majority has everything up to `held`, and one of the settled acceptors
    /// up to `settled`.
    pub fn take_over(&mut self, chosen: History, (held, settled): (u64, u64), source: AcceptorId) {
        let known = chosen.common(&self.known).unwrap_or(0);
        let next = known.min(settled).max(chosen.base().id.sequence) + 1;
        self.fetch = (next <= chosen.last().sequence).then_some(Fetch { source, next });
        self.history = chosen;
        (self.held, self.settled_hold) = (held, settled);
        self.ring.clear();
        self.ring_bytes = 0;
    }

    /// Makes the next block.
    pub fn push(&mut self, term: Term, cut: Cut, is_start: bool, body: Arc<[u8]>) -> BlockId {
        let id = BlockId { term, sequence: self.history.last().sequence + 1 };
        self.history.push(id);
        self.keep(Block { id, cut, is_start, body });
        id
    }

    /// Keeps a block in memory.
    pub fn keep(&mut self, block: Block) {
        self.ring_bytes += block.size();
        self.ring.push_back(block);
    }

    /// Lets blocks go that a majority has, the oldest first, down to a number of bytes. The last one stays. Of the log that
    /// was taken over a majority of the settled acceptors is enough.
    pub fn let_go(&mut self, bytes: usize) {
        let upto = self.held.max(self.settled_hold.min(self.start.saturating_sub(1)));
        while self.ring_bytes > bytes
            && self.ring.len() > 1
            && self.ring.front().is_some_and(|block| block.id.sequence <= upto)
        {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(block) = self.ring.pop_front() {
            self.ring_bytes -= block.size();
        }
    }

    /// Begins behind a block. Returns false if it does not have that.
    pub fn begin_at(&mut self, base: Base) -> bool {
        if !self.history.begin_at(base) {
            return false;
        }
        while self.ring.front().is_some_and(|block| block.id.sequence <= base.id.sequence) {
            self.pop();
        }
        true
    }

    /// The block at a place, if it is in memory.
    pub fn block(&self, sequence: u64) -> Option<&Block> {
        let first = self.ring.front()?.id.sequence;
        self.ring.get(usize::try_from(sequence.checked_sub(first)?).ok()?)
    }

    /// True if the blocks behind a place are many, or more than so many bytes, or memory does not have that one.
    pub fn is_far(&self, from: u64, bytes: usize) -> bool {
        let first = self.ring.front().map_or(u64::MAX, |block| block.id.sequence);
        let at = from.checked_sub(first).and_then(|count| usize::try_from(count).ok());
        let behind = |at: usize| self.ring.len().saturating_sub(at + 1);
        let size = |at: usize| self.ring.iter().skip(at + 1).map(Block::size).sum::<usize>();
        at.is_none_or(|at| behind(at) > FAR || size(at) > bytes)
    }

    /// How far an acceptor with this mark is behind.
    pub fn behind(&self, mark: &Mark) -> Behind {
        let (base, last) = (self.history.base().id.sequence, self.history.last().sequence);
        let blocks = last.saturating_sub(mark.synced.max(base));
        let here = usize::try_from(blocks).unwrap_or(usize::MAX).min(self.ring.len());
        let bytes = match here {
            0..=COUNTED_MAX if here as u64 == blocks => {
                self.ring.iter().rev().take(here).map(Block::size).sum::<usize>() as u64
            }
            // As if all were like those in memory.
            _ => (self.ring_bytes as u128 * u128::from(blocks) / self.ring.len().max(1) as u128) as u64,
        };
        Behind { blocks, bytes, sent: mark.sent(base) }
    }

    /// True if the blocks up to a place have everything up to a cut, as far as that is known of older blocks. The last
    /// block ends at or above the cut.
    pub fn reaches(&self, place: u64, cut: Cut) -> bool {
        cut == Cut(0)
            || place >= self.history.last().sequence
            || self.block(place).is_some_and(|block| block.cut >= cut)
    }

    /// How many blocks no majority has written.
    pub fn ahead(&self) -> u64 {
        self.history.last().sequence.saturating_sub(self.received)
    }

    pub fn uncommitted_bytes(&self) -> usize {
        let behind = self.ring.iter().rev().take_while(|block| block.id.sequence > self.held);
        behind.map(Block::size).sum()
    }
}
