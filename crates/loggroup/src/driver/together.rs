//! Three folders in one process: the owner's and two copies, on simulated disks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use quorum::{AcceptorId, Limits, ShardId, Term};
use redolog::simulated::{Chance, Simulated};
use redolog::{Fsync, Gate, Log, Lsn, Opened, Record, Settings, State};

use super::{Driver, NotStarted, Own, Plan};
use crate::folder::{Folder, Place, Unusable};
use crate::local::Local;
use crate::port::{Listener, Port};

pub(super) const SHARD: ShardId = ShardId(4);
const LIMITS: redolog::Limits = redolog::Limits { segment: 16384, spares: 1, reserve: 0, block: 4000 };

#[expect(clippy::disallowed_methods, reason = "tests run by the real clock")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The disks of a folder.
#[derive(Clone)]
pub(super) struct Disks {
    own: Simulated,
    pub(super) streams: Vec<Simulated>,
}

impl Disks {
    pub(super) fn new(streams: usize) -> Self {
        Self { own: Simulated::default(), streams: (0..streams).map(|_| Simulated::default()).collect() }
    }

    fn place(&self) -> Place<Simulated> {
        Place { own: self.own.clone(), streams: self.streams.clone(), locks: Vec::new() }
    }

    /// The folder of the acceptor that is there, or of a new one.
    fn folder(&self, fresh: u8) -> Folder<Simulated> {
        self.folder_of(fresh, LIMITS)
    }

    fn folder_of(&self, fresh: u8, limits: redolog::Limits) -> Folder<Simulated> {
        match Folder::open(self.place(), SHARD, limits) {
            Err(Unusable::Empty) => Folder::make(self.place(), SHARD, AcceptorId([fresh; 16]), limits).unwrap(),
            opened => opened.unwrap_or_else(|why| panic!("{why}")),
        }
    }

    /// A process that still runs can change nothing any more.
    pub(super) fn lose_power(&self) {
        self.own.fail_power_after(0);
        self.streams.iter().for_each(|disk| disk.fail_power_after(0));
    }

    pub(super) fn crash(&self, chance: &mut Chance) {
        self.own.crash(chance);
        self.streams.iter().for_each(|disk| disk.crash(chance));
    }
}

/// A copy that runs.
pub(super) struct Copy {
    pub(super) disks: Disks,
    pub(super) local: Arc<Local<Simulated>>,
}

impl Copy {
    pub(super) fn start(disks: Disks, fresh: u8) -> Self {
        let local = Local::start(disks.folder(fresh)).unwrap_or_else(|why| panic!("{why}"));
        Self { disks, local: Arc::new(local) }
    }

    pub(super) fn port(&self, listener: &Listener) -> (AcceptorId, Arc<dyn Port>) {
        (self.local.id(), Arc::new(self.local.caller(listener.clone())))
    }
}

/// The owner while it leads.
pub(super) struct Led {
    pub(super) driver: Arc<Driver>,
    pub(super) log: Log,
    pub(super) gates: Vec<Gate>,
    pub(super) found: Vec<Lsn>,
}

pub(super) fn settings(fsync: Fsync) -> Settings {
    let clock = AtomicU64::new(1);
    Settings { limits: LIMITS, fsync, clock: Arc::new(move || clock.fetch_add(1_000_000, Relaxed)), seed: 7 }
}

pub(super) fn plan(term: u32, own: u8, settled: &[u8], pending: Option<&[u8]>) -> Plan {
    let ids = |set: &[u8]| set.iter().map(|id| AcceptorId([*id; 16])).collect::<Vec<_>>();
    let (term, own) = (Term::new(term).unwrap(), AcceptorId([own; 16]));
    Plan { shard: SHARD, term, own, settled: ids(settled), pending: pending.map(ids) }
}

