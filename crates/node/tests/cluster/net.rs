//! Nodes, their workers, links and clients, without sockets: a seed decides the order in which bytes move in pieces.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use membership::frame::{self, Kind};
use membership::items::{Item, Principal};
use membership::map::{Node as Member, Range};
use membership::{BootNs, ClusterId, Map, NodeId, SLOTS, Slot, level};
use node::cluster::Cluster;
use node::config::{Live, Renames, Values};
use node::{Facts, Mailbox, Node, Outgoing, Output, Peer, SLICES, Token, UnixMs, Worker};
use resp::{ReplyDecoder, Value, append_request};

use crate::clocks::{Clocks, Given, Hand};
use crate::crumbs::crumbled;
use crate::leader::{Leader, Librarian};
use crate::ledger::{Disks, Ledger};
pub use crate::shown::shown;
pub use recovered::{recovered_map, without};
mod recovered;

/// One end of a connection: the node, the worker, and the worker's token.
type End = (usize, usize, Token);

struct Machine {
    node: Arc<Node>,
    clocks: Arc<Clocks>,
    cluster: Arc<Cluster>,
    lease: &'static Given,
    workers: Vec<Worker>,
    woken: Vec<Arc<AtomicBool>>,
    ledger: Option<Ledger>,
}

/// The settings that all nodes share.
struct Setup {
    workers: usize,
    settings: Vec<(String, String)>,
}

impl Setup {
    /// A node in its life `life`, with its disks; 0: it is in no cluster. `inherits`: the disks are another node's.
    fn start(
        &self,
        (i, life, inherits): (usize, u64, bool),
        started: BootNs,
        map: Arc<Map>,
        clock: &Arc<Hand>,
        seed: u64,
        disks: Option<Disks>,
    ) -> Machine {
        let mut values = Values::default();
        values.set("protected-mode", b"no").unwrap();
        self.settings.iter().for_each(|(name, value)| values.set(name, value.as_bytes()).unwrap());
        let clocks = Arc::new(Clocks { hand: clock.clone(), ahead_ms: AtomicU64::new(0) });
        let live = Live::new(values, None, Renames::default()).into();
        let node = Node::new(live, clocks.clone(), self.workers, 7, Facts::default());
        let ledger = disks.map(|disks| Ledger::open(disks, &node, self.workers));
        let lease: &'static Given = Box::leak(Box::new(Given(AtomicU64::new(u64::MAX))));
        let cluster = Cluster::new(NodeId([i as u8 + 1; 20]), life, started, map, Box::new(lease));
        if inherits && !node.engine.transactions.knows_nothing() {
            cluster.inherits();
        }
        if life > 0 {
            node.join(cluster.clone());
        }
        let woken: Vec<Arc<AtomicBool>> = (0..self.workers).map(|_| Arc::default()).collect();
        for (index, flag) in woken.iter().enumerate() {
            let flag = flag.clone();
            node.open_mailbox(index, Mailbox::new(Box::new(move || flag.store(true, Relaxed))));
        }
        let workers = (0..self.workers).map(|index| Worker::new(node.clone(), index, seed + index as u64)).collect();
        Machine { node, clocks, cluster, lease, workers, woken, ledger }
    }
}

/// Bytes that were sent and not read yet.
#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    closed: bool,
}

/// A client's connection.
pub struct Client {
    end: End,
    to: Pipe,
    received: Vec<u8>,
    decoder: ReplyDecoder,
    /// True if the server has closed it.
    pub closed: bool,
}

/// See the module's text.
pub struct Net {
    pub clock: Arc<Hand>,
    setup: Setup,
    machines: Vec<Machine>,
    pub clients: Vec<Client>,
    /// By the end that writes: the end that reads, and the bytes under way.
    links: BTreeMap<End, (End, Pipe)>,
    seed: u64,
    /// Nodes that cannot be reached.
    pub unreachable: Vec<usize>,
    /// Nodes whose machines are gone: a dialed link gets no answer.
    pub mute: Vec<usize>,
    /// Nodes from and to which no bytes of links are moved.
    pub stalled: Vec<usize>,
    /// Ends of links from which the network takes nothing more.
    unsent: Vec<End>,
    /// A worker (node, index) in the middle of a turn, and the start of that turn in unix milliseconds.
    pub long_turn: Option<((usize, usize), UnixMs)>,
    /// True if replies go over links a byte at a time: each is an item of its own.
    pub crumbles: bool,
    /// Bytes that links have taken.
    pub carried: usize,
}

