//! An acceptor: the copies of a shard's streams in one folder.
//!
//! It promises terms (rule G2), takes blocks that follow what it has (rule G3), and says what it has on the disk. It
//! keeps the names of blocks, not the blocks: those go to the disk as [`Op`]s, whose completions come back as [`Done`].
//!
//! ```text
//! open -- all lives begun, promise written --> following(term) -- Seal(higher) --> sealing -- quiet, synced --> following
//!                                                    |  any failed operation, in any state
//!                                                    v
//!                                                 failed: for good (rule G10)
//! ```

mod stream;

use self::stream::Stream;
use crate::id::stream_ids;
use crate::planted::{Mistake, Planted};
use crate::{Base, Block, BlockId, Cut, FolderLife, History, Order, Reply, Report, Request, ShardId, StreamId, Term};

/// A request of an acceptor to its caller.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Output {
    /// To the owner of the term that the reply names, by its latest connection.
    Reply(Reply),
    /// An operation of the folder's disk.
    Disk(Op),
}

/// An operation of a folder's disk. Each is answered by a [`Done`], but for [`Op::Cut`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Op {
    /// Put the promise on the disk. Until this is done the one before it holds: two sectors are written in turns.
    Promise(Term),
    /// Write a block behind the stream's last one, into a file of this life.
    Write {
        /// The stream.
        stream: StreamId,
        /// The folder's life that the block belongs to.
        life: FolderLife,
        /// True if the block is on the disk when the write returns.
        through: bool,
        /// The block.
        block: Block,
    },
    /// Put on the disk all that was written to a stream.
    Sync {
        /// The stream.
        stream: StreamId,
        /// The life it is asked in.
        life: FolderLife,
        /// The place of the last block that was written.
        upto: u64,
    },
    /// Begin a life: put on the disk what is kept, then a new file whose header voids the rest. It is done when both are
    /// on the disk. Files of earlier lives are not used again before.
    Begin {
        /// The stream.
        stream: StreamId,
        /// The new life.
        life: FolderLife,
        /// The blocks that are kept.
        keep: Keep,
    },
    /// Read blocks that are on the disk.
    Read {
        /// The stream.
        stream: StreamId,
        /// The term that asks.
        term: Term,
        /// The place of the first one.
        from: u64,
        /// The place of the last one.
        upto: u64,
    },
    /// Remove files whose blocks all lie at or below a base. There is no hurry, and no answer.
    Cut {
        /// The stream.
        stream: StreamId,
        /// The new base.
        base: Base,
    },
}

/// The blocks of a stream that a new life keeps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Keep {
    /// Blocks up to this place.
    UpTo(u64),
    /// Nothing: the stream begins here.
    Nothing(Base),
}

/// An operation that is done.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Done {
    /// The promise is on the disk.
    Promised(Term),
    /// A write has returned.
    Written {
        /// The stream.
        stream: StreamId,
        /// The life that was asked for.
        life: FolderLife,
        /// The block's place.
        sequence: u64,
    },
    /// A sync has returned.
    Synced {
        /// The stream.
        stream: StreamId,
        /// The life that was asked for.
        life: FolderLife,
        /// The place that was asked for.
        upto: u64,
    },
    /// A life has begun.
    Begun {
        /// The stream.
        stream: StreamId,
        /// The life.
        life: FolderLife,
    },
    /// Blocks were read.
    Read {
        /// The stream.
        stream: StreamId,
        /// The term that has asked.
        term: Term,
        /// They follow one another.
        blocks: Vec<Block>,
    },
    /// An operation failed, for another reason than a lack of room.
    Failed,
}

/// A stream as a start has found it in the folder.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Found {
    /// The folder's last life.
    pub life: FolderLife,
    /// The blocks that can be read, whether or not they are on the disk.
    pub history: History,
}

/// How far a standby may apply a stream of its acceptor: blocks that are on this disk, and committed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Mark {
    /// The last of these blocks, or where the stream begins. It never falls.
    pub committed: BlockId,
    /// The word of the owner of the block's term, if the block is one of these: behind it no record of that term gets an
    /// LSN at or below the cut.
    pub quiet: Option<(BlockId, Cut)>,
}

