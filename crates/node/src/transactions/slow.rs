//! Scripts that run on copies of keys for longer than `busy-reply-threshold`: who needs the keys hears -BUSY, as who
//! needs what a script has that runs on the keys themselves.
//!
//! The node that runs such a script says so to the owners of the keys, again and again. They believe it as long as they
//! hear it, and as long as the attempt has said what is there and not heard what to do about it: from then on it is no
//! script any more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use txn::locks::Mode;
use txn::{Lock, Participant, TxnId};

use super::parts::Parts;
use crate::scripts::busy_error;

/// Looks without a word of a script after which it is forgotten: it is said again about once in a look, and may get
/// lost.
const LOOKS_MAX: u32 = 6;

/// What all workers of a node know of slow scripts. Code that looks at the participant as well locks this first.
#[derive(Default)]
pub(crate) struct SlowScripts {
    known: Mutex<BTreeMap<TxnId, Slow>>,
    count: AtomicUsize,
}

struct Slow {
    function: bool,
    /// Looks since it was last said.
    looks: u32,
}

impl SlowScripts {
    fn known(&self) -> MutexGuard<'_, BTreeMap<TxnId, Slow>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A script takes long on copies of keys of this node. Whether that is new.
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

    /// One of whose locks `stands_in_the_way` says so; what those are told who wait for it.
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

/// Whether who has these locks, in order, is in the way of who wants this.
pub(super) fn conflicts(locks: &[Lock], (db, key, mode): (u16, &[u8], Mode)) -> bool {
    let at = locks.binary_search_by(|lock| lock.place().cmp(&(db, key)));
    at.is_ok_and(|at| locks[at].mode.conflicts(mode))
}
