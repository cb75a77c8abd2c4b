//! A node among others: every node serves every key.
//!
//! A command for a slot that another node owns is *forwarded*. It goes over the *link* that this worker has to that
//! node, to a *virtual connection* there. That runs it as any connection would, and its reply comes back over the link.
//! Here the command leaves a hole in the output of its connection (`holes.rs`), which the reply fills. So commands of a
//! pipeline are under way to several nodes at a time, and replies come in order.
//!
//! A link has an *origin*, which forwards, and an *owner*, which executes. All of it is bytes in and bytes out: the
//! drivers see a link as one more connection.

pub(crate) mod admin;
pub(crate) mod agreed;
pub(crate) mod answers;
pub(crate) mod awaited;
pub(crate) mod blocks;
pub(crate) mod copied;
pub(crate) mod copies;
pub(crate) mod copy_reads;
pub(crate) mod elsewhere;
pub(crate) mod frames;
pub(crate) mod gather;
pub(crate) mod gathering;
pub(crate) mod inquiry;
pub(crate) mod kinds;
pub(crate) mod libraries;
pub(crate) mod link;
pub(crate) mod merge;
pub(crate) mod origin;
pub(crate) mod outbound;
pub(crate) mod owner;
pub(crate) mod patience;
pub(crate) mod peers;
pub(crate) mod port;
pub(crate) mod probe;
mod reads_again;
pub(crate) mod remote;
mod rerouted;
mod returned;
pub(crate) mod role;
pub(crate) mod route;
pub(crate) mod settings;
pub(crate) mod smart;
pub(crate) mod spread;
pub(crate) mod standbys;
pub(crate) mod status;
pub(crate) mod texts;
pub(crate) mod tracking;
mod turn;
pub(crate) mod unknown;
pub(crate) mod verdict;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock};

use ::membership::{BootNs, Map, NodeId};

pub use crate::scripts::libraries::Agreed;
pub use admin::{Administration, Changed, LibrariesChanged, SettingsChanged, ShardChanged};
pub use agreed::{join, split, take_agreed};
pub(crate) use answers::{Answers, Asks};
pub(crate) use awaited::Awaited;
pub use copies::place_of_copy;
pub(crate) use libraries::{change_libraries, change_users};
pub use outbound::Dial;
pub(crate) use peers::Peers;
pub(crate) use remote::Remote;
pub(crate) use role::{Inbound, Role};
pub(crate) use settings::check as check_settings;
pub use settings::{change_settings, change_shard};
pub use status::status_text;
pub use verdict::{Question, Verdict};

/// The right of this node to serve its slots.
pub trait Lease: Send + Sync {
    /// The moment until which it holds (rule O1).
    fn until(&self) -> BootNs;

    /// The reason why it no longer holds, in words for people.
    fn reason(&self) -> String;
}

/// The state of the cluster that the workers of a node share.
pub struct Cluster {
    me: NodeId,
    map: RwLock<Arc<Map>>,
    /// Counts changes of the map.
    changes: AtomicU64,
    lease: Box<dyn Lease>,
    admin: OnceLock<Box<dyn Administration>>,
    /// How often this node has started.
    pub(crate) incarnation: u64,
    /// The moment until which it serves nothing after its start, or after it was given a shard: a [`BootNs`].
    rests_until: AtomicU64,
    /// It executes nothing: its shard goes to another node in order (rule S10).
    is_frozen: AtomicBool,
    /// The transactions in its log are of another node's life.
    inherited: AtomicBool,
    pub(crate) parts: crate::transactions::parts::Parts,
}

/// The lease of a server that is no cluster.
struct NoLease;

impl Lease for NoLease {
    fn until(&self) -> BootNs {
        BootNs::default()
    }

    fn reason(&self) -> String {
        String::new()
    }
}

