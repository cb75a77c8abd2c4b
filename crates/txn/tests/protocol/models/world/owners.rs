//! Which node has a participant's log, and who knows that.

use std::collections::{BTreeMap, BTreeSet};

use txn::{NodeId, ParticipantId};

use super::{NOW, World};

impl World {
    /// True if what a server appends may be committed.
    pub(super) fn has_log(&self, at: usize) -> bool {
        !self.heirs.contains_key(&at) && !self.taken.contains_key(&at)
    }

    /// The participant that a node is, for one that knows these owners.
    pub(super) fn participant_at(
        &self,
        owners: &BTreeMap<ParticipantId, NodeId>,
        node: NodeId,
    ) -> Option<ParticipantId> {
        let id = ParticipantId::of(node);
        let known = owners.iter().find(|(_, owner)| **owner == node).map(|(id, _)| *id);
        let has_taken_over = self.taken.values().any(|at| self.servers[*at].me.node == node);
        known.or_else(|| Some(id).filter(|_| !has_taken_over && !owners.contains_key(&id)))
    }

    /// A server whose log another one has, and the one that has it now.
    pub(super) fn continued(&self, lost: usize) -> (ParticipantId, ParticipantId) {
        let mut heir = self.heirs[&lost];
        while let Some(next) = self.heirs.get(&heir) {
            heir = *next;
        }
        (ParticipantId(lost as u64 + 1), ParticipantId(heir as u64 + 1))
    }

    pub(super) fn server_learns(&mut self, at: usize, lost: usize) {
        let (lost, heir) = self.continued(lost);
        self.on_server(at, |server, _| server.continued(NOW, lost, heir));
    }

    pub(super) fn host_learns(&mut self, host: usize, lost: usize) {
        let (lost, heir) = self.continued(lost);
        let mut events = Vec::new();
        self.hosts[host].heirs.insert(lost, heir);
        self.hosts[host].machine.continued(NOW, lost, heir, &mut events);
        self.events(host, events);
    }

    /// The present owner of the shard of a server that was taken over.
    pub(super) fn owner(&self, mut at: usize) -> usize {
        while let Some(next) = self.taken.get(&at) {
            at = *next;
        }
        at
    }

    pub(super) fn server_hears_of_owner(&mut self, at: usize, taken: usize) {
        let owner = self.owner(taken);
        let (id, node) = (self.servers[owner].member.id, self.servers[owner].me.node);
        self.servers[at].owners.insert(id, node);
    }

    pub(super) fn host_hears_of_owner(&mut self, host: usize, taken: usize) {
        let owner = self.owner(taken);
        let (member, node) = (self.servers[owner].member, self.servers[owner].me.node);
        let mut events = Vec::new();
        self.hosts[host].owners.insert(member.id, node);
        self.hosts[host].machine.peer(NOW, member, &mut events);
        self.events(host, events);
    }

    /// Servers that belong to the cluster, and have a log.
    pub(super) fn there(&self) -> impl Iterator<Item = usize> + use<> {
        let (lost, gone) = (self.lost.clone(), self.heirs.keys().chain(self.taken.keys()).copied());
        let gone: BTreeSet<usize> = gone.collect();
        (0..self.servers.len()).filter(move |at| !lost.contains(at) && !gone.contains(at))
    }

    pub(super) fn host_hears(&mut self, host: usize, lost: usize) {
        let mut events = Vec::new();
        self.hosts[host].machine.lost(NOW, ParticipantId(lost as u64 + 1), &mut events);
        self.events(host, events);
    }

    pub(super) fn server_hears(&mut self, at: usize, lost: usize) {
        self.on_server(at, |server, said| server.lost(NOW, NodeId(lost as u64 + 1), said));
    }
}