fn try_lead(disks: &Disks, plan: Plan, copies: &[&Copy], most: Duration) -> Result<Led, NotStarted> {
    let since = now();
    let mut wait = |_: quorum::Stage, _: &[AcceptorId]| since.elapsed() < most;
    let own = Own::of(disks.folder(plan.own.0[0]))?;
    assert_eq!(own.acceptor(), plan.own);
    assert!(own.term() < plan.term);
    let ports = |listener: &Listener| copies.iter().map(|copy| copy.port(listener)).collect();
    let driver = own.bring_up(plan, Limits::default(), ports, &mut wait)?;
    let mut opened = Opened::of(disks.streams.clone(), &[])?;
    let mut found = Vec::new();
    opened.replay(|record| found.push(record.lsn))?;
    driver.lead(&mut opened)?;
    let (log, mut gates) = opened.start([9; 16], Lsn(0), 1, settings(Fsync::Always))?;
    let gates = gates.remove(0);
    if let Err(why) = driver.follow(&log, &mut wait) {
        log.stop();
        return Err(why.into());
    }
    Ok(Led { driver, log, gates, found })
}

pub(super) fn lead(disks: &Disks, plan: Plan, copies: &[&Copy]) -> Led {
    try_lead(disks, plan, copies, Duration::from_secs(20)).unwrap_or_else(|why| panic!("{why}"))
}

impl Led {
    pub(super) fn leave(&mut self, stream: u16, on: &[Lsn], filler: usize) -> Lsn {
        let gate = &mut self.gates[usize::from(stream)];
        let lsn = on.iter().copied().fold(gate.enter(), Lsn::max).above(stream);
        gate.leave(lsn, |out| Record::encode(lsn, on, &vec![7; filler], out));
        gate.exit();
        self.log.ring(stream);
        lsn
    }

    pub(super) fn is_committed(&self, lsn: Lsn, most: Duration) -> bool {
        let since = now();
        while self.log.marks().of(lsn.stream()) < lsn && since.elapsed() < most {
            thread::park_timeout(Duration::from_micros(200));
        }
        self.log.marks().of(lsn.stream()) >= lsn
    }

    /// Records in both streams, all acknowledged.
    pub(super) fn write(&mut self, count: usize) -> Vec<Lsn> {
        let mut left: Vec<Lsn> = Vec::new();
        for at in 0..count {
            let on = left.last().copied();
            left.push(self.leave(at as u16 % 2, on.as_slice(), if at % 7 == 0 { 9000 } else { 100 }));
        }
        let last = *left.last().unwrap();
        assert!(self.is_committed(last, Duration::from_secs(20)), "a majority is there");
        left
    }

    pub(super) fn stop(self) {
        self.log.stop();
        self.driver.stop();
    }
}

/// The owner's folder is wiped, and then a copy's. Acceptors change while the log runs.
#[test]
fn what_a_majority_acknowledged_survives_any_folder() {
    let (own, b, c) = (Disks::new(2), Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3));
    // A log by itself gets copies: it is the only acceptor until these have everything.
    let opened = Opened::of(own.streams.clone(), &[]).unwrap();
    let (log, mut gates) = opened.start([9; 16], Lsn(0), 1, settings(Fsync::Always)).unwrap();
    let mut alone = Vec::new();
    for _ in 0..5 {
        let gate = &mut gates[0][0];
        let lsn = gate.enter().above(0);
        gate.leave(lsn, |out| Record::encode(lsn, &[], &[7; 100], out));
        gate.exit();
        log.ring(0);
        alone.push(lsn);
    }
    log.stop();
    let mut led = lead(&own, plan(2, 1, &[1], Some(&[1, 2, 3])), &[&b, &c]);
    assert!(led.driver.may_settle());
    led.driver.settled();
    let mut all = alone;
    all.extend(led.write(40));
    led.stop();

    // The owner's folder is wiped: the new one counts for nothing, and two others are a majority.
    let own = Disks::new(2);
    let mut led = lead(&own, plan(3, 4, &[1, 2, 3], None), &[&b, &c]);
    assert_eq!(led.found, all, "everything that was acknowledged is there");
    all.extend(led.write(30));

    // The new folder takes the place of the old one, while the log runs.
    let pending = plan(4, 4, &[1, 2, 3], Some(&[4, 2, 3]));
    assert_eq!(led.driver.behind(pending.pending.as_ref().unwrap()), Some(0));
    led.driver.again(pending, &mut |_, _| true).unwrap();
    assert!(led.driver.may_settle());
    led.driver.settled();
    all.extend(led.write(20));

    // A copy is wiped. The own folder and the other one are a majority.
    b.local.stop().unwrap();
    all.extend(led.write(20));
    led.stop();

    // All that is left is one copy and the owner's folder.
    let led = lead(&own, plan(5, 4, &[4, 2, 3], None), &[&c]);
    all.sort();
    assert_eq!(led.found, all);
    led.stop();
    let mut found = Vec::new();
    c.local.stop().unwrap();
    // Rule G14: a copy opens as a log.
    Opened::of(c.disks.streams.clone(), &[]).unwrap().replay(|record| found.push(record.lsn)).unwrap();
    assert_eq!(found, all);
}

