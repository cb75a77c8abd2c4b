//! The port through which links, and forwarding over them, reach their worker. They use nothing else of it.

use std::sync::Arc;

use clocks::UnixMs;
use engine::{Blocked, Busy, Engine};

use super::{Peers, Role};
use crate::config::OutputLimit;
use crate::config::Settings;
use crate::figures::stats::WorkerStats;
use crate::node::Node;
use crate::push::notice::News;
use crate::session::Session;
use crate::table::Command;
use crate::transactions::port::{Desk, Port as OfTransactions, Transacting};
use crate::transactions::state::Transactions;
use crate::worker::conn::Conn;
use crate::worker::next::Next;
use crate::worker::outgoing::Outgoing;
use crate::worker::token::Token;

/// The links of a worker and what is forwarded over them, at work. Their state is in [`Peers`], and what a connection
/// has at other nodes in [`super::Remote`].
pub(crate) struct Forwarding<'w, P> {
    pub(super) port: &'w mut P,
}

/// The port, beside that of transactions over nodes, which speak over the same links. Its calls are resolved when the
/// node is compiled: a forwarded command takes no detour.
pub(crate) trait Port: OfTransactions {
    // ---- connections

    fn conns(&self) -> impl Iterator<Item = &Conn>;
    /// A place for a connection. [`Self::install`] fills it.
    fn reserve_token(&mut self) -> Token;
    fn install(&mut self, token: Token, session: Session, role: Role);
    /// A connection beside the engine and the peers.
    fn split(&mut self, token: Token) -> Option<(&mut Conn, &mut Engine, &mut Peers)>;
    /// Closes a connection as if its peer had.
    fn closed(&mut self, token: Token);
    /// As [`Self::closed`], of a connection that was taken out of its place.
    fn dispose(&mut self, conn: Box<Conn>);
    /// Opens the gates of a connection whose versions are committed.
    fn release(&mut self, token: Token);
    fn recycle(&mut self, out: Outgoing);
    /// The query buffer of a connection with room for at least so many bytes.
    fn room(&mut self, token: Token, least: usize) -> Option<&mut Vec<u8>>;
    /// Closes a connection that has sent more than it may.
    fn overrun(&mut self, token: Token);
    fn check_output_limit(&mut self, conn: &mut Conn, limit: OutputLimit, now: UnixMs);
    /// A client has read something.
    fn look_at_stall(&mut self, token: Token);
    /// A connection may have room to receive again.
    fn look_at_thirst(&mut self, conn: &mut Conn);

    // ---- commands and replies

    /// A connection, which is noted to be queued, has something to execute.
    fn queue(&mut self, token: Token);
    /// A connection goes on with its query buffer.
    fn resume(&mut self, token: Token);
    fn refuse(&mut self, conn: &mut Conn, command: Option<&Command>, text: &[u8]);
    fn drop_block(&mut self, conn: &mut Conn);
    /// Takes the reply from `before` on back if the client does not want it.
    fn apply_reply_mode(&mut self, conn: &mut Conn, before: usize);
    /// Counts a command that runs elsewhere, under this number of the table.
    fn count_ran(&mut self, counted_as: usize);
    /// True if clients are in MONITOR mode.
    fn is_monitored(&self) -> bool;

    // ---- connections that wait

    fn end_wait(&mut self, conn: &mut Conn);
    fn wait_for_latch(&mut self, conn: &mut Conn, command: &Command, busy: &Busy) -> Next;
    /// Answers a wait for keys that CLIENT UNBLOCK has cancelled.
    fn unblock(&mut self, token: Token, wait: &Arc<Blocked>, with_error: bool);

    // ---- clients that cache

    fn flush_client(&mut self, conn: &mut Conn);
    fn flush_pushes(&mut self, conn: &mut Conn);
    fn tell_behind(&mut self, conn: &mut Conn, news: News, hole: Option<u64>);
}

impl<'w, P: Port> Forwarding<'w, P> {
    #[inline]
    pub(crate) fn new(port: &'w mut P) -> Self {
        Self { port }
    }

    #[inline]
    pub(super) fn transactions(&mut self) -> Transacting<'_, P> {
        Transacting::new(self.port)
    }

    #[inline]
    pub(super) fn desk(&mut self) -> Desk<'_> {
        self.port.desk()
    }

    #[inline]
    pub(super) fn peers(&mut self) -> &mut Peers {
        self.port.desk().peers
    }

    #[inline]
    pub(super) fn engine(&mut self) -> &mut Engine {
        self.port.desk().engine
    }

    #[inline]
    pub(super) fn txn(&mut self) -> &mut Transactions {
        self.port.desk().txn
    }

    #[inline]
    pub(super) fn node(&self) -> &Arc<Node> {
        self.port.node()
    }

    #[inline]
    pub(super) fn settings(&self) -> &Arc<Settings> {
        self.port.settings()
    }

    #[inline]
    pub(super) fn stats(&self) -> &WorkerStats {
        self.port.stats()
    }

    #[inline]
    pub(super) fn index(&self) -> usize {
        self.port.index()
    }

    #[inline]
    pub(super) fn conn(&mut self, token: Token) -> Option<&mut Conn> {
        self.port.conn(token)
    }

    #[inline]
    pub(super) fn take_conn(&mut self, token: Token) -> Option<Box<Conn>> {
        self.port.take_conn(token)
    }

    #[inline]
    pub(super) fn put_conn(&mut self, conn: Box<Conn>) {
        self.port.put_conn(conn);
    }

    #[inline]
    pub(super) fn mark_dirty(&mut self, token: Token) {
        self.port.mark_dirty(token);
    }

    #[inline]
    pub(super) fn cut(&mut self, token: Token) {
        self.port.cut(token);
    }
}
