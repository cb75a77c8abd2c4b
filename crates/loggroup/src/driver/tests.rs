//! A log whose copies are two acceptors in memory and the own folder.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use quorum::{
    Acceptor, AcceptorId, Block, Done, Found, History, Keep, Limits, Op, Output, Report, Request, ShardId, StreamId,
    Term,
};
use redolog::simulated::Simulated;
use redolog::{Copies, Fsync, Gate, Lead, Log, Lsn, Name, Opened, Record, Settings, State};

use super::{Driver, Plan};
use crate::port::{Heard, Listener, Port};

const OWN: AcceptorId = AcceptorId([1; 16]);
const OTHERS: [AcceptorId; 2] = [AcceptorId([2; 16]), AcceptorId([3; 16])];

/// An acceptor in memory, on a thread of its own.
#[derive(Clone)]
struct InMemory(Sender<Request>);

impl Port for InMemory {
    fn send(&self, request: Request) {
        let _ = self.0.send(request);
    }
}

type Blocks = Arc<Mutex<BTreeMap<(u16, u64), Block>>>;

fn carry_out(op: Op, blocks: &Blocks) -> Option<Done> {
    let mut blocks = blocks.lock().unwrap();
    Some(match op {
        Op::Promise(term) => Done::Promised(term),
        Op::Write { stream, life, block, .. } => {
            let sequence = block.id.sequence;
            blocks.insert((stream.0, sequence), block);
            Done::Written { stream, life, sequence }
        }
        Op::Sync { stream, life, upto } => Done::Synced { stream, life, upto },
        Op::Begin { stream, life, keep } => {
            let last = if let Keep::UpTo(last) = keep { last } else { 0 };
            blocks.retain(|(of, at), _| *of != stream.0 || *at <= last);
            Done::Begun { stream, life }
        }
        Op::Read { stream, term, from, upto } => {
            let read = blocks.range((stream.0, from)..=(stream.0, upto)).map(|(_, block)| block.clone());
            Done::Read { stream, term, blocks: read.collect() }
        }
        Op::Cut { .. } => return None,
    })
}

/// The acceptor's blocks stay in `blocks`; a driver that is gone hears nothing more.
fn run(id: AcceptorId, streams: usize, blocks: Blocks, listener: &Listener) -> InMemory {
    let (sender, requests) = channel::<Request>();
    let listener = listener.clone();
    thread::spawn(move || {
        let mut out = Vec::new();
        let mut acceptor = Acceptor::open(ShardId(4), Term::ZERO, vec![Found::default(); streams], &mut out);
        listener(id, Heard::Connected);
        loop {
            while !out.is_empty() {
                for output in std::mem::take(&mut out) {
                    match output {
                        Output::Reply(reply) => listener(id, Heard::Reply(reply)),
                        Output::Disk(op) => {
                            if let Some(done) = carry_out(op, &blocks) {
                                acceptor.done(done, &mut out);
                            }
                        }
                    }
                }
            }
            let Ok(request) = requests.recv() else { return };
            acceptor.request(request, &mut out);
        }
    });
    InMemory(sender)
}

struct Started {
    driver: Arc<Driver>,
    log: Log,
    gates: Vec<Vec<Gate>>,
    others: Vec<(AcceptorId, InMemory, Blocks)>,
    own: Vec<Simulated>,
    listener: Listener,
}

fn plan(term: u32) -> Plan {
    let settled = vec![OWN, OTHERS[0], OTHERS[1]];
    Plan { shard: ShardId(4), term: Term::new(term).unwrap(), own: OWN, settled, pending: None }
}

fn settings(fsync: Fsync) -> Settings {
    let clock = std::sync::atomic::AtomicU64::new(1);
    let clock = Arc::new(move || clock.fetch_add(1_000_000, std::sync::atomic::Ordering::Relaxed));
    Settings { limits: redolog::Limits::of(1 << 20), fsync, clock, seed: 9 }
}

fn start(streams: u16, fsync: Fsync) -> Started {
    let (mut others, mut heard) = (Vec::new(), None);
    let known = vec![History::default(); usize::from(streams)];
    let driver = Driver::begin(plan(5), known, Limits::default(), |listener| {
        heard = Some(listener.clone());
        let mut ports: Vec<(AcceptorId, Arc<dyn Port>)> = Vec::new();
        for id in [OWN, OTHERS[0], OTHERS[1]] {
            let blocks = Blocks::default();
            let port = run(id, usize::from(streams), blocks.clone(), listener);
            ports.push((id, Arc::new(port.clone())));
            if id != OWN {
                others.push((id, port, blocks));
            }
        }
        ports
    });
    driver.wait_copied(&mut |_, _| true).unwrap();
    driver.take_own();
    let own: Vec<_> = (0..streams).map(|_| Simulated::default()).collect();
    let mut opened = Opened::of(own.clone(), &[]).unwrap();
    let ends = opened.ends().unwrap();
    driver.begin_term(&ends, |stream| opened.recovery().chain(stream)).unwrap();
    opened.copy_to(Lead { term: 5, shard: 4, acceptor: OWN.0 }, driver.clone());
    let (log, gates) = opened.start([1; 16], Lsn(0), 1, settings(fsync)).unwrap();
    driver.attach(&log);
    driver.wait_leads(&mut |_, _| true).unwrap();
    Started { driver, log, gates, others, own, listener: heard.unwrap() }
}

