//! Scripts that run on copies of keys for longer than `busy-reply-threshold`. A client that needs the keys gets -BUSY,
//! as it does for a script that runs on the keys themselves.
//!
//! The node that runs such a script reports it to the owners of the keys again and again. An owner believes the report
//! as long as it is repeated, and only while the attempt has fetched the keys and has not said what to do with them.
//! After that no script is running any more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use txn::locks::Mode;
use txn::{Lock, Participant, TxnId};

use super::parts::Parts;
use crate::scripts::busy_error;

/// Looks without a report of a script after which it is forgotten. A report comes about once in a look, and may get
/// lost.
const LOOKS_MAX: u32 = 6;

/// The knowledge about slow scripts that a node's workers share. Code that also uses the participant locks this first.
#[derive(Default)]
pub(crate) struct SlowScripts {
    known: Mutex<BTreeMap<TxnId, Slow>>,
    count: AtomicUsize,
}

struct Slow {
    function: bool,
    /// Looks since the last report.
    looks: u32,
}

impl SlowScripts {
    fn known(&self) -> MutexGuard<'_, BTreeMap<TxnId, Slow>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A script takes long on copies of keys of this node. Returns true if that is new.
    pub(super) fn hear(&self, (tx, function): (TxnId, bool), parts: &Parts) -> bool {
        if parts.with(|parts| parts.locks_of_fetched(tx).is_some()) != Some(true) {
            return false;
        }
        let mut known = self.known();
        let is_new = known.insert(tx, Slow { function, looks: 0 }).is_none();
        self.count.store(known.len(), Relaxed);
        is_new
    }

    /// Forgets those that have ended, or of which nothing is heard.
    pub(super) fn look(&self, parts: &Parts) {
        let mut known = self.known();
        known.values_mut().for_each(|slow| slow.looks += 1);
        parts.with(|parts| {
            known.retain(|tx, slow| slow.looks <= LOOKS_MAX && parts.locks_of_fetched(*tx).is_some());
        });
        self.count.store(known.len(), Relaxed);
    }

    /// A slow script one of whose locks `stands_in_the_way`, and what clients get that wait for it.
    pub(super) fn find(&self, parts: &Parts, stands_in_the_way: impl Fn(TxnId, &[Lock]) -> bool) -> Option<Vec<u8>> {
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

/// True if the holder of these locks, in order, is in the way of a command that wants this one.
pub(super) fn conflicts(locks: &[Lock], (db, key, mode): (u16, &[u8], Mode)) -> bool {
    let at = locks.binary_search_by(|lock| lock.place().cmp(&(db, key)));
    at.is_ok_and(|at| locks[at].mode.conflicts(mode))
}