/// Bytes of a piece that the network delivers, at most.
const PIECE: u64 = 4000;
/// Bytes that the network takes of a node while the other end reads nothing.
const UNREAD: usize = 1 << 20;

/// The map of `n` nodes, each of which owns one range.
pub fn even_map(n: usize, version: u64) -> Map {
    let nodes = (0..n).map(|i| Member {
        id: NodeId([i as u8 + 1; 20]),
        number: i as u32 + 1,
        host: format!("10.0.0.{}", i + 1),
        port: 7000 + i as u16,
        bus_port: 17000 + i as u16,
        client_port: 8000 + i as u16,
        incarnation: 1,
        epoch: 1,
        lost: false,
        level: level::HIGHEST,
        machine: String::new(),
        voter: true,
    });
    let at = |i: usize| (SLOTS * i / n) as u16;
    let ranges = (0..n).map(|i| Range {
        start: Slot::of(at(i)),
        end: Slot::of((SLOTS * (i + 1) / n - 1) as u16),
        node: i as u16,
    });
    Map::new(Some(ClusterId([9; 20])), version, 1, nodes.collect(), ranges.collect()).with_level(level::HIGHEST)
}

/// A key of node `i` of `n` that contains `name`.
pub fn key_of(i: usize, n: usize, name: &str) -> String {
    let map = even_map(n, 1);
    (0..)
        .map(|salt| format!("{name}:{salt}"))
        .find(|key| map.owner_of(Slot::of(keyspace::slot_of(key.as_bytes()))) == Some(i as u16))
        .unwrap()
}

/// Random numbers below the argument, from a seed.
pub fn random(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    }
}

/// Different keys, of each of so many nodes in turn.
pub fn keys<const N: usize>(nodes: usize) -> [String; N] {
    std::array::from_fn(|i| key_of(i % nodes, nodes, &format!("k{i}")))
}

impl Net {
    /// Three nodes, a client of each, and a key of each.
    pub fn three(workers: usize, seed: u64) -> (Net, [usize; 3], [String; 3]) {
        let mut net = Net::new(3, workers, seed);
        let clients = [0, 1, 2].map(|node| net.connect(node));
        (net, clients, keys(3))
    }

    /// A cluster of `nodes` nodes with so many workers each.
    pub fn new(nodes: usize, workers: usize, seed: u64) -> Net {
        Self::with(nodes, workers, seed, &[])
    }

    /// A cluster with settings.
    pub fn with(nodes: usize, workers: usize, seed: u64, settings: &[(&str, &str)]) -> Net {
        Self::begin(nodes, workers, seed, settings, false)
    }

    /// A cluster whose nodes have logs.
    pub fn logged(nodes: usize, workers: usize, seed: u64, fsync: &str) -> Net {
        Self::begin(nodes, workers, seed, &[("appendonly", "yes"), ("appendfsync", fsync)], true)
    }

    fn begin(nodes: usize, workers: usize, seed: u64, settings: &[(&str, &str)], logged: bool) -> Net {
        let clock = Arc::new(Hand {
            us: AtomicU64::new(1_700_000_000_000_000),
            ns: AtomicU64::new(1),
            step: AtomicU64::new(100),
        });
        let settings = crate::clocks::without_waits(settings);
        let setup = Setup { workers, settings };
        let start = |i| {
            setup.start(
                (i, 1, false),
                BootNs::default(),
                Arc::new(even_map(nodes, 1)),
                &clock,
                seed,
                logged.then(Disks::default),
            )
        };
        Net {
            machines: (0..nodes).map(start).collect(),
            setup,
            clock,
            clients: Vec::new(),
            links: BTreeMap::new(),
            seed: seed | 1,
            unreachable: Vec::new(),
            mute: Vec::new(),
            stalled: Vec::new(),
            unsent: Vec::new(),
            long_turn: None,
            crumbles: false,
            carried: 0,
        }
    }

    /// A node's machine loses its power and all unsynced bytes, and starts. All nodes get this map with its new life.
    pub fn power_fails(&mut self, node: usize, map: Map) {
        self.power_fails_at(node, node, map);
    }

    /// As [`Self::power_fails`], for a node at this place of the map.
    pub fn power_fails_at(&mut self, node: usize, place: usize, map: Map) {
        self.starts_again((node, place, false), map);
    }

