//! Room for another block: it depends on those acceptors that a majority needs.

use std::sync::Arc;

use super::super::walk::Dice;
use super::super::world::name_of;
use crate::{
    BlockId, Cut, Event, History, Limits, Order, Owner, Reply, Report, Request, ShardId, Stage, StreamId, Term,
};

const STREAM: StreamId = StreamId(0);
const WINDOW: u64 = 3;

/// An owner whose acceptors answer when the test wants it.
struct Windows {
    owner: Owner,
    /// The last block that each acceptor was sent, and the last one that it has.
    sent: Vec<u64>,
    has: Vec<u64>,
    last: u64,
}

impl Windows {
    fn new(settled: &[usize], pending: Option<&[usize]>) -> Self {
        let names = |set: &[usize]| set.iter().map(|at| name_of(*at)).collect::<Vec<_>>();
        let (of, known) = ((ShardId(1), Term::new(1).unwrap()), vec![History::default()]);
        let limits = Limits { window_blocks: WINDOW, ..Limits::default() };
        let owner = Owner::new(of, names(settled), pending.map(names), known, limits, &mut Vec::new());
        let all = settled.iter().chain(pending.into_iter().flatten()).max().unwrap() + 1;
        let mut windows = Self { owner, sent: vec![0; all], has: vec![0; all], last: 1 };
        (0..all).for_each(|at| windows.tell(at, Report::Sealed { histories: vec![History::default()] }));
        assert!(windows.owner.has_room(STREAM) && windows.owner.ahead(STREAM) == 0, "nothing is appended yet");
        let mut out = Vec::new();
        windows.owner.begin(&[Cut(1)], &mut out).unwrap();
        windows.note(out);
        (0..all).for_each(|at| windows.answer(at));
        assert_eq!(windows.owner.stage(), Stage::Leading);
        windows
    }

    fn tell(&mut self, at: usize, report: Report) {
        let (shard, term, mut out) = (ShardId(1), Term::new(1).unwrap(), Vec::new());
        self.owner.reply(name_of(at), Reply { shard, term, report }, &mut out);
        self.note(out);
    }

    fn note(&mut self, out: Vec<Event>) {
        for event in out {
            if let Event::Send { to, request: Request { order: Order::Append { block, .. }, .. }, .. } = event {
                let at = usize::from(to.0[0]);
                assert_eq!(block.id.sequence, self.sent[at] + 1, "each once, in order");
                self.sent[at] = block.id.sequence;
            }
        }
    }

    /// An acceptor has written the next block that it was sent.
    fn answer(&mut self, at: usize) {
        if self.has[at] < self.sent[at] {
            self.has[at] += 1;
            let id = BlockId { term: Term::new(1).unwrap(), sequence: self.has[at] };
            self.tell(at, Report::Ack { stream: STREAM, written: id, synced: id });
        }
    }

    fn append(&mut self) {
        let mut out = Vec::new();
        self.owner.append(STREAM, Cut(9), Arc::default(), &mut out).unwrap();
        self.last += 1;
        self.note(out);
    }

    /// How many blocks too few of a set have, as its numbers say.
    fn ahead_of(&self, set: &[usize]) -> u64 {
        let is_held = |block: &u64| set.iter().filter(|at| self.has[**at] >= *block).count() * 2 > set.len();
        (1..=self.last).filter(|block| !is_held(block)).count() as u64
    }
}

#[test]
fn one_slow_acceptor_of_three_takes_no_room_away() {
    let mut windows = Windows::new(&[0, 1, 2], None);
    for _ in 0..50 {
        windows.append();
        windows.answer(0);
        windows.answer(1);
        assert_eq!((windows.owner.ahead(STREAM), windows.owner.has_room(STREAM)), (0, true));
    }
    assert_eq!(windows.sent[2] - windows.has[2], WINDOW, "its own window is full");
    // Now it is needed: the stream waits until it has what the lost one had.
    windows.owner.lost(name_of(1), &mut Vec::new());
    for _ in 0..WINDOW {
        assert!(windows.owner.has_room(STREAM));
        windows.append();
        windows.answer(0);
    }
    assert!(!windows.owner.has_room(STREAM));
    (0..60).for_each(|_| windows.answer(2));
    assert_eq!((windows.has[2], windows.owner.ahead(STREAM), windows.owner.has_room(STREAM)), (windows.last, 0, true));
}

#[test]
fn a_majority_without_room_takes_it_away() {
    let mut windows = Windows::new(&[0, 1, 2], None);
    for blocks in 1..=WINDOW {
        assert!(windows.owner.has_room(STREAM));
        windows.append();
        windows.answer(0);
        assert_eq!(windows.owner.ahead(STREAM), blocks);
    }
    assert!(!windows.owner.has_room(STREAM));
    assert!(windows.owner.has_room(StreamId(9)), "there is none");
    windows.answer(2);
    assert!(windows.owner.has_room(STREAM));
}

#[test]
fn an_acceptor_that_comes_in_counts_as_well() {
    let mut windows = Windows::new(&[0], Some(&[0, 1]));
    (0..WINDOW).for_each(|_| windows.append());
    (0..WINDOW).for_each(|_| windows.answer(0));
    assert!(!windows.owner.has_room(STREAM), "the new majority lacks them");
    windows.owner.settled(&mut Vec::new());
    (0..WINDOW).for_each(|_| windows.answer(1));
    assert_eq!(windows.owner.ahead(STREAM), 0);
}

/// An owner that is heeded sends each block at once to as many as a majority needs. Nothing waits for ever.
#[test]
fn blocks_that_have_room_go_to_a_majority_at_once() {
    let (mut appended, mut held_back) = (0, 0);
    for seed in 0..400 {
        let mut dice = Dice::new(seed);
        let count = 1 + dice.below(5) as usize;
        let settled: Vec<usize> = (0..count).collect();
        let shifted: Vec<usize> = (0..count).map(|at| at + 1).collect();
        let pending = (dice.below(3) == 0).then_some(&shifted[..]);
        let mut windows = Windows::new(&settled, pending);
        let sets = || [&settled[..]].into_iter().chain(pending);
        // Some answer seldom, and a minority may answer never.
        let pace: Vec<u64> = windows.has.iter().map(|_| 1 + dice.below(9)).collect();
        for _ in 0..200 {
            let ahead = sets().map(|set| windows.ahead_of(set)).max().unwrap();
            assert_eq!((windows.owner.ahead(STREAM), windows.owner.has_room(STREAM)), (ahead, ahead < WINDOW));
            if dice.below(2) == 0 {
                if windows.owner.has_room(STREAM) {
                    windows.append();
                    appended += 1;
                    let is_sent = |set: &[usize]| set.iter().filter(|at| windows.sent[**at] == windows.last).count();
                    assert!(sets().all(|set| is_sent(set) * 2 > set.len()), "seed {seed}");
                } else {
                    held_back += 1;
                }
            } else {
                let at = dice.below(pace.len() as u64) as usize;
                if dice.below(pace[at]) == 0 {
                    windows.answer(at);
                }
            }
        }
        // A majority of each set answers.
        for _ in 0..=windows.last {
            sets().for_each(|set| set.iter().take(set.len() / 2 + 1).for_each(|at| windows.answer(*at)));
        }
        assert_eq!((windows.owner.ahead(STREAM), windows.owner.has_room(STREAM)), (0, true));
    }
    assert!(appended > 1000 && held_back > 1000, "{appended} {held_back}");
}
