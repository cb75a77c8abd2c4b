//! Acceptors that an owner brings up to the end of its log.

use std::sync::Arc;

use crate::{
    AcceptorId, Base, Block, BlockId, Cut, Event, History, Limits, Order, Owner, Reply, Report, Request, Run, ShardId,
    Stage, StreamId, Term,
};

const A: AcceptorId = AcceptorId([1; 16]);
const B: AcceptorId = AcceptorId([2; 16]);
const C: AcceptorId = AcceptorId([3; 16]);
const SHARD: ShardId = ShardId(1);
const STREAM: StreamId = StreamId(0);

fn term(number: u32) -> Term {
    Term::new(number).expect("a term")
}

fn id(of: u32, sequence: u64) -> BlockId {
    BlockId { term: term(of), sequence }
}

fn base(sequence: u64) -> Base {
    Base { id: id(1, sequence), cut: Cut(sequence) }
}

/// Blocks of the first term behind a base, up to the third one.
fn history(base: Base) -> History {
    let first = Run { first: base.id.sequence + 1, term: term(1) };
    History::from_runs(base, vec![first], 3).expect("a history")
}

fn block(sequence: u64) -> Block {
    Block { id: id(1, sequence), cut: Cut(sequence), is_start: false, body: Arc::from([0u8; 9]) }
}

struct Led {
    owner: Owner,
    sent: Vec<(AcceptorId, Order)>,
}

impl Led {
    fn hears(&mut self, from: AcceptorId, report: Report) {
        self.acts(|owner, out| owner.reply(from, Reply { shard: SHARD, term: term(2), report }, out));
    }

    fn acts(&mut self, act: impl FnOnce(&mut Owner, &mut Vec<Event>)) {
        let mut events = Vec::new();
        act(&mut self.owner, &mut events);
        for event in events {
            if let Event::Send { to, request: Request { order, .. }, .. } = event {
                self.sent.push((to, order));
            }
        }
    }

    /// The orders for an acceptor since the last look.
    fn orders(&mut self, to: AcceptorId) -> Vec<Order> {
        let (its, others) = std::mem::take(&mut self.sent).into_iter().partition(|(at, _)| *at == to);
        self.sent = others;
        its.into_iter().map(|(_, order)| order).collect()
    }
}

/// An owner leads with A and B, whose logs begin here and end alike.
fn led(bases: [Base; 2]) -> Led {
    let limits = Limits { ring_bytes: 0, ..Limits::default() };
    let mut sent = Vec::new();
    let owner = Owner::new((SHARD, term(2)), vec![A, B, C], None, vec![History::default()], limits, &mut sent);
    let mut led = Led { owner, sent: Vec::new() };
    for (from, base) in [A, B].into_iter().zip(bases) {
        led.hears(from, Report::Sealed { histories: vec![history(base)] });
    }
    let (read, source) = [A, B].into_iter().find_map(|at| Some((led.orders(at).pop()?, at))).expect("a read");
    let Order::Read { from, .. } = read else { panic!("{read:?}") };
    led.hears(source, Report::Blocks { stream: STREAM, blocks: (from..=3).map(block).collect() });
    led.acts(|owner, out| owner.begin(&[Cut(3)], out).expect("all blocks are here"));
    for from in [A, B] {
        led.hears(from, Report::Ack { stream: STREAM, written: id(2, 4), synced: id(2, 4) });
    }
    assert_eq!(led.owner.stage(), Stage::Leading);
    led
}

/// An owner whose store is lost may need what the other acceptors have cut.
#[test]
fn of_equal_logs_the_one_that_begins_first_is_taken() {
    let zero = Base::default();
    for bases in [[zero, base(2)], [base(2), zero]] {
        let led = led(bases);
        assert_eq!(led.owner.history(STREAM).expect("a stream").base(), zero);
    }
}

/// The only acceptor with the blocks that another one needs is gone, and the next cut may be far.
#[test]
fn an_acceptor_begins_where_the_others_do_if_nobody_has_what_it_needs() {
    let mut led = led([Base::default(), base(2)]);
    led.hears(C, Report::Sealed { histories: vec![History::default()] });
    let reads = led.orders(A);
    assert!(matches!(reads.last(), Some(Order::Read { from: 1, .. })), "{reads:?}");
    assert_eq!(led.orders(C), []);
    led.acts(|owner, out| owner.lost(A, out));
    assert_eq!(led.orders(C), [Order::Reset { stream: STREAM, base: base(2) }]);
    led.orders(B);
    led.hears(C, Report::Ack { stream: STREAM, written: id(1, 2), synced: id(1, 2) });
    let reads = led.orders(B);
    assert!(matches!(reads.last(), Some(Order::Read { from: 3, .. })), "{reads:?}");
}

/// Otherwise each of these answers lets another read follow, and no read is ever answered by its own answer.
#[test]
fn an_answer_to_another_read_asks_for_nothing() {
    const D: AcceptorId = AcceptorId([4; 16]);
    let mut led = led([Base::default(), base(2)]);
    led.hears(C, Report::Sealed { histories: vec![History::default()] });
    led.acts(|owner, out| owner.follow(D, out));
    let first = History::from_runs(Base::default(), vec![Run { first: 1, term: term(1) }], 1).expect("a history");
    led.hears(D, Report::Sealed { histories: vec![first] });
    let reads = led.orders(A);
    assert!(matches!(reads[..], [.., Order::Read { from: 1, .. }, Order::Read { from: 2, .. }]), "{reads:?}");
    let blocks = |which: &[u64]| Report::Blocks { stream: STREAM, blocks: which.iter().map(|at| block(*at)).collect() };
    // The first block is for C alone, which lacks the second one, too. D waits for its own answer.
    led.hears(A, blocks(&[1]));
    let reads = led.orders(A);
    assert!(matches!(reads[..], [Order::Read { from: 2, .. }]), "{reads:?}");
    for _ in 0..3 {
        led.hears(A, blocks(&[1]));
        assert_eq!(led.orders(A), [], "an old answer");
    }
    led.orders(C);
    led.hears(A, blocks(&[2]));
    for (at, name) in [(C, "C"), (D, "D")] {
        let orders = led.orders(at);
        let is_second = |order: &Order| matches!(order, Order::Append { block, .. } if block.id.sequence == 2);
        assert!(orders.iter().any(is_second), "{name}: {orders:?}");
    }
}
