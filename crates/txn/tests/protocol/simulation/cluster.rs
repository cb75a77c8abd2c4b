//! Nodes, each with a coordinator and a participant, their clients, and the events that happen to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clocks::{BootMs, UnixMs};
use txn::{
    Coordinator, Event, HybridTime, Life, Lock, Member, Message, NodeId, Origin, Part, ParticipantId, Settings, TxnId,
};

use crate::glue::dice::Dice;
use crate::glue::history::{Observed, check};
use crate::glue::{Mistake, Reads, Said, Server, decode_reads, made, program};

const SETTINGS: Settings = Settings {
    patience_ms: 150,
    resend_ms: 80,
    outcome_ms: 100,
    read_ms: 100,
    hold_ms: 200,
    moment_ms: 40,
    backoff_ms: 1,
    backoff_max_ms: 20,
};

/// When some keys expire, by the clock of their owner.
const ENDS: [u64; 3] = [300, 900, 1500];

/// Milliseconds in which transactions begin and faults happen.
const BUSY_MS: u64 = 2500;
/// The time at which everything must have come to an end.
const END_MS: u64 = 60_000;

/// The plan of a simulation.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub nodes: usize,
    pub keys: usize,
    pub transactions: usize,
    pub plain: usize,
    /// Percentage of transactions.
    pub read_only: usize,
    /// Percentage of transactions that see the values before they know their changes.
    pub fetching: usize,
    /// Percentage of the parts of these that they turn out to need later.
    pub widening: usize,
    pub crashes: usize,
    pub partitions: usize,
    /// Percentage of messages.
    pub lost: usize,
    /// Percentage of messages.
    pub late: usize,
    /// Percentage of parts that wait before they ask for their locks.
    pub held_back: usize,
    /// True if nodes sometimes do not let parts wait for locks in doubt.
    pub doubts: bool,
    pub mistake: Mistake,
}

impl Plan {
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice(seed ^ 0x5eed);
        Self {
            seed,
            nodes: 2 + dice.below(4),
            keys: 1 + dice.below(5),
            transactions: 20 + dice.below(80),
            plain: dice.below(60),
            read_only: dice.below(40),
            crashes: dice.below(6),
            partitions: dice.below(4),
            lost: dice.below(2) * dice.below(8),
            late: [2, 2, 10][dice.below(3)],
            fetching: [0, 30, 100][dice.below(3)],
            widening: [0, 50, 90][dice.below(3)],
            held_back: [0, 5, 30][dice.below(3)],
            doubts: dice.percent(40),
            mistake: Mistake::None,
        }
    }
}

/// The number of events of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    pub replied: usize,
    pub closed: usize,
    pub read_only: usize,
    pub plain: usize,
    pub retried: usize,
    pub untimely: usize,
    pub fetched: usize,
    pub widened: usize,
    pub crashes: usize,
    pub held_back: usize,
    pub doubted: usize,
}

impl std::ops::AddAssign for Told {
    fn add_assign(&mut self, other: Self) {
        self.replied += other.replied;
        self.closed += other.closed;
        self.read_only += other.read_only;
        self.plain += other.plain;
        self.retried += other.retried;
        self.untimely += other.untimely;
        self.fetched += other.fetched;
        self.widened += other.widened;
        self.crashes += other.crashes;
        self.held_back += other.held_back;
        self.doubted += other.doubted;
    }
}

enum Happening {
    Deliver(Life, usize, Vec<u8>),
    Execute(usize, u64, (TxnId, Option<UnixMs>), Vec<u8>, bool),
    Fetch(usize, u64, TxnId, Arc<[Lock]>),
    Ask(usize, u64, TxnId),
    Doubt(usize),
    /// A node has run a transaction on the fetched values.
    Ran(usize, u64, (u64, u32)),
    Flush(usize),
    Tick(usize),
    Transaction(u32),
    Plain(u32),
    Crash(usize),
    Restart(usize),
    Hear(usize, Life),
    Part(usize, usize),
    Heal,
}

/// The changes of nodes' keys.
type Made = Vec<(ParticipantId, Arc<[u8]>)>;

