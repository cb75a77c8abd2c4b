//! The faults of a cluster, and how they are mended.

use membership::Slot;
use node::Pause;

use super::agenda::{Event, Mend, Talk, Time};
use super::metadata;
use super::plan::Planted;
use super::world::World;
use crate::invariants::Verdict;
use crate::note;

/// Kinds of faults: `Plan::faults` has a bit for each.
pub const KINDS: u32 = 12;

/// As before, where logs have copies.
pub const KINDS_WITH_COPIES: u32 = 16;

/// As before, where nodes are lost for good.
const KINDS_WITH_LOSS: u32 = 17;

/// A node stops at once, and is started later.
pub const CRASH: u32 = 1 << 0;
/// As before, at some change of a disk.
pub const POWER: u32 = 1 << 1;
/// Nodes do not reach each other.
pub const PART: u32 = 1 << 3;
/// A disk is slow, or the network between two nodes.
pub const SLOW: u32 = 1 << 5 | 1 << 6;
/// A slot gets another owner.
pub const MOVE: u32 = 1 << 9;
/// The faults of copies: folders are wiped, and connections to acceptors break.
pub const OF_COPIES: u32 = 0b1111 << 12;
/// A node is lost for good with its disks, and another one gets its shard.
pub const LOSS: u32 = 1 << 16;

/// Seconds, in microseconds.
const SECOND: Time = 1_000_000;

impl World {
    /// When something breaks next.
    pub(super) fn plan_fault(&mut self) {
        let wait = 1 + self.story.chance.below(2 * self.plan.breaks);
        self.agenda.put(self.now + wait, Event::Fault);
    }

    /// A time: short, or, now and then, longer than leases last and nodes are patient.
    fn a_while(&mut self) -> Time {
        let most = [SECOND / 20, SECOND / 2, 2 * SECOND, 5 * SECOND][self.story.one_of(4)];
        1_000 + self.story.chance.below(most)
    }

    /// Something breaks.
    pub(super) fn fault(&mut self) -> Verdict {
        if self.is_over {
            return Ok(());
        }
        self.plan_fault();
        let kinds = match (self.plan.copies, self.plan.spares) {
            (0, _) => KINDS,
            (_, 0) => KINDS_WITH_COPIES,
            _ => KINDS_WITH_LOSS,
        };
        let kind = self.story.chance.below(u64::from(kinds)) as u32;
        let kind = if self.plan.faults.count_ones() == 1 { self.plan.faults.trailing_zeros() } else { kind };
        // There are few nodes to lose.
        let kind = if self.plan.spares > 0 && self.story.once_in(4) { LOSS.trailing_zeros() } else { kind };
        if self.plan.faults & (1 << kind) == 0 {
            return Ok(());
        }
        let node = self.story.one_of(self.members.len());
        let (life, is_off) = (self.members[node].life, self.members[node].is_off);
        match kind {
            0 if !is_off => return self.crash(node),
            1 if !is_off => {
                note!(self.story.trace, "the power of node {node} will fail");
                let hardware = &self.members[node].host.hardware;
                match self.plan.copies {
                    0 => hardware.plan_power_failure(&mut self.story.chance, 60),
                    _ => hardware.plan_power_failure_anywhere(&mut self.story.chance, 60),
                }
            }
            2 => {
                let until = self.now + self.a_while();
                note!(self.story.trace, "node {node} stands still until {until}");
                self.pause(node, until);
            }
            3 => self.part(),
            4 => {
                let links = self.network.links();
                if !links.is_empty() {
                    let (link, nodes) = links[self.story.one_of(links.len())];
                    note!(self.story.trace, "link {link} of {nodes:?} breaks");
                    let within = 50_000;
                    for (at, link, side) in self.network.cut(link, within, self.now, &mut self.story.chance) {
                        self.agenda.put(at, Event::Arrive { link, side });
                    }
                }
            }
            5 => {
                let slow = 5_000 + self.story.chance.below(300_000);
                self.members[node].disk = (slow / 4, slow);
                note!(self.story.trace, "the disk of node {node} takes {slow} us");
                self.mend_later(Mend::Disk { node });
            }
            6 => {
                let other = self.story.one_of(self.members.len());
                let slow = self.story.chance.below(200_000);
                note!(self.story.trace, "between {node} and {other} it takes {slow} us");
                self.network.slow.insert((node, other), slow);
                if self.story.once_in(2) {
                    self.network.slow.insert((other, node), slow);
                }
                self.mend_later(Mend::Network);
            }
            7 => {
                let ms = self.story.chance.below(3_000);
                note!(self.story.trace, "the clock of node {node} is set back by {ms} ms");
                self.members[node].host.hardware.clock.set_back_ms(ms);
                self.history.is_set_back = true;
            }
            8 => {
                let deaf = self.story.chance.below(400_000);
                note!(self.story.trace, "the control thread of node {node} is late by {deaf} us");
                self.members[node].deaf = deaf;
                self.mend_later(Mend::Control { node });
            }
            9 => self.move_something(),
            10 if !is_off => {
                note!(self.story.trace, "a sync of node {node} will fail");
                self.members[node].host.hardware.plan_failed_sync(&mut self.story.chance, 8);
                // A supervisor sees it and starts the node again.
                let at = self.now + self.a_while();
                self.agenda.put(at, Event::Crash { node, life });
            }
            11 if !is_off => {
                note!(self.story.trace, "a disk of node {node} is full");
                self.members[node].host.hardware.fill(&mut self.story.chance);
                self.mend_later(Mend::Room { node });
            }
            12..15 => return self.wipe(node, kind),
            15 => return self.break_wire(),
            16 => return self.lose(node),
            _ => {}
        }
        Ok(())
    }

