//! Blocks of the quorum as frames of the log. The body of a block is its encoded frame; a start block has none.

use std::sync::Arc;

use quorum::{Block, BlockId, Cut, ShardId, StreamId, Term};
use redolog::{Frame, Kind, Lsn};

use super::name_of;

/// Bytes that are no frame of the block that they are sent as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch(pub &'static str);

/// Verifies the checksums of a block's frame, and that it is that block's: before anything is written of it.
///
/// # Errors
/// It is not.
pub fn check(shard: ShardId, stream: StreamId, before: BlockId, block: &Block) -> Result<(), Mismatch> {
    if block.body.is_empty() {
        return if block.is_start { Ok(()) } else { Err(Mismatch("a block without records")) };
    }
    let frame = Frame::decode(&block.body).map_err(|broken| Mismatch(broken.0))?;
    let is_it = (frame.name, frame.cut, frame.stream) == (name_of(block.id), Lsn(block.cut.0), stream.0)
        && frame.before == before.term.get()
        && (frame.kind == Kind::Start) == block.is_start
        && (frame.shard == shard.0 || frame.shard == 0)
        && block.body.len() == redolog::FRAME_HEAD + frame.body.len();
    if is_it { Ok(()) } else { Err(Mismatch("the frame of another block")) }
}

/// The frame of a block whose checksums were verified. `before`: the term of the block before it.
///
/// # Errors
/// It has none.
pub fn decoded(shard: ShardId, stream: StreamId, before: Term, block: &Block) -> Result<Frame<'_>, Mismatch> {
    if block.body.is_empty() {
        let (kind, name, before, cut) = (Kind::Start, name_of(block.id), before.get(), Lsn(block.cut.0));
        let (shard, stream, reach, body, sum) = (shard.0, stream.0, cut, &[][..], None);
        return Ok(Frame { kind, shard, stream, name, before, cut, reach, body, sum });
    }
    Frame::decode_checked(&block.body).map_err(|broken| Mismatch(broken.0))
}

/// The block of a frame that was read. `None`: its term is too high.
#[must_use]
pub fn encoded(shard: ShardId, frame: &Frame<'_>, bytes: &[u8]) -> Option<Block> {
    let id = BlockId { term: Term::new(frame.name.term)?, sequence: frame.name.sequence };
    let is_start = frame.kind == Kind::Start;
    // A start block of before the shard had copies is not the one that others would make of its name.
    let is_plain = is_start && frame.shard == shard.0 && frame.reach == frame.cut;
    let body = if is_plain { Arc::default() } else { Arc::from(bytes) };
    Some(Block { id, cut: Cut(frame.cut.0), is_start, body })
}
