//! What a server finds prepared in its log that it has as the data of another: of a node of a cluster that it is not.
//! It was restored from a backup of one, or that was made a server by itself. Nobody will say what became of those
//! transactions over nodes, and their keys are locked.
//!
//! It does what was prepared, before it serves those keys: as with nodes that were taken out for good, a client may
//! have been told that it happened (rule T5). Only what a later attempt followed was given up.
//!
//! A node of a cluster keeps with the metadata that it has such data, from its first start on, in whichever life it
//! comes to settle them. When it has, and a checkpoint has been made after that, whose start finds nothing of them, it
//! keeps that they are its own, and takes part in transactions from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use engine::{Engine, Outcomes};
use keyspace::Horizon;
use txn::{Prepared, TxnId};

use super::hindrance::{HINDERED_MS, Hindrance};
use crate::durability::checkpoints::Ticket;
use crate::durability::durable::Durable;
use crate::node::Node;

/// Before the next attempt at what somebody else is at, in milliseconds.
const BUSY_MS: u64 = 10;

/// Between two looks at whether a checkpoint has been made, in milliseconds.
const SAVED_MS: u64 = 50;

/// Between two attempts at what has failed, in milliseconds.
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
    /// When it is looked at next, unix milliseconds.
    due: u64,
}

/// Whether the log says of transactions what is of another node's life: it is kept that it does, or this one is in no
/// cluster.
pub(super) fn has_inherited(node: &Node) -> bool {
    node.cluster().map_or_else(|| !node.engine.transactions.knows_nothing(), |cluster| cluster.has_inherited())
}

impl Inherited {
    /// What the first worker has to do about it.
    pub(crate) fn of(node: &Node, worker: usize) -> Option<Box<Inherited>> {
        if worker != 0 || !has_inherited(node) {
            return None;
        }
        let outcomes = node.engine.transactions.outcomes();
        let open: Vec<_> = outcomes.prepared().map(|prepared| (prepared.clone(), Hindrance::default())).collect();
        if !open.is_empty() {
            tracing::warn!(
                "These data are of a node of a cluster in which {} transactions over nodes were prepared and not known to be committed: they are committed here",
                open.len()
            );
        }
        let settled = Horizon::default();
        Some(Box::new(Inherited { open, settled, saved: None, asked: Arc::default(), due: 0 }))
    }

    pub(crate) fn deadline(&self) -> u64 {
        self.due
    }
}

/// Whether a later attempt of the transaction is known.
fn is_followed(outcomes: &Outcomes, tx: TxnId) -> bool {
    let follows =
        |other: TxnId| (other.origin, other.sequence) == (tx.origin, tx.sequence) && other.attempt > tx.attempt;
    outcomes.records().any(|record| follows(record.tx()))
}

impl Inherited {
    /// Does what it can of it. Whether it is to be called again, when it is due.
    pub(crate) fn settle(&mut self, engine: &mut Engine, node: &Arc<Node>, log: Option<&Durable>, now: u64) -> bool {
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
            // A checkpoint covers what is on the disk when it begins: of what comes there later its start finds the
            // records again.
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
                        "whose data this node has cannot be kept: {why}; it takes no part in transactions over nodes"
                    );
                    asked.store(false, Relaxed);
                }
            })),
        }
        Some(AGAIN_MS)
    }
}
