//! The prepared transactions in the log of a server that did not prepare them itself. Its data come from a node of a
//! cluster that it does not belong to. It was restored from a backup of that node, or that node was made a single
//! server. No coordinator will tell the outcome of those transactions, and their keys are locked.
//!
//! The server commits them before it serves those keys, as for nodes that were removed for good. A client may have been
//! told that they happened (rule T5). Only an attempt that a later attempt followed was given up.
//!
//! A node of a cluster remembers with the metadata that it has such data, from its first start until it has settled
//! them. After that a checkpoint is made, so that a later start finds nothing of those transactions. Then the node
//! remembers that its data are its own, and takes part in transactions from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use clocks::UnixMs;
use engine::{Engine, Outcomes};
use keyspace::Horizon;
use txn::{Prepared, TxnId};

use super::hindrance::{HINDERED_MS, Hindrance};
use crate::durability::checkpoints::Ticket;
use crate::durability::durable::Durable;
use crate::node::Node;

/// Before the next attempt at a transaction that another task works on, in milliseconds.
const BUSY_MS: u64 = 10;

/// Between two checks whether a checkpoint has been made, in milliseconds.
const SAVED_MS: u64 = 50;

/// Between two attempts after a failure, in milliseconds.
const AGAIN_MS: u64 = 1000;

/// See the module's text.
pub(crate) struct Inherited {
    open: Vec<(Arc<Prepared>, Hindrance)>,
    /// The records that say what became of them.
    settled: Horizon,
    /// The checkpoint after they were settled.
    saved: Option<Ticket>,
    /// It is being kept that they are.
    asked: Arc<AtomicBool>,
    /// When the next attempt is due.
    due: UnixMs,
}

/// True if the log has transactions of another node's life. A node of a cluster remembers that. At a server without a
/// cluster every transaction in the log is one.
pub(super) fn has_inherited(node: &Node) -> bool {
    node.cluster().map_or_else(|| !node.engine.transactions.knows_nothing(), |cluster| cluster.has_inherited())
}

impl Inherited {
    /// The first worker's task of settling them, if there are any.
    pub(crate) fn of(node: &Node, worker: usize) -> Option<Box<Inherited>> {
        if worker != 0 || !has_inherited(node) {
            return None;
        }
        let outcomes = node.engine.transactions.outcomes();
        let open: Vec<_> = outcomes.prepared().map(|prepared| (prepared.clone(), Hindrance::default())).collect();
        if !open.is_empty() {
            tracing::warn!(
                "The data come from a node of a cluster. {} of its transactions over nodes were prepared, and their outcome is not known: this server commits them",
                open.len()
            );
        }
        let settled = Horizon::default();
        Some(Box::new(Inherited { open, settled, saved: None, asked: Arc::default(), due: UnixMs::ZERO }))
    }

    pub(crate) fn deadline(&self) -> UnixMs {
        self.due
    }
}

/// True if a later attempt of the transaction is known.
fn is_followed(outcomes: &Outcomes, tx: TxnId) -> bool {
    let follows =
        |other: TxnId| (other.origin, other.sequence) == (tx.origin, tx.sequence) && other.attempt > tx.attempt;
    outcomes.records().any(|record| follows(record.tx()))
}

impl Inherited {
    /// Settles what it can of it. Returns whether it must be called again, when that is due.
    pub(crate) fn settle(&mut self, engine: &mut Engine, node: &Arc<Node>, log: Option<&Durable>, now: UnixMs) -> bool {
        let outcomes = node.engine.transactions.outcomes();
        let mut again = HINDERED_MS.1;
        self.open.retain_mut(|(prepared, hindrance)| {
            let gives_up = is_followed(&outcomes, prepared.tx);
            let logged = match gives_up {
                true => engine.abort(prepared.tx, &prepared.locks, 0).map(Ok),
                false => engine.install(prepared, hindrance.why.as_ref(), 0),
            };
            let (logged, wait) = match logged {
                Ok(Ok(logged)) => (Some(logged), None),
                Ok(Err(why)) => (None, Some(hindrance.lasts(prepared, &node.doubts, why))),
                Err(_) => (None, Some(BUSY_MS)),
            };
            again = again.min(wait.unwrap_or(again));
            if let Some(logged) = &logged {
                self.settled.merge(logged);
                hindrance.is_over(prepared, &node.doubts);
                let keys = prepared.locks.len();
                tracing::warn!(tx = ?prepared.tx, keys, committed = !gives_up, "a transaction of another node's life is settled");
            }
            logged.is_none()
        });
        let later = if self.open.is_empty() { self.keep_settled(node, log) } else { Some(again) };
        self.due = now + later.unwrap_or(0);
        later.is_some()
    }

    /// Everything is settled: has that outlast a crash. When this is to be called again, in milliseconds from now;
    /// `None`: never.
    fn keep_settled(&mut self, node: &Arc<Node>, log: Option<&Durable>) -> Option<u64> {
        let Some(saved) = self.saved else {
            // Names of attempts may come again, in another cluster.
            node.engine.transactions.restore(Outcomes::default());
            node.cluster()?;
            // A checkpoint covers what is on the disk when it begins. A start after it still finds the records that
            // came later.
            if let Some(durable) = log.filter(|durable| !durable.is_synced(&self.settled)) {
                durable.sync(self.settled.versions().iter().copied());
                return Some(SAVED_MS);
            }
            self.saved = Some(node.checkpoints().map_or(0, |checkpoints| checkpoints.ask(true)));
            return Some(SAVED_MS);
        };
        // Without a log nothing is found after a crash.
        match node.checkpoints().map_or(Some(true), |checkpoints| checkpoints.outcome(saved)) {
            None => return Some(SAVED_MS),
            Some(false) => {
                self.saved = None;
                return Some(AGAIN_MS);
            }
            Some(true) => {}
        }
        let (cluster, node) = (node.cluster()?.clone(), Arc::clone(node));
        if !cluster.has_inherited() {
            return None;
        }
        if self.asked.swap(true, Relaxed) {
            return Some(SAVED_MS);
        }
        let asked = Arc::clone(&self.asked);
        match cluster.clone().administration() {
            None => cluster.has_settled(),
            Some(admin) => admin.settled(Box::new(move |written| match written {
                Ok(()) => {
                    cluster.has_settled();
                    node.look_all();
                }
                Err(why) => {
                    tracing::error!(
                        "this node cannot note that the transactions of another node's life are settled: {why}; it takes no part in transactions over nodes"
                    );
                    asked.store(false, Relaxed);
                }
            })),
        }
        Some(AGAIN_MS)
    }
}
