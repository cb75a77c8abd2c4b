//! A small cluster as a model: the possible next steps, and the properties that always hold.

mod owners;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use clocks::BootMs;
use stateright::{Model, Property};
use txn::{
    Coordinator, Event, HybridTime, Life, Member, Message, NodeId, Origin, Part, ParticipantId, Sender, Settings, TxnId,
};

use super::step::Step;
use super::transaction::{Place, Transaction, part_of, server};
use crate::glue::history::{Observed, check};
use crate::glue::{Mistake, Reads, Said, Server, by_participant, decode_reads, made, program};

/// Time stands still: every timer is due at once, and ticks decide when it fires. A holder of fetched keys gives up at
/// [`LATER`] only, or nothing would ever end.
const NO_TIME: Settings = Settings {
    patience_ms: 0,
    resend_ms: 0,
    outcome_ms: 0,
    read_ms: 0,
    hold_ms: LATER,
    moment_ms: 0,
    backoff_ms: 0,
    backoff_max_ms: 0,
};

const NOW: BootMs = BootMs::ZERO;
/// Milliseconds from [`NOW`].
const LATER: u64 = 1;

/// The node of the first coordinator.
pub const COORDINATORS: u64 = 100;

/// The cluster, and how often each kind of fault may happen.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub servers: usize,
    pub transactions: Vec<Transaction>,
    /// Plain commands, each once.
    pub plain: Vec<(u32, Place)>,
    /// Transactions that fetch before they prepare.
    pub fetching: Vec<u32>,
    pub attempts_max: u32,
    pub server_crashes: u8,
    pub coordinator_crashes: u8,
    pub lost: u8,
    pub repeated: u8,
    pub ticks: u8,
    /// The number of servers that are removed for good.
    pub forgets: u8,
    /// The number of servers that get another name, at another node.
    pub recoveries: u8,
    /// The number of servers whose shard another node takes over.
    pub takeovers: u8,
    /// True if servers hold parts back before they ask for their locks.
    pub holds_back: bool,
    /// How often a server does not let a part wait for locks any longer.
    pub doubts: u8,
    pub mistake: Mistake,
    /// One of so many states is healed: everything is let come to an end.
    pub healed: u64,
}

impl Cluster {
    pub fn new(servers: usize) -> Self {
        Self {
            servers,
            transactions: Vec::new(),
            plain: Vec::new(),
            fetching: Vec::new(),
            attempts_max: 2,
            server_crashes: 0,
            coordinator_crashes: 0,
            lost: 0,
            repeated: 0,
            ticks: 1,
            forgets: 0,
            recoveries: 0,
            takeovers: 0,
            holds_back: false,
            doubts: 0,
            mistake: Mistake::None,
            healed: 1,
        }
    }