    /// When a node next pauses its writers.
    pub(super) fn plan_hold_back(&mut self) {
        if self.plan.holds_back > 0 {
            let wait = 1 + self.story.chance.below(2 * self.plan.holds_back);
            self.agenda.put(self.now + wait, Event::HoldBack);
        }
    }

    /// A node pauses its writers, as with CLIENT PAUSE.
    pub(super) fn hold_back(&mut self) -> Verdict {
        if self.is_over {
            return Ok(());
        }
        self.plan_hold_back();
        let node = self.story.one_of(self.members.len());
        let ms = self.a_while() / 1000;
        let member = &mut self.members[node];
        if !member.is_off && member.paused_until <= self.now {
            member.tell_time(self.now);
            let until = member.host.hardware.clock.unix_ms() + ms;
            note!(self.story.trace, "node {node} holds back who writes for {ms} ms");
            member.host.machine.node.pauses.pause(Pause::Write, until);
            self.story.counts.held_back += 1;
        }
        Ok(())
    }

    fn mend_later(&mut self, mend: Mend) {
        let at = self.now + self.a_while();
        self.agenda.put(at, Event::Mend(mend));
    }

    pub(super) fn pause(&mut self, node: usize, until: Time) {
        let member = &mut self.members[node];
        member.paused_until = member.paused_until.max(until);
    }

    /// Some nodes do not reach others, in one direction or both.
    fn part(&mut self) {
        let count = self.members.len();
        let apart: Vec<bool> = (0..count).map(|_| self.story.once_in(2)).collect();
        let (here, there) = (self.story.once_in(3), self.story.once_in(3));
        for a in 0..count {
            for b in 0..count {
                if apart[a] && !apart[b] {
                    if !here || there {
                        self.network.blocked.insert((a, b));
                    }
                    if !there || here {
                        self.network.blocked.insert((b, a));
                    }
                }
            }
        }
        note!(self.story.trace, "nodes do not reach each other: {:?}", self.network.blocked);
        // Some of the bytes that are held up are given up.
        if self.story.once_in(2) {
            for (link, [a, b]) in self.network.links() {
                if !self.network.reach(a, b) && self.story.once_in(2) {
                    for (at, link, side) in self.network.cut(link, 3 * SECOND, self.now, &mut self.story.chance) {
                        self.agenda.put(at, Event::Arrive { link, side });
                    }
                }
            }
        }
        self.mend_later(Mend::Partition);
    }

