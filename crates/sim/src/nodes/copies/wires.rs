//! Connections between owners and acceptors. What an owner of before has sent may arrive after its end.
//!
//! A wire has two ways, as `loggroup::Remote` has two connections. Each keeps its own bytes in order. The second one is
//! for old blocks, and is made when it is needed first. The two end together, each with some bytes under way.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use loggroup::{Caller, Heard, Local, Port};
use membership::AcceptorId;
use quorum::{Order, Reply, Request};
use redolog::simulated::{Chance, Simulated};

use super::World;
use super::rise::SEALED_US;
use crate::invariants::Verdict;
use crate::nodes::agenda::{Copying, Time};
use crate::nodes::plan::Planted;
use crate::note;

/// Longest time until an owner hears that a wire has ended, microseconds.
const WITHIN: Time = 200_000;

/// The way that every wire has, and the one for old blocks.
const FIRST: usize = 0;
const SECOND: usize = 1;

/// How much longer bytes may take on one of two ways, microseconds: then those of the other overtake them.
const SLOWER: [Time; 4] = [1, 1, 2_000, 30_000];

/// Bytes under way: when they arrive, how many were sent on the wire before them, and they.
type UnderWay = VecDeque<(Time, u64, Vec<u8>)>;

/// A connection of a wire.
#[derive(Default)]
struct Connection {
    /// None: the acceptor's process has ended, or there is no such connection.
    caller: Option<Caller<Simulated>>,
    there: UnderWay,
    back: UnderWay,
    /// When the last bytes arrive, in each direction.
    last: [Time; 2],
    /// How much longer bytes take.
    slow: Time,
}

/// The second way.
#[derive(Default)]
enum Apart {
    #[default]
    None,
    /// It is being made, for these requests.
    Dialed(Vec<Request>),
    Open,
    /// There is none to be had: the first one has to do.
    Never,
}

/// The connections to an acceptor.
struct Wire {
    /// The owner's node, and the number of its driver.
    from: (usize, u64),
    acceptor: AcceptorId,
    folder: usize,
    /// The acceptor's node.
    to: usize,
    ways: [Connection; 2],
    apart: Apart,
    /// How many requests were sent.
    sent: u64,
    /// The owner uses it.
    is_open: bool,
}

impl Wire {
    /// The owner does not use it any more. A part of what is under way arrives.
    fn close(&mut self, chance: &mut Chance) {
        (self.is_open, self.apart) = (false, Apart::Never);
        for way in &mut self.ways {
            way.back.clear();
            way.there.truncate(chance.below(way.there.len() as u64 + 1) as usize);
        }
    }

    /// Nothing is under way to the acceptor any more.
    fn is_empty(&self) -> bool {
        self.ways.iter().all(|way| way.there.is_empty())
    }
}

/// See the module's text.
#[derive(Default)]
pub struct Wires {
    all: BTreeMap<u64, Wire>,
    next: u64,
    /// Replies that acceptors have given, and over which way of which wire.
    replies: Arc<Mutex<Vec<(u64, usize, Reply)>>>,
}

impl Wires {
    fn of(&self, from: (usize, u64), acceptor: AcceptorId) -> Option<u64> {
        let is_it = |wire: &Wire| wire.is_open && wire.from == from && wire.acceptor == acceptor;
        self.all.iter().find(|(_, wire)| is_it(wire)).map(|(number, _)| *number)
    }

    /// A connection to an acceptor, for a way of a wire.
    fn caller(&self, local: &Local<Simulated>, number: u64, way: usize) -> Caller<Simulated> {
        let replies = self.replies.clone();
        local.caller(Arc::new(move |_, heard| {
            if let Heard::Reply(reply) = heard {
                replies.lock().unwrap_or_else(PoisonError::into_inner).push((number, way, reply));
            }
        }))
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
        let has = |drawer: &super::Drawer| drawer.local.as_ref().is_some_and(|local| local.id() == acceptor);
        let folder = self.copies.drawers.iter().position(has).filter(|_| reaches);
        let local = folder.and_then(|folder| self.copies.drawers[folder].local.as_ref());
        let (Some(folder), Some(local)) = (folder, local) else {
            let wait = 50_000 + self.story.chance.below(if self.is_over { 50_000 } else { 400_000 });
            self.put_copying(wait, Copying::Dial { from, acceptor });
            return Ok(());
        };
        let number = self.copies.wires.next;
        let caller = Some(self.copies.wires.caller(local, number, FIRST));
        let ways = [Connection { caller, ..Connection::default() }, Connection::default()];
        let wire = Wire { from, acceptor, folder, to, ways, apart: Apart::None, sent: 0, is_open: true };
        self.copies.wires.next += 1;
        self.copies.wires.all.insert(number, wire);
        note!(self.story.trace, "wire {number} from node {} to folder {folder} at node {to}", from.0);
        self.hear_of_acceptor(from.0, acceptor, Heard::Connected)
    }

