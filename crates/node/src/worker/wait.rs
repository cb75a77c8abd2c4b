//! Connections that wait: for a latch, for keys, for a walk to end.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use command::Event;
use engine::{Blocked, Ending, Step};
use keyspace::Horizon;
use resp::{Args, OwnedArgs, Reply};

use crate::cluster::Verdict;
use crate::durability::checkpoints::{Checkpoints, Ticket};
use crate::figures::stats::{add, sub};
use crate::push::notifications::each_message;
use crate::push::pubsub::Kind;
use crate::session::Replies;
use crate::worker::conn::{Conn, Wait};
use crate::worker::execute::Next;
use crate::worker::jobs::{Done, Job, Outcome};
use crate::worker::message::Message;
use crate::worker::pause::Pause;
use crate::worker::{Token, Worker, write_error};

/// Milliseconds between two looks at whether a checkpoint or a job has ended that a client waits for.
const SAVE_LOOK_MS: u64 = 2;
/// Time for walks in a turn, in nanoseconds.
const WALKS_NS: u64 = 1_000_000;
/// Unread bytes of a client, above which its walk waits: so a long reply is not in memory as a whole.
const WALK_AHEAD: usize = 1 << 20;

impl Worker {
    /// Makes the connection wait for keys.
    pub(crate) fn wait_for_keys(&mut self, conn: &mut Conn, blocked: Arc<Blocked>) {
        add(&self.stats.blocked, 1);
        conn.session.client.blocked.store(true, Relaxed);
        conn.session.client.count_besides(-1);
        if let Some(at) = blocked.deadline {
            self.deadlines.insert((at, conn.token));
            add(&self.stats.waiting_with_deadline, 1);
        }
        self.deadlines.extend(blocked.again().map(|at| (at, conn.token)));
        conn.wait = Wait::Keys(blocked);
    }

    /// Sends the engine's messages for connections: wake-ups and served replies.
    pub(crate) fn send_on(&mut self) {
        self.engine.give_way();
        for waiter in std::mem::take(&mut self.engine.wakes) {
            self.tell(waiter.worker, Message::Unpark(waiter.token));
        }
        let all_served = std::mem::take(&mut self.engine.served);
        if !all_served.is_empty() {
            let seen = self.engine.everything_seen();
            for served in all_served {
                let (worker, token) = (served.waiter.worker, served.waiter.token);
                self.tell(worker, Message::Served { token, reply: served.reply, seen: seen.clone() });
            }
        }
        let events = self.engine.take_published();
        if !events.is_empty() {
            self.notify(events);
        }
        if self.engine.has_invalidated() {
            self.tell_trackers(None);
        }
        if !self.news.changed_keys.is_empty() {
            self.broadcast_changes();
        }
        for token in std::mem::take(&mut self.again) {
            self.resume(token);
        }
    }

    /// Publishes events of keys.
    fn notify(&mut self, events: Vec<Event>) {
        let classes = self.follower.settings().notify_keyspace_events;
        let seen = self.engine.everything_seen();
        let alone = self.peers.as_ref().is_none_or(|peers| peers.is_alone());
        for event in events {
            if !self.node.pubsub.any() && alone {
                continue;
            }
            each_message(&event, classes, |channel, message| {
                self.node.publish(self.index, Kind::Channel, channel, message, &seen);
                self.spread(Kind::Channel, channel, message, &seen);
            });
        }
    }

    /// Wakes connections of other workers at once: the rest of this turn may take long.
    pub(crate) fn wake_others(&mut self) {
        let (node, me) = (&self.node, self.index);
        self.engine.wakes.retain(|waiter| {
            let worker = usize::from(waiter.worker);
            if worker != me {
                node.send(worker, Message::Unpark(waiter.token));
            }
            worker == me
        });
    }

    fn tell(&mut self, worker: u16, message: Message) {
        if usize::from(worker) == self.index {
            self.deliver(message);
        } else {
            self.node.send(usize::from(worker), message);
        }
    }

    pub(crate) fn unpark(&mut self, token: Token) {
        if self.unpark_task(token) {
            return;
        }
        let Some(conn) = self.conn(token) else { return };
        match conn.wait {
            Wait::Latch => {
                conn.wait = Wait::No;
                self.resume(token);
            }
            // The store's answer to the walk has come.
            Wait::Walk(_) if !conn.stalled => self.walks.push_back(token),
            _ => {}
        }
    }

    /// Commands that wait for latches or locks try again, whether or not they can go on.
    pub(crate) fn resume_from_latches(&mut self) {
        let waits = |conn: &&Conn| matches!(conn.wait, Wait::Latch);
        let tokens: Vec<Token> =
            self.conns.iter().flatten().map(|conn| &**conn).filter(waits).map(|conn| conn.token).collect();
        tokens.into_iter().for_each(|token| self.unpark(token));
    }

