//! The bytes that go into connections and come out of them: query buffers and outputs, their bounds, and the end of a
//! stream.

use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use engine::Ending;

use crate::admission::rights;
use crate::cluster::Role;
use crate::config::{OutputLimit, Settings};
use crate::figures::stats::add;
use crate::worker::conn::Conn;
use crate::worker::outgoing::BUFFER;
use crate::worker::outgoing::Outgoing;
use crate::worker::{Token, Worker, write_error};

/// Spare buffers that a worker keeps.
const SPARES: usize = 256;
/// Up to so many bytes of an incomplete command are kept in a buffer of just that size, because many clients may send
/// slowly.
const SNUG: usize = 1024;
/// Unread bytes of a connection with commands to execute, above which a driver that can stop reads no further.
const READ_AHEAD: usize = BUFFER;
/// As [`READ_AHEAD`], for a driver to which stopping is costly.
const INPUT_AHEAD: usize = 64 * 1024;
/// The driver's task for a connection that has output.
pub enum Output<'a> {
    /// Send some of this, then call [`Worker::sent`].
    Send(&'a Outgoing),
    /// Send as many of these bytes as the system takes at once, then call [`Worker::closed`] and close the socket.
    Last(&'a [u8]),
    /// Everything has been sent: close the socket. The worker has forgotten the connection.
    Close,
    /// Nothing to do.
    Idle,
}

impl Conn {
    /// True if it has `most` unread bytes and commands to execute, so that they come first. For a connection that waits
    /// for keys, only `client-query-buffer-limit` bounds them, because only reading shows that its client has left.
    fn has_enough(&self, most: usize) -> bool {
        self.has_to_do() && self.unread() >= most
    }

    /// True if commands have arrived that can be executed as they are.
    fn has_to_do(&self) -> bool {
        self.queued || self.busy > 0 || self.wait.ends_soon()
    }
}

/// How much larger a full query buffer of `len` bytes becomes, if an argument is known to lack `missing` bytes. For a
/// `large` argument it becomes just as large as needed. Otherwise it grows in proportion, so that no byte is moved
/// often.
fn more_room(len: usize, missing: usize, large: bool) -> usize {
    if missing > 0 && large { missing } else { len.min((len / 4).max(1 << 20)).max(BUFFER) }
}

/// The bound of a connection's output. Connections that others send to may have less.
pub(crate) fn output_limit(conn: &Conn, settings: &Settings) -> OutputLimit {
    let fed = conn.session.is_subscribed() || conn.session.monitors;
    if fed { settings.output_limit_pubsub } else { settings.output_limit_normal }
}

impl Worker {
    // ---- buffers

    pub(crate) fn spare(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == BUFFER && self.spares.len() < SPARES {
            buffer.clear();
            self.spares.push(buffer);
        }
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER))
    }

    /// An output buffer from the spares for a connection that has none.
    #[inline]
    pub(crate) fn ensure_out(&mut self, conn: &mut Conn) {
        if conn.out.bytes.capacity() == 0 {
            conn.out.bytes = self.buffer();
        }
    }

    /// Gives back the buffer of a connection that waits for the rest of a command and has few bytes of it.
    pub(crate) fn snuggle(&mut self, conn: &mut Conn) {
        let unread = conn.unread();
        if conn.query.capacity() == BUFFER && unread <= SNUG {
            let snug = conn.query[conn.start..].to_vec();
            conn.start = 0;
            let buffer = std::mem::replace(&mut conn.query, snug);
            self.spare(buffer);
        }
    }

    // ---- input

    /// Where the driver reads to: at least 4 KB of spare room behind the bytes in the vector, which must stay.
    ///
    /// `None`: the connection is gone or takes no more, or has enough to do for now. In the last case
    /// [`Worker::next_thirsty`] names it later.
    pub fn space(&mut self, token: Token) -> Option<&mut Vec<u8>> {
        let conn = self.conn(token)?;
        if conn.has_enough(READ_AHEAD) {
            conn.held = true;
            return None;
        }
        self.room(token, BUFFER / 4)
    }

    /// True if the system has memory for a query buffer with `least` bytes more.
    fn has_room_for_query(&self, index: usize, least: usize) -> bool {
        let Some(conn) = self.conns.get(index).and_then(Option::as_deref) else { return true };
        let len = conn.query.len();
        if conn.query.capacity() - len >= least {
            return true;
        }
        let len = len + more_room(len, conn.missing, conn.large_until > 0).max(least);
        // A client that has to make room must be heard: there are at most `maxclients`, and the largest are closed.
        len <= 2 * BUFFER || headroom::has_room_to_talk(2 * len, len)
    }

    /// The query buffer with room for at least `least` bytes, at most [`BUFFER`].
    pub(crate) fn room(&mut self, token: Token, least: usize) -> Option<&mut Vec<u8>> {
        let index = token as u32 as usize;
        let conn = self.conns.get(index)?.as_deref().filter(|c| c.token == token && !c.closing)?;
        if headroom::is_limited() && !self.has_room_for_query(index, least) {
            self.refuse_input(token);
            return None;
        }
        let fresh = (conn.query.capacity() < BUFFER).then(|| self.buffer());
        let conn = self.conns.get_mut(index)?.as_deref_mut()?;
        if let Some(mut buffer) = fresh {
            if !conn.query.is_empty() {
                buffer.extend_from_slice(&conn.query[conn.start..]);
            }
            conn.start = 0;
            conn.query = buffer;
        }
        if conn.query.capacity() - conn.query.len() < least {
            if conn.start > 0 {
                conn.query.drain(..conn.start);
                conn.start = 0;
            }
            if conn.query.capacity() - conn.query.len() < least {
                let more = more_room(conn.query.len(), conn.missing, conn.large_until > 0);
                conn.query.reserve_exact(more.max(least));
            }
        }
        Some(&mut conn.query)
    }

    /// Bytes that an arriving large argument still lacks; 0 for none. A driver that reads them into [`Worker::space`],
    /// and does not hand them to [`Worker::input`], saves a copy.
    pub fn lacks(&mut self, token: Token) -> usize {
        self.conn(token).map_or(0, |conn| conn.large_until.saturating_sub(conn.unread()))
    }

    /// `n` bytes have arrived in the vector that [`Worker::space`] gave.
    pub fn received(&mut self, token: Token, n: usize) {
        add(&self.stats.bytes_in, n as u64);
        add(&self.stats.reads, 1);
        let limit = self.follower.settings().client_query_buffer_limit;
        let now = self.engine.now();
        let Some(conn) = self.conn(token) else { return };
        let client = &conn.session.client;
        add(&client.bytes_in, n as u64);
        add(&client.reads, 1);
        client.last_active.store(now.0, Relaxed);
        if conn.role.is_link() {
            return self.forwarding().note_heard(token);
        }
        // Commands queued by MULTI have not been executed yet either. Commands that will be executed at once do not
        // count.
        let pending = (conn.unread() + conn.session.multi.as_ref().map_or(0, |multi| multi.bytes)) as u64;
        let too_much = rights::sent_too_much(conn.session.authenticated, pending, limit);
        if too_much && !conn.has_to_do() {
            return self.overrun(token);
        }
        if conn.is_free() && !conn.queued {
            conn.queued = true;
            self.ready.push_back(token);
        }
    }

    /// Closes a connection for whose input the system has no memory. An error follows its earlier replies.
    fn refuse_input(&mut self, token: Token) {
        let Some(mut conn) = self.take_conn(token) else { return };
        tracing::warn!(client = conn.session.client.id, "closing client: no memory for its input");
        add(&self.stats.query_overruns, 1);
        write_error(&mut conn.out.bytes, conn.session.protocol, headroom::OOM.as_bytes());
        self.end_session(&mut conn);
        self.put_conn(conn);
        self.mark_dirty(token);
    }

    /// Closes a connection that has sent more than `client-query-buffer-limit`.
    pub(crate) fn overrun(&mut self, token: Token) {
        if let Some(conn) = self.conn(token) {
            tracing::warn!(client = conn.session.client.id, "closing client that reached max query buffer length");
        }
        add(&self.stats.query_overruns, 1);
        self.cut_off(token);
    }

    /// Takes bytes, for drivers that own the buffers they receive into. False: it is enough for now. Further bytes are
    /// still taken, but [`Worker::next_thirsty`] names the connection when it can take more.
    pub fn input(&mut self, token: Token, bytes: &[u8]) -> bool {
        if let Some(query) = self.room(token, bytes.len()) {
            query.extend_from_slice(bytes);
            self.received(token, bytes.len());
        }
        let Some(conn) = self.conn(token) else { return true };
        let enough = conn.has_enough(if conn.session.authenticated { INPUT_AHEAD } else { READ_AHEAD });
        conn.held |= enough;
        !enough
    }

    /// The next connection that had enough to do and can be read again, after a turn.
    pub fn next_thirsty(&mut self) -> Option<Token> {
        self.thirsty.pop()
    }

    /// Notes if a connection that had enough to do can be read again.
    pub(crate) fn look_at_thirst(&mut self, conn: &mut Conn) {
        if conn.held && !conn.has_enough(READ_AHEAD) {
            conn.held = false;
            self.thirsty.push(conn.token);
        }
    }

    // ---- ends

    /// The peer will send nothing more, but may still read. Its commands are executed and answered, then the connection
    /// is closed. A client that waits for keys is given up at once, as in Redis; for other waits see
    /// [`crate::leavers`].
    pub fn ended(&mut self, token: Token) {
        let Some(mut conn) = self.take_conn(token) else { return };
        conn.ended = true;
        let waits_elsewhere = conn.session.client.waits_elsewhere.load(Relaxed);
        let link = conn.wait.link_to_answer();
        if let Some(link) = link.filter(|_| waits_elsewhere) {
            self.forwarding().leave_wait_elsewhere(&mut conn, link);
        } else if link.is_some() || conn.wait.blocked().is_some() {
            self.end_session(&mut conn);
            conn.cut |= conn.wait.link_to_answer().is_some();
        } else if conn.is_free() && !conn.queued && conn.busy == 0 {
            conn.closing = true;
        }
        self.watch_leaver(&mut conn);
        let (closing, over_nodes) = (conn.closing, waits_elsewhere && conn.wait.is_for_replies());
        self.put_conn(conn);
        if closing {
            self.mark_dirty(token);
        }
        if over_nodes {
            self.transactions().leave_wait(token);
        }
    }

    /// Executes nothing more for the connection, and closes it when its output is sent. If its wait is being served,
    /// that reply comes first.
    pub(crate) fn end_session(&mut self, conn: &mut Conn) {
        conn.closing = true;
        if let Some(blocked) = conn.wait.blocked()
            && blocked.leave() != Ending::Coming
        {
            self.end_wait(conn);
        }
    }

    /// Closes a connection (CLIENT KILL). Output that the client has not read by now is lost.
    pub(crate) fn cut(&mut self, token: Token) {
        let Some(mut conn) = self.take_conn(token) else { return };
        conn.cut = true;
        self.end_session(&mut conn);
        self.put_conn(conn);
        self.mark_dirty(token);
    }

    /// Closes connections of a user whose rights to channels are fewer now, if they are subscribed to one of the
    /// others.
    pub(crate) fn end_subscribers(&mut self, user: u32, left: &acl::Subscriptions) {
        let is_lost = |conn: &&Conn| {
            let session = &conn.session;
            session.user.principal.user == user && session.subscriptions.as_ref().is_some_and(|all| !all.are_kept(left))
        };
        let lost: Vec<Token> =
            self.conns.iter().flatten().map(|conn| &**conn).filter(is_lost).map(|c| c.token).collect();
        lost.into_iter().for_each(|token| self.cut(token));
    }

    /// Closes a connection that exceeds a limit.
    pub(crate) fn cut_off(&mut self, token: Token) {
        if let Some(conn) = self.conn(token) {
            conn.forget_output();
            self.cut(token);
        }
    }

    // ---- output

    pub(crate) fn mark_dirty(&mut self, token: Token) {
        let index = token as u32 as usize;
        if let Some(conn) = self.conns.get_mut(index).and_then(Option::as_deref_mut).filter(|conn| conn.token == token)
            && !std::mem::replace(&mut conn.dirty, true)
        {
            match &conn.role {
                Role::Virtual(_) => self.peers.speaking.push(token),
                _ => self.dirty.push_back(token),
            }
        }
    }

    /// As [`Self::mark_dirty`] for a connection that is not in its place.
    pub(crate) fn note_output(&mut self, conn: &mut Conn) {
        if !std::mem::replace(&mut conn.dirty, true) {
            match &conn.role {
                Role::Virtual(_) => self.peers.speaking.push(conn.token),
                _ => self.dirty.push_back(conn.token),
            }
        }
    }

    /// The next connection with something to send or to close, after a turn.
    pub fn next_output(&mut self) -> Option<Token> {
        let token = self.dirty.pop_front()?;
        if let Some(conn) = self.conn(token) {
            conn.dirty = false;
        }
        Some(token)
    }

    /// The driver's next task for a connection: see [`Output`].
    pub fn output(&mut self, token: Token) -> Output<'_> {
        self.release(token);
        let index = token as u32 as usize;
        let last = match self.conn(token) {
            None => return Output::Idle,
            // The reply of a wait that is being served comes first.
            Some(conn) if conn.cut && conn.wait.blocked().is_some() => return Output::Idle,
            Some(conn) if conn.cut => true,
            Some(conn) if conn.out.is_due() => false,
            Some(conn) if !conn.out.is_done() => return Output::Idle,
            Some(conn) if conn.closing && conn.wait.blocked().is_none() => {
                if let Some(conn) = self.take_conn(token) {
                    self.dispose(conn);
                }
                return Output::Close;
            }
            Some(_) => return Output::Idle,
        };
        match self.conns[index].as_deref() {
            Some(conn) if last => Output::Last(conn.out.plain()),
            Some(conn) => Output::Send(&conn.out),
            None => Output::Idle,
        }
    }

    /// True if the connection is to be closed even while some of its output is being sent.
    pub fn is_cut(&mut self, token: Token) -> bool {
        self.conn(token).is_some_and(|conn| conn.cut && conn.wait.blocked().is_none())
    }

    /// `n` bytes of a connection's output have been sent. True: they were all, and the driver has nothing more to do
    /// for the connection now. False: [`Worker::output`] tells.
    pub fn sent(&mut self, token: Token, n: usize) -> bool {
        add(&self.stats.bytes_out, n as u64);
        add(&self.stats.writes, 1);
        let index = token as u32 as usize;
        let Some(conn) = self.conns.get_mut(index).and_then(Option::as_deref_mut).filter(|c| c.token == token) else {
            return false;
        };
        conn.out.advance(n, |part| self.engine.local().let_go(part));
        conn.count_out(n);
        let is_done = conn.out.is_done();
        let ends = conn.closing || conn.cut;
        if !is_done {
            conn.out.compact(BUFFER);
        } else if let Some(buffer) = conn.out.take_plain() {
            conn.show_output();
            self.spare(buffer);
        } else {
            let out = conn.out.take();
            conn.show_output();
            self.recycle(out);
        }
        self.look_at_stall(token);
        is_done && !ends
    }

    /// Takes a connection's output away, for drivers whose sends own their buffer. The driver reports sent bytes to
    /// [`Worker::count_sent`], and gives the output back by [`Worker::recycle`].
    pub fn take_output(&mut self, token: Token) -> Option<Outgoing> {
        let conn = self.conn(token)?;
        let out = conn.out.split_sendable();
        conn.in_flight += out.unsent();
        conn.show_output();
        Some(out)
    }

    /// `n` bytes of output that was taken have been sent.
    pub fn count_sent(&mut self, token: Token, out: &mut Outgoing, n: usize) {
        out.advance(n, |part| self.engine.local().let_go(part));
        add(&self.stats.bytes_out, n as u64);
        add(&self.stats.writes, 1);
        if let Some(conn) = self.conn(token) {
            conn.in_flight = conn.in_flight.saturating_sub(n);
            conn.count_out(n);
        }
        self.look_at_stall(token);
    }

    /// Takes output back that was sent, or that no client waits for.
    pub fn recycle(&mut self, out: Outgoing) {
        let (buffer, parts) = out.take_apart();
        self.spare(buffer);
        parts.for_each(|part| self.engine.local().let_go(part));
    }

    /// Closes the connection if its output exceeds what `client-output-buffer-limit` allows.
    pub(crate) fn check_output_limit(&mut self, conn: &mut Conn, limit: OutputLimit, now: UnixMs) {
        let limit = rights::output_limit(conn.session.authenticated, limit);
        // As in Redis, output that fits the first buffer is always allowed.
        let elsewhere = conn.remote.as_deref().map_or(0, |remote| remote.gathered());
        let len = Some(conn.owed() + conn.pushes.len() + elsewhere).filter(|&len| len > BUFFER).unwrap_or(0) as u64;
        let soft = limit.soft > 0 && len > limit.soft;
        if !soft {
            conn.over_soft_since = None;
        }
        let since = *conn.over_soft_since.get_or_insert(now);
        let too_long = soft && now.since(since) > limit.seconds.saturating_mul(1000);
        if !soft {
            conn.over_soft_since = None;
        }
        if (limit.hard > 0 && len > limit.hard) || too_long {
            tracing::warn!(client = conn.session.client.id, bytes = len, "closing client: output buffer limit");
            self.close_unread(conn);
        }
    }

    /// Closes a connection whose client does not read its output.
    fn close_unread(&mut self, conn: &mut Conn) {
        add(&self.stats.output_overruns, 1);
        conn.forget_output();
        conn.cut = true;
        // Gone for every other client at once, even while the driver still sends.
        self.node.dismiss(conn.session.client.id);
        self.end_session(conn);
    }

    /// True if the system has memory for `more` bytes that a connection did not ask for. If not, it is closed.
    pub(crate) fn has_room_beside(&mut self, conn: &mut Conn, more: usize) -> bool {
        let fits = |buffer: &Vec<u8>| {
            let len = buffer.len() + more;
            len <= buffer.capacity() || headroom::has_room_to_talk(buffer.capacity() + 2 * len, 2 * len)
        };
        if !headroom::is_limited() || fits(&conn.out.bytes) && fits(&conn.pushes) {
            return true;
        }
        tracing::warn!(client = conn.session.client.id, "closing client: no memory for its output");
        self.close_unread(conn);
        false
    }

    /// Checks connections again whose output is above the soft limit: their clients may neither ask nor read.
    pub(crate) fn check_soft_limits(&mut self, settings: &Settings, now: UnixMs) {
        let over = |conn: &Conn| conn.over_soft_since.is_some() && !conn.closing;
        let tokens: Vec<Token> = self.conns.iter().flatten().filter(|c| over(c)).map(|c| c.token).collect();
        for token in tokens {
            let Some(mut conn) = self.take_conn(token) else { continue };
            let limit = output_limit(&conn, settings);
            self.check_output_limit(&mut conn, limit, now);
            let cut = conn.cut;
            self.put_conn(conn);
            if cut {
                self.mark_dirty(token);
            }
        }
    }
}
