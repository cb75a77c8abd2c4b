//! The nodes' control threads: leases, the map, and changes of it.

use super::agenda::Chore;
use super::agenda::{Copying, Event, Talk};
use super::clients::list;
use super::invariants::lease;
use super::metadata::{LEASE_NS, RENEW_US};
use super::plan::Planted;
use super::world::World;
use crate::invariants::Verdict;
use crate::note;

impl World {
    /// True if a node's control thread runs.
    pub(super) fn is_up(&self, node: usize) -> bool {
        self.runs(node) && self.members[node].paused_until <= self.now
    }

    pub(super) fn reach(&self, a: usize, b: usize) -> bool {
        self.is_up(a) && self.is_up(b) && self.network.reach(a, b)
    }

    pub(super) fn has_majority(&self, node: usize) -> bool {
        let reached = (0..self.members.len()).filter(|other| self.reach(node, *other)).count();
        self.is_up(node) && reached * 2 > self.members.len()
    }

    pub(super) fn say(&mut self, from: usize, to: usize, talk: Talk) {
        let deaf = self.members[from].deaf.max(self.members[to].deaf);
        let takes = self.network.latency(from, to, &mut self.story.chance) + deaf;
        self.agenda.put(self.now + takes, Event::Talk(talk));
    }

    pub(super) fn talk(&mut self, talk: Talk) -> Verdict {
        let now = self.now;
        match talk {
            Talk::Renew { from } => {
                let wait = self.members[from].lasts(RENEW_US);
                self.agenda.put(now + wait, Event::Talk(talk));
                let to = self.metadata.asks(from);
                if self.reach(from, to) && !self.members[from].is_off && !self.is_given_another(from) {
                    self.members[from].tell_time(now);
                    let sent = self.members[from].boot_ns();
                    let from = (from, self.members[from].seat.life());
                    self.say(from.0, to, Talk::Asked { from, to, sent });
                }
            }
            Talk::Asked { from, to, sent } if self.is_up(to) => {
                self.members[to].tell_time(now);
                let clock = self.members[to].boot_ns();
                if let Some(term) = self.metadata.asked(to, from, clock) {
                    let other = self.story.one_of(self.members.len());
                    self.say(to, other, Talk::Confirmed { leader: (to, term), from, sent });
                }
            }
            Talk::Confirmed { leader, from, sent } if self.has_majority(leader.0) => {
                let index = self.metadata.confirmed(leader).filter(|_| self.reach(leader.0, from.0));
                if let Some(index) = index {
                    self.say(leader.0, from.0, Talk::Granted { to: from, sent, index });
                }
            }
            Talk::Granted { to: (to, life), sent, index } => {
                if self.members[to].seat.life() == life && !self.members[to].is_off {
                    let index = if self.plan.planted == Planted::StaleEpoch { 0 } else { index };
                    self.metadata.granted(to, index, sent.after(LEASE_NS));
                    self.extend(to);
                }
            }
            Talk::Follow { node } => {
                let wait = 10_000 + self.story.chance.below(60_000) + 10 * self.members[node].deaf;
                self.agenda.put(now + wait, Event::Talk(talk));
                let leader = self.metadata.leader();
                if (self.reach(node, leader) || node == leader && self.is_up(node)) && self.metadata.is_led() {
                    self.follow(node);
                }
            }
            Talk::Announce { from } => self.announce(from),
            Talk::Elect => self.elect(),
            Talk::Move { nodes, key } => self.move_slot(nodes, key),
            Talk::Asked { .. } | Talk::Confirmed { .. } => {}
        }
        lease::check(self)
    }

    /// A node's lease is longer, if there is one that counts.
    fn extend(&mut self, node: usize) {
        if let Some(until) = self.metadata.due(node) {
            self.members[node].seat.extend(until);
        }
    }

    fn follow(&mut self, node: usize) {
        let entries = 1 + self.story.chance.below(4) as usize;
        let is_new = self.metadata.follow(node, entries);
        // The leader has applied what was decided.
        if is_new || self.metadata.known(node).version() != self.members[node].seat.map().version() {
            self.tell_map(node);
        }
        self.extend(node);
    }

    /// A node's workers hear of the map that it knows.
    pub(super) fn tell_map(&mut self, node: usize) {
        let map = self.metadata.known(node).clone();
        let member = &mut self.members[node];
        note!(self.story.trace, "node {node} has map {}", map.version());
        member.seat.set_map(map.clone());
        if self.is_given_another(node) {
            // With this map it would serve slots without their keys.
            let life = self.members[node].life;
            return self.put_copying(1, Copying::Again { node, life });
        }
        let member = &mut self.members[node];
        if member.is_off {
            return self.copies.tell_map(node, map);
        }
        if let Some(cluster) = &member.host.machine.cluster {
            cluster.set_map(map);
            member.host.machine.node.look_all();
        }
        for worker in 0..self.plan.node.workers {
            self.want(node, Chore::Turn(worker), self.now + 1);
        }
    }

    fn announce(&mut self, from: (usize, u64)) {
        let (node, life) = from;
        if !self.runs(node) || self.members[node].seat.life() != life {
            return;
        }
        let leader = self.metadata.leader();
        let heard = self.metadata.is_led() && self.reach(node, leader) && self.has_majority(leader);
        if heard && self.metadata.announce(from) {
            note!(self.story.trace, "node {node} is known to live its life {life}");
            return self.tell_map(leader);
        }
        let wait = 50_000 + self.story.chance.below(300_000);
        self.agenda.put(self.now + wait, Event::Talk(Talk::Announce { from }));
    }

    fn elect(&mut self) {
        let wait = 300_000 + self.story.chance.below(500_000);
        self.agenda.put(self.now + wait, Event::Talk(Talk::Elect));
        let leader = self.metadata.leader();
        let leads = self.metadata.is_led() && self.has_majority(leader);
        if leads && (self.is_over || !self.story.once_in(40)) {
            return;
        }
        let node = self.story.one_of(self.members.len());
        if self.has_majority(node) {
            note!(self.story.trace, "node {node} leads the metadata");
            self.members[node].tell_time(self.now);
            let clock = self.members[node].boot_ns();
            self.metadata.elect(node, clock);
            while self.metadata.follow(node, 8) {}
            self.tell_map(node);
        }
    }

    fn move_slot(&mut self, nodes: (usize, usize), key: usize) {
        let slot = keyspace::slot_of(list(key).as_bytes());
        let leader = self.metadata.leader();
        if self.history.moved.contains_key(&key) {
            return;
        }
        self.members[leader].tell_time(self.now);
        let clock = self.members[leader].boot_ns();
        if self.has_majority(leader) && self.metadata.assign(nodes, slot, clock) {
            let moment = self.history.moment();
            self.history.moved.insert(key, moment);
            self.story.counts.moved += 1;
            note!(self.story.trace, "slot {slot} of key {key} goes from {} to {}", nodes.0, nodes.1);
            return self.tell_map(leader);
        }
        if !self.is_over {
            self.agenda.put(self.now + 200_000, Event::Talk(Talk::Move { nodes, key }));
        }
    }
}
