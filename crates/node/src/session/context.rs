//! The context of a session command, and the ways in which it ends.

use std::sync::Arc;

use command::{Error, Row, flags};
use engine::{Busy, Caller, Engine};
use keyspace::Counts;
use resp::{Args, Reply};

use super::block::Block;
use super::script::Machines;
use super::suspended::Suspended;
use super::{Aside, Session};
use crate::admission::Admitted;
use crate::cluster::{Peers, Verdict};
use crate::config::Settings;
use crate::durability::awaited::AwaitedCopies;
use crate::durability::checkpoints::{Checkpoints, Ticket};
use crate::durability::durable::Durable;
use crate::figures::cost::Cost;
use crate::figures::meter::Meter;
use crate::figures::stats::WorkerStats;
use crate::node::Node;
use crate::table::Command;
use crate::worker::jobs::Job;
use crate::worker::outgoing::BUFFER;

/// Runs a session command.
pub type SessionRun = fn(&mut SessionCtx<'_>) -> Result<Flow, Error>;

/// How a session command ended, if not with an error.
pub enum Flow {
    /// The reply has been written.
    Done,
    /// Close the connection after the reply.
    Close,
    /// No worker executes anything for this many milliseconds. Then the reply is OK.
    Sleep(u64),
    /// The reply comes when copies, or disks, have what the client has written.
    AwaitSync(Box<AwaitedCopies>),
    /// The reply comes when this checkpoint has ended.
    Save(Arc<Checkpoints>, Ticket),
    /// The reply comes when this job has ended.
    Job(Arc<Job>),
    /// The reply comes when another node has decided.
    Verdict(Arc<Verdict>),
    /// A latch is busy: nothing has happened, run again later.
    Busy(Busy),
    /// It goes on later.
    Suspend(Box<Suspended>),
}

/// The context of a session command.
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
    /// True if commands are shown to a client (MONITOR).
    pub monitored: bool,
    /// The cluster, if this is a node of one.
    pub(crate) peers: &'a Peers,
    /// The client is connected to another node.
    pub(crate) forwarded: bool,
    /// The command that runs. Without one that was admitted there is no context, and no handler runs.
    pub command: Admitted<'a>,
    /// Its arguments.
    pub args: Args<'a>,
    /// Where the reply goes.
    pub out: &'a mut Vec<u8>,
    /// The worker's name for the connection.
    pub token: u64,
    /// Inside EXEC: the block that runs, with its latches.
    pub block: Option<&'a mut Block>,
    /// In a workspace: the messages and effects that wait until the block is committed. The engine is the workspace's.
    pub aside: Option<&'a mut Aside>,
}

impl<'a> SessionCtx<'a> {
    /// Drops the block and the watched keys, as after DISCARD and EXEC.
    pub(crate) fn leave_multi(&mut self) {
        let watched = self.session.leave_multi();
        self.engine.unwatch_later(watched);
    }

    /// Notes, in a workspace, that a command runs that may be refused when memory is full. The owners of its keys
    /// decide.
    pub(crate) fn note_memory(&mut self, command: &Command) {
        if let Some(aside) = &mut self.aside {
            aside.needs_memory |= command.spec.has(flags::DENYOOM);
        }
    }

    /// Tells HOTKEYS of a command of a block. In a workspace there are keys of other nodes, which tell of them.
    #[cold]
    pub(crate) fn tell_heat(&mut self, command: &Command, args: Args<'_>, cost: Cost) {
        let (peers, now) = (self.peers, self.engine.now());
        self.meter.heat.ran((command, args), |slot| peers.is_here(slot), true, cost, now);
    }

    /// The error about this node's disk, as the client hears it.
    pub(crate) fn signed(&self, text: String) -> String {
        if self.forwarded { self.peers.signed(text) } else { text }
    }

    /// The context of a command inside a block. Its reply is written behind the bytes so far.
    pub(crate) fn inside<'b>(
        &'b mut self,
        block: &'b mut Block,
        command: Admitted<'b>,
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

    /// The counts of a database, with the keys that the running block has added and removed. Changes in a workspace do
    /// not count yet.
    pub(crate) fn counts(&self, db: u16) -> Counts {
        let block = self.block.as_deref().filter(|_| self.aside.is_none());
        self.node.engine.keyspace.counts(db, block.map(|block| block.run.counts()))
    }

    /// True if a script may turn out to need keys of other nodes. Then its block is undone, and runs over nodes.
    pub(crate) fn may_go_over(&self) -> bool {
        self.aside.is_none() && !self.peers.is_alone()
    }

    /// The caller that commands run for. Reads in a workspace are noted nowhere.
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

    /// True if the output is longer than `client-output-buffer-limit` ever allows.
    pub fn is_too_much(&self) -> bool {
        let hard = self.settings.output_limit_normal.hard;
        hard > 0 && (self.out.len() + self.engine.parts.len()).saturating_sub(BUFFER) as u64 > hard
    }

    /// Argument `i` as an integer, or Redis's error.
    pub fn int(&self, i: usize) -> Result<i64, Error> {
        keyspace::canonical_int(self.arg(i)).ok_or(Error::NOT_INTEGER)
    }

    /// True if argument `i` is this word, in any case.
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.args.get(i).is_some_and(|a| a.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// The error of a subcommand, in the client's spelling, that got arguments it does not take.
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

/// The handler of a container without a subcommand. It is never reached, because the arity refuses such a call.
pub(crate) fn container(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    Err(Error::arity(&ctx.command.name))
}

/// HELP of a container: its subcommands, from their rows.
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