#[test]
fn nothing_is_acknowledged_without_a_majority() {
    let (own, b) = (Disks::new(2), Copy::start(Disks::new(2), 2));
    let of_three = |term| plan(term, 1, &[1, 2, 3], None);
    let mut led = lead(&own, of_three(1), &[&b]);
    let all = led.write(10);
    b.local.stop().unwrap();
    let lost = led.leave(0, &[], 100);
    assert!(!led.is_committed(lost, Duration::from_millis(200)));
    let since = now();
    assert_eq!(led.log.stop(), State::Running);
    led.driver.stop();
    assert!(since.elapsed() < Duration::from_secs(5), "a stop waits for nobody");
    let alone = try_lead(&own, of_three(2), &[], Duration::from_millis(300));
    assert!(matches!(alone, Err(NotStarted::Ended(super::Ended::Stopped))), "no majority promises anything");
    // With a majority again, what the owner alone had may be there or not: it was not acknowledged.
    let b = Copy::start(b.disks, 2);
    let led = lead(&own, of_three(3), &[&b]);
    assert!(all.iter().all(|lsn| led.found.contains(lsn)));
    led.stop();
}

/// An acceptor that was away has more to catch up with than memory holds: the own folder gives it the blocks.
#[test]
fn the_own_folder_gives_blocks_to_one_that_lags() {
    let (own, b) = (Disks::new(2), Copy::start(Disks::new(2), 2));
    let of_two = |term| plan(term, 1, &[1], None);
    let mut led = lead(&own, of_two(1), &[]);
    let all = led.write(300);
    led.stop();
    let mut led = lead(&own, of_two(2), &[]);
    assert_eq!(led.found, all);
    led.write(4);
    // Blocks of the terms before are in no memory.
    led.driver.follow_up(|listener| vec![b.port(listener)]);
    let since = now();
    while led.driver.behind(&[AcceptorId([2; 16])]) != Some(0) {
        assert!(since.elapsed() < Duration::from_secs(20), "{:?}", led.driver.lags());
        thread::park_timeout(Duration::from_millis(1));
    }
    led.stop();
}

/// Rule G10: a disk of the own log fails. The log goes on with the copies, also in another term, and the next start has
/// everything.
#[test]
fn a_log_goes_on_when_its_own_disk_fails_g10() {
    for syncs in 0..6 {
        let (own, b, c) = (Disks::new(2), Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3));
        let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b, &c]);
        let mut all = led.write(10);
        own.streams[1].fail_sync_after(syncs);
        all.extend(led.write(40));
        assert!(led.log.own_loss().is_some(), "{syncs}");
        let own_lags = || led.driver.lags().into_iter().filter(|lag| lag.acceptor == AcceptorId([1; 16]));
        assert!(own_lags().all(|lag| !lag.answers));
        // The acceptors change, too: the failed one gives way to another.
        let d = Copy::start(Disks::new(2), 4);
        led.driver.follow_up(|listener| vec![d.port(listener)]);
        let since = now();
        while led.driver.behind(&[d.local.id()]) != Some(0) {
            assert!(since.elapsed() < Duration::from_secs(20), "{:?}", led.driver.lags());
            thread::park_timeout(Duration::from_millis(1));
        }
        led.driver.again(plan(2, 1, &[1, 2, 3], Some(&[4, 2, 3])), &mut |_, _| true).unwrap();
        assert!(led.driver.may_settle());
        led.driver.settled();
        all.extend(led.write(10));
        led.stop();
        // The folder of before counts for nothing, and is brought up.
        let led = lead(&own, plan(3, 1, &[4, 2, 3], None), &[&b, &c, &d]);
        all.sort();
        assert_eq!(led.found, all, "{syncs}");
        led.stop();
    }
}

