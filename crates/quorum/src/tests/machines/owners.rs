//! An owner, with acceptors whose disks are at once, and messages that the test delivers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::world::{Packet, Plan, World, name_of};
use crate::{
    AcceptorId, Base, Block, BlockId, Contact, Cut, Event, History, Limits, NotNow, Order, Owner, Reply, Report,
    Request, ShardId, Stage, StreamId, Term,
};

const STREAM: StreamId = StreamId(0);

struct Tester {
    plan: Plan,
    world: World,
}

impl Tester {
    fn new(plan: Plan) -> Self {
        let plan = Plan { writes: 100, ..plan };
        Self { world: World::new(&plan), plan }
    }

    /// Delivers what is for these acceptors, and all replies, until there is nothing more.
    fn run(&mut self, reached: &[usize]) {
        let is_due = |packet: &Packet| match packet {
            Packet::To(at, _) => reached.contains(at),
            Packet::From(..) => true,
        };
        for _ in 0..10_000 {
            let Some(packet) = self.world.network.iter().find(|packet| is_due(packet)).cloned() else { return };
            self.world.network.remove(&packet);
            self.world.deliver(&self.plan, packet);
        }
        panic!("it does not come to an end");
    }

    /// A new owner leads with the help of these.
    fn lead(&mut self, reached: &[usize]) -> usize {
        self.world.give(&self.plan, false);
        self.run(reached);
        self.world.hosts.len() - 1
    }

    fn write(&mut self, host: usize, reached: &[usize]) {
        self.world.write(&self.plan, host, STREAM, false);
        self.run(reached);
    }

    fn owner(&mut self, host: usize) -> &mut Owner {
        &mut self.world.hosts[host].owner
    }

    fn stage(&self, host: usize) -> Stage {
        self.world.hosts[host].owner.stage()
    }

    fn synced(&self, host: usize) -> u64 {
        self.world.hosts[host].owner.synced(STREAM)
    }

    fn behind(&self, host: usize) -> BTreeMap<u8, u64> {
        self.world.hosts[host]
            .owner
            .lags()
            .filter(|lag| lag.stream == STREAM)
            .map(|lag| (lag.acceptor.0[0], lag.blocks))
            .collect()
    }
}

#[test]
fn a_majority_is_enough_and_a_minority_is_not() {
    let mut tester = Tester::new(Plan::new(9, 2));
    let host = tester.lead(&[1]);
    assert_eq!(tester.stage(host), Stage::Sealing);
    tester.run(&[1, 2]);
    assert_eq!(tester.stage(host), Stage::Leading);
    assert_eq!(tester.synced(host), 1, "the start block");
    tester.write(host, &[2]);
    assert_eq!(tester.synced(host), 1);
    tester.run(&[1, 2]);
    assert_eq!(tester.synced(host), 2);
    assert_eq!(tester.behind(host), [(0, 2), (1, 0), (2, 0)].into());
    assert!(tester.owner(host).lags().any(|lag| !lag.answers && lag.acceptor == name_of(0)));
    let standings = tester.owner(host).standings();
    let of: Vec<_> = standings.iter().map(|of| (of.counts, of.contact, of.streams[0].blocks)).collect();
    assert_eq!(of, [(true, Contact::Silent, 2), (true, Contact::Follows, 0), (true, Contact::Follows, 0)]);
    let bytes = |at: usize| standings[at].streams[0].bytes;
    assert!(bytes(0) > 0 && bytes(1) == 0 && standings[0].streams[0].sent == 0, "{standings:?}");
    assert_eq!(tester.world.ghosts.broken, None);
}

/// The own folder of an owner may have a block that no other has. A log that was chosen without it ends before that.
#[test]
fn a_log_is_chosen_with_the_own_folder() {
    let mut tester = Tester::new(Plan::new(9, 1));
    let before = tester.lead(&[0, 1, 2]);
    tester.write(before, &[0]);
    tester.world.network.clear();
    tester.world.give(&tester.plan, false);
    tester.owner(1).wait_for(name_of(0));
    tester.run(&[1, 2]);
    assert_eq!(tester.stage(1), Stage::Sealing, "two of three have answered");
    tester.run(&[0, 1, 2]);
    assert_eq!(tester.stage(1), Stage::Leading);
    assert_eq!(tester.synced(1), 3, "the block, and the start block behind it");

    // One whose disk has failed is not waited for.
    tester.world.give(&tester.plan, false);
    tester.owner(2).wait_for(name_of(0));
    tester.run(&[1, 2]);
    let term = tester.owner(2).term();
    let failed = Reply { shard: ShardId(1), term, report: Report::Failed };
    let mut events = Vec::new();
    tester.owner(2).reply(name_of(0), failed, &mut events);
    assert_ne!(tester.stage(2), Stage::Sealing);
}

