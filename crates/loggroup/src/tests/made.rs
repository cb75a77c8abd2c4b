//! Blocks as an owner makes them, and an acceptor for them.

use std::sync::{Arc, Mutex, PoisonError};

use quorum::{AcceptorId, Block, BlockId, Cut, Reply, ShardId, StreamId, Term};
use redolog::simulated::Simulated;
use redolog::{Frame, Kind, Limits, Lsn, Record};

use crate::folder::{Folder, Place, name_of};
use crate::{Caller, Heard, Local};

pub const SHARD: ShardId = ShardId(7);

/// Segments of two pages: they are changed often.
pub const LIMITS: Limits = Limits { segment: 8192, spares: 1, reserve: 0, block: 16 << 20 };

pub fn term(number: u32) -> Term {
    Term::new(number).expect("24 bits")
}

pub fn id(of: u32, sequence: u64) -> BlockId {
    BlockId { term: term(of), sequence }
}

/// An LSN of a stream.
pub fn lsn(stream: StreamId, count: u64) -> Lsn {
    Lsn(count << 4 | u64::from(stream.0))
}

/// The body of a block with one record.
pub fn body(stream: StreamId, before: BlockId, id: BlockId, cut: Lsn, effects: &[u8]) -> Arc<[u8]> {
    let (mut records, mut bytes) = (Vec::new(), Vec::new());
    Record::encode(cut, &[], effects, &mut records);
    let (name, before) = (name_of(id), before.term.get());
    let (kind, shard, stream, body, sum) = (Kind::Records, SHARD.0, stream.0, &records[..], None);
    let frame = Frame { kind, shard, stream, name, before, cut, reach: cut, body, sum };
    frame.encode(&mut bytes).expect("a short one");
    bytes.into()
}

pub fn record(stream: StreamId, before: BlockId, of: u32, count: u64, effects: &[u8]) -> Block {
    let (id, cut) = (id(of, before.sequence + 1), lsn(stream, count));
    Block { id, cut: Cut(cut.0), is_start: false, body: body(stream, before, id, cut, effects) }
}

pub fn start(before: BlockId, of: u32, cut: Lsn) -> Block {
    Block { id: id(of, before.sequence + 1), cut: Cut(cut.0), is_start: true, body: Arc::default() }
}

/// An acceptor in a new folder whose streams are on these disks. The test carries its jobs out.
pub fn by_hand(streams: Vec<Simulated>, limits: Limits) -> Local<Simulated> {
    let place = Place { own: Simulated::default(), streams, locks: Vec::new() };
    let folder = Folder::make(place, SHARD, AcceptorId([1; 16]), limits).unwrap_or_else(|why| panic!("{why}"));
    Local::by_hand(folder).unwrap_or_else(|why| panic!("{why}"))
}

/// A connection to an acceptor, and the replies that have come over it.
pub fn connected(local: &Local<Simulated>) -> (Caller<Simulated>, Arc<Mutex<Vec<Reply>>>) {
    let heard: Arc<Mutex<Vec<Reply>>> = Arc::default();
    let ears = heard.clone();
    let caller = local.caller(Arc::new(move |_, what| {
        if let Heard::Reply(reply) = what {
            ears.lock().unwrap_or_else(PoisonError::into_inner).push(reply);
        }
    }));
    (caller, heard)
}
