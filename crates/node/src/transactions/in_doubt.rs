//! What a server finds prepared in its log that it has as the data of another: of a node of a cluster that it is not. It was restored from a backup
//! of one, or that was made a server by itself. Nobody will say what became of those transactions over nodes, and their keys are locked.
//!
//! It does what was prepared, before it serves those keys: as with nodes that were taken out for good, a client may have been told that it happened
//! (rule T5). Only what a later attempt followed was given up.
//!
//! A node of a cluster keeps with the metadata that it has such data, from its first start on, in whichever life it comes to settle them. When it has, and a
//! checkpoint has been made after that, whose start finds nothing of them, it keeps that they are its own, and takes part in transactions from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use engine::{NotInstalled, Outcomes};
use keyspace::Horizon;
use txn::{Prepared, TxId};

use crate::durability::checkpoints::Ticket;
use crate::node::Node;
use crate::worker::Worker;

/// Before the next attempt at what somebody else is at, in milliseconds.
const BUSY_MS: u64 = 10;

/// Before the second attempt to do what could not be done, in milliseconds: twice as long before each later one, up to the most.
const HINDERED_MS: (u64, u64) = (100, 5000);

/// Attempts in a row after which what cannot be read is said to be that: a disk may fail for a moment.
const READS: u32 = 3;

/// Between two looks at whether a checkpoint has been made, in milliseconds.
const SAVED_MS: u64 = 50;

/// Between two attempts at what has failed, in milliseconds.
const AGAIN_MS: u64 = 1000;

/// See the module's text.
pub(crate) struct InDoubt {
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

/// What others have done their parts of, and this node has tried to do in vain.
#[derive(Default)]
pub(crate) struct Hindrance {
    /// How often.
    tries: u32,
    /// It has been said that it cannot be done.
    is_told: bool,
    /// Why it could not be done the last time.
    pub(crate) why: Option<NotInstalled>,
}

impl Hindrance {
    /// An attempt has failed: that is said once, if it is going to last. When the next is due, in milliseconds from now.
    fn note(&mut self, prepared: &Prepared, why: &NotInstalled) -> u64 {
        let (first, most) = HINDERED_MS;
        let wait = (first << self.tries.min(16)).min(most);
        self.tries = self.tries.saturating_add(1);
        let lasts = self.tries >= READS || matches!(why, NotInstalled::Damaged(..));
        if lasts && !std::mem::replace(&mut self.is_told, true) {
            let why = match why {
                NotInstalled::Damaged(what, _) => {
                    format!("damaged: a key is not what it was when it was prepared ({})", what.0)
                }
                NotInstalled::Unreadable => "a key cannot be read from the store".to_owned(),
            };
            tracing::error!(
                tx = ?prepared.tx,
                keys = prepared.locks.len(),
                "a transaction over nodes that is committed cannot be done here: {why}; it is tried again and again, and its keys stay locked"
            );
        }
        wait
    }
}

impl Node {
    /// Whether what the log says of transactions is of another node's life: it is kept that it is, or this one is in no cluster.
    pub(crate) fn has_inherited(&self) -> bool {
        self.cluster().map_or_else(|| !self.engine.transactions.knows_nothing(), |cluster| cluster.has_inherited())
    }
}

impl InDoubt {
    /// What the first worker has to do about it.
    pub(crate) fn of(node: &Node, worker: usize) -> Option<Box<InDoubt>> {
        if worker != 0 || !node.has_inherited() {
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
        Some(Box::new(InDoubt { open, settled, saved: None, asked: Arc::default(), due: 0 }))
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

impl Worker {
    /// An attempt to do what was prepared has failed: if that is going to last, those who need its keys hear so. When the next is due, in milliseconds from
    /// now.
    pub(crate) fn is_hindered(&self, prepared: &Arc<Prepared>, hindrance: &mut Hindrance, why: NotInstalled) -> u64 {
        let wait = hindrance.note(prepared, &why);
        if hindrance.is_told {
            self.node.doubts.is_hindered(prepared, &why);
        }
        hindrance.why = Some(why);
        wait
    }

    /// What was prepared is done.
    pub(crate) fn is_done(&self, prepared: &Prepared, hindrance: &Hindrance) {
        if hindrance.is_told {
            self.node.doubts.is_done(prepared.tx);
        }
    }

    /// Does what it can of it.
    pub(crate) fn settle_inherited(&mut self, now: u64) {
        let Some(mut in_doubt) = self.in_doubt.take_if(|in_doubt| in_doubt.due <= now) else { return };
        let outcomes = self.node.engine.transactions.outcomes();
        let mut again = HINDERED_MS.1;
        in_doubt.open.retain_mut(|(prepared, hindrance)| {
            let gives_up = is_followed(&outcomes, prepared.tx);
            let logged = match gives_up {
                true => self.engine.abort(prepared.tx, &prepared.locks, 0).map(Ok),
                false => self.engine.install(prepared, hindrance.why.as_ref(), 0),
            };
            let (logged, wait) = match logged {
                Ok(Ok(logged)) => (Some(logged), None),
                Ok(Err(why)) => (None, Some(self.is_hindered(prepared, hindrance, why))),
                Err(_) => (None, Some(BUSY_MS)),
            };
            again = again.min(wait.unwrap_or(again));
            if let Some(logged) = &logged {
                in_doubt.settled.merge(logged);
                self.is_done(prepared, hindrance);
                let keys = prepared.locks.len();
                tracing::warn!(tx = ?prepared.tx, keys, committed = !gives_up, "a transaction of another node's life is settled");
            }
            logged.is_none()
        });
        let later = if in_doubt.open.is_empty() { self.keep_settled(&mut in_doubt) } else { Some(again) };
        if let Some(later) = later {
            in_doubt.due = now + later;
            self.in_doubt = Some(in_doubt);
        }
    }

    /// Everything is settled: has that outlast a crash. When this is to be called again, in milliseconds from now; `None`: never.
    fn keep_settled(&mut self, in_doubt: &mut InDoubt) -> Option<u64> {
        let node = self.node.clone();
        let Some(saved) = in_doubt.saved else {
            // Names of attempts may come again, in another cluster.
            node.engine.transactions.restore(Outcomes::default());
            node.cluster()?;
            // A checkpoint covers what is on the disk when it begins: of what comes there later its start finds the records again.
            if let Some(durable) =
                self.promises.durable.as_deref().filter(|durable| !durable.is_synced(&in_doubt.settled))
            {
                durable.sync(in_doubt.settled.versions().iter().copied());
                return Some(SAVED_MS);
            }
            in_doubt.saved = Some(node.checkpoints().map_or(0, |checkpoints| checkpoints.ask(true)));
            return Some(SAVED_MS);
        };
        // Without a log nothing is found after a crash.
        match node.checkpoints().map_or(Some(true), |checkpoints| checkpoints.outcome(saved)) {
            None => return Some(SAVED_MS),
            Some(false) => {
                in_doubt.saved = None;
                return Some(AGAIN_MS);
            }
            Some(true) => {}
        }
        let cluster = node.cluster()?.clone();
        if !cluster.has_inherited() {
            return None;
        }
        if in_doubt.asked.swap(true, Relaxed) {
            return Some(SAVED_MS);
        }
        let asked = Arc::clone(&in_doubt.asked);
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
