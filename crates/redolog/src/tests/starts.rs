//! The state that a start finds, and damage that stops it.

use std::thread;

use super::lacking::passing;
use super::running::{found, leave, settings, start, wait};
use crate::check::examine;
use crate::disk::Disk;
use crate::simulated::{Chance, Simulated};
use crate::{Fsync, Lack, Limits, Lsn, Opened, Record, Settings, State};

#[test]
fn what_is_truncated_is_gone_and_its_files_are_used_again() {
    let disks = [Simulated::default()];
    let (log, mut gates) = start(&disks, settings(Fsync::Always));
    let mut last = Lsn::ZERO;
    for _ in 0..2000 {
        last = leave(&mut gates[0][0], 0, &[]);
        log.ring(0);
        wait(log.marks(), 0, last);
        log.truncate(&[last]);
    }
    log.stop();
    assert!(log.facts(0).size <= 4 * 16384, "{}", log.facts(0).size);
    assert!(disks[0].names().len() <= 6, "{:?}", disks[0].names());
    let left = found(&disks);
    assert!(left.is_empty() || left.last() == Some(&last));
    let mut opened = Opened::of(disks.to_vec(), &[]).unwrap();
    assert_eq!(opened.ends().unwrap(), [last]);
}

#[test]
fn a_log_has_its_size_before_anything_is_written() {
    let disks = [Simulated::default()];
    let (log, mut gates) = start(&disks, settings(Fsync::Always));
    let lsn = leave(&mut gates[0][0], 0, &[]);
    log.ring(0);
    wait(log.marks(), 0, lsn);
    log.stop();
    let (log, _gates) = start(&disks, settings(Fsync::Always));
    assert!(log.facts(0).size > 0);
    log.stop();
}

#[test]
fn a_first_start_that_was_cut_short_is_done_again() {
    for steps in 0..40 {
        let disks = [Simulated::default(), Simulated::default(), Simulated::default()];
        disks[2].fail_power_after(steps);
        if Opened::of(disks.to_vec(), &[]).unwrap().start([1; 16], Lsn(0), 1, settings(Fsync::Always)).is_ok() {
            assert!(steps > 3, "the power should have failed");
            return;
        }
        disks.iter().for_each(|disk| disk.kill());
        let (log, mut gates) = start(&disks, settings(Fsync::Always));
        let lsn = leave(&mut gates[0][2], 2, &[]);
        log.ring(2);
        wait(log.marks(), 2, lsn);
        log.stop();
        assert_eq!(found(&disks), [lsn]);
    }
    panic!("a start takes more than 40 steps");
}

/// A log that was stopped says where it ended: none of its segments may be missing.
#[test]
fn a_missing_segment_stops_the_start() {
    let disks = [Simulated::default()];
    let mut all = 0;
    for _ in 0..3 {
        let (log, mut gates) = start(&disks, settings(Fsync::Always));
        for _ in 0..400 {
            let lsn = leave(&mut gates[0][0], 0, &[]);
            log.ring(0);
            wait(log.marks(), 0, lsn);
        }
        assert_eq!(log.stop(), State::Running);
        all += 400;
        assert_eq!(found(&disks).len(), all);
        assert_eq!(disks[0].names().iter().filter(|name| name.starts_with("end-")).count(), 1);
        let segments: Vec<_> = disks[0].names().into_iter().filter(|name| name.ends_with(".log")).collect();
        assert!(segments.len() > 1);
        for name in &segments[1..] {
            let copy = disks[0].clone_durable();
            copy.remove(name).unwrap();
            let error = Opened::of(vec![copy], &[]).err().map(|damage| damage.to_string()).unwrap_or_default();
            assert!(error.contains("is missing"), "{name}: {error}");
        }
        // The file that says so may not be missing, either: segments may have been lost with it.
        let copy = disks[0].clone_durable();
        let ends = |name: &String| name.starts_with("end-") || Some(name) == segments.last();
        for name in copy.names().into_iter().filter(ends) {
            copy.remove(&name).unwrap();
        }
        let error = Opened::of(vec![copy], &[]).err().map(|damage| damage.to_string()).unwrap_or_default();
        assert!(error.contains("is missing"), "{error}");
    }
    // After a crash the log may have gone on, and does not end before.
    let (log, mut gates) = start(&disks, settings(Fsync::Always));
    leave(&mut gates[0][0], 0, &[]);
    log.ring(0);
    disks[0].crash(&mut Chance(1));
    assert!(found(&disks).len() >= all);
    std::mem::forget(log);
}

