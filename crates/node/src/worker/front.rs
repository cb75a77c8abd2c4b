//! A client as a caller of commands: its error, or its wait, where a command does not pass a check.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use command::flags;
use engine::Room;
use resp::Args;

use crate::admission::memory::{self, Shortage, Verdict};
use crate::admission::{AS_OF_CLIENTS, Caller, Step, arity, rights, state, write};
use crate::compatibility;
use crate::config::{BusyScope, Settings};
use crate::durability::backlog::Until;
use crate::node::Node;
use crate::session;
use crate::table::{Command, Table};
use crate::users::Denial;
use crate::worker::Worker;
use crate::worker::conn::Conn;
use crate::worker::next::{Item, Next};
use crate::worker::pause::Pause;

/// A client of this node, or of another node that forwards for it.
pub(crate) struct Front<'a> {
    pub(crate) worker: &'a mut Worker,
    pub(crate) conn: &'a mut Conn,
    /// Borrowed from the worker.
    pub(crate) node: &'a Arc<Node>,
    /// Borrowed from the worker.
    pub(crate) settings: &'a Arc<Settings>,
    /// The findings of the parser about the command.
    pub(crate) item: Item,
    /// The bytes of the command.
    pub(crate) raw: &'a [u8],
    /// The place of its reply in the output.
    pub(crate) before: usize,
}

