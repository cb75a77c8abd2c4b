//! Records with the same LSN: workers that have seen nothing of each other may choose the same.

use std::sync::Arc;

use crate::simulated::{Chance, Simulated};
use crate::{After, Fsync, Gate, Limits, Lsn, Opened, Record, Settings, Stepped};

const LIMITS: Limits = Limits { segment: 16384, spares: 1, reserve: 0, block: 16 << 20 };

/// Steps the log by hand: nothing is written until a stream takes a step.
fn start(disks: &[Simulated]) -> (crate::Log, Vec<Vec<Gate>>, Vec<Stepped<Simulated>>) {
    start_with(disks, Fsync::Always)
}

fn start_with(disks: &[Simulated], fsync: Fsync) -> (crate::Log, Vec<Vec<Gate>>, Vec<Stepped<Simulated>>) {
    Opened::of(disks.to_vec(), &[]).unwrap().start_by_hand([1; 16], Lsn(0), 2, settings(LIMITS, fsync)).unwrap()
}

fn settings(limits: Limits, fsync: Fsync) -> Settings {
    Settings { limits, fsync, clock: Arc::new(|| 1), seed: 1 }
}

fn leave(gate: &mut Gate, lsn: Lsn, dependencies: &[Lsn]) {
    assert!(gate.enter() < lsn);
    gate.leave(lsn, |out| Record::encode(lsn, dependencies, b"effects", out));
    gate.exit();
}

fn found(disks: &[Simulated]) -> Vec<Lsn> {
    let mut found = Vec::new();
    Opened::of(disks.to_vec(), &[]).unwrap().replay(|record| found.push(record.lsn)).unwrap();
    found
}

/// Rule L5: neither record is committed before everything that either stands on.
#[test]
fn both_wait_for_what_either_stands_on() {
    for turned in [false, true] {
        let disks = [Simulated::default(), Simulated::default(), Simulated::default()];
        let (log, mut gates, mut streams) = start(&disks);
        let (early, late) = (Lsn(0x100), Lsn(0x102));
        leave(&mut gates[0][0], early, &[]);
        leave(&mut gates[0][2], late, &[]);
        let (a, b) = if turned { (1, 0) } else { (0, 1) };
        leave(&mut gates[a][1], Lsn(0x201), &[early]);
        leave(&mut gates[b][1], Lsn(0x201), &[late]);
        streams[1].step(true);
        assert!(log.marks().of(1) < Lsn(0x201));
        streams[0].step(true);
        assert_eq!(streams[1].step(true), After::Sleep(None));
        assert!(log.marks().of(1) < Lsn(0x201), "one of them stands on {late}, which is not committed");
        streams[2].step(true);
        streams[1].step(true);
        assert_eq!(log.marks().of(1), Lsn(0x201));
        assert_eq!(found(&disks), [early, late, Lsn(0x201), Lsn(0x201)]);
    }
}

/// Rule L5: records that a start hands out are there at the next start, too.
#[test]
fn both_are_cut_if_either_has_lost_what_it_stands_on() {
    for turned in [false, true] {
        let disks = [Simulated::default(), Simulated::default()];
        let (log, mut gates, mut streams) = start(&disks);
        let (a, b) = if turned { (1, 0) } else { (0, 1) };
        // The record that it stands on is never written.
        leave(&mut gates[a][0], Lsn(0x100), &[]);
        leave(&mut gates[a][1], Lsn(0x201), &[Lsn(0x100)]);
        leave(&mut gates[b][1], Lsn(0x201), &[]);
        streams[1].step(true);
        assert!(log.marks().of(1) < Lsn(0x201));
        disks.iter().for_each(Simulated::kill);
        let first = found(&disks);
        start(&disks);
        assert_eq!(found(&disks), first);
        assert_eq!(first, []);
    }
}

