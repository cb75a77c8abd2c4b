//! Copies of a log that is being written.

use std::path::PathBuf;

use super::running::settings;
use crate::disk::Folder;
use crate::{Flight, Fsync, Gate, Limits, Lsn, Opened, Record, Settings, Step, Stepped, copy};

/// A folder of its own, which is removed afterwards.
struct Own(PathBuf);

impl Own {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("holdfast-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn found(folder: &PathBuf) -> Vec<Lsn> {
    let mut found = Vec::new();
    let mut opened = Opened::new(std::slice::from_ref(folder), &[]).unwrap_or_else(|damage| panic!("{damage}"));
    opened.replay(|record| found.push(record.lsn)).unwrap_or_else(|damage| panic!("{damage}"));
    found
}

/// Leaves a record, and returns the block that it departs in.
fn depart(gate: &mut Gate, stepped: &mut Stepped<Folder>) -> (Lsn, Flight<<Folder as crate::disk::Disk>::File>) {
    let lsn = gate.enter().above(0);
    gate.leave(lsn, |out| Record::encode(lsn, &[], &[7; 100], out));
    gate.exit();
    for _ in 0..3 {
        if let Step::Write(flight) = stepped.step_apart(true) {
            return (lsn, flight);
        }
    }
    panic!("it departs");
}

/// Blocks that were in flight together begin a page each. A copy skips the gaps between them, and ends at its moment,
/// as later blocks are still being written.
#[test]
fn a_copy_ends_at_its_moment_whatever_was_in_flight() {
    let (from, to) = (Own::new("copied"), Own::new("copy"));
    let settings = Settings { limits: Limits::of(1 << 20), ..settings(Fsync::Always) };
    let opened = Opened::new(std::slice::from_ref(&from.0), &[]).unwrap_or_else(|damage| panic!("{damage}"));
    let started = opened.start_by_hand([1; 16], Lsn(0), 1, settings);
    let (_log, mut gates, mut stepped) = started.unwrap_or_else(|damage| panic!("{damage}"));
    let (gate, stepped) = (&mut gates[0][0], &mut stepped[0]);
    let mut left = Vec::new();
    for _ in 0..6 {
        let (first, second) = (depart(gate, stepped), depart(gate, stepped));
        for (lsn, flight) in [first, second] {
            let written = flight.write();
            stepped.land(flight, written);
            left.push(lsn);
        }
        stepped.step(false);
    }
    let end = left[7];
    let bytes = copy(std::slice::from_ref(&from.0), std::slice::from_ref(&to.0), &[Lsn(0)], &[end]);
    let bytes = bytes.unwrap_or_else(|damage| panic!("{damage}"));
    assert_eq!(found(&to.0), left[..8]);
    assert!(bytes < 20 * 4096, "{bytes} bytes: nothing behind it is copied");
}

/// A missing record is not mistaken for another one: the copy fails.
#[test]
fn a_copy_to_a_record_that_is_not_there_fails() {
    let (from, to) = (Own::new("behind"), Own::new("copy-behind"));
    let opened = Opened::new(std::slice::from_ref(&from.0), &[]).unwrap_or_else(|damage| panic!("{damage}"));
    let started = opened.start_by_hand([1; 16], Lsn(0), 1, settings(Fsync::Always));
    let (_log, mut gates, mut stepped) = started.unwrap_or_else(|damage| panic!("{damage}"));
    let (lsn, flight) = depart(&mut gates[0][0], &mut stepped[0]);
    let written = flight.write();
    stepped[0].land(flight, written);
    let copied = copy(std::slice::from_ref(&from.0), std::slice::from_ref(&to.0), &[Lsn(0)], &[lsn.above(0)]);
    let said = copied.map_err(|damage| damage.to_string()).expect_err("there is no such record");
    assert!(said.contains(&format!("no block of it has record {}", lsn.above(0))), "{said}");
}
