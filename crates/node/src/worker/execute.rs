//! From a parsed command to its handler: admission before it, statistics after it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use command::flags;
use engine::{Call, Ran};
use keyspace::Key;
use resp::Args;

use crate::admission::{Admitted, admit};
use crate::clock::MonoNs;
use crate::config::Settings;
use crate::figures::cost::{Cost, request_bytes};
use crate::figures::heat::OneSlot;
use crate::figures::stats::add;
use crate::node::Node;
use crate::session::{self, Flow, Replies, SessionCtx};
use crate::table::{Command, Handler};
use crate::worker::conn::Conn;
use crate::worker::front::{self, Front};
use crate::worker::http;
use crate::worker::next::{INSISTS, Item, Next};
use crate::worker::{Worker, write_error};

impl Worker {
    /// Executes one command of a connection, or queues it, or refuses it.
    ///
    /// `node` and `settings` are the worker's own, borrowed for a whole turn.
    pub(crate) fn execute(
        &mut self,
        conn: &mut Conn,
        node: &Arc<Node>,
        settings: &Arc<Settings>,
        args: Args<'_>,
        item: Item,
        raw: &[u8],
    ) -> Next {
        if conn.session.client.seat.is_closed() {
            // CLIENT KILL has been answered: from here on the client does nothing.
            self.end_session(conn);
            return Next::Stop;
        }
        let failures = conn.busy;
        let next = self.try_execute(conn, node, settings, args, item, raw);
        // This wait may last and has nothing to do with locks: other commands go on meanwhile.
        if next != Next::Retry || conn.wait.outlasts_locks() {
            self.waits_no_more(conn);
        }
        if next != Next::Retry && self.peers.is_cluster() {
            // Only a node of a cluster asks others.
            self.forwarding().leave_map(conn);
            if conn.session.answers.is_some() {
                conn.session.end_answers(next == Next::Stop);
            }
            if conn.session.goes_over.is_some() {
                conn.session.goes_over = None;
            }
        }
        if failures > 0 && conn.busy <= failures {
            // However it ended, it no longer waits for latches: no other command must wait for it.
            conn.busy = 0;
            conn.session.again = None;
            self.engine.cancel_reservation(conn.token);
        }
        if !self.engine.wakes.is_empty() {
            self.wake_others();
        }
        next
    }

    fn try_execute(
        &mut self,
        conn: &mut Conn,
        node: &Arc<Node>,
        settings: &Arc<Settings>,
        args: Args<'_>,
        item: Item,
        raw: &[u8],
    ) -> Next {
        let found = front::find(self, conn, &node.table, settings, (item.command, args));
        let command = match found {
            Ok(command) => command,
            Err(_) if item.command == 0 && http::is_request(&args[0]) => return self.close_to_http(conn),
            Err((counted, error)) => {
                self.refuse(conn, counted, &error);
                return Next::Continue;
            }
        };
        let before = conn.out.bytes.len();
        let mut front = Front { worker: self, conn, node, settings, item, raw, before };
        let command = match admit(command, args, &mut front) {
            Ok(admitted) => admitted,
            Err(next) => return next,
        };
        let before = front.before;
        if conn.session.queues(&command) {
            if let Some(multi) = &mut conn.session.multi {
                multi.aborted |= !multi.push(command.id, item.key(), args);
                conn.session.client.queued_bytes.store(multi.bytes as u64, Relaxed);
                conn.session.client.queued.store(multi.queue.len() as i32, Relaxed);
            }
            resp::Reply::new(&mut conn.out.bytes, conn.session.protocol).queued();
            self.apply_reply_mode(conn, before);
            return Next::Continue;
        }
        let db = conn.session.db;
        let exact = self.meter.is_exact(&command, args);
        let (from, block) =
            if exact { self.begin_exact(conn, &command) } else { (MonoNs::default(), (OneSlot::None, 0)) };
        if self.engine.has_seen() {
            // Versions that were seen before, or for other connections, are not what this command sees.
            self.engine.take_seen();
        }
        (self.engine.insists, self.engine.waited) = (conn.fetches >= INSISTS, conn.fetches > 0);
        let touches = !conn.session.no_touch || command.name == "touch";
        if !touches {
            self.engine.clock().set_touching(false);
        }
        let next = self.dispatch(conn, node, settings, command, args, item);
        if !touches {
            self.engine.clock().set_touching(true);
        }
        (self.engine.insists, self.engine.waited) = (false, false);
        // Work that other threads have done for the command is its time, too.
        let from = from.earlier(self.engine.take_worked());
        let mut shared = 0;
        if !self.engine.parts.is_empty() {
            shared = self.engine.parts.len();
            conn.out.adopt(&mut self.engine.parts);
        }
        if self.engine.has_seen() {
            match next {
                _ if conn.wait.is_in_script() => conn.seen = self.engine.take_seen(),
                Next::Retry => {}
                _ => self.gate_seen(conn, before),
            }
        }
        if next == Next::Retry {
            if conn.wait.is_in_script() {
                conn.spent = self.meter.settle().since(from);
            }
            return next;
        }
        conn.busy = 0;
        let counts = !conn.is_virtual() || self.peers.counts_here(conn, &command);
        if !counts {
            if exact {
                let is_logged = self.peers.is_logged_here(conn, &command);
                self.meter.passed(&command, args, &conn.session.client, self.engine.now(), from, is_logged);
            }
        } else if !exact {
            self.meter.ran(command.counted_as);
        } else if conn.has_ended() || conn.wait.is_in_walk() {
            // The later steps belong to no command: no other client waits for them.
            let nanos = self.meter.finish(&command, args, &conn.session.client, self.engine.now(), from);
            if self.meter.heat.is_on() {
                let bytes_out = (conn.out.bytes.len().saturating_sub(before) + shared) as u64;
                self.tell_heat(conn, &command, args, block, Cost { nanos, bytes_in: raw.len() as u64, bytes_out });
            }
        } else {
            // The command is counted when it has ended.
            conn.spent = self.meter.settle().since(from);
        }
        self.ran(conn, node, &command, args, db, before);
        if self.engine.has_invalidated() && conn.has_ended() {
            self.tell_trackers(Some(conn));
        }
        next
    }

