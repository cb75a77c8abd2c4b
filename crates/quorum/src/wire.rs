//! The bytes of messages, version 1. All numbers are little-endian, and no input is trusted.
//!
//! ```text
//! message  := version u8 (1) · kind u8 · shard u32 · term u32 · what the kind has · crc u32 (CRC32C of all before it)
//! id       := term u32 · sequence u64
//! base     := id · cut u64
//! block    := id · cut u64 · is a start u8 · length u32 · body
//! history  := base · last u64 · runs u32 · (first u64 · term u32) each
//!
//! append 1  := stream u16 · before id · committed u64 · through u8 · block       to an acceptor
//! ack 2     := stream u16 · written id · synced id                              to an owner
//! seal 3    :=                                                                  to an acceptor
//! sealed 4  := streams u16 · history each                                       to an owner
//! read 5    := stream u16 · from u64 · most u32                                 to an acceptor
//! blocks 6  := stream u16 · count u32 · block each                              to an owner
//! cut 8     := stream u16 · base                                                to an acceptor
//! sync 9    := stream u16                                                       to an acceptor
//! advance 10 := stream u16 · committed u64                                      to an acceptor
//! reset 11  := stream u16 · base                                                to an acceptor
//! refused 13 := promised u32                                                    to an owner
//! missed 14 := stream u16 · last id                                             to an owner
//! failed 15 :=                                                                  to an owner
//! full 16   := is full u8                                                       to an owner
//! mark 17   := stream u16 · committed id · after u64 · quiet u64                to an acceptor that wants it
//! wants 18  := marks u8                                                         to an owner
//! ```
//!
//! Sequences, and places (`last`, `first`, `committed`, `from`, `after`), are below 2^63.

use std::sync::Arc;

use crate::{
    Base, Block, BlockId, Cut, History, Order, Reply, Report, Request, Run, STREAMS_MAX, ShardId, StreamId, Term,
};

/// The version that is written, and the only one that is read.
const VERSION: u8 = 1;
/// Bytes of a checksum.
const SUM: usize = 4;
/// Least bytes of a block and of a run.
const BLOCK_LEAST: usize = 25;
const RUN: usize = 12;
/// The highest place of a block. No log comes near it, and places below can be counted on without an overflow.
const PLACE_MAX: u64 = u64::MAX / 2;

mod kind {
    pub const APPEND: u8 = 1;
    pub const ACK: u8 = 2;
    pub const SEAL: u8 = 3;
    pub const SEALED: u8 = 4;
    pub const READ: u8 = 5;
    pub const BLOCKS: u8 = 6;
    pub const CUT: u8 = 8;
    pub const SYNC: u8 = 9;
    pub const ADVANCE: u8 = 10;
    pub const RESET: u8 = 11;
    pub const REFUSED: u8 = 13;
    pub const MISSED: u8 = 14;
    pub const FAILED: u8 = 15;
    pub const FULL: u8 = 16;
    pub const MARK: u8 = 17;
    pub const WANTS: u8 = 18;
}

/// Bytes that are no message, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

const SHORT: Malformed = Malformed("cut short");

