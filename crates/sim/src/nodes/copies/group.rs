//! Acceptors of a shard as the metadata name them (`holdfast/src/server/group.rs`), folders that are wiped, and the
//! operator that gives their places anew.

use membership::AcceptorId;
use membership::meta::{
    Acceptor, Command, DEFAULT_DIR, DEFAULT_GROUP, Group, GroupCommand, Lead, Place, Report, Settle, Shard,
};

use std::collections::BTreeMap;

use loggroup::{Driver, Own};

use super::rise::plan_of;
use super::{Drawer, PATIENCE_US, Process, World, fresh};
use crate::invariants::{Verdict, violated};
use crate::machine::LIMITS;
use crate::nodes::agenda::{Copying, Event};
use crate::nodes::metadata;
use crate::nodes::plan::Planted;
use crate::note;

/// Blocks by which new acceptors may lag when they begin to count, as in the server.
const BEHIND_MAX: u64 = 16;

pub(super) fn place_of(node: usize) -> Place {
    Place { member: metadata::id(node), dir: DEFAULT_DIR.to_owned() }
}

fn ids(set: &[Acceptor]) -> Vec<AcceptorId> {
    set.iter().map(|acceptor| acceptor.id).collect()
}

impl World {
    /// The group, its folders, and the first start of every node with copies: logs have none before.
    pub(crate) fn begin_copies(&mut self) -> Verdict {
        if self.plan.copies == 0 {
            return Ok(());
        }
        let nodes = self.members.len();
        self.copies.processes.resize_with(nodes, Process::default);
        let places = (0..self.plan.copies).map(place_of).collect();
        let add = Command::Group(GroupCommand::Add(Group { name: DEFAULT_GROUP.to_owned(), places }));
        self.submit(&add)?;
        let map = self.metadata.latest().clone();
        for node in 0..nodes {
            let Some(shard) = map.shards_of(metadata::id(node)).next() else { continue };
            let hardware = &self.members[node].host.hardware;
            let place = || {
                let (own, streams) = (hardware.acceptor.clone(), hardware.disks.clone());
                Ok(loggroup::Place { own, streams, locks: Vec::new() })
            };
            let name = fresh(&mut self.story.chance);
            if let Err(why) = Own::on(place, shard.id, LIMITS, name) {
                return violated("start", format_args!("no acceptor can be made: {why}"));
            }
            (self.copies.processes[node].own, self.copies.processes[node].shard) = (Some(name), Some(shard.id));
            for place in map.copies_of(shard).iter().skip(1) {
                let at = metadata::node_of(place.member);
                self.add_drawer(shard.id, at)?;
            }
        }
        // Owners report first.
        let reports: Vec<Command> = (0..nodes).flat_map(|node| self.reports(node, 0)).collect();
        let is_own = |command: &Command| match command {
            Command::Group(GroupCommand::Report(report)) => {
                map.shards().iter().any(|shard| shard.id == report.shard && shard.owner == report.place.member)
            }
            _ => false,
        };
        let (own, others): (Vec<Command>, Vec<Command>) = reports.into_iter().partition(is_own);
        for command in own.iter().chain(&others) {
            self.submit(command)?;
        }
        self.metadata.all_know();
        let map = self.metadata.latest().clone();
        for node in 0..nodes {
            self.members[node].seat.set_map(map.clone());
            self.crash(node)?;
            self.agenda.put(self.now + 1_000, Event::Start { node });
        }
        Ok(())
    }

    fn submit(&mut self, command: &Command) -> Verdict {
        self.metadata.submit(command).or_else(|why| violated("metadata", format_args!("{command:?}: {why}")))
    }

    /// The folders at a node, the own log first: owners report before others.
    pub(super) fn reports(&self, node: usize, incarnation: u64) -> Vec<Command> {
        let streams = self.plan.node.streams as u16;
        let report = |shard, id| {
            let report = Report { shard, place: place_of(node), incarnation, id, streams };
            Command::Group(GroupCommand::Report(report))
        };
        let map = self.metadata.latest();
        let process = &self.copies.processes[node];
        let is_its = |shard: &&Shard| process.shard == Some(shard.id);
        let own = map.shards_of(metadata::id(node)).find(is_its).zip(process.own);
        let is_there = |drawer: &&Drawer| map.shards().iter().any(|shard| shard.id == drawer.shard);
        let copies = self.copies.drawers.iter().filter(|drawer| drawer.at == node).filter(is_there);
        let of_own = own.map(|(shard, id)| report(shard.id, id));
        of_own.into_iter().chain(copies.map(|drawer| report(drawer.shard, drawer.id))).collect()
    }

