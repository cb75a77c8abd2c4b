//! What the node's participant asks for becomes tasks and messages.

use txn::{Action, Record};

use super::tasks::Work;
use crate::worker::Worker;

impl Worker {
    /// Does what the participant asks for, in its order as far as it matters.
    pub(super) fn act(&mut self, actions: Vec<Action>) {
        let mut actions = actions.into_iter().peekable();
        while let Some(action) = actions.next() {
            match action {
                Action::Send { to, message } => self.tx_send(to, message),
                Action::Lock { tx, stamp, locks } => {
                    let watched = self.peers.as_deref_mut().and_then(|peers| peers.tx.watched.remove(&tx));
                    let watched = watched.unwrap_or_default();
                    self.add_task(Work::Prepare { tx, stamp, locks, watched, asked: false });
                }
                Action::Install { prepared } => {
                    // It gives the locks back itself.
                    let own = |next: &Action| matches!(next, Action::Unlock { tx, .. } if *tx == prepared.tx);
                    actions.next_if(own);
                    self.add_task(Work::Install { prepared });
                }
                Action::Append { record: Record::Abort { tx } } => {
                    let own = |next: &Action| matches!(next, Action::Unlock { tx: other, .. } if *other == tx);
                    let Some(Action::Unlock { locks, .. }) = actions.next_if(own) else { continue };
                    self.add_task(Work::Abort { tx, locks });
                }
                Action::Append { record: Record::Refuse { tx } } => self.add_task(Work::Refuse { tx }),
                Action::Unlock { tx, locks } => self.add_task(Work::Unlock { tx, locks }),
                Action::Contradiction { tx, what } => {
                    tracing::error!(?tx, what, "a transaction over nodes is contradictory");
                }
                // Whoever executes does that, under the same latches.
                Action::Execute { .. } | Action::Append { .. } => {
                    debug_assert!(false, "what is executed and prepared is done in one go");
                }
            }
        }
    }

    /// Tells the participant which records are committed.
    pub(super) fn tx_committed(&mut self, now: u64) {
        let Some(peers) = self.peers.as_deref_mut() else { return };
        if peers.tx.logged.is_empty() {
            return;
        }
        let engine = &self.engine;
        let is_committed = |seen: &keyspace::Horizon| seen.versions().iter().all(|seen| engine.is_committed(*seen));
        let committed: Vec<_> = peers.tx.logged.extract_if(.., |(seen, ..)| is_committed(seen)).collect();
        let mut actions = Vec::new();
        for (_, tx, kind) in committed {
            peers.shared.parts.with(|parts| parts.committed(now, tx, kind, &mut actions));
        }
        self.act(actions);
    }
}
