//! A log that lacks a resource for its next segment for a while (rule L8).

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::thread;

use super::running::{found, settings, start, wait};
use crate::simulated::{Chance, Simulated};
use crate::{Clock, Fsync, Lack, Limits, Lsn, Opened, Record, Settings, State, Taken, Writer};

/// A clock that goes on at each reading.
pub(super) fn passing(ns: u64) -> Clock {
    let time = AtomicU64::new(1);
    Arc::new(move || time.fetch_add(ns, SeqCst))
}

/// Without room, new writes are refused, records that were left are written, and the log goes on when there is room.
#[test]
fn a_full_disk_is_waited_for() {
    let disks = [Simulated::default()];
    let limits = Limits { segment: 16384, spares: 1, reserve: 8192, block: 16 << 20 };
    disks[0].set_room(Some(3 * 16384));
    let clock = passing(10_000_000);
    let (log, mut gates) = start(&disks, Settings { limits, clock, ..settings(Fsync::Always) });
    let told: Arc<Mutex<Vec<State>>> = Arc::default();
    let tell = told.clone();
    log.on_state(Box::new(move |state| tell.lock().unwrap().push(state.clone())));
    let mut left = Vec::new();
    let mut write = |size: usize| {
        let gate = &mut gates[0][0];
        let lsn = gate.enter().above(0);
        gate.leave(lsn, |out| Record::encode(lsn, &[], &vec![7; size], out));
        gate.exit();
        log.ring(0);
        left.push(lsn);
        lsn
    };
    while log.takes_writes() {
        let lsn = write(1000);
        while log.marks().of(0) < lsn && log.takes_writes() {
            thread::yield_now();
        }
    }
    assert_eq!(log.state(), State::Full(Lack::Space));
    assert!(log.facts(0).written <= 3 * 16384);
    // A record that was under way when the disk was found full, and is larger than the rest.
    let lsn = write(20_000);
    assert_eq!(log.state(), State::Full(Lack::Space));
    disks[0].set_room(Some(1 << 20));
    wait(log.marks(), 0, lsn);
    while !log.takes_writes() {
        thread::yield_now();
    }
    let lsn = write(30_000);
    wait(log.marks(), 0, lsn);
    assert_eq!(log.stop(), State::Running);
    assert_eq!(found(&disks), left);
    // Each change is reported once. The disk may have been full again for a moment, as it is small.
    let told = told.lock().unwrap();
    assert!(told.len() >= 2 && told.len().is_multiple_of(2), "{told:?}");
    assert!(told.chunks(2).all(|pair| pair == [State::Full(Lack::Space), State::Running]), "{told:?}");
}

/// Records that were left go into a smaller segment if there is no room for one of the usual size. Writes stay refused.
#[test]
fn what_was_left_needs_no_room_for_a_whole_segment() {
    for fsync in [Fsync::Always, Fsync::Everysec] {
        let disk = Simulated::default();
        let limits = Limits { segment: 1 << 20, spares: 1, reserve: 1 << 18, block: 16 << 20 };
        let opened = Opened::of(vec![disk.clone()], &[]).unwrap();
        let settings = || Settings { limits, clock: passing(200_000_000), ..settings(fsync) };
        disk.set_room(Some((1 << 20) + 1000));
        let (log, mut gates, mut stepped) = opened.start_by_hand([1; 16], Lsn(0), 1, settings()).unwrap();
        let mut write = |size: usize| {
            let gate = &mut gates[0][0];
            let lsn = gate.enter().above(0);
            gate.leave(lsn, |out| Record::encode(lsn, &[], &vec![7; size], out));
            gate.exit();
            lsn
        };
        let mut step = || {
            for _ in 0..4 {
                stepped[0].step(true);
                while stepped[0].help(0) || stepped[0].help(1) {}
            }
        };
        let mut left = vec![write(900_000)];
        step();
        assert_eq!((log.state(), log.marks().of(0)), (State::Full(Lack::Space), left[0]));
        disk.set_room(Some(1000));
        left.push(write(200_000));
        step();
        assert_eq!(log.marks().of(0), left[0], "there is no room at all");
        disk.set_room(Some(300_000));
        step();
        assert_eq!((log.state(), log.marks().of(0)), (State::Full(Lack::Space), left[1]));
        // A checkpoint has them: the first segment is used again.
        log.truncate(&[left[1]]);
        step();
        assert_eq!(log.state(), State::Running);
        left.push(write(200_000));
        step();
        assert_eq!(log.marks().of(0), left[2]);
        log.want_synced(&[left[2]]);
        step();
        disk.crash(&mut Chance(0));
        assert!(found(&[disk]).ends_with(&left[2..]), "what was written since is there");
    }
}