struct Node {
    server: Server,
    coordinator: Coordinator,
    up: bool,
    /// It serves nothing before this time (rule T3).
    serves: u64,
    /// How far its clock is ahead of the simulation's.
    ahead: u64,
    flushing: bool,
    ids: BTreeMap<u64, u32>,
    /// The values that fetching transactions have found last, by sequence, and their changes.
    found: BTreeMap<u64, Reads>,
    made: BTreeMap<u64, Made>,
    /// The parts that they turn out to need, one after the other.
    further: BTreeMap<u64, Vec<(Vec<u16>, Part)>>,
}

#[derive(Clone)]
struct Client {
    began: u64,
    node: usize,
    writes: Vec<u16>,
    /// True if its node has ended, or its connection: it will not be answered.
    gone: bool,
}

struct Cluster {
    plan: Plan,
    dice: Dice,
    now: u64,
    count: u64,
    happenings: BTreeMap<(u64, u64), Happening>,
    nodes: Vec<Node>,
    parted: Option<(usize, usize)>,
    clients: BTreeMap<u32, Client>,
    observed: Vec<Observed>,
    /// Transactions whose clients were told that nothing was executed.
    failed: BTreeSet<u32>,
    outcomes: BTreeMap<TxnId, bool>,
    told: Told,
}

/// Runs a plan. Returns the fault, if there is one.
pub fn run(plan: Plan) -> Result<Told, String> {
    let mut cluster = Cluster::new(plan);
    cluster.begin();
    while let Some(((at, _), happening)) = cluster.happenings.pop_first() {
        cluster.now = at;
        if at > END_MS {
            break;
        }
        cluster.happen(happening)?;
        if at > BUSY_MS && cluster.is_settled() {
            break;
        }
    }
    cluster.at_the_end()?;
    Ok(cluster.told)
}

impl Cluster {
    fn new(plan: Plan) -> Self {
        let mut dice = Dice(plan.seed);
        let node = |at: usize| {
            let me = Life { node: NodeId(at as u64), incarnation: 1 };
            let mut server = Server::new(me, SETTINGS, plan.mistake);
            (server.instant, server.holds_back) = (false, true);
            Node {
                server,
                coordinator: Coordinator::new(Origin { life: me, lane: 0 }, SETTINGS),
                up: true,
                serves: 0,
                ahead: dice.next() % 1_000_000,
                flushing: false,
                ids: BTreeMap::new(),
                found: BTreeMap::new(),
                made: BTreeMap::new(),
                further: BTreeMap::new(),
            }
        };
        let nodes = (0..plan.nodes).map(node).collect();
        Self {
            plan,
            dice,
            now: 0,
            count: 0,
            happenings: BTreeMap::new(),
            nodes,
            parted: None,
            clients: BTreeMap::new(),
            observed: Vec::new(),
            failed: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            told: Told::default(),
        }
    }

    fn at(&mut self, time: u64, happening: Happening) {
        self.count += 1;
        self.happenings.insert((time, self.count), happening);
    }

    fn after(&mut self, ms: u64, happening: Happening) {
        self.at(self.now + ms, happening);
    }

    fn sometime(&mut self) -> u64 {
        self.dice.next() % BUSY_MS
    }

    fn any(&mut self) -> usize {
        self.dice.below(self.plan.nodes)
    }

    fn begin(&mut self) {
        for id in 1..=self.plan.transactions as u32 {
            let time = self.sometime();
            self.at(time, Happening::Transaction(id));
        }
        for id in 0..self.plan.plain as u32 {
            let time = self.sometime();
            self.at(time, Happening::Plain(10_000 + id));
        }
        for _ in 0..self.plan.crashes {
            let (time, node) = (self.sometime(), self.any());
            self.at(time, Happening::Crash(node));
        }
        for _ in 0..self.plan.partitions {
            let (time, a, b) = (self.sometime(), self.any(), self.any());
            self.at(time, Happening::Part(a, b));
        }
        for _ in 0..if self.plan.doubts { 200 } else { 0 } {
            let (time, node) = (self.sometime(), self.any());
            self.at(time, Happening::Doubt(node));
        }
        (0..self.plan.nodes).for_each(|node| self.at(1, Happening::Tick(node)));
    }

