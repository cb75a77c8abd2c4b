//! Interleavings, under loom, of workers that leave a record and ask for it, and a stream that writes one block at a
//! time. An awaited record is taken once the block has landed, or its worker is told to wake the stream.

#![allow(dead_code, reason = "a module of the library, of which this uses a part")]

#[path = "../src/run/demand.rs"]
mod demand;

/// Loom in place of the standard library.
mod sync {
    pub use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}

use demand::Demand;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

fn model(workers: u64, rings: u64) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let demand = Arc::new(Demand::default());
        let (left, rung) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                let (demand, left, rung) = (demand.clone(), left.clone(), rung.clone());
                loom::thread::spawn(move || {
                    for _ in 0..rings {
                        left.fetch_add(1, Release);
                        if demand.want(|| left.load(Acquire)) {
                            rung.store(true, Release);
                        }
                    }
                })
            })
            .collect();
        // A block departs and lands, and then the awaited records are taken.
        let mut taken = 0;
        for _ in 0..2 {
            // The bell is heard.
            rung.swap(false, SeqCst);
            demand.hear();
            taken = left.load(Acquire).max(taken);
            demand.set_worth(u64::MAX);
            demand.set_worth(0);
            if !demand.is_wanted() {
                break;
            }
        }
        let looks_again = demand.is_wanted();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(
            taken == workers * rings || looks_again || rung.load(Acquire),
            "something is wanted, and nobody will look"
        );
    });
}

#[test]
fn what_a_worker_wants_is_taken() {
    model(1, 2);
}

#[test]
fn what_two_workers_want_is_taken() {
    model(2, 1);
}