impl Started {
    fn leave(&mut self, stream: u16, on: &[Lsn]) -> Lsn {
        let gate = &mut self.gates[0][usize::from(stream)];
        let lsn = on.iter().copied().fold(gate.enter(), Lsn::max).above(stream);
        gate.leave(lsn, |out| Record::encode(lsn, on, b"effects", out));
        gate.exit();
        self.log.ring(stream);
        lsn
    }

    fn is_committed(&self, lsn: Lsn) -> bool {
        (0..500).any(|_| {
            thread::park_timeout(std::time::Duration::from_millis(1));
            self.log.marks().of(lsn.stream()) >= lsn
        })
    }

    /// An acceptor answers no more.
    fn lose(&mut self, other: usize) {
        let (id, ..) = self.others[other];
        self.driver.lock().ports.remove(&id);
        (self.listener)(id, Heard::Lost);
    }
}

#[test]
fn a_majority_commits_and_a_minority_does_not() {
    let mut started = start(2, Fsync::Always);
    let mut last = started.leave(0, &[]);
    for at in 1..40 {
        last = started.leave(at % 2, &[last]);
    }
    assert!(started.is_committed(last));
    started.lose(0);
    let second = started.leave(0, &[last]);
    assert!(started.is_committed(second), "two of three are a majority");
    started.lose(1);
    let third = started.leave(1, &[second]);
    assert!(!started.is_committed(third), "the own folder alone is none");
    assert!(started.driver.uncommitted_bytes() > 0 && started.log.backlog() > 0);
    assert_eq!(started.log.stop(), State::Running, "a stop does not wait for copies");
    let mut found = Vec::new();
    let mut opened = Opened::of(started.own.clone(), &[]).unwrap();
    opened.replay(|record| found.push(record.lsn)).unwrap();
    assert!(found.contains(&third) && found.len() == 42);
    let (_, _, blocks) = &started.others[1];
    let has = |block: &Block| redolog::Frame::decode(&block.body).is_ok_and(|frame| frame.cut >= second);
    assert!(blocks.lock().unwrap().values().filter(|block| !block.is_start).any(has), "G14: the same bytes");
}

#[test]
fn a_majority_without_the_own_folder_commits() {
    let mut started = start(1, Fsync::Always);
    started.own[0].stall(true);
    let lsn = started.leave(0, &[]);
    assert!(started.is_committed(lsn), "the own disk does not answer, and two others have it");
    started.own[0].stall(false);
    started.log.stop();
}

#[test]
fn everysec_is_synced_at_a_majority() {
    let mut started = start(1, Fsync::Everysec);
    let lsn = started.leave(0, &[]);
    assert!(started.is_committed(lsn));
    started.log.want_synced(&[lsn]);
    while started.log.synced(0) < lsn {
        thread::yield_now();
    }
    started.log.stop();
}

/// Rule G6: a term that follows ends the log, and no watermark moves.
#[test]
fn a_fenced_log_has_failed() {
    let mut started = start(1, Fsync::Always);
    let first = started.leave(0, &[]);
    assert!(started.is_committed(first));
    let next = plan(6);
    let order = quorum::Order::Seal;
    for (_, port, _) in &started.others {
        port.send(Request { shard: next.shard, term: next.term, order: order.clone() });
    }
    let second = started.leave(0, &[]);
    assert!(!started.is_committed(second));
    let State::Failed(why) = started.log.state() else { panic!("it runs") };
    assert!(why.contains("term 6 was promised"), "{why}");
    assert!(started.driver.wait_leads(&mut |_, _| true).is_err());
    started.log.stop();
}

/// The own folder gives blocks up while the next term begins. Copies forget them when that leads.
#[test]
fn what_is_given_up_between_two_terms_is_cut_later() {
    let mut started = start(1, Fsync::Always);
    let lsn = started.leave(0, &[]);
    assert!(started.is_committed(lsn));
    let driver = started.driver.clone();
    let base = || driver.lock().owner.history(StreamId(0)).unwrap().base().id.sequence;
    let mut again = driver.again_by_hand(plan(6)).unwrap();
    while driver.lock().stage() == quorum::Stage::Leading {
        assert_eq!(again.step(), Ok(false));
        thread::park_timeout(std::time::Duration::from_millis(1));
    }
    // No step leads it further meanwhile.
    driver.retired(0, Name { term: 5, sequence: 1 }, Lsn(0));
    assert_eq!(base(), 0, "it is told to nobody now");
    while !again.step().unwrap() {
        thread::park_timeout(std::time::Duration::from_millis(1));
    }
    driver.tell_committed();
    assert_eq!(base(), 1);
    started.log.stop();
}