/// Rule G5: no stream is appended to before all start blocks are on a majority.
#[test]
fn a_shard_leads_as_a_whole() {
    let mut tester = Tester::new(Plan::new(9, 2));
    tester.world.give(&tester.plan, false);
    let of_second = |packet: &Packet| {
        matches!(packet, Packet::To(_, Request { order: Order::Append { stream: StreamId(1), .. }, .. }))
    };
    while let Some(packet) = tester.world.network.iter().find(|packet| !of_second(packet)).cloned() {
        tester.world.network.remove(&packet);
        tester.world.deliver(&tester.plan, packet);
    }
    assert_eq!(tester.stage(0), Stage::Begun, "the start of the second stream is under way");
    let mut events = Vec::new();
    let appended = tester.owner(0).append(STREAM, Cut(9), Arc::from(*b"x"), &mut events);
    assert_eq!((appended, events), (Err(NotNow), vec![]));
    assert_eq!(tester.synced(0), 0, "nothing is committed");
    tester.run(&[0, 1, 2]);
    assert_eq!(tester.stage(0), Stage::Leading);
}

/// Rule G4, and G3 at the acceptor that has another tail.
#[test]
fn a_higher_term_goes_before_a_longer_log() {
    let mut tester = Tester::new(Plan::new(9, 1));
    let first = tester.lead(&[0, 1, 2]);
    (0..5).for_each(|_| tester.write(first, &[0]));
    tester.world.network.clear();
    let second = tester.lead(&[1, 2]);
    tester.write(second, &[1, 2]);
    let third = tester.lead(&[0, 1]);
    let history = tester.world.hosts[third].owner.history(STREAM).expect("a stream").clone();
    let term = |number| Term::new(number).expect("a term");
    assert_eq!(history.at(2), Some(BlockId { term: term(2), sequence: 2 }));
    assert_eq!(history.last(), BlockId { term: term(3), sequence: 4 });
    tester.run(&[0, 1, 2]);
    for machine in &tester.world.machines {
        let acceptor = machine.acceptor.as_ref().expect("a process");
        assert_eq!(acceptor.history(STREAM), Some(&history));
    }
    assert_eq!(tester.world.ghosts.broken, None);
}

/// Rules G2 and G6: a fenced owner moves no watermark, whatever comes.
#[test]
fn a_fenced_owner_says_nothing_more() {
    let mut tester = Tester::new(Plan { prompt: false, ..Plan::new(9, 1) });
    let first = tester.lead(&[0, 1, 2]);
    tester.write(first, &[]);
    let late = std::mem::take(&mut tester.world.network);
    tester.lead(&[1, 2]);
    tester.world.network.extend(late);
    tester.run(&[1, 2]);
    assert_eq!(tester.stage(first), Stage::Fenced);
    tester.run(&[0, 1, 2]);
    assert_eq!(tester.synced(first), 1);
    let mut events = Vec::new();
    assert_eq!(tester.owner(first).append(STREAM, Cut(9), Arc::from(*b"x"), &mut events), Err(NotNow));
    assert_eq!(tester.owner(first).begin(&[Cut(1)], &mut events), Err(NotNow));
    assert_eq!(events, []);
}

/// A slow acceptor holds neither memory nor the majority. What memory does not have comes from another acceptor.
#[test]
fn one_that_lags_catches_up() {
    let limits = Limits { window_blocks: 2, ring_bytes: 0, read_blocks: 3, ..Limits::default() };
    let mut tester = Tester::new(Plan { limits, ..Plan::new(9, 1) });
    let host = tester.lead(&[0, 1, 2]);
    for _ in 0..50 {
        tester.write(host, &[0, 1]);
        let under_way = tester.world.network.len();
        assert!(under_way <= 2, "{under_way} messages are under way to one that does not answer");
    }
    assert_eq!(tester.synced(host), 51);
    assert_eq!(tester.owner(host).uncommitted_bytes(), 0);
    assert_eq!(tester.behind(host)[&2], 50);
    tester.run(&[0, 1, 2]);
    assert_eq!(tester.behind(host), [(0, 0), (1, 0), (2, 0)].into());
}

