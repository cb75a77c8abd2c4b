//! The owner of a shard for one term: it seals, takes over what a majority has, leads, and is fenced.
//!
//! ```text
//! sealing -- a majority has promised --> fetching -- all chosen blocks are here --> copying -- `begin` --> begun
//!    ^                                      |                                                              |
//!    +-------- the source was lost ---------+       leading <-- all start blocks are on a majority --------+
//!
//! any of them -- an acceptor has promised a higher term --> fenced: for good
//! ```
//!
//! Each state is one of the whole shard (rule G5): no record of a term is appended to any stream, nor sent anywhere,
//! before the start blocks of all streams are on a majority.

mod marks;
mod peer;
mod seal;
mod standing;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::peer::Peer;
pub use self::standing::{Behind, Contact, Having, Standing};
use self::stream::Stream;
use crate::id::stream_ids;
use crate::planted::{Mistake, Planted};
use crate::{AcceptorId, Base, Block, BlockId, Cut, History, Order, Reply, Report, Request, ShardId, StreamId, Term};

/// An owner's message to its caller.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// A message for an acceptor. It is dropped if there is no connection: [`Owner::connected`] makes up for that.
    Send {
        /// The acceptor.
        to: AcceptorId,
        /// The message.
        request: Request,
        /// True if it is about old blocks, for an acceptor that is far behind. Such messages have an order of their own:
        /// another connection for them keeps them from delaying blocks of now.
        apart: bool,
    },
    /// The owner has chosen the logs that it takes over: [`Owner::history`] names their blocks. Blocks that were
    /// replayed before are void. Of the blocks that the caller said to know, those of these logs count. The others
    /// follow.
    Chosen,
    /// A block of the log that is taken over. Blocks of a stream come in order. Some of them the caller may know.
    Replay {
        /// The stream.
        stream: StreamId,
        /// The block.
        block: Block,
    },
    /// All blocks are here: the caller merges the streams, ends each where a record stands on something that is not
    /// there (rule L5), and calls [`Owner::begin`].
    Sealed {
        /// Where each stream begins: the store has what lies below.
        bases: Vec<Base>,
    },
    /// All that was taken over is committed. Records may be appended, and clients may be told.
    Leads,
    /// The acceptors that are pending have everything: the change may be settled in the metadata (rule G11).
    MaySettle,
    /// A majority has written a stream up to here, at least into its page cache.
    Received {
        /// The stream.
        stream: StreamId,
        /// The last block.
        id: BlockId,
        /// Where it ends.
        cut: Cut,
    },
    /// A majority has a stream on the disk up to here: it is committed (rule G6).
    Synced {
        /// The stream.
        stream: StreamId,
        /// The last block.
        id: BlockId,
        /// Where it ends.
        cut: Cut,
    },
    /// Another term was promised. The owner says nothing more, and nothing of what is not committed may leave.
    Fenced {
        /// That term.
        by: Term,
    },
}

/// The stage of an owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// It asks for promises.
    Sealing,
    /// It reads blocks that it does not have.
    Fetching,
    /// It has all blocks and brings the acceptors up to the end. The caller merges.
    Copying,
    /// The start blocks are under way.
    Begun,
    /// It leads.
    Leading,
    /// It is over.
    Fenced,
}

/// The error for something that the owner's stage does not allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotNow;

impl std::fmt::Display for NotNow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the shard is not led here now")
    }
}

impl std::error::Error for NotNow {}

/// Bounds of the blocks that an owner keeps and sends ahead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Most blocks of a stream that are sent to an acceptor and not answered.
    pub window_blocks: u64,
    /// The same in bytes. One block alone may be larger.
    pub window_bytes: usize,
    /// Bytes of blocks of a stream that are kept in memory for acceptors that lag. Blocks that no majority has are kept
    /// beyond that: the caller bounds these.
    pub ring_bytes: usize,
    /// Most blocks of one read.
    pub read_blocks: u32,
    /// True if blocks are written past the cache. Those for which nobody may order a sync always are.
    pub through: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { window_blocks: 4, window_bytes: 4 << 20, ring_bytes: 64 << 20, read_blocks: 4, through: true }
    }
}

/// How far an acceptor is behind the owner in a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lag {
    /// The acceptor.
    pub acceptor: AcceptorId,
    /// The stream.
    pub stream: StreamId,
    /// Blocks that it has not on the disk.
    pub blocks: u64,
    /// True if it answers: it has promised this term on its present connection, and its disk works.
    pub answers: bool,
}

