//! The steps that can happen next.

use super::{Packet, Plan, Plant, SHARD, World};
use crate::planted::Mistake;
use crate::{Op, Order, Request, Stage, StreamId};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// A process is given the next term.
    Give,
    /// A second process is given the last one.
    GiveTwice,
    /// The process of the last term is given the next one.
    Again(usize),
    /// A change of acceptors begins: this one goes. The next term is given to another process, or to the same one.
    Change(usize, Option<usize>),
    Settle(usize),
    /// Packets by their place in the network.
    Deliver(usize),
    Repeat(usize),
    Lose(usize),
    Reconnect(usize, usize),
    Land(usize, usize),
    Restart(usize, u64),
    Power(usize, u64),
    Wipe(usize),
    /// An operator copies a folder, and puts the copy in its place later.
    CopyFolder(usize),
    SetBack(usize, u64),
    Fail(usize),
    /// A folder has no room for more blocks, or has room again.
    Room(usize, bool),
    Write(usize, u16, bool),
    Show(usize),
    Sync(usize, u16),
    Advance(usize, u16),
    /// An owner tells standbys how far they may go.
    Mark(usize),
    Cut(usize, u16),
    /// An owner has an acceptor begin where its log does, whatever that has.
    Bootstrap(usize, usize, u16),
}

/// Steps of one kind happen equally often.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Term,
    Metadata,
    ToAcceptor,
    ToOwner,
    Network,
    Disk,
    Process,
    Loss,
    Record,
    Sync,
    Cut,
}

impl Kind {
    pub const COUNT: usize = 11;
}

fn push(steps: &mut Vec<(Kind, Step)>, kind: Kind, step: Step) {
    steps.push((kind, step));
}

impl World {
    pub fn steps(&self, plan: &Plan, steps: &mut Vec<(Kind, Step)>) {
        if self.ghosts.broken.is_some() {
            return;
        }
        self.steps_of_metadata(plan, steps);
        self.steps_of_network(steps);
        self.steps_of_machines(steps);
        (0..self.hosts.len()).for_each(|host| self.steps_of_host(plan, host, steps));
    }

    fn steps_of_metadata(&self, plan: &Plan, steps: &mut Vec<(Kind, Step)>) {
        if self.left.twice > 0 && self.given > 0 {
            push(steps, Kind::Term, Step::GiveTwice);
        }
        if self.given >= plan.terms {
            return;
        }
        if !self.is_set_back() {
            push(steps, Kind::Term, Step::Give);
        }
        let owns = |host: &usize| {
            self.is_newest(*host) && matches!(self.hosts[*host].owner.stage(), Stage::Begun | Stage::Leading)
        };
        let present = (0..self.hosts.len()).find(owns).filter(|_| self.left.again > 0);
        if let Some(host) = present {
            push(steps, Kind::Metadata, Step::Again(host));
        }
        if self.left.changes > 0 && self.pending.is_none() && self.spare(plan).is_some() {
            for out in 0..self.settled.len() {
                if !self.is_set_back() {
                    push(steps, Kind::Metadata, Step::Change(out, None));
                }
                if present.is_some() {
                    push(steps, Kind::Metadata, Step::Change(out, present));
                }
            }
        }
    }

    fn spare(&self, plan: &Plan) -> Option<usize> {
        (plan.acceptors..self.machines.len()).find(|at| !self.settled.contains(at))
    }

    fn steps_of_network(&self, steps: &mut Vec<(Kind, Step)>) {
        for (at, packet) in self.network.iter().enumerate() {
            let kind = if matches!(packet, Packet::To(..)) { Kind::ToAcceptor } else { Kind::ToOwner };
            push(steps, kind, Step::Deliver(at));
            if self.left.repeats > 0 {
                push(steps, Kind::Network, Step::Repeat(at));
            }
            if self.left.losses > 0 {
                push(steps, Kind::Network, Step::Lose(at));
            }
        }
    }

    fn steps_of_machines(&self, steps: &mut Vec<(Kind, Step)>) {
        for (at, machine) in self.machines.iter().enumerate() {
            let waits = |op: &Op| machine.is_full && matches!(op, Op::Write { .. });
            for op in (0..machine.ops.len()).filter(|op| !waits(&machine.ops[*op])) {
                push(steps, Kind::Disk, Step::Land(at, op));
            }
            if machine.acceptor.is_none() {
                continue;
            }
            for kept in [0, u64::MAX] {
                if self.left.restarts > 0 {
                    push(steps, Kind::Process, Step::Restart(at, kept));
                }
                if self.left.powers > 0 {
                    push(steps, Kind::Process, Step::Power(at, kept));
                }
            }
            if self.left.wipes > 0 {
                push(steps, Kind::Loss, Step::Wipe(at));
            }
            if self.left.set_backs > 0 && machine.copy.is_none() {
                push(steps, Kind::Loss, Step::CopyFolder(at));
            } else if self.left.set_backs > 0 && self.present().is_some() {
                push(steps, Kind::Loss, Step::SetBack(at, 0));
            }
            if self.left.failures > 0 {
                push(steps, Kind::Loss, Step::Fail(at));
            }
            if machine.is_full {
                push(steps, Kind::Disk, Step::Room(at, false));
            } else if self.left.lacks > 0 {
                push(steps, Kind::Loss, Step::Room(at, true));
            }
        }
    }