    /// The folders of a node's process are opened.
    pub(super) fn open_drawers(&mut self, node: usize) -> Verdict {
        for which in 0..self.copies.drawers.len() {
            if self.copies.drawers[which].at == node {
                self.open_drawer(which)?;
            }
        }
        Ok(())
    }

    /// The shard of a node, if the metadata have given this start a term of it, as far as the node knows.
    pub(super) fn own_shard(&self, node: usize) -> Option<Shard> {
        let incarnation = self.members[node].seat.life();
        let map = self.metadata.known(node);
        let is_rising = self.members[node].is_off;
        let twice = self.plan.planted == Planted::TermTwice && is_rising && self.copies.processes[node].own.is_none();
        let is_its = |shard: &&Shard| self.copies.processes[node].shard == Some(shard.id);
        let is_given =
            |shard: &&Shard| is_its(shard) && (shard.incarnation == incarnation || twice && shard.incarnation > 0);
        map.shards_of(metadata::id(node)).find(is_given).cloned()
    }

    /// True if a node's command is applied now.
    pub(super) fn is_heard(&self, node: usize) -> bool {
        let leader = self.metadata.leader();
        self.metadata.is_led() && self.reach(node, leader) && self.has_majority(leader)
    }

    /// A node asks for a term.
    pub(super) fn ask_term(&mut self, node: usize, life: u64) -> Verdict {
        if self.members[node].life != life || !self.copies.rises(node) || self.own_shard(node).is_some() {
            return Ok(());
        }
        let incarnation = self.members[node].seat.life();
        let shard = self.metadata.known(node).shards_of(metadata::id(node)).next().cloned();
        let has_log = |shard: &Shard| self.copies.processes[node].shard == Some(shard.id);
        if let Some(shard) = shard.filter(has_log).filter(|_| self.is_heard(node)) {
            let (id, known) = (metadata::id(node), shard.term);
            let ask = Command::Lead(Lead { shard: shard.id, known, id, incarnation, of_log: 0 });
            // Refused while the cluster does not know this start.
            if self.metadata.submit(&ask).is_ok() {
                note!(self.story.trace, "node {node} gets the term after {}", known.get());
            }
        }
        let wait = 10_000 + self.story.chance.below(100_000);
        self.put_copying(wait, Copying::Ask { node, life });
        Ok(())
    }

    /// A node looks at the acceptors that the metadata name, and tells them what is committed.
    pub(super) fn keep(&mut self, node: usize, life: u64) -> Verdict {
        let member = &mut self.members[node];
        if member.life != life || member.is_off {
            return Ok(());
        }
        if member.paused_until > self.now {
            let wait = member.paused_until - self.now;
            self.put_copying(wait, Copying::Keep { node, life });
            return Ok(());
        }
        member.tell_time(self.now);
        if member.host.has_failed() && self.plan.planted == Planted::ServesSealed && !self.is_over {
            // The log takes nothing before the shard is led.
            return self.wipe(node, 12).and_then(|()| self.crash(node));
        }
        if member.host.has_failed() {
            // A supervisor sees it and starts the node again.
            return self.crash(node);
        }
        let changes = self.copies.processes[node].keeper.as_ref().is_some_and(|keeper| keeper.again.is_some());
        if changes && self.now > self.copies.processes[node].since + PATIENCE_US {
            note!(self.story.trace, "an operator starts node {node} again");
            return self.crash(node);
        }
        if !changes {
            self.follow_group(node);
        }
        let wait = if changes { 1_000 } else { 20_000 + self.story.chance.below(400_000) };
        self.put_copying(wait, Copying::Keep { node, life });
        self.go_on(node)
    }