/// The owner of a shard, for one term.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    shard: ShardId,
    term: Term,
    /// The acceptors that metadata have settled on.
    settled: Vec<AcceptorId>,
    /// Those that are to replace them (rule G11).
    pending: Option<Vec<AcceptorId>>,
    /// Those that count for neither.
    uncounted: Vec<AcceptorId>,
    stage: Stage,
    streams: Vec<Stream>,
    peers: BTreeMap<AcceptorId, Peer>,
    /// True if its own memory is the log of the term before (rule G1).
    is_own_source: bool,
    /// No log is chosen before this one has answered, or has failed.
    awaited: Option<AcceptorId>,
    limits: Limits,
    pub(crate) planted: Planted,
}

impl Owner {
    /// The owner of a term that follows another process's. `known` says which blocks the caller has of each stream: a
    /// standby has them in its own folder.
    #[must_use]
    pub fn new(
        (shard, term): (ShardId, Term),
        settled: Vec<AcceptorId>,
        pending: Option<Vec<AcceptorId>>,
        known: Vec<History>,
        limits: Limits,
        out: &mut Vec<Event>,
    ) -> Self {
        let mut owner = Self {
            shard,
            term,
            settled,
            pending,
            uncounted: Vec::new(),
            stage: Stage::Sealing,
            streams: known.into_iter().map(Stream::new).collect(),
            peers: BTreeMap::new(),
            is_own_source: false,
            awaited: None,
            limits,
            planted: Planted::default(),
        };
        owner.seal_all(out);
        owner
    }

    /// The owner of a term that was given to the process that owned the one before, with nothing in between (rule G1).
    ///
    /// Its memory may hold what no majority has. So its own log is an answer to the seal, and goes in whole.
    ///
    /// # Errors
    /// The terms do not follow one another, or the owner before cannot answer: the process has to start again, and to
    /// be the owner of another term.
    pub fn again(
        before: Self,
        term: Term,
        settled: Vec<AcceptorId>,
        pending: Option<Vec<AcceptorId>>,
        out: &mut Vec<Event>,
    ) -> Result<Self, NotNow> {
        // An owner that did not come to lead still has its own log, if that was its source.
        let has_log = matches!(before.stage, Stage::Begun | Stage::Leading)
            || before.is_own_source && before.stage != Stage::Fenced;
        if !has_log || !term.is_next_of(before.term) {
            return Err(NotNow);
        }
        let set_back: Vec<_> = before.peers.iter().filter(|(_, peer)| peer.is_set_back).map(|(id, _)| *id).collect();
        let mut owner = Self {
            term,
            settled,
            pending,
            uncounted: Vec::new(),
            stage: Stage::Sealing,
            peers: BTreeMap::new(),
            is_own_source: true,
            awaited: None,
            ..before
        };
        owner.streams.iter_mut().for_each(Stream::forget_start);
        owner.seal_all(out);
        for (id, peer) in &mut owner.peers {
            peer.is_set_back = set_back.contains(id);
        }
        Ok(owner)
    }

    /// Its term.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// Its stage.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The names of a stream's blocks.
    #[must_use]
    pub fn history(&self, stream: StreamId) -> Option<&History> {
        self.streams.get(stream.index()).map(|stream| &stream.history)
    }

    /// The place up to which a stream is committed: zero as long as the shard is not led.
    #[must_use]
    pub fn synced(&self, stream: StreamId) -> u64 {
        self.streams.get(stream.index()).map_or(0, |stream| stream.synced)
    }

    /// Bytes of blocks that no majority has: the caller appends nothing more while these are too many.
    #[must_use]
    pub fn uncommitted_bytes(&self) -> usize {
        self.streams.iter().map(Stream::uncommitted_bytes).sum()
    }

    /// How many blocks of a stream too few acceptors have written for a majority. 0 as long as the shard is not led.
    ///
    /// One acceptor that is slow, or is lost, does not raise it if a majority goes on without that one.
    #[must_use]
    pub fn ahead(&self, stream: StreamId) -> u64 {
        let leads = self.stage == Stage::Leading;
        self.streams.get(stream.index()).filter(|_| leads).map_or(0, Stream::ahead)
    }

