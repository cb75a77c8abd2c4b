//! The log with its threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;
use std::time::Duration;

use crate::simulated::{Chance, Open, Simulated};
use crate::{
    After, Clock, Flight, Fsync, Gate, Limits, Log, Lsn, Opened, Record, Settings, State, Step, Stepped, Watermarks,
};

const LIMITS: Limits = Limits { segment: 16384, spares: 1, reserve: 0, block: 16 << 20 };

/// A clock that a test moves.
fn still() -> (Clock, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(1));
    let clock = time.clone();
    (Arc::new(move || clock.load(SeqCst)), time)
}

pub(super) fn settings(fsync: Fsync) -> Settings {
    Settings { limits: LIMITS, fsync, clock: still().0, seed: 12345 }
}

/// Leaves a record without ringing.
pub(super) fn leave(gate: &mut Gate, stream: u16, dependencies: &[Lsn]) -> Lsn {
    let above = dependencies.iter().copied().fold(gate.enter(), Lsn::max);
    let lsn = above.above(stream);
    gate.leave(lsn, |out| Record::encode(lsn, dependencies, &lsn.0.to_le_bytes(), out));
    gate.exit();
    lsn
}

pub(super) fn wait(marks: &Watermarks, stream: u16, lsn: Lsn) {
    while marks.of(stream) < lsn {
        thread::yield_now();
    }
}

pub(super) fn found(disks: &[Simulated]) -> Vec<Lsn> {
    let mut found = Vec::new();
    let mut opened = Opened::of(disks.to_vec(), &[]).unwrap();
    opened.replay(|record| found.push(record.lsn)).unwrap();
    found
}

pub(super) fn start(disks: &[Simulated], settings: Settings) -> (Log, Vec<Vec<Gate>>) {
    Opened::of(disks.to_vec(), &[]).unwrap().start([1; 16], Lsn(0), 2, settings).unwrap()
}

#[test]
fn what_is_rung_for_is_committed() {
    for fsync in [Fsync::Always, Fsync::Everysec, Fsync::No] {
        let disks = [Simulated::default()];
        let (log, mut gates) = start(&disks, settings(fsync));
        let told = Arc::new(AtomicU64::new(0));
        let count = told.clone();
        log.on_moved(Box::new(move || {
            count.fetch_add(1, SeqCst);
        }));
        let mut left = Vec::new();
        for i in 0..100 {
            let lsn = leave(&mut gates[i % 2][0], 0, &[]);
            left.push(lsn);
            log.ring(0);
            wait(log.marks(), 0, lsn);
        }
        assert_eq!(log.stop(), State::Running);
        assert!(told.load(SeqCst) >= 100);
        assert_eq!(log.facts(0).records, 100);
        assert_eq!(found(&disks), left);
    }
}

#[test]
fn what_nobody_rings_for_is_committed_at_the_end() {
    let disks = [Simulated::default()];
    let (log, mut gates) = start(&disks, settings(Fsync::Always));
    let lsn = leave(&mut gates[0][0], 0, &[]);
    log.stop();
    assert_eq!(log.marks().of(0), lsn);
    assert_eq!(found(&disks), [lsn]);
}

#[test]
fn streams_wait_for_each_other() {
    let disks = [Simulated::default(), Simulated::default(), Simulated::default()];
    let (log, mut gates) = start(&disks, settings(Fsync::Always));
    let mut last = Lsn::ZERO;
    let mut left = Vec::new();
    for i in 0..300u16 {
        let stream = i % 3;
        let of = if last == Lsn::ZERO { vec![] } else { vec![last] };
        last = leave(&mut gates[0][usize::from(stream)], stream, &of);
        left.push(last);
        // The record that it stands on is rung for after it, now and then.
        if i % 2 == 1 {
            log.ring(stream);
            log.ring((i - 1) % 3);
        }
        if i % 50 == 49 {
            wait(log.marks(), stream, last);
        }
    }
    assert_eq!(log.stop(), State::Running);
    assert_eq!(found(&disks), left);
}