/// One block may be larger than the window.
#[test]
fn a_large_block_passes_alone() {
    let limits = Limits { window_bytes: 1, ..Limits::default() };
    let mut tester = Tester::new(Plan { limits, ..Plan::new(9, 1) });
    let host = tester.lead(&[0, 1, 2]);
    (0..3).for_each(|_| tester.world.write(&tester.plan, host, STREAM, false));
    assert_eq!(tester.world.network.len(), 3, "one for each acceptor");
    tester.run(&[0, 1, 2]);
    assert_eq!(tester.synced(host), 4);
}

/// Rule G1: what memory has above the committed end goes in whole.
#[test]
fn another_term_of_the_same_process_keeps_its_memory() {
    let mut tester = Tester::new(Plan::new(9, 1));
    let host = tester.lead(&[0, 1, 2]);
    (0..3).for_each(|_| tester.write(host, &[0]));
    tester.world.give_again(&tester.plan, host);
    tester.run(&[1, 2]);
    assert_eq!(tester.stage(host), Stage::Leading);
    assert_eq!(tester.synced(host), 5, "a start, three records that one acceptor had, a start");
    assert_eq!(tester.world.ghosts.acknowledged.len(), 3);
    // A term in between is another process's.
    let before = tester.owner(host).clone();
    let fourth = Term::new(4).expect("a term");
    assert_eq!(Owner::again(before, fourth, vec![name_of(0)], None, &mut Vec::new()), Err(NotNow));
}

/// Rule G11: a majority of the old ones and of the new ones.
#[test]
fn both_sets_are_asked_while_acceptors_change() {
    let mut tester = Tester::new(Plan { spare: 2, changes: 1, ..Plan::new(9, 1) });
    let first = tester.lead(&[0, 1, 2]);
    tester.write(first, &[0, 1, 2]);
    tester.world.pending = Some(vec![2, 3, 4]);
    let second = tester.lead(&[2, 3, 4]);
    assert_eq!(tester.stage(second), Stage::Sealing, "no majority of the old ones");
    tester.run(&[1, 2, 3]);
    assert_eq!(tester.stage(second), Stage::Leading);
    assert!(tester.world.hosts[second].may_settle);
    tester.write(second, &[2, 3, 4]);
    assert_eq!(tester.synced(second), 3, "the new ones alone commit nothing");
    tester.world.settle(&tester.plan, second);
    assert_eq!(tester.synced(second), 4);
    assert_eq!(tester.behind(second).into_keys().collect::<Vec<_>>(), [2, 3, 4]);
}

/// Blocks that the lost acceptor alone had are on no majority.
#[test]
fn a_source_that_is_lost_is_done_without() {
    let mut tester = Tester::new(Plan { prompt: false, ..Plan::new(9, 1) });
    let first = tester.lead(&[0, 1, 2]);
    tester.write(first, &[0]);
    tester.world.network.clear();
    let second = tester.lead(&[]);
    for at in [0, 1] {
        let seal = tester.world.network.iter().find(|packet| matches!(packet, Packet::To(to, _) if *to == at));
        let seal = seal.cloned().expect("a seal");
        tester.world.network.remove(&seal);
        tester.world.deliver(&tester.plan, seal);
    }
    tester.run(&[]);
    assert_eq!(tester.stage(second), Stage::Fetching);
    tester.world.network.retain(|packet| matches!(packet, Packet::To(2, _)));
    let mut events = Vec::new();
    tester.owner(second).lost(name_of(0), &mut events);
    assert_eq!(tester.stage(second), Stage::Sealing);
    tester.run(&[1, 2]);
    assert_eq!(tester.stage(second), Stage::Leading);
    assert_eq!(tester.synced(second), 2, "two starts");
    assert_eq!(tester.world.ghosts.broken, None);
}

/// Rule L8: a minority without room does not stop the log, and a majority does until there is room.
#[test]
fn a_log_is_full_when_no_majority_has_room() {
    let mut tester = Tester::new(Plan::new(9, 1));
    let host = tester.lead(&[0, 1, 2]);
    let term = tester.owner(host).term();
    let room = |tester: &mut Tester, from: usize, is_full| {
        let reply = crate::Reply { shard: super::super::world::SHARD, term, report: Report::Full { is_full } };
        tester.owner(host).reply(super::super::world::name_of(from), reply, &mut Vec::new());
        tester.owner(host).is_full()
    };
    assert!(!room(&mut tester, 0, true));
    assert!(room(&mut tester, 1, true));
    assert!(!room(&mut tester, 0, false));
    // One of the others is away.
    tester.owner(host).lost(super::super::world::name_of(2), &mut Vec::new());
    assert!(tester.owner(host).is_full());
    assert!(!room(&mut tester, 1, false), "that is another trouble than a lack of room");
}