/// An acceptor of a shard, in one life of its process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Acceptor {
    shard: ShardId,
    /// The acceptor obeys no lower term.
    promised: Term,
    /// True if that is on the disk.
    is_promise_durable: bool,
    /// True if the acceptor has to answer a seal when no operation is under way.
    is_sealing: bool,
    is_failed: bool,
    /// True if the folder has no room for more blocks (rule L8).
    is_full: bool,
    /// True if a standby reads from it.
    wants_marks: bool,
    streams: Vec<Stream>,
    pub(crate) planted: Planted,
}

impl Acceptor {
    /// An acceptor over the streams that a start has found. It names none of their blocks before they are on the disk:
    /// they may have been in the page cache alone (rule G2). So every stream begins a new life, and the promise is
    /// written once more.
    #[must_use]
    pub fn open(shard: ShardId, promised: Term, found: Vec<Found>, out: &mut Vec<Output>) -> Self {
        let mut acceptor = Self {
            shard,
            promised,
            is_promise_durable: false,
            is_sealing: false,
            is_failed: false,
            is_full: false,
            wants_marks: false,
            streams: found.into_iter().map(Stream::new).collect(),
            planted: Planted::default(),
        };
        out.push(Output::Disk(Op::Promise(promised)));
        for (id, stream) in stream_ids(acceptor.streams.len()).zip(&mut acceptor.streams) {
            stream.begin(id, Keep::UpTo(stream.history().last().sequence), out);
        }
        acceptor
    }

    /// The lowest term that it may obey.
    #[must_use]
    pub fn promised(&self) -> Term {
        self.promised
    }

