//! Nodes, the network between them, their metadata and their clients, one event after the other, as a seed decides.

use std::sync::Arc;

use redolog::simulated::Chance;
use redolog::{After, Fsync};

use super::agenda::{Agenda, Chore, Event, Talk, Time};
use super::clients::{Client, said, shown};
use super::copies::Copies;
use super::history::{Came, History};
use super::invariants::{look_at_all, look_at_blocks};
use super::member::Member;
use super::metadata::{self, Metadata, RENEW_US};
use super::network::{Network, Piece};
use super::plan::{Plan, Planted};
use super::seat::Seat;
use crate::Outcome;
use crate::counts::Counts;
use crate::hardware::Hardware;
use crate::host::{Host, Mail};
use crate::invariants::{Verdict, Violation};
use crate::link::Link;
use crate::machine::Sent;
use crate::note;
use crate::story::Story;
use crate::trace::{Trace, hash};

/// How long all may take to come to rest when nothing is broken any more, microseconds.
const REST: Time = 60_000_000;

/// See the module's text.
pub struct World {
    pub(super) plan: Plan,
    /// The events so far.
    pub story: Story,
    pub(super) now: Time,
    pub(super) agenda: Agenda,
    pub(super) members: Vec<Member>,
    pub(super) network: Network,
    pub(super) metadata: Metadata,
    pub(super) clients: Vec<Client>,
    pub(super) history: History,
    pub(super) copies: Copies,
    /// No new faults happen, and no client begins a new request.
    pub(super) is_over: bool,
}

impl World {
    /// A world in which nothing has happened. `keep`: every line of the trace.
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn new(seed: u64, plan: Plan, keep: bool) -> Result<World, Violation> {
        let mut story = Story { chance: Chance(seed), trace: Trace::new(keep), counts: Counts::default() };
        note!(story.trace, "{plan:?}");
        let metadata = Metadata::new((plan.nodes, plan.spares), plan.planted == Planted::NamedByNode);
        let mut members = Vec::new();
        for node in 0..plan.nodes + plan.spares {
            let ignores = plan.planted == Planted::LeaseIgnored;
            let seat = Arc::new(Seat::new(metadata::id(node), metadata.latest().clone(), ignores));
            let hardware = Hardware { seat: Some(seat.clone()), ..Hardware::new(plan.node.streams) };
            let host = Host::with(hardware, &plan.node, &mut story)?;
            story.counts.starts += 1;
            members.push(Member::new(host, seat, &mut story.chance));
        }
        let clients = (0..plan.clients).map(|id| Client::new(id, plan.keys, &mut story.chance)).collect();
        let network = Network::new(plan.echoes, plan.planted == Planted::EarlyFinished);
        let (agenda, history) = (Agenda::default(), History::default());
        let copies = Copies::default();
        let mut world =
            World { plan, story, now: 0, agenda, members, network, metadata, clients, history, copies, is_over: false };
        world.begin()?;
        Ok(world)
    }

    fn begin(&mut self) -> Verdict {
        for node in 0..self.members.len() {
            self.start_chores(node);
            let at = self.story.chance.below(RENEW_US);
            self.agenda.put(at, Event::Talk(Talk::Renew { from: node }));
            let at = self.story.chance.below(50_000);
            self.agenda.put(at, Event::Talk(Talk::Follow { node }));
            self.agenda.put(at, Event::Talk(Talk::Announce { from: (node, 1) }));
        }
        self.agenda.put(0, Event::Talk(Talk::Elect));
        for client in 0..self.clients.len() {
            self.agenda.put(10_000 + client as Time, Event::Ask { client });
        }
        self.plan_fault();
        self.plan_hold_back();
        self.begin_copies()
    }

    /// Lives through all of it.
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn run(&mut self) -> Verdict {
        while self.now < self.plan.length {
            self.step()?;
        }
        self.is_over = true;
        self.mend_all()?;
        self.come_to_rest()?;
        let lists = self.look()?;
        match self.plan.node.fsync {
            Fsync::Always => look_at_all(&self.history, &lists),
            _ => look_at_blocks(&self.history, &lists),
        }
    }

