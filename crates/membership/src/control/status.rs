//! The state of the cluster, for people and tools.

use std::sync::Arc;

use openraft::async_runtime::WatchReceiver;

use super::agent::Agent;
use super::copies::CopyReport;
use super::granting::Holders;
use super::links::Op;
use super::standing::Standing;
use super::types::Wire;
use crate::map::Map;
use crate::{ClusterId, NodeId, level};

/// The state of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeStatus {
    /// Its name.
    pub id: NodeId,
    /// True if this node has a control link to it. For itself: true.
    pub linked: bool,
    /// For how many more milliseconds it has a lease, as the leader knows, or the node itself, if it was asked; none:
    /// no leader has told.
    pub lease_ms: Option<u64>,
    /// The highest level that its build speaks (rule U1), as this node has heard; none: it has not heard it.
    pub level: Option<u16>,
    /// Its troubles, in words, though it serves. Empty: none was reported.
    pub trouble: String,
    /// The copies of the log that it owns, as it has reported them; empty: it has none, or was not heard.
    pub copies: Vec<CopyReport>,
    /// How well and how far it is, as it has reported it; none: it has no copy of a shard with standbys, or was not heard.
    pub standing: Option<Standing>,
}

/// The state of the cluster.
#[derive(Clone, Debug)]
pub struct Status {
    /// The node that answers.
    pub me: NodeId,
    /// Its cluster.
    pub cluster: Option<ClusterId>,
    /// Nodes and slots.
    pub map: Arc<Map>,
    /// The leader of the metadata, as far as it knows.
    pub leader: Option<NodeId>,
    /// Raft's term.
    pub term: u64,
    /// For how many more milliseconds it has a lease.
    pub lease_ms: u64,
    /// The faults, in words; empty if there are none.
    pub reason: String,
    /// The voters are being changed. Until that is done, a majority of the old and perhaps of the new ones is needed. A
    /// removed node keeps voting until enough of the others answer.
    pub changing: bool,
    /// In the order of [`Map::members`].
    pub nodes: Vec<NodeStatus>,
}

impl Agent {
    /// The state of the cluster; asks the leader for the leases.
    pub async fn status(self: &Arc<Self>) -> Status {
        let (leader, term) = self.leader();
        let holders = match self.ask_leader(Op::Status, &[]).await {
            Ok(answer) => Holders::whole(&answer).ok(),
            Err(_) => None,
        };
        let (map, me, now) = (self.machine.map(), self.me(), (self.clock)());
        let lease_ms = self.shared.lease_until.get().left(now) / 1_000_000;
        let nodes = map.members().map(|node| {
            let held = holders.as_ref().and_then(|holders| holders.0.get(&node.id));
            let (is_me, held_ms) = (node.id == me, held.map(|held| held.left_ms));
            NodeStatus {
                id: node.id,
                linked: is_me || self.links.is_open(node.id),
                // The leader's grant to itself does not count before a majority has confirmed it.
                lease_ms: if is_me { Some(lease_ms) } else { held_ms },
                level: if is_me { Some(level::HIGHEST) } else { self.levels.of(node.id, node.incarnation) },
                trouble: match is_me {
                    true => self.troubles(),
                    false => held.map(|held| held.trouble.clone()).unwrap_or_default(),
                },
                copies: match is_me {
                    true => self.reported_copies(),
                    false => held.map(|held| held.copies.clone()).unwrap_or_default(),
                },
                standing: if is_me { self.standing() } else { held.and_then(|held| held.standing) },
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
