//! What commands ask of whoever keeps the cluster's metadata.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::membership::NodeId;
use ::membership::control::{NotConfigured, Status};
use ::membership::meta::{Command, Setting};

/// Hears whether the metadata were changed: if not, why, in words.
pub type Changed = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Hears whether the libraries of functions were changed: false if others have changed them, and this node has what those have made; or why not, in words.
pub type LibrariesChanged = Box<dyn FnOnce(Result<bool, String>) + Send>;

/// Hears whether settings of the cluster were changed.
pub type SettingsChanged = Box<dyn FnOnce(Result<(), NotConfigured>) + Send>;

/// What keeps the cluster's metadata. Nobody waits in it: answers come from a thread of its own.
pub trait Administration: Send + Sync {
    /// Nodes that hold no lease, as the metadata's leader has said last.
    fn silent(&self) -> Arc<BTreeSet<NodeId>>;

    /// Those, and nodes that may be down for another reason.
    fn suspects(&self) -> Arc<BTreeSet<NodeId>> {
        self.silent()
    }

    /// Has the metadata changed. After an error they may or may not have been.
    fn change(&self, command: Command, then: Changed);

    /// Has the libraries of functions of version `known` replaced by others, as FUNCTION DUMP gives them; heard of when all nodes that serve have them. After an
    /// error they may or may not have been.
    fn change_libraries(&self, known: u64, payload: Arc<[u8]>, then: LibrariesChanged);

    /// Has settings of the cluster changed; heard of when more than half of the voting nodes have them on their disks, and
    /// this node has taken them.
    fn configure(&self, settings: Vec<Setting>, then: SettingsChanged);

    /// The node's data say nothing any more of another node's transactions, and would not after a crash: it is kept that what they say is its own.
    fn settled(&self, then: Changed);

    /// The node has data of this name on its disks from now on: that is kept, as it does not start without them.
    fn has_data(&self, data: [u8; 16], then: Changed);

    /// How the cluster is.
    fn status(&self, then: Box<dyn FnOnce(Status) + Send>);
}
