//! The worker: a state machine that bytes, messages and time go into, and bytes and messages come out of.
//!
//! The driver's part of the contract: [`Worker::accept`] and [`Worker::received`] as things happen, then one [`Worker::turn`],
//! then [`Worker::next_output`] until it has nothing more. A worker never blocks, reads no clock and knows no socket.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::Engine;
use resp::{Batch, Protocol, Reply};

use crate::client::{Client, Peer};
use crate::config::{EvictionPolicy, Follower, OutputLimit};
use crate::conn::{Conn, Wait};
use crate::message::Message;
use crate::meter::Meter;
use crate::node::Node;
use crate::pause::Pause;
use crate::session::{Detached, Session, monitor};
use crate::stats::{WorkerStats, add, sub};

/// Query buffers and output buffers of this size are kept for reuse.
const BUFFER: usize = 16 * 1024;
/// Spare buffers kept.
const SPARES: usize = 256;

/// Index and generation of a connection, as the driver and the other workers know it.
pub type Token = u64;

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
    pub(crate) ready: std::collections::VecDeque<Token>,
    /// Connections with something to send, or to close.
    pub(crate) dirty: Vec<Token>,
    /// When blocked connections give up: unix milliseconds and connection.
    pub(crate) deadlines: BTreeSet<(u64, Token)>,
    /// Waits that ended and whose queues were latched: to be taken out.
    pub(crate) leftovers: Vec<Arc<engine::Blocked>>,
    /// When housekeeping is due next, unix milliseconds.
    pub(crate) next_round: u64,
    /// CPU nanoseconds of this thread when the last turn began, while turns are measured.
    pub(crate) turn_began: Option<u64>,
    /// Flushed tables are being freed.
    pub(crate) reclaiming: bool,
    /// Somebody monitors, as this turn sees it.
    pub(crate) monitored: bool,
    /// The stopwatch.
    pub(crate) meter: Meter,
    /// When DEBUG SLEEP began, monotonic nanoseconds.
    pub(crate) slept_from: u64,
    /// CLIENT PAUSE as this turn sees it: what is held back, and until when in unix milliseconds.
    pub(crate) paused: Option<(Pause, u64)>,
    /// Connections that wait for its end.
    pub(crate) held_back: Vec<Token>,
    /// Connections in a walk over the keyspace.
    pub(crate) walks: Vec<Token>,
    /// Connections to look at again at once.
    pub(crate) again: Vec<Token>,
    pub(crate) batch: Batch,
    spares: Vec<Vec<u8>>,
}

/// What the driver does with a connection that has output.
pub enum Output<'a> {
    /// Send these bytes, then call [`Worker::sent`].
    Send(&'a [u8]),
    /// Everything has been sent: close the socket. The worker has forgotten the connection.
    Close,
    /// Nothing to do.
    Idle,
}

impl Worker {
    /// Worker `index` of `node`; `seed` feeds its chance.
    pub fn new(node: Arc<Node>, index: usize, seed: u64) -> Self {
        let engine = Engine::new(node.engine.clone(), index as u16, seed);
        let mut worker = Self {
            follower: Follower::new(node.config.clone()),
            meter: Meter::new(node.clock.clone(), node.stats[index].clone(), node.slow_log.clone()),
            slept_from: 0,
            stats: node.stats[index].clone(),
            node,
            index,
            engine,
            conns: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            ready: Default::default(),
            dirty: Vec::new(),
            deadlines: BTreeSet::new(),
            leftovers: Vec::new(),
            next_round: 0,
            turn_began: None,
            reclaiming: false,
            monitored: false,
            paused: None,
            held_back: Vec::new(),
            walks: Vec::new(),
            again: Vec::new(),
            batch: Batch::new(),
            spares: Vec::new(),
        };
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
        self.meter.configure(&settings);
        self.engine.configure(Arc::new(settings.tunables.clone()), settings.notify_keyspace_events);
    }

    // ---- connections

