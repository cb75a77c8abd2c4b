//! A worker as transactions over nodes know it: the one place where they and the worker meet.

use std::borrow::Cow;
use std::sync::Arc;

use clocks::UnixMs;
use engine::{Caller, Room};
use resp::Args;
use txn::Part;

use crate::admission::Admitted;
use crate::clock::MonoNs;
use crate::config::Settings;
use crate::figures::cost::{Cost, request_bytes};
use crate::figures::stats::WorkerStats;
use crate::node::Node;
use crate::session::{Multi, SessionCtx};
use crate::table::Command;
use crate::transactions::client::For;
use crate::transactions::port::{Desk, Port, Transacting};
use crate::worker::Worker;
use crate::worker::conn::Conn;
use crate::worker::next::Next;
use crate::worker::token::Token;

impl Worker {
    /// The transactions over nodes of this worker, through the port.
    #[inline]
    pub(crate) fn transactions(&mut self) -> Transacting<'_, Self> {
        Transacting::new(self)
    }

    /// Connections whose transactions between BEGIN and COMMIT are watched over. Transactions that ended up to a second
    /// ago may be among them.
    pub fn open_transactions(&self) -> usize {
        self.txn.interactive()
    }

    /// When transactions over nodes have something to do next.
    pub(crate) fn transactions_deadline(&self) -> Option<UnixMs> {
        if !self.peers.is_cluster() {
            return None;
        }
        let parts = &self.peers.shared.parts;
        let doubts = self.node.engine.transactions.any().then(|| self.node.doubts.due());
        let due = self.txn.deadline(parts, doubts)?;
        Some(self.engine.now() + due.since(self.node.clock.boot_ns().ms()))
    }

    /// Settles what it can of transactions of another node's life.
    pub(crate) fn settle_inherited(&mut self, now: UnixMs) {
        let Some(mut inherited) = self.inherited.take_if(|inherited| inherited.deadline() <= now) else { return };
        if inherited.settle(&mut self.engine, &self.node, self.promises.durable.as_deref(), now) {
            self.inherited = Some(inherited);
        }
    }

    /// Resumes a task that has waited. False: the token is no task's.
    #[inline]
    pub(crate) fn unpark_task(&mut self, token: Token) -> bool {
        self.txn.unpark(token)
    }
}

