//! Crashes: a process that is killed at any moment and at every system call that makes data durable, and a file system
//! that loses unsynced data (as root). Afterwards the store must hold exactly what some flush made durable, the last
//! acknowledged one or a later one, and must go on from there.
//!
//! `STORE_CRASHES` sets the number of crashes of each kind. Each suite is shown to notice planted flaws.

mod child;
mod history;
mod power;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::process::{Command, Stdio};

use child::{Flaw, Told, kill, start};
use history::judge;
use store::conformance::noise;
use store::{Store, check};
use support::{Scratch, open, small};

#[test]
#[ignore = "not a test: the child of the others"]
fn the_process_that_is_killed() {
    child::work();
}

fn crashes(short: u64) -> u64 {
    std::env::var("STORE_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(short)
}

/// The call of its kind at which something happens: now at one of the first, which open the store, now at any.
fn place(nth: u64) -> u64 {
    if nth % 2 == 1 { nth } else { 1 + nth * nth * 37 % 900 }
}

/// True if a program is installed.
fn has(program: &str) -> bool {
    Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Judges the folder after a crash: offline, then opened.
fn after_a_crash(folder: &Path, seed: u64, acknowledged: u64) -> Result<u64, String> {
    if folder.join("STORE").exists() {
        let report = check(folder).map_err(|e| e.to_string())?;
        if !report.is_whole() {
            return Err(format!("damaged: {:?}", report.findings));
        }
    }
    let store = store::Embedded::open(folder, &small()).map_err(|e| e.to_string())?;
    judge(&store, seed, acknowledged)
}

/// Kills the child again and again, each time after some flushes and a bit.
fn kill_often(folder: &Path, seed: u64, flaw: Flaw, times: u64) -> Result<(), String> {
    let mut acknowledged = 0;
    let mut dice = noise(seed);
    for time in 0..times {
        let mut child = start(folder, seed, flaw, &[]);
        let mut told = Told::by(&mut child);
        for _ in 0..dice.next().unwrap_or(0) % 30 {
            match told.next() {
                Some(Ok(number)) => acknowledged = number,
                other => return Err(format!("the child ended: {other:?}")),
            }
        }
        // Somewhere on the way to the next flush, at random: the outcome must be right at every place.
        for _ in 0..u32::from(dice.next().unwrap_or(0)) * 400 {
            std::hint::spin_loop();
        }
        kill(&child);
        while let Some(Ok(number)) = told.next() {
            acknowledged = number;
        }
        let _ = child.wait();
        acknowledged = after_a_crash(folder, seed, acknowledged).map_err(|why| format!("kill {time}: {why}"))?;
    }
    Ok(())
}

#[test]
fn killed_at_any_moment() {
    let scratch = Scratch::in_memory();
    for seed in 1..=4 {
        let folder = scratch.join(&seed.to_string());
        kill_often(&folder, seed, Flaw::Nothing, crashes(10)).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn a_flush_that_is_acknowledged_early_is_noticed() {
    let scratch = Scratch::in_memory();
    let noticed = kill_often(&scratch.join("a"), 1, Flaw::Early, 200).expect_err("it was not noticed");
    assert!(noticed.contains("lost"), "{noticed}");
}

#[test]
fn a_flush_in_the_middle_is_noticed() {
    let scratch = Scratch::in_memory();
    let noticed = kill_often(&scratch.join("a"), 1, Flaw::Torn, 200).expect_err("it was not noticed");
    assert!(noticed.contains("torn"), "{noticed}");
}

/// Runs the child to its end, which an injected system call brings.
fn run_injected(folder: &Path, seed: u64, what: &str) -> (u64, Vec<String>) {
    let injection = format!("inject={what}");
    let calls = format!("trace={}", what.split(':').next().unwrap_or(""));
    let through = ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", &calls, "-e", &injection];
    let mut child = start(folder, seed, Flaw::Nothing, &through);
    let mut told = Told::by(&mut child);
    let (mut acknowledged, mut failures) = (0, Vec::new());
    while let Some(line) = told.next() {
        match line {
            Ok(number) => acknowledged = number,
            Err(why) => failures.push(why),
        }
    }
    let _ = child.wait();
    (acknowledged, failures)
}

#[test]
fn killed_at_every_call_that_matters() {
    if !has("strace") {
        eprintln!("skipped: there is no strace");
        return;
    }
    let scratch = Scratch::in_memory();
    let seed = 5;
    let mut acknowledged = 0;
    // Before a table, a manifest or a folder is synced, before `current` is replaced, before a file is removed, written
    // or made.
    for nth in 1..=crashes(6) {
        for call in ["fsync", "rename,renameat,renameat2", "unlink", "write", "openat"] {
            let nth = place(nth);
            let (number, _) = run_injected(&scratch.join("a"), seed, &format!("{call}:signal=KILL:when={nth}"));
            acknowledged = acknowledged.max(number);
            let judged = after_a_crash(&scratch.join("a"), seed, acknowledged);
            acknowledged = judged.unwrap_or_else(|why| panic!("seed {seed}, killed at {call} {nth}: {why}"));
        }
    }
    assert!(acknowledged > 20, "it got no further than {acknowledged}");
}

#[test]
fn a_failed_sync_is_final() {
    if !has("strace") {
        eprintln!("skipped: there is no strace");
        return;
    }
    let scratch = Scratch::in_memory();
    let seed = 6;
    let mut acknowledged = 0;
    for nth in 1..=crashes(12) {
        let nth = nth * 5;
        let (number, failures) = run_injected(&scratch.join("a"), seed, &format!("fsync:error=EIO:when={nth}"));
        acknowledged = acknowledged.max(number);
        // It may have been the compaction's sync; then the next write fails. A child that could not even open proves
        // nothing.
        let stopped = failures.iter().any(|why| why.contains("takes no more writes"));
        assert!(failures.is_empty() || stopped, "sync {nth} failed, and then: {failures:?}");
        let judged = after_a_crash(&scratch.join("a"), seed, acknowledged);
        acknowledged = judged.unwrap_or_else(|why| panic!("seed {seed}, sync {nth} failed: {why}"));
    }
    assert!(acknowledged > 10, "it got no further than {acknowledged}");
}

#[test]
fn no_room_at_any_call_is_survived() {
    if !has("strace") {
        eprintln!("skipped: there is no strace");
        return;
    }
    let scratch = Scratch::in_memory();
    let seed = 12;
    let mut acknowledged = 0;
    for nth in 1..=crashes(3) {
        for call in ["fsync", "rename,renameat,renameat2", "write", "openat"] {
            let nth = place(nth);
            let (number, failures) = run_injected(&scratch.join("a"), seed, &format!("{call}:error=ENOSPC:when={nth}"));
            acknowledged = acknowledged.max(number);
            // A second try works, unless the new manifest may have begun to count: then the store stops.
            let said = failures.iter().all(|why| why.contains("no room on the disk"));
            assert!(said, "no room at {call} {nth}, and then: {failures:?}");
            let judged = after_a_crash(&scratch.join("a"), seed, acknowledged);
            acknowledged = judged.unwrap_or_else(|why| panic!("seed {seed}, no room at {call} {nth}: {why}"));
        }
    }
    assert!(acknowledged > 100, "it got no further than {acknowledged}");
}

#[test]
fn a_full_disk_is_survived() {
    let scratch = Scratch::new();
    let Some(small_disk) = power::Mounted::memory(&scratch.join("disk"), 6) else { return };
    let folder = small_disk.path().join("store");
    let store = open(&folder, &small());
    let seed = 7;
    let (mut number, mut flushed) = (0, 0);
    let fill = |n: u64| {
        let mut batch = store::Batch::new();
        for key in 0..20u64 {
            let value: Vec<u8> = noise(n * 20 + key).take(1000).collect();
            batch.put(&[b"\x09".as_slice(), &(n * 20 + key).to_be_bytes()].concat(), &value);
        }
        batch
    };
    let mut refused = 0;
    // Fills the disk, and then goes on as if it were not full.
    while refused < 300 {
        let write = |batch: &store::Batch| store.write(batch).and_then(|()| store.flush());
        let outcome = write(&fill(number)).and_then(|_| write(&history::batch(seed, number + 1)));
        match outcome {
            Ok(_) => {
                number += 1;
                flushed = number;
            }
            Err(store::Error::NoSpace(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(flushed > 20, "{flushed}");
    assert_eq!(store.fault(), None);
    let held = store.figures().bytes_unflushed;
    assert!(held < 200 << 10, "it took {held} bytes into memory while it could not write them");
    let left = std::fs::read_dir(folder.join("tree/tables")).expect("a folder").count();
    // A compaction may be at work, with a few files that had room. But not every attempt has left one.
    assert!(left as u64 <= store.figures().tables + 150, "{left} files, {:?}", store.figures());
    small_disk.grow(64);
    store.flush().expect("there is room");
    store.settle();
    let mut batch = store::Batch::new();
    batch.put(b"last", b"1");
    store.write(&batch).expect("written");
    store.flush().expect("there is room");
    drop(store);
    assert!(check(&folder).expect("checked").is_whole());
    let store = open(&folder, &small());
    assert_eq!(store.get(b"last"), Ok(Some(b"1".to_vec())));
    assert!(history::mark(&store).expect("a mark") >= flushed);
    for n in 0..flushed * 20 {
        let value: Vec<u8> = noise(n).take(1000).collect();
        assert_eq!(store.get(&[b"\x09".as_slice(), &n.to_be_bytes()].concat()), Ok(Some(value)), "{n}");
    }
}

fn everything(store: &dyn Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let snapshot = store.snapshot();
    let all = snapshot.range((Bound::Unbounded, Bound::Unbounded));
    all.collect::<Result<_, _>>().expect("read")
}

#[test]
fn a_disk_that_is_full_before_a_flush_is_survived() {
    let scratch = Scratch::new();
    let Some(small_disk) = power::Mounted::memory(&scratch.join("disk"), 4) else { return };
    let folder = small_disk.path().join("store");
    let store = open(&folder, &small());
    let seed = 11;
    let mut number = 0;
    let mut refused = 0;
    // Memory is spilled to a disk that fills up. A refused write has not happened.
    while refused < 20 {
        match store.write(&history::batch(seed, number + 1)) {
            Ok(()) => number += 1,
            Err(store::Error::NoSpace(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(everything(&store), history::contents(seed, number));
    assert!(matches!(store.flush(), Err(store::Error::NoSpace(_))));
    small_disk.grow(64);
    store.write(&history::batch(seed, number + 1)).expect("there is room");
    store.flush().expect("there is room");
    drop(store);
    assert!(check(&folder).expect("checked").is_whole());
    let store = open(&folder, &small());
    assert_eq!(history::mark(&store), Ok(number + 1));
    assert_eq!(everything(&store), history::contents(seed, number + 1));
}

#[test]
fn power_is_lost() {
    let scratch = Scratch::new();
    let Some(disk) = power::Disk::new(&scratch) else { return };
    power::lose_often(&disk, 8, &[], crashes(6)).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn a_skipped_sync_is_noticed_when_power_is_lost() {
    if !has("strace") {
        eprintln!("skipped: there is no strace");
        return;
    }
    let scratch = Scratch::new();
    let Some(disk) = power::Disk::new(&scratch) else { return };
    let skipped = ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:retval=0"];
    let noticed = power::lose_often(&disk, 9, &skipped, 20).expect_err("it was not noticed");
    eprintln!("{noticed}");
}
