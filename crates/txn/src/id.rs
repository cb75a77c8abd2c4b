//! Who is who: nodes and their lives, attempts of transactions, and how old a transaction is.

/// A node's number in the cluster's metadata, never used for another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub u64);

/// One life of a node: from a start of its process to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Member {
    /// Which node.
    pub node: NodeId,
    /// Its starts, counted durably: rises with each.
    pub incarnation: u64,
}

/// Who coordinates: one of a node's coordinators (each worker may be one), in one life of the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Origin {
    /// Which node, in which life.
    pub member: Member,
    /// Which of its coordinators.
    pub lane: u16,
}

/// One attempt of a transaction (rule T1). A transaction that is refused is tried again under its sequence, with the next attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TxnId {
    /// Who coordinates it.
    pub origin: Origin,
    /// The coordinator's transactions, counted from 1.
    pub sequence: u64,
    /// Attempts of the transaction, counted from 1.
    pub attempt: u32,
}

/// How old a transaction is: the lower, the older. All its attempts have the same (rule T1), so that it grows old by being refused.
///
/// No two transactions have the same: a coordinator gives no time twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stamp {
    /// When it began, by the hybrid clock of its coordinator's node (rule T7).
    pub time: u64,
    /// Of the coordinator.
    pub node: NodeId,
    /// Of the coordinator.
    pub lane: u16,
}