    /// A node begins its next life with the data of another node, which here are its own.
    pub fn is_restored(&mut self, node: usize, map: Map) {
        self.starts_again((node, node, true), map);
    }

    fn starts_again(&mut self, (node, place, inherits): (usize, usize, bool), map: Map) {
        let map = Arc::new(map);
        (0..self.machines.len()).for_each(|other| self.cut(node, other));
        self.clients.iter_mut().filter(|client| client.end.0 == node).for_each(|client| client.closed = true);
        let life = map.nodes()[place].incarnation;
        let disks = self.machines[node].ledger.take().expect("it has a log").disks.after_power_cut();
        let seed = self.chance(u64::MAX);
        self.machines[node] = self.setup.start(
            (node, life, inherits),
            node::Clock::boot_ns(&*self.clock),
            map.clone(),
            &self.clock,
            seed >> 1,
            Some(disks),
        );
        self.machines.iter().for_each(|machine| machine.cluster.set_map(map.clone()));
    }

    /// A node's disks become those of a server that is in no cluster, or has just formed one alone.
    pub fn becomes_a_server(&mut self, node: usize, life: u64) {
        (0..self.machines.len()).for_each(|other| self.cut(node, other));
        self.clients.iter_mut().filter(|client| client.end.0 == node).for_each(|client| client.closed = true);
        let disks = self.machines[node].ledger.take().expect("it has a log").disks.after_power_cut();
        let seed = self.chance(u64::MAX);
        let alone = even_map(1, 1);
        let mut nodes = alone.nodes().to_vec();
        (nodes[0].id, nodes[0].incarnation) = (NodeId([node as u8 + 1; 20]), life.max(1));
        let alone = Map::new(alone.cluster(), 1, 1, nodes, alone.ranges().to_vec());
        self.machines[node] = self.setup.start(
            (node, life, true),
            node::Clock::boot_ns(&*self.clock),
            Arc::new(alone),
            &self.clock,
            seed >> 1,
            Some(disks),
        );
    }

    /// The disk of a node's log hangs, or works again.
    pub fn hang_log(&mut self, node: usize, hangs: bool) {
        self.machines[node].ledger.as_mut().expect("it has a log").hangs = hangs;
    }

    /// The disk of a node's log has room for so many bytes, or for any number.
    pub fn leave_room(&mut self, node: usize, room: Option<u64>) {
        self.machines[node].ledger.as_mut().expect("it has a log").leave_room(room);
    }

    /// The syncs that a node has begun do not end, or end again.
    pub fn hold_syncs(&mut self, node: usize, held: bool) {
        self.machines[node].ledger.as_mut().expect("it has a log").holds_syncs = held;
    }

    /// The next sync of a node's log fails.
    pub fn fail_sync(&mut self, node: usize) {
        self.machines[node].ledger.as_mut().expect("it has a log").fail_sync();
    }

