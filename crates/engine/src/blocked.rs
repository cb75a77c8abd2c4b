//! Blocked clients: the keys that they wait for, and how a wait ends.
//!
//! A wait is one atomic state (rule K4). The thread that moves it away from `WAITING` decides how it ends. A worker
//! serves it (`CLAIMED`), or ends it for the client (`CANCELLED`). The latter is its own worker (deadline, disconnect),
//! or any worker by CLIENT UNBLOCK or CLIENT KILL. If it is ended while it is being served, that is noted (`LEFT`), so
//! that it does not go back to waiting for a client that is gone. In every case exactly one message or call tells the
//! client's worker how it ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clocks::UnixMs;
use command::{Row, Run};
use keyspace::{Kind, Waiter};
use resp::{OwnedArgs, Protocol};

use crate::call::Call;
use crate::tracking::Caller;

/// In its queues.
const WAITING: u8 = 0;
/// Being served. Back to `WAITING` if its keys were empty after all.
const CLAIMED: u8 = 1;
/// Being served, and given up meanwhile. To `CANCELLED` if its keys were empty after all.
const LEFT: u8 = 2;
/// Its reply is on its way.
const SERVED: u8 = 3;
/// Given up.
const CANCELLED: u8 = 4;
/// In its queues, but not to be served before its worker has looked at it: its user's rights may have gone.
const HELD: u8 = 5;

/// A command that waits for keys.
pub struct Blocked {
    state: AtomicU8,
    /// The connection to wake.
    pub waiter: Waiter,
    /// The command.
    pub row: &'static Row<Run>,
    /// Its arguments.
    pub args: OwnedArgs,
    /// Its logical database.
    pub db: u16,
    /// The protocol of its reply.
    pub protocol: Protocol,
    /// The caller that it runs for.
    pub(crate) caller: Caller,
    /// When to give up.
    pub deadline: Option<UnixMs>,
    /// When to run again even without a change: a [`UnixMs`]; 0: only after a change.
    again: AtomicU64,
    /// The kind of value that a key must have for the command to run again.
    pub(crate) kind: Kind,
    /// It also runs again when a key is gone or has another type.
    pub(crate) when_gone: bool,
    /// Positions of the keys it waits for.
    pub(crate) keys: Vec<usize>,
    /// Slots of all its keys, ascending: the latches that it needs.
    pub(crate) slots: Vec<u16>,
}

/// The result of the attempt to end a wait from the client's side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The wait is over: the caller that ended it answers the client.
    Ended,
    /// It is being served or has been: a [`Served`] follows in any case.
    Coming,
    /// Another thread has ended it, and answers.
    EndedBefore,
}

/// The end of a claimed wait, on its way to the client's worker.
pub struct Served {
    /// The connection that it is for.
    pub waiter: Waiter,
    /// The encoded reply. `None`: the keys were empty after all, and the client's side had asked for the end meanwhile.
    pub reply: Option<Vec<u8>>,
}

impl Blocked {
    /// The command of `call`, with these arguments, waiting as `block` says.
    pub(crate) fn new(
        waiter: Waiter,
        call: &Call<'_>,
        args: OwnedArgs,
        block: command::Block,
        slots: Vec<u16>,
    ) -> Self {
        let command::Block { keys, kind, deadline, again, when_gone, .. } = block;
        // The time may be behind by almost a millisecond: no wait ends early.
        let deadline = deadline.map(|at| at + 1);
        let Call { row, db, protocol, caller, .. } = *call;
        Self {
            state: AtomicU8::new(WAITING),
            waiter,
            row,
            args,
            db,
            protocol,
            caller,
            deadline,
            again: AtomicU64::new(UnixMs::to_wire(again)),
            kind,
            when_gone,
            keys,
            slots,
        }
    }

    /// When it runs again without a change. It may have run since, and want another time.
    pub fn again(&self) -> Option<UnixMs> {
        UnixMs::from_wire(self.again.load(Acquire))
    }

    /// It has run, and found nothing.
    pub(crate) fn run_again_at(&self, at: Option<UnixMs>) {
        self.again.store(UnixMs::to_wire(at), Release);
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, AcqRel, Acquire).is_ok()
    }

    /// Takes the wait to serve it.
    pub(crate) fn claim(&self) -> bool {
        self.change(WAITING, CLAIMED)
    }

    /// The claimed wait has its reply.
    pub(crate) fn served(&self) {
        self.state.store(SERVED, Release);
    }

    /// The keys of the claimed wait were empty after all. False: it was left meanwhile, and is over.
    pub(crate) fn unclaim(&self) -> bool {
        let waits = self.change(CLAIMED, WAITING);
        if !waits {
            self.state.store(CANCELLED, Release);
        }
        waits
    }

    /// True if its reply is on its way, or may be: later messages for the client come behind it.
    pub fn is_being_served(&self) -> bool {
        matches!(self.state.load(Acquire), CLAIMED | LEFT | SERVED)
    }

    /// Has changes of its keys pass it by until it is released. Any thread may do that.
    fn hold(&self) {
        self.change(WAITING, HELD);
    }

    /// It may be served again. True: it was held, so changes of its keys may have passed it by.
    pub fn release(&self) -> bool {
        self.change(HELD, WAITING)
    }

    /// Ends the wait unless it is being served (CLIENT UNBLOCK).
    pub fn cancel(&self) -> bool {
        self.change(WAITING, CANCELLED) || self.change(HELD, CANCELLED)
    }

    /// Ends the wait for good: if it is being served, it does not go back to waiting.
    pub fn leave(&self) -> Ending {
        loop {
            match self.state.load(Acquire) {
                WAITING | HELD if self.cancel() => return Ending::Ended,
                CLAIMED if self.change(CLAIMED, LEFT) => return Ending::Coming,
                WAITING | HELD | CLAIMED => {}
                CANCELLED => return Ending::EndedBefore,
                _ => return Ending::Coming,
            }
        }
    }

    /// The keys it waits for.
    pub fn waited_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().filter_map(|&i| self.args.args().get(i))
    }
}

/// The place of a session's wait, where other threads find and end it. The session's worker enters and leaves it; any
/// thread may close it.
#[derive(Default)]
pub struct Seat {
    closed: AtomicBool,
    wait: Mutex<Option<Arc<Blocked>>>,
}

impl Seat {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Blocked>>> {
        self.wait.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a wait before it can be served. False: the session was closed and must not wait.
    pub(crate) fn sit(&self, blocked: &Arc<Blocked>) -> bool {
        let mut wait = self.lock();
        let open = !self.is_closed();
        if open {
            *wait = Some(blocked.clone());
        }
        open
    }

    /// The wait is over.
    pub fn rise(&self) {
        *self.lock() = None;
    }

    /// Closes the session (CLIENT KILL): once this returns, no wait of it is served except one that was being served
    /// before.
    pub fn close(&self) {
        // Under the lock: a worker that enters sees it, or is seen.
        let wait = self.lock();
        self.closed.store(true, Release);
        if let Some(blocked) = &*wait {
            blocked.leave();
        }
    }

    /// Holds the present wait, unless it is being served: its worker looks whether its command may still run.
    pub fn hold(&self) {
        if let Some(blocked) = &*self.lock() {
            blocked.hold();
        }
    }

    /// True if the session has been closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Acquire)
    }

    /// Ends the present wait, unless it is being served (CLIENT UNBLOCK). Returns the wait, for its worker to answer.
    pub fn interrupt(&self) -> Option<Arc<Blocked>> {
        self.lock().clone().filter(|blocked| blocked.cancel())
    }
}