    fn step(&mut self) -> Verdict {
        let Some((at, event)) = self.agenda.take() else {
            return Err(Violation { rule: "rest", what: "nothing happens any more".into() });
        };
        self.now = self.now.max(at);
        match event {
            Event::Chore { node, life, chore } => self.do_chore(at, node, life, chore),
            Event::Arrive { link, side } => self.arrive(link, side),
            Event::Dial { from, to, accepted } => self.dial(from, to, accepted),
            Event::Ask { client } => self.ask(client),
            Event::Carry { client, connection } => self.carry(client, connection),
            Event::Talk(talk) => self.talk(talk),
            Event::Fault => self.fault(),
            Event::HoldBack => self.hold_back(),
            Event::Start { node } => self.start(node),
            Event::Crash { node, life } => match self.members[node].life == life {
                true => self.crash(node),
                false => Ok(()),
            },
            Event::Mend(mend) => self.mend(mend),
            Event::Copies(copying) => self.copy(copying),
        }
    }

    // ---- nodes

    /// Plans the work of the threads of a node that has just been started.
    pub(super) fn start_chores(&mut self, node: usize) {
        for worker in 0..self.plan.node.workers {
            self.want(node, Chore::Turn(worker), self.now + 1);
        }
        self.plan_checkpoint(node);
    }

    fn plan_checkpoint(&mut self, node: usize) {
        let is_running = self.members[node].host.machine.rounds.is_running();
        let most = if is_running { 10_000 } else { 200_000 };
        let wait = 1_000 + self.story.chance.below(most);
        self.want(node, Chore::Checkpoint, self.now + wait);
    }

    pub(super) fn want(&mut self, node: usize, chore: Chore, at: Time) {
        let member = &mut self.members[node];
        if member.want(chore, at) {
            self.agenda.put(at, Event::Chore { node, life: member.life, chore });
        }
    }

    fn do_chore(&mut self, at: Time, node: usize, life: u64, chore: Chore) -> Verdict {
        let now = self.now;
        let member = &mut self.members[node];
        if member.life != life || !member.is_due(chore, at) || member.is_off {
            return Ok(());
        }
        if member.paused_until > now {
            let until = member.paused_until;
            self.want(node, chore, until);
            return Ok(());
        }
        member.tell_time(now);
        let story = &mut self.story;
        match chore {
            Chore::Turn(worker) => {
                let mail = member.host.turn(worker, story);
                if self.plan.planted == Planted::EarlyUnlock {
                    self.unlock_early(node);
                }
                if self.plan.planted == Planted::OverdueAsking {
                    self.ask_overdue(node);
                }
                self.hand_out(node, mail)?;
                self.take_dials(node);
            }
            Chore::Step(stream) => {
                let (late, apart) = (!story.once_in(4), story.once_in(2));
                let after = member.host.step_one_stream((stream, late, apart), story)?;
                let helps = story.once_in(2);
                while helps && member.host.machine.help_stream(stream, 0) {}
                let mut has_synced = false;
                while member.host.machine.help_stream(stream, 1) {
                    has_synced = true;
                }
                let takes = member.disk_takes(&mut story.chance);
                match after {
                    None if member.host.machine.in_flight(stream) > 0 => {
                        self.want(node, Chore::Land(stream), now + takes);
                    }
                    Some(After::Step) => self.want(node, Chore::Step(stream), now + takes),
                    Some(After::Sleep(Some(wait))) => {
                        self.want(node, Chore::Step(stream), now + (wait.as_micros() as Time).max(100));
                    }
                    _ => {}
                }
                if has_synced {
                    // A thread that has synced rings the workers.
                    self.want(node, Chore::Step(stream), now + takes);
                }
            }
            Chore::Land(stream) => {
                let flights = member.host.machine.in_flight(stream);
                if flights > 0 {
                    let which = story.one_of(flights);
                    member.host.machine.land(stream, which);
                    note!(story.trace, "block {which} of {flights} of stream {stream} is written");
                    self.want(node, Chore::Step(stream), now + 1);
                    if flights > 1 {
                        let takes = self.members[node].disk_takes(&mut self.story.chance);
                        self.want(node, Chore::Land(stream), now + takes);
                    }
                }
            }
            Chore::Fetch => member.host.fetch(story),
            Chore::Checkpoint => {
                member.host.checkpoint(story)?;
                self.plan_checkpoint(node);
            }
        }
        self.follow_up(node, chore)
    }

