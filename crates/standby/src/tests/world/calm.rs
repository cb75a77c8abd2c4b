//! Faults stop: everything has to come to an end.

use super::{Plan, Role, Step, World};

const ROUNDS: usize = 500;

impl World {
    /// Lets the world go on without faults. Returns the reason why it does not come to rest.
    pub fn calms(&mut self, plan: &Plan) -> Option<&'static str> {
        for _ in 0..ROUNDS {
            self.round(plan);
            if self.ghosts.broken.is_some() || self.is_calm(plan).is_none() {
                break;
            }
        }
        self.is_calm(plan)
    }

    /// Everything that can happen without a fault, once, in 10 ms.
    fn round(&mut self, plan: &Plan) {
        self.tick(plan, 10);
        let mut steps = vec![Step::Commit(true)];
        steps.extend((0..self.ended.len()).map(|_| Step::Prove(0)));
        if self.decision().is_some() {
            steps.extend([Step::Decide, Step::Commit(true)]);
        }
        for at in 0..plan.nodes {
            match self.nodes[at].running.as_ref() {
                None => steps.push(Step::Start(at, 0)),
                Some(running) if running.is_stopped => steps.push(Step::Continue(at)),
                Some(_) => {}
            }
            if self.nodes[at].view != self.metadata {
                steps.push(Step::Learn(at));
            }
        }
        steps.into_iter().for_each(|step| self.take(plan, step));
        for at in 0..plan.nodes {
            self.rounds_of(plan, at);
        }
        (0..plan.streams).for_each(|of| while self.log.sync(of) {});
        if self.log.is_led() {
            self.ghosts.led.insert(self.log.term);
        }
        while let Some(packet) = self.network.pop_first() {
            self.deliver(plan, packet);
        }
        let targets: Vec<usize> = self.targets().collect();
        for command in 0..self.commands.len() {
            if self.commands[command].state == super::CommandState::Waiting {
                targets.iter().take(1).for_each(|to| self.send(command, *to));
            }
        }
        self.look(plan);
    }

    fn rounds_of(&mut self, plan: &Plan, at: usize) {
        if self.is_renewal_due(plan, at) {
            self.renew(plan, at);
        }
        for of in 0..plan.streams {
            for _ in 0..50 {
                if self.is_up(at) && self.lacks(at, of) {
                    self.tail(plan, at, of);
                }
            }
        }
        let others: Vec<usize> = (0..plan.nodes).filter(|other| *other != at).collect();
        let (waits, last) = (self.part(at) == crate::Part::Waits, self.log.term);
        match self.role(at) {
            Some(Role::Idle) => self.join(plan, at),
            Some(Role::Bootstrap) if !waits => self.join(plan, at),
            Some(Role::Standby(_)) => {
                if self.part(at) == crate::Part::Leads {
                    self.join(plan, at);
                }
                self.apply(plan, at, 100);
                self.checkpoint_of_standby(at);
                self.report(at);
            }
            Some(Role::Owner(owner)) if owner.is_over => self.demote(plan, at),
            Some(Role::Owner(owner)) => {
                if !owner.is_sealed && owner.tenure.term() > last {
                    self.seal(plan, at, 0);
                }
                self.hear(plan, at);
                self.drained(plan, at);
                self.idle(at);
                self.look_at_lease(plan, at);
                (0..self.commands.len()).for_each(|_| self.execute(plan, at));
                self.checkpoint_of_owner(at);
                for to in others {
                    self.tell(plan, at, to);
                    self.ship(plan, at, to);
                    self.count(at, to);
                }
            }
            _ => {}
        }
    }

    /// `None`: a process serves, all others are counted standbys that have what it has, and clients have their answers.
    fn is_calm(&mut self, plan: &Plan) -> Option<&'static str> {
        let owner = self.metadata.owner();
        let at = owner.node.0 as usize;
        let now = self.clock(plan, at);
        let is_it = self.process(at) == owner;
        let Some(memory) = self.owner(at).filter(|of| is_it && of.tenure.may_execute(now)).map(|of| of.memory.clone())
        else {
            return Some("nobody serves the shard");
        };
        if !self.is_answered() {
            return Some("a command has no answer");
        }
        for other in (0..plan.nodes).filter(|other| *other != at) {
            if !self.metadata.is_electable(crate::NodeNumber(other as u32)) {
                return Some("a standby is not counted");
            }
            if self.standby(other).is_none_or(|standby| standby.memory != memory) {
                return Some("a standby has not what the owner has");
            }
        }
        None
    }
}
