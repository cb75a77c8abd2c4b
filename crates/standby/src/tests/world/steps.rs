//! All that may happen next.

use super::{CommandState, Plan, Plant, Role, World};
use crate::Part;
use crate::planted::Mistake;

/// Kinds of steps: a walk chooses a kind first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    Time,
    Network,
    Loss,
    Log,
    Node,
    Standby,
    Owner,
    Client,
    Leader,
    Start,
    Fault,
    Planned,
}

impl Kind {
    pub const COUNT: usize = 12;
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    Tick(u64),
    Deliver(usize),
    Lose(usize),
    /// A majority has one more block of a stream.
    Sync(usize),
    /// A node's acceptor gets a block.
    Tail(usize, usize),
    Learn(usize),
    Join(usize),
    Renew(usize),
    Report(usize),
    Apply(usize),
    Checkpoint(usize),
    Seal(usize, u64),
    Hear(usize),
    Cut(usize),
    Idle(usize),
    Tell(usize, usize),
    Ship(usize, usize),
    Count(usize, usize),
    Drained(usize),
    Demote(usize),
    Ask,
    Send(usize, usize),
    Look(usize),
    Execute(usize),
    Decide,
    Commit(bool),
    Prove(usize),
    Start(usize, u64),
    Kill(usize),
    Stop(usize),
    Continue(usize),
    Elect,
    Bootstrap(usize),
    Switch(usize, usize),
    GiveUp(usize, usize),
}

/// Steps of time, in milliseconds.
const TICKS: [u64; 3] = [5, 20, 60];

impl World {
    pub fn steps(&self, plan: &Plan, out: &mut Vec<(Kind, Step)>) {
        if self.left.ticks > 0 {
            out.extend(TICKS.map(|ms| (Kind::Time, Step::Tick(ms))));
        }
        for at in 0..self.network.len() {
            out.push((Kind::Network, Step::Deliver(at)));
            if self.left.losses > 0 {
                out.push((Kind::Loss, Step::Lose(at)));
            }
        }
        for of in 0..plan.streams {
            if self.log.synced[of].sequence < self.log.streams[of].last().sequence {
                out.push((Kind::Log, Step::Sync(of)));
            }
        }
        for at in 0..plan.nodes {
            self.steps_of_node(plan, at, out);
        }
        if self.left.commands > 0 {
            out.push((Kind::Client, Step::Ask));
        }
        for (command, of) in self.commands.iter().enumerate().filter(|(_, of)| of.state == CommandState::Waiting) {
            debug_assert_eq!(of.state, CommandState::Waiting);
            out.extend(self.targets().map(|to| (Kind::Client, Step::Send(command, to))));
        }
        if self.pending.is_some() {
            out.extend([true, true, true, false].map(|is_taken| (Kind::Leader, Step::Commit(is_taken))));
        } else if self.decision().is_some() {
            out.push((Kind::Leader, Step::Decide));
        }
        out.extend((0..self.ended.len()).map(|process| (Kind::Leader, Step::Prove(process))));
        if self.left.elections > 0 {
            out.push((Kind::Fault, Step::Elect));
        }
    }

    fn steps_of_node(&self, plan: &Plan, at: usize, out: &mut Vec<(Kind, Step)>) {
        let node = &self.nodes[at];
        let others = || (0..plan.nodes).filter(move |other| *other != at);
        let Some(running) = &node.running else {
            return out.push((Kind::Start, Step::Start(at, 0)));
        };
        if running.is_stopped {
            return out.push((Kind::Start, Step::Continue(at)));
        }
        out.extend((0..plan.streams).filter(|of| self.lacks(at, *of)).map(|of| (Kind::Log, Step::Tail(at, of))));
        if node.view != self.metadata {
            out.push((Kind::Node, Step::Learn(at)));
        }
        if self.is_renewal_due(plan, at) {
            out.push((Kind::Node, Step::Renew(at)));
        }
        if self.left.kills > 0 {
            out.push((Kind::Fault, Step::Kill(at)));
        }
        if self.left.stops > 0 {
            out.push((Kind::Fault, Step::Stop(at)));
        }
        match &running.role {
            Role::Idle => out.push((Kind::Node, Step::Join(at))),
            Role::Bootstrap if self.part(at) != Part::Waits && !plan.has(Mistake::CountsUnpinned) => {
                out.push((Kind::Node, Step::Join(at)));
            }
            Role::Bootstrap => {}
            Role::Standby(standby) => {
                // An earlier life of its node was given the shard.
                if self.part(at) == Part::Leads {
                    out.push((Kind::Node, Step::Join(at)));
                }
                if self.can_apply(at) {
                    out.push((Kind::Standby, Step::Apply(at)));
                }
                if standby.follower.checkpoint().is_ok_and(|covered| covered > standby.follower.covered()) {
                    out.push((Kind::Standby, Step::Checkpoint(at)));
                }
                out.push((Kind::Standby, Step::Report(at)));
                if self.left.bootstraps > 0 {
                    out.push((Kind::Fault, Step::Bootstrap(at)));
                }
            }
            Role::Owner(owner) if owner.is_over => out.push((Kind::Node, Step::Demote(at))),
            Role::Owner(owner) => {
                if !owner.is_sealed && owner.tenure.term() > self.log.term {
                    out.push((Kind::Node, Step::Seal(at, 0)));
                }
                if self.has_news(at) {
                    let steps = [Step::Hear(at), Step::Checkpoint(at), Step::Cut(at)];
                    out.extend(steps.map(|step| (Kind::Owner, step)));
                    out.extend(others().map(|to| (Kind::Owner, Step::Tell(at, to))));
                    out.extend(others().map(|to| (Kind::Owner, Step::Ship(at, to))));
                    out.extend(others().map(|to| (Kind::Owner, Step::Count(at, to))));
                    out.push((Kind::Owner, Step::Idle(at)));
                    if self.is_draining(at) {
                        out.push((Kind::Owner, Step::Drained(at)));
                    }
                    if self.left.give_ups > 0 {
                        out.extend(others().map(|to| (Kind::Fault, Step::GiveUp(at, to))));
                    }
                }
                if !owner.inbox.is_empty() {
                    out.push((Kind::Client, Step::Execute(at)));
                }
                if plan.plant == Plant::LooksEarly {
                    out.push((Kind::Client, Step::Look(at)));
                }
                let can_switch = self.left.switchovers > 0 && owner.switchover.is_none();
                if can_switch && owner.tenure.may_execute(self.clock(plan, at)) {
                    out.extend(others().map(|to| (Kind::Planned, Step::Switch(at, to))));
                }
            }
        }
    }