    /// The requests that a node's driver has sent go on their way.
    pub(super) fn send_there(&mut self, node: usize) {
        let Some(keeper) = &self.copies.processes[node].keeper else { return };
        let (from, due) = ((node, keeper.number), std::mem::take(&mut *keeper.outbox.lock()));
        for (acceptor, request, apart) in due {
            let Some(keeper) = &mut self.copies.processes[node].keeper else { return };
            let records = keeper.departed.records(&request);
            self.members[node].host.note_departed(records);
            let Some(number) = self.copies.wires.of(from, acceptor) else { continue };
            if apart { self.send_apart(number, request) } else { self.put_there(number, FIRST, &request) }
        }
    }

    /// A planted mistake: how much longer requests of a node with blocks may take, microseconds.
    fn slow_of(&self, node: usize) -> Time {
        let process = &self.copies.processes[node];
        match (&process.keeper, self.plan.planted) {
            (Some(_), Planted::ServesSealed) if self.is_over || !process.has_led => 1,
            (Some(keeper), Planted::ServesSealed) if keeper.driver.leads() == Ok(false) => SEALED_US,
            // Then the own log alone has the last blocks when a process ends.
            (Some(_), Planted::ServesSealed) => SEALED_US / 40,
            _ => 1,
        }
    }

    /// A request goes by the second way, which may have to be made for it.
    fn send_apart(&mut self, number: u64, request: Request) {
        let Some(wire) = self.copies.wires.all.get_mut(&number) else { return };
        match &mut wire.apart {
            Apart::Dialed(waiting) => waiting.push(request),
            Apart::Open => self.put_there(number, SECOND, &request),
            Apart::Never => self.put_there(number, FIRST, &request),
            Apart::None => {
                wire.apart = Apart::Dialed(vec![request]);
                let (from, to) = (wire.from.0, wire.to);
                let wait = 2 * self.network.latency(from, to, &mut self.story.chance);
                self.put_copying(wait, Copying::Apart { wire: number });
            }
        }
    }

    /// The second way of a wire is there, or there is none to be had.
    pub(super) fn open_apart(&mut self, number: u64) -> Verdict {
        let Some(wire) = self.copies.wires.all.get(&number) else { return Ok(()) };
        let (from, to, folder) = (wire.from.0, wire.to, wire.folder);
        let busy = self.members[from].paused_until.max(self.members[to].paused_until);
        if busy > self.now {
            let wait = busy - self.now;
            self.put_copying(wait, Copying::Apart { wire: number });
            return Ok(());
        }
        let can = self.reach(from, to) && !self.story.once_in(8);
        let local = self.copies.drawers[folder].local.as_ref().filter(|_| can);
        let caller = local.map(|local| self.copies.wires.caller(local, number, SECOND));
        let Some(wire) = self.copies.wires.all.get_mut(&number) else { return Ok(()) };
        let Apart::Dialed(waiting) = std::mem::take(&mut wire.apart) else {
            wire.apart = Apart::Never;
            return Ok(());
        };
        let way = if caller.is_some() { SECOND } else { FIRST };
        note!(self.story.trace, "wire {number}: {} old ones go by way {way}", waiting.len());
        if caller.is_some() {
            let slower = SLOWER[self.story.one_of(SLOWER.len())];
            wire.ways[self.story.one_of(2)].slow = self.story.chance.below(slower);
            (wire.apart, wire.ways[SECOND].caller) = (Apart::Open, caller);
        } else {
            wire.apart = Apart::Never;
        }
        waiting.iter().for_each(|request| self.put_there(number, way, request));
        Ok(())
    }