    fn transaction(&self, id: u32) -> &Transaction {
        self.transactions.iter().find(|transaction| transaction.id == id).expect("a transaction of the cluster")
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    Replied(Reads),
    Closed,
    Failed,
}

/// The changes of servers' keys.
type Made = Vec<(ParticipantId, Arc<[u8]>)>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Host {
    me: Life,
    machine: Coordinator,
    heirs: BTreeMap<ParticipantId, ParticipantId>,
    owners: BTreeMap<ParticipantId, NodeId>,
    /// True if it has ended: the one that came after it has nothing to do.
    ended: bool,
    /// Transactions by sequence.
    ids: BTreeMap<u64, u32>,
    /// The values that fetching transactions have found last, by sequence.
    found: BTreeMap<u64, Reads>,
    /// The changes that they make then.
    made: BTreeMap<u64, Made>,
    /// The parts that they turn out to need, one after the other.
    further: BTreeMap<u64, Vec<(Vec<u16>, Part)>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    servers: Vec<Server>,
    hosts: Vec<Host>,
    network: BTreeSet<(Life, NodeId, Message)>,
    answers: BTreeMap<u32, Answer>,
    plain_done: BTreeMap<u32, Reads>,
    plain_left: BTreeSet<usize>,
    /// Outcomes of attempts, at some server.
    committed: BTreeSet<(TxnId, NodeId)>,
    aborted: BTreeSet<(TxnId, NodeId)>,
    /// Servers that are lost for good, known or not.
    lost: BTreeSet<usize>,
    /// Servers whose log another one has: that one.
    heirs: BTreeMap<usize, usize>,
    /// Servers whose shard another one has: that one.
    taken: BTreeMap<usize, usize>,
    left: [u8; 9],
    broken: Option<&'static str>,
}

const LOSE: usize = 0;
const REPEAT: usize = 1;
const CRASH: usize = 2;
const END: usize = 3;
const TICK: usize = 4;
const FORGET: usize = 5;
const DOUBT: usize = 6;
const RECOVER: usize = 7;
const TAKE_OVER: usize = 8;

impl World {
    fn said(&mut self, from: Life, said: Vec<Said>) {
        for said in said {
            match said {
                Said::Send(to, message) => {
                    if let Message::Refused { tx, .. } = &message {
                        self.aborted.insert((*tx, from.node));
                    }
                    self.send(from, to, message);
                }
                Said::Outcome(tx, true) => {
                    self.committed.insert((tx, from.node));
                }
                Said::Outcome(tx, false) => {
                    self.aborted.insert((tx, from.node));
                }
                Said::Plain(id, reads) => {
                    self.plain_done.insert(id, reads);
                }
                Said::Broken(what) => self.broken = Some(what),
                Said::Execute(..) | Said::Fetch(..) | Said::HeldBack(_) => {}
            }
        }
    }

    fn send(&mut self, from: Life, to: NodeId, message: Message) {
        let ended = |host: &Host| host.me.node == to && host.ended;
        if !self.hosts.iter().any(ended) {
            self.network.insert((from, to, message));
        }
    }

    fn events(&mut self, host: usize, events: Vec<Event>) {
        let from = self.hosts[host].me;
        let mut more = Vec::new();
        for event in events {
            let (sequence, answer) = match event {
                Event::Send { to, message } => {
                    let to = self.hosts[host].heirs.get(&to).unwrap_or(&to);
                    let node = self.hosts[host].owners.get(to).copied().unwrap_or(NodeId(to.0));
                    self.send(from, node, message);
                    continue;
                }
                Event::Reply { sequence, replies } => {
                    let found = self.hosts[host].found.remove(&sequence);
                    let said = || replies.iter().flat_map(|(_, reply)| decode_reads(reply)).collect();
                    (sequence, Answer::Replied(found.unwrap_or_else(said)))
                }
                Event::Close { sequence } => (sequence, Answer::Closed),
                Event::Failed { sequence, .. } => (sequence, Answer::Failed),
                Event::Fetched { sequence, attempt, round, found } => {
                    let reads = found.iter().flat_map(|(_, found)| decode_reads(found));
                    let host = &mut self.hosts[host];
                    let all = host.found.entry(sequence).or_default();
                    if round == 0 {
                        all.clear();
                    }
                    all.extend(reads);
                    let lacks = |keys: &[u16]| !keys.iter().all(|key| all.iter().any(|(known, _)| known == key));
                    let further = host.further[&sequence].iter().find(|(keys, _)| lacks(keys));
                    let mut events = Vec::new();
                    let goes_on = match further {
                        Some((_, part)) => {
                            host.machine.widen(NOW, (sequence, attempt), vec![part.clone()], &mut events)
                        }
                        None => host.machine.proceed(NOW, (sequence, attempt), &host.made[&sequence], &mut events),
                    };
                    if !goes_on {
                        self.broken = Some("what was fetched just now is void");
                    }
                    more.append(&mut events);
                    continue;
                }
                Event::Reroute { sequence } => {
                    if self.lost.is_empty() && self.heirs.is_empty() {
                        self.broken = Some("nothing has moved");
                    }
                    let mut events = Vec::new();
                    self.hosts[host].machine.fail(NOW, sequence, txn::Refusal::Moved, &mut events);
                    more.append(&mut events);
                    continue;
                }
            };
            let id = self.hosts[host].ids[&sequence];
            if self.answers.insert(id, answer).is_some() {
                self.broken = Some("answered twice");
            }
        }
        if !more.is_empty() {
            self.events(host, more);
        }
    }

