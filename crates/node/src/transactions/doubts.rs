//! Transactions that are prepared here and whose outcome depends on a node that does not answer: it has stopped, or is
//! out of reach.
//!
//! Only the outcome releases their locks (rule T4), and until then the contents of their keys are unknown. A client
//! that needs these keys waits for `cluster-lock-timeout`, and then gets the reason why its command was not executed.
//! From then on every client gets that at once, until the node answers.
//!
//! Silence is counted in looks, not in time: a machine that stands still as a whole has not looked.
//!
//! Committed transactions that cannot be applied here, because a key is damaged or cannot be read, are treated alike:
//! they keep their locks until that is mended. That also holds at a server without a cluster that has inherited them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::membership::Map;
use clocks::BootMs;
use engine::NotInstalled;
use txn::locks::Mode;
use txn::{Lock, Participant, ParticipantId, Prepared, TxnId};

use super::parts::Parts;

/// Milliseconds between two looks.
pub(super) const LOOK_MS: u64 = 500;
/// A node has been asked in the first two, and may take as long to answer.
const LOOKS_MIN: u64 = 4;

const DAMAGED: &[u8] =
    b"CLUSTERDOWN The command was not executed: its keys are locked by a committed transaction that cannot be applied, because a key is damaged";

const UNREADABLE: &[u8] =
    b"CLUSTERDOWN The command was not executed: its keys are locked by a committed transaction that cannot be applied, because a key cannot be read from the store";

const HANGS: &[u8] =
    b"CLUSTERDOWN The command was not executed: its keys are locked by a transaction that waits for the log, whose disk does not answer, see log-stall-timeout";

/// Keys that are locked: database and name.
type Key = (u16, Box<[u8]>);

/// Why a transaction keeps its locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// This participant knows more and does not answer.
    Silent(ParticipantId),
    /// A key that it changes is damaged.
    Damaged,
    /// A key that it changes cannot be read.
    Unreadable,
    /// It waits for this node's log, whose disk hangs.
    Hangs,
}

impl Cause {
    /// The error for a client whose command needs the locks.
    pub(super) fn text(self, map: Option<&Map>) -> Vec<u8> {
        let node = match self {
            Cause::Silent(node) => node,
            Cause::Damaged => return DAMAGED.into(),
            Cause::Unreadable => return UNREADABLE.into(),
            Cause::Hangs => return HANGS.into(),
        };
        let place = map.map_or_else(|| NOWHERE.to_owned(), |map| place(map, node));
        format!("CLUSTERDOWN The command was not executed: its keys are locked by a transaction that waits for the node at {place}, which does not answer")
            .into_bytes()
    }
}

/// The knowledge about doubts that a node's workers share. See the module's text.
#[derive(Default)]
pub(crate) struct Doubts {
    /// When to look next: a [`BootMs`].
    due: AtomicU64,
    /// Counts looks that have found something else than the one before.
    changes: AtomicU64,
    /// Attempts that have been in doubt for too long.
    stuck: AtomicUsize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Looks since a participant has answered that knows more of an attempt that is prepared.
    silent: BTreeMap<TxnId, BTreeMap<ParticipantId, u64>>,
    /// Attempts that cannot be done.
    hindered: BTreeMap<TxnId, (Arc<Prepared>, Cause)>,
    /// Those, and attempts that have been in doubt for too long.
    stuck: BTreeMap<TxnId, Cause>,
    /// The keys that these transactions have locked.
    locked: BTreeMap<Key, (Mode, Cause)>,
}

/// The transactions that wait for a node that does not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Doubt {
    /// How many transactions.
    pub(crate) transactions: usize,
    /// How many keys they have locked at this node.
    pub(crate) keys: usize,
}

impl Known {
    /// Looks at the transactions in doubt. `most`: looks after which a node counts as silent; `hangs`: the disk of the
    /// log hangs. Returns whether the result differs from that of the last look.
    fn look(&mut self, parts: Option<&Participant>, most: u64, hangs: bool) -> bool {
        let mut silent = std::mem::take(&mut self.silent);
        let (mut stuck, mut locked) = (BTreeMap::new(), BTreeMap::new());
        let mut stick = |prepared: &Prepared, cause| {
            stuck.insert(prepared.tx, cause);
            for Lock { db, key, mode } in &*prepared.locks {
                let (known, _) = locked.entry((*db, key.clone())).or_insert((*mode, cause));
                *known = (*known).max(*mode);
            }
        };
        self.hindered.values().for_each(|(prepared, cause)| stick(prepared, *cause));
        let appending = parts.filter(|_| hangs).into_iter().flat_map(Participant::appending);
        appending.for_each(|prepared| stick(prepared, Cause::Hangs));
        for (prepared, others) in parts.into_iter().flat_map(Participant::waiting) {
            let before = silent.remove(&prepared.tx).unwrap_or_default();
            let looks = |node| (node, before.get(&node).map_or(0, |looks| looks + 1));
            let looks: BTreeMap<ParticipantId, u64> = others.into_iter().map(looks).collect();
            if let Some((node, _)) = looks.iter().find(|(_, looks)| **looks >= most) {
                stick(prepared, Cause::Silent(*node));
            }
            self.silent.insert(prepared.tx, looks);
        }
        self.locked = locked;
        std::mem::replace(&mut self.stuck, stuck) != self.stuck
    }

