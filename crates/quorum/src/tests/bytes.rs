//! The bytes of messages, and damage to them.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{
    Base, Block, BlockId, Cut, History, Order, Reply, Report, Request, Run, STREAMS_MAX, ShardId, StreamId, Term,
};

const SHARD: ShardId = ShardId(0x0403_0201);
const STREAM: StreamId = StreamId(7);

fn term(number: u32) -> Term {
    Term::new(number).expect("a term")
}

fn id(number: u32, sequence: u64) -> BlockId {
    BlockId { term: term(number), sequence }
}

fn base() -> Base {
    Base { id: id(3, 9), cut: Cut(0x90) }
}

fn block() -> Block {
    Block { id: id(5, 0x0807_0605_0403_0201), cut: Cut(0x77), is_start: true, body: Arc::from(*b"abc") }
}

/// The head of a message of term 6, its body, and the checksum of both.
fn golden(kind: u8, parts: &[&[u8]], sum: [u8; 4]) -> Vec<u8> {
    [&[1, kind, 1, 2, 3, 4, 6, 0, 0, 0][..], &parts.concat(), &sum].concat()
}

fn request(order: Order) -> Vec<u8> {
    let (request, mut out) = (Request { shard: SHARD, term: term(6), order }, Vec::new());
    request.encode(&mut out);
    assert_eq!(Request::decode(&out).as_ref(), Ok(&request));
    out
}

fn reply(report: Report) -> Vec<u8> {
    let (reply, mut out) = (Reply { shard: SHARD, term: term(6), report }, Vec::new());
    reply.encode(&mut out);
    assert_eq!(Reply::decode(&out).as_ref(), Ok(&reply));
    out
}