    /// True if an operation of its disk failed.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.is_failed
    }

    /// The blocks of a stream, those under way included.
    #[must_use]
    pub fn history(&self, stream: StreamId) -> Option<&History> {
        self.streams.get(stream.index()).map(Stream::history)
    }

    /// How far a standby may apply a stream (rule S1).
    #[must_use]
    pub fn mark(&self, stream: StreamId) -> Option<Mark> {
        self.streams.get(stream.index())?.mark(self.promised, self.planted)
    }

    /// The place up to which a stream's blocks are here and committed.
    #[must_use]
    pub fn committed(&self, stream: StreamId) -> Option<u64> {
        self.streams.get(stream.index()).map(Stream::committed)
    }

    /// A message of an owner.
    pub fn request(&mut self, request: Request, out: &mut Vec<Output>) {
        let Request { shard, term, order } = request;
        if shard != self.shard {
            return;
        }
        if self.is_failed {
            return self.reply(term, Report::Failed, out);
        }
        if order == Order::Seal {
            return self.seal(term, out);
        }
        // Rule G2: no lower term is obeyed, by whatever order. A higher one has to seal first.
        if term != self.promised {
            return self.reply(term, Report::Refused { promised: self.promised }, out);
        }
        // The owner that seals again on a new connection sends its orders after the answer. These are late ones.
        if !self.is_sealing && self.is_promise_durable {
            self.obey(order, out);
        }
    }

    /// An operation of the disk is done.
    pub fn done(&mut self, done: Done, out: &mut Vec<Output>) {
        if self.is_failed {
            return;
        }
        match done {
            Done::Promised(term) => self.is_promise_durable |= term == self.promised,
            Done::Written { stream, life, sequence } => {
                self.at(stream, out, |stream, at, out| stream.landed(at, life, sequence, out));
            }
            Done::Synced { stream, life, upto } => {
                self.at(stream, out, |stream, at, out| stream.synced_up_to(at, life, upto, out));
            }
            Done::Begun { stream, life } => {
                self.at(stream, out, |stream, at, out| stream.begun(at, life, out));
            }
            Done::Read { stream, term, blocks } if term == self.promised => {
                self.reply(term, Report::Blocks { stream, blocks }, out);
            }
            Done::Read { .. } => {}
            Done::Failed => return self.fail(out),
        }
        self.rest(out);
    }

    /// The folder has no room for more blocks, or has room again (rule L8). Operations of the disk wait meanwhile.
    pub fn room(&mut self, is_full: bool, out: &mut Vec<Output>) {
        if std::mem::replace(&mut self.is_full, is_full) == is_full || self.is_failed {
            return;
        }
        // An owner hears of it behind the answer to its seal.
        if !self.is_sealing && self.is_promise_durable {
            self.reply(self.promised, Report::Full { is_full }, out);
        }
    }

    /// A standby reads from here, or does not any more. Its owner is asked for marks meanwhile.
    pub fn want_marks(&mut self, wants: bool, out: &mut Vec<Output>) {
        if std::mem::replace(&mut self.wants_marks, wants) == wants || self.is_failed {
            return;
        }
        // As of its room: an owner hears of it behind the answer to its seal.
        if !self.is_sealing && self.is_promise_durable {
            self.reply(self.promised, Report::Wants { marks: wants }, out);
        }
    }

    /// Rule G10: the folder takes nothing and promises nothing any more. It still has the blocks that it acknowledged.
    fn fail(&mut self, out: &mut Vec<Output>) {
        self.is_failed = true;
        self.is_sealing = false;
        self.reply(self.promised, Report::Failed, out);
    }

    fn seal(&mut self, term: Term, out: &mut Vec<Output>) {
        if term < self.promised {
            return self.reply(term, Report::Refused { promised: self.promised }, out);
        }
        if term > self.promised {
            self.promised = term;
            self.is_promise_durable = false;
            out.push(Output::Disk(Op::Promise(term)));
            let planted = self.planted;
            self.streams.iter_mut().for_each(|stream| stream.begin_term(planted));
        }
        self.is_sealing = true;
        self.rest(out);
    }

    /// Answers Seal when nothing is under way and all that is there is on the disk, the promise included (rule G2).
    fn rest(&mut self, out: &mut Vec<Output>) {
        if !self.is_sealing {
            return;
        }
        let hasty = self.planted.is(Mistake::SealsInFlight);
        let mut is_quiet = true;
        for (id, stream) in stream_ids(self.streams.len()).zip(&mut self.streams) {
            if hasty {
                stream.forget_flights();
            }
            is_quiet &= stream.comes_to_rest(id, out);
        }
        if is_quiet && self.is_promise_durable {
            self.is_sealing = false;
            let histories = self.streams.iter().map(|stream| stream.history().clone()).collect();
            self.reply(self.promised, Report::Sealed { histories }, out);
            if self.is_full {
                self.reply(self.promised, Report::Full { is_full: true }, out);
            }
            if self.wants_marks {
                self.reply(self.promised, Report::Wants { marks: true }, out);
            }
        }
    }

    fn obey(&mut self, order: Order, out: &mut Vec<Output>) {
        let (term, planted) = (self.promised, self.planted);
        match order {
            Order::Seal => {}
            Order::Append { stream, before, committed, through, block } if block.id.term <= term => {
                self.at(stream, out, |stream, at, out| {
                    stream.append(at, stream::Append { before, through, block }, planted, out);
                    stream.advance(committed);
                });
            }
            Order::Append { .. } => {}
            Order::Sync { stream } => self.at(stream, out, |stream, at, out| stream.sync(at, out)),
            Order::Advance { stream, committed } => self.at(stream, out, |stream, _, _| stream.advance(committed)),
            Order::Mark { stream, committed, after, quiet } => {
                self.at(stream, out, |stream, _, _| stream.note_mark(committed, (after, quiet)));
            }
            Order::Read { stream, from, most } => {
                self.at(stream, out, |stream, at, out| stream.read(at, term, from, most, out));
            }
            Order::Cut { stream, base } => self.at(stream, out, |stream, at, out| stream.cut(at, base, out)),
            Order::Reset { stream, base } => {
                self.at(stream, out, |stream, at, out| stream.reset(at, base, planted, out));
            }
        }
    }

    /// Has a stream act, and tells the owner the result.
    fn at(&mut self, id: StreamId, out: &mut Vec<Output>, act: impl FnOnce(&mut Stream, StreamId, &mut Vec<Output>)) {
        let Some(stream) = self.streams.get_mut(id.index()) else { return };
        act(stream, id, out);
        let told = stream.tells();
        // While a seal is under way the owner of the term has sent nothing: whatever lands is nobody's (rule G2).
        if self.is_sealing || !self.is_promise_durable {
            return;
        }
        if told.lacks {
            self.reply(self.promised, Report::Blocks { stream: id, blocks: Vec::new() }, out);
        }
        if let Some(last) = told.missed {
            self.reply(self.promised, Report::Missed { stream: id, last }, out);
        }
        if let Some((written, synced)) = told.ack {
            self.reply(self.promised, Report::Ack { stream: id, written, synced }, out);
        }
    }

    fn reply(&self, term: Term, report: Report, out: &mut Vec<Output>) {
        out.push(Output::Reply(Reply { shard: self.shard, term, report }));
    }
}

/// Reports of a stream that are to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Told {
    /// The first block that was asked for is not here.
    lacks: bool,
    missed: Option<BlockId>,
    ack: Option<(BlockId, BlockId)>,
}
