//! Interleavings, under loom, of a worker that leaves a record and rings, and a thread that looks and falls asleep: the
//! record is found without another ring.

#![allow(dead_code, reason = "a module of the library, of which this uses a part")]

#[path = "../src/run/bell.rs"]
mod bell;

/// Loom in place of the standard library. Its threads cannot sleep for a time: they sleep until they are woken.
mod sync {
    pub use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
    pub use loom::sync::{Mutex, MutexGuard};
    pub use std::sync::PoisonError;

    pub mod thread {
        pub use loom::thread::{Thread, current, park};

        pub fn park_timeout(_: std::time::Duration) {
            park();
        }
    }
}

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::*};

/// Looks until everything has been found. If a ring is lost, this sleeps for ever, which loom reports.
fn listen(bell: &bell::Bell, left: &AtomicU64, all: u64) {
    while left.load(Relaxed) < all {
        if !bell.heard() {
            bell.sleep(None, || left.load(Relaxed) >= all);
        }
    }
    // Other listeners need not look any more.
    bell.wake_all();
}

/// Rings so often from each of these workers; so many listeners must find everything that was left before.
fn model(workers: u64, rings: u64, listeners: u64) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let bell = Arc::new(bell::Bell::default());
        let left = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                let (bell, left) = (bell.clone(), left.clone());
                loom::thread::spawn(move || {
                    for _ in 0..rings {
                        left.fetch_add(1, Relaxed);
                        bell.ring();
                    }
                })
            })
            .collect();
        let others: Vec<_> = (1..listeners)
            .map(|_| {
                let (bell, left) = (bell.clone(), left.clone());
                loom::thread::spawn(move || listen(&bell, &left, workers * rings))
            })
            .collect();
        listen(&bell, &left, workers * rings);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_ring_is_heard() {
    model(1, 1, 1);
}

#[test]
fn rings_of_one_worker_are_heard() {
    model(1, 2, 1);
}

#[test]
fn rings_of_two_workers_are_heard() {
    model(2, 1, 1);
}

#[test]
fn one_of_two_that_listen_hears() {
    model(1, 2, 2);
}