/// Rule L8: a copy without room does not stop the log, and gets the rest when there is room. Two do, until there is.
#[test]
fn a_log_is_full_when_a_majority_is() {
    let (own, b, c) = (Disks::new(2), Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3));
    let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b, &c]);
    let room = |copy: &Copy, room| copy.disks.streams.iter().for_each(|disk| disk.set_room(room));
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let since = now();
        while !is_so() {
            assert!(since.elapsed() < Duration::from_secs(20), "never: {what}");
            thread::park_timeout(Duration::from_millis(1));
        }
    };
    let mut all = led.write(10);
    room(&b, Some(0));
    all.extend(led.write(60));
    assert!(b.local.figures().streams.iter().any(|stream| stream.lack.is_some()));
    assert_eq!(led.log.state(), State::Running);

    room(&c, Some(0));
    let mut last = None;
    for at in 0..60 {
        last = Some(led.leave(at % 2, &[], 3000));
        all.extend(last);
    }
    until("the log is full", &|| matches!(led.log.state(), State::Full(redolog::Lack::Copies)));
    let last = last.unwrap();
    assert!(!led.is_committed(last, Duration::from_millis(100)));

    room(&b, None);
    until("there is room", &|| led.log.state() == State::Running);
    assert!(led.is_committed(last, Duration::from_secs(20)));
    room(&c, None);
    until("both have all", &|| led.driver.behind(&[b.local.id(), c.local.id()]) == Some(0));
    led.stop();
    let led = lead(&Disks::new(2), plan(2, 4, &[1, 2, 3], None), &[&b, &c]);
    all.sort();
    assert_eq!(led.found, all);
    led.stop();
}

/// A copy says that it has no room before blocks wait for it: it makes its next segment ahead.
#[test]
fn a_lack_of_room_is_known_ahead() {
    let limits = redolog::Limits { reserve: 14000, ..LIMITS };
    let (own, [b, c]) = (
        Disks::new(2),
        [2, 3].map(|fresh| {
            let disks = Disks::new(2);
            let local = Local::start(disks.folder_of(fresh, limits)).unwrap_or_else(|why| panic!("{why}"));
            Copy { disks, local: Arc::new(local) }
        }),
    );
    let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b, &c]);
    let is_full = |led: &Led| matches!(led.log.state(), State::Full(redolog::Lack::Copies));
    [&b, &c].iter().for_each(|copy| copy.disks.streams.iter().for_each(|disk| disk.set_room(Some(0))));
    let since = now();
    while !is_full(&led) {
        assert!(since.elapsed() < Duration::from_secs(20), "it is not known");
        let lsn = led.leave(0, &[], 500);
        assert!(led.is_committed(lsn, Duration::from_secs(20)), "there is room for this");
    }
    [&b, &c].iter().for_each(|copy| copy.disks.streams.iter().for_each(|disk| disk.set_room(None)));
    while led.log.state() != State::Running {
        assert!(since.elapsed() < Duration::from_secs(20), "there is room");
        thread::park_timeout(Duration::from_millis(1));
    }
    led.write(20);
    led.stop();
}

/// Without the own folder the other one is no majority: the log ends with its disk, as one by itself does.
#[test]
fn a_log_of_two_ends_with_its_own_disk() {
    let (own, b) = (Disks::new(2), Copy::start(Disks::new(2), 2));
    let mut led = lead(&own, plan(1, 1, &[1, 2], None), &[&b]);
    led.write(10);
    own.streams[0].fail_sync_after(0);
    let lost = led.leave(0, &[], 100);
    assert!(!led.is_committed(lost, Duration::from_millis(200)));
    assert!(matches!(led.log.state(), State::Failed(_)) && led.log.own_loss().is_none());
    led.stop();
}