/// Rule L11.
#[test]
fn a_missing_stream_stops_the_start() {
    let disks = [Simulated::default(), Simulated::default(), Simulated::default()];
    let (log, mut gates) = start(&disks, settings(Fsync::Always));
    leave(&mut gates[0][0], 0, &[]);
    log.stop();
    let refused = |disks: &[&Simulated]| {
        let disks = disks.iter().map(|disk| (*disk).clone()).collect();
        Opened::of(disks, &[]).err().map(|damage| damage.to_string()).unwrap_or_default()
    };
    let [a, b, c] = &disks;
    assert_eq!(refused(&[a, b, c]), "");
    let text = refused(&[a, c]);
    assert!(
        text.contains("streams 0 to 2") && text.contains("holds stream 0,") && text.contains("holds stream 2"),
        "{text}"
    );
    let other = Simulated::default();
    assert!(refused(&[a, &other, c]).contains("holds nothing"));
    assert!(refused(&[a, c, b]).contains("in this order"));
    assert!(refused(&[a, b, c, &other]).contains("given are 4"));
    let (log, _) =
        Opened::of(vec![other.clone()], &[]).unwrap().start([2; 16], Lsn(0), 1, settings(Fsync::No)).unwrap();
    log.stop();
    assert!(refused(&[&other, b, c]).contains("of another node"));
}

/// A first run wrote to some streams only. Without the others it looks like a start that had not begun all of them; a
/// caller that knows better is told which are missing.
#[test]
fn streams_of_which_nothing_is_there_are_named() {
    let disks = [Simulated::default(), Simulated::default()];
    let missing = |disks: &[&Simulated]| -> Vec<u16> {
        let disks = disks.iter().map(|disk| (*disk).clone()).collect();
        Opened::of(disks, &[]).unwrap().recovery().missing().collect()
    };
    let [a, b] = &disks;
    assert_eq!(missing(&[a, b]), [0, 1]);
    let (log, _) = start(&disks, settings(Fsync::Always));
    log.stop();
    assert_eq!(missing(&[a, b]), [0; 0]);
    assert_eq!(missing(&[a, &Simulated::default()]), [1]);
    assert_eq!(missing(&[&Simulated::default(), b]), [0]);
}

#[test]
fn a_folder_is_used_by_one_server() {
    let folder = std::env::temp_dir().join(format!("holdfast-log-lock-{}", std::process::id()));
    let folders = [folder.clone()];
    let opened = Opened::new(&folders, &[]).unwrap();
    let error = Opened::new(&folders, &[]).err().map(|damage| damage.to_string());
    assert!(error.is_some_and(|text| text.ends_with("is used by another server")));
    let (log, mut gates) = opened.start([1; 16], Lsn(0), 1, settings(Fsync::Always)).unwrap();
    assert!(Opened::new(&folders, &[]).is_err());
    let mut left = Vec::new();
    for _ in 0..500 {
        left.push(leave(&mut gates[0][0], 0, &[]));
        log.ring(0);
        wait(log.marks(), 0, left[left.len() - 1]);
    }
    log.stop();
    let mut opened = Opened::new(&folders, &[]).unwrap();
    let mut found = Vec::new();
    opened.replay(|record| found.push(record.lsn)).unwrap();
    assert_eq!(found, left);
    std::fs::remove_dir_all(folder).unwrap();
}

