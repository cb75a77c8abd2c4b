//! An acceptor whose folder was set back to an earlier state, and answers that only look so.

use std::sync::Arc;

use super::super::world::name_of;
use crate::{
    Base, BlockId, Contact, Cut, Event, History, Limits, Order, Owner, Reply, Report, ShardId, Stage, StreamId, Term,
};

const STREAM: StreamId = StreamId(0);
const SHARD: ShardId = ShardId(1);

fn id(sequence: u64) -> BlockId {
    BlockId { term: Term::new(1).unwrap(), sequence }
}

fn history(last: u64) -> History {
    let mut history = History::default();
    (1..=last).for_each(|sequence| assert!(history.push(id(sequence))));
    history
}

/// An owner of three acceptors.
struct Led {
    owner: Owner,
    out: Vec<Event>,
}

impl Led {
    /// It leads, all have its start block, and it has made blocks up to this place.
    fn with(blocks: u64) -> Self {
        let (mut out, names) = (Vec::new(), [0, 1, 2].map(name_of).to_vec());
        let (key, known) = ((SHARD, id(0).term), vec![History::default()]);
        let owner = Owner::new(key, names, None, known, Limits { ring_bytes: 0, ..Limits::default() }, &mut out);
        let mut led = Self { owner, out };
        (0..3).for_each(|at| led.seals(at, 0));
        led.owner.begin(&[Cut(0)], &mut led.out).unwrap();
        (0..3).for_each(|at| led.acks(at, 1, 1));
        assert_eq!(led.owner.stage(), Stage::Leading);
        for sequence in 2..=blocks {
            led.owner.append(STREAM, Cut(sequence), Arc::from(*b"x"), &mut led.out).unwrap();
        }
        led
    }

    fn hears(&mut self, from: usize, report: Report) {
        let term = self.owner.term();
        self.owner.reply(name_of(from), Reply { shard: SHARD, term, report }, &mut self.out);
    }

    /// An acceptor answers a seal: it has blocks up to this place.
    fn seals(&mut self, from: usize, last: u64) {
        self.hears(from, Report::Sealed { histories: vec![history(last)] });
    }

    fn acks(&mut self, from: usize, written: u64, synced: u64) {
        self.hears(from, Report::Ack { stream: STREAM, written: id(written), synced: id(synced) });
    }

    /// The connection to an acceptor is made again.
    fn connects(&mut self, to: usize) {
        self.owner.lost(name_of(to), &mut self.out);
        self.owner.connected(name_of(to), &mut self.out);
    }

    fn synced(&self) -> u64 {
        self.owner.synced(STREAM)
    }

    fn contact(&self, of: usize) -> Contact {
        let standings = self.owner.standings();
        standings.iter().find(|standing| standing.acceptor == name_of(of)).unwrap().contact
    }

    /// Orders for an acceptor since the last call.
    fn orders(&mut self, of: usize) -> Vec<Order> {
        let order = |event| match event {
            Event::Send { to, request, .. } if to == name_of(of) => Some(request.order),
            _ => None,
        };
        std::mem::take(&mut self.out).into_iter().filter_map(order).collect()
    }
}

#[test]
fn an_acceptor_that_was_set_back_counts_for_nothing_and_is_brought_up() {
    let mut led = Led::with(3);
    led.acks(2, 3, 3);
    assert_eq!(led.synced(), 1, "one of three");
    led.connects(2);
    assert_eq!(led.contact(2), Contact::Silent);
    led.out.clear();
    led.seals(2, 2);
    assert_eq!(led.contact(2), Contact::SetBack);
    let orders = led.orders(2);
    assert!(matches!(&orders[..], [Order::Append { block, .. }] if block.id == id(3)), "{orders:?}");
    // Neither what it had, nor what it gets.
    led.acks(1, 3, 3);
    assert_eq!(led.synced(), 1);
    led.acks(2, 3, 3);
    assert_eq!(led.synced(), 1);
    led.acks(0, 2, 2);
    assert_eq!(led.synced(), 2, "those of the others count");
    assert_eq!(led.owner.silent().collect::<Vec<_>>(), [name_of(2)]);

    // Another connection, and another term of the same process, do not make it sound.
    led.connects(2);
    led.seals(2, 3);
    assert_eq!(led.contact(2), Contact::SetBack);
    let term = Term::new(2).unwrap();
    let names = [0, 1, 2].map(name_of).to_vec();
    led.owner = Owner::again(led.owner.clone(), term, names, None, &mut led.out).unwrap();
    led.seals(2, 3);
    led.seals(1, 3);
    assert_eq!(led.owner.stage(), Stage::Sealing, "it does not vote");
    led.seals(0, 2);
    assert_eq!(led.owner.stage(), Stage::Copying);
    assert_eq!(led.contact(2), Contact::SetBack);
    // A folder that takes its place is another acceptor.
    led.owner.follow(name_of(3), &mut led.out);
    assert_eq!(led.contact(3), Contact::Silent);
}