    /// Does what the metadata want next: settles acceptors, or brings others up and has them count.
    fn follow_group(&mut self, node: usize) {
        let (shard, heard) = (self.own_shard(node), self.is_heard(node));
        let Some(keeper) = &self.copies.processes[node].keeper else { return };
        let (Some(shard), driver) = (shard, keeper.driver.clone()) else { return };
        driver.tell_committed();
        self.reach_acceptors(node, &driver, &shard);
        let (may_settle, term) = (driver.may_settle(), driver.term());
        let is_withdrawn = |counted: Vec<AcceptorId>| !counted.iter().all(|id| ids(&shard.settled).contains(id));
        match &shard.pending {
            None if driver.pending().is_some_and(is_withdrawn) && heard => self.change(node, &shard, &shard.settled),
            None if may_settle && !driver.pending().is_some_and(is_withdrawn) => driver.settled(),
            Some(pending) if may_settle && shard.pending_since < term && heard => {
                let (id, incarnation) = (metadata::id(node), self.members[node].seat.life());
                let settle = Settle { shard: shard.id, id, incarnation, term, acceptors: ids(pending) };
                if self.metadata.submit(&Command::Group(GroupCommand::Settle(settle))).is_ok() {
                    note!(self.story.trace, "node {node} settles {} copies", pending.len());
                    self.story.counts.settled += 1;
                    driver.settled();
                    self.hear_all(node);
                }
            }
            Some(pending) if shard.pending_since >= term && heard => self.change(node, &shard, pending),
            _ => {}
        }
    }

    /// A node hears of everything that is decided.
    fn hear_all(&mut self, node: usize) {
        while self.metadata.follow(node, 8) {}
        self.tell_map(node);
    }

    /// Makes ways to acceptors of a node's shard that have none. Those that do not count yet are brought up.
    fn reach_acceptors(&mut self, node: usize, driver: &Driver, shard: &Shard) {
        let all = || shard.settled.iter().chain(shard.pending.iter().flatten());
        let lacking = driver.lacking(&all().map(|acceptor| acceptor.id).collect::<Vec<_>>());
        let is_new = |acceptor: &&Acceptor| lacking.contains(&acceptor.id) && acceptor.node != metadata::id(node);
        let new: BTreeMap<AcceptorId, usize> =
            all().filter(is_new).map(|acceptor| (acceptor.id, metadata::node_of(acceptor.node))).collect();
        if !new.is_empty() {
            self.bring_others_up(node, &new.into_iter().collect::<Vec<_>>());
        }
    }

    /// Brings pending acceptors up, and begins a term in which they count beside the settled ones.
    fn change(&mut self, node: usize, shard: &Shard, pending: &[Acceptor]) {
        let Some(keeper) = &self.copies.processes[node].keeper else { return };
        let driver = keeper.driver.clone();
        if driver.behind(&ids(pending)).is_none_or(|blocks| blocks > BEHIND_MAX) {
            return;
        }
        let (id, incarnation) = (metadata::id(node), self.members[node].seat.life());
        let ask = Lead { shard: shard.id, known: driver.term(), id, incarnation, of_log: 0 };
        if self.metadata.submit(&Command::Lead(ask)).is_err() {
            return;
        }
        self.hear_all(node);
        let Some(shard) = self.own_shard(node).filter(|shard| shard.term.is_next_of(driver.term())) else { return };
        // The set may have grown until the term was given.
        self.reach_acceptors(node, &driver, &shard);
        let plan = plan_of(&shard, driver.own());
        note!(self.story.trace, "node {node} begins term {} for other copies", shard.term.get());
        let again = driver.again_by_hand(plan);
        let process = &mut self.copies.processes[node];
        process.since = self.now;
        if let (Ok(again), Some(keeper)) = (again, &mut process.keeper) {
            keeper.again = Some(again);
            self.story.counts.changed += 1;
        }
    }

    /// True if an acceptor has what it ever had.
    pub(super) fn is_intact(&self, acceptor: &Acceptor) -> bool {
        let node = metadata::node_of(acceptor.node);
        let process = &self.copies.processes[node];
        let is_own = process.own == Some(acceptor.id) && !process.wipes_log;
        let is_copy = |drawer: &Drawer| drawer.id == acceptor.id && !drawer.is_wiped;
        !self.members[node].is_lost && (is_own || self.copies.drawers.iter().any(is_copy))
    }