    /// A key's slot is to go to another node: its owner must have no lease for that.
    fn move_something(&mut self) {
        if self.plan.movable == 0 {
            return;
        }
        let key = self.story.one_of(self.plan.movable);
        let slot = keyspace::slot_of(super::clients::list(key).as_bytes());
        let map = self.metadata.latest().clone();
        let owner = map.owner_of(Slot::of(slot)).map(|owner| map.node(owner).id);
        let from = (0..self.members.len()).find(|node| Some(metadata::id(*node)) == owner);
        let to = self.story.one_of(self.members.len());
        let Some(from) = from.filter(|from| *from != to && !self.history.moved.contains_key(&key)) else { return };
        note!(self.story.trace, "key {key} is to go from {from} to {to}");
        self.agenda.put(self.now + SECOND / 2, Event::Talk(Talk::Move { nodes: (from, to), key }));
        // It moves when the lease of its owner is over, which has to have a reason.
        let wait = 5 * SECOND / 2 + self.story.chance.below(3 * SECOND);
        match self.story.chance.below(3) {
            0 => self.pause(from, self.now + wait),
            1 => {
                self.members[from].deaf = wait;
                self.agenda.put(self.now + wait, Event::Mend(Mend::Control { node: from }));
            }
            _ => {
                for other in (0..self.members.len()).filter(|other| *other != from) {
                    self.network.blocked.insert((from, other));
                    self.network.blocked.insert((other, from));
                }
                self.agenda.put(self.now + wait, Event::Mend(Mend::Partition));
            }
        }
    }

    /// A node stops at once; it is started again later.
    pub(super) fn crash(&mut self, node: usize) -> Verdict {
        if self.members[node].is_off && !self.copies.rises(node) {
            return Ok(());
        }
        note!(self.story.trace, "node {node} is off");
        self.end_copies(node);
        let member = &mut self.members[node];
        (member.is_off, member.paused_until) = (true, 0);
        // The kernel of a killed process reports it; that of a machine without power does not.
        let within = if self.story.once_in(2) { 2_000 } else { 10 * SECOND };
        for (at, link, side) in self.network.off(node, within, self.now, &mut self.story.chance) {
            self.agenda.put(at, Event::Arrive { link, side });
        }
        for client in self.clients.iter_mut().filter(|client| client.node == node) {
            client.cut_off();
        }
        let wait = if self.is_over { 1_000 } else { self.a_while() };
        self.agenda.put(self.now + wait, Event::Start { node });
        Ok(())
    }

    /// A node that is off is started.
    pub(super) fn start(&mut self, node: usize) -> Verdict {
        if !self.members[node].is_off || self.members[node].is_lost || self.copies.rises(node) {
            return Ok(());
        }
        let member = &mut self.members[node];
        member.tell_time(self.now);
        if self.plan.copies > 0 {
            return self.begin_rise(node);
        }
        member.host.restart(false, &mut self.story)?;
        member.begin_life();
        if self.is_over {
            member.host.make_room(&mut self.story);
        }
        let life = member.seat.life();
        let in_doubt = member.host.machine.node.engine.transactions.outcomes().prepared().count() as u64;
        self.story.counts.in_doubt += in_doubt;
        self.metadata.restart(node);
        note!(self.story.trace, "node {node} begins its life {life}, {in_doubt} attempts are in doubt");
        self.agenda.put(self.now + 1_000, Event::Talk(Talk::Announce { from: (node, life) }));
        self.start_chores(node);
        if self.plan.planted == Planted::UnlockedByStart {
            self.unlock_early(node);
        }
        Ok(())
    }

    /// Something is mended.
    pub(super) fn mend(&mut self, mend: Mend) -> Verdict {
        note!(self.story.trace, "mended: {mend:?}");
        match mend {
            Mend::Partition => {
                for (link, side) in self.network.heal() {
                    let wait = 1 + self.story.chance.below(200_000);
                    self.agenda.put(self.now + wait, Event::Arrive { link, side });
                }
            }
            Mend::Disk { node } => self.members[node].mend_disk(),
            Mend::Network => self.network.slow.clear(),
            Mend::Room { node } if self.runs(node) => self.members[node].host.make_room(&mut self.story),
            Mend::Room { .. } => {}
            Mend::Control { node } => self.members[node].deaf = 0,
        }
        Ok(())
    }

    /// Everything is mended.
    pub(super) fn mend_all(&mut self) -> Verdict {
        note!(self.story.trace, "the end of all faults");
        self.mend(Mend::Partition)?;
        self.mend(Mend::Network)?;
        for node in 0..self.members.len() {
            self.members[node].paused_until = 0;
            self.mend(Mend::Disk { node })?;
            self.mend(Mend::Control { node })?;
            self.mend(Mend::Room { node })?;
            self.members[node].host.machine.node.pauses.unpause();
            // A log that has failed commits nothing more.
            if self.members[node].host.has_failed() {
                self.crash(node)?;
            }
            self.start(node)?;
        }
        Ok(())
    }
}
