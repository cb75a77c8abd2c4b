//! Refusals of commands and parts that wait for locks which may stay taken for long. A transaction has these locks that
//! waits for a node that does not answer (`doubts.rs`), or for a slow script (`slow.rs`).

use txn::{Lock, Message, ParticipantId, Recipient, Refusal, TxnId};

use super::port::{Desk, Port, Transacting};
use super::slow::conflicts;
use crate::figures::stats::add;
use crate::worker::conn::Conn;
use crate::worker::token::Token;

impl<P: Port> Transacting<'_, P> {
    /// Why the command of a connection that waits for locks is not executed, if that may last.
    pub(crate) fn refusal_of_wait(&mut self, conn: &Conn) -> Option<Vec<u8>> {
        self.doubt(conn).or_else(|| self.slow_script_before(conn))
    }

    /// Why it is not, as a transaction in doubt has the locks.
    fn doubt(&mut self, conn: &Conn) -> Option<Vec<u8>> {
        let Desk { peers, engine, node, .. } = self.desk();
        let doubts = &node.doubts;
        let everything = || engine.awaits_quiet(conn.token).then(|| doubts.about_any()).flatten();
        let cause = doubts.about(engine.claimed(conn.token)).or_else(everything)?;
        let text = cause.text(peers.is_cluster().then_some(&*peers.map));
        add(&self.stats().refused_in_doubt, 1);
        Some(text)
    }

    /// Why it is not, as a script has the locks for too long.
    fn slow_script_before(&mut self, conn: &Conn) -> Option<Vec<u8>> {
        let Desk { peers, engine, node, .. } = self.desk();
        let everything = engine.awaits_quiet(conn.token);
        let claims = |locks: &[Lock]| engine.claimed(conn.token).any(|wanted| conflicts(locks, wanted));
        node.slow_scripts.find(&peers.shared.parts, |_, locks| everything || claims(locks))
    }

    /// A part of a transaction does not get its locks. Returns true if it is refused, as that may last.
    pub(super) fn is_refused_in_doubt(&mut self, tx: TxnId, locks: &[Lock]) -> bool {
        let Desk { peers, node, .. } = self.desk();
        let keys = locks.iter().map(|lock| (lock.db, &*lock.key, lock.mode));
        let doubt = node.doubts.about(keys).map(|cause| cause.text(Some(&peers.map)));
        let is_doubt = doubt.is_some();
        // An earlier attempt of the same transaction is about to give its own locks back.
        let is_other = |other: TxnId| (other.origin, other.sequence) != (tx.origin, tx.sequence);
        let conflicts = |has: &[Lock]| locks.iter().any(|lock| conflicts(has, (lock.db, &lock.key, lock.mode)));
        let parts = &peers.shared.parts;
        let slow = || node.slow_scripts.find(parts, |other, locks| is_other(other) && conflicts(locks));
        let Some(text) = doubt.or_else(slow) else { return false };
        let (mut actions, why) = (Vec::new(), Refusal::Failed(text.into()));
        // A task that is over is not refused: the code that gave it up gives its claims back, and wakes it.
        let is_refused = parts.with(|parts| parts.refuse_queued(tx, why, &mut actions)) == Some(true);
        add(&self.stats().refused_in_doubt, u64::from(is_refused && is_doubt));
        self.act(actions);
        is_refused
    }

    /// Looks at the transactions in doubt. If that brings news, the connections that wait for them look again.
    pub(crate) fn look_at_doubts(&mut self) {
        let timeout = self.settings().cluster_lock_timeout;
        let Desk { txn, peers, node, log, .. } = self.desk();
        let doubts = &node.doubts;
        if doubts.may_exist(&node.engine.transactions) && doubts.is_due(node.clock.boot_ns().ms()) {
            let cluster = peers.is_cluster().then(|| (&peers.shared.parts, &*peers.map));
            if let Some((parts, _)) = cluster {
                node.slow_scripts.look(parts);
            }
            let hangs = log.is_some_and(|log| log.stall.is_on());
            if doubts.look(cluster, timeout, hangs) && cluster.is_none() {
                // Nothing else would have the other workers look.
                node.look_all();
            }
        }
        let changes = doubts.changes();
        if std::mem::replace(&mut txn.doubts_seen, changes) != changes {
            let waiting: Vec<Token> = txn.tasks.keys().copied().collect();
            waiting.into_iter().for_each(|token| {
                txn.unpark(token);
            });
            self.port.resume_from_latches();
        }
    }

    /// Tells the owners of its keys of a script, or a function, that takes long.
    pub(super) fn tell_of_slow_script(&mut self, which: (u64, u32), function: bool, owners: Vec<ParticipantId>) {
        let Some(tx) = self.current(which) else { return };
        owners.into_iter().for_each(|owner| self.send(Recipient::Participant(owner), Message::Slow { tx, function }));
    }
}