    /// Notes that a command has run in database `db`, and that its reply begins at `before` in the output.
    pub(crate) fn ran(
        &mut self,
        conn: &mut Conn,
        node: &Arc<Node>,
        command: &Command,
        args: Args<'_>,
        db: u16,
        before: usize,
    ) {
        if self.monitored && command.is_shown_to_monitors() && !conn.is_virtual() {
            node.show_to_monitors(&conn.session.client, db, args);
        }
        let client = &conn.session.client;
        client.last_command.store(command.id as u32 + 1, Relaxed);
        client.last_active.store(self.engine.now().0, Relaxed);
        if let Some(tracking) = &mut conn.session.tracking
            && conn.session.multi.is_none()
            && !command.name.starts_with("client|")
        {
            tracking.caching = false;
            if !tracking.transacted.is_empty() {
                self.forwarding().forget_transacted(conn);
            }
        }
        let counted = std::mem::take(&mut conn.session.error_is_counted);
        if conn.out.bytes.get(before) == Some(&b'-') {
            add(&self.stats.commands[command.counted_as].failed, 1);
            if !counted {
                self.stats.count_error(&conn.out.bytes[before + 1..]);
            }
        }
        // A client that wants no replies still wants messages, and confirmations of its subscriptions.
        let confirms = command.spec.has(flags::PUBSUB | flags::NOSCRIPT);
        if conn.session.replies != Replies::On && !confirms {
            if conn.has_ended() {
                self.apply_reply_mode(conn, before);
            } else if matches!(conn.session.replies, Replies::Off | Replies::Skip) {
                conn.out.truncate(before);
            }
        }
    }

    /// Reads the clock before a command that is timed by itself. Such a command may read the counters, too. Of EXEC, the
    /// slot of the block is returned as well.
    fn begin_exact(&mut self, conn: &Conn, command: &Command) -> (MonoNs, (OneSlot, u64)) {
        self.stats.dirty.store(self.engine.fx.dirty, Relaxed);
        let mut block = (OneSlot::None, 0);
        if self.meter.heat.is_on()
            && command.name == "exec"
            && let Some(multi) = &conn.session.multi
        {
            let commands = multi.commands().map(|(queued, args)| (self.node.table.get(queued.command), args));
            block.0 = self.meter.heat.slot_of(commands);
            block.1 = multi.commands().map(|(_, args)| request_bytes(args)).sum();
        }
        (self.meter.settle(), block)
    }

    /// Tells HOTKEYS and CLUSTER SLOT-STATS of a command. `block`: of EXEC, the slot and the bytes of its block.
    #[cold]
    pub(crate) fn tell_heat(
        &mut self,
        conn: &Conn,
        command: &Command,
        args: Args<'_>,
        block: (OneSlot, u64),
        cost: Cost,
    ) {
        let (peers, now) = (&self.peers, self.engine.now());
        let is_own = |slot| peers.is_here(slot);
        let heat = &mut self.meter.heat;
        match block {
            (OneSlot::None, _) if conn.wait.is_in_walk() => {
                heat.ran_long(conn.token, (command, args), is_own, cost, now)
            }
            (OneSlot::None, _) => heat.ran((command, args), is_own, false, cost, now),
            (slot, queued) => heat.ran_block(slot, is_own, cost, queued),
        }
    }

