//! A process that writes a log is ended at each named step and started again. The records that it reported as committed
//! are there, in order, and no others except those that it was about to report.

#![cfg(debug_assertions)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use redolog::{Fsync, Limits, Lsn, Opened, Record, STREAM_BITS, Settings};

const STEPS: [&str; 7] = [
    "log-after-append",
    "log-before-sync",
    "log-after-sync",
    "log-before-rename",
    "log-after-rename",
    "log-before-truncate",
    "log-after-truncate",
];

fn fsync(text: &str) -> Fsync {
    if text == "always" { Fsync::Always } else { Fsync::Everysec }
}

/// The process that is ended: it writes records of rising numbers, reports which are committed, and gives up old ones.
fn write(folder: &Path, fsync: Fsync) {
    let mut opened = Opened::new(&[folder.into()], &[]).expect("a log");
    let mut last = 0;
    opened
        .replay(|record| last = u64::from_le_bytes(record.effects[..8].try_into().expect("a number")))
        .expect("a log");
    let limits = Limits { segment: 16384, spares: 1, reserve: 0, block: 4096 };
    let settings = Settings { limits, fsync, clock: Arc::new(|| 1), seed: 7 };
    let (log, mut gates) = opened.start([1; 16], Lsn(0), 1, settings).expect("a log");
    let mut out = std::io::stdout();
    for number in last + 1..last + 200 {
        let gate = &mut gates[0][0];
        let lsn = gate.enter().above(0);
        let mut effects = vec![number as u8; 8 + (number % 7 * 100) as usize];
        effects[..8].copy_from_slice(&number.to_le_bytes());
        gate.leave(lsn, |out| Record::encode(lsn, &[], &effects, out));
        gate.exit();
        log.ring(0);
        while log.marks().of(0) < lsn {
            thread::yield_now();
        }
        writeln!(out, "committed {number}").expect("somebody who reads");
        if number % 50 == 0 {
            // All but the last few.
            log.truncate(&[Lsn(lsn.0 - (5 << STREAM_BITS))]);
        }
    }
    log.stop();
    writeln!(out, "stopped").expect("somebody who reads");
}

#[test]
#[ignore = "is run by the others"]
fn the_process_that_is_ended() {
    let folder = std::env::var_os("LOG_KILLS_FOLDER").expect("a folder");
    write(Path::new(&folder), fsync(&std::env::var("LOG_KILLS_FSYNC").expect("a setting")));
}

/// Runs the process until it ends. Returns the last number that it reported as committed, and true if it came to its
/// end.
fn run(folder: &Path, fsync: &str, step: &str) -> (Option<u64>, bool) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "the_process_that_is_ended", "--ignored", "--nocapture"]);
    command.env("LOG_KILLS_FOLDER", folder).env("LOG_KILLS_FSYNC", fsync).env("HOLDFAST_FAIL_POINT", step);
    let output = command.stderr(Stdio::null()).output().expect("the process");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut said = text.lines().filter_map(|line| line.rsplit_once("committed ")?.1.parse().ok());
    (said.next_back(), text.contains("stopped"))
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("holdfast-log-kills-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn kill_at_each_step(fsync: &str) {
    let folder = folder(fsync);
    let mut committed = 0;
    let mut killed = 0;
    for step in STEPS {
        for n in [1, 2, 3, 40] {
            let step = format!("{step}:{n}");
            let (said, stopped) = run(&folder, fsync, &step);
            killed += usize::from(!stopped);
            committed = said.unwrap_or(committed);
            let mut numbers = Vec::new();
            let mut opened = Opened::new(std::slice::from_ref(&folder), &[]).expect("a log");
            opened
                .replay(|record| {
                    let number = u64::from_le_bytes(record.effects[..8].try_into().expect("a number"));
                    assert!(record.effects[8..].iter().all(|byte| *byte == number as u8), "{step}: {number} is torn");
                    numbers.push(number);
                })
                .expect("a log");
            assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{step}: {numbers:?}");
            let last = numbers.last().copied().unwrap_or(0);
            assert!(last == committed || last == committed + 1, "{step}: {committed} was committed, {last} is there");
            drop(opened);
            let report = redolog::check(std::slice::from_ref(&folder)).expect("a log");
            assert!(report.is_sound(), "{step}: {report}");
            committed = last;
        }
    }
    assert!(killed >= 14, "the process was ended {killed} times only");
    std::fs::remove_dir_all(folder).expect("the folder");
}

/// One after the other: while a process starts another, both hold its locks for a moment.
#[test]
fn killed_at_each_step() {
    kill_at_each_step("always");
    kill_at_each_step("everysec");
}