fn sum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    fn stream(&mut self, v: StreamId) {
        self.u16(v.0);
    }

    fn id(&mut self, v: BlockId) {
        self.u32(v.term.get());
        self.u64(v.sequence);
    }

    fn base(&mut self, v: Base) {
        self.id(v.id);
        self.u64(v.cut.0);
    }

    fn block(&mut self, v: &Block) {
        self.block_head(v);
        self.0.extend_from_slice(&v.body);
    }

    fn block_head(&mut self, v: &Block) {
        self.id(v.id);
        self.u64(v.cut.0);
        self.u8(u8::from(v.is_start));
        self.u32(v.body.len() as u32);
    }

    fn history(&mut self, v: &History) {
        self.base(v.base());
        self.u64(v.last().sequence);
        self.u32(v.runs().len() as u32);
        for run in v.runs() {
            self.u64(run.first);
            self.u32(run.term.get());
        }
    }

    fn head(&mut self, kind: u8, shard: ShardId, term: Term) {
        self.u8(VERSION);
        self.u8(kind);
        self.u32(shard.0);
        self.u32(term.get());
    }

    fn message(&mut self, kind: u8, shard: ShardId, term: Term, body: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.head(kind, shard, term);
        body(self);
        let sum = sum(self.0.get(start..).unwrap_or_default());
        self.u32(sum);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[v]| v)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("neither yes nor no")),
        }
    }

    fn term(&mut self) -> Result<Term, Malformed> {
        Term::new(self.u32()?).ok_or(Malformed("a term that is too high"))
    }

    fn stream(&mut self) -> Result<StreamId, Malformed> {
        let stream = self.u16()?;
        if usize::from(stream) < STREAMS_MAX { Ok(StreamId(stream)) } else { Err(Malformed("a stream's number")) }
    }

    /// The place of a block.
    fn place(&mut self) -> Result<u64, Malformed> {
        let place = self.u64()?;
        if place <= PLACE_MAX { Ok(place) } else { Err(Malformed("a place that no block has")) }
    }

    fn id(&mut self) -> Result<BlockId, Malformed> {
        Ok(BlockId { term: self.term()?, sequence: self.place()? })
    }

    fn base(&mut self) -> Result<Base, Malformed> {
        Ok(Base { id: self.id()?, cut: Cut(self.u64()?) })
    }

    fn block(&mut self) -> Result<Block, Malformed> {
        let (id, cut, is_start) = (self.id()?, Cut(self.u64()?), self.flag()?);
        let length = usize::try_from(self.u32()?).map_err(|_| SHORT)?;
        Ok(Block { id, cut, is_start, body: self.bytes(length)?.into() })
    }

    /// Items that take at least `least` bytes each: nothing is allocated for items that cannot be there.
    fn many<T>(
        &mut self,
        count: usize,
        least: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        if count > self.0.len() / least {
            return Err(SHORT);
        }
        (0..count).map(|_| one(self)).collect()
    }

    fn count(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.u32()?).map_err(|_| SHORT)
    }

    fn history(&mut self) -> Result<History, Malformed> {
        let (base, last, count) = (self.base()?, self.place()?, self.count()?);
        let runs = self.many(count, RUN, |reader| Ok(Run { first: reader.place()?, term: reader.term()? }))?;
        History::from_runs(base, runs, last).ok_or(Malformed("runs that are no history"))
    }

    /// Reads the beginning of every message, after it has verified the checksum.
    fn message(bytes: &'a [u8]) -> Result<(u8, ShardId, Term, Self), Malformed> {
        let (body, end) = bytes.split_last_chunk::<SUM>().ok_or(SHORT)?;
        if sum(body) != u32::from_le_bytes(*end) {
            return Err(Malformed("a wrong checksum"));
        }
        let mut reader = Self(body);
        if reader.u8()? != VERSION {
            return Err(Malformed("a version that is not known"));
        }
        let (kind, shard, term) = (reader.u8()?, ShardId(reader.u32()?), reader.term()?);
        Ok((kind, shard, term, reader))
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("more than there should be")) }
    }
}

