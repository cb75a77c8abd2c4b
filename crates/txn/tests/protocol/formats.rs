//! Bytes of messages and records: as documented in docs/formats.md, and safe to read whatever they are.

use std::sync::Arc;

use clocks::UnixMs;
use proptest::collection::vec;
use proptest::prelude::*;
use txn::locks::Mode;
use txn::{
    HybridTime, Life, Lock, Member, Message, NodeId, Origin, ParticipantId, Prepare, Prepared, Record, Refusal, Stamp,
    Status, TxnId,
};

fn bytes(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    assert_eq!(Message::decode(&out).as_ref(), Ok(message));
    out
}

fn record_bytes(record: &Record) -> Vec<u8> {
    let mut out = Vec::new();
    record.encode(&mut out);
    assert_eq!(Record::decode(&out).as_ref(), Ok(record));
    out
}

fn life(node: u64, incarnation: u64) -> Life {
    Life { node: NodeId(node), incarnation }
}

fn member(node: u64, incarnation: u64) -> Member {
    Member { id: ParticipantId(node), incarnation }
}

const TX: &[u8] = &[
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // node
    0x03, // incarnation
    0x01, // lane
    0xac, 0x02, // sequence
    0x02, // attempt
];

fn tx() -> TxnId {
    let origin = Origin { life: life(0x1122_3344_5566_7788, 3), lane: 1 };
    TxnId { origin, sequence: 300, attempt: 2 }
}

fn locks() -> Arc<[Lock]> {
    let lock = |db, key: &[u8], mode| Lock { db, key: key.into(), mode };
    Lock::normalized(vec![lock(1, b"b", Mode::Shared), lock(0, b"key", Mode::Shared), lock(0, b"key", Mode::Exclusive)])
}

const STAMP: &[u8] = &[
    0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, // time
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // node
    0x01, // lane
];

fn stamp() -> Stamp {
    Stamp { time: HybridTime(0x0102_0304_0506_0708), node: NodeId(0x1122_3344_5566_7788), lane: 1 }
}

const MEMBERS: &[u8] = &[
    0x02, // two
    0x05, 0, 0, 0, 0, 0, 0, 0, 0x07, // node 5 in its 7th life
    0x06, 0, 0, 0, 0, 0, 0, 0, 0x01, // node 6 in its first
];

const LOCKS: &[u8] = &[
    0x02, // two
    0x01, 0x03, b'k', b'e', b'y', // database 0, exclusive
    0x02, 0x01, b'b', // database 1, shared
];

const MOMENT: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8];

fn golden(head: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    [head, &parts.concat()].concat()
}

#[test]
fn messages() {
    let prepare = Prepare {
        tx: tx(),
        stamp: stamp(),
        members: Arc::new([member(5, 7), member(6, 1)]),
        locks: locks(),
        commands: Arc::new(*b"SET"),
        logged: true,
        patient: false,
        finished: 299,
        moment: UnixMs(0x0807_0605_0403_0201),
    };
    let expected = golden(&[3, 1], &[TX, STAMP, MEMBERS, LOCKS, b"\x03SET", &[1, 0xab, 0x02], MOMENT]);
    assert_eq!(bytes(&Message::Prepare(Arc::new(prepare.clone()))), expected);
    let patient = Prepare { patient: true, ..prepare.clone() };
    let patiently = golden(&[3, 1], &[TX, STAMP, MEMBERS, LOCKS, b"\x03SET", &[3, 0xab, 0x02], MOMENT]);
    assert_eq!(bytes(&Message::Prepare(Arc::new(patient))), patiently);
    let fetch = golden(&[3, 10], &[&expected[2..]]);
    assert_eq!(bytes(&Message::Fetch(Arc::new(prepare))), fetch);
    let found = Arc::from(*b"image");
    let fetched = Message::Fetched { tx: tx(), round: 300, found };
    assert_eq!(bytes(&fetched), golden(&[3, 11], &[TX, b"\xac\x02\x05image"]));
    let commands = Arc::from(*b"effects");
    let members = Arc::from([member(5, 7), member(6, 1)]);
    let proceed = Message::Proceed { tx: tx(), members, logged: true, commands };
    assert_eq!(bytes(&proceed), golden(&[3, 12], &[TX, MEMBERS, b"\x01\x07effects"]));
    let widen = Message::Widen { tx: tx(), round: 300, locks: locks() };
    assert_eq!(bytes(&widen), golden(&[3, 16], &[TX, &[0xac, 0x02], LOCKS]));
    assert_eq!(bytes(&Message::Hold { tx: tx() }), golden(&[3, 13], &[TX]));
    let replies = Some(Arc::from(*b"+OK"));
    assert_eq!(bytes(&Message::Prepared { tx: tx(), replies }), golden(&[3, 2], &[TX, b"\x01\x03+OK"]));
    assert_eq!(bytes(&Message::Prepared { tx: tx(), replies: None }), golden(&[3, 2], &[TX, &[0]]));
    let refusals = [Refusal::Conflict, Refusal::Stale, Refusal::Over, Refusal::Moved, Refusal::Changed];
    for (why, number) in refusals.into_iter().zip(1..) {
        assert_eq!(bytes(&Message::Refused { tx: tx(), why }), golden(&[3, 3], &[TX, &[number]]));
    }
    let why = Refusal::Failed((*b"no").into());
    assert_eq!(bytes(&Message::Refused { tx: tx(), why }), golden(&[3, 3], &[TX, b"\x06\x02no"]));
    let clock = |ends| Refusal::Untimely { now: UnixMs(0x0807_0605_0403_0201), ends };
    let late = golden(&[3, 3], &[TX, &[7], MOMENT, &[0]]);
    assert_eq!(bytes(&Message::Refused { tx: tx(), why: clock(None) }), late);
    let early = golden(&[3, 3], &[TX, &[7], MOMENT, &[1, 5, 0, 0, 0, 0, 0, 0, 0]]);
    assert_eq!(bytes(&Message::Refused { tx: tx(), why: clock(Some(UnixMs(5))) }), early);
    assert_eq!(bytes(&Message::Commit { tx: tx(), finished: 5 }), golden(&[3, 4], &[TX, &[5]]));
    assert_eq!(bytes(&Message::Abort { tx: tx(), finished: 5 }), golden(&[3, 5], &[TX, &[5]]));
    assert_eq!(bytes(&Message::Acknowledged { tx: tx() }), golden(&[3, 6], &[TX]));
    assert_eq!(bytes(&Message::Inquire { tx: tx(), incarnation: 7 }), golden(&[3, 7], &[TX, &[7]]));
    let statuses = [Status::Pending, Status::Prepared, Status::Refused, Status::Committed, Status::Aborted];
    for (status, number) in statuses.into_iter().zip(1..) {
        assert_eq!(bytes(&Message::Status { tx: tx(), status }), golden(&[3, 8], &[TX, &[number]]));
    }
    let bereft = Status::Bereft { lost: 300 };
    assert_eq!(bytes(&Message::Status { tx: tx(), status: bereft }), golden(&[3, 8], &[TX, &[6, 0xac, 0x02]]));
    assert_eq!(bytes(&Message::Leave { tx: tx() }), golden(&[3, 14], &[TX]));
    for function in [false, true] {
        assert_eq!(bytes(&Message::Slow { tx: tx(), function }), golden(&[3, 15], &[TX, &[u8::from(function)]]));
    }
    assert_eq!(bytes(&Message::CallOff { tx: tx() }), golden(&[3, 17], &[TX]));
    assert_eq!(bytes(&Message::Stuck { tx: tx() }), golden(&[3, 18], &[TX]));
    let origin = tx().origin;
    assert_eq!(bytes(&Message::Finished { origin, below: 301 }), golden(&[3, 9], &[&TX[..10], &[0xad, 0x02]]));
}

