//! Connections between owners and acceptors. Each keeps its bytes in order, and may end with some of them under way. What
//! an owner of before has sent may arrive after its end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use loggroup::{Caller, Heard, Port};
use membership::AcceptorId;
use quorum::{Order, Reply, Request};
use redolog::simulated::Simulated;

use super::World;
use super::rise::SEALED_US;
use crate::invariants::Verdict;
use crate::nodes::agenda::{Copying, Time};
use crate::nodes::plan::Planted;
use crate::note;

/// Longest time until an owner hears that a wire has ended, microseconds.
const WITHIN: Time = 200_000;

/// A connection.
struct Wire {
    /// The owner's node, and the number of its driver.
    from: (usize, u64),
    acceptor: AcceptorId,
    folder: usize,
    /// The acceptor's node.
    to: usize,
    /// None: the acceptor's process has ended.
    caller: Option<Caller<Simulated>>,
    there: VecDeque<(Time, Vec<u8>)>,
    back: VecDeque<(Time, Vec<u8>)>,
    /// When the last bytes arrive, in each direction.
    last: [Time; 2],
    /// The owner uses it.
    is_open: bool,
}

/// See the module's text.
#[derive(Default)]
pub struct Wires {
    all: BTreeMap<u64, Wire>,
    next: u64,
    /// Replies that acceptors have given, and over which wire.
    replies: Arc<Mutex<Vec<(u64, Reply)>>>,
}

impl Wires {
    fn of(&self, from: (usize, u64), acceptor: AcceptorId) -> Option<u64> {
        let is_it = |wire: &Wire| wire.is_open && wire.from == from && wire.acceptor == acceptor;
        self.all.iter().find(|(_, wire)| is_it(wire)).map(|(number, _)| *number)
    }
}

impl World {
    /// True if the driver is that of its node.
    fn is_driver(&self, (node, number): (usize, u64)) -> bool {
        self.copies.processes[node].keeper.as_ref().is_some_and(|keeper| keeper.number == number)
    }

    /// A driver wants to reach an acceptor.
    pub(super) fn dial_acceptor(&mut self, from: (usize, u64), acceptor: AcceptorId) -> Verdict {
        if !self.is_driver(from) || self.copies.wires.of(from, acceptor).is_some() {
            return Ok(());
        }
        let to = self.copies.processes[from.0].keeper.as_ref().and_then(|keeper| keeper.places.get(&acceptor).copied());
        let Some(to) = to else { return Ok(()) };
        let reaches = self.reach(from.0, to);
        let number = self.copies.wires.next;
        let has = |drawer: &super::Drawer| drawer.local.as_ref().is_some_and(|local| local.id() == acceptor);
        let folder = self.copies.drawers.iter().position(has).filter(|_| reaches);
        let local = folder.and_then(|folder| self.copies.drawers[folder].local.as_ref());
        let (Some(folder), Some(local)) = (folder, local) else {
            let wait = 50_000 + self.story.chance.below(if self.is_over { 50_000 } else { 400_000 });
            self.put_copying(wait, Copying::Dial { from, acceptor });
            return Ok(());
        };
        let replies = self.copies.wires.replies.clone();
        let caller = local.caller(Arc::new(move |_, heard| {
            if let Heard::Reply(reply) = heard {
                replies.lock().unwrap_or_else(PoisonError::into_inner).push((number, reply));
            }
        }));
        let (there, back, last) = (VecDeque::new(), VecDeque::new(), [self.now; 2]);
        self.copies.wires.next += 1;
        let caller = Some(caller);
        let wire = Wire { from, acceptor, folder, to, caller, there, back, last, is_open: true };
        self.copies.wires.all.insert(number, wire);
        note!(self.story.trace, "wire {number} from node {} to folder {folder} at node {to}", from.0);
        self.hear_of_acceptor(from.0, acceptor, Heard::Connected)
    }