impl Caller for Front<'_> {
    const ORDER: [Step; Step::COUNT] = AS_OF_CLIENTS;
    type Instead = Next;

    #[inline(always)]
    fn arity(&mut self, command: &Command, args: Args<'_>) -> Result<(), Next> {
        if !arity::is_wrong(command.spec, args.len()) {
            return Ok(());
        }
        // DEBUG takes its subcommands apart itself.
        let error = match command.is_hidden() {
            true => unknown_subcommand(command, &args[1]),
            false => arity::wrong(&command.name),
        };
        self.refuse(command, &error)
    }

    #[inline(always)]
    fn rights(&mut self, command: &Command, args: Args<'_>) -> Result<(), Next> {
        if rights::must_log_in(command.spec, self.conn.session.authenticated)
            && let Err(why) = session::identify_late(self.node, &mut self.conn.session, self.worker.engine.now())
        {
            return self.refuse(command, why);
        }
        match rights::refusal(&self.node.users, &mut self.conn.session.user, command, args) {
            Some(denial) => self.deny_or_wait(command, denial),
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn state(&mut self, command: &Command, _: Args<'_>) -> Result<(), Next> {
        let (conn, settings) = (&*self.conn, &**self.settings);
        let view = state::View {
            clustered: self.worker.peers.is_cluster(),
            in_block: conn.session.multi.is_some(),
            // Nodes send each other DEBUG AWAIT (`transactions/waiting.rs`).
            debug_open: || command.spec.name == "await" && conn.is_virtual() || debug_is_open(settings, conn),
            monitors: conn.session.monitors,
            subscribed: conn.session.is_subscribed(),
            protocol: conn.session.protocol,
            dialect: settings.compatibility,
        };
        if let Some(error) = state::refusal(&command.name, command.spec, view) {
            return self.refuse(command, &error);
        }
        if settings.busy_reply_scope == BusyScope::All
            && !command.spec.has(flags::ALLOW_BUSY)
            && let Some(job) = self.node.scripts.slow_job()
        {
            return self.refuse(command, job.busy_error().as_bytes());
        }
        Ok(())
    }

    #[inline(always)]
    fn cluster(&mut self, command: &Command, args: Args<'_>) -> Result<(), Next> {
        if !self.worker.peers.is_cluster() {
            return Ok(());
        }
        let redirect = self.settings.cluster_redirect;
        match self.worker.forwarding().route(self.conn, command, args, self.item, self.raw, redirect) {
            Some(next) => Err(next),
            None => Ok(()),
        }
    }

    /// Before memory: if data cannot leave memory because of the log, the error has to name the log.
    #[inline(always)]
    fn write(&mut self, command: &Command, _: Args<'_>) -> Result<(), Next> {
        match refusal_of_log(self.worker, self.conn, command) {
            Some(error) => self.refuse(command, error.as_bytes()),
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn memory(&mut self, command: &Command, args: Args<'_>) -> Result<(), Next> {
        self.conn.session.short_of_memory = false;
        if !self.node.is_bounded(self.settings) {
            return Ok(());
        }
        // Replies and requests count, too: a command that reads may need room as well, but is never refused.
        let more = if headroom::is_limited() { memory::bytes_of(args) } else { 0 };
        let (worker, settings) = (&mut *self.worker, &**self.settings);
        let room = worker.make_room(settings, more);
        if worker.engine.has_invalidated() {
            // Evictions for the command are no part of what it does.
            worker.tell_trackers(Some(self.conn));
            self.before = self.conn.out.bytes.len();
        }
        self.conn.session.short_of_memory = room == Room::None;
        let (worker, conn) = (&*self.worker, &*self.conn);
        let shortage = Shortage {
            needs: || conn.session.queues(command) || does(&worker.node, conn, command, flags::DENYOOM),
            more,
            must_wait: || worker.must_wait_for_room(settings),
            log_delays: || worker.awaits_log_to_evict(settings),
        };
        match memory::verdict(room, shortage) {
            Verdict::GoesOn => Ok(()),
            verdict => self.lacks_room(command, args, more, verdict),
        }
    }

    #[inline(always)]
    fn now(&mut self, command: &Command, args: Args<'_>) -> Result<(), Next> {
        let (worker, conn) = (&mut *self.worker, &mut *self.conn);
        if let Some(until) = worker.must_wait_for_log(conn, command, args) {
            return Err(worker.wait_for_log(conn, until));
        }
        if worker.paused.is_some() && is_held_back(worker, conn, command, args) {
            return Err(worker.wait_for_pause(conn));
        }
        Ok(())
    }
}

impl Front<'_> {
    fn refuse(&mut self, command: &Command, error: &[u8]) -> Result<(), Next> {
        Err(self.worker.forwarding().decline(self.conn, command, error))
    }

    /// A client may not run it. What another node has forwarded may have to wait.
    #[cold]
    fn deny_or_wait(&mut self, command: &Command, denial: Denial) -> Result<(), Next> {
        // EXEC judges what another node's client has queued.
        if self.conn.is_virtual() && (rights::is_of_nodes(command) || self.conn.session.queues(command)) {
            return Ok(());
        }
        if let Denial::Behind = denial
            && let Some(next) = self.worker.forwarding().wait_for_map(self.conn)
        {
            return Err(next);
        }
        self.deny(command, denial)
    }

    /// The user may not run it.
    fn deny(&mut self, command: &Command, denial: Denial) -> Result<(), Next> {
        // The log shows the command as that of the client.
        self.conn.session.client.last_command.store(command.id as u32 + 1, Relaxed);
        let reply = note_denial(self.worker, self.conn, self.settings, denial);
        self.refuse(command, &reply)
    }

    /// Refuses a command that needs room, or has it wait: there is none.
    fn lacks_room(&mut self, command: &Command, args: Args<'_>, more: u64, verdict: Verdict) -> Result<(), Next> {
        let (worker, conn, settings) = (&mut *self.worker, &mut *self.conn, &**self.settings);
        match verdict {
            Verdict::GoesOn => return Ok(()),
            Verdict::Retries => {
                worker.again.push(conn.token);
                return Err(Next::Retry);
            }
            Verdict::AwaitsRoom if conn.fetches == 0 || worker.may_fit(conn, settings, command, args) => {
                return Err(worker.wait_for_room(conn));
            }
            Verdict::AwaitsLog => return Err(worker.wait_for_log(conn, Until::LessIsLeft)),
            Verdict::AwaitsRoom | Verdict::Refused => {}
        }
        let why = worker.out_of_memory(settings, more, conn.is_virtual());
        self.refuse(command, why.as_bytes())
    }
}

/// Finds the command that a client calls: of a container, its subcommand. The error has the text for the client, and
/// the command whose statistics count the failure.
#[inline(always)]
pub(crate) fn find<'t>(
    worker: &Worker,
    conn: &Conn,
    table: &'t Table,
    settings: &Settings,
    (id, args): (u32, Args<'_>),
) -> Result<&'t Command, (Option<&'t Command>, Vec<u8>)> {
    let Some(command) = (id as usize).checked_sub(1).map(|id| table.get(id)) else {
        return Err((None, unknown_command(worker, conn, table, settings, args)));
    };
    if !command.is_container() || args.len() < 2 {
        return Ok(command);
    }
    match table.find_subcommand(command, &args[1]) {
        Some(sub) => Ok(sub),
        None => Err(no_subcommand(worker, conn, settings, command, args)),
    }
}

/// The error for a subcommand that a container does not have. A closed container does not list those that it has.
#[cold]
fn no_subcommand<'t>(
    worker: &Worker,
    conn: &Conn,
    settings: &Settings,
    container: &'t Command,
    args: Args<'_>,
) -> (Option<&'t Command>, Vec<u8>) {
    if container.spec.has(flags::PROTECTED) && !debug_is_open(settings, conn) {
        return (Some(container), state::DEBUG_FORBIDDEN.into());
    }
    if container.spec.has(flags::NEEDS_CLUSTER) && !worker.peers.is_cluster() {
        return (Some(container), state::NO_CLUSTER.into());
    }
    (None, refusal_of_absent(worker, conn, settings, args).unwrap_or_else(|| unknown_subcommand(container, &args[1])))
}