    fn chance(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    /// The part of a node that the control plane sees.
    pub fn cluster(&self, node: usize) -> &Cluster {
        &self.machines[node].cluster
    }

    /// Gives a node a lease until then, in unix milliseconds.
    pub fn lease(&self, node: usize, until_ms: u64) {
        self.machines[node].lease.0.store(until_ms.saturating_mul(1_000_000), Relaxed);
    }

    /// A node hears once from the metadata's leader that others hold no leases. The test decides about later news.
    pub fn hears_of_silent(&self, node: usize, silent: &[usize]) -> Leader {
        let leader = Leader::default();
        leader.says(silent);
        self.machines[node].cluster.set_administration(Box::new(leader.clone()));
        leader
    }

    /// Gives all nodes metadata that keep libraries of functions. Called once.
    pub fn keeps_libraries(&self) -> Librarian {
        let librarian = Librarian::of(self.machines.iter().map(|machine| machine.node.clone()).collect());
        for machine in &self.machines {
            machine.cluster.set_administration(Box::new(librarian.clone()));
        }
        librarian
    }

    /// True if no node has anything left of any transaction.
    pub fn is_quiet(&self) -> bool {
        self.machines.iter().all(|machine| !machine.node.engine.transactions.any())
    }

    /// Number of a node's connections with transactions between BEGIN and COMMIT.
    pub fn looked_after(&self, node: usize) -> usize {
        self.machines[node].workers.iter().map(Worker::open_transactions).sum()
    }

    /// The commands of a client run for this user from now on. Returns false if the client is owed replies.
    pub fn acts_as(&mut self, client: usize, principal: Principal) -> bool {
        let (node, worker, token) = self.clients[client].end;
        self.machines[node].workers[worker].set_principal(token, principal)
    }

    /// The users for whom commands of clients of other nodes run at a node.
    pub fn principals(&self, node: usize) -> Vec<Principal> {
        let workers = self.machines[node].workers.iter();
        let all = workers.flat_map(|worker| worker.principals());
        // Nodes have a connection of their own.
        all.filter(|(client, _)| *client > 0).map(|(_, principal)| principal).collect()
    }

    /// The node.
    pub fn node(&self, node: usize) -> &Node {
        &self.machines[node].node
    }

    /// Sets the clock of a node ahead of the others.
    pub fn sets_clock(&mut self, node: usize, ahead_ms: u64) {
        self.machines[node].clocks.ahead_ms.store(ahead_ms, Relaxed);
    }

    /// Time passes, and no worker has had a turn since.
    pub fn clock_only(&mut self, ms: u64) {
        self.clock.us.fetch_add(ms * 1000, Relaxed);
        self.clock.ns.fetch_add(ms * 1_000_000, Relaxed);
    }

    /// Time passes.
    pub fn sleep(&mut self, ms: u64) {
        self.clock_only(ms);
        self.run();
    }

    /// Connects a client to a node. Returns its number.
    pub fn connect(&mut self, node: usize) -> usize {
        self.connect_as(node, false)
    }

    /// Connects a smart client, at the port for those. Returns its number.
    pub fn connect_smart(&mut self, node: usize) -> usize {
        self.connect_as(node, true)
    }

    fn connect_as(&mut self, node: usize, smart: bool) -> usize {
        let machine = &mut self.machines[node];
        let worker = self.clients.len() % machine.workers.len();
        let (now, peer) = (machine.node.clock.unix_ms(), Peer { loopback: true, smart, ..Peer::default() });
        let token = machine.workers[worker].accept(peer, now).unwrap();
        self.clients.push(Client {
            end: (node, worker, token),
            to: Pipe::default(),
            received: Vec::new(),
            decoder: ReplyDecoder::default(),
            closed: false,
        });
        self.clients.len() - 1
    }

    /// Sends bytes of a client.
    pub fn send_raw(&mut self, client: usize, bytes: &[u8]) {
        self.clients[client].to.bytes.extend(bytes);
    }

    /// Sends a command of a client.
    pub fn send(&mut self, client: usize, command: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        self.send_words(client, &words);
    }

    /// Sends a command of a client whose words may hold anything.
    pub fn send_words(&mut self, client: usize, words: &[&str]) {
        let mut bytes = Vec::new();
        append_request(&mut bytes, words);
        self.send_raw(client, &bytes);
    }

    /// Sends commands of a client, and returns as many replies.
    pub fn pipeline(&mut self, client: usize, commands: &[&str]) -> Vec<Value> {
        commands.iter().for_each(|command| self.send(client, command));
        self.run();
        self.replies(client)
    }

    /// Sends a command, and returns its reply.
    pub fn ask(&mut self, client: usize, command: &str) -> Value {
        let mut replies = self.pipeline(client, &[command]);
        assert_eq!(replies.len(), 1, "{command}: {replies:?}");
        replies.remove(0)
    }

    /// Sends a command, and returns its reply roughly as redis-cli shows it.
    pub fn say(&mut self, client: usize, command: &str) -> String {
        shown(&self.ask(client, command))
    }

    /// As [`Self::say`], for words that may hold anything.
    pub fn say_words(&mut self, client: usize, words: &[&str]) -> String {
        self.send_words(client, words);
        self.heard(client).join(",")
    }

    /// The replies that have come for a client.
    pub fn replies(&mut self, client: usize) -> Vec<Value> {
        let client = &mut self.clients[client];
        let mut values = Vec::new();
        while let Some((value, length)) = client.decoder.next(&client.received).unwrap() {
            client.received.drain(..length);
            values.push(value);
        }
        values
    }

    /// The replies that have come, as text.
    pub fn heard(&mut self, client: usize) -> Vec<String> {
        self.run();
        self.replies(client).iter().map(shown).collect()
    }

    /// A client closes its connection.
    pub fn leave(&mut self, client: usize) {
        self.clients[client].to.closed = true;
    }

    /// The bytes that a client has sent arrive, and the end of its stream; the client still reads.
    pub fn end(&mut self, client: usize) {
        let client = &mut self.clients[client];
        let ((node, worker, token), bytes) = (client.end, client.to.bytes.drain(..).collect::<Vec<u8>>());
        let worker = &mut self.machines[node].workers[worker];
        worker.input(token, &bytes);
        worker.ended(token);
    }

    /// Puts an item that no node would send into every link from `from` to `to`.
    pub fn slip_in(&mut self, from: usize, to: usize, item: &Item<'_>) {
        let mut body = Vec::new();
        item.put(&mut body);
        self.slip_in_frame(from, to, Kind::Data, &body);
    }

    /// As [`Self::slip_in`], for a frame.
    pub fn slip_in_frame(&mut self, from: usize, to: usize, kind: Kind, body: &[u8]) {
        let mut bytes = Vec::new();
        let at = frame::begin(&mut bytes);
        bytes.extend_from_slice(body);
        frame::finish(&mut bytes, at, kind);
        for (_, (_, pipe)) in self.links.iter_mut().filter(|(a, (b, _))| a.0 == from && b.0 == to) {
            pipe.bytes.extend(&bytes);
        }
    }

    /// The number of links between two nodes.
    pub fn links(&self, a: usize, b: usize) -> usize {
        self.links.iter().filter(|(from, (to, _))| from.0 == a && to.0 == b).count()
    }

    /// Ends all links between two nodes. Bytes under way are lost.
    pub fn cut(&mut self, a: usize, b: usize) {
        let ends: Vec<End> = self
            .links
            .iter()
            .filter(|(from, (to, _))| from.0 == a && to.0 == b || from.0 == b && to.0 == a)
            .map(|(from, _)| *from)
            .collect();
        for end in ends {
            self.links.remove(&end);
            self.machines[end.0].workers[end.1].closed(end.2);
        }
    }

    /// Lets everything happen that can happen before time passes.
    pub fn run(&mut self) {
        for round in 0..100_000 {
            let mut quiet = true;
            for node in 0..self.machines.len() {
                for worker in 0..self.machines[node].workers.len() {
                    quiet &= !self.turn(node, worker);
                }
            }
            quiet &= !self.deliver();
            quiet &= !self.machines.iter().flat_map(|machine| &machine.woken).any(|woken| woken.load(Relaxed));
            if quiet {
                return;
            }
            assert!(round < 99_999, "it never ends");
        }
    }

    /// Lets so many rounds of that happen.
    pub fn turns(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for node in 0..self.machines.len() {
                for worker in 0..self.machines[node].workers.len() {
                    self.turn(node, worker);
                }
            }
            self.deliver();
        }
    }

