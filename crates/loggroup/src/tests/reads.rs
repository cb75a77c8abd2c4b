//! Reads of a copy's blocks.

use std::sync::{Arc, Mutex, PoisonError};

use quorum::{Block, BlockId, Order, Reply, Report, Request, StreamId};
use redolog::simulated::Simulated;

use super::made::{LIMITS, SHARD, by_hand, connected, lsn, record, start, term};
use crate::{Heard, Local, Port};

const STREAM: StreamId = StreamId(0);

/// A process that has no descriptor left reads later: its folder has not failed (rule G10).
#[test]
fn a_read_that_lacks_a_descriptor_is_tried_again() {
    let disk = Simulated::default();
    let local = by_hand(vec![disk.clone()], LIMITS);
    let (caller, heard) = connected(&local);
    let send = |order| {
        caller.send(Request { shard: SHARD, term: term(1), order });
    };
    let work = |again| {
        while let Some(job) = local.job(again) {
            let mut next = Some(job);
            while let Some(job) = next {
                next = local.carry_out(job);
            }
        }
    };
    let of_reads = || {
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        let sizes = heard.iter().filter_map(|reply| match &reply.report {
            Report::Blocks { blocks, .. } => Some(blocks.len()),
            Report::Failed => Some(0),
            _ => None,
        });
        sizes.collect::<Vec<_>>()
    };
    send(Order::Seal);
    work(false);
    let (first, committed, through) = (start(BlockId::default(), 1, lsn(STREAM, 0)), 0, true);
    let second = record(STREAM, first.id, 1, 2, &[7; 100]);
    for (before, block) in [(BlockId::default(), first.clone()), (first.id, second)] {
        send(Order::Append { stream: STREAM, before, committed, through, block });
    }
    work(false);

    disk.set_out_of_descriptors(true);
    send(Order::Read { stream: STREAM, from: 1, most: 8 });
    work(false);
    assert!(local.lacks() && of_reads().is_empty(), "{:?}", local.figures());
    disk.set_out_of_descriptors(false);
    assert!(local.job(false).is_none(), "it waits for a while");
    work(true);
    assert_eq!(of_reads(), [2]);
    assert!(!local.lacks() && local.figures().trouble.is_none());
}

/// A read has ended with the last block, and a life drops what follows. The block that comes in its place is read.
#[test]
fn a_read_gives_no_block_that_a_life_has_dropped() {
    let local = by_hand(vec![Simulated::default()], LIMITS);
    let (caller, heard) = connected(&local);
    let send = |of, order| {
        caller.send(Request { shard: SHARD, term: term(of), order });
        work(&local);
    };
    let append = |of, before: BlockId, block: &Block| {
        let block = block.clone();
        send(of, Order::Append { stream: STREAM, before, committed: 0, through: true, block });
    };
    let read = |of, from| {
        send(of, Order::Read { stream: STREAM, from, most: 8 });
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        let read = heard.iter().rev().find_map(|reply| match &reply.report {
            Report::Blocks { blocks, .. } => Some(blocks.clone()),
            _ => None,
        });
        read.unwrap_or_default()
    };
    send(1, Order::Seal);
    let first = start(BlockId::default(), 1, lsn(STREAM, 0));
    append(1, BlockId::default(), &first);
    assert_eq!(read(1, 1), std::slice::from_ref(&first));
    append(1, first.id, &record(STREAM, first.id, 1, 2, &[7; 100]));
    send(2, Order::Seal);
    let other = start(first.id, 2, lsn(STREAM, 0));
    append(2, first.id, &other);
    assert_eq!(read(2, 2), [other]);
}

/// An owner has another connection, and seals there. What was on its way by the one before changes nothing of where the
/// answer goes.
#[test]
fn a_late_order_does_not_take_the_answer_to_a_seal() {
    let local = by_hand(vec![Simulated::default()], LIMITS);
    let heard: Arc<Mutex<Vec<usize>>> = Arc::default();
    let [first, second] = [1, 2].map(|connection| {
        let ears = heard.clone();
        local.caller(Arc::new(move |_, what| {
            let is_answer = matches!(&what, Heard::Reply(Reply { report: Report::Sealed { .. }, .. }));
            ears.lock().unwrap_or_else(PoisonError::into_inner).extend(is_answer.then_some(connection));
        }))
    });
    let request = |order| Request { shard: SHARD, term: term(1), order };
    first.send(request(Order::Seal));
    work(&local);
    let block = start(BlockId::default(), 1, lsn(STREAM, 0));
    let append = Order::Append { stream: STREAM, before: BlockId::default(), committed: 0, through: true, block };
    // A write is under way, so the answer has to wait.
    first.send(request(append));
    second.send(request(Order::Seal));
    first.send(request(Order::Advance { stream: STREAM, committed: 1 }));
    work(&local);
    assert_eq!(*heard.lock().unwrap_or_else(PoisonError::into_inner), [1, 2]);
}

fn work(local: &Local<Simulated>) {
    while let Some(job) = local.job(false) {
        let mut next = Some(job);
        while let Some(job) = next {
            next = local.carry_out(job);
        }
    }
}
