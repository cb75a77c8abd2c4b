//! Nodes that are lost for good with their disks, and others that are given their shards (`holdfast cluster recover`).
//!
//! The node that is given a shard starts again without the log that it had, as in the server
//! (`holdfast/src/server/again.rs`). The ledger of the lost node goes with the shard. Logs are never cut here: what a
//! checkpoint has cut is in the lost store alone.

use membership::ShardId;
use membership::meta::{Acceptor, Command, DEFAULT_GROUP, GroupCommand, Shard};
use store::Platter;

use super::group::place_of;
use super::{AcceptorId, Drawer, Process, World};
use crate::invariants::Verdict;
use crate::nodes::agenda::Copying;
use crate::nodes::metadata;
use crate::note;

impl World {
    /// Nodes that can be given a shard.
    fn heirs_of(&self, shard: ShardId) -> Vec<usize> {
        let can = |heir: &usize| !self.members[*heir].is_lost && self.metadata.may_recover(shard, *heir);
        (0..self.members.len()).filter(can).collect()
    }

    /// A node is lost with its disks, if a majority of each shard's folders stays, and of the nodes, and a node is left
    /// for its shard.
    pub(crate) fn lose(&mut self, node: usize) -> Verdict {
        let map = self.metadata.latest().clone();
        let id = metadata::id(node);
        let Some(shard) = map.shards_of(id).next().filter(|shard| shard.settled.len() > 1) else { return Ok(()) };
        let lost: Vec<usize> = (0..self.members.len()).filter(|other| self.members[*other].is_lost).collect();
        // Those whose shards nobody has been given yet.
        let waiting = lost.iter().filter(|other| map.shards_of(metadata::id(**other)).next().is_some()).count();
        let heirs = self.heirs_of(shard.id).into_iter().filter(|heir| *heir != node).count();
        let stays = |shard: &Shard| self.can_lose(shard, |acceptor| acceptor.node == id);
        let is_majority = (lost.len() + 1) * 2 < self.members.len();
        if self.members[node].is_lost || !is_majority || heirs <= waiting || !map.shards().iter().all(stays) {
            return Ok(());
        }
        note!(self.story.trace, "node {node} is lost with its disks");
        self.crash(node)?;
        self.members[node].is_lost = true;
        let wait = 100_000 + self.story.chance.below(3_000_000);
        self.put_copying(wait, Copying::Recover { node });
        Ok(())
    }

    /// An operator gives the shard of a lost node to another one.
    pub(super) fn recover(&mut self, node: usize) -> Verdict {
        let map = self.metadata.latest().clone();
        let Some(shard) = map.shards_of(metadata::id(node)).next() else { return Ok(()) };
        let (heirs, leader) = (self.heirs_of(shard.id), self.metadata.leader());
        let answers = |acceptor: &&Acceptor| {
            let at = metadata::node_of(acceptor.node);
            let is_it = |drawer: &Drawer| drawer.local.as_ref().is_some_and(|local| local.id() == acceptor.id);
            self.reach(leader, at) && self.copies.drawers.iter().any(is_it)
        };
        let can_be_read = shard.settled.iter().filter(answers).count() > shard.settled.len() / 2;
        if can_be_read && !heirs.is_empty() && self.has_majority(leader) {
            let heir = heirs[self.story.one_of(heirs.len())];
            self.members[leader].tell_time(self.now);
            let clock = self.members[leader].boot_ns();
            if self.metadata.recover(shard.id, (node, heir), clock) {
                note!(self.story.trace, "node {heir} is given shard {} of node {node}", shard.id.0);
                self.story.counts.recovered += 1;
                let wait = 1_000 + self.story.chance.below(1_000_000);
                self.put_copying(wait, Copying::Regroup { node });
                self.tell_map(leader);
                return Ok(());
            }
        }
        let wait = 100_000 + self.story.chance.below(200_000);
        self.put_copying(wait, Copying::Recover { node });
        Ok(())
    }

