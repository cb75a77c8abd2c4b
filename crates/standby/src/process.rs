//! Processes: one life of a node each.

/// The number of a node in the cluster's metadata, never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct NodeNumber(pub u32);

/// One life of a node. A node that starts again is another process, and nothing that the earlier one said binds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Process {
    /// The node.
    pub node: NodeNumber,
    /// How often it has started. A folder counts that durably.
    pub life: u64,
}

impl Process {
    /// True if this process proves that the other one has ended: a node has one life at a time.
    #[must_use]
    pub fn has_replaced(self, other: Self) -> bool {
        self.node == other.node && self.life > other.life
    }
}