/// A check finds every turned bit of a closed log, or it was no part of the log; the faults that it finds are those
/// that stop a start.
#[test]
fn a_check_finds_every_turned_bit() {
    let disks = [Simulated::default(), Simulated::default()];
    let (log, mut gates) = start(&disks, settings(Fsync::Always));
    let mut last = Lsn::ZERO;
    for i in 0..200u16 {
        let of = if last == Lsn::ZERO { vec![] } else { vec![last] };
        last = leave(&mut gates[0][usize::from(i % 2)], i % 2, &of);
        log.ring(i % 2);
        wait(log.marks(), i % 2, last);
    }
    log.stop();
    let sound = examine(disks.to_vec());
    assert!(sound.is_sound() && sound.survive == 200, "{sound}");
    assert!(sound.streams.iter().all(|stream| stream.records == 100 && stream.torn.is_none()), "{sound}");
    let used = crate::Format::Four.size(30) * 90;
    let name = disks[0].names().into_iter().find(|name| name.ends_with(".log")).unwrap();
    let mut padding = 0;
    for at in (0..used).step_by(37) {
        disks[0].damage(&name, at);
        let report = examine(disks.to_vec());
        disks[0].damage(&name, at);
        if report == sound {
            padding += 1;
            continue;
        }
        assert!(!report.is_sound(), "byte {at}: {report}");
        assert!(report.to_string().contains("DAMAGED: 0000"), "{report}");
    }
    assert!(padding < used / 37 / 5, "{padding} bits are part of nothing");
    assert_eq!(examine(disks.to_vec()), sound);
}

/// Rule L8: a start without room for its segment serves the records that it finds, all of them durable. It refuses
/// writes until there is room.
#[test]
fn a_start_on_a_full_disk() {
    for seed in 0..20 {
        let mut chance = Chance(seed);
        let disks = [Simulated::default()];
        // Room for a segment, and for the file that says how far the log goes.
        disks[0].set_room(Some(16384 + 64));
        let (log, mut gates) = start(&disks, settings(Fsync::No));
        let mut left: Vec<_> = (0..200).map(|_| leave(&mut gates[0][0], 0, &[])).collect();
        let last = left[199];
        log.ring(0);
        wait(log.marks(), 0, last);
        // The state that the process sees when it ends.
        let there = disks[0].names();
        disks[0].set_room(Some(4096));
        std::mem::forget(log);
        for again in 0..3 {
            let (log, _) = start(&disks, settings(Fsync::Always));
            assert_eq!((log.state(), log.marks().of(0)), (State::Full(Lack::Space), last));
            assert!(there.iter().filter(|name| name.ends_with(".log")).all(|name| disks[0].names().contains(name)));
            // A checkpoint has everything: the rest still says how far the log has gone.
            log.truncate(&[last]);
            log.stop();
            if again != 1 {
                disks[0].crash(&mut chance);
            }
            assert_eq!(found(&disks), left, "what was served has gone");
        }
        let clock = passing(10_000_000);
        let (log, mut gates) = start(&disks, Settings { clock, ..settings(Fsync::Always) });
        assert_eq!(log.state(), State::Full(Lack::Space));
        disks[0].set_room(Some(1 << 20));
        while !log.takes_writes() {
            thread::yield_now();
        }
        for _ in 0..3 {
            left.push(leave(&mut gates[0][0], 0, &[]));
            log.ring(0);
            wait(log.marks(), 0, left[left.len() - 1]);
        }
        disks[0].crash(&mut chance);
        assert_eq!(found(&disks), left);
    }
}

/// A start with room for what it must write, and not for the next segment, takes no writes from its first moment on: it
/// could not write them.
#[test]
fn a_start_on_a_nearly_full_disk() {
    let reserve = 8192;
    // With a tail in a small segment, and with one that leaves less than the reserve of a usual segment.
    for (size, room) in [(8, 4096 + 64), (12_000, 16384 + 64)] {
        let disk = Simulated::default();
        let limits = || Limits { segment: 16384, spares: 1, reserve, block: 16 << 20 };
        let settings = |fsync| Settings { limits: limits(), clock: passing(200_000_000), ..settings(fsync) };
        let (log, mut gates) = start(std::slice::from_ref(&disk), settings(Fsync::No));
        let first = gates[0][0].enter().above(0);
        gates[0][0].leave(first, |out| Record::encode(first, &[], &vec![7; size], out));
        gates[0][0].exit();
        log.ring(0);
        wait(log.marks(), 0, first);
        // The state that the process sees when it ends.
        let disk = disk.clone_now();
        std::mem::forget(log);
        let spares: Vec<_> = disk.names().into_iter().filter(|name| name.starts_with("spare-")).collect();
        spares.iter().for_each(|name| disk.remove(name).unwrap());
        disk.set_room(Some(room));
        let opened = Opened::of(vec![disk.clone()], &[]).unwrap();
        let (log, mut gates, mut stepped) = opened.start_by_hand([1; 16], Lsn(0), 1, settings(Fsync::Always)).unwrap();
        assert_eq!(log.state(), State::Full(Lack::Space), "{size} bytes, before any step");
        let mut step = |count| {
            for _ in 0..count {
                stepped[0].step(true);
                while stepped[0].help(0) {}
            }
        };
        step(4);
        assert_eq!(log.state(), State::Full(Lack::Space));
        disk.set_room(Some(1 << 20));
        step(4);
        assert_eq!(log.state(), State::Running);
        let last = leave(&mut gates[0][0], 0, &[]);
        step(2);
        assert_eq!(log.marks().of(0), last);
        assert_eq!(found(&[disk]), [first, last]);
    }
}

