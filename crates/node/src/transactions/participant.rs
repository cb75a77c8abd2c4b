//! Turns the participant's actions into tasks and messages.

use clocks::BootMs;
use txn::{Action, Execution, Record, RecordKind, Refusal, TxnId};

use super::client::Client;
use super::hindrance::Hindrance;
use super::port::{Desk, Port, Transacting};
use super::state::{Logged, Looked, SYNC_MS, Transactions};
use super::task::Work;
use crate::cluster::Peers;
use crate::durability::durable::Durable;

impl<P: Port> Transacting<'_, P> {
    /// Carries out the participant's actions, in their order where order matters.
    pub(super) fn act(&mut self, actions: Vec<Action>) {
        let mut actions = actions.into_iter().peekable();
        while let Some(action) = actions.next() {
            match action {
                Action::Send { to, message } => self.send(to, message),
                Action::Lock { tx, stamp, locks, patient, widens } => {
                    let client = self.client_of(tx);
                    let age = (stamp, patient);
                    self.txn().add_task(Work::Prepare { tx, age, locks, client, asked: false, widens });
                }
                Action::Install { prepared } => {
                    // The task gives the locks back itself.
                    let own = |next: &Action| matches!(next, Action::Unlock { tx, .. } if *tx == prepared.tx);
                    actions.next_if(own);
                    self.txn().add_task(Work::Install { prepared, hindrance: Hindrance::default() });
                }
                Action::Append { record: Record::Abort { tx } } => {
                    let own = |next: &Action| matches!(next, Action::Unlock { tx: other, .. } if *other == tx);
                    let Some(Action::Unlock { locks, .. }) = actions.next_if(own) else { continue };
                    self.txn().add_task(Work::Abort { tx, locks });
                }
                Action::Append { record: Record::Refuse { tx } } => self.txn().add_task(Work::Refuse { tx }),
                Action::Proceed { tx, stamp, locks, commands, logged } => {
                    let caller = self.client_of(tx).caller;
                    self.txn().add_task(Work::Proceed { tx, stamp, locks, work: (commands, logged, caller) });
                }
                Action::Unlock { tx, locks } => self.txn().add_task(Work::Unlock { tx, locks }),
                Action::Presumed { tx, lost } => {
                    let lost: Vec<u64> = lost.iter().map(|node| node.0).collect();
                    tracing::warn!(
                        ?tx,
                        ?lost,
                        "this node commits a transaction over nodes: removed nodes may have refused it, and cannot be asked"
                    );
                }
                Action::Contradiction { tx, what } => {
                    tracing::error!(
                        ?tx,
                        what,
                        "a message about a transaction over nodes contradicts what this node has done"
                    );
                }
                // The task that executes a part does these, under the same latches.
                Action::Execute { .. } | Action::Fetch { .. } | Action::Append { .. } => {
                    debug_assert!(false, "what is executed and prepared is done in one go");
                }
            }
        }
    }

    /// The watched keys and the caller that came with the message that is being handled.
    fn client_of(&mut self, tx: TxnId) -> Client {
        self.txn().clients.remove(&tx).unwrap_or_default()
    }

    /// A record is in the log's buffer. Other nodes hear of an outcome only once it is on the disk here, whatever
    /// replies promise. If they forgot it before, and power failed here, this node would be in doubt for ever. The same
    /// holds for a Prepare record: the block is committed once all nodes have answered (rule T4), so a node that has
    /// lost its part would never get it back. A block within one node is one record, and is lost as a whole.
    pub(super) fn record_left(&mut self, logged: Logged) {
        let now = self.now();
        let txn = self.txn();
        match logged.2 {
            RecordKind::Prepare | RecordKind::Refuse => txn.logged.push(logged),
            RecordKind::Commit | RecordKind::Abort => {
                if txn.outcomes.is_empty() {
                    txn.asked_to_sync = now;
                }
                txn.outcomes.push_back(logged);
            }
        }
        self.look_at_log(now);
    }

    /// The log has failed, and commits nothing any more; `why` says how. Attempts that depend on uncommitted versions
    /// are refused, and keep no locks.
    pub(crate) fn log_failed(&mut self, why: &str) {
        let Desk { txn, peers, .. } = self.desk();
        txn.logged.clear();
        txn.unsynced.clear();
        txn.outcomes.clear();
        txn.held_back.clear();
        let mut actions = Vec::new();
        for (_, tx, _) in std::mem::take(&mut txn.looked) {
            let refused = Execution::Refused(Refusal::Failed(why.as_bytes().into()));
            peers.shared.parts.with(|parts| parts.executed(tx, refused, &mut actions));
        }
        self.act(actions);
    }

    /// Tells the participant which records are committed.
    pub(super) fn look_at_log(&mut self, now: BootMs) {
        let Desk { txn, peers, engine, log, .. } = self.desk();
        if !txn.awaits_log() {
            return;
        }
        let is_committed = |seen: &keyspace::Horizon| seen.versions().iter().all(|seen| engine.is_committed(*seen));
        let mut committed: Vec<_> = txn.logged.extract_if(.., |(seen, ..)| is_committed(seen)).collect();
        // Without a log a record counts as soon as it is left: nothing would outlive a crash (rule T11).
        let is_synced = |(seen, ..): &mut Logged| log.is_none_or(|log| log.is_synced(seen));
        committed.extend(txn.unsynced.extract_if(.., is_synced));
        if let Some(durable) = log {
            // If replies wait for the disk, all of these are synced already. Otherwise one sync serves all records that
            // were left during the sync before.
            let unsynced = txn.unsynced.len();
            let early = |(seen, _, kind): &mut Logged| *kind == RecordKind::Prepare && !durable.is_synced(seen);
            txn.unsynced.extend(committed.extract_if(.., early));
            if let new @ [_, ..] = &txn.unsynced[unsynced..] {
                durable.sync(new.iter().flat_map(|(seen, ..)| seen.versions().iter().copied()));
            }
        }
        committed.extend(std::iter::from_fn(|| txn.outcomes.pop_front_if(is_synced)));
        if let Some(durable) = log.filter(|_| !txn.outcomes.is_empty())
            && txn.asked_to_sync + SYNC_MS <= now
        {
            txn.asked_to_sync = now;
            durable.sync(txn.outcomes.iter().flat_map(|(seen, ..)| seen.versions().iter().copied()));
        }
        let held_back: Vec<_> = txn.held_back.extract_if(.., |(seen, _)| is_committed(seen)).collect();
        let looked: Vec<_> = txn.looked.extract_if(.., |(seen, ..)| is_committed(seen)).collect();
        let mut actions: Vec<_> = held_back.into_iter().flat_map(|(_, actions)| actions).collect();
        for (_, tx, looked) in looked {
            peers.shared.parts.with(|parts| match looked {
                Looked::Found(found) => parts.fetched(now, tx, found, &mut actions),
                Looked::Read(read, undone) => {
                    engine.tell(undone);
                    parts.executed(tx, read, &mut actions);
                }
            });
        }
        for (_, tx, kind) in committed {
            peers.shared.parts.with(|parts| parts.committed(now, tx, kind, &mut actions));
        }
        if let Some(why) = log.filter(|durable| durable.stall.is_on()).and_then(Durable::refusal) {
            let why = Refusal::Failed(peers.signed(why).into_bytes().into());
            refuse_what_looked((txn, peers), &why, &mut actions);
        }
        self.act(actions);
    }

    /// The disk of the log hangs. Attempts with a record that waits for it may take any time, and their coordinators
    /// hear so. All others are refused.
    pub(crate) fn tell_stuck(&mut self) {
        let now = self.now();
        self.look_at_log(now);
        let txn = self.txn();
        let logged = txn.logged.iter().chain(&txn.unsynced).filter(|(_, _, kind)| *kind == RecordKind::Prepare);
        for tx in logged.map(|(_, tx, _)| *tx).collect::<Vec<TxnId>>() {
            self.send(txn::Recipient::Coordinator(tx.origin.life.node), txn::Message::Stuck { tx });
        }
    }

    /// A participant's disk hangs, and an attempt of this coordinator waits for it: its client is closed without an
    /// answer.
    pub(super) fn cut_stuck(&mut self, tx: TxnId) {
        let txn = self.txn();
        let is_current = |coordinator: &txn::Coordinator| coordinator.current(tx.sequence) == Some(tx);
        if txn.coordinator.as_ref().is_some_and(is_current) {
            txn.clients_of(tx.sequence).into_iter().for_each(|token| self.port.cut(token));
        }
    }
}

/// Refuses attempts that have only read uncommitted versions: the disk of the log hangs, and they bind no node.
fn refuse_what_looked((txn, peers): (&mut Transactions, &Peers), why: &Refusal, actions: &mut Vec<Action>) {
    for (_, tx, _) in std::mem::take(&mut txn.looked) {
        peers.shared.parts.with(|parts| parts.executed(tx, Execution::Refused(why.clone()), actions));
    }
    for (_, mut refusals) in std::mem::take(&mut txn.held_back) {
        for action in &mut refusals {
            if let Action::Send { message: txn::Message::Refused { why: told, .. }, .. } = action {
                // The former reason depends on uncommitted versions (rule L7).
                *told = why.clone();
            }
        }
        actions.append(&mut refusals);
    }
}