    fn on_server(&mut self, at: usize, f: impl FnOnce(&mut Server, &mut Vec<Said>)) {
        let mut said = Vec::new();
        f(&mut self.servers[at], &mut said);
        if !self.has_log(at) {
            // Its log takes nothing any more: it may hear that it is prepared where only its heir is.
            said.retain(|said| !matches!(said, Said::Broken(_)));
        }
        let me = self.servers[at].me;
        self.said(me, said);
    }

    fn deliver(&mut self, from: Life, to: NodeId, message: Message) {
        if let Some(at) = self.servers.iter().position(|server| server.me.node == to) {
            let participant = self.participant_at(&self.servers[at].owners, from.node);
            self.on_server(at, |server, said| server.message(NOW, Sender { life: from, participant }, message, said));
        } else if let Some(host) = self.hosts.iter().position(|host| host.me.node == to && !host.ended) {
            let Some(id) = self.participant_at(&self.hosts[host].owners, from.node) else { return };
            // The term of one that was taken over comes with the metadata.
            let incarnation = if id == ParticipantId::of(from.node) { from.incarnation } else { 0 };
            let mut events = Vec::new();
            self.hosts[host].machine.message(NOW, Member { id, incarnation }, message, &mut events);
            self.events(host, events);
        }
    }

    fn tick_host(&mut self, host: usize) {
        let mut events = Vec::new();
        self.hosts[host].machine.tick(NOW, &mut events);
        self.events(host, events);
    }

    /// There are no more faults, and everything that can go on does, in a fair order. Returns true if it comes to an
    /// end.
    fn heal(&self) -> World {
        let mut world = self.clone();
        for lost in self.lost.clone() {
            self.there().for_each(|at| world.server_hears(at, lost));
            (0..self.hosts.len()).filter(|host| !self.hosts[*host].ended).for_each(|host| world.host_hears(host, lost));
        }
        for lost in self.heirs.keys() {
            self.there().for_each(|at| world.server_learns(at, *lost));
            let hosts = (0..self.hosts.len()).filter(|host| !self.hosts[*host].ended);
            hosts.for_each(|host| world.host_learns(host, *lost));
            // Its process ends at last, and messages to it are lost.
            let node = NodeId(*lost as u64 + 1);
            world.network.retain(|(_, to, _)| *to != node);
        }
        for taken in self.taken.keys() {
            self.there().for_each(|at| world.server_hears_of_owner(at, *taken));
            let hosts = (0..self.hosts.len()).filter(|host| !self.hosts[*host].ended);
            hosts.for_each(|host| world.host_hears_of_owner(host, *taken));
            let node = self.servers[*taken].me.node;
            world.network.retain(|(_, to, _)| *to != node);
        }
        for round in 0..100 {
            if world.is_settled() {
                break;
            }
            // Participants are patient while a message is under way: a question may be faster than a Prepare to a
            // server that is not asked first.
            let late = world.network.is_empty() || round % 8 == 7;
            for (from, to, message) in std::mem::take(&mut world.network) {
                world.deliver(from, to, message);
            }
            for at in world.there() {
                let ended: Vec<Life> = world.hosts.iter().filter(|host| host.ended).map(|host| host.me).collect();
                world.on_server(at, |server, said| {
                    server.held_back().collect::<Vec<_>>().into_iter().for_each(|tx| server.ask(NOW, tx, said));
                    server.flush(NOW, said);
                    ended.iter().for_each(|host| server.peer(NOW, *host, said));
                    if late {
                        server.tick(if round % 8 == 7 { NOW + LATER } else { NOW }, said);
                    }
                });
            }
            // If no message is under way, one may have been lost: links are made anew.
            let quiet = world.network.is_empty();
            for host in 0..world.hosts.len() {
                if world.hosts[host].ended {
                    continue;
                }
                for at in world.there() {
                    let (mut events, member) = (Vec::new(), world.servers[at].member);
                    world.hosts[host].machine.peer(NOW, member, &mut events);
                    if quiet {
                        world.hosts[host].machine.linked(NOW, member.id, &mut events);
                    }
                    world.events(host, events);
                }
                world.tick_host(host);
            }
        }
        world
    }