/// An acceptor that comes in behind a cut begins there.
#[test]
fn a_new_acceptor_begins_where_the_log_does() {
    let mut tester = Tester::new(Plan { spare: 1, cuts: 1, ..Plan::new(9, 1) });
    let first = tester.lead(&[0, 1, 2]);
    (0..3).for_each(|_| tester.write(first, &[0, 1, 2]));
    tester.world.cut(&tester.plan, first, STREAM);
    tester.run(&[0, 1, 2]);
    tester.write(first, &[0, 1, 2]);
    tester.world.pending = Some(vec![0, 1, 3]);
    let second = tester.lead(&[0, 1, 3]);
    assert_eq!(tester.stage(second), Stage::Leading);
    let acceptor = tester.world.machines[3].acceptor.as_ref().expect("a process");
    let history = acceptor.history(STREAM).expect("a stream");
    assert_eq!((history.base().id.sequence, history.last().sequence), (4, 6));
    assert_eq!(tester.world.ghosts.broken, None);
}

#[test]
fn answers_that_make_no_sense_are_passed_over() {
    let mut tester = Tester::new(Plan::new(9, 1));
    let host = tester.lead(&[0, 1, 2]);
    let term = tester.owner(host).term();
    let far = BlockId { term, sequence: u64::MAX };
    for report in [
        Report::Ack { stream: STREAM, written: far, synced: far },
        Report::Ack { stream: StreamId(9), written: far, synced: far },
        Report::Missed { stream: StreamId(9), last: far },
        Report::Blocks { stream: StreamId(9), blocks: vec![] },
        Report::Sealed { histories: vec![] },
    ] {
        let reply = crate::Reply { shard: super::super::world::SHARD, term, report };
        tester.world.deliver(&tester.plan, Packet::From(0, reply));
    }
    assert_eq!((tester.stage(host), tester.synced(host)), (Stage::Leading, 1));
}

#[test]
fn an_uncounted_acceptor_is_brought_up_and_counts_for_nothing() {
    let (counted, other) = (AcceptorId([1; 16]), AcceptorId([2; 16]));
    let (shard, term) = (ShardId(1), Term::new(1).unwrap());
    let mut out = Vec::new();
    let limits = Limits::default();
    let mut owner = Owner::new((shard, term), vec![counted], None, vec![History::default()], limits, &mut out);
    owner.follow(other, &mut out);
    let sealed = || Report::Sealed { histories: vec![History::default()] };
    let ack = |sequence| {
        let id = BlockId { term, sequence };
        Report::Ack { stream: STREAM, written: id, synced: id }
    };
    let mut tell = |owner: &mut Owner, from, report| {
        out.clear();
        owner.reply(from, Reply { shard, term, report }, &mut out);
        out.iter().filter(|event| matches!(event, Event::Send { to, .. } if *to == other)).count()
    };
    tell(&mut owner, other, sealed());
    assert_eq!(owner.stage(), Stage::Sealing, "it is no majority");
    tell(&mut owner, counted, sealed());
    owner.begin(&[Cut(1)], &mut Vec::new()).unwrap();
    tell(&mut owner, other, ack(1));
    assert_eq!(owner.stage(), Stage::Begun);
    tell(&mut owner, counted, ack(1));
    assert_eq!(owner.stage(), Stage::Leading);
    let mut sent = Vec::new();
    owner.append(STREAM, Cut(2), Arc::default(), &mut sent).unwrap();
    let appends = sent.iter().filter(|event| matches!(event, Event::Send { to, .. } if *to == other));
    assert_eq!(appends.count(), 1, "it gets the block");
    tell(&mut owner, other, ack(2));
    assert_eq!(owner.synced(STREAM), 1);
    tell(&mut owner, counted, ack(2));
    assert_eq!(owner.synced(STREAM), 2);
}