    /// An operator gives the place of a lost node to one that has none.
    pub(super) fn regroup(&mut self, node: usize) -> Verdict {
        let map = self.metadata.latest().clone();
        let Some(group) = map.groups().iter().find(|group| group.name == DEFAULT_GROUP) else { return Ok(()) };
        if !group.places.contains(&place_of(node)) {
            return Ok(());
        }
        // One without slots may be needed for a shard, and must not have copies then.
        let owns = |other: usize| map.index_of(metadata::id(other)).is_some_and(|at| map.slots_of(at) > 0);
        let is_free =
            |other: &usize| !self.members[*other].is_lost && owns(*other) && !group.places.contains(&place_of(*other));
        let free: Vec<usize> = (0..self.members.len()).filter(is_free).collect();
        let leader = self.metadata.leader();
        if !free.is_empty() && self.metadata.is_led() && self.has_majority(leader) {
            let to = free[self.story.one_of(free.len())];
            let (name, old, new) = (DEFAULT_GROUP.to_owned(), place_of(node), place_of(to));
            let replace = Command::Group(GroupCommand::Replace { name, old, new });
            if self.metadata.submit(&replace).is_ok() {
                note!(self.story.trace, "node {to} is given the place of node {node}");
                self.tell_map(leader);
                return Ok(());
            }
        }
        let wait = 100_000 + self.story.chance.below(200_000);
        self.put_copying(wait, Copying::Regroup { node });
        Ok(())
    }

    /// True if a node is given another shard than that whose log it has, as far as it knows.
    pub(crate) fn is_given_another(&self, node: usize) -> bool {
        let has = self.copies.processes.get(node).and_then(|process| process.shard);
        let given = self.metadata.known(node).shards_of(metadata::id(node)).next();
        has.zip(given).is_some_and(|(has, given)| has != given.id)
    }

    /// A node that was given another shard starts again.
    pub(super) fn start_again(&mut self, node: usize, life: u64) -> Verdict {
        if self.members[node].life != life || !self.is_given_another(node) {
            return Ok(());
        }
        note!(self.story.trace, "node {node} starts again, with another shard");
        self.crash(node)
    }

    /// A node that was given another shard starts without what it had. It has the ledger of that shard from now on.
    pub(super) fn take_over(&mut self, node: usize) -> Verdict {
        if !self.is_given_another(node) {
            return Ok(());
        }
        let shard = self.metadata.known(node).shards_of(metadata::id(node)).next().map(|shard| shard.id);
        let has = |process: &Process| process.shard == shard;
        let Some(from) = self.copies.processes.iter().position(has) else { return Ok(()) };
        let Ok([heir, lost]) = self.members.get_disjoint_mut([node, from]) else { return Ok(()) };
        let left = match self.copies.processes[from].left.take() {
            Some(left) => left,
            None => (lost.host.end(false, &mut self.story)?, false),
        };
        note!(self.story.trace, "node {node} has the shard of node {from}, and nothing else");
        std::mem::swap(&mut heir.host, &mut lost.host);
        std::mem::swap(&mut heir.host.hardware, &mut lost.host.hardware);
        heir.host.hardware.wipe_log();
        heir.host.hardware.platter = Platter::new();
        self.copies.processes[from].shard = None;
        let process = &mut self.copies.processes[node];
        (process.shard, process.left, process.own, process.wipes_log) = (shard, Some(left), None, false);
        Ok(())
    }

    /// A new folder at a node, for copies of a shard's log.
    pub(super) fn add_drawer(&mut self, shard: ShardId, at: usize) -> Verdict {
        let (streams, id, jobs) = (self.plan.node.streams as u16, AcceptorId::default(), Vec::new());
        self.copies.drawers.push(Drawer {
            shard,
            streams,
            at,
            id,
            is_wiped: false,
            local: None,
            jobs,
            is_woken: false,
        });
        self.open_drawer(self.copies.drawers.len() - 1)
    }

    /// A node makes the folders that the metadata want at it, and reports those that they do not know.
    pub(super) fn tend_folders(&mut self, node: usize, life: u64) -> Verdict {
        if self.members[node].life != life || !self.runs(node) {
            return Ok(());
        }
        let wait = 50_000 + self.story.chance.below(200_000);
        self.put_copying(wait, Copying::Tend { node, life });
        if self.members[node].paused_until > self.now {
            return Ok(());
        }
        let (map, id, place) = (self.metadata.known(node).clone(), metadata::id(node), place_of(node));
        for shard in map.shards().iter().filter(|shard| shard.owner != id) {
            let is_there = |drawer: &Drawer| drawer.at == node && drawer.shard == shard.id;
            if map.copies_of(shard).contains(&place) && !self.copies.drawers.iter().any(is_there) {
                self.add_drawer(shard.id, node)?;
            }
        }
        if self.is_heard(node) {
            for command in self.reports(node, self.members[node].seat.life()) {
                let Command::Group(GroupCommand::Report(report)) = &command else { continue };
                let mut known = self.metadata.latest().reported().iter();
                let is_known = known.any(|known| known.shard == report.shard && known.place == report.place);
                if !is_known && self.metadata.submit(&command).is_ok() {
                    note!(self.story.trace, "node {node} reports a folder of shard {}", report.shard.0);
                }
            }
        }
        Ok(())
    }
}
