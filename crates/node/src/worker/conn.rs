//! A connection as its worker sees it: buffers, decoder, session, and what it waits for.

use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use keyspace::Horizon;
use resp::Decoder;

use crate::cluster::{Awaited, Remote, Role};
use crate::figures::stats::add;
use crate::session::Session;
use crate::worker::next::Next;
use crate::worker::outgoing::{BUFFER, Outgoing};
use crate::worker::wait::Wait;

pub(crate) struct Conn {
    /// The worker's name for the connection: generation and index.
    pub(crate) token: u64,
    pub(crate) session: Session,
    /// A client of this node, of another node, or a link.
    pub(crate) role: Role,
    /// Its state at other nodes.
    pub(crate) remote: Option<Box<Remote>>,
    pub(crate) decoder: Decoder,
    /// Bytes received and not yet executed, from `start` on.
    pub(crate) query: Vec<u8>,
    pub(crate) start: usize,
    /// Replies still to be sent.
    pub(crate) out: Outgoing,
    pub(crate) wait: Wait,
    /// In the queue of connections with something to do.
    pub(crate) queued: bool,
    /// In the list of connections with something to send.
    pub(crate) dirty: bool,
    /// Close once the output is sent; nothing more is executed.
    pub(crate) closing: bool,
    /// Close even if the output cannot be sent.
    pub(crate) cut: bool,
    /// The peer sends nothing more: close once everything is executed.
    pub(crate) ended: bool,
    /// The progress that [`crate::worker::leavers`] saw when it last looked.
    pub(crate) left_at: Option<(usize, usize)>,
    /// Bytes to make room for when the buffer is full: all that the arriving argument lacks, or a part of it.
    pub(crate) missing: usize,
    /// Bytes that the arriving argument still lacks; 0 if that is not known.
    pub(crate) lacking: usize,
    /// Unread bytes when the large argument that is arriving will be whole; 0 for none.
    pub(crate) large_until: usize,
    /// It has enough to do: the driver has stopped reading.
    pub(crate) held: bool,
    /// Some of its output waits for the log: it is in the worker's list of those.
    pub(crate) gated: bool,
    /// The uncommitted versions that its present command has seen so far.
    pub(crate) seen: Horizon,
    /// Messages beside its replies wait for these versions, too.
    pub(crate) pushes_seen: Horizon,
    /// Bytes of output that the driver has taken and not sent yet.
    pub(crate) in_flight: usize,
    /// Nanoseconds that its waiting command took until it began to wait.
    pub(crate) spent: u64,
    /// Its walk waits until the client has read some of the reply.
    pub(crate) stalled: bool,
    /// Bytes of its suspended command, at the beginning of the unread ones.
    pub(crate) suspended: usize,
    /// Failures in a row to get a latch.
    pub(crate) busy: u32,
    /// How often its present command has waited for keys that the store has.
    pub(crate) fetches: u32,
    /// The maps that it waits for.
    pub(crate) map: Awaited,
    /// Since when the output is above the soft limit.
    pub(crate) over_soft_since: Option<UnixMs>,
    /// Messages beside its replies that wait for the end of a reply.
    pub(crate) pushes: Vec<u8>,
    /// Its command is a transaction over nodes: messages beside its replies come behind the reply to it, too.
    pub(crate) holds_news: bool,
    /// The replies that it is owed are all of commands over nodes that run with others: more of these may follow.
    pub(crate) over_nodes: bool,
    /// Its part of the worker's [`crate::WorkerStats::client_memory`].
    pub(crate) weight: u64,
}