/// Rule L9: a record that was not synced when a sync failed is never promised, nor is any later one.
#[test]
fn a_failed_sync_is_final() {
    for fsync in [Fsync::Always, Fsync::Everysec] {
        let disks = [Simulated::default()];
        let (clock, time) = still();
        let (log, mut gates) = start(&disks, Settings { clock, ..settings(fsync) });
        let first = leave(&mut gates[0][0], 0, &[]);
        log.ring(0);
        wait(log.marks(), 0, first);
        disks[0].fail_sync_after(0);
        let second = leave(&mut gates[0][0], 0, &[]);
        time.fetch_add(2_000_000_000, SeqCst);
        log.ring(0);
        while log.state() == State::Running {
            thread::yield_now();
        }
        assert!(!log.takes_writes());
        let mark = log.marks().of(0);
        assert!(mark == first || fsync == Fsync::Everysec);
        leave(&mut gates[0][0], 0, &[]);
        log.ring(0);
        let State::Failed(reason) = log.stop() else { panic!("{:?}", log.state()) };
        assert_eq!(reason, "stream 0: the disk does not answer");
        assert_eq!(log.marks().of(0), mark);
        // The process is gone. Records that can be read are served, and so must outlive the machine.
        disks[0].kill();
        let (log, _) = start(&disks, settings(fsync));
        let served = log.marks().of(0);
        assert!(served >= mark);
        disks[0].crash(&mut Chance(1));
        drop(log);
        let left = found(&disks);
        assert_eq!(left.last(), Some(&served));
        assert!(left.len() <= 2 && second >= served);
    }
}

/// Steps until a block is handed out.
fn board(stepped: &mut Stepped<Simulated>) -> Option<Flight<Open>> {
    for _ in 0..3 {
        if let Step::Write(flight) = stepped.step_apart(true) {
            return Some(flight);
        }
    }
    None
}

/// The watermark passes blocks in flight in their order, in whatever order they land.
#[test]
fn blocks_in_flight_land_in_any_order() {
    let disks = [Simulated::default()];
    let opened = Opened::of(disks.to_vec(), &[]).unwrap();
    let (log, mut gates, mut stepped) = opened.start_by_hand([1; 16], Lsn(0), 1, settings(Fsync::Always)).unwrap();
    let before = log.marks().of(0);
    let mut flights = Vec::new();
    for _ in 0..2 {
        let lsn = leave(&mut gates[0][0], 0, &[]);
        flights.push((lsn, board(&mut stepped[0]).expect("a block")));
    }
    let (last, second) = flights.pop().unwrap();
    let (_, first) = flights.pop().unwrap();
    let mut land = |flight: Flight<Open>| {
        let written = flight.write();
        stepped[0].land(flight, written);
        assert_ne!(stepped[0].step(false), After::End);
        log.marks().of(0)
    };
    assert_eq!(land(second), before);
    assert_eq!(land(first), last);
    assert_eq!((log.facts(0).stalled, log.facts(0).backlog), (0, 0));
}

/// Rule L9: when a block in flight fails, nothing is promised any more, not even other blocks in flight.
#[test]
fn a_failed_block_fails_what_is_in_flight() {
    let disks = [Simulated::default()];
    let opened = Opened::of(disks.to_vec(), &[]).unwrap();
    let (log, mut gates, mut stepped) = opened.start_by_hand([1; 16], Lsn(0), 1, settings(Fsync::Always)).unwrap();
    let before = log.marks().of(0);
    let flights: Vec<_> = (0..2)
        .map(|_| {
            leave(&mut gates[0][0], 0, &[]);
            board(&mut stepped[0]).expect("a block")
        })
        .collect();
    for (flight, fails) in flights.into_iter().zip([true, false]).rev() {
        if fails {
            disks[0].fail_sync_after(0);
        }
        let written = flight.write();
        stepped[0].land(flight, written);
        assert_eq!(stepped[0].step(true) == After::End, log.state() != State::Running);
    }
    assert!(matches!(log.state(), State::Failed(_)));
    assert_eq!(log.marks().of(0), before);
}

