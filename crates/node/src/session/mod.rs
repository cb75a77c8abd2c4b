//! A client's session, and the commands that work on it rather than on keys.

pub(crate) mod aside;
mod auth;
mod backup;
mod block;
mod client;
mod cluster;
mod commands;
mod config_command;
mod connection;
mod debug;
pub(crate) mod exec;
mod info;
pub(crate) mod interactive;
mod latency;
mod memory;
pub(crate) mod monitor;
mod multi;
pub(crate) mod pubsub;
mod script;
mod server;
mod slowlog;
mod suspended;
pub(crate) mod tracking;
pub(crate) mod waitaof;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use command::{Error, Row, flags};
use engine::{Busy, Caller, Engine, WatchedKey};
use keyspace::{Counts, Horizon, Key};
use resp::{Args, Batch, Protocol, Reply};
use smallvec::SmallVec;
use txn::Lock;

pub(crate) use client::lines_of_all;
pub(crate) use info::everything;

pub use aside::Aside;
pub(crate) use aside::locks_of;
pub use block::{Block, Retry};
pub(crate) use connection::database;
pub(crate) use debug::{FORBIDDEN as DEBUG_FORBIDDEN, is_open as debug_is_open};
pub(crate) use multi::watch_keys;

use crate::client::Client;
use crate::cluster::{Answers, Peers, Verdict};
use crate::compatibility;
use crate::config::{Redirect, Settings};
use crate::durability::checkpoints::{Checkpoints, Ticket};
use crate::durability::durable::Durable;
use crate::figures::meter::Meter;
use crate::figures::stats::WorkerStats;
use crate::node::Node;
use crate::table::{Command, Handler};
use crate::worker::jobs::Job;
use crate::worker::transfer::BUFFER;
use pubsub::Subscriptions;
pub use script::Machines;
pub(crate) use script::is_read_only as is_read_only_script;
pub use suspended::Suspended;

/// Runs a session command.
pub type SessionRun = fn(&mut SessionCtx<'_>) -> Result<Flow, Error>;

/// The rows of every family of session commands.
pub const SESSION_FAMILIES: &[&[Row<SessionRun>]] = &[
    auth::ROWS,
    backup::ROWS,
    client::ROWS,
    cluster::ROWS,
    commands::ROWS,
    config_command::ROWS,
    connection::ROWS,
    debug::ROWS,
    info::ROWS,
    interactive::ROWS,
    latency::ROWS,
    memory::ROWS,
    monitor::ROWS,
    multi::ROWS,
    pubsub::ROWS,
    script::ROWS,
    server::ROWS,
    slowlog::ROWS,
    waitaof::ROWS,
];

/// What a connection remembers between commands.
pub struct Session {
    /// What others may see of it.
    pub client: Arc<Client>,
    /// Selected logical database.
    pub db: u16,
    /// Protocol of its replies.
    pub protocol: Protocol,
    /// Whether it may run commands.
    pub authenticated: bool,
    /// Commands queued since MULTI.
    pub multi: Option<Box<Multi>>,
    /// What was done since BEGIN.
    pub transaction: Option<Box<interactive::Interactive>>,
    /// The memory of the last block, for the next.
    pub spare_multi: Option<Box<Multi>>,
    /// Watched keys.
    pub watched: Vec<WatchedKey>,
    /// The present command is a block that was undone, and runs again with this (rule K3).
    pub again: Option<Box<Retry>>,
    /// The present command is a script that was undone, as it uses keys of other nodes, these among them: it runs again on copies.
    pub goes_over: Option<Vec<Lock>>,
    /// The present command is a script or a block that was undone, as this node may not go on with it.
    pub undone: Option<Undone>,
    /// In MONITOR mode.
    pub monitors: bool,
    /// What it has subscribed to, if anything.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// Its part of CLIENT TRACKING, while it tracks.
    pub tracking: Option<Box<tracking::Tracking>>,
    /// It tracks, or does not, since its last command.
    pub tracks_anew: bool,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// Memory was used up when the present command began.
    pub short_of_memory: bool,
    /// The error that the present command answers has been counted already: it is that of a script's command.
    pub error_is_counted: bool,
    /// What other nodes have answered to the script or block that is the present command.
    pub answers: Option<Box<Answers>>,
    /// CLIENT REPLY.
    pub replies: Replies,
    /// What CLUSTER REDIRECT has chosen for a key of another node, if anything.
    pub redirect: Option<Redirect>,
}

/// What becomes of a script or a block that was undone, as its node may not go on with it.
pub enum Undone {
    /// It is answered this error, which says so.
    Refused(Vec<u8>),
    /// It runs where its keys are by now.
    RunsElsewhere,
}

/// The block between MULTI and EXEC.
#[derive(Default)]
pub struct Multi {
    /// The commands.
    pub queue: Vec<Queued>,
    /// Their arguments, in the same order.
    pub batch: Batch,
    /// A command could not be queued: EXEC will refuse.
    pub aborted: bool,
    /// One of them has keys of this node, so that the block is not one for another node.
    pub here: bool,
    /// Bytes of arguments.
    pub bytes: usize,
    /// The word with which the client had it executed, where that is not at this node alone: MONITOR shows it.
    pub exec: ExecWord,
}

/// EXEC as a client types it.
pub type ExecWord = SmallVec<[u8; 8]>;

/// A queued command.
#[derive(Clone, Copy)]
pub struct Queued {
    /// Its id in the table.
    pub command: usize,
    /// Slot and hash of argument 1 if that is its only key.
    pub key: Option<(u16, u64)>,
}

impl Queued {
    /// The key that was hashed when the command was parsed.
    pub fn first<'a>(&self, args: Args<'a>) -> Option<Key<'a>> {
        let (slot, hash) = self.key?;
        Some(Key { bytes: args.get(1)?, hash, slot })
    }
}