    /// True if another block of a stream would be under way at once to as many acceptors as a majority needs: the window
    /// of the slowest of these is not full. Otherwise it would wait here, and a later one may be larger instead.
    #[must_use]
    pub fn has_room(&self, stream: StreamId) -> bool {
        self.ahead(stream) < self.limits.window_blocks
    }

    /// How far each acceptor is behind.
    pub fn lags(&self) -> impl Iterator<Item = Lag> + '_ {
        self.peers.iter().flat_map(move |(acceptor, peer)| {
            stream_ids(self.streams.len()).zip(&self.streams).zip(&peer.marks).map(|((id, stream), mark)| Lag {
                acceptor: *acceptor,
                stream: id,
                blocks: stream.history.last().sequence.saturating_sub(mark.synced),
                answers: peer.follows(),
            })
        })
    }

    /// Acceptors that have not answered this term on their present connection, whose disks have failed, or whose folders
    /// were set back.
    pub fn silent(&self) -> impl Iterator<Item = AcceptorId> + '_ {
        let answers = |peer: &Peer| peer.is_here && !peer.is_failed && !peer.is_set_back;
        self.peers.iter().filter(move |(_, peer)| !answers(peer)).map(|(acceptor, _)| *acceptor)
    }

    /// True if no majority of the acceptors can take blocks, and some of them lack room (rule L8): the caller refuses
    /// what it would append. While acceptors change, that holds for the old and for the new ones.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let is_full_set = |set: &Vec<AcceptorId>| {
            let peers = || set.iter().filter_map(|id| self.peers.get(id));
            let able = peers().filter(|peer| peer.follows() && !peer.is_full && !peer.is_set_back).count();
            able * 2 <= set.len() && peers().any(|peer| peer.is_full)
        };
        self.stage == Stage::Leading && (is_full_set(&self.settled) || self.pending.as_ref().is_some_and(is_full_set))
    }

    /// Whether an acceptor that follows has no room, as far as the owner knows.
    #[cfg(test)]
    pub(crate) fn knows_full(&self, acceptor: AcceptorId) -> Option<bool> {
        self.peers.get(&acceptor).filter(|peer| peer.follows()).map(|peer| peer.is_full)
    }

    /// True if the others are a majority without this acceptor, of the old and of the new ones.
    #[must_use]
    pub fn can_lack(&self, acceptor: AcceptorId) -> bool {
        let can = |set: &Vec<AcceptorId>| set.iter().filter(|id| **id != acceptor).count() * 2 > set.len();
        can(&self.settled) && self.pending.as_ref().is_none_or(can)
    }

    /// All acceptors, old and new.
    fn acceptors(&self) -> impl Iterator<Item = AcceptorId> + '_ {
        self.settled.iter().chain(self.pending.iter().flatten()).copied()
    }

    fn seal_all(&mut self, out: &mut Vec<Event>) {
        let peer = Peer::new(self.streams.len());
        self.peers = self.acceptors().map(|id| (id, peer.clone())).collect();
        for to in self.peers.keys().copied().collect::<Vec<_>>() {
            self.send(to, Order::Seal, out);
        }
    }

    fn send(&self, to: AcceptorId, order: Order, out: &mut Vec<Event>) {
        self.send_by(to, order, false, out);
    }

    fn send_by(&self, to: AcceptorId, order: Order, apart: bool, out: &mut Vec<Event>) {
        let request = Request { shard: self.shard, term: self.term, order };
        out.push(Event::Send { to, request, apart });
    }

    /// True if an acceptor may end this term, be chosen, and give blocks to others: it counts, or is the caller's own
    /// folder. Any other folder may be of another time, and its names those of other blocks.
    fn heeds(&self, acceptor: AcceptorId) -> bool {
        self.awaited == Some(acceptor) || self.acceptors().any(|id| id == acceptor)
    }

    /// Has an acceptor brought up that counts for no majority. Nothing that it says decides anything, unless the owner
    /// waits for it.
    pub fn follow(&mut self, acceptor: AcceptorId, out: &mut Vec<Event>) {
        if self.stage == Stage::Fenced || self.peers.contains_key(&acceptor) {
            return;
        }
        self.uncounted.push(acceptor);
        self.peers.insert(acceptor, Peer::new(self.streams.len()));
        self.send(acceptor, Order::Seal, out);
    }

    /// Lets go of acceptors that count for nothing, unless they are among these. While the shard is led.
    pub fn let_go(&mut self, wanted: &[AcceptorId], out: &mut Vec<Event>) {
        if self.stage != Stage::Leading {
            return;
        }
        let (gone, kept): (Vec<_>, Vec<_>) = self.uncounted.iter().partition(|id| !wanted.contains(id));
        self.uncounted = kept;
        let counts: Vec<AcceptorId> = self.acceptors().collect();
        for id in gone.into_iter().filter(|id| !counts.contains(id)) {
            self.peers.remove(&id);
            self.read_elsewhere(id, out);
        }
    }

    /// The acceptors that count beside the settled ones, until [`Self::settled`].
    #[must_use]
    pub fn pending(&self) -> Option<&[AcceptorId]> {
        self.pending.as_deref()
    }

    /// All acceptors that it has to do with.
    pub fn peers(&self) -> impl Iterator<Item = AcceptorId> + '_ {
        self.peers.keys().copied()
    }

    /// Has no log chosen without an acceptor's answer, unless its disk fails. The caller's own folder is one: with blocks
    /// behind the end of a log that was chosen without it, it could not become that log.
    pub fn wait_for(&mut self, acceptor: AcceptorId) {
        self.awaited = Some(acceptor);
    }

    /// From now on blocks are written past the cache, or not.
    pub fn write_through(&mut self, through: bool) {
        self.limits.through = through;
    }

    /// There is a connection to an acceptor, the first one or another one. Messages on the earlier one may be lost.
    pub fn connected(&mut self, to: AcceptorId, out: &mut Vec<Event>) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        if self.stage == Stage::Fenced {
            return;
        }
        (peer.is_here, peer.is_following, peer.is_failed, peer.is_full) = (false, false, false, false);
        peer.told = None;
        self.source_is_gone(to, out);
        self.send(to, Order::Seal, out);
        self.read_elsewhere(to, out);
    }

    /// The caller's own folder has everything again that it has acknowledged or will, and takes blocks of this term. It
    /// did not answer the seal, where its log was the one that the caller had in memory.
    pub fn resumed(&mut self, acceptor: AcceptorId, out: &mut Vec<Event>) {
        let leads = matches!(self.stage, Stage::Copying | Stage::Begun | Stage::Leading);
        if let Some(peer) = self.peers.get_mut(&acceptor).filter(|peer| leads && !peer.is_failed) {
            (peer.is_here, peer.is_following) = (true, true);
            self.look(out);
        }
    }

    /// An acceptor cannot be reached.
    pub fn lost(&mut self, acceptor: AcceptorId, out: &mut Vec<Event>) {
        let Some(peer) = self.peers.get_mut(&acceptor) else { return };
        (peer.is_here, peer.is_following) = (false, false);
        self.source_is_gone(acceptor, out);
        self.read_elsewhere(acceptor, out);
    }

    /// A message of an acceptor.
    pub fn reply(&mut self, from: AcceptorId, reply: Reply, out: &mut Vec<Event>) {
        let known = self.peers.contains_key(&from) && reply.shard == self.shard;
        if !known || self.stage == Stage::Fenced {
            return;
        }
        match reply.report {
            Report::Refused { promised } if promised > self.term => self.contradicted(from, promised, out),
            // A late answer to a term of the same process says nothing about this one.
            _ if reply.term != self.term => {}
            Report::Refused { .. } => self.connected(from, out),
            Report::Sealed { histories } => self.sealed(from, histories, out),
            Report::Ack { stream, written, synced } => self.acknowledged(from, stream, written, synced, out),
            Report::Missed { stream, last } => self.missed(from, stream, last, out),
            Report::Blocks { stream, blocks } => self.blocks(from, stream, blocks, out),
            Report::Full { is_full } => {
                if let Some(peer) = self.peers.get_mut(&from) {
                    peer.is_full = is_full;
                }
            }
            Report::Wants { marks } => self.wants(from, marks),
            Report::Failed => {
                if let Some(peer) = self.peers.get_mut(&from) {
                    peer.is_failed = true;
                }
                self.source_is_gone(from, out);
                self.read_elsewhere(from, out);
                if self.stage == Stage::Sealing {
                    // It may be the one that was waited for.
                    self.choose(out);
                }
            }
        }
    }

    /// An acceptor knows a later term. One that is not heeded cannot follow.
    fn contradicted(&mut self, from: AcceptorId, by: Term, out: &mut Vec<Event>) {
        if self.heeds(from) {
            return self.fence(by, out);
        }
        if let Some(peer) = self.peers.get_mut(&from) {
            (peer.is_here, peer.is_following, peer.answer) = (false, false, None);
        }
    }

    /// Rule G2: another term was promised, so the owner says of no further block that it is committed.
    fn fence(&mut self, by: Term, out: &mut Vec<Event>) {
        self.stage = Stage::Fenced;
        out.push(Event::Fenced { by });
    }

    /// Appends the start block of every stream. `cuts` says where what is valid of each stream ends (rule L5).
    ///
    /// # Errors
    /// The blocks are not all here, or the streams have begun.
    pub fn begin(&mut self, cuts: &[Cut], out: &mut Vec<Event>) -> Result<(), NotNow> {
        if self.stage != Stage::Copying || cuts.len() != self.streams.len() {
            return Err(NotNow);
        }
        self.stage = Stage::Begun;
        for (stream, cut) in self.streams.iter_mut().zip(cuts) {
            let id = stream.push(self.term, *cut, true, Arc::default());
            stream.start = id.sequence;
        }
        self.pump_all(out);
        Ok(())
    }

    /// Appends a block of records, and gives its name.
    ///
    /// # Errors
    /// The shard is not led (rule G5).
    pub fn append(
        &mut self,
        stream: StreamId,
        cut: Cut,
        body: Arc<[u8]>,
        out: &mut Vec<Event>,
    ) -> Result<BlockId, NotNow> {
        if self.stage != Stage::Leading && !self.leads_by_mistake(stream) {
            return Err(NotNow);
        }
        let term = self.term;
        let id = self.streams.get_mut(stream.index()).ok_or(NotNow)?.push(term, cut, false, body);
        self.pump(stream, out);
        Ok(id)
    }

    fn leads_by_mistake(&self, stream: StreamId) -> bool {
        let leads = || self.streams.get(stream.index()).is_some_and(|s| self.majority(stream, |m| m.synced) >= s.start);
        self.planted.is(Mistake::StreamLeads) && self.stage == Stage::Begun && leads()
    }

    /// Has all acceptors put on the disk what they have written of a stream.
    pub fn sync(&mut self, stream: StreamId, out: &mut Vec<Event>) {
        self.tell_followers(&Order::Sync { stream }, out);
    }

    /// Tells all acceptors how far a stream is committed, where no append says so.
    pub fn advance(&mut self, stream: StreamId, out: &mut Vec<Event>) {
        if self.stage == Stage::Leading {
            self.tell_followers(&Order::Advance { stream, committed: self.synced(stream) }, out);
        }
    }

    /// Blocks up to `base` are in the store of every copy that counts (rule G12): no acceptor needs them.
    ///
    /// # Errors
    /// The shard is not led, or the blocks are not committed.
    pub fn cut(&mut self, id: StreamId, base: Base, out: &mut Vec<Event>) -> Result<(), NotNow> {
        let leads = self.stage == Stage::Leading;
        let stream = self.streams.get_mut(id.index()).filter(|_| leads).ok_or(NotNow)?;
        let before = stream.history.base();
        if base.id.sequence > stream.synced || !stream.begin_at(base) {
            return Err(NotNow);
        }
        self.tell_followers(&Order::Cut { stream: id, base }, out);
        // Acceptors that need what was cut begin where the log does. One that was to begin at the place of before may not
        // have done so: what it has may rank above that (rule G9).
        if base != before {
            self.reset_again(id);
        }
        self.pump(id, out);
        Ok(())
    }

    /// The metadata have settled on the acceptors that were pending.
    pub fn settled(&mut self, out: &mut Vec<Event>) {
        let Some(pending) = self.pending.take() else { return };
        let stays = |id: &AcceptorId| pending.contains(id) || self.uncounted.contains(id);
        let gone: Vec<AcceptorId> = self.peers.keys().filter(|id| !stays(id)).copied().collect();
        gone.iter().for_each(|id| drop(self.peers.remove(id)));
        self.settled = pending;
        self.look(out);
        gone.into_iter().for_each(|id| self.read_elsewhere(id, out));
    }

    fn tell_followers(&mut self, order: &Order, out: &mut Vec<Event>) {
        let following = self.peers.iter().filter(|(_, peer)| peer.follows()).map(|(id, _)| *id);
        for to in following.collect::<Vec<_>>() {
            self.send(to, order.clone(), out);
        }
    }
}
