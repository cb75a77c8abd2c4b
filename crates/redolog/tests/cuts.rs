//! Interleavings, under loom, of workers that leave records and a writer that takes them: the records taken up to a cut
//! are all records up to it, with all that they depend on.

#![allow(dead_code, reason = "a module of the library, of which this uses a part")]

#[path = "../src/intake.rs"]
mod intake;

#[path = "../src/lsn.rs"]
mod lsn;

/// Loom in place of the standard library.
mod sync {
    pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
    pub use loom::sync::{Arc, Mutex, MutexGuard};
    pub use std::sync::PoisonError;
}

use intake::{Gate, Intake, Take};
use loom::sync::{Arc, Mutex};
use loom::thread;
use lsn::Lsn;

/// A worker writes to a slot. Under the slot's latch it chooses an LSN above the slot's and the floor, and leaves the
/// record, which names the slot's last record.
fn write(gate: &mut Gate, slot: &Mutex<Lsn>, late: bool) {
    let mut last = slot.lock().unwrap();
    let lsn = gate.enter().max(*last).next();
    let before = last.0 as u8;
    match late {
        true => gate.leave_late(lsn, 2, Box::new(move |bytes| bytes.extend([lsn.0 as u8, before]))),
        false => gate.leave(lsn, |bytes| bytes.extend([lsn.0 as u8, before])),
    }
    gate.exit();
    *last = lsn;
}

/// The records taken so far.
#[derive(Default)]
struct Log(Vec<(u8, u8)>);

impl Log {
    /// Takes the records, if no worker hinders it, and checks that they are a prefix.
    fn take(&mut self, intake: &mut Intake) -> Take {
        let mut bytes = Vec::new();
        let take = intake.take(&mut bytes);
        self.0.extend(bytes.chunks(2).map(|record| (record[0], record[1])));
        if let Take::Taken(taken) = &take {
            for &(lsn, before) in &self.0 {
                assert!(Lsn(lsn.into()) <= taken.cut);
                assert!(before == 0 || self.0.iter().any(|(other, _)| *other == before), "{:?} lacks {before}", self.0);
            }
        }
        take
    }
}

#[test]
fn a_cut_is_a_consistent_prefix() {
    loom::model(|| {
        let (mut intake, gates) = Intake::new(2, Lsn::ZERO);
        let slot = Arc::new(Mutex::new(Lsn::ZERO));
        let workers: Vec<_> = gates
            .into_iter()
            .zip([false, true])
            .map(|(mut gate, late)| {
                let slot = slot.clone();
                thread::spawn(move || write(&mut gate, &slot, late))
            })
            .collect();
        let mut log = Log::default();
        log.take(&mut intake);
        log.take(&mut intake);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        log.take(&mut intake);
        log.take(&mut intake);
        assert_eq!(log.0.len(), 2, "nothing is lost");
        assert_eq!(log.take(&mut intake), Take::Nothing);
    });
}

#[test]
fn records_of_slots_apart_are_all_taken() {
    loom::model(|| {
        let (mut intake, mut gates) = Intake::new(2, Lsn(5));
        let mut other = gates.pop().unwrap();
        let worker = thread::spawn(move || write(&mut other, &Mutex::new(Lsn::ZERO), true));
        write(&mut gates[0], &Mutex::new(Lsn::ZERO), false);
        let mut log = Log::default();
        log.take(&mut intake);
        worker.join().unwrap();
        log.take(&mut intake);
        log.take(&mut intake);
        assert_eq!(log.0.len(), 2);
        assert!(log.0.iter().all(|(lsn, _)| *lsn > 5));
    });
}

/// A cut is wanted at which there is no record: what a worker leaves at or below it is taken with it.
#[test]
fn nothing_comes_below_a_cut_that_was_wanted() {
    loom::model(|| {
        let (mut intake, mut gates) = Intake::new(1, Lsn::ZERO);
        let mut gate = gates.pop().unwrap();
        let worker = thread::spawn(move || write(&mut gate, &Mutex::new(Lsn::ZERO), false));
        let mut log = Log::default();
        intake.want(Lsn(3));
        let first = log.take(&mut intake);
        let before = log.0.len();
        worker.join().unwrap();
        log.take(&mut intake);
        log.take(&mut intake);
        assert_eq!(log.0.len(), 1);
        if let Take::Taken(taken) = first {
            assert!(taken.cut == Lsn(3) && log.0[before..].iter().all(|(lsn, _)| *lsn > 3));
        }
    });
}
