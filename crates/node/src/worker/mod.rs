//! The worker: a state machine that bytes, messages and time go into, and bytes and messages come out of.
//!
//! The driver's part of the contract: [`Worker::accept`] and [`Worker::received`] as things happen, then one
//! [`Worker::turn`], then [`Worker::next_output`] until it has nothing more. A worker never blocks, reads no clock and
//! knows no socket.

pub(crate) mod conn;
pub(crate) mod execute;
pub(crate) mod forwarding;
pub(crate) mod front;
pub(crate) mod holes;
pub(crate) mod housekeeping;
pub(crate) mod http;
pub(crate) mod jobs;
pub(crate) mod leavers;
pub(crate) mod leaving;
pub(crate) mod long_waits;
pub(crate) mod message;
pub(crate) mod next;
pub(crate) mod outgoing;
pub(crate) mod pause;
pub(crate) mod steps;
pub(crate) mod token;
pub(crate) mod told;
pub(crate) mod transactions;
pub(crate) mod transfer;
pub(crate) mod turn;
pub(crate) mod wait;
pub(crate) mod waiting;
pub(crate) mod waits;

pub use token::Token;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use engine::Engine;
use keyspace::Horizon;
use resp::{Protocol, Reply};

use crate::client::{Client, Peer};
use crate::clock::MonoNs;
use crate::cluster::{Peers, Remote, Role};
use crate::config::{Follower, OutputLimit};
use crate::durability::promises::Promises;
use crate::figures::meter::Meter;
use crate::figures::stats::{WorkerStats, add, sub};
use crate::limits::crowd;
use crate::limits::memory::Memory;
use crate::node::Node;
use crate::push::delivery::Delivery;
use crate::push::untold::Untold;
use crate::session::{self, Detached, Machines, Session, Subscriptions};
use crate::transactions::inherited::Inherited;
use crate::transactions::state::Transactions;
use crate::worker::conn::Conn;
use crate::worker::message::Message;
use crate::worker::pause::Pause;
use crate::worker::waiting::{Leavers, LongWaits};

/// One worker.
pub struct Worker {
    pub(crate) node: Arc<Node>,
    pub(crate) index: usize,
    pub(crate) engine: Engine,
    pub(crate) follower: Follower,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) conns: Vec<Option<Box<Conn>>>,
    generations: Vec<u32>,
    free: Vec<u32>,
    /// Connections with something to execute.
    pub(crate) ready: VecDeque<Token>,
    /// Connections with something to send, or to close, in the order in which they got it. So a publisher is answered
    /// before its many subscribers, and can send the next message while they are sent to.
    pub(crate) dirty: VecDeque<Token>,
    /// When blocked connections give up: time and connection.
    pub(crate) deadlines: BTreeSet<(UnixMs, Token)>,
    /// The limits of memory.
    pub(crate) memory: Memory,
    /// Waits that ended while their queues were latched: to be taken out.
    pub(crate) leftovers: Vec<Arc<engine::Blocked>>,
    /// When housekeeping is due next.
    pub(crate) next_round: UnixMs,
    /// CPU nanoseconds of this thread when the last turn began, while turns are measured.
    pub(crate) turn_began: Option<u64>,
    /// The moment after which the turn begins no further commands, monotonic nanoseconds; 0 before its first.
    pub(crate) turn_until: MonoNs,
    /// True if a client monitors, as this turn sees it.
    pub(crate) monitored: bool,
    /// The stopwatch.
    pub(crate) meter: Meter,
    /// When DEBUG SLEEP began, monotonic nanoseconds.
    pub(crate) slept_from: MonoNs,
    /// CLIENT PAUSE as this turn sees it: which commands are held back, and until when.
    pub(crate) paused: Option<(Pause, UnixMs)>,
    /// Connections that wait for its end.
    pub(crate) held_back: Vec<Token>,
    /// The strongest pause that holds one of them back.
    pub(crate) held_by: Option<Pause>,
    /// Connections in a walk over the keyspace.
    pub(crate) walks: VecDeque<Token>,
    /// Connections with a script under way.
    pub(crate) scripts: VecDeque<Token>,
    /// Connections among them whose clients have gone: their scripts run to their ends.
    pub(crate) orphans: VecDeque<Box<Conn>>,
    /// Machines for scripts.
    pub(crate) machines: Machines,
    /// Connections to look at again at once.
    pub(crate) again: Vec<Token>,
    /// Commands that a turn has parsed and not executed yet.
    window: Option<Box<turn::Window>>,
    /// Connections that had enough to do and can be read from again.
    pub(crate) thirsty: Vec<Token>,
    /// Messages for clients beside their replies.
    pub(crate) news: Untold,
    /// The log, and what waits for it.
    pub(crate) promises: Promises,
    /// True if nothing is executed: see `switching`.
    pub(crate) halted: bool,
    /// Nothing is executed any more, and connections are closed at this moment at the latest: see
    /// `leaving`.
    pub(crate) leaves_at: Option<UnixMs>,
    /// Connections whose clients send nothing more.
    pub(crate) leavers: Leavers,
    /// The number of the present turn.
    pub(crate) turn: u64,
    /// Transactions of another node's life that are to be settled.
    pub(crate) inherited: Option<Box<Inherited>>,
    /// Connections and tasks that wait for locks, and since when.
    pub(crate) long_waits: LongWaits,
    /// The cluster and the links to its nodes. A server that is no cluster has no others.
    pub(crate) peers: Peers,
    /// Transactions over nodes.
    pub(crate) txn: Box<Transactions>,
    /// Buffers to be used again.
    pub(crate) spares: Vec<Vec<u8>>,
}

