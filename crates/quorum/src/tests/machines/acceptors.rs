//! An acceptor, whose disk the test is.

use std::sync::Arc;

use crate::{
    Acceptor, Base, Block, BlockId, Cut, Done, FolderLife, Found, History, Keep, Op, Order, Output, Reply, Report,
    Request, ShardId, StreamId, Term,
};

const SHARD: ShardId = ShardId(7);
const STREAM: StreamId = StreamId(0);

fn term(number: u32) -> Term {
    Term::new(number).expect("a term")
}

fn id(number: u32, sequence: u64) -> BlockId {
    BlockId { term: term(number), sequence }
}

struct Tester {
    acceptor: Acceptor,
    out: Vec<Output>,
}

impl Tester {
    /// One that has promised a term, over a stream with blocks of these terms. Its start is over.
    fn new(promised: u32, terms: &[u32]) -> Self {
        let mut tester = Self::started(promised, terms);
        let ops = tester.ops();
        assert_eq!(ops.len(), 2);
        tester.done(Done::Promised(term(promised)));
        tester.done(Done::Begun { stream: STREAM, life: FolderLife(4) });
        assert_eq!(
            tester.acknowledged(),
            [terms.last().map_or(BlockId::default(), |number| id(*number, terms.len() as u64))]
        );
        tester
    }

    fn started(promised: u32, terms: &[u32]) -> Self {
        let mut history = History::default();
        terms.iter().zip(1..).for_each(|(term, sequence)| assert!(history.push(id(*term, sequence))));
        let mut out = Vec::new();
        let found = vec![Found { life: FolderLife(3), history }];
        let acceptor = Acceptor::open(SHARD, term(promised), found, &mut out);
        Self { acceptor, out }
    }

    fn order(&mut self, number: u32, order: Order) {
        self.acceptor.request(Request { shard: SHARD, term: term(number), order }, &mut self.out);
    }

    fn append(&mut self, number: u32, before: BlockId, block: BlockId) {
        let block = Block { id: block, cut: Cut(block.sequence), is_start: false, body: Arc::from(*b"x") };
        self.order(number, Order::Append { stream: STREAM, before, committed: 0, through: true, block });
    }

    fn done(&mut self, done: Done) {
        self.acceptor.done(done, &mut self.out);
    }

    fn written(&mut self, life: u64, sequence: u64) {
        self.done(Done::Written { stream: STREAM, life: FolderLife(life), sequence });
    }

    fn ops(&mut self) -> Vec<Op> {
        let ops = self.out.iter().filter_map(|out| if let Output::Disk(op) = out { Some(op.clone()) } else { None });
        let ops = ops.collect();
        self.out.retain(|out| matches!(out, Output::Reply(_)));
        ops
    }

    fn reports(&mut self) -> Vec<(u32, Report)> {
        let replies = std::mem::take(&mut self.out).into_iter().map(|out| match out {
            Output::Reply(Reply { term, report, .. }) => (term.get(), report),
            Output::Disk(op) => panic!("{op:?}"),
        });
        replies.collect()
    }

    /// The last block that an acknowledgement says to be on the disk.
    fn acknowledged(&mut self) -> Vec<BlockId> {
        let synced = |(_, report)| if let Report::Ack { synced, .. } = report { Some(synced) } else { None };
        self.reports().into_iter().filter_map(synced).collect()
    }
}

/// Rule G2: the promise, and all that was under way, is on the disk before the answer.
#[test]
fn a_seal_waits_for_the_promise_and_for_writes() {
    let mut tester = Tester::new(1, &[1]);
    tester.append(1, id(1, 1), id(1, 2));
    assert!(matches!(tester.ops()[..], [Op::Write { .. }]));
    tester.order(2, Order::Seal);
    assert_eq!(tester.ops(), [Op::Promise(term(2))]);
    tester.done(Done::Promised(term(2)));
    assert_eq!(tester.reports(), [], "a write is under way");
    tester.written(4, 2);
    let reports = tester.reports();
    let [(2, Report::Sealed { histories })] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!(histories[0].last(), id(1, 2));

    let mut tester = Tester::new(1, &[1]);
    tester.append(1, id(1, 1), id(1, 2));
    tester.order(2, Order::Seal);
    tester.ops();
    tester.written(4, 2);
    assert_eq!(tester.reports(), [], "nobody is told of what lands after a promise");
    tester.done(Done::Promised(term(2)));
    assert_eq!(tester.reports().len(), 1);
}