#[test]
fn records() {
    let members: Arc<[Member]> = Arc::new([member(5, 7), member(6, 1)]);
    let prepared = Prepared {
        tx: tx(),
        stamp: stamp(),
        members: Arc::clone(&members),
        locks: locks(),
        effects: Arc::new([16, 0, 1, 2]),
    };
    let expected = golden(&[1, 1], &[TX, STAMP, MEMBERS, LOCKS, &[4, 16, 0, 1, 2]]);
    assert_eq!(record_bytes(&Record::Prepare(Arc::new(prepared))), expected);
    assert_eq!(record_bytes(&Record::Commit { tx: tx(), members }), golden(&[1, 2], &[TX, MEMBERS]));
    assert_eq!(record_bytes(&Record::Abort { tx: tx() }), golden(&[1, 3], &[TX]));
    assert_eq!(record_bytes(&Record::Refuse { tx: tx() }), golden(&[1, 4], &[TX]));
}

#[test]
fn what_nobody_writes_is_refused() {
    let commit = golden(&[3, 4], &[TX, &[5]]);
    for short in 0..commit.len() {
        assert!(Message::decode(&commit[..short]).is_err());
    }
    assert!(Message::decode(&golden(&commit, &[&[0]])).is_err(), "more than there should be");
    assert!(Message::decode(&golden(&[2, 4], &[TX, &[5]])).is_err(), "another version");
    assert!(Record::decode(&golden(&[2, 3], &[TX])).is_err(), "another version");
    assert!(Message::decode(&golden(&[3, 99], &[TX])).is_err(), "another kind");
    let swapped = [&[0x02][..], &MEMBERS[10..], &MEMBERS[1..10]].concat();
    assert!(Record::decode(&golden(&[1, 2], &[TX, &swapped])).is_err(), "participants out of order");
    let twice = [&[0x02][..], &MEMBERS[1..10], &MEMBERS[1..10]].concat();
    assert!(Record::decode(&golden(&[1, 2], &[TX, &twice])).is_err(), "a participant twice");
    let many = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    assert!(Record::decode(&golden(&[1, 2], &[TX, &many])).is_err(), "more participants than bytes");
    let long = [0xff; 10];
    assert!(Message::decode(&golden(&[3, 4], &[TX, &long])).is_err(), "more than 64 bits");
}

proptest! {
    #[test]
    fn no_bytes_panic(version in 1u8..4, kind in 0u8..18, bytes in vec(any::<u8>(), 0..200)) {
        let all = [&[version, kind][..], &bytes].concat();
        for bytes in [&all, &bytes] {
            if let Ok(message) = Message::decode(bytes) {
                let mut again = Vec::new();
                message.encode(&mut again);
                prop_assert_eq!(Message::decode(&again), Ok(message));
            }
            if let Ok(record) = Record::decode(bytes) {
                let mut again = Vec::new();
                record.encode(&mut again);
                prop_assert_eq!(Record::decode(&again), Ok(record));
            }
        }
    }

    #[test]
    fn no_damage_panics(at in 0usize..120, byte: u8, cut in 0usize..120) {
        let mut bytes = golden(&[3, 1], &[TX, STAMP, MEMBERS, LOCKS, b"\x03SET", &[1, 0xab, 0x02], MOMENT]);
        let length = bytes.len();
        bytes[at % length] = byte;
        bytes.truncate(cut.max(1));
        let _ = Message::decode(&bytes);
        bytes[0] = 1;
        let _ = Record::decode(&bytes);
    }
}
