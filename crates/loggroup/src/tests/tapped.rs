//! A standby's reader, step by step; and what it costs.

use std::time::Instant;

use quorum::{Base, Block, BlockId, Cut, Order, Request, StreamId};
use redolog::simulated::Simulated;
use redolog::{Frame, Kind, Lsn, Record};

use super::made::{LIMITS, SHARD, by_hand, connected, lsn, record, start, term};
use crate::folder::name_of;
use crate::{Caller, Local, Port, Tap, TapEnded, TapStepped};

const STREAM: StreamId = StreamId(0);

/// An acceptor of one stream, and its owner's connection.
struct Story {
    local: Local<Simulated>,
    caller: Caller<Simulated>,
    last: BlockId,
}

impl Story {
    fn new() -> Self {
        let local = by_hand(vec![Simulated::default()], LIMITS);
        let (caller, _) = connected(&local);
        let story = Self { local, caller, last: BlockId::default() };
        story.send(1, Order::Seal);
        story
    }

    fn send(&self, of: u32, order: Order) {
        self.caller.send(Request { shard: SHARD, term: term(of), order });
        while let Some(job) = self.local.job(false) {
            let mut next = Some(job);
            while let Some(job) = next {
                next = self.local.carry_out(job);
            }
        }
    }

    fn append(&mut self, of: u32, block: Block) {
        let before = std::mem::replace(&mut self.last, block.id);
        self.send(of, Order::Append { stream: STREAM, before, committed: 0, through: true, block });
    }

    fn start(&mut self, of: u32, cut: Lsn) {
        self.append(of, start(self.last, of, cut));
    }

    /// A record of the term, whose effects are one byte.
    fn record(&mut self, of: u32, count: u64, effect: u8) {
        self.append(of, record(STREAM, self.last, of, count, &[effect]));
    }

    /// A block of so many records, each as large as that of a short SET.
    fn block(&mut self, records: u64, count: &mut u64) {
        let mut bytes = Vec::new();
        for _ in 0..records {
            *count += 1;
            Record::encode(lsn(STREAM, *count), &[], &[7; 60], &mut bytes);
        }
        let (id, cut) = (BlockId { term: term(1), sequence: self.last.sequence + 1 }, lsn(STREAM, *count));
        let (name, before, mut body) = (name_of(id), self.last.term.get(), Vec::new());
        let (kind, shard, stream, reach, sum) = (Kind::Records, SHARD.0, STREAM.0, cut, None);
        let frame = Frame { kind, shard, stream, name, before, cut, reach, body: &bytes, sum };
        frame.encode(&mut body).expect("a short one");
        self.append(1, Block { id, cut: Cut(cut.0), is_start: false, body: body.into() });
    }

    /// All blocks are committed.
    fn commit(&self, of: u32) {
        let (committed, after, quiet) = (self.last, 0, Cut(0));
        self.send(of, Order::Mark { stream: STREAM, committed, after, quiet });
    }

    fn tap(&self, applied: u64) -> Result<Tap<Simulated>, TapEnded> {
        let applied = Cut(lsn(STREAM, applied).0);
        self.local.tap(applied, applied)
    }
}

/// Steps until there is nothing to do. Returns what was applied.
fn follow(tap: &mut Tap<Simulated>) -> Result<Vec<(u64, u8)>, TapEnded> {
    let mut all = Vec::new();
    loop {
        let step = tap.step(&mut |records| {
            all.extend(records.iter().map(|record| (record.lsn.0 >> 4, record.effects[0])));
        })?;
        if step == TapStepped::Idle {
            return Ok(all);
        }
    }
}

#[test]
fn only_what_is_committed_is_applied_s1() {
    let mut story = Story::new();
    let mut tap = story.tap(0).unwrap_or_else(|why| panic!("{why}"));
    story.start(1, Lsn(0));
    story.record(1, 1, 10);
    assert_eq!(follow(&mut tap).unwrap(), [], "no majority has it, as far as is known");
    story.commit(1);
    story.record(1, 2, 20);
    assert_eq!(follow(&mut tap).unwrap(), [(1, 10)]);
    story.commit(1);
    drop(tap);
    let mut tap = story.tap(1).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(follow(&mut tap).unwrap(), [(2, 20)], "from the folder, behind what the store has");
    assert!(matches!(story.tap(1), Err(TapEnded::Taken)));
}