#[test]
fn a_seal_syncs_what_the_cache_has() {
    let mut tester = Tester::new(1, &[1]);
    let block = Block { id: id(1, 2), cut: Cut(2), is_start: false, body: Arc::from(*b"x") };
    tester.order(1, Order::Append { stream: STREAM, before: id(1, 1), committed: 0, through: false, block });
    tester.ops();
    tester.written(4, 2);
    let ack = Report::Ack { stream: STREAM, written: id(1, 2), synced: id(1, 1) };
    assert_eq!(tester.reports(), [(1, ack)]);
    tester.order(2, Order::Seal);
    let sync = Op::Sync { stream: STREAM, life: FolderLife(4), upto: 2 };
    assert_eq!(tester.ops(), [Op::Promise(term(2)), sync]);
    tester.done(Done::Promised(term(2)));
    assert_eq!(tester.reports(), []);
    tester.done(Done::Synced { stream: STREAM, life: FolderLife(4), upto: 2 });
    assert!(matches!(tester.reports()[..], [(2, Report::Sealed { .. })]));
}

/// Rule G2: whatever the order is.
#[test]
fn lower_terms_are_refused() {
    let mut tester = Tester::new(3, &[1, 1]);
    let base = Base { id: id(1, 1), cut: Cut(1) };
    tester.append(2, id(1, 2), id(2, 3));
    tester.order(2, Order::Seal);
    tester.order(2, Order::Cut { stream: STREAM, base });
    tester.order(2, Order::Reset { stream: STREAM, base: Base { id: id(2, 9), cut: Cut(9) } });
    tester.order(2, Order::Read { stream: STREAM, from: 1, most: 1 });
    tester.order(2, Order::Advance { stream: STREAM, committed: 2 });
    let refused = (2, Report::Refused { promised: term(3) });
    assert_eq!(tester.reports(), vec![refused; 6]);
    assert_eq!(tester.acceptor.committed(STREAM), Some(0));
    tester.append(4, id(1, 2), id(4, 3));
    assert_eq!(tester.reports(), [(4, Report::Refused { promised: term(3) })], "a higher one seals first");
}

/// Rule G3: what is there stays, and what is in the way goes. A drop waits for what is kept, and begins a life.
#[test]
fn blocks_follow_the_block_that_they_name() {
    let mut tester = Tester::new(3, &[1, 1, 2, 2]);
    tester.append(3, id(1, 1), id(1, 2));
    assert_eq!(tester.acknowledged(), [id(2, 4)], "it is there, and nothing behind it is touched");
    tester.append(3, id(2, 5), id(3, 6));
    tester.append(3, id(3, 4), id(3, 5));
    let missed = (3, Report::Missed { stream: STREAM, last: id(2, 4) });
    assert_eq!(tester.reports(), [missed.clone(), missed]);
    tester.append(3, id(1, 2), id(3, 3));
    tester.append(3, id(3, 3), id(3, 4));
    let begin = Op::Begin { stream: STREAM, life: FolderLife(5), keep: Keep::UpTo(2) };
    assert_eq!(tester.ops(), [begin], "nothing is written before the new life is on the disk");
    tester.done(Done::Begun { stream: STREAM, life: FolderLife(5) });
    assert_eq!(tester.ops().len(), 2);
    tester.out.clear();
    tester.written(4, 3);
    assert_eq!(tester.reports(), [], "a write of the life before");
    tester.written(5, 4);
    assert_eq!(tester.reports(), [], "the one before it is under way");
    tester.written(5, 3);
    assert_eq!(tester.acknowledged(), [id(3, 4)]);
}

/// Rule G2: after a start nothing is said before it is on the disk.
#[test]
fn a_start_says_nothing_that_is_not_synced() {
    let mut tester = Tester::started(2, &[1, 1]);
    let begin = Op::Begin { stream: STREAM, life: FolderLife(4), keep: Keep::UpTo(2) };
    assert_eq!(tester.ops(), [Op::Promise(term(2)), begin]);
    tester.order(2, Order::Seal);
    tester.append(2, id(1, 1), id(1, 2));
    tester.done(Done::Promised(term(2)));
    assert_eq!(tester.reports(), []);
    tester.done(Done::Begun { stream: STREAM, life: FolderLife(4) });
    assert!(matches!(tester.reports()[..], [(2, Report::Sealed { .. })]));
}

