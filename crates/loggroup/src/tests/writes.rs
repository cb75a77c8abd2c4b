//! Writes of several streams at once.

use std::sync::PoisonError;

use quorum::{BlockId, Order, Reply, Report, Request, StreamId};
use redolog::simulated::Simulated;

use super::made::{SHARD, by_hand, connected, lsn, record, start, term};
use crate::Port;

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