/// The error for a command that does not exist: the server's own text for a command that Redis has.
#[cold]
fn unknown_command(worker: &Worker, conn: &Conn, table: &Table, settings: &Settings, args: Args<'_>) -> Vec<u8> {
    if let Some(denial) = refusal_of_absent(worker, conn, settings, args) {
        return denial;
    }
    match compatibility::not_there(&args[0], |name| table.find_own(name).is_some()) {
        Some(text) => text.into(),
        None => arity::unknown(args),
    }
}

/// The error if the client's user may not run this command of Redis, which is not there.
fn refusal_of_absent(worker: &Worker, conn: &Conn, settings: &Settings, args: Args<'_>) -> Option<Vec<u8>> {
    let users = &worker.node.users;
    if !conn.session.authenticated {
        return users.absent(args).map(|_| rights::NOAUTH.into());
    }
    let denial = users.refusal_of_absent(&conn.session.user, args)?;
    Some(note_denial(worker, conn, settings, denial))
}

/// Notes in ACL LOG what a client was denied: its error.
fn note_denial(worker: &Worker, conn: &Conn, settings: &Settings, denial: Denial) -> Vec<u8> {
    let session = &conn.session;
    let context = if session.multi.is_some() { acl::Context::Multi } else { acl::Context::TopLevel };
    let (reply, now) = (denial.reply(), worker.engine.now());
    if let Some(event) = denial.event(context, session::line_at(&worker.node, &session.client, now)) {
        worker.node.users.log().add(now.0 as i64, settings.acllog_max_len, event);
    }
    reply
}

/// The same for a subcommand.
#[cold]
fn unknown_subcommand(container: &Command, name: &[u8]) -> Vec<u8> {
    match compatibility::subcommand_not_there(&container.name, name) {
        Some(text) => text.into(),
        None => arity::unknown_subcommand(&container.name, container.spec.has(flags::PROTECTED), name),
    }
}

fn debug_is_open(settings: &Settings, conn: &Conn) -> bool {
    session::debug_is_open(settings, &conn.session.client.peer)
}

/// True if the command, or a command of the block that it executes, has one of these flags.
fn does(node: &Node, conn: &Conn, command: &Command, any: u32) -> bool {
    if command.spec.flags & any != 0 {
        return true;
    }
    let block = conn.session.multi.as_ref().filter(|_| command.name == "exec");
    block.is_some_and(|multi| multi.queue.iter().any(|q| node.table.get(q.command).spec.flags & any != 0))
}

/// The reason why nothing may be written now, if the command or its block writes: the log has no room (rule L8), it has
/// failed (rule L9), or there is none and snapshots fail.
#[inline]
fn refusal_of_log(worker: &Worker, conn: &Conn, command: &Command) -> Option<String> {
    let error = match worker.promise() {
        Some(durable) => durable.refusal()?,
        None => worker.node.refusal_of_snapshots()?.to_owned(),
    };
    // A client that has queued a block at another node gets errors of EXEC alone.
    let forwarded = conn.is_virtual();
    let unheard = forwarded && conn.session.queues(command);
    (!unheard && does(&worker.node, conn, command, flags::WRITE)).then(|| worker.signed(error, forwarded))
}

/// True if CLIENT PAUSE holds this command back.
fn is_held_back(worker: &Worker, conn: &Conn, command: &Command, args: Args<'_>) -> bool {
    match worker.paused {
        None => false,
        Some((Pause::All, _)) => true,
        Some((Pause::Write | Pause::Cut, _)) => may_write(&worker.node, conn, command, args),
    }
}

/// True if the command, or a command of the block that it executes, may write or tell replicas something.
pub(crate) fn may_write(node: &Node, conn: &Conn, command: &Command, args: Args<'_>) -> bool {
    let may = |command: &Command, args: Args<'_>| {
        write::may(command.spec) && !session::is_read_only_script(node, command, args)
    };
    let block = conn.session.multi.as_ref().filter(|_| command.name == "exec");
    may(command, args)
        || block.is_some_and(|multi| {
            let mut queue = multi.queue.iter().enumerate();
            queue.any(|(i, queued)| may(node.table.get(queued.command), multi.batch.args(i, &[])))
        })
}
