//! The requests of commands to the keeper of the cluster's metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ::membership::control::{ChangingShard, HeardStandby, NotConfigured, Status};
use ::membership::meta::{Command, Setting};
use ::membership::{NodeId, NodeNumber, ShardId};

/// Called with the outcome of a change of the metadata; the error is in words.
pub type Changed = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Called with the outcome of a change of the libraries of functions. False: other nodes have changed them, and this
/// node has their version. The error is in words.
pub type LibrariesChanged = Box<dyn FnOnce(Result<bool, String>) + Send>;

/// Called with the outcome of a change of settings of the cluster.
pub type SettingsChanged = Box<dyn FnOnce(Result<(), NotConfigured>) + Send>;

/// Called with the outcome of a change of the settings of this node's shard.
pub type ShardChanged = Box<dyn FnOnce(Result<ChangingShard, NotConfigured>) + Send>;

/// The keeper of the cluster's metadata. No caller waits in it: answers come from a thread of its own.
pub trait Administration: Send + Sync {
    /// Nodes that hold no lease, as the metadata's leader has said last.
    fn silent(&self) -> Arc<BTreeSet<NodeId>>;

    /// Those, and nodes that may be down for another reason.
    fn suspects(&self) -> Arc<BTreeSet<NodeId>> {
        self.silent()
    }

    /// The standbys of this node's shard that were heard lately.
    fn standbys(&self) -> Vec<HeardStandby> {
        Vec::new()
    }

    /// Changes the metadata. After an error they may or may not be changed.
    fn change(&self, command: Command, then: Changed);

    /// Replaces the libraries of functions of version `known` by others, as FUNCTION DUMP gives them. It is answered
    /// when all nodes that serve have them. After an error they may or may not be changed.
    fn change_libraries(&self, known: u64, payload: Arc<[u8]>, then: LibrariesChanged);

    /// Changes settings of the cluster. It is answered when more than half of the voting nodes have them on their
    /// disks, and this node has taken them.
    fn configure(&self, settings: Vec<Setting>, then: SettingsChanged);

    /// Changes the settings of this node's shard, all of which are named. It is answered when more than half of the
    /// voting nodes have them on their disks. The node puts them into effect while it holds the answer.
    fn set_shard(&self, settings: BTreeMap<String, String>, then: ShardChanged) {
        let _ = settings;
        then(Ok(ChangingShard::default()));
    }

    /// Notes that the node's data hold no transactions of another node any more, also not after a crash.
    fn settled(&self, then: Changed);

    /// Notes that the node has data of this name on its disks from now on: it does not start without them.
    fn has_data(&self, data: [u8; 16], then: Changed);

    /// Asks the owner of a shard to give it to a standby in order. It is answered when the owner has begun, or refuses.
    fn switch_over(&self, shard: ShardId, owner: NodeId, to: NodeNumber, then: Changed) {
        let _ = (shard, owner, to);
        then(Err("no shard changes hands here".to_owned()));
    }

    /// The state of the cluster.
    fn status(&self, then: Box<dyn FnOnce(Status) + Send>);
}