    /// Takes the outcome of a blocked command: a worker that changed its key has served it, or its time was up.
    pub(crate) fn served(&mut self, token: Token, reply: Option<&[u8]>, seen: &Horizon) {
        let Some(mut conn) = self.take_conn(token) else { return };
        let before = conn.out.bytes.len();
        self.gate(&mut conn, before, seen);
        if let Wait::Keys(blocked) = std::mem::replace(&mut conn.wait, Wait::No) {
            self.count_out(&conn, &blocked);
            match reply {
                Some(reply) => self.answer_wait(&mut conn, &blocked, |out| out.extend_from_slice(reply)),
                None if conn.closing => {}
                None => self.answer_wait(&mut conn, &blocked, |out| Reply::new(out, blocked.protocol).null_array()),
            }
        }
        self.put_conn(conn);
        self.mark_dirty(token);
        self.resume(token);
    }

    /// Writes the reply of a command that had to wait, if the client wants replies.
    fn answer_wait(&mut self, conn: &mut Conn, blocked: &Blocked, write: impl FnOnce(&mut Vec<u8>)) {
        self.ensure_out(conn);
        let before = conn.out.bytes.len();
        write(&mut conn.out.bytes);
        self.count_ended(conn, blocked.args.args(), &conn.out.bytes[before..]);
        self.apply_reply_mode(conn, before);
    }

    /// One connection less waits for keys.
    pub(crate) fn count_out(&mut self, conn: &Conn, blocked: &Blocked) {
        sub(&self.stats.blocked, 1);
        conn.session.client.blocked.store(false, Relaxed);
        conn.session.client.count_besides(1);
        conn.session.client.seat.rise();
        if let Some(at) = blocked.deadline {
            self.deadlines.remove(&(at, conn.token));
            sub(&self.stats.waiting_with_deadline, 1);
        }
    }

    /// Counts a command that had to wait, now that it has this reply.
    fn count_ended(&mut self, conn: &Conn, args: Args<'_>, reply: &[u8]) {
        let client = &conn.session.client;
        let Some(id) = (client.last_command.load(Relaxed) as usize).checked_sub(1) else { return };
        let node = self.node.clone();
        if let Some((b'-', text)) = reply.split_first() {
            add(&self.stats.commands[node.table.get(id).counted_as].failed, 1);
            self.stats.count_error(text);
        }
        if conn.is_virtual() && !self.counts_here(conn, node.table.get(id)) {
            return;
        }
        self.meter.exact(node.table.get(id), args, client, self.engine.now(), conn.spent);
    }

    /// Answers a wait that CLIENT UNBLOCK has cancelled.
    pub(crate) fn unblock(&mut self, token: Token, wait: &Arc<Blocked>, with_error: bool) {
        let Some(conn) = self.conn(token) else { return };
        if matches!(&conn.wait, Wait::Keys(blocked) if Arc::ptr_eq(blocked, wait)) {
            self.give_up(token, wait, with_error);
        }
    }

    /// Answers a cancelled wait.
    fn give_up(&mut self, token: Token, blocked: &Arc<Blocked>, with_error: bool) {
        let Some(mut conn) = self.take_conn(token) else { return };
        self.end_wait(&mut conn);
        // That the keys are empty may follow from uncommitted changes.
        self.engine.note_everything();
        let before = conn.out.bytes.len();
        self.gate_seen(&mut conn, before);
        self.answer_wait(&mut conn, blocked, |out| {
            if with_error {
                let text = b"UNBLOCKED client unblocked via CLIENT UNBLOCK";
                write_error(out, blocked.protocol, text);
            } else {
                // Redis answers this whatever the command would have answered inside MULTI.
                Reply::new(out, blocked.protocol).null_array();
            }
        });
        self.put_conn(conn);
        self.mark_dirty(token);
        self.resume(token);
    }

    /// The connection waits for the end of CLIENT PAUSE with its command unread.
    pub(crate) fn wait_for_pause(&mut self, conn: &mut Conn) -> Next {
        add(&self.stats.blocked, 1);
        conn.session.client.blocked.store(true, Relaxed);
        conn.wait = Wait::Pause;
        self.held_back.push(conn.token);
        self.held_by = self.paused.map(|(kind, _)| kind).or(self.held_by);
        Next::Retry
    }

    /// Makes a task wait for the end of CLIENT PAUSE, as connections do. False: it need not.
    pub(crate) fn task_waits_for_pause(&mut self, token: Token, writes: bool) -> bool {
        let Some((kind, _)) = self.paused.filter(|(kind, _)| writes || *kind == Pause::All) else { return false };
        self.held_back.push(token);
        self.held_by = Some(kind);
        true
    }