impl Worker {
    /// Worker `index` of `node`. `seed` is the seed of its randomness.
    pub fn new(node: Arc<Node>, index: usize, seed: u64) -> Self {
        let mut engine = Engine::new(node.engine.clone(), index as u16, seed);
        engine.only_read(node.follows.load(Relaxed));
        let machines = Machines::default();
        let peers = Peers::new(&node, node.cluster().cloned());
        let mut worker = Self {
            follower: Follower::new(node.config.clone()),
            meter: Meter::new(&node, index),
            slept_from: MonoNs::default(),
            stats: node.stats[index].clone(),
            node,
            index,
            engine,
            conns: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            ready: Default::default(),
            dirty: VecDeque::new(),
            deadlines: BTreeSet::new(),
            memory: Memory::default(),
            leftovers: Vec::new(),
            next_round: UnixMs::ZERO,
            turn_began: None,
            turn_until: MonoNs::default(),
            monitored: false,
            paused: None,
            held_back: Vec::new(),
            held_by: None,
            walks: VecDeque::new(),
            scripts: VecDeque::new(),
            orphans: VecDeque::new(),
            machines,
            again: Vec::new(),
            window: None,
            thirsty: Vec::new(),
            news: Untold::default(),
            halted: false,
            leaves_at: None,
            leavers: Leavers::default(),
            promises: Promises::default(),
            turn: 0,
            inherited: None,
            long_waits: LongWaits::default(),
            peers,
            txn: Box::default(),
            spares: Vec::new(),
        };
        if let Some(durable) = worker.node.durable() {
            worker.engine.log_to(durable.link(index, true));
            (worker.promises.durable, worker.promises.promised) = (Some(durable), true);
        }
        worker.inherited = Inherited::of(&worker.node, index);
        worker.reconfigure();
        worker
    }

    /// The node.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Index of this worker.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of connections.
    pub fn connections(&self) -> usize {
        self.conns.len() - self.free.len()
    }

    pub(crate) fn reconfigure(&mut self) {
        let settings = self.follower.settings().clone();
        self.meter.configure(&settings, self.node.cluster().is_some());
        self.engine.configure(Arc::new(settings.tunables.clone()), settings.notify_keyspace_events);
    }

    // ---- connections