    /// The context of a session command of the connection.
    pub(crate) fn session_ctx<'a>(
        &'a mut self,
        conn: &'a mut Conn,
        node: &'a Arc<Node>,
        settings: &'a Arc<Settings>,
        command: Admitted<'a>,
        args: Args<'a>,
    ) -> SessionCtx<'a> {
        // Clients of other nodes are shown at their own nodes.
        let (monitored, forwarded) = (self.monitored && conn.is_client(), conn.is_virtual());
        SessionCtx {
            node,
            engine: &mut self.engine,
            session: &mut conn.session,
            settings,
            stats: &self.stats,
            meter: &mut self.meter,
            machines: &mut self.machines,
            log: self.promises.log(),
            monitored,
            peers: &self.peers,
            forwarded,
            command,
            args,
            out: &mut conn.out.bytes,
            token: conn.token,
            block: None,
            aside: None,
        }
    }

    #[inline(always)]
    fn dispatch(
        &mut self,
        conn: &mut Conn,
        node: &Arc<Node>,
        settings: &Arc<Settings>,
        command: Admitted<'_>,
        args: Args<'_>,
        item: Item,
    ) -> Next {
        match command.handler {
            Handler::Data(row) => {
                let first = item.key().and_then(|(slot, hash)| Some(Key { bytes: args.get(1)?, hash, slot }));
                let call = Call {
                    row,
                    args,
                    first,
                    db: conn.session.db,
                    protocol: conn.session.protocol,
                    token: conn.token,
                    seat: Some(&conn.session.client.seat),
                    caller: conn.session.caller(),
                };
                match command.execute(&mut self.engine, &call, &mut conn.out.bytes) {
                    Ran::Done => Next::Continue,
                    ran => self.wait_as_it_ran(conn, &command, ran),
                }
            }
            Handler::Session(_) => self.dispatch_to_session(conn, node, settings, command, args),
        }
    }

    /// Makes a connection wait whose command has not ended.
    #[inline(never)]
    fn wait_as_it_ran(&mut self, conn: &mut Conn, command: &Command, ran: Ran) -> Next {
        match ran {
            Ran::Done => return Next::Continue,
            Ran::Busy(busy) => return self.wait_for_latch(conn, command, &busy),
            Ran::Blocked(blocked) => self.wait_for_keys(conn, blocked),
            Ran::Walking(walking) => self.begin_walk(conn, walking),
        }
        Next::Stop
    }

    #[inline(never)]
    fn dispatch_to_session(
        &mut self,
        conn: &mut Conn,
        node: &Arc<Node>,
        settings: &Arc<Settings>,
        command: Admitted<'_>,
        args: Args<'_>,
    ) -> Next {
        let start = conn.out.bytes.len();
        let flow = session::run(&mut self.session_ctx(conn, node, settings, command, args));
        self.paused = self.node.pauses.current(self.engine.now());
        self.engine.keep_expired(self.paused.is_some());
        match flow {
            Flow::Done if conn.session.tracks_anew => self.forwarding().track_over_nodes(conn, &command, start),
            Flow::Done => Next::Continue,
            Flow::Sleep(ms) => {
                self.sleep(conn, args, ms);
                Next::Stop
            }
            Flow::AwaitSync(awaited) => {
                self.wait_for_sync(conn, awaited);
                Next::Stop
            }
            Flow::Save(checkpoints, ticket) => {
                self.await_save(conn, args, checkpoints, ticket);
                Next::Stop
            }
            Flow::Job(job) => {
                self.await_job(conn, args, job);
                Next::Stop
            }
            Flow::Verdict(verdict) => {
                self.forwarding().await_verdict(conn, verdict);
                Next::Stop
            }
            Flow::Close => {
                conn.closing = true;
                Next::Stop
            }
            Flow::Busy(busy) => self.wait_for_latch(conn, &command, &busy),
            Flow::Suspend(suspended) => {
                self.begin_script(conn, suspended);
                Next::Retry
            }
        }
    }

    /// The error about this node's disk, as a client hears it. `forwarded`: the command came from another node.
    pub(crate) fn signed(&self, text: String, forwarded: bool) -> String {
        if forwarded { self.peers.signed(text) } else { text }
    }

    /// Answers an error to a command that did not run. A block that it belonged to is broken. EXEC ends its block.
    pub(crate) fn refuse(&mut self, conn: &mut Conn, command: Option<&Command>, text: &[u8]) {
        let before = conn.out.bytes.len();
        if let Some(command) = command {
            add(&self.stats.commands[command.counted_as].rejected, 1);
        }
        let aborted;
        let mut text = text;
        if command.is_some_and(|command| command.name == "exec") {
            self.drop_block(conn);
            // The general code says nothing. Others (OOM) are part of the reason.
            let reason = text.strip_prefix(b"ERR ").unwrap_or(text);
            aborted = [b"EXECABORT Transaction discarded because of: ", reason].concat();
            text = &aborted;
        } else {
            conn.session.abort_multi();
        }
        self.stats.count_error(text);
        write_error(&mut conn.out.bytes, conn.session.protocol, text);
        if conn.session.replies != Replies::On {
            self.apply_reply_mode(conn, before);
        }
    }

    pub(crate) fn drop_block(&mut self, conn: &mut Conn) {
        let watched = conn.session.leave_multi();
        self.engine.unwatch_later(watched);
    }

    /// Takes the reply back if the client does not want it.
    pub(crate) fn apply_reply_mode(&mut self, conn: &mut Conn, before: usize) {
        match conn.session.replies {
            Replies::On => {}
            Replies::Off => conn.out.truncate(before),
            Replies::SkipNext => {
                conn.out.truncate(before);
                conn.session.replies = Replies::Skip;
            }
            Replies::Skip => {
                conn.out.truncate(before);
                conn.session.replies = Replies::On;
            }
        }
    }
}
