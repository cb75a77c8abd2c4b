//! Syncs that fail (rule L9), with any error, and with any thread that gets the error.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;
use std::time::Duration;

use super::running::{found, settings, wait};
use crate::simulated::{Chance, Simulated};
use crate::{After, Fsync, Gate, Limits, Log, Lsn, Opened, Record, Settings, State, Stepped};

/// A stream, its only gate, and its steps. The clock goes on by a fifth of a second at each reading.
fn start(disk: &Simulated, fsync: Fsync, block: usize) -> (Log, Gate, Stepped<Simulated>) {
    let time = AtomicU64::new(1);
    let clock = Arc::new(move || time.fetch_add(200_000_000, SeqCst));
    let limits = Limits { segment: 16384, spares: 1, reserve: 0, block };
    let opened = Opened::of(vec![disk.clone()], &[]).unwrap();
    let (log, mut gates, mut stepped) =
        opened.start_by_hand([1; 16], Lsn(0), 1, Settings { limits, clock, ..settings(fsync) }).unwrap();
    (log, gates.remove(0).remove(0), stepped.remove(0))
}

fn leave(gate: &mut Gate, size: usize) -> Lsn {
    let lsn = gate.enter().above(0);
    gate.leave(lsn, |out| Record::encode(lsn, &[], &vec![7; size], out));
    gate.exit();
    lsn
}

/// On a file system that allocates late, a sync may report that there is no room. The system has then dropped the
/// unwritten pages, and the next sync succeeds: it must be neither believed nor waited for.
#[test]
fn a_failed_sync_is_final_whatever_it_says() {
    // Through the cache and past it, in one block and in several.
    for (fsync, block) in [(Fsync::No, 16 << 20), (Fsync::Always, 16 << 20), (Fsync::Always, 4096)] {
        let mut failed = 0;
        for (syncs, kind) in
            (0..12).flat_map(|syncs| [(syncs, ErrorKind::StorageFull), (syncs, ErrorKind::QuotaExceeded)])
        {
            let disk = Simulated::default();
            let (log, mut gate, mut stepped) = start(&disk, fsync, block);
            disk.failed_syncs_say(kind);
            disk.fail_sync_after(syncs);
            for _ in 0..12 {
                let lsn = leave(&mut gate, 5000);
                let mut after = After::Step;
                for _ in 0..4 {
                    after = stepped.step(true);
                }
                if after == After::End {
                    assert!(matches!(log.state(), State::Failed(_)));
                    break;
                }
                assert!(log.marks().of(0) >= lsn, "{fsync:?}, sync {syncs}: it hangs");
            }
            failed += u32::from(matches!(log.state(), State::Failed(_)));
            let said = log.synced(0);
            disk.crash(&mut Chance(0));
            let there = found(&[disk]).last().copied().unwrap_or_default();
            assert!(there >= said, "{fsync:?}, sync {syncs}: {said} was said to be on the disk, and there is {there}");
        }
        // Syncs of the file that says how far the log goes at least are not needed.
        assert!(failed >= 8, "{fsync:?}: only {failed} of 24");
    }
}

/// The system reports a failed sync to one of the threads that sync a file. While a helper syncs, the stream must not
/// do so by itself: it might be told that all is well.
#[test]
fn who_syncs_beside_a_helper_hears_of_its_failure() {
    type Meanwhile = fn(&Log, &mut Gate);
    let other_setting: Meanwhile = |log, _| log.set_fsync(Fsync::Always);
    // More than may be unsynced.
    let more: Meanwhile = |log, gate| {
        for _ in 0..12 {
            leave(gate, 5000);
        }
        log.ring(0);
    };
    let stop: Meanwhile = |log, _| {
        let log = log.clone();
        thread::spawn(move || log.stop());
    };
    for meanwhile in [other_setting, more, stop] {
        let disk = Simulated::default();
        let time = Arc::new(AtomicU64::new(1));
        let clock = time.clone();
        let limits = Limits { segment: 16384, spares: 1, reserve: 0, block: 4096 };
        let settings = Settings { limits, clock: Arc::new(move || clock.load(SeqCst)), ..settings(Fsync::Everysec) };
        let opened = Opened::of(vec![disk.clone()], &[]).unwrap();
        let (log, mut gates) = opened.start([1; 16], Lsn(0), 1, settings).unwrap();
        let gate = &mut gates[0][0];
        let lsn = leave(gate, 100);
        log.ring(0);
        wait(log.marks(), 0, lsn);
        disk.fail_slowly();
        time.fetch_add(2_000_000_000, SeqCst);
        while !disk.is_failing() {
            log.ring(0);
            thread::yield_now();
        }
        meanwhile(&log, gate);
        // A stream that does not wait is at the end by then; one that does waits as long as it takes.
        for _ in 0..100 {
            thread::park_timeout(Duration::from_millis(1));
            assert!(log.synced(0) < lsn, "nobody has said that it is on the disk");
        }
        disk.end_slow_failure();
        assert!(matches!(log.stop(), State::Failed(_)));
        assert!(log.synced(0) < lsn);
    }
}
