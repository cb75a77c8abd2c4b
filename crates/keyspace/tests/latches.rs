//! Interleavings, under loom, of taking, awaiting and giving back latches: no worker sleeps for ever (rule K2), no two
//! hold one latch, and a reservation ends (rule K1). A lost wake-up is a deadlock, which loom reports.

#![allow(dead_code, reason = "modules of the library, of which this uses a part")]

#[path = "../src/acquire.rs"]
mod acquire;
#[path = "../src/latch.rs"]
mod latch;
#[path = "../src/lot.rs"]
mod lot;

/// Loom in place of the standard library.
mod sync {
    pub use loom::sync::atomic::{AtomicU32, Ordering};
    pub use loom::sync::{Mutex, MutexGuard};
    pub use std::sync::PoisonError;
}

use acquire::{Latches, Waiting};
use latch::Latch;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use lot::Waiter;

/// A few slots, the counters that they guard, and the workers that sleep.
struct World {
    latches: Vec<Latch>,
    guarded: Vec<UnsafeCell<u32>>,
    waiting: Waiting,
    /// For each worker: true if it has been woken.
    sleepers: Vec<(Mutex<bool>, Condvar)>,
}

impl Latches for [Latch] {
    fn latch(&self, slot: u16) -> &Latch {
        &self[usize::from(slot)]
    }
}

impl World {
    fn new(slots: usize, workers: usize) -> Arc<World> {
        Arc::new(World {
            latches: (0..slots).map(|_| Latch::default()).collect(),
            guarded: (0..slots).map(|_| UnsafeCell::new(0)).collect(),
            waiting: Waiting::new(),
            sleepers: (0..workers).map(|_| (Mutex::new(false), Condvar::new())).collect(),
        })
    }

    fn wake(&self, waiter: Waiter) {
        let (woken, condvar) = &self.sleepers[usize::from(waiter.worker)];
        *woken.lock().unwrap() = true;
        condvar.notify_one();
    }

    fn sleep(&self, worker: u16) {
        let (woken, condvar) = &self.sleepers[usize::from(worker)];
        let mut woken = woken.lock().unwrap();
        while !*woken {
            woken = condvar.wait(woken).unwrap();
        }
        *woken = false;
    }

    /// Takes `slots`, changes the guarded counters, and gives the slots back. Reserves after `patience` failures, as
    /// the engine does.
    fn run(&self, worker: u16, slots: &[u16], patience: u32) {
        let (waiter, all) = (Waiter { worker, token: 0 }, slots.iter().copied());
        let (mut failures, mut reserved) = (0, false);
        loop {
            let taken = match reserved {
                true => self.waiting.try_reserved(&self.latches[..], all.clone(), |w| self.wake(w)),
                false => self.waiting.try_all(&self.latches[..], all.clone(), |w| self.wake(w)),
            };
            let Err(busy) = taken else { break };
            failures += 1;
            if failures > patience && !reserved {
                reserved = self.waiting.reserve(&self.latches[..], all.clone(), waiter);
            }
            if self.waiting.park(&self.latches[usize::from(busy)], busy, waiter, reserved) {
                self.sleep(worker);
            }
        }
        for slot in all.clone() {
            // SAFETY: loom checks that nobody else is there.
            self.guarded[usize::from(slot)].with_mut(|n| unsafe { *n += 1 });
        }
        for slot in all {
            self.waiting.unlock(&self.latches[usize::from(slot)], slot, &mut |w| self.wake(w));
        }
    }

    /// Asserts that nothing is held or reserved, and that all work was done.
    fn check(&self, done: &[u32]) {
        for (slot, &times) in done.iter().enumerate() {
            assert!(self.latches[slot].try_lock(), "slot {slot} is still held or reserved");
            // SAFETY: everybody else is done.
            self.guarded[slot].with(|n| assert_eq!(unsafe { *n }, times));
        }
    }
}

fn explore(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(f);
}

/// Runs each of `needs` on a worker of its own; the first runs on the main thread.
fn race(slots: usize, needs: &'static [&'static [u16]], patience: u32, done: &'static [u32], preemptions: usize) {
    explore(preemptions, move || {
        let world = World::new(slots, needs.len());
        let others: Vec<_> = (1..needs.len())
            .map(|i| {
                let world = world.clone();
                thread::spawn(move || world.run(i as u16, needs[i], patience))
            })
            .collect();
        world.run(0, needs[0], patience);
        for other in others {
            other.join().unwrap();
        }
        world.check(done);
    });
}

#[test]
fn two_want_one_latch() {
    race(1, &[&[0], &[0]], u32::MAX, &[2], 4);
}

#[test]
fn three_want_one_latch() {
    race(1, &[&[0], &[0], &[0]], u32::MAX, &[3], 2);
}

#[test]
fn two_want_two_latches() {
    race(2, &[&[0, 1], &[0, 1]], u32::MAX, &[2, 2], 3);
}

#[test]
fn several_against_single_ones() {
    race(2, &[&[0, 1], &[0], &[1]], u32::MAX, &[2, 2], 2);
}

#[test]
fn a_starving_acquirer_reserves() {
    race(2, &[&[0, 1], &[0], &[1]], 0, &[2, 2], 2);
}

#[test]
fn only_one_can_reserve() {
    race(2, &[&[0, 1], &[0, 1]], 0, &[2, 2], 3);
}

#[test]
fn a_reservation_keeps_newcomers_out() {
    explore(2, || {
        let world = World::new(1, 1);
        let waiter = Waiter { worker: 0, token: 0 };
        assert!(world.latches[0].try_lock());
        assert!(world.waiting.reserve(&world.latches[..], 0..1, waiter));
        assert!(!world.waiting.reserve(&world.latches[..], 0..1, Waiter { worker: 0, token: 1 }));
        world.waiting.unlock(&world.latches[0], 0, &mut |_| {});
        assert!(!world.latches[0].try_lock(), "reserved");
        assert!(world.waiting.try_reserved(&world.latches[..], 0..1, |_| {}).is_ok());
        world.waiting.unlock(&world.latches[0], 0, &mut |_| {});
        assert!(world.latches[0].try_lock(), "no longer reserved");
    });
}

#[test]
fn whoever_waits_for_a_reservation_hears_of_its_end() {
    explore(3, || {
        let world = World::new(1, 2);
        let other = {
            let world = world.clone();
            thread::spawn(move || world.run(1, &[0], u32::MAX))
        };
        // A connection that reserves a slot and then goes away.
        assert!(world.waiting.reserve(&world.latches[..], 0..1, Waiter { worker: 0, token: 0 }));
        world.waiting.cancel(&world.latches[..], 0..1, |w| world.wake(w));
        other.join().unwrap();
        world.check(&[1]);
    });
}