    /// True if nothing waits, nothing is locked, and nothing need be remembered.
    fn is_settled(&self) -> bool {
        let idle =
            |server: &Server| server.participant.is_empty() && server.locks.is_empty() && server.pending.is_empty();
        self.there().all(|at| idle(&self.servers[at]))
            && self.hosts.iter().all(|host| host.ended || host.machine.is_empty())
    }

    /// Rule T4: an attempt is committed everywhere or nowhere.
    fn is_atomic(&self) -> bool {
        let by = |done: &BTreeSet<(TxnId, NodeId)>| -> BTreeSet<TxnId> {
            let there = |node: &NodeId| !self.lost.contains(&(node.0 as usize - 1));
            done.iter().filter(|(_, node)| there(node)).map(|(tx, _)| *tx).collect()
        };
        by(&self.committed).is_disjoint(&by(&self.aborted))
    }

    fn lists(&self) -> BTreeMap<u16, Vec<u32>> {
        self.there().flat_map(|at| self.servers[at].store.clone()).collect()
    }

    /// True if a key is not lost.
    fn has(&self, cluster: &Cluster, key: u16) -> bool {
        let parts = cluster.transactions.iter().flat_map(Transaction::places);
        let of_key = |part: &&Place| part.1.contains(&key) || part.2.contains(&key);
        !parts.filter(of_key).any(|part| self.lost.contains(&part.0))
    }

    fn order(&self, cluster: &Cluster, complete: bool) -> Result<(), String> {
        let mut observed = Vec::new();
        for (id, answer) in &self.answers {
            let writes = cluster.transaction(*id).places().flat_map(|part| part.2.clone());
            let writes: Vec<u16> = writes.filter(|key| self.has(cluster, *key)).collect();
            match answer {
                Answer::Replied(reads) => {
                    let reads = reads.iter().filter(|(key, _)| self.has(cluster, *key)).cloned().collect();
                    observed.push(Observed { id: *id, reads, writes, began: 0, answered: 0 });
                }
                // It may have been given up.
                Answer::Closed if !self.lost.is_empty() => {}
                // It is committed, too.
                Answer::Closed => observed.push(Observed { id: *id, reads: vec![], writes, began: 0, answered: 0 }),
                // The lost server has refused, and the coordinator that knew has ended: the others presume that it was
                // prepared.
                Answer::Failed if !self.lost.is_empty() && self.hosts[cluster.transaction(*id).coordinator].ended => {}
                Answer::Failed => {
                    if self.lists().values().flatten().any(|found| found == id) {
                        return Err(format!("{id} has failed, and was done"));
                    }
                }
            }
        }
        for (id, reads) in &self.plain_done {
            let plain = cluster.plain.iter().find(|plain| plain.0 == *id).expect("a command of the cluster");
            let writes = plain.1.2.clone();
            observed.push(Observed { id: *id, reads: reads.clone(), writes, began: 0, answered: 0 });
        }
        check(&observed, &self.lists(), complete)
    }

    /// The lists have all of each transaction, or nothing of it.
    fn is_whole(&self, cluster: &Cluster) -> bool {
        let lists = self.lists();
        cluster.transactions.iter().all(|transaction| {
            let mut keys = transaction.places().flat_map(|part| &part.2).filter(|key| self.has(cluster, **key));
            let there = |key: &u16| lists.get(key).is_some_and(|list| list.contains(&transaction.id));
            let first = keys.next().is_none_or(there);
            keys.all(|key| there(key) == first)
        })
    }