/// Owners come and go, machines lose power, and folders are wiped one at a time: no acknowledged record is lost.
#[test]
fn owners_and_folders_come_and_go() {
    for seed in 0..12 {
        let mut chance = Chance(seed);
        let mut own = Disks::new(2);
        let mut copies = vec![Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3)];
        let (mut settled, mut next, mut all) = (vec![1, 2, 3], 4u8, Vec::new());
        let mut pending: Option<Vec<u8>> = None;
        for term in 1..7 {
            let own_id = match Folder::open(own.place(), SHARD, LIMITS) {
                Ok(folder) => folder.acceptor().0[0],
                Err(_) if term == 1 => 1,
                Err(_) => next - 1,
            };
            let refs: Vec<&Copy> = copies.iter().collect();
            let mut led = lead(&own, plan(term, own_id, &settled, pending.as_deref()), &refs);
            for lsn in &all {
                assert!(led.found.contains(lsn), "seed {seed}, term {term}: {lsn} is lost");
            }
            if let Some(new) = pending.take() {
                assert!(led.driver.may_settle());
                led.driver.settled();
                settled = new;
            }
            // Records that stand on nothing lost, only.
            all = led.found.clone();
            all.extend(led.write(5 + chance.below(20) as usize));
            let fault = chance.below(5);
            let victim = chance.below(2) as usize;
            if fault == 0 {
                // The machine of a copy loses power while the owner writes.
                copies[victim].disks.lose_power();
                all.extend(led.write(5));
                let copy = copies.remove(victim);
                let disks = copy.disks.clone();
                drop(copy);
                disks.crash(&mut chance);
                copies.push(Copy::start(disks, 0));
            }
            if fault == 1 {
                own.lose_power();
            }
            led.stop();
            own.crash(&mut chance);
            if fault == 2 {
                own = Disks::new(2);
                pending = Some(settled.iter().map(|id| if *id == own_id { next } else { *id }).collect());
                next += 1;
            }
            if fault == 3 {
                let gone = copies.remove(victim).local.id().0[0];
                copies.push(Copy::start(Disks::new(2), next));
                pending = Some(settled.iter().map(|id| if *id == gone { next } else { *id }).collect());
                next += 1;
            }
        }
    }
}

/// Jobs of acceptors by hand, as long as there are any.
fn work(acceptors: &[&Local<Simulated>]) {
    while let Some((local, job)) = acceptors.iter().find_map(|local| Some((local, local.job(false)?))) {
        let mut next = Some(job);
        while let Some(job) = next {
            next = local.carry_out(job);
        }
    }
}

/// The own folder has a block that no other has, and answers the seal last: the log that it is opened with has no block
/// beyond the chosen one. Also if the metadata do not name the own folder.
#[test]
fn the_own_folder_has_no_block_beyond_the_chosen_log() {
    for settled in [[1, 2, 3], [4, 2, 3]] {
        let (own, b, c) = (Disks::new(1), Copy::start(Disks::new(1), 2), Copy::start(Disks::new(1), 3));
        let mut led = lead(&own, plan(1, 1, &settled, None), &[&b, &c]);
        let written = led.leave(0, &[], 100);
        assert!(led.is_committed(written, Duration::from_secs(20)));
        b.local.stop().unwrap();
        c.local.stop().unwrap();
        led.leave(0, &[], 100);
        led.stop();

        let by_hand = |disks: &Disks| Local::by_hand(disks.folder(0)).unwrap_or_else(|why| panic!("{why}"));
        let others = [by_hand(&b.disks), by_hand(&c.disks)];
        let ports = |listener: &Listener| {
            let port =
                |local: &Local<Simulated>| (local.id(), Arc::new(local.caller(listener.clone())) as Arc<dyn Port>);
            others.iter().map(port).collect()
        };
        let folder = Own::of(own.folder(0)).unwrap();
        let rising = folder.bring_up_by_hand(plan(2, 1, &settled, None), Limits::default(), ports);
        let rising = rising.unwrap_or_else(|why| panic!("{why}"));
        work(&[&others[0], &others[1]]);
        work(&[rising.acceptor(), &others[0], &others[1]]);
        let copied = rising.driver().is_copied();
        assert_eq!(copied, Ok(true));
        let (driver, _reads) = rising.end(copied.map(drop)).unwrap_or_else(|why| panic!("{why}"));
        let mut opened = Opened::of(own.streams.clone(), &[]).unwrap();
        opened.replay(|_| {}).unwrap();
        driver.lead(&mut opened).unwrap_or_else(|why| panic!("{settled:?}: {why}"));
    }
}