/// The power may fail at any step of a start without room, and of beginning once there is: no served record is lost.
#[test]
fn a_start_on_a_full_disk_is_cut_short() {
    for steps in 0..60 {
        let disk = Simulated::default();
        disk.set_room(Some(16384 + 64));
        let settings = || Settings { clock: passing(200_000_000), ..settings(Fsync::No) };
        let opened = Opened::of(vec![disk.clone()], &[]).unwrap();
        let (log, mut gates, mut stepped) = opened.start_by_hand([1; 16], Lsn(0), 1, settings()).unwrap();
        let left: Vec<_> = (0..100).map(|_| leave(&mut gates[0][0], 0, &[])).collect();
        stepped[0].step(true);
        assert_eq!(log.marks().of(0), left[99]);
        drop((log, gates, stepped));
        disk.set_room(Some(0));
        disk.fail_power_after(steps);
        let mut served = 0;
        let opened = Opened::of(vec![disk.clone()], &[]).unwrap();
        if let Ok((log, mut gates, mut stepped)) = opened.start_by_hand([1; 16], Lsn(0), 1, settings()) {
            served = log.marks().of(0).0;
            assert!(!log.takes_writes());
            disk.set_room(Some(1 << 20));
            for _ in 0..8 {
                stepped[0].step(true);
                while stepped[0].help(0) {}
            }
            if log.takes_writes() {
                leave(&mut gates[0][0], 0, &[]);
                stepped[0].step(true);
            }
        }
        let is_over = !disk.is_dead();
        disk.crash(&mut Chance(steps));
        let found = found(&[disk]);
        assert!(served == 0 || found.starts_with(&left), "{steps} steps: {} of 100", found.len());
        assert!(found.iter().zip(&left).all(|(found, left)| found == left));
        if is_over {
            assert!(steps > 10);
            return;
        }
    }
    panic!("it takes more than 60 steps");
}

/// A record was cut in one stream because one that it depended on is gone in another: no stream may append before the
/// cut is on the disk (rule L5).
#[test]
fn a_cut_needs_room() {
    let disks = [Simulated::default(), Simulated::default()];
    disks[0].set_room(Some(16384 + 64));
    let (log, mut gates) = start(&disks, settings(Fsync::No));
    let lost = leave(&mut gates[0][1], 1, &[]);
    log.ring(1);
    wait(log.marks(), 1, lost);
    let cut = leave(&mut gates[0][0], 0, &[lost]);
    log.ring(0);
    wait(log.marks(), 0, cut);
    std::mem::forget(log);
    let disks = [disks[0].clone_now(), disks[1].clone_durable()];
    disks[0].set_room(Some(0));
    let mut opened = Opened::of(disks.to_vec(), &[]).unwrap();
    assert!(opened.ends().unwrap()[0] < cut);
    let refused = opened.start([1; 16], Lsn(0), 1, settings(Fsync::Always)).err().map(|damage| damage.to_string());
    let text = refused.unwrap_or_default();
    assert!(text.contains("that a start writes cannot be made: "), "{text}");
    // The other stream may wait, once the cut is on the disk.
    disks[0].set_room(None);
    disks[1].set_room(Some(0));
    let (log, _) = start(&disks, settings(Fsync::Always));
    assert_eq!(log.state(), State::Full(Lack::Space));
    log.stop();
    assert_eq!(found(&disks), []);
}