/// An acceptor has given up the first blocks, as another one asks for them. It still gives the later ones.
#[test]
fn one_that_lacks_a_block_is_asked_for_later_ones() {
    let (shard, term, mut out) = (ShardId(1), Term::new(1).unwrap(), Vec::new());
    let limits = Limits { ring_bytes: 0, read_blocks: 1, ..Limits::default() };
    let of = vec![name_of(0), name_of(1), name_of(2)];
    let mut owner = Owner::new((shard, term), of, None, vec![History::default()], limits, &mut out);
    let tell = |owner: &mut Owner, from: usize, report: Report, out: &mut Vec<Event>| {
        owner.reply(name_of(from), Reply { shard, term, report }, out);
    };
    let sealed = |history: &History| Report::Sealed { histories: vec![history.clone()] };
    (0..2).for_each(|from| tell(&mut owner, from, sealed(&History::default()), &mut out));
    owner.begin(&[Cut(0)], &mut out).unwrap();
    let mut short = History::default();
    for sequence in 1..=6 {
        if sequence > 1 {
            owner.append(STREAM, Cut(sequence), Arc::from([7; 9]), &mut out).unwrap();
        }
        let id = BlockId { term, sequence };
        (0..2)
            .for_each(|from| tell(&mut owner, from, Report::Ack { stream: STREAM, written: id, synced: id }, &mut out));
        if sequence == 3 {
            short = owner.history(STREAM).unwrap().clone();
        }
    }
    assert_eq!((owner.stage(), owner.synced(STREAM)), (Stage::Leading, 6));
    owner.lost(name_of(1), &mut out);
    owner.follow(name_of(3), &mut out);
    out.clear();
    let reads = |out: &mut Vec<Event>| -> Vec<(AcceptorId, u64)> {
        let read = |event: Event| match event {
            Event::Send { to, request: Request { order: Order::Read { from, .. }, .. }, .. } => Some((to, from)),
            _ => None,
        };
        out.drain(..).filter_map(read).collect()
    };
    tell(&mut owner, 3, sealed(&History::default()), &mut out);
    assert_eq!(reads(&mut out), [(name_of(0), 1)]);
    tell(&mut owner, 0, Report::Blocks { stream: STREAM, blocks: Vec::new() }, &mut out);
    assert_eq!(reads(&mut out), [], "no other one has it");
    tell(&mut owner, 2, sealed(&short), &mut out);
    assert_eq!(reads(&mut out), [(name_of(0), 4), (name_of(2), 1)]);
}

/// An owner of one stream that leads, of which the first two acceptors have so many blocks.
fn leading(limits: Limits, of: &[usize], blocks: u64) -> Owner {
    let (shard, term, mut out) = (ShardId(1), Term::new(1).unwrap(), Vec::new());
    let of = of.iter().map(|name| name_of(*name)).collect();
    let mut owner = Owner::new((shard, term), of, None, vec![History::default()], limits, &mut out);
    for from in 0..2 {
        let report = Report::Sealed { histories: vec![History::default()] };
        owner.reply(name_of(from), Reply { shard, term, report }, &mut out);
    }
    owner.begin(&[Cut(0)], &mut out).unwrap();
    for sequence in 1..=blocks {
        if sequence > 1 {
            owner.append(STREAM, Cut(sequence), Arc::from([7; 9]), &mut out).unwrap();
        }
        for from in 0..2 {
            let id = BlockId { term, sequence };
            let report = Report::Ack { stream: STREAM, written: id, synced: id };
            owner.reply(name_of(from), Reply { shard, term, report }, &mut out);
        }
    }
    owner
}

fn tell(owner: &mut Owner, from: usize, report: Report) -> Vec<Event> {
    let mut out = Vec::new();
    owner.reply(name_of(from), Reply { shard: ShardId(1), term: Term::new(1).unwrap(), report }, &mut out);
    out
}

/// The acceptor that gives old blocks is lost before it has given them: another one is asked.
#[test]
fn blocks_that_a_lost_acceptor_was_to_give_are_read_elsewhere() {
    let limits = Limits { ring_bytes: 0, ..Limits::default() };
    let mut owner = leading(limits, &[0, 1, 2], 6);
    let reads = |out: Vec<Event>| -> Vec<AcceptorId> {
        let read = |event| match event {
            Event::Send { to, request: Request { order: Order::Read { .. }, .. }, .. } => Some(to),
            _ => None,
        };
        out.into_iter().filter_map(read).collect()
    };
    let sealed = |history| Report::Sealed { histories: vec![history] };
    assert_eq!(reads(tell(&mut owner, 2, sealed(History::default()))), [name_of(0)]);
    let mut out = Vec::new();
    owner.lost(name_of(0), &mut out);
    assert_eq!(reads(out), [name_of(1)]);
    // The only one left is lost, and comes back.
    let mut out = Vec::new();
    owner.lost(name_of(1), &mut out);
    owner.connected(name_of(1), &mut out);
    assert_eq!(reads(out), []);
    let whole = owner.history(STREAM).unwrap().clone();
    assert_eq!(reads(tell(&mut owner, 1, sealed(whole))), [name_of(1)]);
}