    /// Checks whether a pause is on, and resumes commands that waited for the end of one.
    pub(crate) fn look_at_pause(&mut self, now: u64) {
        self.paused = self.node.pauses.current(now);
        self.engine.keep_expired(self.paused.is_some());
        let kind = self.paused.map(|(kind, _)| kind);
        if kind.is_some_and(|kind| kind == Pause::All || self.held_by == Some(kind)) {
            return;
        }
        self.held_by = None;
        // A weaker pause may hold some of them back again.
        for token in std::mem::take(&mut self.held_back) {
            if self.unpark_task(token) {
                continue;
            }
            let Some(conn) = self.conn(token) else { continue };
            if let Wait::Pause = conn.wait {
                conn.wait = Wait::No;
                conn.session.client.blocked.store(false, Relaxed);
                sub(&self.stats.blocked, 1);
                self.resume(token);
            }
        }
    }

    /// DEBUG SLEEP: no worker executes anything for a while.
    pub(crate) fn sleep(&mut self, conn: &mut Conn, args: Args<'_>, ms: u64) {
        // From the clock, not from the turn's time, so that it is not too short.
        let until = self.node.clock.unix_us().div_ceil(1000) + ms;
        self.node.pauses.freeze(until);
        conn.wait = Wait::Sleep(OwnedArgs::new(args));
        self.slept_from = self.node.clock.monotonic_ns();
        self.deadlines.insert((until, conn.token));
    }

    /// SAVE: only this connection waits.
    pub(crate) fn await_save(
        &mut self,
        conn: &mut Conn,
        args: Args<'_>,
        checkpoints: Arc<Checkpoints>,
        ticket: Ticket,
    ) {
        conn.wait = Wait::Save(OwnedArgs::new(args), checkpoints, ticket);
        self.deadlines.insert((self.engine.now() + SAVE_LOOK_MS, conn.token));
    }

    /// A job: only this connection waits.
    pub(crate) fn await_job(&mut self, conn: &mut Conn, args: Args<'_>, job: Arc<Job>) {
        conn.wait = Wait::Job(OwnedArgs::new(args), job);
        self.deadlines.insert((self.engine.now() + SAVE_LOOK_MS, conn.token));
    }

    /// CLIENT UNBLOCK of a client that waits for another node.
    pub(crate) fn await_verdict(&mut self, conn: &mut Conn, verdict: Arc<Verdict>) {
        conn.wait = Wait::Verdict(verdict);
        self.deadlines.insert((self.engine.now() + SAVE_LOOK_MS, conn.token));
    }

    fn answer_verdict(&mut self, token: Token, yes: bool) {
        let Some(mut conn) = self.take_conn(token) else { return };
        conn.wait = Wait::No;
        self.ensure_out(&mut conn);
        let before = conn.out.bytes.len();
        Reply::new(&mut conn.out.bytes, conn.session.protocol).integer(yes.into());
        self.apply_reply_mode(&mut conn, before);
        self.put_conn(conn);
        self.mark_dirty(token);
        self.resume(token);
    }

    fn wake_up(&mut self, token: Token, outcome: &Outcome) {
        let Some(mut conn) = self.take_conn(token) else { return };
        self.ensure_out(&mut conn);
        let before = conn.out.bytes.len();
        let mut reply = Reply::new(&mut conn.out.bytes, conn.session.protocol);
        match outcome {
            Ok(done) => done.write(&mut reply),
            Err(text) => reply.error(text),
        }
        match std::mem::replace(&mut conn.wait, Wait::No) {
            Wait::Sleep(args) => {
                conn.spent += self.node.clock.monotonic_ns().saturating_sub(self.slept_from);
                self.count_ended(&conn, args.args(), b"");
            }
            Wait::Save(args, ..) | Wait::Job(args, _) => {
                self.count_ended(&conn, args.args(), &conn.out.bytes[before..])
            }
            _ => {}
        }
        self.apply_reply_mode(&mut conn, before);
        self.put_conn(conn);
        self.mark_dirty(token);
        self.resume(token);
    }

    /// Answers if there is an outcome, or looks again soon.
    fn wake_up_if(&mut self, token: Token, outcome: Option<&Outcome>, now: u64) {
        match outcome {
            Some(outcome) => self.wake_up(token, outcome),
            None => drop(self.deadlines.insert((now + SAVE_LOOK_MS, token))),
        }
    }