    /// The requests that a node's driver has sent go on their way.
    pub(super) fn send_there(&mut self, node: usize) {
        let process = &self.copies.processes[node];
        let Some(keeper) = &process.keeper else { return };
        let (from, due) = ((node, keeper.number), std::mem::take(&mut *keeper.outbox.lock()));
        let slow = match self.plan.planted {
            Planted::ServesSealed if self.is_over || !process.has_led => 1,
            Planted::ServesSealed if keeper.driver.leads() == Ok(false) => SEALED_US,
            // Then the own log alone has the last blocks when a process ends.
            Planted::ServesSealed => SEALED_US / 40,
            _ => 1,
        };
        for (acceptor, request) in due {
            let Some(keeper) = &mut self.copies.processes[node].keeper else { return };
            let records = keeper.departed.records(&request);
            self.members[node].host.note_departed(records);
            let Some(number) = self.copies.wires.of(from, acceptor) else { continue };
            let wire = self.copies.wires.all.get_mut(&number).filter(|wire| wire.caller.is_some());
            let Some(wire) = wire else { continue };
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            let mut at = self.now + self.network.latency(node, wire.to, &mut self.story.chance);
            if slow > 1 && matches!(request.order, Order::Append { .. }) {
                at += self.story.chance.below(slow);
            }
            wire.last[0] = wire.last[0].max(at);
            wire.there.push_back((wire.last[0], bytes));
            let wait = wire.last[0] - self.now;
            self.put_copying(wait, Copying::There { wire: number });
        }
    }

    /// The replies that acceptors have given go on their way.
    pub(super) fn send_back(&mut self) {
        let due = std::mem::take(&mut *self.copies.wires.replies.lock().unwrap_or_else(PoisonError::into_inner));
        for (number, reply) in due {
            let Some(wire) = self.copies.wires.all.get_mut(&number) else { continue };
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            let at = self.now + self.network.latency(wire.to, wire.from.0, &mut self.story.chance);
            wire.last[1] = wire.last[1].max(at);
            wire.back.push_back((wire.last[1], bytes));
            let wait = wire.last[1] - self.now;
            self.put_copying(wait, Copying::Back { wire: number });
        }
    }

    /// Until when bytes wait that could arrive now: a node stands still, or is not reached.
    fn is_held_up(&mut self, from: usize, to: usize) -> Option<Time> {
        let until = self.members[to].paused_until;
        if until > self.now {
            return Some(until - self.now);
        }
        let is_blocked = self.network.blocked.contains(&(from, to));
        is_blocked.then(|| 5_000 + self.story.chance.below(60_000))
    }

    /// A request may arrive.
    pub(super) fn carry_there(&mut self, number: u64) -> Verdict {
        let Some(wire) = self.copies.wires.all.get(&number) else { return Ok(()) };
        let (from, to) = (wire.from.0, wire.to);
        if let Some(wait) = self.is_held_up(from, to) {
            if self.network.blocked.contains(&(from, to)) && self.story.once_in(30) {
                return self.break_one(number);
            }
            self.put_copying(wait, Copying::There { wire: number });
            return Ok(());
        }
        let Some(wire) = self.copies.wires.all.get_mut(&number) else { return Ok(()) };
        let Some((_, bytes)) = wire.there.pop_front_if(|(at, _)| *at <= self.now) else { return Ok(()) };
        let folder = wire.folder;
        if let (Ok(request), Some(caller)) = (Request::decode(&bytes), &wire.caller) {
            note!(self.story.trace, "wire {number}: {}", said(&request));
            caller.send(request);
        }
        if !wire.is_open && wire.there.is_empty() {
            self.copies.wires.all.remove(&number);
        }
        self.send_back();
        self.wake(folder);
        Ok(())
    }

    /// A reply may arrive.
    pub(super) fn carry_back(&mut self, number: u64) -> Verdict {
        let Some(wire) = self.copies.wires.all.get(&number) else { return Ok(()) };
        let (from, to) = (wire.to, wire.from.0);
        if let Some(wait) = self.is_held_up(from, to) {
            self.put_copying(wait, Copying::Back { wire: number });
            return Ok(());
        }
        let Some(wire) = self.copies.wires.all.get_mut(&number) else { return Ok(()) };
        let Some((_, bytes)) = wire.back.pop_front_if(|(at, _)| *at <= self.now) else { return Ok(()) };
        let (from, acceptor, is_open) = (wire.from, wire.acceptor, wire.is_open);
        match Reply::decode(&bytes) {
            Ok(reply) if is_open && self.is_driver(from) => {
                self.hear_of_acceptor(from.0, acceptor, Heard::Reply(reply))
            }
            _ => Ok(()),
        }
    }