    pub fn take(&mut self, plan: &Plan, step: Step) {
        match step {
            Step::Tick(ms) => self.tick(plan, ms),
            Step::Deliver(at) | Step::Lose(at) => {
                let Some(packet) = self.network.iter().nth(at).cloned() else { return };
                self.network.remove(&packet);
                match step {
                    Step::Lose(_) => self.left.losses -= 1,
                    _ => self.deliver(plan, packet),
                }
            }
            Step::Sync(of) => self.sync(of),
            Step::Tail(at, of) => self.tail(plan, at, of),
            Step::Learn(at) => self.learn(plan, at),
            Step::Join(at) => self.join(plan, at),
            Step::Renew(at) => self.renew(plan, at),
            Step::Report(at) => self.report(at),
            Step::Apply(at) => self.apply(plan, at, 1),
            Step::Checkpoint(at) => {
                self.checkpoint_of_standby(at);
                self.checkpoint_of_owner(at);
            }
            Step::Seal(at, bits) => self.seal(plan, at, bits),
            Step::Hear(at) => self.hear(plan, at),
            Step::Cut(at) => self.cut(at),
            Step::Idle(at) => self.idle(at),
            Step::Tell(at, to) => self.tell(plan, at, to),
            Step::Ship(at, to) => self.ship(plan, at, to),
            Step::Count(at, to) => self.count(at, to),
            Step::Drained(at) => self.drained(plan, at),
            Step::Demote(at) => self.demote(plan, at),
            Step::Ask => self.ask(),
            Step::Send(command, to) => self.send(command, to),
            Step::Look(at) => self.look_at_lease(plan, at),
            Step::Execute(at) => self.execute(plan, at),
            Step::Decide => self.decide(),
            Step::Commit(is_taken) => self.commit(is_taken),
            Step::Prove(process) => {
                let process = self.ended.remove(process);
                self.leader.ended(process);
            }
            Step::Start(at, kept) => self.start(at, kept),
            Step::Kill(at) => {
                self.left.kills -= 1;
                self.ghosts.is_unplanned = true;
                self.kill(plan, at);
            }
            Step::Stop(at) | Step::Continue(at) => self.stop(plan, at, matches!(step, Step::Stop(_))),
            Step::Elect => {
                self.left.elections -= 1;
                self.elect();
            }
            Step::Bootstrap(at) => {
                self.left.bootstraps -= 1;
                self.bootstrap_again(plan, at);
            }
            Step::Switch(at, to) => self.switch(plan, at, to),
            Step::GiveUp(at, to) => {
                self.left.give_ups -= 1;
                self.give_up(at, to);
            }
        }
        self.look(plan);
    }

    pub fn tick(&mut self, plan: &Plan, ms: u64) {
        self.now += ms;
        self.left.ticks = self.left.ticks.saturating_sub(1);
        (0..plan.nodes).for_each(|at| self.tick_switchover(plan, at));
    }

    pub fn look_at_lease(&mut self, plan: &Plan, at: usize) {
        let now = self.clock(plan, at);
        if let Some(owner) = self.owner(at) {
            owner.looked = now;
        }
    }

    /// A process stands still, or goes on.
    fn stop(&mut self, plan: &Plan, at: usize, is_stopped: bool) {
        if let Some(running) = &mut self.nodes[at].running {
            running.is_stopped = is_stopped;
        }
        if is_stopped {
            self.left.stops -= 1;
            self.ghosts.is_unplanned = true;
        } else {
            self.tick_switchover(plan, at);
        }
    }
}