    fn turn(&mut self, node: usize, index: usize) -> bool {
        let mut busy = false;
        let began = self.long_turn.filter(|(worker, _)| *worker == (node, index)).map(|(_, began)| began);
        let now = began.unwrap_or(self.machines[node].node.clock.unix_ms());
        let machine = &mut self.machines[node];
        if machine.workers[index].has_left() {
            return self.ends(node, index);
        }
        if machine.woken[index].swap(false, Relaxed) {
            busy = true;
            machine.workers[index].read_mail();
        }
        machine.workers[index].turn(now);
        busy |= machine.workers[index].has_work();
        busy |= machine.ledger.as_mut().is_some_and(Ledger::step);
        while machine.workers[index].next_thirsty().is_some() {}
        while let Some(dial) = self.machines[node].workers[index].next_dial() {
            busy = true;
            self.dial(node, index, dial.token, dial.port);
        }
        while let Some(token) = self.machines[node].workers[index].next_output() {
            busy |= self.flush((node, index, token));
        }
        let unsent = std::mem::take(&mut self.unsent);
        unsent.into_iter().fold(busy, |busy, end| self.flush(end) | busy)
    }

    /// A worker of a node that shuts down has done its part: all its connections are closed.
    fn ends(&mut self, node: usize, worker: usize) -> bool {
        let is_its = |end: &End| (end.0, end.1) == (node, worker);
        let mut busy = self.machines[node].woken[worker].swap(false, Relaxed);
        for client in self.clients.iter_mut().filter(|client| is_its(&client.end)) {
            busy |= !std::mem::replace(&mut client.closed, true);
        }
        for (_, (_, pipe)) in self.links.iter_mut().filter(|(end, _)| is_its(end)) {
            busy |= !std::mem::replace(&mut pipe.closed, true);
        }
        busy
    }