impl Multi {
    /// Adds a command. False: the block would exceed 4 GiB.
    #[must_use]
    pub fn push(&mut self, command: usize, key: Option<(u16, u64)>, args: Args<'_>) -> bool {
        let fits = self.batch.push_copy(args.iter());
        if fits {
            self.queue.push(Queued { command, key });
            self.bytes += args.bytes() + args.len() * size_of::<u64>();
        }
        fits
    }

    /// The queued commands with their arguments.
    pub fn commands(&self) -> impl Iterator<Item = (Queued, Args<'_>)> {
        self.queue.iter().enumerate().map(|(i, queued)| (*queued, self.batch.args(i, &[])))
    }

    /// Forgets everything and keeps the memory for the next block.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.batch.clear();
        (self.aborted, self.here) = (false, false);
        self.bytes = 0;
        self.exec.clear();
    }
}

/// Which replies a client gets (CLIENT REPLY).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replies {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// None to the command that asks for it, then none to the next.
    SkipNext,
    /// None to this one.
    Skip,
}

/// A session on its way to another worker.
pub struct Detached {
    /// The session.
    pub session: Session,
}

/// How a session command ended, if not with an error.
pub enum Flow {
    /// The reply has been written.
    Done,
    /// Close the connection after the reply.
    Close,
    /// Nothing is executed, by anybody, for this many milliseconds; then the reply is OK.
    Sleep(u64),
    /// The reply comes when the streams are on the disk up to here, or at this unix time in milliseconds.
    AwaitSync {
        /// Up to where.
        ends: Horizon,
        /// Until when, if not for ever.
        until: Option<u64>,
    },
    /// The reply comes when this checkpoint has ended.
    Save(Arc<Checkpoints>, Ticket),
    /// The reply comes when this is done.
    Job(Arc<Job>),
    /// The reply comes when another node has decided.
    Verdict(Arc<Verdict>),
    /// A latch is busy: nothing has happened, run again later.
    Busy(Busy),
    /// It goes on later.
    Suspend(Box<Suspended>),
}

/// What a session command sees.
pub struct SessionCtx<'a> {
    /// The node.
    pub node: &'a Arc<Node>,
    /// The worker's engine.
    pub engine: &'a mut Engine,
    /// The session.
    pub session: &'a mut Session,
    /// The present settings.
    pub settings: &'a Arc<Settings>,
    /// The worker's counters.
    pub stats: &'a Arc<WorkerStats>,
    /// The worker's stopwatch.
    pub meter: &'a mut Meter,
    /// The worker's machines for scripts.
    pub machines: &'a mut Machines,
    /// The log, if replies wait for one.
    pub log: Option<&'a Durable>,
    /// Whether commands are shown to somebody (MONITOR).
    pub monitored: bool,
    /// The cluster, if this is a node of one.
    pub(crate) peers: Option<&'a Peers>,
    /// The client is another node's.
    pub(crate) forwarded: bool,
    /// The command that runs.
    pub command: &'a Command,
    /// Its arguments.
    pub args: Args<'a>,
    /// Where the reply goes.
    pub out: &'a mut Vec<u8>,
    /// The worker's name for the connection.
    pub token: u64,
    /// Inside EXEC: the block that runs, with its latches.
    pub block: Option<&'a mut Block>,
    /// In a workspace: what waits until the block is committed. The engine is the workspace's.
    pub aside: Option<&'a mut Aside>,
}

