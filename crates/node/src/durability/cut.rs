//! A node's part of an export over nodes: one moment for all of them.
//!
//! The exporter has a connection to every node, and orders each step at all of them before the next:
//!
//! ```text
//! BEGIN    the thread that makes snapshots is this export's
//! HOLD     no command begins to write, and no new part of a transaction over nodes asks for locks
//! MOMENT   a snapshot of this moment is begun; answered with the transactions that are open and committed here
//! RELEASE  writes go on; an error if they did so before
//! SEND     the snapshot of the last moment
//! ```
//!
//! While all nodes hold, only transactions that have their locks already may still commit. If one that is committed
//! at a node is open at another, the moments do not fit together, and the exporter asks for others. So every
//! transaction is in the files of all nodes, or in none.
//!
//! The hold ends with its time or with the connection, whatever becomes of the exporter.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

use crate::worker::jobs::Job;

/// The text for a step that comes too late.
const OVER: &[u8] = b"ERR this export is over: a step took too long, or the server stops";

/// A step that the exporter orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Hold writes back for so many milliseconds at most.
    Hold(u64),
    /// Begin a snapshot of this moment, instead of an earlier one.
    Moment,
    /// Let writes go on.
    Release,
    /// Send the snapshot. It is the last step.
    Send,
}

/// The exporter's orders to the thread that makes snapshots.
#[derive(Debug, Default)]
pub struct Cut {
    state: Mutex<State>,
    thread: OnceLock<Thread>,
}

#[derive(Debug, Default)]
struct State {
    order: Option<(Order, Arc<Job>)>,
    /// Nobody gives or takes orders any more.
    over: bool,
}

impl Cut {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders a step.
    fn order(&self, order: Order) -> Arc<Job> {
        let job = Job::elsewhere();
        let mut state = self.lock();
        if state.over {
            job.end(Err(OVER.into()));
        } else {
            state.order = Some((order, job.clone()));
        }
        drop(state);
        self.wake();
        job
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Makes the calling thread the one that takes the orders: it is unparked when there is one, or when it is over.
    pub fn serve(&self) {
        let _ = self.thread.set(thread::current());
    }

    /// The next order, with the job that its outcome ends.
    pub fn take(&self) -> Option<(Order, Arc<Job>)> {
        self.lock().order.take()
    }

    /// True if the exporter has gone.
    pub fn is_over(&self) -> bool {
        self.lock().over
    }

    /// Takes no further order.
    pub fn end(&self) {
        let mut state = self.lock();
        state.over = true;
        if let Some((_, job)) = state.order.take() {
            job.end(Err(OVER.into()));
        }
    }
}

/// The end of a session whose client exports. Its end is that of the export.
#[derive(Debug, Default)]
pub(crate) struct Exporter(pub(crate) Arc<Cut>);

impl Exporter {
    /// Orders a step.
    pub(crate) fn order(&self, order: Order) -> Arc<Job> {
        self.0.order(order)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.0.end();
        self.0.wake();
    }
}