impl Conn {
    pub(crate) fn new(token: u64, session: Session, role: Role) -> Self {
        Self {
            token,
            session,
            role,
            remote: None,
            decoder: Decoder::new(),
            query: Vec::new(),
            start: 0,
            out: Outgoing::default(),
            wait: Wait::No,
            queued: false,
            dirty: false,
            closing: false,
            cut: false,
            ended: false,
            left_at: None,
            missing: 0,
            lacking: 0,
            large_until: 0,
            held: false,
            gated: false,
            seen: Horizon::default(),
            pushes_seen: Horizon::default(),
            in_flight: 0,
            spent: 0,
            stalled: false,
            suspended: 0,
            busy: 0,
            fetches: 0,
            map: Awaited::default(),
            over_soft_since: None,
            pushes: Vec::new(),
            holds_news: false,
            over_nodes: false,
            weight: 0,
        }
    }

    /// Bytes received and not yet executed.
    pub(crate) fn unread(&self) -> usize {
        self.query.len() - self.start
    }

    /// True if a command over nodes has begun that others of its kind may follow before it is answered: `next` is the
    /// next command then.
    pub(crate) fn goes_on_over_nodes(&mut self, next: &mut Next) -> bool {
        let goes_on = matches!(next, Next::Stop) && self.over_nodes && self.wait.is_for_replies() && !self.closing;
        if goes_on {
            (self.wait, *next) = (Wait::No, Next::Continue);
        }
        goes_on
    }

    /// Notes that the arriving argument lacks `missing` bytes; 0 if that is not known. It is large if it lacked more
    /// than half of the bytes that were there, and stays so.
    pub(crate) fn expect(&mut self, missing: usize) {
        let end = self.unread() + missing;
        let large = missing > 0 && (missing > self.unread() / 2 || end == self.large_until);
        self.large_until = if large { end } else { 0 };
    }

    /// Shows other workers the size of the buffers. `lacking`: bytes that the arriving argument lacks; 0 if that is not
    /// known.
    pub(crate) fn show_buffers(&self, lacking: usize) {
        let client = &self.session.client;
        let before = self.decoder.read_before().min(self.unread());
        let free = if lacking > 0 { lacking } else { self.query.capacity() - self.query.len() };
        client.arguments.store(before as u64, Relaxed);
        client.query_len.store((self.unread() - before) as u64, Relaxed);
        client.query_free.store(free as u64, Relaxed);
        self.show_output();
    }

    /// Shows other workers the size of the output, and of the state between BEGIN and COMMIT.
    pub(crate) fn show_output(&self) {
        let client = &self.session.client;
        client.output_len.store(self.owed() as u64, Relaxed);
        let transaction = self.session.transaction.as_deref();
        client.transaction_bytes.store(transaction.map_or(0, |transaction| transaction.bytes as u64), Relaxed);
        client.output_buffer.store(self.out.bytes.capacity() as u64, Relaxed);
    }

    /// Bytes still to be sent.
    pub(crate) fn unsent(&self) -> usize {
        self.out.unsent()
    }

    /// Bytes still to be sent, those that the driver has taken included.
    pub(crate) fn owed(&self) -> usize {
        self.unsent() + self.in_flight
    }

    /// True if its output may be above a limit, or was.
    #[inline]
    pub(crate) fn may_owe_much(&self) -> bool {
        self.over_soft_since.is_some() || self.remote.is_some() || self.owed() + self.pushes.len() > BUFFER
    }

    /// Drops the output.
    pub(crate) fn forget_output(&mut self) {
        self.out = Outgoing::default();
        if let Some(remote) = &mut self.remote {
            remote.gather = None;
        }
        let client = &self.session.client;
        client.output_len.store(self.in_flight as u64, Relaxed);
        client.output_buffer.store(0, Relaxed);
    }

    /// Counts bytes sent.
    pub(crate) fn count_out(&self, n: usize) {
        add(&self.session.client.bytes_out, n as u64);
        self.session.client.output_len.store(self.owed() as u64, Relaxed);
    }

    /// True if its last command has been answered, and waits for nothing.
    pub(crate) fn has_ended(&self) -> bool {
        self.wait.is_over()
    }

    /// True if commands can run now.
    pub(crate) fn is_free(&self) -> bool {
        self.wait.is_over() && !self.closing
    }
}