/// A port may answer on the thread that sends.
struct AtOnce(Mutex<(Acceptor, Blocks)>, Listener);

impl Port for AtOnce {
    fn send(&self, request: Request) {
        let mut replies = Vec::new();
        {
            let mut here = self.0.lock().unwrap();
            let mut out = Vec::new();
            here.0.request(request, &mut out);
            while !out.is_empty() {
                for output in std::mem::take(&mut out) {
                    match output {
                        Output::Reply(reply) => replies.push(reply),
                        Output::Disk(op) => {
                            if let Some(done) = carry_out(op, &here.1) {
                                here.0.done(done, &mut out);
                            }
                        }
                    }
                }
            }
        }
        replies.into_iter().for_each(|reply| self.1(OWN, Heard::Reply(reply)));
    }
}

#[test]
fn an_acceptor_may_answer_at_once() {
    let plan = Plan { settled: vec![OWN], ..plan(5) };
    let driver = Driver::begin(plan, vec![History::default()], Limits::default(), |listener| {
        let (blocks, mut out) = (Blocks::default(), Vec::new());
        let mut acceptor = Acceptor::open(ShardId(4), Term::ZERO, vec![Found::default()], &mut out);
        for output in out {
            let Output::Disk(op) = output else { continue };
            acceptor.done(carry_out(op, &blocks).unwrap(), &mut Vec::new());
        }
        vec![(OWN, Arc::new(AtOnce(Mutex::new((acceptor, blocks)), listener.clone())) as Arc<dyn Port>)]
    });
    driver.wait_copied(&mut |_, _| false).unwrap();
    driver.begin_term(&[Lsn(0)], |_| None).unwrap();
    driver.wait_leads(&mut |_, _| false).unwrap();
}

/// An owner that waits for a majority says how many do not answer, and not how many do.
#[test]
fn those_that_answer_are_not_called_silent() {
    let (sender, promised) = channel();
    let driver = Driver::begin(plan(5), vec![History::default()], Limits::default(), |listener| {
        let listener: Listener = {
            let listener = listener.clone();
            Arc::new(move |id, heard| {
                let answers = matches!(&heard, Heard::Reply(reply) if matches!(reply.report, Report::Sealed { .. }));
                listener(id, heard);
                if answers {
                    let _ = sender.send(());
                }
            })
        };
        vec![(OTHERS[0], Arc::new(run(OTHERS[0], 1, Blocks::default(), &listener)) as Arc<dyn Port>)]
    });
    promised.recv().unwrap();
    driver
        .wait_copied(&mut |stage, silent| {
            assert_eq!((stage, silent.len()), (quorum::Stage::Sealing, 2));
            false
        })
        .unwrap_err();
}

#[test]
fn a_start_that_nobody_answers_can_be_given_up() {
    let mut looks = 0;
    let driver = Driver::begin(plan(5), vec![History::default()], Limits::default(), |_| Vec::new());
    let ended = driver.wait_copied(&mut |stage, silent| {
        looks += 1;
        assert_eq!((stage, silent.len()), (quorum::Stage::Sealing, 3));
        looks < 3
    });
    assert_eq!(ended, Err(super::Ended::Stopped));
}

/// A port whose end waits for a thread that tells of it.
struct Waited(AcceptorId, Listener);

impl Port for Waited {
    fn send(&self, _: Request) {}
}

impl Drop for Waited {
    fn drop(&mut self) {
        let (id, listener) = (self.0, self.1.clone());
        thread::spawn(move || listener(id, Heard::Lost)).join().unwrap();
    }
}

#[test]
fn ports_that_are_given_twice_end_without_the_lock() {
    let twice = |listener: &Listener| {
        let port = |id: AcceptorId| (id, Arc::new(Waited(id, listener.clone())) as Arc<dyn Port>);
        [OWN, OTHERS[0], OTHERS[0]].map(port).into()
    };
    let (tell, told) = channel();
    thread::spawn(move || {
        let driver = Driver::begin(plan(5), vec![History::default()], Limits::default(), twice);
        tell.send("begun").unwrap();
        driver.follow_up(twice);
        tell.send("followed").unwrap();
        driver.stop();
    });
    // Otherwise it waits for itself for ever.
    for step in ["begun", "followed"] {
        assert_eq!(told.recv_timeout(std::time::Duration::from_secs(60)), Ok(step));
    }
}
