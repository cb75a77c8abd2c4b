//! The log with its threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;

use super::disk::Simulated;
use crate::{Clock, Fsync, Gate, Limits, Log, Lsn, Opened, Record, Settings, State, Watermarks};

const LIMITS: Limits = Limits { segment: 8192, spares: 1 };

/// A clock that a test moves.
fn still() -> (Clock, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(1));
    let clock = time.clone();
    (Arc::new(move || clock.load(SeqCst)), time)
}

fn settings(fsync: Fsync) -> Settings {
    Settings { limits: LIMITS, fsync, clock: still().0 }
}

/// Leaves a record, not rung for.
fn leave(gate: &mut Gate, stream: u64, dependencies: &[Lsn]) -> Lsn {
    let above = dependencies.iter().copied().fold(gate.enter(), Lsn::max);
    let lsn = ((above >> 4) + 1) << 4 | stream;
    gate.leave(lsn, |out| Record::encode(lsn, dependencies, &lsn.to_le_bytes(), out));
    gate.exit();
    lsn
}

fn wait(marks: &Watermarks, stream: u16, lsn: Lsn) {
    while marks.of(stream) < lsn {
        thread::yield_now();
    }
}

fn found(disks: &[Simulated]) -> Vec<Lsn> {
    let mut found = Vec::new();
    let opened = Opened::of(disks.to_vec(), &[]).unwrap();
    opened.replay(|record| found.push(record.lsn)).unwrap();
    found
}

fn start(disks: &[Simulated], settings: Settings) -> (Log, Vec<Vec<Gate>>) {
    Opened::of(disks.to_vec(), &[]).unwrap().start([1; 16], 0, 2, settings).unwrap()
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
    let mut last = 0;
    let mut left = Vec::new();
    for i in 0..300u16 {
        let stream = i % 3;
        let of = if last == 0 { vec![] } else { vec![last] };
        last = leave(&mut gates[0][usize::from(stream)], stream.into(), &of);
        left.push(last);
        // The one it stands on is rung for after it, now and then.
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
