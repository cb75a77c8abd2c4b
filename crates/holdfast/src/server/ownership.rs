//! The shard of this node, as the metadata have it: whether this process has a term of it, and the ways to its copies.

use std::sync::{Arc, Weak};

use loggroup::{Listener, Port};
use membership::control::Control;
use membership::meta::Shard;
use membership::{AcceptorId, ShardId};

use super::again::Again;
use super::group::{self, Group};
use super::standby;

/// See the module's text.
#[derive(Clone)]
pub struct Ownership {
    control: Arc<Control>,
    again: Arc<Again>,
}

/// See [`Ownership::weak`].
pub struct WeakOwnership {
    control: Weak<Control>,
    again: Arc<Again>,
}

impl WeakOwnership {
    /// None: the server stops.
    pub fn upgrade(&self) -> Option<Ownership> {
        Some(Ownership { control: self.control.upgrade()?, again: Arc::clone(&self.again) })
    }
}

impl Ownership {
    pub(super) fn new(control: &Arc<Control>, again: &Arc<Again>) -> Self {
        Self { control: Arc::clone(control), again: Arc::clone(again) }
    }

    /// Another handle of the same, which does not keep the metadata's thread alive.
    pub fn weak(&self) -> WeakOwnership {
        WeakOwnership { control: Arc::downgrade(&self.control), again: Arc::clone(&self.again) }
    }

    /// The metadata of the cluster.
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// The shard of the node, once the metadata have given this start a term of it (rule G1).
    pub fn shard(&self) -> Option<Shard> {
        group::own_shard(&self.control).inspect(|_| self.again.leads())
    }

    /// The cluster, if the node belongs to one.
    pub fn cluster(&self) -> Option<loggroup::Cluster> {
        self.control.cluster().map(|cluster| cluster.0)
    }

    /// The reason, in words, why this start waits in vain for a term of a shard whose log is in the node's folder: as far
    /// as the node's own life is known to the metadata, another node owns the shard.
    pub fn lost(&self, shard: ShardId) -> Option<String> {
        let (map, me) = (self.control.map(), self.control.id());
        let is_this_life = map.member(me).is_some_and(|node| node.incarnation == self.control.incarnation());
        let of = map.shards().iter().find(|of| of.id == shard).filter(|of| is_this_life && of.owner != me)?;
        map.shards_of(me).next().is_none().then(|| {
            format!(
                "node {} owns shard {} now, and has taken over its log: what is in this node's dir is of an earlier time. Start a node with an empty dir in its place",
                of.owner, shard.0
            )
        })
    }

    /// Ways to the acceptors of the shard at other members.
    pub fn ports(&self, shard: &Shard, listener: &Listener) -> Vec<(AcceptorId, Arc<dyn Port>)> {
        let pending = shard.pending.iter().flatten().filter(|acceptor| !shard.settled.contains(acceptor));
        let all: Vec<_> = shard.settled.iter().chain(pending).copied().collect();
        group::ports(&self.control, &all, listener)
    }

    /// True if this process is to stand by for a shard.
    pub fn stands_by_for(&self, shard: ShardId) -> bool {
        standby::stands_by_for(&self.control, shard)
    }

    /// What happens when the node gets another shard.
    pub fn again(&self) -> &Arc<Again> {
        &self.again
    }

    /// The acceptors of the node's shard, while its log runs.
    pub fn group(&self) -> Group {
        Group::new(&self.control)
    }
}