    fn dial(&mut self, node: usize, worker: usize, token: Token, port: u16) {
        let to = usize::from(port - 17000);
        if self.unreachable.contains(&to) || self.unreachable.contains(&node) || self.machines[to].node.is_stopping() {
            return self.machines[node].workers[worker].closed(token);
        }
        if self.mute.contains(&to) {
            return;
        }
        let other = self.chance(self.machines[to].workers.len() as u64) as usize;
        let (now, name) = (self.machines[to].node.clock.unix_ms(), format!("node-{node}"));
        let accepted = self.machines[to].workers[other].accept_link(&name, now);
        let (a, b) = ((node, worker, token), (to, other, accepted));
        self.links.insert(a, (b, Pipe::default()));
        self.links.insert(b, (a, Pipe::default()));
        assert!(self.machines[node].workers[worker].link_opened(token));
    }

    fn flush(&mut self, end: End) -> bool {
        let mut busy = false;
        loop {
            let is_full = self.is_full(end);
            let worker = &mut self.machines[end.0].workers[end.1];
            let (bytes, closed) = match worker.output(end.2) {
                Output::Idle => return busy,
                Output::Close => (Vec::new(), true),
                Output::Last(bytes) => (bytes.to_vec(), true),
                Output::Send(_) if is_full => {
                    self.unsent.push(end);
                    return busy;
                }
                Output::Send(out) => (bytes_of(out), false),
            };
            busy = true;
            match closed {
                true => worker.closed(end.2),
                false => _ = worker.sent(end.2, bytes.len()),
            }
            if let Some((_, pipe)) = self.links.get_mut(&end) {
                self.carried += bytes.len();
                pipe.bytes.extend(if self.crumbles { crumbled(&bytes) } else { bytes });
                pipe.closed |= closed;
            } else if let Some(client) = self.clients.iter_mut().find(|client| client.end == end && !client.closed) {
                client.received.extend(bytes);
                client.closed |= closed;
            }
            if closed {
                return true;
            }
        }
    }

    /// True if the network takes nothing more from this end of a link, as the other end does not read.
    fn is_full(&self, end: End) -> bool {
        let is_stalled = |node: usize| self.stalled.contains(&node);
        let link = self.links.get(&end);
        link.is_some_and(|(to, pipe)| pipe.bytes.len() > UNREAD && (is_stalled(to.0) || is_stalled(end.0)))
    }

    /// Moves some bytes of every connection.
    fn deliver(&mut self) -> bool {
        let mut busy = false;
        for i in 0..self.clients.len() {
            let most = self.chance(PIECE) as usize + 1;
            let client = &mut self.clients[i];
            let end = client.end;
            let n = most.min(client.to.bytes.len());
            let bytes: Vec<u8> = client.to.bytes.drain(..n).collect();
            let ends = client.to.closed && client.to.bytes.is_empty() && !client.closed;
            client.closed |= ends;
            let worker = &mut self.machines[end.0].workers[end.1];
            if !bytes.is_empty() {
                busy = true;
                worker.input(end.2, &bytes);
            }
            if ends {
                busy = true;
                worker.closed(end.2);
            }
        }
        let from: Vec<End> = self.links.keys().copied().collect();
        for end in from {
            let most = self.chance(PIECE) as usize + 1;
            let Some((to, pipe)) = self.links.get_mut(&end) else { continue };
            let to = *to;
            if self.stalled.contains(&end.0) || self.stalled.contains(&to.0) {
                continue;
            }
            let n = most.min(pipe.bytes.len());
            let bytes: Vec<u8> = pipe.bytes.drain(..n).collect();
            let ends = pipe.closed && pipe.bytes.is_empty();
            if !bytes.is_empty() {
                busy = true;
                self.machines[to.0].workers[to.1].input(to.2, &bytes);
            }
            if ends {
                busy = true;
                self.links.remove(&end);
                self.links.remove(&to);
                self.machines[to.0].workers[to.1].closed(to.2);
            }
        }
        busy
    }
}

fn bytes_of(out: &Outgoing) -> Vec<u8> {
    let mut slices = [IoSlice::new(&[]); SLICES];
    let count = out.slices(&mut slices, usize::MAX);
    slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect()
}