    fn heals(&self, cluster: &Cluster) -> bool {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        if !hasher.finish().is_multiple_of(cluster.healed) {
            return true;
        }
        let world = self.heal();
        let answered = |t: &Transaction| world.hosts[t.coordinator].ended || world.answers.contains_key(&t.id);
        world.is_settled()
            && world.broken.is_none()
            && world.is_atomic()
            && world.is_whole(cluster)
            && world.order(cluster, true).is_ok()
            && cluster.transactions.iter().all(answered)
    }
}

impl Model for Cluster {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let hosts = self.transactions.iter().map(|transaction| transaction.coordinator + 1).max().unwrap_or(0);
        let host = |at: usize| {
            let me = Life { node: NodeId(COORDINATORS + at as u64), incarnation: 1 };
            let machine = Coordinator::new(Origin { life: me, lane: 0 }, NO_TIME);
            let (ids, found, made, further) = Default::default();
            let (heirs, owners) = Default::default();
            Host { me, machine, heirs, owners, ended: false, ids, found, made, further }
        };
        let server_at = |at: usize| {
            let mut server = Server::new(server(at), NO_TIME, self.mistake);
            server.holds_back = self.holds_back;
            server
        };
        let mut world = World {
            servers: (0..self.servers).map(server_at).collect(),
            hosts: (0..hosts).map(host).collect(),
            network: BTreeSet::new(),
            answers: BTreeMap::new(),
            plain_done: BTreeMap::new(),
            plain_left: (0..self.plain.len()).collect(),
            committed: BTreeSet::new(),
            aborted: BTreeSet::new(),
            lost: BTreeSet::new(),
            heirs: BTreeMap::new(),
            taken: BTreeMap::new(),
            left: [
                self.lost,
                self.repeated,
                self.server_crashes,
                self.coordinator_crashes,
                self.ticks,
                self.forgets,
                self.doubts,
                self.recoveries,
                self.takeovers,
            ],
            broken: None,
        };
        for transaction in &self.transactions {
            let parts = transaction.parts.iter().map(|place| part_of(transaction.id, place)).collect();
            let mut events = Vec::new();
            let host = &mut world.hosts[transaction.coordinator];
            let time = HybridTime(u64::from(transaction.id));
            let sequence = match self.fetching.contains(&transaction.id) {
                true => host.machine.begin_fetching(NOW, time, parts, &mut events),
                false => host.machine.begin(NOW, time, parts, &mut events),
            };
            let of = |(at, _, writes): &Place| (ParticipantId::of(server(*at).node), made(transaction.id, writes));
            host.made.insert(sequence, by_participant(transaction.places().map(of)));
            let further = |place: &Place| ([&place.1[..], &place.2].concat(), part_of(transaction.id, place));
            host.further.insert(sequence, transaction.further.iter().map(further).collect());
            host.ids.insert(sequence, transaction.id);
            world.events(transaction.coordinator, events);
        }
        vec![world]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for (_, to, message) in &world.network {
            steps.push(Step::Deliver(message.clone(), *to));
            if world.left[LOSE] > 0 {
                steps.push(Step::Lose(message.clone(), *to));
            }
            if world.left[REPEAT] > 0 {
                steps.push(Step::Repeat(message.clone(), *to));
            }
        }
        for (at, server) in world.servers.iter().enumerate() {
            let has_log = world.has_log(at);
            if has_log && !server.pending.is_empty() {
                steps.push(Step::Flush(at));
            }
            // Names change before anything is taken over.
            if has_log && world.left[RECOVER] > 0 && world.taken.is_empty() {
                steps.push(Step::Recover(at, false));
                if !server.pending.is_empty() {
                    steps.push(Step::Recover(at, true));
                }
            }
            if has_log && world.left[TAKE_OVER] > 0 {
                steps.push(Step::TakeOver(at, false));
                if !server.pending.is_empty() {
                    steps.push(Step::TakeOver(at, true));
                }
            }
            if has_log && world.left[CRASH] > 0 {
                steps.push(Step::Crash(at, false));
                if !server.pending.is_empty() {
                    steps.push(Step::Crash(at, true));
                }
            }
            if world.left[TICK] > 0 && server.participant.next_tick().is_some() {
                steps.push(Step::TickServer(at));
            }
            steps.extend(server.held_back().map(|tx| Step::Ask(at, tx)));
            if world.left[DOUBT] > 0 {
                steps.extend(server.waiting().map(|tx| Step::Doubt(at, tx)));
            }
        }
        for (at, host) in world.hosts.iter().enumerate() {
            if host.ended {
                steps.extend((0..self.servers).map(|server| Step::Hear(server, at)));
                continue;
            }
            if world.left[END] > 0 {
                steps.push(Step::End(at));
            }
            if world.left[TICK] > 0 && host.machine.next_tick().is_some() {
                steps.push(Step::TickHost(at));
            }
        }
        for lost in &world.lost {
            let (node, unheard) = (NodeId(*lost as u64 + 1), |heard: &BTreeSet<NodeId>, node| !heard.contains(&node));
            let servers = world.there().filter(|at| unheard(&world.servers[*at].lost, node));
            steps.extend(servers.map(|at| Step::ServerHears(at, *lost)));
            let hosts = world.hosts.iter().enumerate().filter(|(_, host)| !host.ended);
            steps.extend(hosts.map(|(host, _)| Step::HostHears(host, *lost)));
        }
        for lost in world.heirs.keys() {
            let (id, heir) = world.continued(*lost);
            let is_news = move |known: &BTreeMap<_, _>| known.get(&id) != Some(&heir);
            let servers = world.there().filter(|at| is_news(&world.servers[*at].heirs));
            steps.extend(servers.map(|at| Step::ServerLearns(at, *lost)));
            let hosts = world.hosts.iter().enumerate().filter(|(_, host)| !host.ended && is_news(&host.heirs));
            steps.extend(hosts.map(|(host, _)| Step::HostLearns(host, *lost)));
        }
        for taken in world.taken.keys().filter(|taken| !world.taken.values().any(|later| later == *taken)) {
            let owner = &world.servers[world.owner(*taken)];
            let (id, node) = (owner.member.id, owner.me.node);
            let is_news = move |known: &BTreeMap<_, _>| known.get(&id) != Some(&node);
            let servers = world.there().filter(|at| is_news(&world.servers[*at].owners));
            steps.extend(servers.map(|at| Step::ServerHearsOfOwner(at, *taken)));
            let hosts = world.hosts.iter().enumerate().filter(|(_, host)| !host.ended && is_news(&host.owners));
            steps.extend(hosts.map(|(host, _)| Step::HostHearsOfOwner(host, *taken)));
        }
        if world.left[FORGET] > 0 {
            steps.extend(world.there().map(Step::Forget));
        }
        steps.extend(world.plain_left.iter().map(|plain| Step::Plain(*plain)));
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        let take = |world: &mut World, message: &Message, to: NodeId, keep: bool| {
            let found = world.network.iter().find(|(_, t, m)| *t == to && m == message).cloned()?;
            if !keep {
                world.network.remove(&found);
            }
            Some(found)
        };
        match step {
            Step::Deliver(message, to) => {
                let (from, to, message) = take(&mut world, &message, to, false)?;
                world.deliver(from, to, message);
            }
            Step::Lose(message, to) => {
                take(&mut world, &message, to, false)?;
                world.left[LOSE] -= 1;
            }
            Step::Repeat(message, to) => {
                let (from, to, message) = take(&mut world, &message, to, true)?;
                world.left[REPEAT] -= 1;
                world.deliver(from, to, message);
            }
            Step::Flush(at) => world.on_server(at, |server, said| server.flush(NOW, said)),
            Step::Crash(at, kept) => {
                world.left[CRASH] -= 1;
                let kept = if kept { usize::MAX } else { 0 };
                world.on_server(at, |server, said| server.crash(NOW, kept, said));
            }
            Step::End(at) => {
                world.left[END] -= 1;
                let host = &mut world.hosts[at];
                host.ended = true;
                host.me.incarnation += 1;
                let node = host.me.node;
                world.network.retain(|(_, to, _)| *to != node);
            }
            Step::Hear(at, host) => {
                let host = world.hosts[host].me;
                world.on_server(at, |server, said| server.peer(NOW, host, said));
            }
            Step::Forget(at) => {
                world.left[FORGET] -= 1;
                world.lost.insert(at);
            }
            Step::Recover(at, kept) => {
                world.left[RECOVER] -= 1;
                let kept = if kept { usize::MAX } else { 0 };
                let (heir, mut said) = (world.servers.len(), Vec::new());
                // A term is above all lives before.
                let me = Life { incarnation: world.servers[at].me.incarnation + 1, ..server(heir) };
                let server = world.servers[at].heir(NOW, me, kept, &mut said);
                world.servers.push(server);
                world.heirs.insert(at, heir);
                world.said(me, said);
                // It is recovered with what the metadata say.
                world.heirs.clone().keys().for_each(|lost| world.server_learns(heir, *lost));
            }
            Step::TakeOver(at, kept) => {
                world.left[TAKE_OVER] -= 1;
                let kept = if kept { usize::MAX } else { 0 };
                let (owner, mut said) = (world.servers.len(), Vec::new());
                let successor = world.servers[at].successor(NOW, server(owner), kept, &mut said);
                world.servers.push(successor);
                world.taken.insert(at, owner);
                world.said(server(owner), said);
            }
            Step::ServerHearsOfOwner(at, taken) => world.server_hears_of_owner(at, taken),
            Step::HostHearsOfOwner(host, taken) => world.host_hears_of_owner(host, taken),
            Step::ServerLearns(at, lost) => world.server_learns(at, lost),
            Step::HostLearns(host, lost) => world.host_learns(host, lost),
            Step::ServerHears(at, lost) => world.server_hears(at, lost),
            Step::HostHears(host, lost) => world.host_hears(host, lost),
            Step::TickServer(at) => {
                world.left[TICK] -= 1;
                world.on_server(at, |server, said| server.tick(NOW + LATER, said));
            }
            Step::TickHost(at) => {
                world.left[TICK] -= 1;
                world.tick_host(at);
            }
            Step::Ask(at, tx) => world.on_server(at, |server, said| server.ask(NOW, tx, said)),
            Step::Doubt(at, tx) => {
                world.left[DOUBT] -= 1;
                world.on_server(at, |server, said| server.doubt(NOW, tx, said));
            }
            Step::Plain(plain) => {
                world.plain_left.remove(&plain);
                let (id, (at, reads, writes)) = &self.plain[plain];
                let (locks, commands) = program(*id, reads, writes);
                world.on_server(*at, |server, said| server.plain(*id, locks, commands, said));
            }
        }
        Some(world)
    }

    fn within_boundary(&self, world: &World) -> bool {
        let within = |host: &Host| {
            let mut sequences = host.ids.keys();
            sequences.all(|sequence| host.machine.current(*sequence).is_none_or(|tx| tx.attempt <= self.attempts_max))
        };
        world.hosts.iter().all(within)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("sound", |_, world| world.broken.is_none()),
            Property::<Self>::always("atomic", |_, world| world.is_atomic()),
            Property::<Self>::always("exclusive", |_, world| !world.servers.iter().any(Server::conflict)),
            Property::<Self>::always("serializable", |cluster, world| world.order(cluster, false).is_ok()),
            Property::<Self>::always("going on", |cluster, world| world.heals(cluster)),
        ]
    }
}
