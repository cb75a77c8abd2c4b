//! Transactions over nodes: what `txn` decides is said over links, logged, and done to keys.
//!
//! Each worker coordinates what its clients begin; the node's part in what others have begun is one state machine under a lock, which any worker may drive.
//! What that asks for are *tasks*: each takes latches, and waits, as the command of a connection does. Frames of kind *transactions* carry one
//! message each.

mod block;
pub(crate) mod client;
pub(crate) mod coordinator;
mod doubtful;
pub(crate) mod doubts;
pub(crate) mod exec;
mod fetching;
mod found;
mod further;
mod hindrance;
pub(crate) mod inherited;
mod interactive;
mod part;
mod participant;
pub(crate) mod parts;
mod plan;
pub(crate) mod port;
pub(crate) mod slow;
mod split;
pub(crate) mod state;
mod step;
mod task;
mod tasks;
mod waiting;
mod wire;
mod workspace;

use txn::{Member, NodeId};

/// A node of the map, as transactions know it.
fn member(node: &::membership::map::Node) -> Member {
    Member { node: NodeId(u64::from(node.number)), incarnation: node.incarnation }
}
