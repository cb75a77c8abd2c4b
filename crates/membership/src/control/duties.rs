//! The duties of the metadata's leader: it writes down that there is a cluster, and chooses the voters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use openraft::ChangeMembers;
use openraft::async_runtime::WatchReceiver;
use tokio::time::timeout;

use super::agent::{Agent, COMMAND};
use crate::meta::{Command, Describe, SHARDS};
use crate::{NodeId, level, voters};

/// Most nodes that vote: more make every decision slower, and no safer.
pub const VOTERS_MAX: usize = 5;

/// How many entries a future voter may be behind.
const BEHIND_MAX: u64 = 64;

impl Agent {
    /// Does the duties now and then, most of them only while this node leads.
    pub async fn duties(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(self.settings.renew / 2);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.cut_log().await;
            if let Some(term) = self.leads() {
                let now = (self.clock)();
                self.volatile().leases.lead(term, now);
                self.look_at_shards();
                // A change that has not come to its end by then may have begun in an earlier term of this node, and may not
                // end at all. The next look goes on with what is left of it.
                let done = timeout(COMMAND, self.duty()).await;
                if let Err(why) = done.unwrap_or_else(|_| Err("a change of the members is not committed".to_owned())) {
                    tracing::debug!("as the leader of the metadata: {why}");
                }
                self.place_copies().await;
            }
        }
    }

    async fn duty(self: &Arc<Self>) -> Result<(), String> {
        let _changing = self.changing.lock().await;
        let metrics = self.raft.metrics().borrow_watched().clone();
        let members = metrics.membership_config.membership();
        if self.machine.look(|applied| applied.state.cluster().is_none()) {
            let nodes: Vec<Describe> = members.nodes().map(|(_, node)| node.clone()).collect();
            let Some(cluster) = self.cluster() else { return Ok(()) };
            let level = self.lowest_level(nodes.iter().map(|node| (node.id, node.incarnation)));
            let shards = Some(self.settings.shards).filter(|shards| *shards > 0 && level >= level::STANDBYS);
            let shards = shards.map(|shards| (SHARDS.to_owned(), shards.to_string()));
            let settings = self.agreed().into_iter().chain(shards).collect();
            let form = Command::Form { cluster, nodes, settings, level };
            self.submit(&form).await?;
        }
        if self.machine.look(|applied| applied.state.configuration().version() == 0) {
            let first = Command::Configure { first: true, settings: self.first_configuration() };
            return self.submit(&first).await.map(drop);
        }
        if let [_, .., to] = &members.get_joint_config()[..] {
            // The former leader has not finished it, and until then both majorities are needed.
            let change = ChangeMembers::ReplaceAllVoters(to.clone());
            return self.raft.change_membership(change, true).await.map(drop).map_err(|why| why.to_string());
        }
        let is_settled = self.machine.look(|applied| applied.members.log_id() == metrics.membership_config.log_id());
        if is_settled && !members.voter_ids().any(|id| id == self.me()) {
            // Raft has such a leader step down, and may miss the moment: then it would lead on without a vote.
            self.hand_over().await;
            return Ok(());
        }
        let nodes = self.machine.look(|applied| applied.state.nodes());
        let wanted: Vec<NodeId> = nodes.iter().filter(|(_, lost)| !lost).map(|(id, _)| *id).collect();
        let failed = |why: &dyn std::fmt::Display| why.to_string();
        // A new node learns first.
        let new: BTreeMap<NodeId, Describe> = wanted
            .iter()
            .filter(|id| members.get_node(id).is_none())
            .filter_map(|id| Some((*id, self.known(*id)?)))
            .collect();
        if !new.is_empty() {
            let change = ChangeMembers::AddNodes(new);
            return self.raft.change_membership(change, true).await.map(drop).map_err(|why| failed(&why));
        }
        let last = metrics.last_log_index.unwrap_or(0);
        let replication = metrics.replication.unwrap_or_default();
        let keeps_up = |id: &NodeId| {
            let matched = replication.get(id).and_then(|matched| matched.as_ref()).map(|matched| matched.index);
            *id == self.me() || matched.is_some_and(|index| index + BEHIND_MAX >= last)
        };
        let voters: BTreeSet<NodeId> = members.voter_ids().collect();
        let answering = self.answering(&wanted);
        let may_vote = |id: &&NodeId| voters.contains(id) || keeps_up(id) && answering.contains(id);
        let map = self.machine.map();
        let has_host_votes = map.level() >= level::HOST_VOTES;
        let present = map.members().filter(|member| !member.lost).map(|member| {
            let is_log_server = map.log_servers().iter().any(|server| server.id == member.id);
            // One that cannot vote yet takes the vote of no node.
            let is_for_host = has_host_votes && is_log_server && may_vote(&&member.id);
            voters::Candidate { id: member.id, machine: &member.machine, is_for_host }
        });
        let chosen = voters::choose(present, VOTERS_MAX);
        let next: BTreeSet<NodeId> = chosen.iter().filter(may_vote).copied().collect();
        if next != voters && !next.is_empty() {
            // Among themselves they could decide nothing, and without them no majority could any more.
            let answer = next.intersection(&answering).count();
            if 2 * answer <= next.len() {
                return Err(format!("only {answer} of {} nodes that are to vote answer", next.len()));
            }
            return self.raft.change_membership(next, true).await.map(drop).map_err(|why| failed(&why));
        }
        // A node that has left, or will never answer, is not asked.
        let gone: BTreeSet<NodeId> = members.learner_ids().filter(|id| !wanted.contains(id)).collect();
        if !gone.is_empty() {
            let change = ChangeMembers::RemoveNodes(gone);
            return self.raft.change_membership(change, false).await.map(drop).map_err(|why| failed(&why));
        }
        Ok(())
    }

    /// The nodes among these that have a lease, with this one, which leads: Raft may hear others, too, but only serving
    /// nodes are to vote.
    pub(super) fn answering(&self, nodes: &[NodeId]) -> BTreeSet<NodeId> {
        let (me, now, volatile) = (self.me(), (self.clock)(), self.volatile());
        nodes.iter().filter(|id| **id == me || volatile.leases.held(**id, now) > 0).copied().collect()
    }
}