    /// True if a majority of a shard's acceptors is intact without these.
    pub(super) fn can_lose(&self, shard: &Shard, is_lost: impl Fn(&Acceptor) -> bool) -> bool {
        let stays = |set: &[Acceptor]| {
            let intact = set.iter().filter(|acceptor| !is_lost(acceptor) && self.is_intact(acceptor));
            intact.count() > set.len() / 2
        };
        stays(&shard.settled) && shard.pending.as_deref().is_none_or(stays)
    }

    /// Folders of a node are wiped: its own log (12), a copy (13), or all (14). A majority of every shard's stays.
    pub(crate) fn wipe(&mut self, node: usize, kind: u32) -> Verdict {
        if self.members[node].is_lost {
            return Ok(());
        }
        let map = self.metadata.latest().clone();
        let mut is_any = false;
        let own = map.shards_of(metadata::id(node)).next();
        if let Some(own) = own.filter(|_| kind != 13 && node < self.plan.copies) {
            let process = &self.copies.processes[node];
            if process.own.is_some() && self.can_lose(own, |acceptor| process.own == Some(acceptor.id)) {
                self.copies.processes[node].wipes_log = true;
                is_any = true;
            }
        }
        let at_node: Vec<usize> =
            (0..self.copies.drawers.len()).filter(|which| self.copies.drawers[*which].at == node).collect();
        let some = if at_node.is_empty() { 0 } else { at_node[self.story.one_of(at_node.len())] };
        for which in at_node.into_iter().filter(|which| kind == 14 || kind == 13 && *which == some) {
            let drawer = &self.copies.drawers[which];
            let shard = map.shards().iter().find(|shard| shard.id == drawer.shard);
            if !drawer.is_wiped && shard.is_some_and(|shard| self.can_lose(shard, |acceptor| acceptor.id == drawer.id))
            {
                self.copies.drawers[which].is_wiped = true;
                self.story.counts.wiped += 1;
                is_any = true;
            }
        }
        if !is_any {
            return Ok(());
        }
        note!(self.story.trace, "folders of node {node} will be empty");
        if self.plan.planted != Planted::WipedVotes {
            let wait = 1_000_000 + self.story.chance.below(2_000_000);
            self.put_copying(wait, Copying::Replace { node });
        }
        self.crash(node)
    }

    /// An operator gives the place of a node anew, if another folder is there.
    pub(super) fn replace(&mut self, node: usize) -> Verdict {
        if self.members[node].is_lost {
            return Ok(());
        }
        let process = &self.copies.processes[node];
        let awaits = process.wipes_log
            || process.own.is_none()
            || self.copies.drawers.iter().any(|drawer| drawer.at == node && drawer.is_wiped);
        let incarnation = self.members[node].seat.life();
        let id = metadata::id(node);
        let is_known = self.metadata.latest().nodes().iter().any(|of| of.id == id && of.incarnation == incarnation);
        if awaits || !is_known || !self.runs(node) || !self.is_heard(node) {
            let wait = 100_000 + self.story.chance.below(200_000);
            self.put_copying(wait, Copying::Replace { node });
            return Ok(());
        }
        let reports = self.reports(node, incarnation);
        let is_reported = |command: &Command| match command {
            Command::Group(GroupCommand::Report(report)) => self
                .metadata
                .latest()
                .reported()
                .iter()
                .any(|known| known.shard == report.shard && known.place == report.place && known.id == report.id),
            _ => true,
        };
        if reports.iter().all(is_reported) {
            return Ok(());
        }
        note!(self.story.trace, "the place of node {node} is given anew");
        let (name, old, new) = (DEFAULT_GROUP.to_owned(), place_of(node), place_of(node));
        let commands = [Command::Group(GroupCommand::Replace { name, old, new })].into_iter().chain(reports);
        for command in commands {
            if let Err(why) = self.metadata.submit(&command) {
                note!(self.story.trace, "refused: {why}");
            }
        }
        let leader = self.metadata.leader();
        self.tell_map(leader);
        Ok(())
    }
}
