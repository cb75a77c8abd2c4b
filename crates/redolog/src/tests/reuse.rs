//! Segments that are used again, and a stream's knowledge when it begins.

use std::sync::Arc;

use crate::disk::Disk;
use crate::simulated::{Chance, Simulated};
use crate::{After, Fsync, Gate, Limits, Lsn, Opened, Record, Settings, Stepped, Taken};

const LIMITS: Limits = Limits { segment: 16384, spares: 2, reserve: 0, block: 16 << 20 };

type Started = (crate::Log, Vec<Vec<Gate>>, Vec<Stepped<Simulated>>);

fn start(disk: &Simulated, above: Lsn) -> Started {
    let settings = Settings { limits: LIMITS, fsync: Fsync::Always, clock: Arc::new(|| 1), seed: 1 };
    let opened = Opened::of(vec![disk.clone()], &[]).unwrap_or_else(|damage| panic!("{damage}"));
    opened.start_by_hand([1; 16], above, 1, settings).unwrap_or_else(|damage| panic!("{damage}"))
}

/// Writes until some segments are full, and gives up all but the last.
fn fill((log, gates, streams): &mut Started, chance: &mut Chance) {
    for _ in 0..40 {
        let gate = &mut gates[0][0];
        let lsn = gate.enter().above(0);
        gate.leave(lsn, |out| Record::encode(lsn, &[], &[7; 4000], out));
        gate.exit();
        if streams[0].step(true) == After::End {
            return;
        }
        log.truncate(&[lsn.before()]);
        while chance.below(4) > 0 && streams[0].help(0) {}
    }
}

/// A segment is not written to before the disk knows that it is a spare. Otherwise it could be found under its old name
/// with a new header.
#[test]
fn a_segment_gets_a_new_header_after_a_new_name() {
    for seed in 0..200 {
        let (disk, mut chance) = (Simulated::default(), Chance(seed));
        for _ in 0..6 {
            let mut started = start(&disk, Lsn(0));
            disk.fail_power_after(chance.below(60));
            fill(&mut started, &mut chance);
            // A new process also sees renames that were not synced.
            if chance.below(2) == 0 && !disk.is_dead() { disk.kill() } else { disk.crash(&mut chance) }
        }
    }
}

/// Rule L7: records that a store knows of are promised from the beginning, whatever the log ends with: no reply waits
/// for them.
#[test]
fn a_stream_begins_above_what_the_store_knows() {
    let disk = Simulated::default();
    let (log, mut gates, _) = start(&disk, Lsn(0x1234));
    assert!(log.marks().of(0) >= Lsn(0x1234));
    assert!(gates[0][0].enter() >= log.marks().of(0));
}

/// A record that is wanted on the disk is synced, under any setting (rules C2, L6).
#[test]
fn what_is_wanted_on_the_disk_is_synced() {
    for fsync in [Fsync::Everysec, Fsync::No] {
        let disks = [Simulated::default()];
        let settings = Settings { limits: LIMITS, fsync, clock: Arc::new(|| 1), seed: 1 };
        let opened = Opened::of(disks.to_vec(), &[]).expect("an empty log");
        let (log, mut gates, mut streams) = opened.start_by_hand([1; 16], Lsn(0), 1, settings).expect("a start");
        let gate = &mut gates[0][0];
        gate.enter();
        gate.leave(Lsn(0x100), |out| Record::encode(Lsn(0x100), &[], b"effects", out));
        gate.exit();
        streams[0].step(true);
        assert_eq!((log.marks().of(0), log.synced(0)), (Lsn(0x100), Lsn(0)), "written, and promised as that");
        log.want_synced(&[Lsn(0x100)]);
        streams[0].step(false);
        assert!(streams[0].help(1));
        streams[0].step(false);
        assert_eq!(log.synced(0), Lsn(0x100));
        disks[0].crash(&mut Chance(1));
        let mut found = Vec::new();
        let mut opened = Opened::of(disks.to_vec(), &[]).expect("a log");
        opened.replay(|record| found.push(record.lsn)).expect("its records");
        assert_eq!(found, [Lsn(0x100)]);
    }
}

/// A missing newest segment is noticed if a client may have been told of its records.
#[test]
fn a_missing_newest_segment_is_noticed_after_a_crash() {
    for seed in 0..100 {
        let (disk, mut chance) = (Simulated::default(), Chance(seed));
        for _ in 0..2 {
            let mut started = start(&disk, Lsn(0));
            disk.fail_power_after(chance.below(200));
            fill(&mut started, &mut chance);
            if chance.below(2) == 0 && !disk.is_dead() { disk.kill() } else { disk.crash(&mut chance) }
        }
        let mut names: Vec<_> = disk.names().into_iter().filter(|name| name.ends_with(".log")).collect();
        names.sort();
        let newest = names.pop().expect("a segment");
        // A segment that has its name and no block yet holds nothing: the file that names it may not have its name.
        let promised = Opened::of(vec![disk.clone()], &[]).map(|opened| opened.recovery().highest());
        let promised = promised.unwrap_or_else(|damage| panic!("{damage}"));
        disk.remove(&newest).expect("removed");
        match Opened::of(vec![disk.clone()], &[]) {
            Err(damage) => assert!(damage.to_string().starts_with(&newest), "{damage}"),
            Ok(opened) => assert_eq!(opened.recovery().highest(), promised, "seed {seed}: {newest} is missing"),
        }
    }
}