/// Blocks for an acceptor that is far behind have a way of their own, until it is near. Blocks on one way never pass
/// those on the other.
#[test]
fn old_blocks_go_apart() {
    let mut owner = leading(Limits::default(), &[0, 1, 2], 300);
    let appends = |out: Vec<Event>| -> Vec<(u64, bool)> {
        let sent = |event| match event {
            Event::Send { to, request: Request { order: Order::Append { block, .. }, .. }, apart } => {
                assert_eq!(to, name_of(2));
                Some((block.id.sequence, apart))
            }
            _ => None,
        };
        out.into_iter().filter_map(sent).collect()
    };
    let ack = |sequence| {
        let id = BlockId { term: Term::new(1).unwrap(), sequence };
        Report::Ack { stream: STREAM, written: id, synced: id }
    };
    let sent = tell(&mut owner, 2, Report::Sealed { histories: vec![History::default()] });
    let mut sent = appends(sent);
    let (mut last, mut ways) = (0, Vec::new());
    while let Some(&(sequence, apart)) = sent.first() {
        assert_eq!(sequence, last + 1);
        let before = ways.last().copied();
        if before.is_some_and(|before| before != apart) {
            assert_eq!(sent.iter().filter(|(_, way)| *way != apart).count(), 0, "both ways at once: {sent:?}");
        }
        ways.push(apart);
        last = sequence;
        sent.remove(0);
        let more = appends(tell(&mut owner, 2, ack(sequence)));
        assert!(more.iter().all(|(_, way)| sent.iter().all(|(_, before)| way == before)), "{sent:?}, then {more:?}");
        sent.extend(more);
    }
    assert_eq!(last, 300);
    let apart = ways.iter().take_while(|apart| **apart).count();
    assert!(apart > 40 && ways[apart..].iter().all(|apart| !apart), "{apart} went apart");
    let mut out = Vec::new();
    owner.append(STREAM, Cut(301), Arc::from([7; 9]), &mut out).unwrap();
    let of_third = |event: &Event| matches!(event, Event::Send { to, .. } if *to == name_of(2));
    assert_eq!(appends(out.into_iter().filter(of_third).collect()), [(301, false)]);
}

/// A read of an acceptor is under way, for another one that lags behind memory, and comes to nothing.
fn reading() -> (Tester, usize) {
    let limits = Limits { ring_bytes: 0, ..Limits::default() };
    let mut tester = Tester::new(Plan { limits, prompt: false, ..Plan::new(9, 1) });
    let host = tester.lead(&[0, 1, 2]);
    (0..20).for_each(|_| tester.write(host, &[0, 1]));
    assert_eq!(tester.behind(host), [(0, 0), (1, 0), (2, 20)].into());
    let read = |packet: &&Packet| matches!(packet, Packet::To(_, Request { order: Order::Read { .. }, .. }));
    let to_lagging = |packet: &&Packet| matches!(packet, Packet::To(2, _) | Packet::From(..));
    while !tester.world.network.iter().any(|packet| read(&packet)) {
        let packet = tester.world.network.iter().find(to_lagging).cloned().expect("the lagging one asks for more");
        tester.world.network.remove(&packet);
        tester.world.deliver(&tester.plan, packet);
    }
    let read = tester.world.network.iter().find(read).cloned().expect("a read");
    assert!(matches!(read, Packet::To(0, _)));
    tester.world.network.remove(&read);
    (tester, host)
}

#[test]
fn a_source_of_reads_that_comes_back_is_asked_again() {
    let (mut tester, host) = reading();
    let mut events = Vec::new();
    tester.owner(host).lost(name_of(1), &mut events);
    tester.world.events(&tester.plan, host, events);
    tester.world.connect(&tester.plan, host, 0);
    tester.run(&[0, 2]);
    assert_eq!(tester.behind(host)[&2], 0);
}