impl Request {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match &self.order {
            Order::Seal => kind::SEAL,
            Order::Append { .. } => kind::APPEND,
            Order::Sync { .. } => kind::SYNC,
            Order::Advance { .. } => kind::ADVANCE,
            Order::Mark { .. } => kind::MARK,
            Order::Read { .. } => kind::READ,
            Order::Cut { .. } => kind::CUT,
            Order::Reset { .. } => kind::RESET,
        };
        Writer(out).message(kind, self.shard, self.term, |to| match &self.order {
            Order::Seal => {}
            Order::Append { stream, before, committed, through, block } => {
                to.stream(*stream);
                to.id(*before);
                to.u64(*committed);
                to.u8(u8::from(*through));
                to.block(block);
            }
            Order::Sync { stream } => to.stream(*stream),
            Order::Advance { stream, committed } => {
                to.stream(*stream);
                to.u64(*committed);
            }
            Order::Mark { stream, committed, after, quiet } => {
                to.stream(*stream);
                to.id(*committed);
                to.u64(*after);
                to.u64(quiet.0);
            }
            Order::Read { stream, from, most } => {
                to.stream(*stream);
                to.u64(*from);
                to.u32(*most);
            }
            Order::Cut { stream, base } | Order::Reset { stream, base } => {
                to.stream(*stream);
                to.base(*base);
            }
        });
    }

    /// Appends its bytes, but for a block's body and what follows that: these are returned. So the body, which goes to
    /// several acceptors, is not copied.
    pub fn encode_around(&self, out: &mut Vec<u8>) -> Option<(Arc<[u8]>, [u8; SUM])> {
        let Order::Append { stream, before, committed, through, block } = &self.order else {
            self.encode(out);
            return None;
        };
        let start = out.len();
        let mut to = Writer(out);
        to.head(kind::APPEND, self.shard, self.term);
        to.stream(*stream);
        to.id(*before);
        to.u64(*committed);
        to.u8(u8::from(*through));
        to.block_head(block);
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        digest.update(out.get(start..).unwrap_or_default());
        digest.update(&block.body);
        Some((block.body.clone(), (digest.finalize() as u32).to_le_bytes()))
    }

    /// The message of these bytes.
    ///
    /// # Errors
    /// They are no message for an acceptor, or are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (kind, shard, term, mut from) = Reader::message(bytes)?;
        let order = match kind {
            kind::SEAL => Order::Seal,
            kind::APPEND => Order::Append {
                stream: from.stream()?,
                before: from.id()?,
                committed: from.place()?,
                through: from.flag()?,
                block: from.block()?,
            },
            kind::SYNC => Order::Sync { stream: from.stream()? },
            kind::ADVANCE => Order::Advance { stream: from.stream()?, committed: from.place()? },
            kind::MARK => Order::Mark {
                stream: from.stream()?,
                committed: from.id()?,
                after: from.place()?,
                quiet: Cut(from.u64()?),
            },
            kind::READ => Order::Read { stream: from.stream()?, from: from.place()?, most: from.u32()? },
            kind::CUT => Order::Cut { stream: from.stream()?, base: from.base()? },
            kind::RESET => Order::Reset { stream: from.stream()?, base: from.base()? },
            _ => return Err(Malformed("no message for an acceptor")),
        };
        from.end()?;
        Ok(Self { shard, term, order })
    }
}

impl Reply {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match &self.report {
            Report::Sealed { .. } => kind::SEALED,
            Report::Refused { .. } => kind::REFUSED,
            Report::Ack { .. } => kind::ACK,
            Report::Missed { .. } => kind::MISSED,
            Report::Blocks { .. } => kind::BLOCKS,
            Report::Failed => kind::FAILED,
            Report::Full { .. } => kind::FULL,
            Report::Wants { .. } => kind::WANTS,
        };
        Writer(out).message(kind, self.shard, self.term, |to| match &self.report {
            Report::Sealed { histories } => {
                to.u16(histories.len() as u16);
                histories.iter().for_each(|history| to.history(history));
            }
            Report::Refused { promised } => to.u32(promised.get()),
            Report::Ack { stream, written, synced } => {
                to.stream(*stream);
                to.id(*written);
                to.id(*synced);
            }
            Report::Missed { stream, last } => {
                to.stream(*stream);
                to.id(*last);
            }
            Report::Blocks { stream, blocks } => {
                to.stream(*stream);
                to.u32(blocks.len() as u32);
                blocks.iter().for_each(|block| to.block(block));
            }
            Report::Failed => {}
            Report::Full { is_full: flag } | Report::Wants { marks: flag } => to.u8(u8::from(*flag)),
        });
    }

    /// The message of these bytes.
    ///
    /// # Errors
    /// They are no message for an owner, or are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (kind, shard, term, mut from) = Reader::message(bytes)?;
        let report = match kind {
            kind::SEALED => {
                let streams = usize::from(from.u16()?);
                if streams > STREAMS_MAX {
                    return Err(Malformed("too many streams"));
                }
                Report::Sealed { histories: from.many(streams, RUN, Reader::history)? }
            }
            kind::REFUSED => Report::Refused { promised: from.term()? },
            kind::ACK => Report::Ack { stream: from.stream()?, written: from.id()?, synced: from.id()? },
            kind::MISSED => Report::Missed { stream: from.stream()?, last: from.id()? },
            kind::BLOCKS => {
                let (stream, count) = (from.stream()?, from.count()?);
                Report::Blocks { stream, blocks: from.many(count, BLOCK_LEAST, Reader::block)? }
            }
            kind::FAILED => Report::Failed,
            kind::FULL => Report::Full { is_full: from.flag()? },
            kind::WANTS => Report::Wants { marks: from.flag()? },
            _ => return Err(Malformed("no message for an owner")),
        };
        from.end()?;
        Ok(Self { shard, term, report })
    }
}