    /// Ends the waits whose time is over.
    pub(crate) fn end_waits(&mut self, now: u64) {
        while let Some(&(at, token)) = self.deadlines.first() {
            if at > now {
                break;
            }
            self.deadlines.pop_first();
            let Some(conn) = self.conn(token) else { continue };
            let blocked = match &conn.wait {
                Wait::Keys(blocked) => blocked.clone(),
                Wait::Sleep(_) => {
                    self.wake_up(token, &Ok(Done::Ok));
                    continue;
                }
                Wait::Save(_, checkpoints, ticket) => {
                    // As Redis answers, which gives the reason in its log.
                    let outcome =
                        checkpoints.outcome(*ticket).map(|good| if good { Ok(Done::Ok) } else { Err(b"ERR".into()) });
                    self.wake_up_if(token, outcome.as_ref(), now);
                    continue;
                }
                Wait::Verdict(verdict) => {
                    match verdict.get() {
                        Some(yes) => self.answer_verdict(token, yes),
                        None => drop(self.deadlines.insert((now + SAVE_LOOK_MS, token))),
                    }
                    continue;
                }
                Wait::Job(_, job) => {
                    let job = job.clone();
                    self.wake_up_if(token, job.outcome(), now);
                    continue;
                }
                Wait::Map => {
                    self.resume_from_map(token);
                    continue;
                }
                Wait::Replies(_) => {
                    self.transactions().look_at_wait(token, now);
                    continue;
                }
                _ => continue,
            };
            if blocked.deadline.is_none_or(|at| at > now) {
                self.run_wait_again(token, &blocked, now);
                continue;
            }
            // A worker that serves it at this moment, or has cancelled it, tells how it ended.
            if blocked.leave() == Ending::Ended {
                self.give_up(token, &blocked, false);
            }
        }
    }

    /// Runs a command that waits for keys once more if that is due, and notes when to look at it next.
    fn run_wait_again(&mut self, token: Token, blocked: &Blocked, now: u64) {
        let Some(at) = blocked.again() else { return };
        // A worker that changed one of its keys may have run it meanwhile.
        if at <= now && self.paused.is_none() {
            self.engine.run_again(blocked);
        }
        let next = blocked.again().map(|at| at.max(now + SAVE_LOOK_MS));
        self.deadlines.extend(next.map(|at| (at, token)));
    }

    /// Takes ended waits and watches out of the keyspace where that was not possible at once.
    pub(crate) fn clean_up(&mut self) {
        let leftovers = std::mem::take(&mut self.leftovers);
        for blocked in leftovers {
            if !self.engine.forget(&blocked) {
                self.leftovers.push(blocked);
            }
        }
        self.engine.unwatch_leftovers();
    }

    /// Notes that a client has read something: its walk may have waited for that.
    #[inline]
    pub(crate) fn look_at_stall(&mut self, token: Token) {
        if let Some(conn) = self.conn(token)
            && conn.stalled
            && conn.owed() <= WALK_AHEAD
        {
            conn.stalled = false;
            self.walks.push_back(token);
        }
        if self.peers.is_some() {
            self.look_at_debts(token);
        }
    }

    /// Lets walks over the keyspace, and long replies, go on by a step each, as many as there is time for. The others
    /// are first next time.
    pub(crate) fn step_walks(&mut self) {
        if self.walks.is_empty() {
            return;
        }
        let until = self.node.clock.monotonic_ns() + WALKS_NS;
        let (limit, now) = (self.follower.settings().output_limit_normal, self.engine.now());
        for _ in 0..self.walks.len() {
            let Some(token) = self.walks.pop_front() else { break };
            let Some(mut conn) = self.take_conn(token) else { continue };
            if let Wait::Walk(mut walking) = std::mem::replace(&mut conn.wait, Wait::No) {
                self.ensure_out(&mut conn);
                let before = conn.out.bytes.len();
                let step = self.engine.step_walk(&mut walking, token, &mut conn.out.bytes);
                self.gate_seen(&mut conn, before);
                if !matches!(step, Step::Awaited) {
                    self.long_waits.end(token);
                }
                match step {
                    Step::Done => {
                        self.apply_reply_mode(&mut conn, before);
                        self.again.push(token);
                    }
                    // The walk comes back when it is woken.
                    Step::Awaited => {
                        self.notes_wait(token);
                        conn.wait = Wait::Walk(walking);
                    }
                    // A busy latch is tried again next turn: walks are patient.
                    Step::More | Step::Busy(_) => {
                        conn.wait = Wait::Walk(walking);
                        // The client does not want the earlier parts either.
                        if matches!(conn.session.replies, Replies::Off | Replies::Skip) {
                            conn.out.truncate(before);
                        }
                        conn.stalled = conn.owed() > WALK_AHEAD;
                        if !conn.stalled {
                            self.walks.push_back(token);
                        }
                    }
                }
                self.check_output_limit(&mut conn, limit, now);
            }
            let has_output = conn.unsent() > 0 || conn.closing;
            self.put_conn(conn);
            if has_output {
                self.mark_dirty(token);
            }
            if self.node.clock.monotonic_ns() >= until {
                break;
            }
        }
    }
}