    /// Takes a new connection. `Err`: it is refused; send these bytes and close.
    pub fn accept(&mut self, peer: Peer, now: u64) -> Result<Token, &'static [u8]> {
        let settings = self.follower.settings().clone();
        if settings.protected_mode && settings.requirepass.is_none() && !peer.unix && !peer.loopback {
            return Err(PROTECTED);
        }
        let Some(id) = self.node.admit(u64::from(settings.maxclients)) else {
            add(&self.stats.rejected, 1);
            return Err(b"-ERR max number of clients reached\r\n");
        };
        add(&self.stats.connections, 1);
        let token = self.reserve_token();
        let client = Arc::new(Client::new(id, peer, now, self.index as u16, token));
        self.node.register(client.clone());
        let session = Session::new(client, settings.requirepass.is_none());
        self.install(token, session);
        Ok(token)
    }

    /// Hands out a connection for another worker, with what it has received. `None`: it waits for something, has output to
    /// send, or is in the middle of a command; it stays.
    pub fn detach(&mut self, token: Token) -> Option<Box<Detached>> {
        let conn = self.conn(token)?;
        // What is on its way to a client in MONITOR mode names its worker.
        if conn.session.monitors {
            return None;
        }
        if !conn.is_free() || conn.unsent() > 0 || conn.unread() > 0 || conn.queued || conn.dirty {
            return None;
        }
        let conn = self.take_conn(token)?;
        self.engine.cancel_reservation(token);
        self.release_token(token);
        Some(Box::new(Detached { session: conn.session }))
    }

    /// Takes a connection that another worker has handed out.
    pub fn adopt(&mut self, detached: Detached) -> Token {
        let token = self.reserve_token();
        let client = &detached.session.client;
        client.worker.store(self.index as u16, Relaxed);
        client.token.store(token, Relaxed);
        let id = detached.session.client.id;
        self.install(token, detached.session);
        // Killed on the way: who killed it may have told the worker it was leaving. It looks up the worker after it has
        // taken the client off the list, so either it finds this one or we find the client gone.
        if !self.node.clients().contains_key(&id) {
            self.closed_by_us(token);
        }
        token
    }

    fn release_token(&mut self, token: Token) {
        let index = token as u32;
        self.generations[index as usize] = self.generations[index as usize].wrapping_add(1);
        self.free.push(index);
        sub(&self.stats.clients, 1);
    }

    fn reserve_token(&mut self) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            self.generations.push(0);
            self.conns.len() as u32 - 1
        });
        u64::from(self.generations[index as usize]) << 32 | u64::from(index)
    }

    fn install(&mut self, token: Token, session: Session) {
        self.conns[token as u32 as usize] = Some(Box::new(Conn::new(token, session)));
        add(&self.stats.clients, 1);
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

    /// The peer has closed the connection, or the driver must: what it has sent and was not executed is dropped.
    pub fn closed(&mut self, token: Token) {
        if let Some(conn) = self.take_conn(token) {
            self.dispose(conn);
        }
    }

    fn dispose(&mut self, mut conn: Box<Conn>) {
        self.release_token(conn.token);
        self.end_wait(&mut conn);
        self.engine.cancel_reservation(conn.token);
        self.engine.unwatch_later(std::mem::take(&mut conn.session.watched));
        monitor::stop(&self.node, &mut conn.session);
        self.node.dismiss(conn.session.client.id);
        self.spare(std::mem::take(&mut conn.query));
        self.spare(std::mem::take(&mut conn.out));
    }

    /// Ends whatever the connection waits for, from its own side.
    pub(crate) fn end_wait(&mut self, conn: &mut Conn) {
        let wait = std::mem::replace(&mut conn.wait, Wait::No);
        if let Wait::Pause = wait {
            self.held_back.retain(|token| *token != conn.token);
            sub(&self.stats.blocked, 1);
        }
        if let Wait::Keys(blocked) = wait {
            self.count_out(conn, &blocked);
            // If it is being served right now, the reply will find nobody: as if the client had left a moment later.
            blocked.cancel();
            self.leftovers.push(blocked);
        }
    }

    pub(crate) fn spare(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == BUFFER && self.spares.len() < SPARES {
            buffer.clear();
            self.spares.push(buffer);
        }
    }

    // ---- input

    /// Where the driver reads to: at least 16 KB of spare room behind the bytes in the vector, which must stay.
    /// `None`: the connection is gone or takes no more.
    pub fn space(&mut self, token: Token) -> Option<&mut Vec<u8>> {
        let index = token as u32 as usize;
        let conn = self.conns.get_mut(index)?.as_deref_mut().filter(|c| c.token == token && !c.closing)?;
        if conn.query.capacity() == 0 {
            conn.query = self.spares.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER));
        } else if conn.query.capacity() - conn.query.len() < BUFFER / 4 {
            if conn.start > 0 {
                conn.query.drain(..conn.start);
                conn.start = 0;
            }
            if conn.query.capacity() - conn.query.len() < BUFFER / 4 {
                conn.query.reserve(BUFFER.max(conn.query.len().min(1 << 26)));
            }
        }
        Some(&mut conn.query)
    }

    /// `n` bytes have arrived in the vector that [`Worker::space`] gave.
    pub fn received(&mut self, token: Token, n: usize) {
        add(&self.stats.bytes_in, n as u64);
        add(&self.stats.reads, 1);
        let limit = self.follower.settings().client_query_buffer_limit;
        let Some(conn) = self.conn(token) else { return };
        add(&conn.session.client.bytes_in, n as u64);
        if conn.unread() as u64 > limit {
            tracing::warn!(client = conn.session.client.id, "closing client that reached max query buffer length");
            add(&self.stats.query_overruns, 1);
            return self.closed_by_us(token);
        }
        if conn.is_free() && !conn.queued {
            conn.queued = true;
            self.ready.push_back(token);
        }
    }

    /// Closes a connection at once, whatever it still has to send.
    pub(crate) fn closed_by_us(&mut self, token: Token) {
        if let Some(conn) = self.conn(token) {
            conn.out.clear();
            conn.sent = 0;
            conn.closing = true;
            self.mark_dirty(token);
        }
    }

    /// Bytes have arrived: for drivers that own the buffers they receive into.
    pub fn input(&mut self, token: Token, bytes: &[u8]) {
        if let Some(query) = self.space(token) {
            query.extend_from_slice(bytes);
            self.received(token, bytes.len());
        }
    }

    // ---- output

    pub(crate) fn mark_dirty(&mut self, token: Token) {
        if let Some(conn) = self.conn(token)
            && !conn.dirty
        {
            conn.dirty = true;
            self.dirty.push(token);
        }
    }

    /// The next connection with something to send or to close, after a turn.
    pub fn next_output(&mut self) -> Option<Token> {
        let token = self.dirty.pop()?;
        if let Some(conn) = self.conn(token) {
            conn.dirty = false;
        }
        Some(token)
    }

    /// What to do for a connection: see [`Output`].
    pub fn output(&mut self, token: Token) -> Output<'_> {
        let index = token as u32 as usize;
        match self.conn(token) {
            None => return Output::Idle,
            Some(conn) if conn.unsent() > 0 => {}
            Some(conn) if conn.closing => {
                if let Some(conn) = self.take_conn(token) {
                    self.dispose(conn);
                }
                return Output::Close;
            }
            Some(_) => return Output::Idle,
        }
        match self.conns[index].as_deref() {
            Some(conn) => Output::Send(&conn.out[conn.sent..]),
            None => Output::Idle,
        }
    }

    /// `n` bytes of a connection's output have been sent.
    pub fn sent(&mut self, token: Token, n: usize) {
        add(&self.stats.bytes_out, n as u64);
        add(&self.stats.writes, 1);
        let Some(conn) = self.conn(token) else { return };
        add(&conn.session.client.bytes_out, n as u64);
        conn.sent += n;
        conn.session.client.output_len.store(conn.unsent() as u64, Relaxed);
        if conn.unsent() == 0 {
            conn.sent = 0;
            conn.session.client.output_buffer.store(0, Relaxed);
            let buffer = std::mem::take(&mut conn.out);
            self.spare(buffer);
        } else if conn.sent > (1 << 20) {
            conn.out.drain(..conn.sent);
            conn.sent = 0;
        }
    }

    /// Takes a connection's output away, for drivers whose sends own their buffer. What was sent of it is told to
    /// [`Worker::count_sent`], the buffer comes back through [`Worker::recycle`].
    pub fn take_output(&mut self, token: Token) -> Option<Vec<u8>> {
        let conn = self.conn(token)?;
        if conn.sent > 0 {
            conn.out.drain(..conn.sent);
            conn.sent = 0;
        }
        conn.session.client.output_buffer.store(0, Relaxed);
        Some(std::mem::take(&mut conn.out))
    }

    /// `n` bytes of output that was taken have been sent.
    pub fn count_sent(&mut self, token: Token, n: usize) {
        add(&self.stats.bytes_out, n as u64);
        add(&self.stats.writes, 1);
        if let Some(conn) = self.conn(token) {
            add(&conn.session.client.bytes_out, n as u64);
            conn.session.client.output_len.store(conn.unsent() as u64, Relaxed);
        }
    }

    /// Takes an output buffer back.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.spare(buffer);
    }

    /// An output buffer from the spares for a connection that has none.
    #[inline]
    pub(crate) fn ensure_out(&mut self, conn: &mut Conn) {
        if conn.out.capacity() == 0 {
            conn.out = self.spares.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER));
        }
    }

    /// Closes the connection if its output exceeds what `client-output-buffer-limit` allows.
    pub(crate) fn check_output_limit(&mut self, conn: &mut Conn, limit: OutputLimit, now: u64) {
        // As in Redis, what fits the first buffer is always allowed.
        let len = (conn.unsent() as u64).saturating_sub(BUFFER as u64);
        let soft = limit.soft > 0 && len > limit.soft;
        if !soft {
            conn.over_soft_since = None;
        }
        let since = *conn.over_soft_since.get_or_insert(now);
        let too_long = soft && now.saturating_sub(since) > limit.seconds * 1000;
        if !soft {
            conn.over_soft_since = None;
        }
        if (limit.hard > 0 && len > limit.hard) || too_long {
            tracing::warn!(client = conn.session.client.id, bytes = len, "closing client: output buffer limit");
            add(&self.stats.output_overruns, 1);
            conn.out.clear();
            conn.sent = 0;
            conn.closing = true;
        }
    }

    // ---- messages

    /// Takes the worker's mail and acts on it.
    pub fn read_mail(&mut self) {
        let Some(mailbox) = self.node.mailbox(self.index) else { return };
        for message in mailbox.take() {
            self.deliver(message);
        }
    }

    pub(crate) fn deliver(&mut self, message: Message) {
        match message {
            Message::Unpark(token) => self.unpark(token),
            Message::Served { token, reply } => self.served(token, &reply),
            Message::Kill { token } => self.closed_by_us(token),
            Message::Unblock { token, with_error } => self.unblock(token, with_error),
            Message::Seen { token, line } => self.show(token, &line),
            Message::ResetStats => {
                self.stats.reset();
                self.engine.local().counters().reset();
            }
            Message::Look => {}
        }
    }

    /// Sends a client in MONITOR mode a command that somebody has run. One that does not read is closed as a slow subscriber is.
    fn show(&mut self, token: Token, line: &[u8]) {
        let limit = self.follower.settings().output_limit_pubsub;
        let now = self.engine.now();
        let Some(mut conn) = self.take_conn(token) else { return };
        if conn.session.monitors && !conn.closing {
            self.ensure_out(&mut conn);
            conn.out.extend_from_slice(line);
            self.check_output_limit(&mut conn, limit, now);
        }
        self.put_conn(conn);
        self.mark_dirty(token);
    }

    /// Lets a connection go on with what is in its query buffer.
    pub(crate) fn resume(&mut self, token: Token) {
        if let Some(conn) = self.conn(token)
            && !conn.queued
        {
            conn.queued = true;
            self.ready.push_back(token);
        }
    }

    /// Unix time in milliseconds at which the worker wants a turn even if nothing happens.
    pub fn next_deadline(&self) -> Option<u64> {
        if !self.leftovers.is_empty() || self.engine.has_leftovers() {
            return Some(self.engine.now() + 1);
        }
        let frozen = self.node.pauses.frozen_until();
        if frozen > self.engine.now() {
            return Some(frozen);
        }
        let waits = self.deadlines.first().map(|(at, _)| *at);
        let pause = self.paused.filter(|_| !self.held_back.is_empty()).map(|(_, until)| until);
        waits.into_iter().chain(pause).chain([self.next_round]).min()
    }

    /// Whether another turn should follow at once.
    pub fn has_work(&self) -> bool {
        let work = !self.ready.is_empty() || !self.walks.is_empty() || self.reclaiming;
        work && self.node.pauses.frozen_until() <= self.engine.now()
    }

    /// Whether the policy needs the LFU clock.
    pub(crate) fn is_lfu(policy: EvictionPolicy) -> bool {
        matches!(policy, EvictionPolicy::AllKeysLfu | EvictionPolicy::VolatileLfu)
    }
}

/// Writes an error to a connection.
pub(crate) fn write_error(out: &mut Vec<u8>, protocol: Protocol, text: &[u8]) {
    Reply::new(out, protocol).error(text);
}

const PROTECTED: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set \
for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from \
external computers, set a password (requirepass) or disable protected mode (CONFIG SET protected-mode no) from a client on this machine.\r\n";
