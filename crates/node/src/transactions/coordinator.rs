//! Coordinates blocks that need keys of several nodes: it begins them, routes them again, and answers their clients.

use resp::{Args, Reply};
use txn::{Coordinator, Event, Refusal};

use super::block::{Block, Elsewhere};
use super::fetching::Fetching;
use super::plan::{NOT_SERVED, Plan, TOO_LONG};
use super::port::{Desk, Port, Transacting};
use super::split::lacking;
use super::wire;
use crate::figures::stats::add;
use crate::session::Multi;
use crate::table::Command;
use crate::worker::conn::Conn;
use crate::worker::wait::{NodeWait, Wait};

/// Milliseconds for which a block is tried again if the owners say that they do not own its keys, while the map says
/// that they do.
const MAP_MS: u64 = 3_000;

/// Bytes of a command, at most, that begins while the client waits for the reply to an earlier one.
const FOLLOWS_MAX: usize = 64 << 10;

/// The keys that a connection watches at other nodes.
fn watched_elsewhere(conn: &Conn) -> Vec<Elsewhere> {
    let Some(remote) = conn.remote.as_deref() else { return Vec::new() };
    let lines = remote.lines.iter().enumerate().filter_map(|(link, line)| Some((link, line.as_ref()?)));
    let watching = lines.filter(|(_, line)| !line.watched.is_empty());
    let elsewhere = watching.map(|(link, line)| {
        let (vc, client, keys) = (line.vc, conn.session.client.id, line.watched.len() as u32);
        Elsewhere { link, watch: wire::Watch { vc, client, keys }, keys: line.watched.clone() }
    });
    elsewhere.collect()
}

/// The result of beginning a block.
pub(crate) enum Begun {
    /// The connection waits.
    Waits,
    /// The command cannot overlap with the one before it: it begins when that one is answered.
    Later,
    /// The block cannot run; the client is told this.
    Refused(Vec<u8>),
}

