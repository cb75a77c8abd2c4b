//! Identities: nodes, participants and their lives, attempts of transactions, and the age of a transaction.
//!
//! A coordinator runs at a *node*, and ends with the node's process. A *participant* is a shard, whichever node owns it,
//! and its life is a term. Whoever has the shard's log in a later term goes on with what the terms before have said.

/// A node's number in the cluster's metadata, never used for another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct NodeId(pub u64);

/// One life of a node: from a start of its process to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Life {
    /// Which node.
    pub node: NodeId,
    /// Its starts, counted durably: rises with each.
    pub incarnation: u64,
}

/// The name of an owner of keys, as a participant of transactions. Never used for another one.
///
/// Shards have names from 2^32 on. Lower ones are numbers of nodes: before shards were participants, a node was one, and
/// logs may still have such names ([`crate::Heirs`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct ParticipantId(pub u64);

/// The name of shard 0, which there is not.
const SHARDS: u64 = 1 << 32;

impl ParticipantId {
    /// The participant that a shard is.
    #[must_use]
    pub const fn of_shard(number: u32) -> Self {
        Self(SHARDS + number as u64)
    }

    /// The participant that a node was.
    #[must_use]
    pub const fn of(node: NodeId) -> Self {
        Self(node.0)
    }

    /// The number of the shard, if it is one.
    #[must_use]
    pub fn shard(self) -> Option<u32> {
        self.0.checked_sub(SHARDS).and_then(|number| u32::try_from(number).ok())
    }

    /// The number of the node, if it was one.
    #[must_use]
    pub fn node(self) -> Option<u32> {
        u32::try_from(self.0).ok()
    }
}

/// A participant in one life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Member {
    /// Which participant.
    pub id: ParticipantId,
    /// The shard's term. Of a node: its starts. A term of a shard is above all starts of the nodes that have owned it.
    pub incarnation: u64,
}

impl Member {
    /// The participant that a node was, in the same life.
    #[must_use]
    pub fn of(life: Life) -> Self {
        Self { id: ParticipantId::of(life.node), incarnation: life.incarnation }
    }
}

/// The node that a message comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Sender {
    /// The node, in its present life.
    pub life: Life,
    /// The participant that is there; none: it owns no keys, as far as the receiver knows.
    pub participant: Option<ParticipantId>,
}

impl From<Life> for Sender {
    /// A node that is a participant itself.
    fn from(life: Life) -> Self {
        Self { life, participant: Some(ParticipantId::of(life.node)) }
    }
}

/// Where a participant's message goes, in whatever life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Recipient {
    /// To a coordinator at this node; the message names it.
    Coordinator(NodeId),
    /// To another participant.
    Participant(ParticipantId),
}

/// A coordinator: one of a node's (each worker may be one), in one life of the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Origin {
    /// The node, in which life.
    pub life: Life,
    /// Which of its coordinators.
    pub lane: u16,
}

/// One attempt of a transaction (rule T1). A refused transaction is tried again under its sequence, as the next
/// attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TxnId {
    /// The coordinator.
    pub origin: Origin,
    /// The coordinator's transactions, counted from 1.
    pub sequence: u64,
    /// Attempts of the transaction, counted from 1.
    pub attempt: u32,
}

impl std::fmt::Display for TxnId {
    /// The node, its life, the lane, the transaction, the attempt.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { origin: Origin { life, lane }, sequence, attempt } = self;
        write!(f, "{}.{}.{lane}.{sequence}.{attempt}", life.node.0, life.incarnation)
    }
}

/// A time of a node's hybrid clock, which is above all that the node has given or heard of (rule T7). It has the scale
/// of versions and is no moment of any other clock: an age taken from one of those would let the younger transaction
/// wait for the older one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct HybridTime(pub u64);

impl HybridTime {
    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// How old a transaction is: the lower, the older. All its attempts have the same (rule T1), so that it grows old by
/// being refused.
///
/// No two transactions have the same: a coordinator gives no time twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stamp {
    /// When it began, by the hybrid clock of its coordinator's node (rule T7).
    pub time: HybridTime,
    /// Of the coordinator.
    pub node: NodeId,
    /// Of the coordinator.
    pub lane: u16,
}