    fn of_nodes(&self) -> BTreeMap<ParticipantId, Doubt> {
        let mut of_nodes: BTreeMap<ParticipantId, Doubt> = BTreeMap::new();
        let mut of = |cause: &Cause, (transactions, keys)| {
            let Cause::Silent(node) = cause else { return };
            let doubt = of_nodes.entry(*node).or_insert(Doubt { transactions: 0, keys: 0 });
            (doubt.transactions, doubt.keys) = (doubt.transactions + transactions, doubt.keys + keys);
        };
        self.stuck.values().for_each(|cause| of(cause, (1, 0)));
        self.locked.values().for_each(|(_, cause)| of(cause, (0, 1)));
        of_nodes
    }
}

impl Doubts {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if anything may be in doubt.
    #[inline]
    pub(crate) fn may_exist(&self, transactions: &engine::Transactions) -> bool {
        transactions.any() || self.count() > 0
    }

    /// True if it is time to look, and this worker is the one that does. One worker looks for all: the number of looks
    /// counts.
    pub(super) fn is_due(&self, now: BootMs) -> bool {
        let due = self.due();
        due <= now && self.due.compare_exchange(due.0, (now + LOOK_MS).0, Relaxed, Relaxed).is_ok()
    }

    /// Looks at the transactions in doubt, and logs for which nodes they wait. `timeout`: `cluster-lock-timeout`;
    /// `hangs`: the disk of the log hangs. Returns whether the result differs from that of the last look.
    pub(super) fn look(&self, cluster: Option<(&Parts, &Map)>, timeout: u64, hangs: bool) -> bool {
        let most = if timeout == 0 { u64::MAX } else { timeout.div_ceil(LOOK_MS).max(LOOKS_MIN) };
        let mut known = self.known();
        let before: BTreeSet<ParticipantId> = known.of_nodes().into_keys().collect();
        let looked = cluster.and_then(|(parts, _)| parts.with(|parts| known.look(Some(parts), most, hangs)));
        let is_new = looked.unwrap_or_else(|| known.look(None, most, hangs));
        if is_new {
            self.stuck.store(known.stuck.len(), Relaxed);
            self.have_changed();
            if let Some((_, map)) = cluster {
                tell(map, &before, &known.of_nodes());
            }
        }
        is_new
    }

    /// Counts looks that have found something else than the one before.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Connections that wait for locks must check again whether that may last.
    pub(super) fn have_changed(&self) {
        self.changes.fetch_add(1, Relaxed);
    }

    /// A participant has answered a question about an attempt, whatever the answer.
    pub(super) fn answered(&self, tx: TxnId, id: ParticipantId) {
        if let Some(looks) = self.known().silent.get_mut(&tx).and_then(|silent| silent.get_mut(&id)) {
            *looks = 0;
        }
    }

    /// A prepared change cannot be applied.
    pub(crate) fn is_hindered(&self, prepared: &Arc<Prepared>, why: &NotInstalled) {
        let cause = match why {
            NotInstalled::Damaged(..) => Cause::Damaged,
            NotInstalled::Unreadable => Cause::Unreadable,
        };
        self.known().hindered.insert(prepared.tx, (Arc::clone(prepared), cause));
    }

    /// The change has been applied after all.
    pub(crate) fn is_done(&self, tx: TxnId) {
        self.known().hindered.remove(&tx);
    }

    /// The cause for which a command that needs these keys waits.
    pub(super) fn about<'a>(&self, mut keys: impl Iterator<Item = (u16, &'a [u8], Mode)>) -> Option<Cause> {
        if self.stuck.load(Relaxed) == 0 {
            return None;
        }
        let known = self.known();
        keys.find_map(|(db, key, mode)| {
            let (locked, cause) = known.locked.get(&(db, Box::from(key)))?;
            locked.conflicts(mode).then_some(*cause)
        })
    }

    /// The cause for which a command that works on all keys waits.
    pub(super) fn about_any(&self) -> Option<Cause> {
        if self.stuck.load(Relaxed) == 0 { None } else { self.known().stuck.values().next().copied() }
    }

    /// When to look at the transactions in doubt next.
    pub(crate) fn due(&self) -> BootMs {
        BootMs(self.due.load(Relaxed))
    }

    /// How many transactions wait here for nodes that do not answer, or cannot be done.
    pub(crate) fn count(&self) -> usize {
        self.stuck.load(Relaxed)
    }

    /// The transactions that wait here for nodes that do not answer, by the nodes' addresses in the map.
    pub(crate) fn by_place(&self, map: &Map) -> Vec<(String, Doubt)> {
        if self.count() == 0 {
            return Vec::new();
        }
        self.known().of_nodes().into_iter().map(|(node, doubt)| (place(map, node), doubt)).collect()
    }
}

/// Of a node that is not known any more.
const NOWHERE: &str = "an unknown place";

/// Where a participant is.
fn place(map: &Map, id: ParticipantId) -> String {
    let known = super::names::place_of(id, map).map(|index| map.node(index));
    known.map_or_else(|| NOWHERE.to_owned(), |node| format!("{}:{}", node.host, node.port))
}

/// Logs for whom is waited now, and for whom no more.
fn tell(map: &::membership::Map, before: &BTreeSet<ParticipantId>, now: &BTreeMap<ParticipantId, Doubt>) {
    for (node, doubt) in now.iter().filter(|(node, _)| !before.contains(node)) {
        tracing::warn!(
            cause = node.0,
            "transactions over nodes ({}) wait for the node at {}, which does not answer: {} keys here stay locked until it does, and commands that need them are refused",
            doubt.transactions,
            place(map, *node),
            doubt.keys
        );
    }
    for node in before.iter().filter(|node| !now.contains_key(node)) {
        tracing::info!(
            cause = node.0,
            "no transaction over nodes waits for the node at {} any longer",
            place(map, *node)
        );
    }
}