/// The log goes on if no file can be opened or made. New writes are refused, with the reason, and those under way are
/// written once a file can be opened. With a reserve none is refused, as the next segment is open already.
#[test]
fn descriptors_are_waited_for() {
    for (reserve, spares) in [(0, 0), (0, 1), (8192, 1)] {
        let disk = Simulated::default();
        let limits = Limits { segment: 16384, spares: 1, reserve, block: 16 << 20 };
        let opened = Opened::of(vec![disk.clone()], &[]).unwrap();
        let settings = Settings { limits, clock: passing(200_000_000), ..settings(Fsync::Always) };
        let (log, mut gates, mut stepped) = opened.start_by_hand([1; 16], Lsn(0), 1, settings).unwrap();
        let (mut gate, mut stepped) = (gates.remove(0).remove(0), stepped.remove(0));
        let mut left = Vec::new();
        let mut write = |size: usize, helps: bool| {
            let lsn = gate.enter().above(0);
            gate.leave(lsn, |out| Record::encode(lsn, &[], &vec![7; size], out));
            gate.exit();
            left.push(lsn);
            for _ in 0..4 {
                stepped.step(true);
                while helps && stepped.help(0) {}
            }
            lsn
        };
        let mut last = write(2000, spares > 0);
        assert_eq!(disk.names().iter().filter(|name| name.starts_with("spare-")).count(), spares);
        disk.set_out_of_descriptors(true);
        for _ in 0..40 {
            if log.takes_writes() {
                last = write(2000, reserve > 0);
            }
        }
        assert_eq!(log.state(), State::Full(Lack::Descriptors));
        assert_eq!(log.marks().of(0) >= last, reserve > 0, "{reserve} bytes are left, and {spares} spares");
        last = write(20_000, true);
        assert_eq!(log.state(), State::Full(Lack::Descriptors));
        assert!(log.marks().of(0) < last);
        disk.set_out_of_descriptors(false);
        for _ in 0..10 {
            last = write(2000, true);
        }
        assert_eq!((log.state(), log.marks().of(0)), (State::Running, last));
        disk.crash(&mut Chance(0));
        assert_eq!(found(&[disk]), left);
    }
}

/// A segment that was given up is kept, and opened before it is needed.
#[test]
fn what_is_used_again_needs_no_descriptor() {
    let disk = Simulated::default();
    let limits = Limits { segment: 16384, spares: 2, reserve: 0, block: 16 << 20 };
    let recovery = crate::recover(vec![disk.clone()], &[]).unwrap_or_else(|damage| panic!("{damage}"));
    let mut writers = recovery.open([1; 16], 1, limits).unwrap_or_else(|damage| panic!("{damage}"));
    let writer = &mut writers[0];
    let write = |writer: &mut Writer<Simulated>, lsn| {
        let mut bytes = Vec::new();
        Record::encode(lsn, &[], &[7; 10_000], &mut bytes);
        let taken = Taken { cut: lsn, ends: vec![bytes.len()] };
        writer.write(&bytes, &taken, true)
    };
    write(writer, Lsn(0x10)).expect("room");
    write(writer, Lsn(0x20)).expect("a segment of its own");
    writer.truncate(Lsn(0x10)).expect("the first is given up");
    assert_eq!(writer.placer().spares().ready(), 0);
    disk.set_out_of_descriptors(true);
    let refused = write(writer, Lsn(0x30)).expect_err("it is not open");
    assert_eq!(Lack::of(&refused), Some(Lack::Descriptors));
    disk.set_out_of_descriptors(false);
    let placer = writer.placer();
    placer.spares().make_ready(&**placer.disk()).expect("it is there");
    assert_eq!(writer.placer().spares().ready(), 1);
    disk.set_out_of_descriptors(true);
    write(writer, Lsn(0x30)).expect("it is open");
    assert!(disk.names().iter().all(|name| !name.starts_with("spare-")), "{:?}", disk.names());
}
