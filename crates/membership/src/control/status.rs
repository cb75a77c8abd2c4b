//! How the cluster is, for people and tools.

use std::sync::Arc;

use openraft::async_runtime::WatchReceiver;

use super::agent::Agent;
use super::granting::Holders;
use super::links::Op;
use super::types::Wire;
use crate::map::Map;
use crate::{ClusterId, NodeId, level};

/// What is known of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeStatus {
    /// Its name.
    pub id: NodeId,
    /// Whether this node has a control link to it. Of itself: true.
    pub linked: bool,
    /// For how many more milliseconds it has a lease, as the leader knows, or the node itself, if it was asked; none: no leader has said.
    pub lease_ms: Option<u64>,
    /// The highest level that its build speaks (rule U1), as this node has heard; none: it has not.
    pub level: Option<u16>,
    /// What does not work there, in words, though it serves. Empty: nothing that anybody has said.
    pub trouble: String,
}

/// How the cluster is.
#[derive(Clone, Debug)]
pub struct Status {
    /// The node that says it.
    pub me: NodeId,
    /// Which cluster it belongs to.
    pub cluster: Option<ClusterId>,
    /// Nodes and slots.
    pub map: Arc<Map>,
    /// Who leads the metadata, as far as it knows.
    pub leader: Option<NodeId>,
    /// Raft's term.
    pub term: u64,
    /// For how many more milliseconds it has a lease.
    pub lease_ms: u64,
    /// What is wrong, in words; empty if nothing is.
    pub reason: String,
    /// Who votes is being changed: until that is done, more than half of those who voted are needed, and of those who will, maybe. Somebody who has been
    /// taken out votes on until enough of the others answer.
    pub changing: bool,
    /// In the order of [`Map::nodes`].
    pub nodes: Vec<NodeStatus>,
}

impl Agent {
    /// How the cluster is; asks the leader for the leases.
    pub async fn status(self: &Arc<Self>) -> Status {
        let (leader, term) = self.leader();
        let holders = match self.ask_leader(Op::Status, &[]).await {
            Ok(answer) => Holders::whole(&answer).ok(),
            Err(_) => None,
        };
        let (map, me, now) = (self.machine.map(), self.me(), (self.clock)());
        let lease_ms = self.shared.lease_until.get().left(now) / 1_000_000;
        let nodes = map.nodes().iter().map(|node| {
            let held = holders.as_ref().and_then(|holders| holders.0.get(&node.id));
            let (is_me, held_ms) = (node.id == me, held.map(|held| held.left_ms));
            NodeStatus {
                id: node.id,
                linked: is_me || self.links.is_open(node.id),
                // What the leader has granted itself is nothing before a majority has confirmed it.
                lease_ms: if is_me { Some(lease_ms) } else { held_ms },
                level: if is_me { Some(level::HIGHEST) } else { self.levels.of(node.id, node.incarnation) },
                trouble: match is_me {
                    true => (self.trouble)(),
                    false => held.map(|held| held.trouble.clone()).unwrap_or_default(),
                },
            }
        });
        let nodes = nodes.collect();
        let reason = self.reason();
        let stopped = self.raft.metrics().borrow_watched().running_state.clone().err();
        let reason = stopped.map_or(reason, |why| format!("this node takes no more part in the metadata: {why}"));
        Status {
            me,
            cluster: self.cluster(),
            map,
            leader: leader.map(|leader| leader.id),
            term,
            lease_ms,
            reason,
            changing: self.machine.look(|applied| {
                let members = applied.members.membership();
                members.get_joint_config().len() > 1 || members.voter_ids().any(|id| !applied.state.has(id))
            }),
            nodes,
        }
    }
}