    /// A request goes on its way.
    fn put_there(&mut self, number: u64, which: usize, request: &Request) {
        let Some(slow) = self.copies.wires.all.get(&number).map(|wire| self.slow_of(wire.from.0)) else { return };
        let Some(wire) = self.copies.wires.all.get_mut(&number) else { return };
        let way = &mut wire.ways[which];
        if way.caller.is_none() {
            return;
        }
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let mut at = self.now + way.slow + self.network.latency(wire.from.0, wire.to, &mut self.story.chance);
        if slow > 1 && matches!(request.order, Order::Append { .. }) {
            at += self.story.chance.below(slow);
        }
        way.last[0] = way.last[0].max(at);
        way.there.push_back((way.last[0], wire.sent, bytes));
        wire.sent += 1;
        let wait = way.last[0] - self.now;
        self.put_copying(wait, Copying::There { wire: number, way: which });
    }

    /// The replies that acceptors have given go on their way.
    pub(super) fn send_back(&mut self) {
        let due = std::mem::take(&mut *self.copies.wires.replies.lock().unwrap_or_else(PoisonError::into_inner));
        for (number, which, reply) in due {
            let Some(wire) = self.copies.wires.all.get_mut(&number) else { continue };
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            let way = &mut wire.ways[which];
            let at = self.now + way.slow + self.network.latency(wire.to, wire.from.0, &mut self.story.chance);
            way.last[1] = way.last[1].max(at);
            way.back.push_back((way.last[1], 0, bytes));
            let wait = way.last[1] - self.now;
            self.put_copying(wait, Copying::Back { wire: number, way: which });
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
    pub(super) fn carry_there(&mut self, number: u64, which: usize) -> Verdict {
        let Some(wire) = self.copies.wires.all.get(&number) else { return Ok(()) };
        let (from, to) = (wire.from.0, wire.to);
        if let Some(wait) = self.is_held_up(from, to) {
            if self.network.blocked.contains(&(from, to)) && self.story.once_in(30) {
                return self.break_one(number);
            }
            self.put_copying(wait, Copying::There { wire: number, way: which });
            return Ok(());
        }
        let Some(wire) = self.copies.wires.all.get_mut(&number) else { return Ok(()) };
        let way = &mut wire.ways[which];
        let Some((_, sent, bytes)) = way.there.pop_front_if(|(at, ..)| *at <= self.now) else { return Ok(()) };
        let folder = wire.folder;
        if let (Ok(request), Some(caller)) = (Request::decode(&bytes), &way.caller) {
            note!(self.story.trace, "wire {number}, way {which}: {}", said(&request));
            caller.send(request);
        }
        if wire.ways[1 - which].there.front().is_some_and(|(_, other, _)| *other < sent) {
            let counts = &mut self.story.counts;
            *[&mut counts.overtook_old, &mut counts.overtook_new][which] += 1;
        }
        if !wire.is_open && wire.is_empty() {
            self.copies.wires.all.remove(&number);
        }
        self.send_back();
        self.wake(folder);
        Ok(())
    }

    /// A reply may arrive.
    pub(super) fn carry_back(&mut self, number: u64, which: usize) -> Verdict {
        let Some(wire) = self.copies.wires.all.get(&number) else { return Ok(()) };
        let (from, to) = (wire.to, wire.from.0);
        if let Some(wait) = self.is_held_up(from, to) {
            self.put_copying(wait, Copying::Back { wire: number, way: which });
            return Ok(());
        }
        let Some(wire) = self.copies.wires.all.get_mut(&number) else { return Ok(()) };
        let back = &mut wire.ways[which].back;
        let Some((.., bytes)) = back.pop_front_if(|(at, ..)| *at <= self.now) else { return Ok(()) };
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
        wire.close(&mut self.story.chance);
        if wire.is_empty() {
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
                wire.close(&mut self.story.chance);
                if !wire.is_empty() {
                    continue;
                }
            } else if wire.is_open && wire.from.0 != node {
                (wire.ways, wire.apart) = (<[Connection; 2]>::default(), Apart::Never);
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