impl Cluster {
    /// The cluster of a server outside of one: it has no nodes and no lease.
    pub(crate) fn none() -> Arc<Cluster> {
        static NONE: LazyLock<Arc<Cluster>> = LazyLock::new(|| {
            let (nobody, map) = (NodeId::default(), Arc::new(Map::empty()));
            Cluster::new(nobody, 0, BootNs::default(), map, Box::new(NoLease))
        });
        NONE.clone()
    }

    /// The node `me`, with this map, in its life `incarnation`. A life's number is higher than that of the life before,
    /// which had ended at `started`.
    pub fn new(me: NodeId, incarnation: u64, started: BootNs, map: Arc<Map>, lease: Box<dyn Lease>) -> Arc<Cluster> {
        let (map, changes, parts) = (RwLock::new(map), AtomicU64::new(0), crate::transactions::parts::Parts::default());
        let (admin, inherited) = (OnceLock::new(), AtomicBool::new(false));
        let rests_until = AtomicU64::new(started.after(crate::transactions::parts::REST_NS).0);
        let is_frozen = AtomicBool::new(false);
        Arc::new(Cluster { me, map, changes, lease, admin, incarnation, rests_until, is_frozen, inherited, parts })
    }

    /// The name of this node.
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// Notes that the transactions in this node's log are of another node's life. The metadata's file says so since the
    /// node's first start. To be called before its workers begin.
    pub fn inherits(&self) {
        self.inherited.store(true, Release);
    }

    /// True if that is still so: until then it takes no part in transactions over nodes.
    pub(crate) fn has_inherited(&self) -> bool {
        self.inherited.load(Acquire)
    }

    /// Notes that it is no longer so, and that the metadata's file says so.
    pub(crate) fn has_settled(&self) {
        self.inherited.store(false, Release);
        // Workers check everything again.
        self.changes.fetch_add(1, Release);
    }

    /// The present map.
    pub fn map(&self) -> Arc<Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the map: workers see it from their next turn on. A map that is older than the present one is not taken,
    /// because maps may come out of order.
    pub fn set_map(&self, map: Arc<Map>) {
        let mut present = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if map.version() < present.version() {
            return;
        }
        *present = map;
        self.changes.fetch_add(1, Release);
    }

    /// The right of this node to serve its slots.
    pub fn lease(&self) -> &dyn Lease {
        &*self.lease
    }

    /// True if this node may serve its slots: it has a lease, and has not just started. Locks of an earlier life for
    /// transactions that only read were not logged, and hold for a while (rule T3). A node that gets slots of a lost
    /// node gets them empty, and later than that.
    pub(crate) fn may_serve(&self, now: BootNs) -> bool {
        BootNs(self.rests_until.load(Relaxed)) <= now && !self.is_frozen.load(Relaxed) && now < self.lease.until()
    }

    /// The node executes no command of a client from its workers' next turns on, or does so again (rule S10). Commands wait
    /// as they do without a lease.
    pub fn freeze(&self, is_frozen: bool) {
        self.is_frozen.store(is_frozen, Release);
    }

    /// When the last answer to a read of a transaction without a record counts no more (rule S7).
    pub fn reads_until(&self) -> clocks::BootMs {
        self.parts.reads_until()
    }

    /// The node has followed the log of a shard, and owns it from now on: it has all of the shard's data, and the locks of
    /// transactions that are prepared. To be called before it takes the map that says so. It serves nothing before
    /// `rests_until` (rule S7).
    pub fn leads(&self, rests_until: BootNs) {
        self.rests_until.fetch_max(rests_until.0, Relaxed);
        self.parts.end();
    }

    /// Sets the keeper of the metadata. Once.
    pub fn set_administration(&self, admin: Box<dyn Administration>) {
        assert!(self.admin.set(admin).is_ok(), "the metadata are kept once");
    }

    /// The keeper of the metadata; none in tests of a node by itself.
    pub fn administration(&self) -> Option<&dyn Administration> {
        self.admin.get().map(|admin| &**admin)
    }

    fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }
}