/// Rule G9.
#[test]
fn a_reset_goes_forward_only() {
    let mut tester = Tester::new(3, &[1, 2, 2]);
    for back in [id(2, 2), id(1, 9), id(2, 3)] {
        tester.order(3, Order::Reset { stream: STREAM, base: Base { id: back, cut: Cut(1) } });
        assert_eq!(tester.acknowledged(), [id(2, 3)], "{back:?}");
    }
    let base = Base { id: id(3, 2), cut: Cut(8) };
    tester.order(3, Order::Reset { stream: STREAM, base });
    let begin = Op::Begin { stream: STREAM, life: FolderLife(5), keep: Keep::Nothing(base) };
    assert_eq!(tester.ops(), [begin]);
    assert_eq!(tester.reports(), []);
    tester.done(Done::Begun { stream: STREAM, life: FolderLife(5) });
    assert_eq!(tester.acknowledged(), [id(3, 2)]);
}

/// Rule G10.
#[test]
fn a_failed_disk_ends_an_acceptor() {
    let mut tester = Tester::new(1, &[1]);
    tester.append(1, id(1, 1), id(1, 2));
    tester.order(2, Order::Seal);
    tester.ops();
    tester.done(Done::Failed);
    assert_eq!(tester.reports(), [(2, Report::Failed)]);
    tester.done(Done::Promised(term(2)));
    tester.order(3, Order::Seal);
    assert_eq!(tester.reports(), [(3, Report::Failed)]);
    assert!(tester.acceptor.is_failed());
}

/// Rule L8.
#[test]
fn a_full_folder_is_told_of() {
    let mut tester = Tester::new(1, &[1]);
    let room = |tester: &mut Tester, is_full| {
        let mut out = Vec::new();
        tester.acceptor.room(is_full, &mut out);
        out.into_iter()
            .map(|output| matches!(output, Output::Reply(reply) if reply.report == Report::Full { is_full }))
            .collect::<Vec<_>>()
    };
    assert_eq!(room(&mut tester, true), [true]);
    assert!(room(&mut tester, true).is_empty(), "once");
    tester.order(1, Order::Seal);
    let reports = tester.reports();
    assert!(matches!(reports[..], [(1, Report::Sealed { .. }), (1, Report::Full { is_full: true })]), "{reports:?}");
    assert_eq!(room(&mut tester, false), [true]);
    tester.order(2, Order::Seal);
    assert!(room(&mut tester, true).is_empty(), "behind the answer");
}

#[test]
fn what_is_cut_is_not_read() {
    let mut tester = Tester::new(1, &[1, 1, 1]);
    let base = Base { id: id(1, 2), cut: Cut(2) };
    tester.order(1, Order::Cut { stream: STREAM, base });
    assert_eq!(tester.ops(), [Op::Cut { stream: STREAM, base }]);
    tester.order(1, Order::Read { stream: STREAM, from: 2, most: 9 });
    assert_eq!(tester.reports(), [(1, Report::Blocks { stream: STREAM, blocks: vec![] })]);
    tester.order(1, Order::Read { stream: STREAM, from: 3, most: 9 });
    assert_eq!(tester.ops(), [Op::Read { stream: STREAM, term: term(1), from: 3, upto: 3 }]);
    tester.append(1, id(1, 1), id(1, 2));
    assert_eq!(tester.acknowledged(), [id(1, 3)], "it was here");
}

/// An owner's mark says nothing of blocks that are not known to be the owner's: they may be of another tail.
#[test]
fn what_is_not_matched_is_not_committed() {
    let mut tester = Tester::new(3, &[1, 2, 2]);
    tester.order(3, Order::Advance { stream: STREAM, committed: 3 });
    assert_eq!(tester.acceptor.committed(STREAM), Some(0));
    tester.append(3, id(1, 1), id(2, 2));
    assert_eq!(tester.acceptor.committed(STREAM), Some(2));
    tester.append(3, id(2, 2), id(3, 3));
    assert_eq!(tester.acceptor.committed(STREAM), Some(2), "it is another one, and not on the disk");
    tester.done(Done::Begun { stream: STREAM, life: FolderLife(5) });
    tester.written(5, 3);
    assert_eq!(tester.acceptor.committed(STREAM), Some(3));
    tester.order(4, Order::Seal);
    assert_eq!(tester.acceptor.committed(STREAM), Some(3), "what is committed stays so");
}

