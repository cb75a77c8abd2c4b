//! Interleavings of workers that leave records and a writer that takes them, under loom: whatever is taken up to a cut is
//! everything up to it, and holds whatever its records depend on.

#![allow(dead_code, reason = "a module of the library, of which this uses a part")]

#[path = "../src/intake.rs"]
mod intake;

/// Loom's in the place of the standard library's.
mod sync {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
    pub use loom::sync::{Mutex, MutexGuard};
    pub use std::sync::PoisonError;
}

type Lsn = u64;

use intake::Intake;
use loom::sync::{Arc, Mutex};
use loom::thread;

/// A worker writes to a slot: under its latch it chooses an LSN above the slot's and the floor, and leaves the record, which
/// says what the slot's last record was.
fn write(intake: &Intake, worker: usize, slot: &Mutex<Lsn>) {
    let mut last = slot.lock().unwrap();
    let mut turnstile = intake.enter(worker);
    let lsn = turnstile.floor().max(*last) + 1;
    let before = *last as u8;
    turnstile.leave(lsn, |bytes| bytes.extend([lsn as u8, before]));
    drop(turnstile);
    *last = lsn;
}

fn check(taken: &mut Vec<(u8, u8)>, bytes: &[u8], cut: Lsn) {
    let new = bytes.chunks(2).map(|record| (record[0], record[1]));
    taken.extend(new);
    for &(lsn, before) in taken.iter() {
        assert!(Lsn::from(lsn) <= cut);
        assert!(before == 0 || taken.iter().any(|(other, _)| *other == before), "{taken:?} lacks {before}");
    }
}

#[test]
fn a_cut_is_a_consistent_prefix() {
    loom::model(|| {
        let intake = Arc::new(Intake::new(2, 0));
        let slot = Arc::new(Mutex::new(0));
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let (intake, slot) = (intake.clone(), slot.clone());
                thread::spawn(move || write(&intake, worker, &slot))
            })
            .collect();
        let mut taken = Vec::new();
        let mut bytes = Vec::new();
        if let Some(first) = intake.take(&mut bytes) {
            check(&mut taken, &bytes, first.cut);
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        bytes.clear();
        if let Some(rest) = intake.take(&mut bytes) {
            check(&mut taken, &bytes, rest.cut);
        }
        assert_eq!(taken.len(), 2, "nothing is lost");
    });
}

#[test]
fn records_of_slots_apart_are_all_taken() {
    loom::model(|| {
        let intake = Arc::new(Intake::new(2, 5));
        let other = intake.clone();
        let worker = thread::spawn(move || write(&other, 1, &Mutex::new(0)));
        write(&intake, 0, &Mutex::new(9));
        let mut bytes = Vec::new();
        let first = intake.take(&mut bytes).expect("one at least");
        assert!(first.cut >= 10);
        worker.join().unwrap();
        let _ = intake.take(&mut bytes);
        assert_eq!(bytes.len(), 4);
        assert!(bytes.chunks(2).all(|record| record[0] > 5));
    });
}
