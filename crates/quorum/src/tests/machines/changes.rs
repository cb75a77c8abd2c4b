//! Owners with acceptors that do not count, or not yet.

use std::sync::Arc;

use super::super::world::name_of;
use crate::{Block, BlockId, Cut, Event, History, Limits, Order, Owner, Reply, Report, ShardId, Stage, StreamId, Term};

const STREAM: StreamId = StreamId(0);

/// A lone log gets copies. What the settled set has is not read into memory for them, and does not stay there.
#[test]
fn a_log_that_gets_copies_does_not_stay_in_memory() {
    let (shard, term, mut out) = (ShardId(1), Term::new(2).unwrap(), Vec::new());
    let mut history = History::default();
    (1..=50).for_each(|sequence| assert!(history.push(BlockId { term: Term::new(1).unwrap(), sequence })));
    let limits = Limits { ring_bytes: 1000, read_blocks: 4, ..Limits::default() };
    let pending = Some(vec![name_of(0), name_of(1), name_of(2)]);
    let begin = |known: &History, out: &mut Vec<Event>| {
        let mut owner = Owner::new((shard, term), vec![name_of(0)], pending.clone(), vec![known.clone()], limits, out);
        for (from, history) in [(0, history.clone()), (1, History::default()), (2, History::default())] {
            owner.reply(name_of(from), Reply { shard, term, report: Report::Sealed { histories: vec![history] } }, out);
        }
        owner
    };
    let owner = begin(&history, &mut out);
    assert_eq!(owner.stage(), Stage::Copying, "the own folder has all");
    // A caller that knows nothing of it reads it, and keeps no more than the ring has.
    let mut owner = begin(&History::default(), &mut out);
    assert_eq!(owner.stage(), Stage::Fetching);
    let block = |sequence| {
        let id = BlockId { term: Term::new(1).unwrap(), sequence };
        Block { id, cut: Cut(sequence), is_start: false, body: Arc::from([7; 200]) }
    };
    for from in (1..=50).step_by(4) {
        let blocks = (from..=50.min(from + 3)).map(block).collect();
        owner.reply(name_of(0), Reply { shard, term, report: Report::Blocks { stream: STREAM, blocks } }, &mut out);
    }
    assert_eq!(owner.stage(), Stage::Copying);
    assert!(owner.uncommitted_bytes() < 1500, "{}", owner.uncommitted_bytes());
    // The new ones get it from the folder that has it.
    let is_read = |event: &Event| match event {
        Event::Send { to, request, .. } => *to == name_of(0) && matches!(request.order, Order::Read { from: 1, .. }),
        _ => false,
    };
    out.clear();
    owner.connected(name_of(1), &mut out);
    let report = Report::Sealed { histories: vec![History::default()] };
    owner.reply(name_of(1), Reply { shard, term, report }, &mut out);
    assert!(out.iter().any(is_read), "{out:?}");
}

/// A folder that counts for nothing may be of another time or another cluster: its terms and its log are not heeded.
#[test]
fn an_uncounted_acceptor_neither_fences_nor_is_chosen() {
    let of_term = |number, last| {
        let mut history = History::default();
        (1..=last).for_each(|sequence| {
            assert!(history.push(BlockId { term: Term::new(number).unwrap(), sequence }));
        });
        Report::Sealed { histories: vec![history] }
    };
    let (shard, term, limits, mut out) = (ShardId(1), Term::new(5).unwrap(), Limits::default(), Vec::new());
    let of = vec![name_of(0), name_of(1), name_of(2)];
    let new = |out: &mut Vec<Event>| {
        let mut owner = Owner::new((shard, term), of.clone(), None, vec![History::default()], limits, out);
        owner.follow(name_of(3), out);
        owner
    };
    let mut owner = new(&mut out);
    let tell = |owner: &mut Owner, from: usize, report: Report, out: &mut Vec<Event>| {
        owner.reply(name_of(from), Reply { shard, term, report }, out);
    };
    tell(&mut owner, 3, of_term(4, 9), &mut out);
    (0..2).for_each(|from| tell(&mut owner, from, of_term(3, 2), &mut out));
    assert_eq!(owner.history(STREAM).unwrap().last(), BlockId { term: Term::new(3).unwrap(), sequence: 2 });
    let is_read = |event: &Event| match event {
        Event::Send { to, request, .. } => *to == name_of(3) && matches!(request.order, Order::Read { .. }),
        _ => false,
    };
    assert!(!out.iter().any(is_read), "{out:?}");
    // Nor does it end the term, whether it has promised a later one or has its blocks.
    tell(&mut owner, 3, Report::Refused { promised: Term::new(9).unwrap() }, &mut out);
    tell(&mut owner, 3, of_term(9, 1), &mut out);
    assert_eq!(owner.stage(), Stage::Fetching);
    assert!(owner.silent().any(|silent| silent == name_of(3)));
    // The own folder is heeded, whether it counts or not.
    let mut owner = new(&mut out);
    owner.wait_for(name_of(3));
    (0..2).for_each(|from| tell(&mut owner, from, of_term(3, 2), &mut out));
    tell(&mut owner, 3, of_term(4, 9), &mut out);
    assert_eq!(owner.history(STREAM).unwrap().last().sequence, 9);
    tell(&mut owner, 0, Report::Refused { promised: Term::new(9).unwrap() }, &mut out);
    assert_eq!(owner.stage(), Stage::Fenced);
}
