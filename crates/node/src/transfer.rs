//! Bytes into connections and out of them, and the buffers that hold them meanwhile.

use std::sync::atomic::Ordering::Relaxed;

use crate::config::OutputLimit;
use crate::conn::Conn;
use crate::stats::add;
use crate::worker::{Token, Worker};

/// Query buffers and output buffers of this size are kept for reuse.
const BUFFER: usize = 16 * 1024;
/// Spare buffers kept.
const SPARES: usize = 256;
/// Bytes not yet executed that a client may have while authentication is required and has not happened.
const UNAUTHENTICATED_MAX: u64 = 1 << 20;

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
    // ---- input

    /// Where the driver reads to: at least 4 KB of spare room behind the bytes in the vector, which must stay.
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
        // What MULTI has queued is not executed either, and grows as input does.
        let waiting = conn.unread() as u64 + conn.session.client.queued_bytes.load(Relaxed);
        if waiting > limit || (waiting > UNAUTHENTICATED_MAX && !conn.session.authenticated) {
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
        } else if conn.sent > conn.out.len() / 2 && conn.sent > BUFFER {
            // Less is moved than was sent, so moving costs no more than sending did.
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
        let too_long = soft && now.saturating_sub(since) > limit.seconds.saturating_mul(1000);
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

    // ---- buffers

    /// Keeps a buffer for reuse.
    pub(crate) fn spare(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == BUFFER && self.spares.len() < SPARES {
            buffer.clear();
            self.spares.push(buffer);
        }
    }
}
