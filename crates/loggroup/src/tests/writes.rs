//! Writes of several streams at once.

use std::sync::{Mutex, PoisonError};

use quorum::{BlockId, Order, Reply, Report, Request, StreamId};
use redolog::simulated::Simulated;

use super::made::{LIMITS, SHARD, by_hand, connected, lsn, record, start, term};
use crate::{Caller, Port};

/// A stream whose disk is slow has two writes under way, however many blocks have come: the threads of others stay free.
#[test]
fn a_slow_stream_leaves_threads_for_others() {
    let streams = (0..2).map(|_| Simulated::default()).collect();
    // All blocks fit into one segment: a full one waits for its writes.
    let limits = redolog::Limits { segment: 1 << 20, spares: 1, reserve: 0, block: 16 << 20 };
    let local = by_hand(streams, limits);
    let (caller, heard) = connected(&local);
    let send = |order| caller.send(Request { shard: SHARD, term: term(1), order });
    // Everything is done but writes past the cache, which are given back.
    let step = || {
        let mut writes = Vec::new();
        while let Some(job) = local.job(false) {
            writes.extend(local.carry_out(job));
        }
        writes
    };
    send(Order::Seal);
    assert!(step().is_empty());
    let append = |stream: StreamId, blocks: u64| {
        let mut before = BlockId::default();
        for count in 1..=blocks {
            let block = match count {
                1 => start(before, 1, lsn(stream, 0)),
                count => record(stream, before, 1, count, &[7; 900]),
            };
            let id = block.id;
            send(Order::Append { stream, before, committed: 0, through: true, block });
            before = id;
        }
        before
    };
    let last = [append(StreamId(0), 6), append(StreamId(1), 1)];
    let mut writes = step();
    assert_eq!(writes.len(), 3, "two of the stream with many blocks, and one of the other");
    while !writes.is_empty() {
        writes.into_iter().for_each(|write| assert!(local.carry_out(write).is_none()));
        writes = step();
        assert!(writes.len() <= 2);
    }
    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    for (stream, last) in (0..).map(StreamId).zip(last) {
        let is_last = |reply: &Reply| matches!(&reply.report, Report::Ack { stream: of, written, .. } if *of == stream && *written == last);
        assert!(heard.iter().any(is_last), "{stream:?}");
    }
}

/// An owner's first connection breaks, and its seal is taken behind that of the second one, by another thread. Without an
/// acknowledgement on the second one the owner would wait for ever.
#[test]
fn a_late_seal_of_an_earlier_connection_takes_no_reply() {
    let (local, stream) = (by_hand(vec![Simulated::default()], LIMITS), StreamId(0));
    let [(first, unheard), (second, heard)] = [(); 2].map(|()| connected(&local));
    let step = |caller: &Caller<Simulated>, order| {
        caller.send(Request { shard: SHARD, term: term(1), order });
        while let Some(job) = local.job(false) {
            let mut next = Some(job);
            while let Some(job) = next {
                next = local.carry_out(job);
            }
        }
    };
    step(&second, Order::Seal);
    step(&first, Order::Seal);
    let (before, block) = (BlockId::default(), start(BlockId::default(), 1, lsn(stream, 0)));
    let written = block.id;
    step(&second, Order::Append { stream, before, committed: 0, through: true, block });
    let lock = |of: &Mutex<Vec<Reply>>| of.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(lock(&unheard), []);
    let ack = Report::Ack { stream, written, synced: written };
    assert_eq!(lock(&heard).last().map(|reply| &reply.report), Some(&ack), "{:?}", lock(&heard));
}