const STREAM_BYTES: &[u8] = &[7, 0];
const NINE: &[u8] = &[9, 0, 0, 0, 0, 0, 0, 0];
/// Term 3, sequence 9.
const ID: &[u8] = &[3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
/// The same, and cut 0x90.
const BASE: &[u8] = &[3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 0, 0];
const BLOCK: &[u8] = &[
    5, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, // id
    0x77, 0, 0, 0, 0, 0, 0, 0, // cut
    1, // is a start
    3, 0, 0, 0, b'a', b'b', b'c',
];

fn histories() -> Vec<History> {
    let runs = vec![Run { first: 10, term: term(3) }, Run { first: 12, term: term(5) }];
    vec![History::from_runs(base(), runs, 13).expect("a history"), History::new(base())]
}

const HISTORIES: &[u8] = &[
    2, 0, // two streams
    3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 0, 0, // base
    13, 0, 0, 0, 0, 0, 0, 0, // last
    2, 0, 0, 0, // runs
    10, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, //
    12, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, //
    3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 0, 0, // base
    9, 0, 0, 0, 0, 0, 0, 0, // last
    0, 0, 0, 0, // runs
];

#[test]
fn messages_for_an_acceptor() {
    let append = Order::Append { stream: STREAM, before: id(3, 9), committed: 9, through: true, block: block() };
    let (stream, base) = (STREAM, base());
    let bytes = [
        request(Order::Seal),
        request(append),
        request(Order::Sync { stream }),
        request(Order::Advance { stream, committed: 9 }),
        request(Order::Read { stream, from: 9, most: 4 }),
        request(Order::Cut { stream, base }),
        request(Order::Reset { stream, base }),
        request(Order::Mark { stream, committed: id(3, 9), after: 9, quiet: Cut(0x77) }),
    ];
    let expected = [
        golden(3, &[], [0x48, 0xc4, 0xa2, 0xb8]),
        golden(1, &[STREAM_BYTES, ID, NINE, &[1], BLOCK], [0x16, 0x88, 0x06, 0x5c]),
        golden(9, &[STREAM_BYTES], [0xed, 0x4e, 0x29, 0x6a]),
        golden(10, &[STREAM_BYTES, NINE], [0x23, 0xa3, 0x97, 0x92]),
        golden(5, &[STREAM_BYTES, NINE, &[4, 0, 0, 0]], [0xf5, 0x59, 0x8b, 0x27]),
        golden(8, &[STREAM_BYTES, BASE], [0x65, 0x4d, 0x24, 0xf3]),
        golden(11, &[STREAM_BYTES, BASE], [0xf2, 0xec, 0xcd, 0x7a]),
        golden(17, &[STREAM_BYTES, ID, NINE, &[0x77, 0, 0, 0, 0, 0, 0, 0]], [0xdb, 0x61, 0x30, 0x2b]),
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn messages_for_an_owner() {
    let stream = STREAM;
    let bytes = [
        reply(Report::Sealed { histories: histories() }),
        reply(Report::Refused { promised: term(7) }),
        reply(Report::Ack { stream, written: id(3, 9), synced: id(3, 9) }),
        reply(Report::Missed { stream, last: id(3, 9) }),
        reply(Report::Blocks { stream, blocks: vec![block(), block()] }),
        reply(Report::Failed),
        reply(Report::Full { is_full: true }),
        reply(Report::Wants { marks: true }),
    ];
    let expected = [
        golden(4, &[HISTORIES], [0xe0, 0x4f, 0x35, 0xbb]),
        golden(13, &[&[7, 0, 0, 0]], [0x18, 0xbb, 0x49, 0x64]),
        golden(2, &[STREAM_BYTES, ID, ID], [0x4e, 0xfb, 0xb0, 0x47]),
        golden(14, &[STREAM_BYTES, ID], [0x71, 0x64, 0xf0, 0x85]),
        golden(6, &[STREAM_BYTES, &[2, 0, 0, 0], BLOCK, BLOCK], [0x54, 0x48, 0xef, 0x6f]),
        golden(15, &[], [0xec, 0xf4, 0x1e, 0xde]),
        golden(16, &[&[1]], [0xe7, 0x1b, 0xaf, 0xbe]),
        golden(18, &[&[1]], [0x5c, 0x9a, 0xef, 0x2d]),
    ];
    assert_eq!(bytes, expected);
}

/// Bytes with the checksum that belongs to them.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes) as u32;
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn what_nobody_writes_is_refused() {
    let read = request(Order::Read { stream: STREAM, from: 9, most: 4 });
    for short in 0..read.len() {
        assert!(Request::decode(&read[..short]).is_err());
    }
    let body = &read[..read.len() - 4];
    assert_eq!(summed(body.to_vec()), read);
    let changed = |at: usize, byte: u8| {
        let mut bytes = body.to_vec();
        bytes[at] = byte;
        Request::decode(&summed(bytes))
    };
    assert!(changed(0, 2).is_err(), "another version");
    assert!(changed(1, 99).is_err(), "another kind");
    assert!(changed(1, 2).is_err(), "a message for an owner");
    assert!(changed(9, 1).is_err(), "a term of more than 24 bits");
    assert!(changed(10, STREAMS_MAX as u8).is_err(), "a stream that cannot be");
    assert!(Request::decode(&summed([body, &[0]].concat())).is_err(), "more than there should be");
    let many = golden(6, &[STREAM_BYTES, &[0xff; 4], BLOCK], [0; 4]);
    assert!(Reply::decode(&summed(many[..many.len() - 4].to_vec())).is_err(), "more blocks than bytes");
    let fallen = HISTORIES.len() - 32 - 4;
    let mut bytes = HISTORIES.to_vec();
    bytes[fallen] = 2;
    let sealed = golden(4, &[&bytes], [0; 4]);
    assert!(Reply::decode(&summed(sealed[..sealed.len() - 4].to_vec())).is_err(), "terms that fall");
}

/// Places are counted on from: none is so high that the next one overflows.
#[test]
fn places_that_no_block_has_are_refused() {
    let far = u64::MAX;
    let near = |order: fn(u64) -> Order, report: fn(u64) -> Report, place: u64| {
        let (mut asked, mut told) = (Vec::new(), Vec::new());
        Request { shard: SHARD, term: term(6), order: order(place) }.encode(&mut asked);
        Reply { shard: SHARD, term: term(6), report: report(place) }.encode(&mut told);
        (Request::decode(&asked).is_ok(), Reply::decode(&told).is_ok())
    };
    let orders: [fn(u64) -> Order; 7] = [
        |place| Order::Append {
            stream: STREAM,
            before: id(3, place),
            committed: 9,
            through: true,
            block: Block { id: id(5, place), ..block() },
        },
        |place| Order::Append { stream: STREAM, before: id(3, 9), committed: place, through: true, block: block() },
        |committed| Order::Advance { stream: STREAM, committed },
        |from| Order::Read { stream: STREAM, from, most: 4 },
        |place| Order::Mark { stream: STREAM, committed: id(3, place), after: 9, quiet: Cut(1) },
        |after| Order::Mark { stream: STREAM, committed: id(3, 9), after, quiet: Cut(1) },
        |place| Order::Reset { stream: STREAM, base: Base { id: id(3, place), cut: Cut(1) } },
    ];
    let reports: [fn(u64) -> Report; 5] = [
        |place| Report::Ack { stream: STREAM, written: id(3, 9), synced: id(3, place) },
        |place| Report::Missed { stream: STREAM, last: id(3, place) },
        |place| Report::Blocks { stream: STREAM, blocks: vec![Block { id: id(5, place), ..block() }] },
        |place| Report::Sealed { histories: vec![History::new(Base { id: id(3, place), cut: Cut(1) })] },
        |last| Report::Sealed {
            histories: History::from_runs(base(), vec![Run { first: 10, term: term(3) }], last).into_iter().collect(),
        },
    ];
    for (order, report) in orders.into_iter().zip(reports.into_iter().cycle()) {
        assert_eq!(near(order, report, far / 2), (true, true));
        assert_eq!(near(order, report, far / 2 + 1), (false, false));
        assert_eq!(near(order, report, far), (false, false));
    }
}

proptest! {
    #[test]
    fn no_damage_goes_unnoticed(at in 0usize..200, bit in 0u8..8) {
        let mut bytes = reply(Report::Sealed { histories: histories() });
        let length = bytes.len();
        bytes[at % length] ^= 1 << bit;
        prop_assert!(Reply::decode(&bytes).is_err());
    }

    #[test]
    fn no_bytes_panic(kind in 0u8..20, bytes in vec(any::<u8>(), 0..200), small in vec(0u8..12, 0..200)) {
        for bytes in [bytes, small] {
            let all = summed([&[1, kind, 1, 0, 0, 0, 1, 0, 0, 0][..], &bytes].concat());
            if let Ok(request) = Request::decode(&all) {
                let mut again = Vec::new();
                request.encode(&mut again);
                prop_assert_eq!(&again, &all);
            }
            if let Ok(reply) = Reply::decode(&all) {
                let mut again = Vec::new();
                reply.encode(&mut again);
                prop_assert_eq!(&again, &all);
            }
        }
    }
}
