//! A machine's place in a cluster: what the control thread of a server keeps in its folder, and what it hands to the
//! workers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use membership::{BootNs, Map, NodeId};
use node::cluster::{Cluster, Lease};

/// Until when a node may serve, in nanoseconds of its clock.
struct Until(AtomicU64);

/// See the module's text.
pub struct Seat {
    /// The node's name.
    pub id: NodeId,
    lives: AtomicU64,
    /// The state it was last told, which is also in its folder.
    map: Mutex<Arc<Map>>,
    lease: Arc<Until>,
    /// A planted mistake: the node serves whatever its lease says (rule O1).
    ignores_lease: bool,
}

struct Given(Arc<Until>);

impl Lease for Given {
    fn until(&self) -> BootNs {
        BootNs(self.0.0.load(Relaxed))
    }

    fn reason(&self) -> String {
        "this node has no lease: nobody has renewed it".into()
    }
}

impl Seat {
    /// Of a node that has not started yet.
    pub fn new(id: NodeId, map: Arc<Map>, ignores_lease: bool) -> Self {
        let lease = Arc::new(Until(AtomicU64::new(0)));
        Self { id, lives: AtomicU64::new(0), map: Mutex::new(map), lease, ignores_lease }
    }

    /// How often the node has started.
    pub fn life(&self) -> u64 {
        self.lives.load(Relaxed)
    }

    /// The node starts: it has no lease yet.
    pub fn begin_life(&self, now: BootNs) -> Arc<Cluster> {
        let life = self.lives.fetch_add(1, Relaxed) + 1;
        self.lease.0.store(if self.ignores_lease { u64::MAX } else { 0 }, Relaxed);
        Cluster::new(self.id, life, now, self.map(), Box::new(Given(self.lease.clone())))
    }

    /// The node's lease lasts until then, at least.
    pub fn extend(&self, until: BootNs) {
        self.lease.0.fetch_max(until.0, Relaxed);
    }

    /// Until when the node may serve.
    pub fn until(&self) -> BootNs {
        BootNs(self.lease.0.load(Relaxed))
    }

    /// The node's map of the cluster.
    pub fn map(&self) -> Arc<Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The node hears of this.
    pub fn set_map(&self, map: Arc<Map>) {
        *self.map.lock().unwrap_or_else(PoisonError::into_inner) = map;
    }
}
