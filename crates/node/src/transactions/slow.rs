//! Scripts that run on copies of keys for longer than `busy-reply-threshold`: who needs the keys hears -BUSY, as who needs what a script has that runs on the
//! keys themselves.
//!
//! The node that runs such a script says so to the owners of the keys, again and again. They believe it as long as they hear it, and as long as the attempt has
//! said what is there and not heard what to do about it: from then on it is no script any more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use txn::locks::Mode;
use txn::{Lock, Message, NodeId, Participant, TxId};

use super::Parts;
use crate::node::Node;
use crate::scripts::busy_error;
use crate::worker::Worker;
use crate::worker::conn::Conn;

/// Looks without a word of a script after which it is forgotten: it is said again about once in a look, and may get lost.
const LOOKS_MAX: u32 = 6;

/// What all workers of a node know of them. See the module's text. Who looks at the participant as well locks this first.
#[derive(Default)]
pub(crate) struct SlowScripts {
    known: Mutex<BTreeMap<TxId, Slow>>,
    count: AtomicUsize,
}

struct Slow {
    function: bool,
    /// Looks since it was last said.
    looks: u32,
}

impl SlowScripts {
    fn known(&self) -> MutexGuard<'_, BTreeMap<TxId, Slow>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether that is new.
    fn hear(&self, tx: TxId, function: bool) -> bool {
        let mut known = self.known();
        let is_new = known.insert(tx, Slow { function, looks: 0 }).is_none();
        self.count.store(known.len(), Relaxed);
        is_new
    }

    /// Forgets those that have ended, or of which nothing is heard.
    fn look(&self, parts: &Parts) {
        let mut known = self.known();
        known.values_mut().for_each(|slow| slow.looks += 1);
        parts.with(|parts| {
            known.retain(|tx, slow| slow.looks <= LOOKS_MAX && parts.locks_of_fetched(*tx).is_some());
        });
        self.count.store(known.len(), Relaxed);
    }

    /// One of whose locks `stands_in_the_way` says so; what those are told who wait for it.
    fn find(&self, parts: &Parts, stands_in_the_way: impl Fn(TxId, &[Lock]) -> bool) -> Option<Vec<u8>> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let known = self.known();
        let in_the_way = |parts: &mut Participant| {
            let mut known = known.iter();
            known.find(|(tx, _)| {
                let lists = parts.locks_of_fetched(**tx);
                lists.is_some_and(|mut lists| lists.any(|locks| stands_in_the_way(**tx, locks)))
            })
        };
        let (_, slow) = parts.with(in_the_way)??;
        Some(busy_error(slow.function).into())
    }
}

/// Whether who has these locks, in order, is in the way of who wants this.
fn conflicts(locks: &[Lock], (db, key, mode): (u16, &[u8], Mode)) -> bool {
    let at = locks.binary_search_by(|lock| lock.place().cmp(&(db, key)));
    at.is_ok_and(|at| locks[at].mode.conflicts(mode))
}

impl Node {
    /// A script takes long on copies of keys of this node.
    pub(super) fn hear_of_slow_script(&self, (tx, function): (TxId, bool), parts: &Parts) {
        let is_open = parts.with(|parts| parts.locks_of_fetched(tx).is_some()).unwrap_or_default();
        if is_open && self.slow_scripts.hear(tx, function) {
            self.doubts.have_changed();
        }
    }
}

impl Worker {
    /// Tells the owners of its keys of a script, or a function, that takes long.
    pub(super) fn tell_of_slow_script(&mut self, which: (u64, u32), function: bool, owners: Vec<NodeId>) {
        let coordinator = self.peers.as_deref().and_then(|peers| peers.tx.coordinator.as_ref());
        let current = coordinator.and_then(|coordinator| coordinator.current(which.0));
        let Some(tx) = current.filter(|tx| tx.attempt == which.1) else { return };
        owners.into_iter().for_each(|owner| self.tx_send(owner, Message::Slow { tx, function }));
    }

    /// Looks which of them are over.
    pub(super) fn look_at_slow_scripts(&self) {
        let Some(peers) = self.peers.as_deref() else { return };
        self.node.slow_scripts.look(&peers.shared.parts);
    }

    /// Why the command of a connection that waits for locks is not executed, if a script has them for too long.
    pub(crate) fn slow_script_before(&self, conn: &Conn) -> Option<Vec<u8>> {
        let everything = self.engine.awaits_quiet(conn.token);
        let parts = &self.peers.as_deref()?.shared.parts;
        let claims = |locks: &[Lock]| self.engine.claimed(conn.token).any(|wanted| conflicts(locks, wanted));
        self.node.slow_scripts.find(parts, |_, locks| everything || claims(locks))
    }

    /// As before, of an attempt that does not get its locks. An earlier attempt of the same transaction is about to give its own back.
    pub(super) fn slow_script_before_part(&self, tx: TxId, wanted: &[Lock]) -> Option<Vec<u8>> {
        let parts = &self.peers.as_deref()?.shared.parts;
        let is_other = |other: TxId| (other.origin, other.sequence) != (tx.origin, tx.sequence);
        let conflicts = |locks: &[Lock]| wanted.iter().any(|lock| conflicts(locks, (lock.db, &lock.key, lock.mode)));
        self.node.slow_scripts.find(parts, |other, locks| is_other(other) && conflicts(locks))
    }
}