impl<'a> SessionCtx<'a> {
    /// Notes, in a workspace, that a command runs that may be refused when memory is full: the owners of its keys decide.
    pub(crate) fn note_memory(&mut self, command: &Command) {
        if let Some(aside) = &mut self.aside {
            aside.needs_memory |= command.spec.has(flags::DENYOOM);
        }
    }

    /// What the client is told of this node's disk.
    pub(crate) fn signed(&self, text: String) -> String {
        match self.peers {
            Some(peers) if self.forwarded => peers.signed(text),
            _ => text,
        }
    }

    /// What a command sees that runs inside a block, its reply being written behind what has been written.
    pub(crate) fn inside<'b>(
        &'b mut self,
        block: &'b mut Block,
        command: &'b Command,
        args: Args<'b>,
    ) -> SessionCtx<'b> {
        SessionCtx {
            node: self.node,
            engine: self.engine,
            session: self.session,
            settings: self.settings,
            stats: self.stats,
            meter: self.meter,
            machines: self.machines,
            log: self.log,
            monitored: self.monitored,
            peers: self.peers,
            forwarded: self.forwarded,
            command,
            args,
            out: self.out,
            token: self.token,
            block: Some(block),
            aside: self.aside.as_deref_mut(),
        }
    }

    /// What a database has, with what the block that runs has added and taken away. What one does in a workspace is done nowhere yet.
    pub(crate) fn counts(&self, db: u16) -> Counts {
        let block = self.block.as_deref().filter(|_| self.aside.is_none());
        self.node.engine.keyspace.counts(db, block.map(|block| block.run.counts()))
    }

    /// Whether a script may turn out to need keys of other nodes: its block is undone then, and runs over nodes.
    pub(crate) fn may_go_over(&self) -> bool {
        self.aside.is_none() && self.peers.is_some_and(|peers| !peers.is_alone())
    }

    /// For whom commands run. What was read in a workspace is noted nowhere.
    pub fn caller(&self) -> Caller {
        if self.aside.is_some() { Caller::default() } else { self.session.caller() }
    }

    /// The reply writer.
    pub fn reply(&mut self) -> Reply<'_> {
        Reply::new(self.out, self.session.protocol)
    }

    /// Argument `i`.
    ///
    /// # Panics
    /// If there are fewer: the row's arity says how many there are at least.
    pub fn arg(&self, i: usize) -> &'a [u8] {
        self.args.get(i).expect("within the arity of the row")
    }

    /// Whether the output is longer than `client-output-buffer-limit` ever allows.
    pub fn is_too_much(&self) -> bool {
        let hard = self.settings.output_limit_normal.hard;
        hard > 0 && (self.out.len() + self.engine.parts.len()).saturating_sub(BUFFER) as u64 > hard
    }

    /// Argument `i` as an integer, or Redis's error.
    pub fn int(&self, i: usize) -> Result<i64, Error> {
        keyspace::canonical_int(self.arg(i)).ok_or(Error::NOT_INTEGER)
    }

    /// Whether argument `i` is this word, in any case.
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.args.get(i).is_some_and(|a| a.eq_ignore_ascii_case(word.as_bytes()))
    }
}

impl Session {
    /// The session of a new connection.
    pub fn new(client: Arc<Client>, authenticated: bool) -> Self {
        Self {
            client,
            db: 0,
            protocol: Protocol::Resp2,
            authenticated,
            multi: None,
            transaction: None,
            spare_multi: None,
            watched: Vec::new(),
            again: None,
            goes_over: None,
            undone: None,
            monitors: false,
            subscriptions: None,
            tracking: None,
            tracks_anew: false,
            no_touch: false,
            short_of_memory: false,
            error_is_counted: false,
            answers: None,
            replies: Replies::On,
            redirect: None,
        }
    }