/// Another block departs when it is as large as those in flight; a smaller rest goes when one has landed.
#[test]
fn a_block_departs_when_it_pays() {
    let disks = [Simulated::default()];
    let opened = Opened::of(disks.to_vec(), &[]).unwrap();
    let (log, mut gates, mut stepped) = opened.start_by_hand([1; 16], Lsn(0), 1, settings(Fsync::Always)).unwrap();
    let stepped = &mut stepped[0];
    for _ in 0..3 {
        leave(&mut gates[0][0], 0, &[]);
    }
    let first = board(stepped).expect("a block");
    leave(&mut gates[0][0], 0, &[]);
    log.ring(0);
    assert!(board(stepped).is_none(), "a third of the first");
    for _ in 0..2 {
        leave(&mut gates[0][0], 0, &[]);
    }
    let second = board(stepped).expect("as large as the first");
    let last = leave(&mut gates[0][0], 0, &[]);
    assert!(board(stepped).is_none());
    let land = |flight: Flight<Open>, stepped: &mut Stepped<Simulated>| {
        let written = flight.write();
        stepped.land(flight, written);
    };
    land(first, stepped);
    assert!(board(stepped).is_none());
    land(second, stepped);
    let third = board(stepped).expect("what is left when nothing is in flight");
    land(third, stepped);
    stepped.step(false);
    assert_eq!(log.marks().of(0), last);
}

/// Lets workers leave records, each at its own gates.
fn at_once<R: Send + 'static>(
    log: &Log,
    gates: Vec<Vec<Gate>>,
    work: impl Fn(&Log, &mut [Gate], u64) -> R + Copy + Send + 'static,
) -> Vec<R> {
    let spawn = |(mut gates, worker): (Vec<Gate>, u64)| {
        let log = log.clone();
        thread::spawn(move || work(&log, &mut gates, worker))
    };
    let workers: Vec<_> = gates.into_iter().zip(0..).map(spawn).collect();
    workers.into_iter().map(|worker| worker.join().unwrap()).collect()
}

/// With every segment a few blocks long, and several workers.
#[test]
fn many_workers_and_many_blocks() {
    for fsync in [Fsync::Always, Fsync::Everysec] {
        let disks = [Simulated::default(), Simulated::default()];
        let opened = Opened::of(disks.to_vec(), &[]).unwrap();
        let (log, gates) = opened.start([1; 16], Lsn(0), 3, settings(fsync)).unwrap();
        at_once(&log, gates, |log, gates, worker| {
            for i in 0..600u16 {
                let gate = &mut gates[usize::from(i % 2)];
                let lsn = Lsn((((gate.enter().0 >> 7) + 1) << 7) | (worker << 4) | u64::from(i % 2));
                let effects = vec![worker as u8; usize::from(i % 50 * 10) + 1];
                gate.leave(lsn, |out| Record::encode(lsn, &[], &effects, out));
                gate.exit();
                if i % 3 == 0 || i % 10 == 0 {
                    log.ring(i % 2);
                }
                if i % 10 == 0 {
                    wait(log.marks(), i % 2, lsn);
                    log.truncate(&[Lsn(lsn.0.saturating_sub(1 << 12)); 2]);
                }
            }
        });
        assert_eq!(log.stop(), State::Running);
        assert_eq!((0..2).map(|stream| log.facts(stream).records).sum::<u64>(), 1800);
        assert_eq!((0..2).map(|stream| log.facts(stream).backlog).sum::<u64>(), 0);
        found(&disks);
    }
}

#[test]
fn who_waits_may_write() {
    let disks = [Simulated::default()];
    let opened = Opened::of(disks.to_vec(), &[]).unwrap();
    let (log, gates) = opened.start([1; 16], Lsn(0), 3, settings(Fsync::Always)).unwrap();
    let lent = at_once(&log, gates, |log, gates, worker| {
        let mut lent = 0;
        for _ in 0..400 {
            let gate = &mut gates[0];
            let lsn = Lsn((((gate.enter().0 >> 7) + 1) << 7) | (worker << 4));
            gate.leave(lsn, |out| Record::encode(lsn, &[], &[worker as u8; 40], out));
            gate.exit();
            if log.lend(0) {
                lent += 1;
                assert!(log.marks().of(0) >= lsn);
            } else {
                log.ring(0);
                wait(log.marks(), 0, lsn);
            }
        }
        lent
    });
    assert!(lent.iter().sum::<u32>() > 0);
    log.set_fsync(Fsync::Everysec);
    assert_eq!(log.stop(), State::Running);
    assert!(!log.lend(0), "there is nobody to lend a hand to");
    assert_eq!(log.facts(0).records, 1200);
    assert_eq!(found(&disks).len(), 1200);
}

