//! What a server finds prepared in its log that it has as the data of another: of a node of a cluster that it is not. It was restored from a backup
//! of one, or that was made a server by itself. Nobody will say what became of those transactions over nodes, and their keys are locked.
//!
//! It does what was prepared, before it serves those keys: as with nodes that were taken out for good, a client may have been told that it happened
//! (rule T5). Only what a later attempt followed was given up.

use std::sync::Arc;

use engine::{NotInstalled, Outcomes};
use txn::{Prepared, TxId};

use crate::node::Node;
use crate::worker::Worker;

/// Between two attempts to do what could not be done, in milliseconds.
const LATER_MS: u64 = 10;

/// See the module's text.
pub(crate) struct InDoubt {
    open: Vec<Arc<Prepared>>,
    /// When it is looked at next, unix milliseconds.
    due: u64,
    /// It has been said that one of them cannot be done.
    told: bool,
}

impl Node {
    /// Whether what the log says of transactions is of another node's life: this one has none before, or is in no cluster.
    pub(crate) fn has_inherited(&self) -> bool {
        self.cluster().is_none_or(|cluster| cluster.is_first_life()) && !self.engine.transactions.knows_nothing()
    }
}

impl InDoubt {
    /// What the first worker has to do about it.
    pub(crate) fn of(node: &Node, worker: usize) -> Option<Box<InDoubt>> {
        if worker != 0 || !node.has_inherited() {
            return None;
        }
        let open: Vec<_> = node.engine.transactions.outcomes().prepared().cloned().collect();
        if !open.is_empty() {
            tracing::warn!(
                "These data are of a node of a cluster in which {} transactions over nodes were prepared and not known to be committed: they are committed here",
                open.len()
            );
        }
        Some(Box::new(InDoubt { open, due: 0, told: false }))
    }

    pub(crate) fn deadline(&self) -> u64 {
        self.due
    }
}

/// Whether a later attempt of the transaction is known.
fn is_followed(outcomes: &Outcomes, tx: TxId) -> bool {
    let follows =
        |other: TxId| (other.origin, other.sequence) == (tx.origin, tx.sequence) && other.attempt > tx.attempt;
    outcomes.records().any(|record| follows(record.tx()))
}

/// Says, once, that something cannot be done that others have done their parts of.
pub(crate) fn tell_not_installed(prepared: &Prepared, why: &NotInstalled, told: &mut bool) {
    if let NotInstalled::Damaged(what) = why
        && !std::mem::replace(told, true)
    {
        tracing::error!(
            tx = ?prepared.tx,
            what = what.0,
            keys = prepared.locks.len(),
            "damaged: a transaction over nodes that is committed cannot be done here, as a key is not what it was when it was prepared; its keys stay locked"
        );
    }
}

impl Worker {
    /// Does what it can of it.
    pub(crate) fn settle_inherited(&mut self, now: u64) {
        let Some(mut in_doubt) = self.in_doubt.take_if(|in_doubt| in_doubt.due <= now) else { return };
        let outcomes = self.node.engine.transactions.outcomes();
        in_doubt.open.retain(|prepared| {
            let gives_up = is_followed(&outcomes, prepared.tx);
            let done = match gives_up {
                true => self.engine.abort(prepared.tx, &prepared.locks, 0).is_ok(),
                false => match self.engine.install(prepared, 0) {
                    Ok(Err(why)) => {
                        tell_not_installed(prepared, &why, &mut in_doubt.told);
                        false
                    }
                    installed => installed.is_ok(),
                },
            };
            if done {
                let keys = prepared.locks.len();
                tracing::warn!(tx = ?prepared.tx, keys, committed = !gives_up, "a transaction of another node's life is settled");
            }
            !done
        });
        if in_doubt.open.is_empty() {
            // Names of attempts may come again, in another cluster.
            return self.node.engine.transactions.restore(Outcomes::default());
        }
        in_doubt.due = now + LATER_MS;
        self.in_doubt = Some(in_doubt);
    }
}
