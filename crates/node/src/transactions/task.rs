//! A task: work on keys under latches that a participant has asked for.

use std::sync::Arc;

use engine::Caller;
use txn::{Lock, Prepared, Stamp, TxnId};

use super::client::Client;
use super::hindrance::Hindrance;

/// The work of a task.
pub(super) enum Work {
    /// Lock, execute, undo, log. The age comes with whether it is patient. Widens: it has other locks already.
    Prepare { tx: TxnId, age: (Stamp, bool), locks: Arc<[Lock]>, client: Client, asked: bool, widens: bool },
    /// Do what the coordinator has made of the answers, undo, log. The locks are there. Holds the changes, true if they
    /// are logged, and the caller.
    Proceed { tx: TxnId, stamp: Stamp, locks: Arc<[Lock]>, work: (Arc<[u8]>, bool, Caller) },
    /// Apply a prepared change, and unlock.
    Install { prepared: Arc<Prepared>, hindrance: Hindrance },
    /// Log that it is not to be done, and unlock.
    Abort { tx: TxnId, locks: Arc<[Lock]> },
    /// Log that it was refused.
    Refuse { tx: TxnId },
    /// Unlock.
    Unlock { tx: TxnId, locks: Arc<[Lock]> },
}

/// See the module's text.
pub(super) struct Task {
    pub(super) work: Work,
    /// Failures in a row to get a latch.
    pub(super) failures: u32,
    /// How often it has waited for locks and for keys that memory does not know.
    pub(super) waits: u32,
}

impl Task {
    pub(super) fn new(work: Work) -> Self {
        Self { work, failures: 0, waits: 0 }
    }
}
