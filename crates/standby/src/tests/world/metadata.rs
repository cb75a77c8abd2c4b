//! Nodes, the metadata and their leader.

use clocks::BootMs;
use quorum::Term;

use super::{Packet, Plan, Plant, Role, SETTINGS, World};
use crate::planted::Mistake;
use crate::{Change, Decision, Part, Position, Process, Renewal, Why};

impl World {
    pub fn propose(&mut self, change: Change) {
        self.network.insert(Packet::Proposal(change));
    }

    /// A process asks for a lease, or says that it is here.
    pub fn renew(&mut self, plan: &Plan, at: usize) {
        let (process, sent) = (self.process(at), self.clock(plan, at));
        let position = self.standby(at).map(|standby| Position {
            log: standby.follower.applied(),
            behind_bytes: 0,
            priority: 100,
            is_beside_leader: false,
        });
        if let Some(running) = &mut self.nodes[at].running {
            running.renewed = Some(sent);
        }
        let renewal = Renewal { process, health: Default::default(), position };
        self.network.insert(Packet::Renewal { renewal, sent, reign: self.reign });
    }

    pub fn is_renewal_due(&self, plan: &Plan, at: usize) -> bool {
        let running = self.nodes[at].running.as_ref().filter(|running| !running.is_stopped);
        let due = |last: BootMs| self.clock(plan, at).since(last) >= SETTINGS.renew_ms;
        running.is_some_and(|running| running.renewed.is_none_or(due))
    }

    pub fn renewed(&mut self, renewal: Renewal, sent: BootMs, reign: u64) {
        if reign != self.reign {
            return;
        }
        let now = self.leaders_clock();
        if let Ok(lease) = self.leader.renew(&self.metadata, renewal, now) {
            let (to, term) = (renewal.process, self.metadata.term());
            self.network.insert(Packet::Granted { to, term, until: sent + lease });
        }
    }

    pub fn granted(&mut self, plan: &Plan, to: Process, term: Term, until: BootMs) {
        let at = to.node.0 as usize;
        if self.process(at) == to
            && let Some(owner) = self.owner(at)
        {
            owner.tenure.granted(term, until);
            self.serves_again(plan, at);
        }
    }

    /// The decision of the leader, if it is one to take the shard over.
    pub fn decision(&self) -> Option<Change> {
        let free = self.pending.is_none();
        match self.leader.clone().decide(&self.metadata, self.leaders_clock()) {
            Decision::TakeOver { change, .. } if free => Some(change),
            _ => None,
        }
    }

    pub fn decide(&mut self) {
        let now = self.leaders_clock();
        if let Decision::TakeOver { change, why } = self.leader.decide(&self.metadata, now) {
            self.ghosts.is_unplanned |= why != Why::Yielded;
            self.pending = Some(change);
        }
    }

    /// The leader's change is committed, or fails.
    pub fn commit(&mut self, is_taken: bool) {
        let Some(change) = self.pending.take() else { return };
        let is_taken = is_taken && self.metadata.apply(change).is_ok();
        let now = self.leaders_clock();
        self.leader.done(is_taken, now);
    }

    pub fn elect(&mut self) {
        self.reign += 1;
        let (reign, now) = (self.reign, self.leaders_clock());
        self.leader.reign(reign, &self.metadata, now);
    }

    /// A node hears of the present metadata.
    pub fn learn(&mut self, plan: &Plan, at: usize) {
        self.nodes[at].view = self.metadata.clone();
        match self.role(at) {
            Some(Role::Owner(_)) => self.owner_learns(plan, at),
            Some(Role::Standby(_) | Role::Bootstrap) => self.join(plan, at),
            _ => {}
        }
    }

    /// The part of a node's process, as the node knows.
    pub fn part(&self, at: usize) -> Part {
        let (node, me) = (&self.nodes[at], self.process(at));
        // A store that is to go is none.
        let is_bootstrap = node.running.as_ref().is_some_and(|running| running.role == Role::Bootstrap);
        node.view.part_of(me, node.store.is_some() && !is_bootstrap)
    }

    /// A process finds its part.
    pub fn join(&mut self, plan: &Plan, at: usize) {
        let (me, known) = (self.process(at), self.nodes[at].view.term());
        let is_standby = self.standby(at).is_some();
        match self.part(at) {
            Part::Owns => self.take_over(plan, at),
            Part::Leads => {
                let now = self.leaders_clock();
                self.leader.alive(me, now);
                if self.leader.may_lead(&self.metadata, me, now) {
                    let rests_ms = if plan.plant == Plant::LeadsUnrested { 0 } else { SETTINGS.rests_ms() };
                    self.propose(Change::Lead { known, by: me, of_log: Term::ZERO, rests_ms });
                }
            }
            Part::Follows if is_standby || self.follow(plan, at, None) => {}
            Part::StartsAgain => self.start_again(plan, at),
            // Nobody takes standbys out here.
            Part::Removed => {}
            Part::Pins if is_standby && plan.has(Mistake::CountsUnpinned) => {}
            Part::Pins if is_standby => self.start_again(plan, at),
            Part::Waits => self.nodes[at].store = None,
            Part::Follows | Part::Pins => {
                if let Some(role) = self.role(at) {
                    *role = Role::Bootstrap;
                }
                match self.part(at) {
                    _ if plan.has(Mistake::CountsUnpinned) => self.nodes[at].store = None,
                    Part::Pins => self.propose(Change::Pin { standby: me }),
                    Part::StartsAgain => self.start_again(plan, at),
                    _ => {}
                }
            }
        }
    }
}