/// A copy needs blocks that memory has no more, and that the own folder alone can give. The process has no descriptor to
/// read them with, and then has one.
#[test]
fn blocks_of_the_own_folder_are_read_when_there_is_a_descriptor() {
    let (own, b, c) = (Disks::new(1), Copy::start(Disks::new(1), 2), Copy::start(Disks::new(1), 3));
    let folder = Own::of(own.folder(1)).unwrap();
    let limits = Limits { ring_bytes: 0, ..Limits::default() };
    let ports = |listener: &Listener| vec![b.port(listener)];
    let rising = folder.bring_up_by_hand(plan(1, 1, &[1, 2, 3], None), limits, ports).unwrap();
    let since = now();
    while rising.driver().is_copied() != Ok(true) {
        assert!(since.elapsed() < Duration::from_secs(20));
        work(&[rising.acceptor()]);
    }
    let (driver, mut reads) = rising.end(Ok(())).unwrap_or_else(|why| panic!("{why}"));
    let mut opened = Opened::of(own.streams.clone(), &[]).unwrap();
    driver.lead(&mut opened).unwrap_or_else(|why| panic!("{why}"));
    let (log, mut gates) = opened.start([9; 16], Lsn(0), 1, settings(Fsync::Always)).unwrap();
    driver.follow(&log, &mut |_, _| since.elapsed() < Duration::from_secs(20)).unwrap();
    let mut led = Led { driver, log, gates: gates.remove(0), found: Vec::new() };
    for _ in 0..9 {
        let lsn = led.leave(0, &[], 100);
        assert!(led.is_committed(lsn, Duration::from_secs(20)));
    }

    own.streams[0].set_out_of_descriptors(true);
    let mut ears = None;
    led.driver.follow_up(|listener| {
        ears = Some(listener.clone());
        vec![c.port(listener)]
    });
    let tell = ears.unwrap();
    tell(b.local.id(), crate::Heard::Lost);
    tell(c.local.id(), crate::Heard::Connected);
    let behind = || led.driver.behind(&[c.local.id()]);
    while behind().is_none() {
        assert!(since.elapsed() < Duration::from_secs(20), "it answers");
        thread::yield_now();
    }
    reads.step();
    assert!(behind().is_some_and(|blocks| blocks > 0), "nothing can be read");
    own.streams[0].set_out_of_descriptors(false);
    while behind() != Some(0) {
        assert!(since.elapsed() < Duration::from_secs(20), "the copy is brought up: {:?}", led.driver.shown());
        reads.step();
        thread::yield_now();
    }
    led.stop();
}

/// A copy lacks a block when the own folder is closed for the log, and the own folder was asked for it: the one that
/// answers in its place gives it.
#[test]
fn a_read_of_the_own_folder_outlasts_its_acceptor() {
    let (own, b, c) = (Disks::new(1), Copy::start(Disks::new(1), 2), Copy::start(Disks::new(1), 3));
    let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b, &c]);
    let first = led.leave(0, &[], 100);
    assert!(led.is_committed(first, Duration::from_secs(20)));
    let since = now();
    while led.driver.behind(&[b.local.id()]) != Some(0) {
        assert!(since.elapsed() < Duration::from_secs(20));
        thread::yield_now();
    }
    b.local.stop().unwrap();
    let last = led.leave(0, &[], 100);
    assert!(led.is_committed(last, Duration::from_secs(20)));
    led.stop();
    c.local.stop().unwrap();

    let by_hand = |disks: &Disks| Local::by_hand(disks.folder(0)).unwrap_or_else(|why| panic!("{why}"));
    let (b, c) = (by_hand(&b.disks), by_hand(&c.disks));
    let ports = |listener: &Listener| {
        let port = |local: &Local<Simulated>| (local.id(), Arc::new(local.caller(listener.clone())) as Arc<dyn Port>);
        vec![port(&b), port(&c)]
    };
    let folder = Own::of(own.folder(0)).unwrap();
    let rising = folder.bring_up_by_hand(plan(2, 1, &[1, 2, 3], None), Limits::default(), ports);
    let rising = rising.unwrap_or_else(|why| panic!("{why}"));
    work(&[rising.acceptor(), &c]);
    assert_eq!(rising.driver().is_copied(), Ok(true));
    work(&[&b]);
    assert!(rising.driver().behind(&[b.id()]) > Some(0), "the own folder was asked, and has not answered");
    let (driver, mut reads) = rising.end(Ok(())).unwrap_or_else(|why| panic!("{why}"));
    while reads.step() {}
    work(&[&b]);
    assert_eq!(driver.behind(&[b.id()]), Some(0));
}