    /// The next work of a node's threads.
    pub(super) fn follow_up(&mut self, node: usize, done: Chore) -> Verdict {
        self.tend_copies(node);
        if self.members[node].host.hardware.is_dead() {
            note!(self.story.trace, "the power of node {node} fails");
            return self.crash(node);
        }
        for worker in 0..self.plan.node.workers {
            let at = self.members[node].next_turn(worker, self.now, &mut self.story.chance);
            if let Some(at) = at {
                self.want(node, Chore::Turn(worker), at);
            }
        }
        if matches!(done, Chore::Turn(_) | Chore::Checkpoint) {
            for stream in 0..self.plan.node.streams {
                let wait = 1 + self.story.chance.below(60);
                self.want(node, Chore::Step(stream), self.now + wait);
            }
        }
        if self.plan.node.is_cold && !matches!(done, Chore::Fetch) {
            let wait = 20 + self.story.chance.below(400);
            self.want(node, Chore::Fetch, self.now + wait);
        }
        Ok(())
    }

    /// The bytes that a worker has sent go to their destination.
    fn hand_out(&mut self, node: usize, mail: Mail) -> Verdict {
        for (worker, token, what) in mail {
            let end = (node, worker, token);
            if self.network.is_end(end) {
                let chance = &mut self.story.chance;
                let arrival = match what {
                    Sent::Bytes(bytes) => self.network.send(end, bytes, self.now, chance),
                    Sent::Closed => self.network.close(end, self.now, chance),
                };
                if let Some((at, link, side)) = arrival {
                    self.agenda.put(at, Event::Arrive { link, side });
                }
                continue;
            }
            let has = |client: &Client| client.node == node && client.link.to == Some((worker, token));
            if let Some(client) = self.clients.iter().position(has) {
                self.hear(client, what)?;
            }
        }
        Ok(())
    }

    // ---- links

    fn take_dials(&mut self, node: usize) {
        let life = self.members[node].life;
        for (worker, dial) in std::mem::take(&mut self.members[node].host.machine.dials) {
            let to = metadata::node_at(dial.port);
            let takes = 2 * self.network.latency(node, to, &mut self.story.chance);
            let from = (node, life, worker, dial.token);
            self.agenda.put(self.now + takes, Event::Dial { from, to, accepted: None });
        }
    }

    fn dial(&mut self, from: (usize, u64, usize, node::Token), to: usize, accepted: Option<u64>) -> Verdict {
        let (node, life, worker, token) = from;
        let now = self.now;
        if self.members[node].life != life || self.members[node].is_off {
            return Ok(());
        }
        let busy = self.members[node].paused_until.max(self.members[to].paused_until);
        if busy > now {
            self.agenda.put(busy, Event::Dial { from, to, accepted });
            return Ok(());
        }
        let end = (node, worker, token);
        if accepted.is_some() {
            // The other end may have gone since.
            if self.network.is_end(end) {
                self.members[node].tell_time(now);
                let wanted = self.members[node].host.machine.workers[worker].link_opened(token);
                if !wanted {
                    self.end_link(end);
                }
                self.want(node, Chore::Turn(worker), now + 1);
            }
            return Ok(());
        }
        if self.members[to].is_off || !self.network.reach(node, to) {
            note!(self.story.trace, "{node} does not reach {to}");
            let member = &mut self.members[node];
            member.tell_time(now);
            member.host.machine.workers[worker].closed(token);
            self.want(node, Chore::Turn(worker), now + 1);
            return Ok(());
        }
        let other = &mut self.members[to];
        other.tell_time(now);
        let at = self.story.chance.below(other.host.machine.workers.len() as u64) as usize;
        let unix_ms = other.host.hardware.clock.unix_ms();
        let given = other.host.machine.workers[at].accept_link(&format!("node-{node}"), unix_ms);
        let link = self.network.open(end, (to, at, given));
        note!(self.story.trace, "link {link} from {node} to {to}");
        let takes = self.network.latency(to, node, &mut self.story.chance);
        self.agenda.put(now + takes, Event::Dial { from, to, accepted: Some(link) });
        Ok(())
    }