    /// Chooses the protocol of replies.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        self.client.protocol.store(protocol.number() as u16, Relaxed);
    }

    /// Selects a database.
    pub fn set_db(&mut self, db: u16) {
        self.db = db;
        self.client.db.store(db, Relaxed);
    }

    /// Whether the client is told where a key of another node is, instead of getting the reply: smart clients are, and
    /// others where `cluster-redirect`, which is `default`, says so. CLUSTER REDIRECT comes before both.
    pub fn moves(&self, default: Redirect) -> bool {
        let smart = self.client.peer.smart.then_some(Redirect::Moved);
        self.redirect.or(smart).unwrap_or(default) == Redirect::Moved
    }

    /// Whether this command joins the queue of MULTI instead of running.
    pub fn queues(&self, command: &Command) -> bool {
        self.multi.is_some() && command.spec.flags & flags::IN_MULTI == 0
    }

    /// The present command has ended, or (`goes_on`) it may go on elsewhere: the next one knows no answers of it.
    pub(crate) fn end_answers(&mut self, goes_on: bool) {
        match self.answers.as_mut().filter(|_| goes_on) {
            Some(answers) => answers.is_over = true,
            None => self.answers = None,
        }
    }

    /// Ends the block, if there is one; what was watched comes back, to be unwatched.
    #[must_use]
    pub fn leave_multi(&mut self) -> Vec<WatchedKey> {
        self.leave_block();
        self.take_watched()
    }

    /// Ends the block alone: one in a workspace (see [`Aside`]) guards nothing with what the client watches, and ends no such guard.
    pub fn leave_block(&mut self) {
        self.multi = None;
        self.client.queued.store(-1, Relaxed);
        self.client.queued_bytes.store(0, Relaxed);
    }

    /// Watches nothing any more; what was watched comes back, to be unwatched.
    #[must_use]
    pub fn take_watched(&mut self) -> Vec<WatchedKey> {
        self.client.watching.store(0, Relaxed);
        self.client.watched_bytes.store(0, Relaxed);
        std::mem::take(&mut self.watched)
    }

    /// Marks the block as broken: EXEC will refuse.
    pub fn abort_multi(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.aborted = true;
        }
    }
}

/// Runs the handler of a session command; an error takes the place of whatever reply it had begun.
pub(crate) fn run(ctx: &mut SessionCtx<'_>, run: SessionRun) -> Flow {
    let start = ctx.out.len();
    match run(ctx) {
        Ok(flow) => flow,
        Err(error) => {
            ctx.out.truncate(start);
            ctx.engine.parts.truncate(start);
            ctx.reply().error(error.as_bytes());
            Flow::Done
        }
    }
}

/// A container called with a subcommand it does not have.
pub(crate) fn unknown_subcommand(container: &Command, name: &[u8]) -> Error {
    if let Some(text) = compatibility::subcommand_not_there(&container.name, name) {
        return Error::text(text);
    }
    let name = &name[..name.len().min(128)];
    // DEBUG takes its subcommands apart itself, so it words this differently.
    let what = if container.spec.has(flags::PROTECTED) { " or wrong number of arguments for" } else { "" };
    let hint = format!("'. Try {} HELP.", container.name.to_uppercase());
    Error::text([b"ERR unknown subcommand", what.as_bytes(), b" '", name, hint.as_bytes()].concat())
}

/// The error of a subcommand, as the client wrote it, that was given arguments it does not take.
pub(crate) fn wrong_arguments(container: &str, subcommand: &[u8]) -> Error {
    let hint = format!("'. Try {container} HELP.");
    let name = &subcommand[..subcommand.len().min(128)];
    Error::text([b"ERR unknown subcommand or wrong number of arguments for '", name, hint.as_bytes()].concat())
}

/// A row with Redis's command tips.
pub(crate) const fn tipped(tips: &'static [&'static str], mut row: Row<SessionRun>) -> Row<SessionRun> {
    row.spec.tips = tips;
    row
}

/// What runs a container called without a subcommand: its arity has refused that already.
pub(crate) fn container(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    Err(Error::arity(&ctx.command.name))
}

/// HELP of a container: its subcommands as their rows describe them.
pub(crate) fn help(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let node = ctx.node.clone();
    let name = ctx.command.name.split('|').next().unwrap_or_default();
    let mut lines = vec![format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", name.to_uppercase())];
    let subcommands = node.table.find_own(name.as_bytes()).map_or(&[][..], |container| &container.subcommands);
    for command in subcommands.iter().map(|&id| node.table.get(id)) {
        let spec = command.spec;
        lines.push(format!("{} {}", spec.name.to_uppercase(), spec.syntax).trim_end().into());
        lines.push(format!("    {}", spec.summary));
    }
    let mut reply = ctx.reply();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
    Ok(Flow::Done)
}

impl Command {
    /// Whether it has subcommands and nothing else.
    pub fn is_container(&self) -> bool {
        !self.subcommands.is_empty()
    }

    /// The row, if it is one of the data plane.
    pub fn data_row(&self) -> Option<&'static Row<command::Run>> {
        match self.handler {
            Handler::Data(row) => Some(row),
            Handler::Session(_) => None,
        }
    }
}