/// Acceptors that are pending never answer, and are withdrawn: the owner goes on in another term. They are let go of.
#[test]
fn acceptors_that_are_withdrawn_are_not_waited_for() {
    let (own, b, c) = (Disks::new(2), Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3));
    let d = Copy::start(Disks::new(2), 4);
    let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b, &c]);
    let mut all = led.write(10);
    led.driver.follow_up(|listener| vec![d.port(listener)]);
    d.local.stop().unwrap();
    let ids = |of: &[u8]| of.iter().map(|id| AcceptorId([*id; 16])).collect::<Vec<_>>();
    let mut looks = 0;
    let mut withdrawn = |stage: quorum::Stage, _: &[AcceptorId]| {
        looks += u32::from(stage == quorum::Stage::Sealing);
        looks < 3
    };
    let given_up = led.driver.again(plan(2, 1, &[1, 2, 3], Some(&[1, 4, 5])), &mut withdrawn);
    assert_eq!(given_up, Err(super::Ended::Stopped));
    led.driver.again(plan(3, 1, &[1, 2, 3], None), &mut |_, _| true).unwrap();
    all.extend(led.write(10));
    assert_eq!(led.driver.lacking(&ids(&[4])), ids(&[4]), "it would have to be followed again");
    led.driver.keep_only(&ids(&[1, 2, 3]));
    assert_eq!(led.driver.lacking(&ids(&[2, 3, 4])), ids(&[4]), "the way to it has ended");
    assert!(led.driver.lags().iter().all(|lag| lag.acceptor != AcceptorId([4; 16])));
    // One that is brought up and does not count yet is let go of as well.
    let e = Copy::start(Disks::new(2), 6);
    led.driver.follow_up(|listener| vec![e.port(listener)]);
    led.driver.keep_only(&ids(&[1, 2, 3, 6]));
    assert_eq!(led.driver.lacking(&ids(&[6])), []);
    led.driver.keep_only(&ids(&[1, 2, 3]));
    assert_eq!(led.driver.lacking(&ids(&[6])), ids(&[6]));
    assert!(led.driver.lags().iter().all(|lag| lag.acceptor != AcceptorId([6; 16])));
    all.extend(led.write(10));
    led.stop();
    let led = lead(&own, plan(4, 1, &[1, 2, 3], None), &[&b, &c]);
    all.sort();
    assert_eq!(led.found, all);
    led.stop();
}

/// Acceptors that are pending answer the seal of a start, and not the start blocks, and are withdrawn: the start goes on in
/// another term.
#[test]
fn a_start_goes_on_without_acceptors_that_are_withdrawn() {
    let (own, b, c) = (Disks::new(2), Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3));
    let d = Copy::start(Disks::new(2), 4);
    let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b, &c]);
    let mut all = led.write(10);
    led.stop();
    let since = now();
    let mut wait = |_: quorum::Stage, _: &[AcceptorId]| since.elapsed() < Duration::from_secs(20);
    let ports = |listener: &Listener| [&b, &c, &d].iter().map(|copy| copy.port(listener)).collect();
    let rising = plan(2, 1, &[1, 2, 3], Some(&[1, 4, 5]));
    let driver = Own::of(own.folder(1)).unwrap().bring_up(rising, Limits::default(), ports, &mut wait).unwrap();
    d.local.stop().unwrap();
    let mut opened = Opened::of(own.streams.clone(), &[]).unwrap();
    let mut found = Vec::new();
    opened.replay(|record| found.push(record.lsn)).unwrap();
    driver.lead(&mut opened).unwrap();
    let (log, mut gates) = opened.start([9; 16], Lsn(0), 1, settings(Fsync::Always)).unwrap();
    let mut looks = 0;
    let followed = driver.follow(&log, &mut |_, _| {
        looks += 1;
        looks < 3
    });
    assert_eq!(followed, Err(super::Ended::Stopped));
    driver.again(plan(3, 1, &[1, 2, 3], None), &mut wait).unwrap();
    let mut led = Led { driver, log, gates: gates.remove(0), found };
    all.extend(led.write(10));
    led.stop();
    let led = lead(&own, plan(4, 1, &[1, 2, 3], None), &[&b, &c]);
    all.sort();
    assert_eq!(led.found, all);
    led.stop();
}
