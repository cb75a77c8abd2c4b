//! Work on large values that a thread of its own does, while the connection waits and no latch is held for it: see
//! [`command::Aside`].
//!
//! A handler hands out the work ([`Outcome::Aside`](command::Outcome::Aside)), on clones. Its connection waits as for a
//! key that is fetched. When the work is done the command runs again and finds the result. It takes the result if its
//! keys have the versions that the work was done for. After some attempts the command does the work itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use command::{Aside, Prepared};
use keyspace::{Held, Need, Waiter};

use crate::call::{Busy, Call};
use crate::engine::Engine;

/// The place of a connection's result.
#[derive(Default)]
struct Place {
    /// The nanoseconds that it took.
    done: Mutex<Option<(Prepared, u64)>>,
    /// No connection waits for it any more.
    is_left: AtomicBool,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Option<(Prepared, u64)>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A piece of work.
pub struct Task {
    work: Aside,
    waiter: Waiter,
    place: Arc<Place>,
}

impl Task {
    /// Does it, unless no connection waits for it any more. Returns the connection to wake. `clock`: nanoseconds that
    /// never go back.
    pub fn run(self, clock: impl Fn() -> u64) -> Waiter {
        if !self.place.is_left.load(Relaxed) {
            let begun = clock();
            let prepared = self.work.run();
            *self.place.lock() = Some((prepared, clock().saturating_sub(begun)));
        }
        self.waiter
    }
}

/// The queue of work of all workers.
#[derive(Default)]
pub struct Asides {
    queue: Mutex<VecDeque<Task>>,
    bell: Condvar,
    is_open: AtomicBool,
}

impl Asides {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Task>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that there will be a thread for it. Before that, no work is handed out.
    pub fn open(&self) {
        self.is_open.store(true, Relaxed);
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    /// The next piece of work; waits for one for `time` at most.
    pub fn take(&self, time: Duration) -> Option<Task> {
        let mut queue = self.queue();
        if queue.is_empty() && !time.is_zero() {
            (queue, _) = self.bell.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner);
        }
        queue.pop_front()
    }

    fn push(&self, task: Task) {
        self.queue().push_back(task);
        self.bell.notify_one();
    }
}

/// Connections of a worker that wait for work aside.
#[derive(Default)]
pub(crate) struct Waiting {
    places: BTreeMap<u64, Arc<Place>>,
    /// How long the results took that were taken since [`Engine::take_worked`].
    worked: u64,
}

impl Waiting {
    /// The result for a connection, if there is one.
    pub(crate) fn take(&mut self, token: u64) -> Option<Box<Prepared>> {
        let (prepared, took) = self.places.get(&token)?.lock().take()?;
        self.places.remove(&token);
        self.worked += took;
        Some(Box::new(prepared))
    }

    /// Notes that a connection waits no more.
    #[inline]
    pub(crate) fn forget(&mut self, token: u64) {
        if !self.places.is_empty()
            && let Some(place) = self.places.remove(&token)
        {
            place.is_left.store(true, Relaxed);
        }
    }
}

impl Engine {
    /// How long other threads have worked for the commands that ran since the last call, in nanoseconds.
    #[inline]
    pub fn take_worked(&mut self) -> u64 {
        std::mem::take(&mut self.asides.worked)
    }

    /// Hands out work for a connection, which waits until it is done. A connection that was woken for another reason
    /// goes on waiting for the same work.
    #[cold]
    pub(crate) fn begin_aside(&mut self, call: &Call<'_>, work: Aside, held: &Held) -> Busy {
        let (shared, waiter) = (self.shared.clone(), Waiter { worker: self.index, token: call.token });
        self.asides.places.entry(call.token).or_insert_with(|| {
            let place = Arc::<Place>::default();
            shared.asides.push(Task { work, waiter, place: place.clone() });
            place
        });
        let need = if held.is_all() { Need::All } else { Need::Slots(held.slots().into()) };
        Busy { need, slot: held.slots().first().copied().unwrap_or_default(), awaited: true }
    }
}