#[test]
fn a_source_of_reads_that_fails_is_replaced() {
    let (mut tester, host) = reading();
    let term = tester.owner(host).term();
    let failed = Reply { shard: ShardId(1), term, report: Report::Failed };
    tester.world.deliver(&tester.plan, Packet::From(0, failed));
    tester.run(&[1, 2]);
    assert_eq!(tester.behind(host)[&2], 0);
}

#[test]
fn a_source_of_reads_that_leaves_the_set_is_replaced() {
    let limits = Limits { ring_bytes: 0, ..Limits::default() };
    let mut tester = Tester::new(Plan { limits, spare: 1, prompt: false, ..Plan::new(9, 1) });
    let first = tester.lead(&[0, 1, 2]);
    (0..20).for_each(|_| tester.write(first, &[0, 1, 2]));
    tester.world.pending = Some(vec![1, 2, 3]);
    tester.world.give_again(&tester.plan, first);
    tester.run(&[0, 1, 2]);
    assert_eq!((tester.stage(first), tester.world.hosts[first].may_settle), (Stage::Leading, true));
    let is_read = |packet: &Packet| matches!(packet, Packet::To(_, Request { order: Order::Read { .. }, .. }));
    let is_due = |packet: &&Packet| matches!(packet, Packet::To(3, _) | Packet::From(..));
    while !tester.world.network.iter().any(is_read) {
        let packet = tester.world.network.iter().find(is_due).cloned().expect("the new one asks for more");
        tester.world.network.remove(&packet);
        tester.world.deliver(&tester.plan, packet);
    }
    tester.world.network.retain(|packet| !is_read(packet));
    tester.world.settle(&tester.plan, first);
    tester.run(&[1, 2, 3]);
    assert_eq!(tester.behind(first), [(1, 0), (2, 0), (3, 0)].into());
}

/// An acceptor has answered a seal, and is lost before a log is chosen: it follows when it has answered again.
#[test]
fn an_answer_of_before_the_connection_broke_makes_no_follower() {
    let mut tester = Tester::new(Plan::new(9, 1));
    let host = tester.lead(&[0]);
    let mut events = Vec::new();
    tester.owner(host).lost(name_of(0), &mut events);
    assert!(tester.owner(host).silent().any(|id| id == name_of(0)));
    tester.run(&[1]);
    assert_eq!(tester.stage(host), Stage::Begun, "its promise counts");
    assert!(tester.owner(host).lags().any(|lag| lag.acceptor == name_of(0) && !lag.answers));
    tester.run(&[1, 2]);
    assert_eq!(tester.stage(host), Stage::Leading);
    tester.world.connect(&tester.plan, host, 0);
    tester.run(&[0, 1, 2]);
    assert_eq!(tester.behind(host), [(0, 0), (1, 0), (2, 0)].into());
}

/// An acceptor is to begin where the log does, and has not done so when the log is cut again: it has not answered, has
/// answered for the place of before, or has a tail that ranks above that (rule G9).
#[test]
fn a_reset_that_a_cut_overtakes_is_made_again() {
    let term = Term::new(1).unwrap();
    let id = |sequence| BlockId { term, sequence };
    let base = |sequence| Base { id: id(sequence), cut: Cut(sequence) };
    let ack = |written| Report::Ack { stream: STREAM, written, synced: written };
    let orders = |events: Vec<Event>| {
        let of_third = |event| match event {
            Event::Send { to, request, .. } if to == name_of(2) => Some(request.order),
            _ => None,
        };
        let orders = events.into_iter().filter_map(of_third).filter(|order| !matches!(order, Order::Cut { .. }));
        orders.collect::<Vec<_>>()
    };
    let reset = |sequence| [Order::Reset { stream: STREAM, base: base(sequence) }];
    for answer in [None, Some(3), Some(99)] {
        let (mut owner, mut out) = (leading(Limits::default(), &[0, 1, 2], 8), Vec::new());
        owner.cut(STREAM, base(3), &mut out).unwrap();
        let sealed = Report::Sealed { histories: vec![History::default()] };
        assert_eq!(orders(tell(&mut owner, 2, sealed)), reset(3));
        let first = |owner: &mut Owner| answer.map(|at| tell(owner, 2, ack(id(at)))).unwrap_or_default();
        if answer == Some(99) {
            assert_eq!(orders(first(&mut owner)), [], "it would be refused again");
        }
        out.clear();
        owner.cut(STREAM, base(6), &mut out).unwrap();
        assert_eq!(orders(out), reset(6), "{answer:?}");
        if answer == Some(3) {
            assert_eq!(orders(first(&mut owner)), []);
        }
        let sent = orders(tell(&mut owner, 2, ack(id(6))));
        assert!(matches!(&sent[..], [Order::Append { .. }, Order::Append { .. }]), "{sent:?}");
    }
}