/// An acceptor bounds the blocks that an owner has under way, whatever it sends.
#[test]
fn an_acceptor_takes_so_many_at_once() {
    let mut tester = Tester::new(1, &[]);
    let mut before = BlockId::default();
    for sequence in 1..=1000 {
        tester.append(1, before, id(1, sequence));
        before = id(1, sequence);
    }
    assert!(tester.ops().len() < 100);
}

/// A reset that comes while a life begins is not done, and the owner hears so: it would wait for ever.
#[test]
fn a_reset_that_comes_too_early_is_answered() {
    let mut tester = Tester::new(1, &[1, 1, 1]);
    tester.order(2, Order::Seal);
    tester.ops();
    tester.done(Done::Promised(term(2)));
    tester.reports();
    tester.append(2, id(1, 1), id(2, 2));
    assert!(matches!(tester.ops()[..], [Op::Begin { .. }]));
    let base = Base { id: id(2, 9), cut: Cut(9) };
    tester.order(2, Order::Reset { stream: STREAM, base });
    assert_eq!(tester.reports(), [(2, Report::Missed { stream: STREAM, last: id(1, 1) })]);
}

fn cached(tester: &mut Tester, sequence: u64, through: bool) {
    let block = Block { id: id(1, sequence), cut: Cut(sequence), is_start: false, body: Arc::from(*b"x") };
    let before = if sequence == 1 { BlockId::default() } else { id(1, sequence - 1) };
    tester.order(1, Order::Append { stream: STREAM, before, committed: 0, through, block });
}

fn synced(tester: &mut Tester, upto: u64) {
    tester.done(Done::Synced { stream: STREAM, life: FolderLife(4), upto });
}

/// Nobody orders a second sync: what it is for was written later, or while another one was under way.
#[test]
fn a_sync_that_comes_too_early_is_made_up_for() {
    let sync = |upto| Op::Sync { stream: STREAM, life: FolderLife(4), upto };
    let mut tester = Tester::new(1, &[]);
    (1..=3).for_each(|sequence| cached(&mut tester, sequence, false));
    tester.written(4, 1);
    tester.ops();
    tester.order(1, Order::Sync { stream: STREAM });
    assert_eq!(tester.ops(), [sync(1)]);
    tester.written(4, 2);
    tester.order(1, Order::Sync { stream: STREAM });
    assert_eq!(tester.ops(), [], "one is under way");
    synced(&mut tester, 1);
    assert_eq!(tester.ops(), [sync(2)]);
    synced(&mut tester, 2);
    assert_eq!(tester.ops(), []);
    tester.written(4, 3);
    assert_eq!(tester.ops(), [sync(3)]);
    synced(&mut tester, 3);
    assert_eq!(tester.acknowledged().last(), Some(&id(1, 3)));
    cached(&mut tester, 4, false);
    tester.ops();
    tester.written(4, 4);
    assert_eq!(tester.ops(), [], "nobody wants this one on the disk");
}

/// The setting has changed: a block is written past the cache, and those before it lie there.
#[test]
fn what_lies_in_the_cache_before_a_block_past_it_is_synced() {
    let mut tester = Tester::new(1, &[]);
    (1..=3).for_each(|sequence| cached(&mut tester, sequence, sequence == 3));
    (1..=3).for_each(|sequence| tester.written(4, sequence));
    let synced = tester.ops().iter().find_map(|op| if let Op::Sync { upto, .. } = op { Some(*upto) } else { None });
    assert_eq!(synced, Some(3));
    self::synced(&mut tester, 3);
    assert_eq!(tester.acknowledged().last(), Some(&id(1, 3)));
    cached(&mut tester, 4, true);
    tester.ops();
    tester.written(4, 4);
    assert_eq!(tester.ops(), []);
    assert_eq!(tester.acknowledged(), [id(1, 4)]);
}

/// The blocks that a new life keeps are read before it has begun.
#[test]
fn what_stays_is_read_while_a_life_begins() {
    let mut tester = Tester::new(2, &[1, 1, 1]);
    tester.append(2, id(1, 2), id(2, 3));
    assert!(matches!(tester.ops()[..], [Op::Begin { .. }]));
    tester.order(2, Order::Read { stream: STREAM, from: 1, most: 9 });
    assert_eq!(tester.ops(), [Op::Read { stream: STREAM, term: term(2), from: 1, upto: 2 }]);
    tester.order(2, Order::Read { stream: STREAM, from: 3, most: 9 });
    assert_eq!(tester.reports(), [(2, Report::Blocks { stream: STREAM, blocks: vec![] })]);
}