/// A start block voids a committed record that stood on something lost. Its LSN is given again.
#[test]
fn a_record_that_a_start_voids_is_not_applied() {
    let local = by_hand(vec![Simulated::default(), Simulated::default()], LIMITS);
    let (caller, _) = connected(&local);
    let other = StreamId(1);
    let work = || {
        while let Some(job) = local.job(false) {
            let mut next = Some(job);
            while let Some(job) = next {
                next = local.carry_out(job);
            }
        }
    };
    let send = |of, order| {
        caller.send(Request { shard: SHARD, term: term(of), order });
        work();
    };
    let mut last = [BlockId::default(); 2];
    let mut append = |of, stream: StreamId, block: Block| {
        let before = std::mem::replace(&mut last[usize::from(stream.0)], block.id);
        let committed = block.id;
        send(of, Order::Append { stream, before, committed: 0, through: true, block });
        send(of, Order::Mark { stream, committed, after: 0, quiet: Cut(0) });
        committed
    };
    send(1, Order::Seal);
    let mut tap = local.tap(Cut(0), Cut(0)).unwrap_or_else(|why| panic!("{why}"));
    let first = append(1, STREAM, start(BlockId::default(), 1, Lsn(0)));
    append(1, other, start(BlockId::default(), 1, Lsn(0)));
    let second = append(1, STREAM, record(STREAM, first, 1, 5, &[5]));
    let third = append(1, STREAM, record(STREAM, second, 1, 9, &[9]));
    assert_eq!(follow(&mut tap).unwrap(), [], "the other stream may bring a lower one");
    send(2, Order::Seal);
    let fourth = append(2, STREAM, start(third, 2, lsn(STREAM, 6)));
    append(2, other, start(BlockId { sequence: 1, ..first }, 2, Lsn(0)));
    let again = append(2, STREAM, record(STREAM, fourth, 2, 9, &[99]));
    let mark = |stream, committed: BlockId| Order::Mark {
        stream,
        committed,
        after: committed.sequence,
        quiet: Cut(lsn(STREAM, 50).0),
    };
    send(2, mark(STREAM, again));
    send(2, mark(other, BlockId { term: term(2), sequence: 2 }));
    assert_eq!(follow(&mut tap).unwrap(), [(5, 5), (9, 99)]);
}

/// The log gives up what a standby lacks: it has to begin anew. What it has may go.
#[test]
fn what_a_standby_lacks_is_a_gap() {
    let mut story = Story::new();
    story.start(1, Lsn(0));
    (1..=9).for_each(|count| story.record(1, count, count as u8));
    let mut tap = story.tap(4).unwrap_or_else(|why| panic!("{why}"));
    let base = |sequence: u64| Base { id: BlockId { term: term(1), sequence }, cut: Cut(lsn(STREAM, sequence - 1).0) };
    let cut = |sequence| Order::Cut { stream: STREAM, base: base(sequence) };
    story.send(1, cut(5));
    story.commit(1);
    assert_eq!(follow(&mut tap).unwrap().first(), Some(&(5, 5)));
    drop(tap);
    assert!(matches!(story.tap(3), Err(TapEnded::Gap)));
    let mut tap = story.tap(4).unwrap_or_else(|why| panic!("{why}"));
    story.send(1, cut(7));
    assert!(matches!(follow(&mut tap), Err(TapEnded::Gap)));
    drop(tap);

    let mut tap = story.tap(9).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(follow(&mut tap).unwrap(), []);
    story.send(1, Order::Reset { stream: STREAM, base: base(40) });
    assert!(matches!(follow(&mut tap), Err(TapEnded::Gap)), "another folder had these");
}

#[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
fn now() -> Instant {
    Instant::now()
}

/// Prints what a record of a SET costs the thread of the standby's reader, without its application: run it with
/// `cargo test --release -p loggroup -- --ignored --nocapture costs`.
#[test]
#[ignore = "prints a figure"]
fn what_a_record_costs() {
    for of_block in [1u64, 25, 1000] {
        let mut story = Story::new();
        let mut tap = story.tap(0).unwrap_or_else(|why| panic!("{why}"));
        story.start(1, Lsn(0));
        let (mut took, mut applied, mut count) = (Vec::new(), 0u64, 0u64);
        for _ in 0..200 {
            for _ in 0..16 {
                story.block(of_block, &mut count);
            }
            story.commit(1);
            let since = now();
            while tap.step(&mut |records| applied += records.len() as u64).unwrap() != TapStepped::Idle {}
            took.push(since.elapsed().as_nanos() / u128::from(16 * of_block));
        }
        assert_eq!(applied, count);
        // The median: others use the processors, too.
        took.sort_unstable();
        eprintln!("{of_block} records in a block: {} ns for each record", took[100]);
    }
}