impl Port for Worker {
    #[inline]
    fn desk(&mut self) -> Desk<'_> {
        Desk {
            txn: &mut self.txn,
            peers: &mut self.peers,
            engine: &mut self.engine,
            node: &self.node,
            log: self.promises.log(),
        }
    }

    #[inline]
    fn node(&self) -> &Arc<Node> {
        &self.node
    }

    #[inline]
    fn settings(&self) -> &Arc<Settings> {
        self.follower.settings()
    }

    #[inline]
    fn stats(&self) -> &WorkerStats {
        &self.stats
    }

    #[inline]
    fn index(&self) -> usize {
        self.index
    }

    fn conn(&mut self, token: Token) -> Option<&mut Conn> {
        Worker::conn(self, token)
    }

    fn take_conn(&mut self, token: Token) -> Option<Box<Conn>> {
        Worker::take_conn(self, token)
    }

    fn put_conn(&mut self, conn: Box<Conn>) {
        Worker::put_conn(self, conn);
    }

    fn mark_dirty(&mut self, token: Token) {
        Worker::mark_dirty(self, token);
    }

    fn cut(&mut self, token: Token) {
        Worker::cut(self, token);
    }

    fn end_session(&mut self, conn: &mut Conn) {
        Worker::end_session(self, conn);
    }

    fn in_turn(&mut self, conn: &mut Conn) -> Option<Next> {
        self.forwarding().in_turn(conn, false)
    }

    fn decline(&mut self, conn: &mut Conn, command: &Command, text: &[u8]) -> Next {
        self.forwarding().decline(conn, command, text)
    }

    fn place_of_reply(&mut self, conn: &mut Conn) -> (u64, bool) {
        let owed = self.forwarding().place_of_reply(conn);
        (owed.hole, owed.wanted)
    }

    fn ensure_out(&mut self, conn: &mut Conn) {
        Worker::ensure_out(self, conn);
    }

    fn look_at_answers(&mut self, conn: &mut Conn) {
        self.forwarding().look_at_answers(conn, usize::MAX);
    }

    fn count_forwarded(&mut self, conn: &mut Conn, command: &Command, args: Option<Args<'_>>) {
        self.forwarding().count_forwarded(conn, command, args);
    }

    fn count_block(&mut self, conn: &mut Conn, multi: &Multi, exec: &Command) {
        self.forwarding().count_block(conn, multi, exec);
    }

    fn count_unblocked(&mut self, conn: &Conn) {
        self.forwarding().count_unblocked(conn);
    }

    fn wake_at(&mut self, at: UnixMs, token: Token) {
        self.deadlines.insert((at, token));
    }

    fn wake_no_more_at(&mut self, at: UnixMs, token: Token) {
        self.deadlines.remove(&(at, token));
    }

    fn look_again(&mut self, token: Token) {
        self.again.push(token);
    }

    fn notes_wait(&mut self, token: Token) {
        Worker::notes_wait(self, token);
    }

    fn waits_no_more(&mut self, token: Token) {
        self.long_waits.end(token);
    }

    fn resume_from_latches(&mut self) {
        Worker::resume_from_latches(self);
    }

    fn wake_others(&mut self) {
        Worker::wake_others(self);
    }

    fn task_waits_for_log(&mut self, token: Token) -> bool {
        Worker::task_waits_for_log(self, token)
    }

    fn task_waits_for_room(&mut self, token: Token) -> bool {
        Worker::task_waits_for_room(self, token)
    }

    fn task_waits_for_pause(&mut self, token: Token, writes: bool) -> bool {
        Worker::task_waits_for_pause(self, token, writes)
    }

    fn want_link(&mut self, link: usize) {
        self.forwarding().want_link(link);
    }

    fn forget_watched_elsewhere(&mut self, conn: &mut Conn) {
        self.forwarding().forget_watched_elsewhere(conn, None);
    }

    fn ask_for_workspace(&mut self, conn: &mut Conn, which: (u64, u32)) -> bool {
        self.forwarding().ask_for_workspace(conn, which)
    }

    fn caller_of(&mut self, token: Option<Token>, client: u64, caches: bool) -> Caller {
        self.forwarding().caller_of(token, client, caches)
    }

    fn runs_for(&mut self, conn: &mut Conn, multi: &Multi, parts: &[Part]) -> For {
        self.forwarding().runs_for(conn, multi, parts)
    }

    fn tell_parts(&mut self, conn: &mut Conn, parts: &[Part], runs: &mut For) {
        self.forwarding().tell_parts(conn, parts, runs);
    }

    fn say_for_whom(&mut self, sequence: u64, link: usize) {
        self.forwarding().say_for_whom(sequence, link);
    }

    fn answer_behind_news<'k>(
        &mut self,
        conn: &mut Conn,
        runs: (&For, impl Iterator<Item = &'k [u8]>),
        hole: (u64, bool),
        reply: &[u8],
    ) -> bool {
        self.forwarding().answer_behind_news(conn, runs, hole, reply)
    }

    fn tell_held_news(&mut self, conn: &mut Conn) {
        self.forwarding().tell_held_news(conn);
    }

    fn tell_changes(&mut self) {
        self.tell_trackers(None);
        self.broadcast_changes();
    }

    fn make_room(&mut self, settings: &Settings) -> Room {
        Worker::make_room(self, settings, 0)
    }

    fn out_of_memory(&mut self, settings: &Settings) -> Cow<'static, str> {
        Worker::out_of_memory(self, settings, 0, true)
    }

    #[inline]
    fn begin_part(&self) -> Option<MonoNs> {
        self.meter.heat.is_on().then(|| self.node.clock.monotonic_ns())
    }

    fn tell_part(&mut self, command: &Command, args: Args<'_>, began: MonoNs, reply: usize) {
        let nanos = self.node.clock.monotonic_ns().since(began);
        let cost = Cost { nanos, bytes_in: request_bytes(args), bytes_out: reply as u64 };
        let (peers, now) = (&self.peers, self.engine.now());
        self.meter.heat.ran((command, args), |slot| peers.is_here(slot), false, cost, now);
    }

    fn settle_meter(&mut self) {
        self.meter.settle();
    }

    fn session_ctx<'a>(
        &'a mut self,
        conn: &'a mut Conn,
        node: &'a Arc<Node>,
        settings: &'a Arc<Settings>,
        command: Admitted<'a>,
        args: Args<'a>,
    ) -> SessionCtx<'a> {
        Worker::session_ctx(self, conn, node, settings, command, args)
    }

    fn look_at_pauses(&mut self) {
        self.paused = self.node.pauses.current(self.engine.now());
        self.engine.keep_expired(self.paused.is_some());
    }

    fn show_exec(&mut self, token: Token, db: u16, word: &[u8]) {
        if self.monitored
            && let Some(client) = Worker::conn(self, token).map(|conn| conn.session.client.clone())
        {
            self.forwarding().show_exec(&client, db, word);
        }
    }
}
