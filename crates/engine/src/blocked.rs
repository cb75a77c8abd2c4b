//! Blocked clients: who waits for which keys, and how a wait ends.
//!
//! A wait is one atomic state (rule K4). Whoever moves it away from `WAITING` decides how it ends: a worker that serves it
//! (`CLAIMED`), or whoever takes the client away: its own worker (deadline, disconnect), CLIENT UNBLOCK or CLIENT KILL of
//! any worker (`CANCELLED`). Who comes while it is being served leaves word (`LEFT`), so that it does not go back to waiting
//! for a client that is gone; and in every case exactly one message or call tells the client's worker how it ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

use command::{Row, Run};
use keyspace::{Kind, Waiter};
use resp::{OwnedArgs, Protocol};

use crate::call::Call;
use crate::tracking::Caller;

/// In its queues.
const WAITING: u8 = 0;
/// Being served. Back to `WAITING` if nothing was there for it after all.
const CLAIMED: u8 = 1;
/// Being served, and given up meanwhile. To `CANCELLED` if nothing was there for it after all.
const LEFT: u8 = 2;
/// Its reply is on its way.
const SERVED: u8 = 3;
/// Given up.
const CANCELLED: u8 = 4;

/// A command that waits for keys.
pub struct Blocked {
    state: AtomicU8,
    /// Whom to tell.
    pub waiter: Waiter,
    /// The command.
    pub row: &'static Row<Run>,
    /// Its arguments.
    pub args: OwnedArgs,
    /// Its logical database.
    pub db: u16,
    /// The protocol of its reply.
    pub protocol: Protocol,
    /// For whom it runs.
    pub(crate) caller: Caller,
    /// When to give up, in unix milliseconds.
    pub deadline: Option<u64>,
    /// When to run again even if nothing has changed, in unix milliseconds; 0: not before something has.
    again: AtomicU64,
    /// What must be found at a key for the command to run again.
    pub(crate) kind: Kind,
    /// It runs again, too, when a key is gone or is something else.
    pub(crate) when_gone: bool,
    /// Positions of the keys it waits for.
    pub(crate) keys: Vec<usize>,
    /// Slots of all its keys, ascending: what running it needs.
    pub(crate) slots: Vec<u16>,
}

/// What became of the attempt to end a wait from the client's side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The wait is over: whoever ended it answers the client.
    Ended,
    /// It is being served or has been: a [`Served`] follows in any case.
    Coming,
    /// Somebody else has ended it, and answers.
    EndedBefore,
}

/// How a wait that was claimed ended, on its way to the client's worker.
pub struct Served {
    /// Whom it is for.
    pub waiter: Waiter,
    /// The encoded reply. `None`: nothing was there after all, and the client's side had asked for the end meanwhile.
    pub reply: Option<Vec<u8>>,
}

impl Blocked {
    /// The command of `call`, with these arguments, waiting for what `block` says.
    pub(crate) fn new(
        waiter: Waiter,
        call: &Call<'_>,
        args: OwnedArgs,
        block: command::Block,
        slots: Vec<u16>,
    ) -> Self {
        let command::Block { keys, kind, deadline, again, when_gone, .. } = block;
        // The time it was reckoned from may be almost a millisecond behind: no wait ends early.
        let deadline = deadline.map(|at| at.saturating_add(1));
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
            again: AtomicU64::new(again.unwrap_or(0)),
            kind,
            when_gone,
            keys,
            slots,
        }
    }

    /// When it runs again even if nothing has changed, in unix milliseconds. It may have run since, and want another time.
    pub fn again(&self) -> Option<u64> {
        Some(self.again.load(Acquire)).filter(|at| *at > 0)
    }

    /// It has run, and found nothing.
    pub(crate) fn run_again_at(&self, at: Option<u64>) {
        self.again.store(at.unwrap_or(0), Release);
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

    /// There was nothing for the claimed wait after all. False: it was left meanwhile, and is over.
    pub(crate) fn unclaim(&self) -> bool {
        let waits = self.change(CLAIMED, WAITING);
        if !waits {
            self.state.store(CANCELLED, Release);
        }
        waits
    }

    /// Whether its reply is on its way, or may be: what concerns the client from now on comes behind it.
    pub fn is_being_served(&self) -> bool {
        matches!(self.state.load(Acquire), CLAIMED | LEFT | SERVED)
    }

    /// Ends the wait if nobody is serving it (CLIENT UNBLOCK).
    pub fn cancel(&self) -> bool {
        self.change(WAITING, CANCELLED)
    }

    /// Ends the wait for good: if somebody is serving it, it does not go back to waiting.
    pub fn leave(&self) -> Ending {
        loop {
            match self.state.load(Acquire) {
                WAITING if self.cancel() => return Ending::Ended,
                CLAIMED if self.change(CLAIMED, LEFT) => return Ending::Coming,
                WAITING | CLAIMED => {}
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

/// Where others find the wait of a session, to end it. Its worker sits down on it and rises from it; anybody may close it.
#[derive(Default)]
pub struct Seat {
    closed: AtomicBool,
    wait: Mutex<Option<Arc<Blocked>>>,
}

impl Seat {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Blocked>>> {
        self.wait.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a wait before anybody can serve it. False: the session has been closed and must not wait.
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

    /// Closes the session (CLIENT KILL): once this returns, it is served nothing that was not being served before.
    pub fn close(&self) {
        // Under the lock: whoever sits down sees it, or is seen.
        let wait = self.lock();
        self.closed.store(true, Release);
        if let Some(blocked) = &*wait {
            blocked.leave();
        }
    }

    /// Whether the session has been closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Acquire)
    }

    /// Ends the present wait, unless it is being served (CLIENT UNBLOCK). The wait, for its worker to answer.
    pub fn interrupt(&self) -> Option<Arc<Blocked>> {
        self.lock().clone().filter(|blocked| blocked.cancel())
    }
}
