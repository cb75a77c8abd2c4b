//! The port through which transactions over nodes reach their worker. They use nothing else of it.

use std::borrow::Cow;
use std::sync::Arc;

use clocks::{BootMs, UnixMs};
use engine::{Caller, Engine, Room};
use resp::Args;
use txn::{Part, TxnId};

use super::client::For;
use super::state::Transactions;
use crate::admission::Admitted;
use crate::clock::MonoNs;
use crate::cluster::Peers;
use crate::config::Settings;
use crate::durability::durable::Durable;
use crate::figures::stats::WorkerStats;
use crate::node::Node;
use crate::session::{Multi, SessionCtx};
use crate::table::Command;
use crate::worker::conn::Conn;
use crate::worker::next::Next;
use crate::worker::token::Token;

/// A worker's transactions over nodes, at work: they have the port to the worker, and their state behind it.
pub(crate) struct Transacting<'w, P> {
    pub(super) port: &'w mut P,
}

/// The state of transactions, and what they work on: each can be borrowed beside the others.
pub(crate) struct Desk<'a> {
    pub(crate) txn: &'a mut Transactions,
    pub(crate) peers: &'a mut Peers,
    pub(crate) engine: &'a mut Engine,
    pub(crate) node: &'a Arc<Node>,
    /// The log, if a reply or another node waits for it.
    pub(crate) log: Option<&'a Durable>,
}

/// The port. Its calls are resolved at compile time: there is one worker, and tests may have another.
pub(crate) trait Port {
    // ---- state

    fn desk(&mut self) -> Desk<'_>;
    fn node(&self) -> &Arc<Node>;
    fn settings(&self) -> &Arc<Settings>;
    fn stats(&self) -> &WorkerStats;
    /// The worker's number.
    fn index(&self) -> usize;

    // ---- connections

    fn conn(&mut self, token: Token) -> Option<&mut Conn>;
    /// Takes a connection out of its place for a while, so that it and the worker can be used side by side.
    fn take_conn(&mut self, token: Token) -> Option<Box<Conn>>;
    fn put_conn(&mut self, conn: Box<Conn>);
    /// A connection has output to send, or is to be closed.
    fn mark_dirty(&mut self, token: Token);
    /// Closes a connection without an answer.
    fn cut(&mut self, token: Token);
    /// Ends the session of a connection: it executes nothing more.
    fn end_session(&mut self, conn: &mut Conn);

    // ---- commands and replies

    /// Makes a command wait for outstanding replies to earlier ones. `None`: it need not wait.
    fn in_turn(&mut self, conn: &mut Conn) -> Option<Next>;
    /// Answers a command with an error.
    fn decline(&mut self, conn: &mut Conn, command: &Command, text: &[u8]) -> Next;
    /// Leaves a hole in the output of a connection. Returns its number, and true if the client wants the reply.
    fn place_of_reply(&mut self, conn: &mut Conn) -> (u64, bool);
    /// Makes sure that the connection has an output buffer.
    fn ensure_out(&mut self, conn: &mut Conn);
    /// A hole was filled: commands that waited for that go on.
    fn look_at_answers(&mut self, conn: &mut Conn);
    fn count_forwarded(&mut self, conn: &mut Conn, command: &Command, args: Option<Args<'_>>);
    fn count_block(&mut self, conn: &mut Conn, multi: &Multi, exec: &Command);
    fn count_unblocked(&mut self, conn: &Conn);

    // ---- connections that wait

    /// The worker steps a connection again at this time.
    fn wake_at(&mut self, at: UnixMs, token: Token);
    fn wake_no_more_at(&mut self, at: UnixMs, token: Token);
    /// The worker steps a task or a connection again at once.
    fn look_again(&mut self, token: Token);
    /// A task or a connection waits for a lock.
    fn notes_wait(&mut self, token: Token);
    fn waits_no_more(&mut self, token: Token);
    /// Connections that wait for latches try again.
    fn resume_from_latches(&mut self);
    /// Wakes connections of other workers at once.
    fn wake_others(&mut self);
    fn task_waits_for_log(&mut self, token: Token) -> bool;
    fn task_waits_for_room(&mut self, token: Token) -> bool;
    fn task_waits_for_pause(&mut self, token: Token, writes: bool) -> bool;

    // ---- links

    /// A link has something to send.
    fn want_link(&mut self, link: usize);
    /// Ends what a connection watches at other nodes.
    fn forget_watched_elsewhere(&mut self, conn: &mut Conn);
    /// Asks other nodes the questions of a block's script. Returns true if the script waits for answers.
    fn ask_for_workspace(&mut self, conn: &mut Conn, which: (u64, u32)) -> bool;

    // ---- clients that cache

    fn caller_of(&mut self, token: Option<Token>, client: u64, caches: bool) -> Caller;
    fn runs_for(&mut self, conn: &mut Conn, multi: &Multi, parts: &[Part]) -> For;
    fn tell_parts(&mut self, conn: &mut Conn, parts: &[Part], runs: &mut For);
    /// Announces over a link the client of the transaction whose message comes next.
    fn say_for_whom(&mut self, sequence: u64, link: usize);
    fn answer_behind_news<'k>(
        &mut self,
        conn: &mut Conn,
        runs: (&For, impl Iterator<Item = &'k [u8]>),
        hole: (u64, bool),
        reply: &[u8],
    ) -> bool;
    fn tell_held_news(&mut self, conn: &mut Conn);
    /// Tells clients that cache of the engine's changes.
    fn tell_changes(&mut self);

    // ---- memory

    fn make_room(&mut self, settings: &Settings) -> Room;
    fn out_of_memory(&mut self, settings: &Settings) -> Cow<'static, str>;

    // ---- blocks in workspaces

    /// Reads the clock of commands before a block goes on.
    fn settle_meter(&mut self);
    /// The moment at which a command of a part begins, if HOTKEYS or CLUSTER SLOT-STATS want to know what it costs.
    fn begin_part(&self) -> Option<MonoNs>;
    /// Such a command, begun at that moment, has run, and its reply has so many bytes.
    fn tell_part(&mut self, command: &Command, args: Args<'_>, began: MonoNs, reply: usize);
    fn session_ctx<'a>(
        &'a mut self,
        conn: &'a mut Conn,
        node: &'a Arc<Node>,
        settings: &'a Arc<Settings>,
        command: Admitted<'a>,
        args: Args<'a>,
    ) -> SessionCtx<'a>;
    /// A block has run, and may have changed CLIENT PAUSE.
    fn look_at_pauses(&mut self);
    /// Shows EXEC to clients in MONITOR mode, if there are any.
    fn show_exec(&mut self, token: Token, db: u16, word: &[u8]);
}

impl<'w, P: Port> Transacting<'w, P> {
    pub(crate) fn new(port: &'w mut P) -> Self {
        Self { port }
    }

    #[inline]
    pub(super) fn desk(&mut self) -> Desk<'_> {
        self.port.desk()
    }

    #[inline]
    pub(super) fn txn(&mut self) -> &mut Transactions {
        self.port.desk().txn
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

    /// The clock by which locks of reads count (rule T3). Not [`Engine::now`], by which keys expire.
    pub(super) fn now(&self) -> BootMs {
        self.node().clock.boot_ns().ms()
    }

    /// The current attempt of a block that is coordinated here, if it is still this one.
    pub(super) fn current(&mut self, (sequence, attempt): (u64, u32)) -> Option<TxnId> {
        let current = self.txn().coordinator.as_ref()?.current(sequence);
        current.filter(|tx| tx.attempt == attempt)
    }
}