    fn happen(&mut self, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Deliver(from, to, bytes) => {
                let message = Message::decode(&bytes).map_err(|wrong| format!("{wrong} in {bytes:?}"))?;
                self.deliver(from, to, message)?;
            }
            Happening::Execute(node, life, (tx, moment), commands, logged) => {
                if self.nodes[node].up && self.nodes[node].server.me.incarnation == life {
                    let mut untimely = false;
                    self.on(node, |server, now, said| {
                        untimely = moment.is_some_and(|moment| server.untimely(now, (tx, moment), &ENDS, said));
                        if !untimely {
                            server.execute(now, tx, &commands, logged, said);
                        }
                    })?;
                    self.told.untimely += usize::from(untimely);
                }
            }
            Happening::Fetch(node, life, tx, locks) => {
                if self.nodes[node].up && self.nodes[node].server.me.incarnation == life {
                    self.on(node, |server, now, said| server.fetch(now, tx, &locks, said))?;
                }
            }
            Happening::Ask(node, life, tx) => {
                if self.nodes[node].up && self.nodes[node].server.me.incarnation == life {
                    self.on(node, |server, now, said| server.ask(now, tx, said))?;
                }
            }
            Happening::Doubt(node) => {
                let waiting: Vec<TxnId> = self.nodes[node].server.waiting().collect();
                if self.nodes[node].up && !waiting.is_empty() {
                    let tx = waiting[self.dice.below(waiting.len())];
                    self.on(node, |server, now, said| server.doubt(now, tx, said))?;
                }
            }
            Happening::Ran(node, life, which) => {
                if self.nodes[node].up && self.nodes[node].server.me.incarnation == life {
                    self.ran(node, which)?;
                }
            }
            Happening::Flush(node) => {
                self.nodes[node].flushing = false;
                if self.nodes[node].up {
                    self.on(node, |server, now, said| server.flush(now, said))?;
                    if self.dice.percent(5) {
                        self.nodes[node].server.checkpoint();
                    }
                }
            }
            Happening::Tick(node) => {
                self.after(10, Happening::Tick(node));
                if self.nodes[node].up {
                    self.on(node, |server, now, said| server.tick(now, said))?;
                    self.coordinate(node, |coordinator, now, events| coordinator.tick(now, events))?;
                }
            }
            Happening::Transaction(id) => self.transaction(id)?,
            Happening::Plain(id) => self.plain(id)?,
            Happening::Crash(node) => self.crash(node),
            Happening::Restart(node) => self.restart(node)?,
            Happening::Hear(node, life) => {
                if self.nodes[node].up {
                    self.on(node, |server, now, said| server.peer(now, life, said))?;
                    self.coordinate(node, |coordinator, now, events| coordinator.peer(now, Member::of(life), events))?;
                }
            }
            Happening::Part(a, b) => {
                self.parted = Some((a, b));
                let ms = 1 + self.dice.next() % 600;
                self.after(ms, Happening::Heal);
            }
            Happening::Heal => self.heal()?,
        }
        Ok(())
    }

    /// A node has run a transaction on the values that it has: the transaction goes on with further keys, or is done.
    fn ran(&mut self, node: usize, which: (u64, u32)) -> Result<(), String> {
        let runs = &self.nodes[node];
        let made = runs.made[&which.0].clone();
        let found = runs.found.get(&which.0).map_or(&[][..], Vec::as_slice);
        let lacks = |keys: &[u16]| !keys.iter().all(|key| found.iter().any(|(known, _)| known == key));
        let further = runs.further[&which.0].iter().find(|(keys, _)| lacks(keys)).map(|(_, part)| part.clone());
        let mut widened = false;
        self.coordinate(node, |coordinator, now, events| match further {
            Some(part) => widened = coordinator.widen(now, which, vec![part], events),
            None => {
                coordinator.proceed(now, which, &made, events);
            }
        })?;
        self.told.widened += usize::from(widened);
        Ok(())
    }

    fn heal(&mut self) -> Result<(), String> {
        let Some((a, b)) = self.parted.take() else { return Ok(()) };
        for (node, other) in [(a, b), (b, a)] {
            if self.nodes[node].up {
                let other = ParticipantId(other as u64);
                self.coordinate(node, |coordinator, now, events| coordinator.linked(now, other, events))?;
            }
        }
        Ok(())
    }

    fn on(&mut self, node: usize, f: impl FnOnce(&mut Server, BootMs, &mut Vec<Said>)) -> Result<(), String> {
        let mut said = Vec::new();
        let now = BootMs(self.now + self.nodes[node].ahead);
        f(&mut self.nodes[node].server, now, &mut said);
        let me = self.nodes[node].server.me;
        for said in said {
            match said {
                Said::Send(to, message) => self.send(me, to, &message),
                Said::Execute(tx, commands, logged, moment) => {
                    let ms = self.dice.next() % 6;
                    self.after(ms, Happening::Execute(node, me.incarnation, (tx, moment), commands.to_vec(), logged));
                }
                Said::Fetch(tx, locks) => {
                    let ms = self.dice.next() % 6;
                    self.after(ms, Happening::Fetch(node, me.incarnation, tx, locks));
                }
                Said::HeldBack(tx) => {
                    let is_held_back = self.dice.percent(self.plan.held_back);
                    self.told.held_back += usize::from(is_held_back);
                    let ms = if is_held_back { self.dice.next() % 800 } else { 0 };
                    self.after(ms, Happening::Ask(node, me.incarnation, tx));
                }
                Said::Outcome(tx, committed) => {
                    if self.outcomes.insert(tx, committed).is_some_and(|before| before != committed) {
                        return Err(format!("{tx:?} is committed and aborted"));
                    }
                }
                Said::Plain(id, reads) => {
                    self.told.plain += 1;
                    self.answered(id, reads);
                }
                Said::Broken(what) => return Err(what.to_owned()),
            }
        }
        if self.nodes[node].server.conflict() {
            return Err(format!("two hold a key of {node}"));
        }
        if !self.nodes[node].server.pending.is_empty() && !self.nodes[node].flushing {
            self.nodes[node].flushing = true;
            let ms = if self.dice.percent(3) { self.dice.next() % 300 } else { 1 + self.dice.next() % 8 };
            self.after(ms, Happening::Flush(node));
        }
        Ok(())
    }

    fn coordinate(
        &mut self,
        node: usize,
        f: impl FnOnce(&mut Coordinator, BootMs, &mut Vec<Event>),
    ) -> Result<(), String> {
        let mut events = Vec::new();
        let now = BootMs(self.now + self.nodes[node].ahead);
        f(&mut self.nodes[node].coordinator, now, &mut events);
        let me = self.nodes[node].server.me;
        for event in events {
            match event {
                Event::Send { to, message } => {
                    if let Message::Prepare(prepare) | Message::Fetch(prepare) = &message {
                        self.told.retried += usize::from(prepare.tx.attempt > 1);
                    }
                    self.send(me, NodeId(to.0), &message);
                }
                Event::Reply { sequence, replies } => {
                    let id = self.nodes[node].ids[&sequence];
                    self.told.replied += 1;
                    self.told.read_only += usize::from(self.clients[&id].writes.is_empty());
                    let said = || replies.iter().flat_map(|(_, reply)| decode_reads(reply)).collect();
                    let found = self.nodes[node].found.remove(&sequence);
                    self.told.fetched += usize::from(found.is_some());
                    self.answered(id, found.unwrap_or_else(said));
                }
                Event::Fetched { sequence, attempt, round, found } => {
                    let reads = found.iter().flat_map(|(_, found)| decode_reads(found));
                    let all = self.nodes[node].found.entry(sequence).or_default();
                    if round == 0 {
                        all.clear();
                    }
                    all.extend(reads);
                    let ms = if self.dice.percent(3) { self.dice.next() % 400 } else { self.dice.next() % 6 };
                    self.after(ms, Happening::Ran(node, me.incarnation, (sequence, attempt)));
                }
                Event::Close { sequence } => {
                    let id = self.nodes[node].ids[&sequence];
                    self.told.closed += 1;
                    self.answered(id, Vec::new());
                }
                Event::Failed { sequence, .. } if self.plan.doubts => {
                    self.told.doubted += 1;
                    let id = self.nodes[node].ids[&sequence];
                    self.clients.remove(&id);
                    self.failed.insert(id);
                }
                Event::Failed { .. } | Event::Reroute { .. } => return Err(format!("{event:?}")),
            }
        }
        Ok(())
    }

    fn answered(&mut self, id: u32, reads: Reads) {
        if let Some(client) = self.clients.remove(&id) {
            let (writes, began) = (client.writes, client.began);
            self.observed.push(Observed { id, reads, writes, began, answered: self.now });
        }
    }

    fn send(&mut self, from: Life, to: NodeId, message: &Message) {
        let (a, b) = (from.node.0 as usize, to.0 as usize);
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let busy = self.now < BUSY_MS;
        if a == b {
            return self.after(0, Happening::Deliver(from, b, bytes));
        }
        if self.parted == Some((a, b)) || self.parted == Some((b, a)) || (busy && self.dice.percent(self.plan.lost)) {
            return;
        }
        for _ in 0..1 + usize::from(busy && self.dice.percent(4)) {
            let ms = if self.dice.percent(self.plan.late) { self.dice.next() % 400 } else { 1 + self.dice.next() % 12 };
            self.after(ms, Happening::Deliver(from, b, bytes.clone()));
        }
    }

    fn deliver(&mut self, from: Life, to: usize, message: Message) -> Result<(), String> {
        let node = &self.nodes[to];
        let early = self.now < node.serves && matches!(message, Message::Prepare(_) | Message::Fetch(_));
        if !node.up || early {
            return Ok(());
        }
        if message.coordinator(node.server.me).is_some() {
            return self.coordinate(to, |coordinator, now, events| {
                coordinator.message(now, Member::of(from), message, events)
            });
        }
        self.on(to, |server, now, said| server.message(now, from, message, said))
    }

    /// Keys of a node, each once: those that are only read, and those that are appended to as well.
    fn keys(&mut self, node: usize, read_only: bool) -> (Vec<u16>, Vec<u16>) {
        let mut keys = BTreeSet::new();
        for _ in 0..1 + self.dice.below(2) {
            keys.insert((node * 100 + self.dice.below(self.plan.keys)) as u16);
        }
        keys.into_iter().partition(|_| read_only || self.dice.percent(40))
    }

    fn transaction(&mut self, id: u32) -> Result<(), String> {
        let node = self.any();
        if !self.nodes[node].up || self.now < self.nodes[node].serves {
            return Ok(());
        }
        let read_only = self.dice.percent(self.plan.read_only);
        let mut at: Vec<usize> = (0..self.plan.nodes).collect();
        while at.len() > 1 && (at.len() > 3 || self.dice.percent(40)) {
            at.remove(self.dice.below(at.len()));
        }
        let fetches = self.dice.percent(self.plan.fetching);
        let (mut parts, mut all, mut made_of) = (Vec::new(), Vec::new(), Vec::new());
        let mut further = Vec::new();
        for at in at {
            let (reads, writes) = self.keys(at, read_only);
            // The life of the other node as it is known here: it may have started again since.
            let member = Member::of(self.nodes[at].server.me);
            made_of.push((member.id, made(id, &writes)));
            all.extend(writes.clone());
            let part = |reads: &[u16], writes: &[u16]| {
                let (locks, commands) = program(id, reads, writes);
                Part { member, locks, commands, writes: !writes.is_empty() }
            };
            let finds_out = fetches && self.dice.percent(self.plan.widening);
            if !finds_out {
                parts.push(part(&reads, &writes));
                continue;
            }
            let mut places: Vec<_> = reads.iter().map(|key| (vec![*key], vec![])).collect();
            places.extend(writes.iter().map(|key| (vec![], vec![*key])));
            further.extend(places.iter().map(|(reads, writes)| ([&reads[..], writes].concat(), part(reads, writes))));
        }
        if parts.is_empty() {
            parts.push(further.remove(0).1);
        }
        self.clients.insert(id, Client { began: self.now, node, writes: all, gone: false });
        // Clocks disagree.
        let time = HybridTime(self.now + self.nodes[node].ahead % 100);
        let mut sequence = 0;
        let begin = |coordinator: &mut Coordinator, now: BootMs, events: &mut Vec<Event>| {
            sequence = match fetches {
                true => coordinator.begin_fetching(now, time, parts, events),
                false => coordinator.begin(now, time, parts, events),
            };
        };
        self.coordinate(node, begin)?;
        self.nodes[node].ids.insert(sequence, id);
        self.nodes[node].made.insert(sequence, made_of);
        self.nodes[node].further.insert(sequence, further);
        Ok(())
    }

    fn plain(&mut self, id: u32) -> Result<(), String> {
        let node = self.any();
        if !self.nodes[node].up || self.now < self.nodes[node].serves {
            return Ok(());
        }
        let read_only = self.dice.percent(30);
        let (reads, writes) = self.keys(node, read_only);
        let (locks, commands) = program(id, &reads, &writes);
        self.clients.insert(id, Client { began: self.now, node, writes, gone: false });
        self.on(node, |server, _, said| server.plain(id, locks, commands, said))
    }

    fn crash(&mut self, node: usize) {
        if !self.nodes[node].up {
            return;
        }
        self.told.crashes += 1;
        self.nodes[node].up = false;
        self.clients.values_mut().filter(|client| client.node == node).for_each(|client| client.gone = true);
        let ms = if self.dice.percent(50) { self.dice.next() % 500 } else { self.dice.next() % 5 };
        self.after(ms, Happening::Restart(node));
    }

    fn restart(&mut self, node: usize) -> Result<(), String> {
        let kept = self.dice.below(self.nodes[node].server.pending.len() + 1);
        self.nodes[node].up = true;
        self.on(node, |server, now, said| server.crash(now, kept, said))?;
        let life = self.nodes[node].server.me;
        let now = self.now;
        let fresh = &mut self.nodes[node];
        fresh.coordinator = Coordinator::new(Origin { life, lane: 0 }, SETTINGS);
        fresh.ids.clear();
        fresh.found.clear();
        fresh.made.clear();
        fresh.further.clear();
        fresh.serves = now + SETTINGS.read_ms + 1;
        for other in 0..self.plan.nodes {
            let ms = self.dice.next() % 300;
            self.after(ms, Happening::Hear(other, life));
            let other = self.nodes[other].server.me;
            self.after(ms, Happening::Hear(node, other));
        }
        Ok(())
    }

    fn is_settled(&self) -> bool {
        let idle = |node: &Node| {
            let server = &node.server;
            node.up
                && node.coordinator.is_empty()
                && server.locks.is_empty()
                && server.pending.is_empty()
                && server.participant.in_doubt().next().is_none()
        };
        self.nodes.iter().all(idle)
            && self.clients.values().all(|client| client.gone)
            && !self.happenings.values().any(|h| {
                matches!(h, Happening::Deliver(..) | Happening::Execute(..) | Happening::Fetch(..) | Happening::Ask(..))
            })
    }

    fn at_the_end(&self) -> Result<(), String> {
        if !self.is_settled() {
            let waiting: Vec<_> = self.clients.iter().filter(|(_, client)| !client.gone).map(|(id, _)| *id).collect();
            let locks: Vec<usize> = self.nodes.iter().map(|node| node.server.locks.iter().count()).collect();
            let open: Vec<usize> = self.nodes.iter().map(|node| node.coordinator.len()).collect();
            return Err(format!("no end: clients {waiting:?}, locks {locks:?}, transactions {open:?} at {}", self.now));
        }
        let lists: BTreeMap<u16, Vec<u32>> = self.nodes.iter().flat_map(|node| node.server.store.clone()).collect();
        if let Some(id) = lists.values().flatten().find(|id| self.failed.contains(id)) {
            return Err(format!("{id} has failed, and was done"));
        }
        check(&self.observed, &lists, true)?;
        // No attempt is remembered for ever. The rest belongs to coordinators that have not sent a message since.
        let known: usize = self.nodes.iter().map(|node| node.server.participant.len()).sum();
        if known > 40 * self.plan.nodes { Err(format!("{known} attempts are remembered")) } else { Ok(()) }
    }
}