impl<P: Port> Transacting<'_, P> {
    /// Begins an EXEC over several nodes, or `alone`, one command with keys of several. No place is left for its reply
    /// yet.
    pub(crate) fn begin(&mut self, conn: &mut Conn, command: &Command, alone: Option<Args<'_>>) -> Begun {
        let hole = None;
        self.begin_at(conn, command, alone, hole)
    }

    /// As [`Self::begin`]; `hole`: the place that was left for its reply.
    pub(crate) fn begin_at(
        &mut self,
        conn: &mut Conn,
        command: &Command,
        alone: Option<Args<'_>>,
        hole: Option<(u64, bool)>,
    ) -> Begun {
        let extra = conn.session.goes_over.take().unwrap_or_default();
        if let Some(error) = alone.and_then(|args| lacking(command, args)) {
            return Begun::Refused(error);
        }
        let multi = match alone {
            None => conn.session.multi.take(),
            Some(args) => {
                let mut multi = Box::<Multi>::default();
                multi.push(command.id, None, args).then_some(multi)
            }
        };
        let Some(mut multi) = multi else { return Begun::Refused(TOO_LONG.into()) };
        multi.user = conn.session.user.principal;
        let (node, databases) = (self.node().clone(), self.settings().databases);
        let (db, protocol) = (conn.session.db, conn.session.protocol);
        let elsewhere = if alone.is_none() { watched_elsewhere(conn) } else { Vec::new() };
        let watches = (if alone.is_none() { &*conn.session.watched } else { &[] }, &*elsewhere);
        let Desk { txn, peers, .. } = self.desk();
        let planned = match peers.plan((&node, databases), &multi, watches, (db, protocol), &extra) {
            Ok(_) if txn.coordinator.is_none() => Err(NOT_SERVED.into()),
            Ok(plan) => peers.refusal(&plan.parts).map_or(Ok(plan), Err),
            Err(error) => Err(error),
        };
        let Plan { mut parts, answers, selected, fetches } = match planned {
            Ok(plan) => plan,
            Err(text) => {
                if alone.is_none() {
                    conn.session.multi = Some(multi);
                }
                return Begun::Refused(text);
            }
        };
        let caches = conn.session.tracking.is_some();
        let joins = fetches && !caches && self.may_join((&multi, alone.is_some()), watches);
        let follows = conn.over_nodes && conn.out.has_holes() && hole.is_none();
        if follows && (!joins || multi.bytes > FOLLOWS_MAX) {
            return Begun::Later;
        }
        conn.over_nodes = joins && alone.is_some() && hole.is_none();
        let hole = hole.unwrap_or_else(|| self.port.place_of_reply(conn));
        let runs = self.port.runs_for(conn, &multi, &parts);
        let watched = if alone.is_none() { conn.session.leave_multi() } else { Vec::new() };
        // A block that runs here is counted and shown as it runs.
        match (fetches, alone) {
            (true, Some(_)) => {}
            (true, None) | (false, Some(_)) => self.port.count_forwarded(conn, command, alone),
            (false, None) => self.port.count_block(conn, &multi, command),
        }
        conn.wait = Wait::Node(NodeWait::Replies(0));
        let (now, time, clock) = (self.now(), self.engine().hybrid_time(), self.node().clock.unix_ms());
        let mut events = Vec::new();
        if fetches {
            self.txn().copies.name_in(&mut parts);
        }
        let known = if joins { extra.clone() } else { Vec::new() };
        let fetching = fetches.then(|| Fetching::new(parts.clone(), extra, clock));
        let exec = multi.exec.clone();
        let fresh = Block::new(conn.token, hole, multi, (db, protocol), fetching);
        let alone = alone.is_some();
        let block = Block { alone, watched, elsewhere, answers, selected, runs, exec, joins, known, ..fresh };
        let txn = self.txn();
        if joins && txn.must_queue(&block, follows) {
            txn.queue_up(block, now);
            return Begun::Waits;
        }
        if let Some(coordinator) = txn.coordinator.as_mut() {
            let begin = match fetches {
                true => Coordinator::begin_fetching,
                false => Coordinator::begin,
            };
            let sequence = begin(coordinator, now, time, parts, &mut events);
            txn.blocks.insert(sequence, block);
        }
        self.carry_out(events);
        Begun::Waits
    }

    /// The client of a connection has gone: its block is not tried again.
    pub(crate) fn abandon(&mut self, conn: &mut Conn) {
        let (now, token) = (self.now(), conn.token);
        if self.abandon_wait(token) {
            return;
        }
        let Some(sequence) = self.leave_others(token) else { return };
        let of_several = self.txn().clients_of(sequence).len() > 1;
        if of_several && !self.leave_together(sequence) {
            return;
        }
        let Some(mut block) = self.txn().blocks.remove(&sequence) else { return };
        self.txn().look_at_queue();
        self.forget_deadline(&block);
        self.stop_workspace(conn, &mut block);
        let mut events = Vec::new();
        let Desk { txn, engine, .. } = self.desk();
        if let Some(coordinator) = &mut txn.coordinator
            && coordinator.abandon(now, sequence, &mut events)
        {
            // The block may still be committed, and then publishes its messages.
            txn.blocks.insert(sequence, block);
        } else {
            engine.unwatch_later(block.watched);
        }
        self.carry_out(events);
    }

    /// Does what the coordinator asks for.
    pub(super) fn carry_out(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Send { to, message } => self.send(txn::Recipient::Participant(to), message),
                Event::Reply { sequence, replies } => {
                    let Some(mut block) = self.take_block(sequence) else { continue };
                    self.answer_others(&mut block);
                    if block.fetching.is_some() || block.commit.is_some() {
                        match self.tell_block(&mut block) {
                            Some(reply) => self.answer_counted(&block, &reply),
                            None => self.port.cut(block.token),
                        }
                        continue;
                    }
                    match block.reply(&replies) {
                        Some(reply) => self.answer_block(&block, &reply, Some(block.selected)),
                        // A node has sent no valid reply. The block is committed, so the client must not hear that it
                        // failed.
                        None => self.port.cut(block.token),
                    }
                }
                Event::Close { sequence } => {
                    if let Some(block) = self.take_block(sequence) {
                        block.tokens().for_each(|token| self.port.cut(token));
                    }
                }
                Event::Failed { sequence, why } => {
                    let Some(block) = self.take_block(sequence) else { continue };
                    let Some(mut block) = self.try_apart(block) else { continue };
                    self.put_session_back(&mut block);
                    let mut bytes = Vec::new();
                    let mut reply = Reply::new(&mut bytes, block.protocol);
                    match why {
                        why if block.commit.is_some() => reply.error(&*super::interactive::refused(&why)),
                        Refusal::Failed(text) => reply.error(&*text),
                        _ => reply.null_array(),
                    }
                    self.answer_block(&block, &bytes, None);
                }
                Event::Fetched { sequence, attempt, round: 0, found } => self.run_fetched((sequence, attempt), &found),
                Event::Fetched { sequence, attempt, found, .. } => self.go_on_fetched((sequence, attempt), &found),
                Event::Reroute { sequence } => self.route_again(sequence),
            }
        }
    }

    fn take_block(&mut self, sequence: u64) -> Option<Block> {
        let Desk { txn, engine, .. } = self.desk();
        let mut block = txn.blocks.remove(&sequence)?;
        txn.look_at_queue();
        let last = txn.coordinator.as_ref().and_then(|coordinator| coordinator.current(sequence));
        engine.unwatch_later(std::mem::take(&mut block.watched));
        add(&self.stats().transactions, 1);
        add(&self.stats().transaction_retries, last.map_or(0, |tx| u64::from(tx.attempt.saturating_sub(1))));
        Some(block)
    }

    /// A block has not happened: its changes to the session are undone.
    pub(super) fn put_session_back(&mut self, block: &mut Block) {
        if block.fetching.is_none() {
            return;
        }
        let Some(mut conn) = self.port.take_conn(block.token) else { return };
        self.stop_workspace(&mut conn, block);
        conn.session.set_db(block.db);
        conn.session.set_protocol(block.protocol);
        conn.session.leave_block();
        self.port.put_conn(conn);
    }

    /// Answers the client of a block, and counts an error.
    pub(super) fn answer_block(&mut self, block: &Block, reply: &[u8], selected: Option<u16>) {
        if self.port.conn(block.token).is_some()
            && let Some(error) = reply.strip_prefix(b"-")
        {
            self.stats().count_error(error);
        }
        self.fill_hole(block, reply, selected);
    }

    /// Answers the client of a block that ran here, and so has counted its errors.
    pub(super) fn answer_counted(&mut self, block: &Block, reply: &[u8]) {
        self.fill_hole(block, reply, None);
    }

    fn fill_hole(&mut self, block: &Block, reply: &[u8], selected: Option<u16>) {
        let Some(mut conn) = self.port.take_conn(block.token) else { return };
        if block.waiting.is_some() {
            self.forget_deadline(block);
            self.port.count_unblocked(&conn);
        }
        if let Some(db) = selected {
            conn.session.set_db(db);
        }
        let (hole, wanted) = block.hole;
        if !block.alone {
            self.port.forget_watched_elsewhere(&mut conn);
        }
        self.port.ensure_out(&mut conn);
        let shown = block.fetching.as_deref().filter(|fetching| fetching.is_interactive());
        let shown = shown.into_iter().flat_map(|shown| shown.locks()).map(|lock| &*lock.key);
        if !self.port.answer_behind_news(&mut conn, (&block.runs, shown), block.hole, reply) {
            conn.out.fill(hole, if wanted { reply } else { &[] }, true);
            self.port.tell_held_news(&mut conn);
        }
        self.port.look_at_answers(&mut conn);
        self.port.put_conn(conn);
        self.port.mark_dirty(block.token);
    }

    /// A node no longer owns the keys, or does not serve them: the block goes to their present owners.
    fn route_again(&mut self, sequence: u64) {
        if let Some((mut block, mut conn)) = self.take_running(sequence) {
            self.stop_workspace(&mut conn, &mut block);
            self.port.put_conn(conn);
            self.put_running(sequence, block);
        }
        let now = self.now();
        let (node, databases) = (self.node().clone(), self.settings().databases);
        let wait_ms = self.settings().cluster_takeover_wait.max(MAP_MS);
        let token = self.txn().blocks.get(&sequence).map(|block| block.token);
        let transaction =
            token.and_then(|token| self.port.conn(token)).and_then(|conn| conn.session.transaction.take());
        let Desk { txn, peers, .. } = self.desk();
        let failed = |text: &[u8]| Refusal::Failed(text.into());
        let mut planned = match txn.blocks.get(&sequence) {
            None => Err(failed(NOT_SERVED)),
            Some(Block { commit: Some(transaction), selected, .. }) => {
                let plan = |parts| (Plan { parts, answers: Vec::new(), selected: *selected, fetches: false }, false);
                peers.plan_commit(transaction).map(plan).map_err(|text| failed(&text))
            }
            Some(block) => {
                let session = (block.db, block.protocol);
                let extra = block.fetching.as_deref().map_or(&[][..], Fetching::extra);
                let plan = match block.fetching {
                    None => peers.plan((&node, databases), &block.multi, block.watches(), session, extra),
                    Some(_) => peers
                        .plan_fetching((&node, databases), &block.multi, block.watches(), session, extra)
                        .map(|parts| Plan { parts, answers: Vec::new(), selected: block.selected, fetches: true }),
                };
                let moved = |plan: &Plan| match &block.fetching {
                    Some(fetching) => fetching.is_elsewhere(&plan.parts),
                    None => block.is_elsewhere(&plan.answers),
                };
                plan.map_err(|text| failed(&text)).map(|plan| {
                    let moved = moved(&plan);
                    (plan, moved)
                })
            }
        };
        if let (Ok((_, moved)), Some(block)) = (&planned, txn.blocks.get_mut(&sequence)) {
            // A map that names the owner comes soon. The keys are moving to this node, or away from the one that
            // refused.
            let since = *block.moved_since.get_or_insert(now);
            if *moved {
                block.moved_since = None;
            } else if now.since(since) > wait_ms {
                planned = Err(failed(NOT_SERVED));
            }
        }
        let Some(coordinator) = txn.coordinator.as_mut() else { return };
        let mut events = Vec::new();
        match planned {
            Ok((mut plan, _)) => {
                if let Some(block) = txn.blocks.get_mut(&sequence) {
                    block.answers = plan.answers;
                    if let Some(fetching) = block.fetching.as_deref_mut() {
                        fetching.parts.clone_from(&plan.parts);
                        if let Some(transaction) = transaction.as_deref().filter(|_| fetching.is_interactive()) {
                            plan.parts = fetching.ask_for_lacking(transaction);
                        }
                    }
                }
                coordinator.routed(now, sequence, plan.parts);
            }
            Err(why) => coordinator.fail(now, sequence, why, &mut events),
        }
        if let Some(conn) = token.and_then(|token| self.port.conn(token)).filter(|_| transaction.is_some()) {
            conn.session.transaction = transaction;
        }
        self.carry_out(events);
    }
}
