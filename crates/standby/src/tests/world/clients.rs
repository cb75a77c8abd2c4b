//! Clients of one origin, which knows what it has sent and what was answered.

use std::collections::BTreeSet;

use super::ghosts::CLOSED;
use super::{Plan, Record, Role, World};
use crate::Process;
use crate::fate::{Fate, Sent, Waits, of_lost_planted};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Write,
    /// A pop that waits at the owner.
    Pop,
    Read,
    /// A reading attempt of a transaction.
    Attempt,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// The origin waits for an owner.
    Waiting,
    Sent(Process),
    Answered,
    Closed,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Command {
    pub kind: Kind,
    pub state: State,
    /// What had been acknowledged when the client sent it.
    pub after: BTreeSet<Record>,
}

impl World {
    /// A client sends a command to the origin.
    pub fn ask(&mut self) {
        self.left.commands -= 1;
        let kinds = [Kind::Write, Kind::Read, Kind::Write, Kind::Pop, Kind::Attempt];
        let kind = kinds[self.commands.len() % kinds.len()];
        let after = self.ghosts.acknowledged.clone();
        self.commands.push(Command { kind, state: State::Waiting, after });
    }

    /// The origin sends a command on.
    pub fn send(&mut self, command: usize, to: usize) {
        let process = self.process(to);
        if let Some(owner) = self.owner(to) {
            owner.inbox.push(command as u8);
            self.commands[command].state = State::Sent(process);
        }
    }

    /// An owner gives commands back that it has not executed.
    pub fn send_back(&mut self, commands: Vec<u8>) {
        for command in commands {
            self.commands[usize::from(command)].state = State::Waiting;
        }
    }

    /// A process has ended, or says that it answers nothing more of what it has executed.
    pub fn lose(&mut self, plan: &Plan, process: Process) {
        for command in self.commands.iter_mut().filter(|command| command.state == State::Sent(process)) {
            let may_write = !matches!(command.kind, Kind::Read);
            let waits = if command.kind == Kind::Pop { Waits::AtOwner } else { Waits::Nowhere };
            command.state = match of_lost_planted(Sent { may_write, waits }, plan.planted()) {
                Fate::Again => State::Waiting,
                Fate::Close => {
                    if !self.ghosts.is_unplanned {
                        self.ghosts.break_on(CLOSED);
                    }
                    State::Closed
                }
                Fate::Stays => command.state,
            };
        }
    }

    pub fn answer(&mut self, command: u8, record: Option<Record>) {
        let of = &mut self.commands[usize::from(command)];
        if matches!(of.state, State::Sent(_)) {
            of.state = State::Answered;
            self.ghosts.acknowledged.extend(record);
        }
    }

    /// Nodes whose processes might own the shard, as far as the origin knows.
    pub fn targets(&self) -> impl Iterator<Item = usize> + '_ {
        let is_owner = |at: &usize| {
            let running = self.nodes[*at].running.as_ref();
            running.is_some_and(|running| matches!(&running.role, Role::Owner(owner) if !owner.is_over))
        };
        (0..self.nodes.len()).filter(is_owner)
    }
}