    fn steps_of_host(&self, plan: &Plan, at: usize, steps: &mut Vec<(Kind, Step)>) {
        let host = &self.hosts[at];
        let stage = host.owner.stage();
        if stage == Stage::Fenced {
            return;
        }
        if host.may_settle && self.is_newest(at) && self.pending.is_some() {
            push(steps, Kind::Metadata, Step::Settle(at));
        }
        if self.left.reconnects > 0 {
            (0..self.machines.len()).for_each(|to| push(steps, Kind::Network, Step::Reconnect(at, to)));
        }
        let appends =
            stage == Stage::Leading || stage == Stage::Begun && plan.plant == Plant::Inside(Mistake::StreamLeads);
        if appends && host.writes_left > 0 {
            for stream in 0..plan.streams as u16 {
                push(steps, Kind::Record, Step::Write(at, stream, false));
                if plan.streams > 1 {
                    push(steps, Kind::Record, Step::Write(at, stream, true));
                }
            }
            if plan.plant == Plant::VersionsWithoutRecords {
                push(steps, Kind::Record, Step::Show(at));
            }
        }
        if self.left.marks > 0 && host.owner.wants_marks() {
            push(steps, Kind::Sync, Step::Mark(at));
        }
        for stream in 0..plan.streams as u16 {
            if !plan.through && stage >= Stage::Copying {
                push(steps, Kind::Sync, Step::Sync(at, stream));
            }
            if plan.advances && stage == Stage::Leading {
                push(steps, Kind::Sync, Step::Advance(at, stream));
            }
            if self.left.cuts > 0 && stage == Stage::Leading {
                push(steps, Kind::Cut, Step::Cut(at, stream));
            }
            if self.left.bootstraps > 0 && stage == Stage::Leading {
                (0..self.machines.len()).for_each(|to| push(steps, Kind::Cut, Step::Bootstrap(at, to, stream)));
            }
        }
    }

    /// Takes a step.
    pub fn take(&mut self, plan: &Plan, step: Step) {
        match step {
            Step::Give => self.give(plan, false),
            Step::GiveTwice => {
                self.left.twice -= 1;
                self.give(plan, true);
            }
            Step::Again(host) => {
                self.left.again -= 1;
                self.give_again(plan, host);
            }
            Step::Change(out, to) => self.change(plan, out, to),
            Step::Settle(host) => self.settle(plan, host),
            Step::Deliver(at) | Step::Repeat(at) | Step::Lose(at) => self.move_packet(plan, step, at),
            Step::Reconnect(host, to) => {
                self.left.reconnects -= 1;
                self.connect(plan, host, to);
            }
            Step::Land(at, op) => self.land(plan, at, op),
            Step::Restart(at, kept) => {
                self.left.restarts -= 1;
                self.restart(plan, at, true, kept);
            }
            Step::Power(at, kept) => {
                self.left.powers -= 1;
                self.restart(plan, at, false, kept);
            }
            Step::Wipe(at) => {
                self.left.wipes -= 1;
                self.wipe(plan, at);
            }
            Step::CopyFolder(at) => self.copy_folder(at),
            Step::SetBack(at, kept) => {
                self.left.set_backs -= 1;
                self.set_back(plan, at, kept);
            }
            Step::Fail(at) => {
                self.left.failures -= 1;
                self.fail(plan, at);
            }
            Step::Room(at, is_full) => {
                self.left.lacks -= u8::from(is_full);
                self.set_room(plan, at, is_full);
            }
            Step::Write(host, stream, stands) => self.write(plan, host, StreamId(stream), stands),
            Step::Show(host) => self.show(host),
            Step::Sync(host, stream) => {
                let mut events = Vec::new();
                self.hosts[host].owner.sync(StreamId(stream), &mut events);
                self.events(plan, host, events);
            }
            Step::Advance(host, stream) => {
                let mut events = Vec::new();
                self.hosts[host].owner.advance(StreamId(stream), &mut events);
                self.events(plan, host, events);
            }
            Step::Mark(host) => {
                self.left.marks -= 1;
                self.mark(plan, host);
            }
            Step::Cut(host, stream) => {
                self.left.cuts -= 1;
                self.cut(plan, host, StreamId(stream));
            }
            Step::Bootstrap(host, to, stream) => {
                self.left.bootstraps -= 1;
                self.bootstrap(host, to, StreamId(stream));
            }
        }
        self.check_room(plan);
    }

    fn change(&mut self, plan: &Plan, out: usize, to: Option<usize>) {
        self.left.changes -= 1;
        let Some(spare) = self.spare(plan) else { return };
        let mut pending = self.settled.clone();
        pending[out] = spare;
        self.pending = Some(pending);
        match to {
            Some(host) => self.give_again(plan, host),
            None => self.give(plan, false),
        }
    }

    fn move_packet(&mut self, plan: &Plan, step: Step, at: usize) {
        let Some(packet) = self.network.iter().nth(at).cloned() else { return };
        match step {
            Step::Repeat(_) => self.left.repeats -= 1,
            Step::Lose(_) => {
                self.left.losses -= 1;
                self.network.remove(&packet);
                return;
            }
            _ => {
                self.network.remove(&packet);
            }
        }
        self.deliver(plan, packet);
    }

    fn bootstrap(&mut self, host: usize, to: usize, stream: StreamId) {
        let owner = &self.hosts[host].owner;
        let base = owner.history(stream).expect("a stream").base();
        let request = Request { shard: SHARD, term: owner.term(), order: Order::Reset { stream, base } };
        self.network.insert(Packet::To(to, request));
    }

    /// A step with what it is about, for a person.
    pub fn describe(&self, step: Step) -> String {
        match step {
            Step::Deliver(at) | Step::Repeat(at) | Step::Lose(at) => {
                format!("{step:?} {:?}", self.network.iter().nth(at))
            }
            Step::Land(at, op) => format!("{step:?} {:?}", self.machines[at].ops.get(op)),
            _ => format!("{step:?}"),
        }
    }
}