    /// The driver of a node hears something of an acceptor.
    fn hear_of_acceptor(&mut self, node: usize, acceptor: AcceptorId, heard: Heard) -> Verdict {
        self.members[node].tell_time(self.now);
        let Some(keeper) = &self.copies.processes[node].keeper else { return Ok(()) };
        let listener = keeper.listener.clone();
        listener(acceptor, heard);
        self.go_on(node)
    }

    /// The owner hears that a wire has ended.
    pub(super) fn hear_end(&mut self, number: u64) -> Verdict {
        let Some(wire) = self.copies.wires.all.remove(&number) else { return Ok(()) };
        if !wire.is_open || !self.is_driver(wire.from) {
            return Ok(());
        }
        let wait = 1_000 + self.story.chance.below(50_000);
        self.put_copying(wait, Copying::Dial { from: wire.from, acceptor: wire.acceptor });
        self.hear_of_acceptor(wire.from.0, wire.acceptor, Heard::Lost)
    }

    /// A wire breaks: a part of what is under way arrives.
    fn break_one(&mut self, number: u64) -> Verdict {
        let Some(wire) = self.copies.wires.all.get_mut(&number) else { return Ok(()) };
        note!(self.story.trace, "wire {number} breaks");
        let (from, acceptor, was_open) = (wire.from, wire.acceptor, wire.is_open);
        wire.is_open = false;
        wire.back.clear();
        wire.there.truncate(self.story.chance.below(wire.there.len() as u64 + 1) as usize);
        if wire.there.is_empty() {
            self.copies.wires.all.remove(&number);
        }
        if !was_open || !self.is_driver(from) {
            return Ok(());
        }
        let wait = 1_000 + self.story.chance.below(50_000);
        self.put_copying(wait, Copying::Dial { from, acceptor });
        self.hear_of_acceptor(from.0, acceptor, Heard::Lost)
    }

    /// Some wire breaks.
    pub(crate) fn break_wire(&mut self) -> Verdict {
        let open: Vec<u64> =
            self.copies.wires.all.iter().filter(|(_, wire)| wire.is_open).map(|(number, _)| *number).collect();
        if open.is_empty() {
            return Ok(());
        }
        let which = self.story.one_of(open.len());
        self.break_one(open[which])
    }

    /// A node's process has ended. What it has sent arrives in part; what was sent to it does not.
    pub(super) fn end_wires(&mut self, node: usize) {
        let of_node: Vec<u64> = self
            .copies
            .wires
            .all
            .iter()
            .filter_map(|(number, wire)| (wire.to == node || wire.from.0 == node).then_some(*number))
            .collect();
        self.copies.wires.replies.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for number in of_node {
            let Some(wire) = self.copies.wires.all.get_mut(&number) else { continue };
            if wire.to != node {
                wire.is_open = false;
                wire.back.clear();
                wire.there.truncate(self.story.chance.below(wire.there.len() as u64 + 1) as usize);
                if !wire.there.is_empty() {
                    continue;
                }
            } else if wire.is_open && wire.from.0 != node {
                (wire.caller, wire.there, wire.back) = (None, VecDeque::new(), VecDeque::new());
                let wait = 1 + self.story.chance.below(WITHIN);
                self.put_copying(wait, Copying::Lost { wire: number });
                continue;
            }
            self.copies.wires.all.remove(&number);
        }
    }
}

/// A request, for people.
fn said(request: &Request) -> String {
    let term = request.term.get();
    match &request.order {
        Order::Append { stream, block, .. } => {
            format!("term {term}: block {} of term {} of stream {}", block.id.sequence, block.id.term.get(), stream.0)
        }
        order => format!("term {term}: {order:?}"),
    }
}