    fn end_link(&mut self, end: super::network::End) {
        if let Some((at, link, side)) = self.network.close(end, self.now, &mut self.story.chance) {
            self.agenda.put(at, Event::Arrive { link, side });
        }
    }

    fn arrive(&mut self, link: u64, side: usize) -> Verdict {
        let now = self.now;
        // Bytes that arrive at a stopped node wait in its kernel.
        let until = self.network.target(link, side).map_or(0, |node| self.members[node].paused_until);
        if until > now {
            self.agenda.put(until, Event::Arrive { link, side });
            return Ok(());
        }
        let Some((end, pieces)) = self.network.arrive(link, side, now) else { return Ok(()) };
        let member = &mut self.members[end.0];
        member.tell_time(now);
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => {
                    note!(
                        self.story.trace,
                        "{} bytes over link {link} to {} {:016x}",
                        bytes.len(),
                        end.0,
                        hash(0, &bytes)
                    );
                    member.host.machine.workers[end.1].input(end.2, &bytes);
                }
                Piece::End => {
                    note!(self.story.trace, "link {link} has ended for {}", end.0);
                    member.host.machine.workers[end.1].closed(end.2);
                }
            }
        }
        let wait = 1 + self.story.chance.below(20);
        self.want(end.0, Chore::Turn(end.1), now + wait);
        Ok(())
    }

    // ---- clients

    fn connect(&mut self, client: usize) {
        let node = self.story.one_of(self.members.len());
        let member = &mut self.members[node];
        if member.is_off || member.paused_until > self.now {
            return;
        }
        member.tell_time(self.now);
        let worker = self.story.one_of(self.plan.node.workers);
        let token = member.host.machine.connect(worker);
        let known = &mut self.clients[client];
        known.connection += 1;
        known.node = node;
        known.link = Link::new(token.map(|token| (worker, token)));
        note!(self.story.trace, "client {client} is connected to node {node}");
        self.want(node, Chore::Turn(worker), self.now + 1);
    }

    fn ask(&mut self, client: usize) -> Verdict {
        if self.is_over {
            return Ok(());
        }
        let think = 1 + self.story.chance.below(self.plan.thinks);
        self.agenda.put(self.now + think, Event::Ask { client });
        if self.clients[client].link.to.is_none() {
            self.connect(client);
        }
        // Some do not wait for long.
        let waits = self.clients[client].waits_since().map_or(0, |since| self.now - since);
        if waits > 300_000 && self.story.once_in(60) {
            note!(self.story.trace, "client {client} goes");
            self.leave(client);
            return Ok(());
        }
        let (known, chance) = (&mut self.clients[client], &mut self.story.chance);
        if let Some(request) = known.next(&mut self.history, self.now, chance) {
            note!(self.story.trace, "client {client} asks {}", said(&request));
            let (connection, wait) = (known.connection, 20 + chance.below(300));
            self.agenda.put(self.now + wait, Event::Carry { client, connection });
        }
        Ok(())
    }

    fn leave(&mut self, client: usize) {
        let known = &mut self.clients[client];
        let (node, to) = (known.node, known.link.to);
        known.cut_off();
        if let Some((worker, token)) = to
            && !self.members[node].is_off
        {
            self.members[node].tell_time(self.now);
            self.members[node].host.machine.workers[worker].closed(token);
            self.want(node, Chore::Turn(worker), self.now + 1);
        }
    }

    /// Bytes of a client arrive, some of them later.
    fn carry(&mut self, client: usize, connection: u64) -> Verdict {
        let (known, story) = (&mut self.clients[client], &mut self.story);
        let Some((worker, token)) = known.link.to.filter(|_| known.connection == connection) else { return Ok(()) };
        let (node, there) = (known.node, known.link.under_way.len() as u64);
        if there == 0 || self.members[node].is_off {
            return Ok(());
        }
        let count = if story.once_in(4) { 1 + story.chance.below(there) } else { there };
        let bytes: Vec<u8> = known.link.under_way.drain(..count as usize).collect();
        self.members[node].host.machine.workers[worker].input(token, &bytes);
        if count < there {
            let wait = 1 + story.chance.below(500);
            self.agenda.put(self.now + wait, Event::Carry { client, connection });
        }
        self.want(node, Chore::Turn(worker), self.now + 1);
        Ok(())
    }

    fn hear(&mut self, client: usize, what: Sent) -> Verdict {
        let (known, story) = (&mut self.clients[client], &mut self.story);
        match what {
            Sent::Closed => {
                note!(story.trace, "client {client} is closed");
                known.cut_off();
            }
            Sent::Bytes(bytes) => {
                let answers = known.link.receive(&bytes).map_err(|what| Violation { rule: "replies", what })?;
                for replies in answers {
                    note!(story.trace, "client {client} hears {}", shown(&replies));
                    if known.answered(replies, &mut self.history)? {
                        story.counts.refused += 1;
                    } else {
                        story.counts.answered += 1;
                    }
                }
            }
        }
        Ok(())
    }

    // ---- the end

    /// Lets everything that is under way come to its end.
    fn come_to_rest(&mut self) -> Verdict {
        let until = self.now + REST;
        let mut look = self.now;
        while self.now < until {
            self.step()?;
            if self.now >= look {
                look = self.now + 5_000;
                if self.is_at_rest() {
                    return Ok(());
                }
            }
        }
        Err(super::invariants::locks::unrest(&self.members, &self.clients))
    }

    fn is_at_rest(&self) -> bool {
        let rests = |member: &Member| {
            !member.is_off && !member.host.machine.node.engine.transactions.any() && member.host.is_committed()
        };
        self.clients.iter().all(Client::is_quiet) && self.members.iter().filter(|member| !member.is_lost).all(rests)
    }

    /// A client reads every list.
    fn look(&mut self) -> Result<Vec<Vec<u64>>, Violation> {
        let (client, until) = (0, self.now + REST);
        while self.now < until {
            if self.clients[client].link.to.is_none() {
                self.connect(client);
            }
            if self.clients[client].link.to.is_none() {
                // A fault that was planned before has stopped that node.
                self.step()?;
                continue;
            }
            let from = self.history.deeds.len();
            let known = &mut self.clients[client];
            let request = known.look(&mut self.history, self.now);
            note!(self.story.trace, "client {client} looks: {}", said(&request));
            let connection = known.connection;
            self.agenda.put(self.now + 1, Event::Carry { client, connection });
            while !self.clients[client].is_quiet() && self.now < until {
                self.step()?;
            }
            let seen = &self.history.deeds[from..];
            if seen.iter().all(|deed| deed.came == Came::Done) {
                return Ok(seen.iter().flat_map(|deed| &deed.reads).map(|(_, list)| list.clone()).collect());
            }
            // Some node has no lease yet.
            let until = self.now + 100_000;
            while self.now < until {
                self.step()?;
            }
        }
        Err(Violation { rule: "rest", what: "who looks at everything is not answered".into() })
    }

    /// The result of it.
    pub fn outcome(mut self, violation: Option<Violation>) -> Outcome {
        self.story.counts.echoed = self.network.echoed;
        Outcome::of(&self.story, violation)
    }
}