/// Rule L5: the same holds if a start has written them again in blocks of their own, and the power failed before it had
/// done the same to a record that one of them stands on.
#[test]
fn a_start_that_writes_them_again_does_not_part_them() {
    // Neither record has room beside the other.
    let settings = settings(Limits { block: 30, ..LIMITS }, Fsync::No);
    let start = |disks: &[Simulated]| {
        Opened::of(disks.to_vec(), &[]).unwrap().start_by_hand([1; 16], Lsn(0), 2, settings.clone())
    };
    for (turned, steps) in [false, true].into_iter().flat_map(|turned| (0..20).map(move |steps| (turned, steps))) {
        let disks = [Simulated::default(), Simulated::default()];
        let (_, mut gates, mut streams) = start(&disks).unwrap();
        let (a, b) = if turned { (1, 0) } else { (0, 1) };
        leave(&mut gates[0][1], Lsn(0x101), &[]);
        leave(&mut gates[a][0], Lsn(0x200), &[Lsn(0x101)]);
        leave(&mut gates[b][0], Lsn(0x200), &[]);
        for stream in &mut streams {
            stream.step(true);
        }
        disks.iter().for_each(Simulated::kill);
        assert_eq!(found(&disks), [Lsn(0x101), Lsn(0x200), Lsn(0x200)]);
        disks[1].fail_power_after(steps);
        let has_started = start(&disks).is_ok();
        disks.iter().zip(0..).for_each(|(disk, seed)| disk.crash(&mut Chance(steps * 2 + seed)));
        match found(&disks)[..] {
            [Lsn(0x101), Lsn(0x200), Lsn(0x200)] => {}
            [] | [Lsn(0x101)] => assert!(!has_started),
            ref parted => panic!("{parted:?}, power for {steps} steps"),
        }
    }
}

/// Rules C2, L4: a record on the disk that stands on an uncommitted one may be cut: it does not count as synced.
#[test]
fn what_waits_for_another_stream_does_not_count_as_synced() {
    let disks = [Simulated::default(), Simulated::default()];
    let (log, mut gates, mut streams) = start(&disks);
    leave(&mut gates[0][0], Lsn(0x100), &[]);
    leave(&mut gates[0][1], Lsn(0x201), &[Lsn(0x100)]);
    streams[1].step(true);
    assert!(log.synced(1) < Lsn(0x201) && log.marks().of(1) < Lsn(0x201));
    streams[0].step(true);
    streams[1].step(true);
    assert_eq!((log.synced(0), log.synced(1)), (Lsn(0x100), Lsn(0x201)));
}

/// Rules L4, L5: the same holds if it stands on a record that is only written, where no more is promised: a power
/// failure may take that.
#[test]
fn what_stands_on_something_unsynced_does_not_count_as_synced() {
    for fsync in [Fsync::Everysec, Fsync::No] {
        let disks = [Simulated::default(), Simulated::default()];
        let (log, mut gates, mut streams) = start_with(&disks, fsync);
        leave(&mut gates[0][0], Lsn(0x100), &[]);
        leave(&mut gates[0][1], Lsn(0x201), &[Lsn(0x100)]);
        streams[0].step(true);
        streams[1].step(true);
        assert_eq!((log.marks().of(0), log.marks().of(1)), (Lsn(0x100), Lsn(0x201)), "written, and promised as that");
        for (stream, synced) in [(1, 0x200), (0, 0x201)] {
            log.want_synced(&[Lsn(0x100), Lsn(0x201)]);
            streams[stream].step(false);
            assert!(streams[stream].help(1));
            streams[stream].step(false);
            streams[1].step(false);
            assert_eq!(log.synced(1), Lsn(synced), "{fsync:?}");
        }
    }
}

/// Rule L6: a record that is promised to be on the disk is not acknowledged before those that it stands on are there,
/// even if less was promised for them.
#[test]
fn a_stronger_promise_waits_for_what_was_promised_less() {
    let disks = [Simulated::default(), Simulated::default()];
    let (log, mut gates, mut streams) = start_with(&disks, Fsync::No);
    leave(&mut gates[0][0], Lsn(0x100), &[]);
    streams[0].step(true);
    log.set_fsync(Fsync::Always);
    streams[1].step(false);
    leave(&mut gates[0][1], Lsn(0x201), &[Lsn(0x100)]);
    streams[1].step(true);
    assert!(log.marks().of(0) == Lsn(0x100) && log.synced(0) < Lsn(0x100) && log.marks().of(1) < Lsn(0x201));
    streams[0].step(false);
    streams[1].step(false);
    assert_eq!((log.synced(0), log.marks().of(1)), (Lsn(0x100), Lsn(0x201)));
}