/// A worker that does not wait for the disk leaves each sync to a thread of the stream.
#[test]
fn what_a_worker_does_not_wait_for_is_committed() {
    let folder = std::env::temp_dir().join(format!("holdfast-log-lent-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let folders = [folder.clone()];
    let limits = Limits { segment: 1 << 16, ..LIMITS };
    let opened = Opened::new(&folders, &[]).unwrap();
    let settings = Settings { limits, ..settings(Fsync::Always) };
    let (log, mut gates) = opened.start_lending([1; 16], Lsn(0), 1, settings, Duration::ZERO).unwrap();
    let left: Vec<_> = (0..200)
        .map(|n| {
            let lsn = leave(&mut gates[0][0], 0, &[]);
            if n % 3 == 0 || !log.lend(0) {
                log.ring(0);
            }
            wait(log.marks(), 0, lsn);
            lsn
        })
        .collect();
    assert_eq!(log.stop(), State::Running);
    drop((log, gates));
    let mut found = Vec::new();
    Opened::new(&folders, &[]).unwrap().replay(|record| found.push(record.lsn)).unwrap();
    assert_eq!(found, left);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn who_writes_himself_hears_of_a_failure() {
    let disks = [Simulated::default()];
    let (log, mut gates) = start(&disks, settings(Fsync::Always));
    let first = leave(&mut gates[0][0], 0, &[]);
    while !log.lend(0) {
        thread::yield_now();
    }
    assert_eq!(log.marks().of(0), first);
    disks[0].fail_sync_after(0);
    leave(&mut gates[0][0], 0, &[]);
    // The log's own thread may be at it.
    while !log.lend(0) && log.state() == State::Running {
        thread::yield_now();
    }
    assert_eq!(log.state(), State::Failed("stream 0: the disk does not answer".into()));
    assert_eq!(log.marks().of(0), first);
    leave(&mut gates[0][0], 0, &[]);
    assert!(!log.lend(0));
    assert!(matches!(log.stop(), State::Failed(_)));
    assert_eq!(log.marks().of(0), first);
}

/// While a sync hangs nothing is promised, and the hang is visible.
#[test]
fn nothing_is_promised_while_a_sync_hangs() {
    let disks = [Simulated::default()];
    let (clock, time) = still();
    let (log, mut gates) = start(&disks, Settings { clock, ..settings(Fsync::Always) });
    disks[0].stall(true);
    let before = log.marks().of(0);
    let lsn = leave(&mut gates[0][0], 0, &[]);
    log.ring(0);
    while log.facts(0).stalled == 0 {
        time.fetch_add(1_000_000, SeqCst);
        thread::yield_now();
    }
    assert_eq!(log.marks().of(0), before);
    let waiting = log.facts(0).backlog;
    assert!(waiting > 0);
    let lsn = lsn.max(leave(&mut gates[0][0], 0, &[]));
    assert_eq!(log.facts(0).backlog, 2 * waiting);
    disks[0].stall(false);
    log.ring(0);
    wait(log.marks(), 0, lsn);
    assert_eq!(log.stop(), State::Running);
    assert_eq!(log.facts(0).stalled, 0);
    assert!(log.facts(0).syncs.iter().sum::<u64>() > 0);
}

/// With `everysec` a sync that hangs does not delay writes.
#[test]
fn writes_go_on_while_everysec_syncs() {
    let disks = [Simulated::default()];
    let (clock, time) = still();
    let (log, mut gates) = start(&disks, Settings { clock, ..settings(Fsync::Everysec) });
    let mut lsn = leave(&mut gates[0][0], 0, &[]);
    log.ring(0);
    wait(log.marks(), 0, lsn);
    disks[0].stall(true);
    time.fetch_add(2_000_000_000, SeqCst);
    while log.facts(0).stalled == 0 {
        log.ring(0);
        time.fetch_add(1_000_000, SeqCst);
        thread::yield_now();
    }
    for _ in 0..10 {
        lsn = leave(&mut gates[0][0], 0, &[]);
        log.ring(0);
        wait(log.marks(), 0, lsn);
    }
    disks[0].stall(false);
    assert_eq!(log.stop(), State::Running);
    disks[0].crash(&mut Chance(3));
    assert_eq!(found(&disks).last(), Some(&lsn));
}

/// Rule L6: a weaker setting does not release a reply that was promised `always`, and records after a stronger one are
/// synced.
#[test]
fn a_change_of_the_setting_weakens_nothing() {
    for seed in 0..20 {
        let disks = [Simulated::default()];
        let mut chance = Chance(seed);
        let (log, mut gates) = start(&disks, settings(Fsync::Always));
        let mut promised = Lsn::ZERO;
        for _ in 0..30 {
            let before = log.fsync();
            let lsn = leave(&mut gates[0][0], 0, &[]);
            let after = if chance.below(2) == 0 { Fsync::Always } else { Fsync::No };
            if chance.below(2) == 0 {
                log.ring(0);
            }
            log.set_fsync(after);
            wait(log.marks(), 0, lsn);
            if before == Fsync::Always {
                promised = lsn;
                let copy = disks[0].clone_durable();
                assert!(found(&[copy]).contains(&lsn), "seed {seed}: {lsn} was promised to be synced");
            }
        }
        log.stop();
        disks[0].crash(&mut chance);
        assert!(found(&disks).contains(&promised));
    }
}

/// Records that a stream is about to write are neither waiting nor being written. They count as backlog all the same,
/// or workers would go on.
#[test]
fn what_is_being_taken_is_still_left() {
    let (mut intake, mut gates) = crate::Intake::new(1, Lsn(0));
    let waiting = intake.waiting();
    let lsn = gates[0].enter().next();
    gates[0].leave(lsn, |bytes| bytes.extend_from_slice(&[7; 100]));
    gates[0].exit();
    assert_eq!((waiting.bytes(), waiting.ever()), (100, 100));
    assert!(matches!(intake.take(&mut Vec::new()), crate::Take::Taken(_)));
    assert_eq!((waiting.bytes(), waiting.ever()), (0, 100));
}

/// Late records are taken in the order in which all were left, and count with their final length.
#[test]
fn late_records_come_in_their_order() {
    let (mut intake, mut gates) = crate::Intake::new(2, Lsn(0));
    let waiting = intake.waiting();
    let mut leave = |worker: usize, late: bool, fill: u8| {
        let lsn = gates[worker].enter().next();
        match late {
            true => gates[worker].leave_late(lsn, 40, Box::new(move |out| out.extend_from_slice(&[fill; 100]))),
            false => gates[worker].leave(lsn, |out| out.extend_from_slice(&[fill; 10])),
        }
        gates[worker].exit();
    };
    leave(0, false, 1);
    leave(0, true, 2);
    leave(0, true, 3);
    leave(0, false, 4);
    leave(1, false, 5);
    assert_eq!((waiting.bytes(), waiting.ever()), (110, 110));
    let mut bytes = vec![9];
    let crate::Take::Taken(taken) = intake.take(&mut bytes) else { panic!("nobody is inside") };
    assert_eq!(taken.ends, [11, 111, 211, 221, 231]);
    let first: Vec<u8> = taken.ends.iter().map(|end| bytes[end - 1]).collect();
    assert_eq!(first, [1, 2, 3, 4, 5]);
    assert_eq!((waiting.bytes(), waiting.ever()), (0, 230));
    leave(0, false, 6);
    leave(1, true, 7);
    assert!(matches!(intake.take(&mut bytes), crate::Take::Taken(taken) if taken.ends == [241, 341]));
    assert_eq!((waiting.bytes(), waiting.ever()), (0, 340));
}

/// A late record above the cut stays, though it has no bytes yet.
#[test]
fn late_records_above_the_cut_stay() {
    let (mut intake, mut gates) = crate::Intake::new(2, Lsn(0));
    let lsn = gates[0].enter().above(0);
    gates[0].leave(lsn, |out| out.extend_from_slice(&[1; 10]));
    gates[0].exit();
    let inside = gates[1].enter();
    let mut bytes = Vec::new();
    assert_eq!(intake.take(&mut bytes), crate::Take::Soon);
    let later = gates[0].enter().next();
    gates[0].leave_late(later, 5, Box::new(|out| out.extend_from_slice(&[2; 10])));
    gates[0].exit();
    gates[1].exit();
    assert!(inside < lsn && lsn < later);
    assert_eq!(intake.take(&mut bytes), crate::Take::Taken(crate::Taken { cut: lsn, ends: vec![10] }));
    assert_eq!(intake.take(&mut bytes), crate::Take::Taken(crate::Taken { cut: later, ends: vec![20] }));
    assert_eq!(bytes[9..11], [1, 2]);
}
