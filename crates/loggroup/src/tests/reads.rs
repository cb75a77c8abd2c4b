//! Reads of a copy's blocks.

use std::sync::{Arc, Mutex, PoisonError};

use quorum::{BlockId, Order, Reply, Report, Request, StreamId};
use redolog::simulated::Simulated;

use super::made::{LIMITS, SHARD, lsn, record, start, term};
use crate::folder::{Folder, Place};
use crate::{Heard, Local, Port};

const STREAM: StreamId = StreamId(0);

/// A process that has no descriptor left reads later: its folder has not failed (rule G10).
#[test]
fn a_read_that_lacks_a_descriptor_is_tried_again() {
    let disk = Simulated::default();
    let place = Place { own: Simulated::default(), streams: vec![disk.clone()], locks: Vec::new() };
    let folder = Folder::make(place, SHARD, quorum::AcceptorId([1; 16]), LIMITS).unwrap_or_else(|why| panic!("{why}"));
    let local = Local::by_hand(folder).unwrap_or_else(|why| panic!("{why}"));
    let heard: Arc<Mutex<Vec<Reply>>> = Arc::default();
    let ears = heard.clone();
    let caller = local.caller(Arc::new(move |_, what| {
        if let Heard::Reply(reply) = what {
            ears.lock().unwrap_or_else(PoisonError::into_inner).push(reply);
        }
    }));
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