    /// Takes a new connection. A refused one is to be closed when the bytes were sent.
    ///
    /// # Errors
    ///
    /// The connection is refused: the bytes that tell its client why.
    pub fn accept(&mut self, peer: Peer, now: UnixMs) -> Result<Token, &'static [u8]> {
        // The present settings: the last turn may have been a while ago.
        let settings = self.node.config.settings();
        if !peer.tls && self.protects_from(&peer) {
            return Err(PROTECTED);
        }
        // A client that connects to make room gets in, unless there are many of them.
        if headroom::is_tight() && self.connections() >= FEW {
            add(&self.stats.rejected, 1);
            return Err(NO_ROOM);
        }
        let Some(id) = self.node.admit(u64::from(settings.maxclients)) else {
            add(&self.stats.rejected, 1);
            return Err(b"-ERR max number of clients reached\r\n");
        };
        add(&self.stats.connections, 1);
        let token = self.reserve_token();
        let client = Arc::new(Client::new(id, peer, now, self.index as u16, token));
        self.node.register(client.clone());
        let session = Session::new(client, self.node.users.lets_in(settings.requirepass.as_ref()));
        self.install(token, session, Role::Client);
        Ok(token)
    }

    /// True if a client may not come from there (`protected-mode`).
    fn protects_from(&self, peer: &Peer) -> bool {
        let settings = self.node.config.settings();
        settings.protected_mode
            && !peer.unix
            && !peer.loopback
            && self.node.users.needs_no_password(settings.requirepass.as_ref())
    }

    /// The client's TLS handshake is done, and this is the common name in the certificate that the client has shown.
    pub fn identified(&mut self, token: Token, name: Option<&[u8]>) {
        let (node, now) = (self.node.clone(), self.engine.now());
        let Some(client) = self.conn(token).map(|conn| conn.session.client.clone()) else { return };
        let is_shut_out = client.peer.tls && self.protects_from(&client.peer);
        let Some(conn) = self.conn(token) else { return };
        if is_shut_out {
            conn.out.bytes.extend_from_slice(PROTECTED);
            conn.closing = true;
            self.mark_dirty(token);
        } else if let Some(name) = name {
            session::identify(&node, &mut conn.session, name, now);
        }
    }

    /// Hands a connection out for another worker, with the bytes that it has received. `None`: it stays, because it
    /// waits, has output to send, or is in the middle of a command.
    pub fn detach(&mut self, token: Token) -> Option<Box<Detached>> {
        let conn = self.conn(token)?;
        // Messages on their way to a client in MONITOR mode or to a subscriber name its worker.
        if conn.session.monitors || conn.session.is_subscribed() || conn.session.transaction.is_some() {
            return None;
        }
        if !conn.is_free() || !conn.out.is_done() || conn.unread() > 0 || conn.queued || conn.dirty {
            return None;
        }
        // Its virtual connections are opened anew, but not the keys that it watches there.
        let stays = |remote: &Remote| remote.is_owed() || remote.lost_watch || remote.watching().next().is_some();
        if !conn.is_client() || conn.remote.as_deref().is_some_and(stays) {
            return None;
        }
        let mut conn = self.take_conn(token)?;
        self.forwarding().leave_nodes(&mut conn);
        self.engine.cancel_reservation(token);
        self.release_token(token);
        sub(&self.stats.clients, 1);
        conn.unweigh(&self.stats);
        Some(Box::new(Detached { session: conn.session }))
    }

    /// Takes a connection that another worker has handed out.
    pub fn adopt(&mut self, detached: Detached) -> Token {
        let token = self.reserve_token();
        let client = &detached.session.client;
        client.worker.store(self.index as u16, Relaxed);
        client.token.store(token, Relaxed);
        let id = detached.session.client.id;
        self.install(token, detached.session, Role::Client);
        // It may have been killed on the way, by a worker that told its former worker. That worker takes the client off
        // the list first and looks up its worker then. So it either finds this worker, or the client is gone here.
        if !self.node.clients().contains_key(&id) {
            self.cut(token);
        }
        token
    }

    fn release_token(&mut self, token: Token) {
        let index = token as u32;
        self.generations[index as usize] = self.generations[index as usize].wrapping_add(1);
        self.free.push(index);
    }

    pub(crate) fn reserve_token(&mut self) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            self.generations.push(0);
            self.conns.len() as u32 - 1
        });
        u64::from(self.generations[index as usize]) << 32 | u64::from(index)
    }

    pub(crate) fn install(&mut self, token: Token, session: Session, role: Role) {
        if let Role::Client = role {
            add(&self.stats.clients, 1);
        }
        self.conns[token as u32 as usize] = Some(Box::new(Conn::new(token, session, role)));
    }

    pub(crate) fn conn(&mut self, token: Token) -> Option<&mut Conn> {
        self.conns.get_mut(token as u32 as usize)?.as_deref_mut().filter(|c| c.token == token)
    }

    /// Takes a connection out of its place for a while, so that it and the worker can be used side by side.
    pub(crate) fn take_conn(&mut self, token: Token) -> Option<Box<Conn>> {
        let place = self.conns.get_mut(token as u32 as usize)?;
        if place.as_ref().is_some_and(|c| c.token == token) { place.take() } else { None }
    }

    pub(crate) fn put_conn(&mut self, conn: Box<Conn>) {
        let index = conn.token as u32 as usize;
        self.conns[index] = Some(conn);
    }

    /// The peer has closed the connection, or the driver must: bytes that were not executed are dropped.
    pub fn closed(&mut self, token: Token) {
        if let Some(conn) = self.take_conn(token) {
            self.dispose(conn);
        }
    }

    pub(crate) fn dispose(&mut self, mut conn: Box<Conn>) {
        self.release_token(conn.token);
        conn.unweigh(&self.stats);
        match std::mem::replace(&mut conn.role, Role::Client) {
            Role::Client => sub(&self.stats.clients, 1),
            Role::Virtual(_) => {}
            Role::Origin(link) => self.forwarding().link_ended(link),
            Role::Owner(inbound) => self.forwarding().owner_ended(&inbound),
        }
        self.forwarding().leave_nodes(&mut conn);
        self.end_wait(&mut conn);
        self.engine.cancel_reservation(conn.token);
        self.forget_claims(conn.token);
        self.transactions().abandon(&mut conn);
        self.engine.unwatch_later(std::mem::take(&mut conn.session.watched));
        session::monitor::stop(&self.node, &mut conn.session);
        session::stop_subscriptions(&self.node, &mut conn.session);
        conn.session.stop_tracking(&self.node);
        self.node.dismiss(conn.session.client.id);
        if conn.wait.is_in_script() {
            // As in Redis, it runs to its end.
            return self.orphans.push_back(conn);
        }
        self.spare(std::mem::take(&mut conn.query));
        self.recycle(std::mem::take(&mut conn.out));
    }

    // ---- messages

    /// Takes the worker's mail and acts on it.
    pub fn read_mail(&mut self) {
        let Some(mailbox) = self.node.mailbox(self.index) else { return };
        for message in mailbox.take() {
            self.deliver(message);
        }
        if std::mem::take(&mut self.memory.too_heavy)
            && let Some(limit) = crowd::limit(self.follower.settings())
        {
            self.close_largest(limit);
        }
    }

    pub(crate) fn deliver(&mut self, message: Message) {
        match message {
            Message::Unpark(token) => self.unpark(token),
            Message::Served { token, reply, seen } => self.served(token, reply.as_deref(), &seen),
            Message::Kill { token } => self.cut(token),
            Message::Reached(_) => {}
            Message::RightsChanged => {
                self.judge_waits();
                self.transactions().judge_waits();
                self.forwarding().resume_all_from_map();
            }
            Message::ChannelsLost { user, left } => self.end_subscribers(user, &left),
            Message::Evict { token } => self.cut_off(token),
            Message::Unblock { token, wait, with_error } => self.unblock(token, &wait, with_error),
            Message::UnblockElsewhere { token, with_error, question } => {
                self.forwarding().unblock_elsewhere(token, with_error, question)
            }
            Message::Seen { token, line } => self.show(token, &line),
            Message::Publish(delivery) => self.hand_over(&delivery),
            Message::Spread { kind, channel, payload, seen } => {
                self.forwarding().spread(kind, &channel, &payload, &seen)
            }
            Message::Transaction(said) => self.txn.take(said.0, said.1),
            Message::Notice(notice) => self.deliver_notice(*notice),
            Message::ResetStats => {
                self.stats.reset();
                self.engine.local().counters().reset();
            }
            Message::Halt(heard) => self.stand_still(&heard),
            Message::Resume => self.stand_still_no_more(),
            Message::Logging(logging, heard) => self.change_logging(logging, &heard),
            Message::Look => {}
        }
    }

    /// Sends a client in MONITOR mode a command that some client has run. A client that does not read is closed, as a
    /// slow subscriber is.
    fn show(&mut self, token: Token, line: &[u8]) {
        let limit = self.follower.settings().output_limit_pubsub;
        let now = self.engine.now();
        let Some(mut conn) = self.take_conn(token) else { return };
        if conn.session.monitors && !conn.closing && self.has_room_beside(&mut conn, line.len()) {
            self.beside_replies(&mut conn, &Horizon::default()).extend_from_slice(line);
            self.fed(&mut conn, limit, now);
        }
        self.put_conn(conn);
        self.mark_dirty(token);
    }

    /// Notes that a message beside its replies was written to a connection.
    pub(crate) fn fed(&mut self, conn: &mut Conn, limit: OutputLimit, now: UnixMs) {
        conn.show_output();
        self.check_output_limit(conn, limit, now);
        if let Some(limit) = crowd::limit(self.follower.settings()).filter(|_| conn.weigh(&self.stats)) {
            self.memory.too_heavy |= self.node.is_above(limit);
        }
    }

    /// Sends a message to the connections that have subscribed, and still are.
    fn hand_over(&mut self, delivery: &Delivery) {
        let limit = self.follower.settings().output_limit_pubsub;
        let now = self.engine.now();
        for &token in &delivery.tokens {
            let Some(mut conn) = self.take_conn(token) else { continue };
            let wanted = |s: &Subscriptions| s.has(delivery.kind, &delivery.topic);
            let wanted = !conn.closing && conn.session.subscriptions.as_deref().is_some_and(wanted);
            if wanted && self.has_room_beside(&mut conn, delivery.push.len()) {
                let protocol = conn.session.protocol;
                let out = self.beside_replies(&mut conn, &delivery.seen);
                let start = out.len();
                out.extend_from_slice(&delivery.push);
                if protocol == Protocol::Resp2 {
                    out[start] = b'*';
                }
                self.fed(&mut conn, limit, now);
            }
            self.put_conn(conn);
            self.mark_dirty(token);
        }
    }

    /// Lets a connection go on with the bytes in its query buffer.
    pub(crate) fn resume(&mut self, token: Token) {
        if self.unpark_task(token) {
            return;
        }
        if let Some(conn) = self.conn(token)
            && !conn.queued
        {
            conn.queued = true;
            self.ready.push_back(token);
        }
    }

    /// When the worker wants a turn even if nothing happens.
    pub fn next_deadline(&self) -> Option<UnixMs> {
        if self.halted {
            return None;
        }
        if !self.leftovers.is_empty() || self.engine.has_leftovers() || self.news.is_due() {
            return Some(self.engine.now() + 1);
        }
        let frozen = self.node.pauses.frozen_until();
        if frozen > self.engine.now() {
            return Some(frozen);
        }
        if self.promises.awaits_sync() {
            // The sync of every second wakes no worker.
            return Some(self.engine.now() + 10);
        }
        // Every turn asks: a chain of iterators costs several times as much.
        let mut at = self.next_round;
        let mut sooner = |deadline: Option<UnixMs>| at = deadline.map_or(at, |deadline| deadline.min(at));
        sooner(self.deadlines.first().map(|(at, _)| *at));
        sooner(self.paused.filter(|_| !self.held_back.is_empty()).map(|(_, until)| until));
        sooner(self.memory.shortage.deadline());
        sooner(self.promises.backlog.deadline(self.engine.now()));
        sooner(self.memory.tidying.deadline());
        sooner(self.peers.link_deadline());
        sooner(self.transactions_deadline());
        sooner(self.inherited.as_ref().map(|inherited| inherited.deadline()));
        sooner(self.leaves_at);
        sooner(self.leavers.deadline());
        Some(at)
    }

    /// Milliseconds until the worker wants a turn even if nothing happens, counted from the beginning of the last one:
    /// at most `most`. So a deadline is late by the length of one turn at most, and no clock is read.
    #[inline]
    pub fn patience_ms(&self, most: u64) -> u64 {
        let now = self.engine.now();
        self.next_deadline().map_or(most, |at| at.since(now).min(most))
    }

    /// True if another turn has to follow at once.
    pub fn has_work(&self) -> bool {
        let under_way = !self.walks.is_empty() || !self.scripts.is_empty() || !self.orphans.is_empty();
        let linked = self.peers.is_cluster() && (self.peers.has_work() || self.txn.has_work());
        // Work that the end of a turn has left to be sent on.
        let left = !self.again.is_empty() || !self.engine.wakes.is_empty() || !self.engine.served.is_empty();
        let work = left
            || !self.ready.is_empty()
            || linked
            || under_way
            || self.memory.reclaiming
            || self.promises.is_unrung()
            || self.may_answer();
        work && !self.halted && self.node.pauses.frozen_until() <= self.engine.now()
    }
}

/// Writes an error to a connection.
pub(crate) fn write_error(out: &mut Vec<u8>, protocol: Protocol, text: &[u8]) {
    Reply::new(out, protocol).error(text);
}

/// A worker takes so many connections even while memory is tight.
const FEW: usize = 32;
/// The reply to later ones while it is.
const NO_ROOM: &[u8] = b"-OOM the system's limit of this process's memory leaves no room for this\r\n";
const PROTECTED: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set \
for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from \
external computers, set a password (requirepass) or disable protected mode (CONFIG SET protected-mode no) from a client on this machine.\r\n";