/// A source gives another block than it has named. Otherwise the owner would wait for the right one for ever.
#[test]
fn a_source_that_gives_another_block_is_sealed_again() {
    let (shard, first, term) = (ShardId(1), Term::new(1).unwrap(), Term::new(2).unwrap());
    let mut history = History::default();
    (1..=2).for_each(|sequence| assert!(history.push(BlockId { term: first, sequence })));
    let (mut out, names) = (Vec::new(), [0, 1, 2].map(name_of).to_vec());
    let known = vec![History::default()];
    let mut owner = Owner::new((shard, term), names, None, known, Limits::default(), &mut out);
    let mut tell = |from, report| {
        out.clear();
        owner.reply(name_of(from), Reply { shard, term, report }, &mut out);
        let sent = out.iter().filter_map(|event| match event {
            Event::Send { to, request, .. } => Some((*to, request.order.clone())),
            _ => None,
        });
        (owner.stage(), sent.collect::<Vec<_>>())
    };
    let read = |from| (name_of(1), Order::Read { stream: STREAM, from, most: Limits::default().read_blocks });
    let blocks = |term, sequence| {
        let id = BlockId { term, sequence };
        Report::Blocks {
            stream: STREAM,
            blocks: vec![Block { id, cut: Cut(1), is_start: false, body: Arc::default() }],
        }
    };
    let sealed = |history: &History| Report::Sealed { histories: vec![history.clone()] };
    tell(0, sealed(&History::default()));
    assert_eq!(tell(1, sealed(&history)), (Stage::Fetching, vec![read(1)]));
    assert_eq!(tell(1, blocks(first, 1)), (Stage::Fetching, vec![read(2)]));
    assert_eq!(tell(1, blocks(first, 1)), (Stage::Fetching, vec![]), "it came twice");
    assert_eq!(tell(1, blocks(Term::ZERO, 2)), (Stage::Sealing, vec![(name_of(1), Order::Seal)]));
    assert_eq!(tell(1, sealed(&history)), (Stage::Fetching, vec![read(1)]));
    tell(1, blocks(first, 1));
    assert_eq!(tell(1, blocks(first, 2)).0, Stage::Copying);
}

/// An append does not fit what an acceptor has, which was asked for blocks. It gives these nevertheless.
#[test]
fn an_append_that_does_not_fit_says_nothing_of_reads() {
    let mut owner = leading(Limits { ring_bytes: 0, ..Limits::default() }, &[0, 1, 2], 6);
    let mut out = Vec::new();
    owner.lost(name_of(1), &mut out);
    let reads = |events: Vec<Event>| {
        let read = |event| match event {
            Event::Send { to, request: Request { order: Order::Read { from, .. }, .. }, .. } => Some((to, from)),
            _ => None,
        };
        events.into_iter().filter_map(read).collect::<Vec<_>>()
    };
    let sealed = |history: &History| Report::Sealed { histories: vec![history.clone()] };
    assert_eq!(reads(tell(&mut owner, 2, sealed(&History::default()))), [(name_of(0), 1)]);
    let log = owner.history(STREAM).unwrap().clone();
    tell(&mut owner, 0, Report::Missed { stream: STREAM, last: log.last() });
    owner.lost(name_of(2), &mut out);
    owner.connected(name_of(2), &mut out);
    assert_eq!(reads(tell(&mut owner, 2, sealed(&History::default()))), [(name_of(0), 1)], "it has this one");
}

#[test]
fn a_source_that_was_lost_before_the_choice_is_done_without() {
    let mut tester = Tester::new(Plan::new(9, 1));
    let first = tester.lead(&[0, 1, 2]);
    tester.write(first, &[0]);
    tester.world.network.clear();
    let second = tester.lead(&[0]);
    tester.owner(second).lost(name_of(0), &mut Vec::new());
    tester.run(&[1, 2]);
    assert_eq!(tester.stage(second), Stage::Leading);
}