/// It is no source of old blocks either.
#[test]
fn nothing_is_read_from_an_acceptor_that_was_set_back() {
    let mut led = Led::with(3);
    for at in [1, 2] {
        led.acks(at, 3, 3);
    }
    led.owner.append(STREAM, Cut(4), Arc::from(*b"x"), &mut led.out).unwrap();
    for at in [1, 2] {
        led.acks(at, 4, 4);
    }
    led.connects(2);
    led.seals(2, 3);
    led.acks(2, 4, 4);
    led.owner.lost(name_of(1), &mut led.out);
    led.out.clear();
    led.connects(0);
    led.seals(0, 1);
    let all: Vec<Event> = std::mem::take(&mut led.out);
    let is_read =
        |event: &&Event| matches!(event, Event::Send { request, .. } if matches!(request.order, Order::Read { .. }));
    assert_eq!(all.iter().find(is_read), None);
}

#[test]
fn an_acceptor_that_has_all_that_it_acknowledged_counts() {
    // A tail that was written, and not synced: the power has failed.
    let mut led = Led::with(4);
    led.acks(2, 4, 2);
    led.connects(2);
    led.seals(2, 2);
    assert_eq!(led.contact(2), Contact::Follows);

    // Blocks that were cut: it begins where the log does, or even later than that.
    let mut led = Led::with(4);
    (0..3).for_each(|at| led.acks(at, 4, 4));
    let base = Base { id: id(3), cut: Cut(3) };
    let mut cut = history(4);
    assert!(cut.begin_at(base));
    led.connects(2);
    led.hears(2, Report::Sealed { histories: vec![cut.clone()] });
    assert_eq!(led.contact(2), Contact::Follows);
    led.owner.cut(STREAM, base, &mut led.out).unwrap();
    led.connects(2);
    led.hears(2, Report::Sealed { histories: vec![cut] });
    assert_eq!(led.contact(2), Contact::Follows);

    // One that was told to begin there, and has, or has not yet.
    led.connects(1);
    led.hears(1, Report::Sealed { histories: vec![History::new(base)] });
    assert_eq!(led.contact(1), Contact::SetBack, "it had the last block");
    let mut led = Led::with(4);
    for at in [0, 1] {
        led.acks(at, 4, 4);
    }
    led.owner.cut(STREAM, base, &mut led.out).unwrap();
    for last in [1, 3] {
        led.connects(2);
        let histories = vec![if last == 3 { History::new(base) } else { history(1) }];
        led.hears(2, Report::Sealed { histories });
        assert_eq!(led.contact(2), Contact::Follows, "up to {last}");
    }

    // Another term of the same process asks anew.
    let mut led = Led::with(4);
    led.acks(2, 4, 4);
    let (term, names) = (Term::new(2).unwrap(), [0, 1, 2].map(name_of).to_vec());
    led.owner = Owner::again(led.owner.clone(), term, names, None, &mut led.out).unwrap();
    led.seals(0, 4);
    led.seals(2, 4);
    led.owner.begin(&[Cut(4)], &mut led.out).unwrap();
    led.connects(2);
    led.seals(2, 4);
    assert_eq!(led.contact(2), Contact::Follows);
}