/// Records that a start has cut stay cut when the log begins with their segment later. Any of the segments that are
/// given up may be left after a crash, even one that was behind a hole and belongs to no chain. And nothing is lost
/// that was promised after that start.
#[test]
fn a_segment_that_was_behind_a_hole_may_become_the_first() {
    let limits = Limits { spares: 0, ..LIMITS };
    let open = |disk: &Simulated| {
        let mut found = Vec::new();
        let mut opened = Opened::of(vec![disk.clone()], &[]).unwrap_or_else(|damage| panic!("{damage}"));
        opened.replay(|record| found.push(record.lsn)).unwrap_or_else(|damage| panic!("{damage}"));
        (opened, found)
    };
    let mut began_behind_a_hole = 0;
    for seed in 0..300 {
        let (disk, mut chance) = (Simulated::default(), Chance(seed));
        let mut kept = Vec::new();
        for (life, fsync) in [(1, Fsync::Everysec), (2, Fsync::Always)] {
            let (opened, found) = open(&disk);
            kept = found;
            let settings = Settings { limits, fsync, clock: Arc::new(|| 1), seed: 1 };
            let started = opened.start_by_hand([1; 16], Lsn(life << 16), 1, settings);
            let (log, mut gates, mut streams) = started.unwrap_or_else(|damage| panic!("{damage}"));
            for _ in 0..[12, 2][life as usize - 1] {
                let gate = &mut gates[0][0];
                let lsn = gate.enter().above(0);
                gate.leave(lsn, |out| Record::encode(lsn, &[], &[7; 3000], out));
                gate.exit();
                streams[0].step(true);
                kept.push(lsn);
            }
            if life == 2 {
                // All segments of the life before.
                log.truncate(&[Lsn(2 << 16)]);
                streams[0].step(true);
                while streams[0].help(0) {}
            }
            disk.crash(&mut chance);
        }
        let (opened, found) = open(&disk);
        let first = opened.recovery().bases()[0];
        began_behind_a_hole += u32::from(first > Lsn(0) && first < Lsn(2 << 16) && !kept.contains(&first));
        assert!(found.iter().all(|lsn| kept.contains(lsn)), "seed {seed}: {found:x?}, of {kept:x?}");
        let promised = kept.iter().filter(|lsn| **lsn > Lsn(2 << 16));
        assert!(promised.clone().all(|lsn| found.contains(lsn)), "seed {seed}: {found:x?}, of {kept:x?}");
    }
    assert!(began_behind_a_hole > 3, "only {began_behind_a_hole} times");
}

/// A sync that began before a part of a group was written does not make that part durable, even if the rest of the
/// group waits for room.
#[test]
fn a_sync_in_the_middle_of_a_group_is_not_one_of_the_group() {
    let group = |lsns: &[Lsn]| {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for lsn in lsns {
            Record::encode(*lsn, &[], &[7; 3000], &mut bytes);
            ends.push(bytes.len());
        }
        (bytes, Taken { cut: lsns[lsns.len() - 1], ends })
    };
    for seed in 0..20 {
        let disk = Simulated::default();
        let limits = Limits { segment: 8192, spares: 0, reserve: 0, block: 3500 };
        let recovery = crate::recover(vec![disk.clone()], &[]).unwrap_or_else(|damage| panic!("{damage}"));
        let mut writers = recovery.open([1; 16], 1, limits).unwrap_or_else(|damage| panic!("{damage}"));
        let writer = &mut writers[0];
        let (bytes, taken) = group(&[Lsn(0x10)]);
        writer.write(&bytes, &taken, false).expect("room");
        let unsynced = writer.placer().give_unsynced();
        unsynced.sync().expect("a sync");
        let ((bytes, taken), mut done) = (group(&[Lsn(0x20), Lsn(0x30), Lsn(0x40)]), 0);
        disk.set_room(Some(0));
        writer.write_from(&bytes, &taken, false, &mut done).expect_err("no room");
        assert!(done > 0, "one of them is written");
        writer.placer().note_synced(&unsynced);
        disk.set_room(None);
        writer.write_from(&bytes, &taken, false, &mut done).expect("room");
        assert_eq!(writer.sync().expect("a sync"), Lsn(0x40));
        disk.crash(&mut Chance(seed));
        let found = crate::recover(vec![disk], &[]).and_then(|mut recovery| recovery.ends());
        assert_eq!(found.unwrap_or_else(|damage| panic!("seed {seed}: {damage}")), [Lsn(0x40)], "seed {seed}");
    }
}

/// Files left by a step that lacked room do no harm once there is room (rule L8).
#[test]
fn what_a_step_without_room_has_left_is_made_anew() {
    let disk = Simulated::default();
    let limits = Limits { segment: 8192, spares: 0, reserve: 0, block: 16 << 20 };
    let recovery = crate::recover(vec![disk.clone()], &[]).unwrap_or_else(|damage| panic!("{damage}"));
    let mut writers = recovery.open([1; 16], 1, limits).unwrap_or_else(|damage| panic!("{damage}"));
    let mut write = |lsn| {
        let mut bytes = Vec::new();
        Record::encode(lsn, &[], &[7; 6000], &mut bytes);
        let taken = Taken { cut: lsn, ends: vec![bytes.len()] };
        writers[0].write(&bytes, &taken, true).expect("a segment of its own");
    };
    write(Lsn(0x10));
    write(Lsn(0x20));
    let names = disk.names();
    let incarnation = names.iter().find_map(|name| name.strip_prefix("end-")).expect("it is said where the log ends");
    for number in [u64::MAX, u64::MAX - 1] {
        disk.create(&format!("making-{incarnation}-{number:x}"), 8).expect("room");
    }
    write(Lsn(0x30));
}
