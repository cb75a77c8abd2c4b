//! Transactions over nodes: carries the decisions of `txn` over links, into the log, and to keys.
//!
//! Each worker coordinates the transactions that its clients begin. The node's part in the transactions of other nodes
//! is one state machine under a lock, which any worker may drive. It asks for *tasks*: a task takes latches and waits
//! as the command of a connection does. Each frame of kind *transactions* carries one message.
//!
//! [`state::Transactions`] is the state of a worker. [`port::Transacting`] works on it, and reaches the worker through
//! [`port::Port`] alone.

mod block;
pub(crate) mod client;
pub(crate) mod coordinator;
mod copies;
mod doubtful;
pub(crate) mod doubts;
pub(crate) mod exec;
mod fetching;
mod found;
mod further;
mod hindrance;
pub(crate) mod inherited;
mod interactive;
mod members;
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
mod together;
mod waiting;
mod wire;
mod workspace;

use ::membership::{Continued, Map};
use txn::{Life, Member, NodeId, ParticipantId, Recipient};

/// A node of the map in its present life, as transactions know it.
fn life(node: &::membership::map::Node) -> Life {
    Life { node: NodeId(u64::from(node.number)), incarnation: node.incarnation }
}

/// The participant that has the keys of a node of the map.
fn member(node: &::membership::map::Node) -> Member {
    Member::of(life(node))
}

/// The node to which messages for this recipient go; none while that is not known. A lost node whose log another one has
/// taken over is that one, as a participant. It has the log when its process has a term of the shard: an earlier life of
/// it would answer as if the lost node had never been prepared.
fn place(to: Recipient, map: &Map) -> Option<NodeId> {
    let participant = match to {
        Recipient::Coordinator(node) => return Some(node),
        Recipient::Participant(participant) => participant,
    };
    let number = u32::try_from(participant.0).ok()?;
    match map.continued(number) {
        None => Some(NodeId(participant.0)),
        Some(Continued::By(heir)) => Some(life(heir).node),
        Some(Continued::Waits | Continued::Lost) => None,
    }
}

/// What became of participants whose nodes have lost their shards: the heirs of those that have one, and those that are
/// lost.
fn continued(map: &Map) -> (Vec<(ParticipantId, ParticipantId)>, Vec<ParticipantId>) {
    let (mut heirs, mut lost) = (Vec::new(), Vec::new());
    for number in map.former_owners() {
        let participant = ParticipantId::of(NodeId(number.into()));
        match map.continued(number) {
            Some(Continued::By(heir)) => heirs.push((participant, member(heir).id)),
            Some(Continued::Lost) => lost.push(participant),
            Some(Continued::Waits) | None => {}
        }
    }
    (heirs, lost)
}
