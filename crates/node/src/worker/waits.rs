//! How waits begin and end: those for keys, for jobs and for the operator, and what all waits have in common.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use command::Event;
use engine::{Blocked, Ending, Walking};
use keyspace::{Horizon, Need};
use resp::{Args, OwnedArgs, Reply};

use crate::admission::rights;
use crate::durability::checkpoints::{Checkpoints, Ticket};
use crate::figures::cost::{Cost, request_bytes};
use crate::figures::heat::OneSlot;
use crate::figures::stats::{add, sub};
use crate::push::delivery::Kind;
use crate::push::notifications::each_message;
use crate::session::{self, Undone};
use crate::table::Command;
use crate::users::Denial;
use crate::worker::conn::Conn;
use crate::worker::jobs::{Done, Job, Outcome};
use crate::worker::message::Message;
use crate::worker::next::Next;
use crate::worker::pause::Pause;
use crate::worker::wait::{JobWait, KeyWait, OperatorWait, Wait};
use crate::worker::{Token, Worker, write_error};

/// Failures in a row to get a latch, after which newcomers are kept out (rule K1).
const STARVING: u32 = 16;
/// Milliseconds between two looks at whether a checkpoint or a job has ended that a client waits for.
const SAVE_LOOK_MS: u64 = 2;

impl Worker {
    // ---- all waits

    /// Ends the wait of the connection, from the connection's side.
    pub(crate) fn end_wait(&mut self, conn: &mut Conn) {
        if conn.wait.is_in_script() {
            return;
        }
        match std::mem::take(&mut conn.wait) {
            Wait::No | Wait::Job(_) | Wait::Steps(_) => {}
            Wait::Key(wait) => self.leave_keys(conn, wait),
            Wait::Log(wait) => self.leave_log(conn, &wait),
            Wait::Room => self.leave_room(conn.token),
            Wait::Node(wait) => self.forwarding().leave_answers(conn, &wait),
            Wait::Operator(wait) => self.leave_pause(conn, &wait),
        }
    }

    /// Ends the waits whose time is over, and looks at those whose ends wake no worker.
    pub(crate) fn end_waits(&mut self, now: UnixMs) {
        while let Some(&(at, token)) = self.deadlines.first() {
            if at > now {
                break;
            }
            self.deadlines.pop_first();
            if self.conn(token).is_some_and(|conn| conn.has_returned()) {
                self.forwarding().look_at_returned(token);
            }
            let Some(conn) = self.conn(token) else { continue };
            match &conn.wait {
                Wait::Key(KeyWait::Change(blocked)) => {
                    let blocked = blocked.clone();
                    self.look_at_keys(token, &blocked, now);
                }
                Wait::Operator(OperatorWait::Sleep(_)) => self.wake_up(token, &Ok(Done::Ok)),
                Wait::Job(_) => self.look_at_job(token, now),
                Wait::Node(_) => self.forwarding().look_at_nodes(token, now),
                Wait::No | Wait::Key(_) | Wait::Log(_) | Wait::Room | Wait::Operator(_) | Wait::Steps(_) => {}
            }
        }
    }

    // ---- keys

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
        conn.wait = Wait::Key(KeyWait::Change(blocked));
    }

    /// Sends the engine's messages for connections: wake-ups and served replies.
    #[inline]
    pub(crate) fn send_on(&mut self) {
        self.engine.give_way();
        if self.engine.has_news() || !self.news.changed_keys.is_empty() || !self.again.is_empty() {
            self.send_news_on();
        }
    }

    #[inline(never)]
    fn send_news_on(&mut self) {
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
        let alone = self.peers.is_alone();
        for event in events {
            if !self.node.pubsub.any() && alone {
                continue;
            }
            each_message(&event, classes, |channel, message| {
                self.node.publish(self.index, Kind::Channel, channel, message, &seen);
                self.forwarding().spread(Kind::Channel, channel, message, &seen);
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

    /// Makes the connection wait for a latch, or for a key of the store. Then its command runs again.
    pub(crate) fn wait_for_latch(&mut self, conn: &mut Conn, command: &Command, busy: &engine::Busy) -> Next {
        if conn.session.answers.is_some()
            && let Some(next) = self.forwarding().ask_wanted(conn)
        {
            return next;
        }
        let undone = conn.session.undone.take();
        if let Some(Undone::Refused(text)) = undone {
            return self.refuse_undone(conn, command, &text);
        }
        if conn.session.goes_over.is_some() || undone.is_some() {
            conn.session.again = None;
            self.again.push(conn.token);
            return Next::Retry;
        }
        if busy.awaited
            && let Some(text) = self.transactions().refusal_of_wait(conn)
        {
            return self.refuse_undone(conn, command, &text);
        }
        if busy.awaited {
            add(&self.stats.parked, 1);
            conn.fetches += 1;
            self.notes_wait(conn.token);
            conn.wait = Wait::Key(KeyWait::Latch);
            return Next::Retry;
        }
        if self.node.scripts.any_slow()
            && let Some(job) = self.node.scripts.slow_holder(busy.slot)
        {
            conn.session.again = None;
            self.refuse(conn, Some(command), job.busy_error().as_bytes());
            return Next::Continue;
        }
        conn.busy += 1;
        // A command that needs every latch cannot hope for a moment in which all are free.
        if conn.busy >= STARVING || busy.need == Need::All {
            self.engine.reserve(&busy.need, conn.token);
        }
        add(&self.stats.parked, 1);
        self.engine.give_way();
        if self.engine.park(busy.slot, conn.token) {
            conn.wait = Wait::Key(KeyWait::Latch);
        } else {
            self.again.push(conn.token);
        }
        Next::Retry
    }

    /// A command of the connection has ended, in any way: it waits for no locks.
    pub(crate) fn waits_no_more(&mut self, conn: &mut Conn) {
        if std::mem::take(&mut conn.fetches) > 0 {
            self.forget_claims(conn.token);
        }
    }

    /// Refuses a command that has done nothing and waits.
    fn refuse_undone(&mut self, conn: &mut Conn, command: &Command, text: &[u8]) -> Next {
        conn.session.again = None;
        conn.fetches = 0;
        self.forget_claims(conn.token);
        if conn.busy > 0 {
            conn.busy = 0;
            self.engine.cancel_reservation(conn.token);
        }
        self.ensure_out(conn);
        self.refuse(conn, Some(command), text);
        Next::Continue
    }

    /// Lets a connection or a task try again: the latch or the key that it waits for may be there.
    pub(crate) fn unpark(&mut self, token: Token) {
        if self.unpark_task(token) {
            return;
        }
        let Some(conn) = self.conn(token) else { return };
        if conn.wait.is_for_latch() {
            conn.wait = Wait::No;
            self.resume(token);
        } else if conn.wait.is_in_walk() && !conn.stalled {
            // The store's answer to the walk has come.
            self.walks.push_back(token);
        }
    }

    /// Commands that wait for latches or locks try again, whether or not they can go on.
    pub(crate) fn resume_from_latches(&mut self) {
        let waits = |conn: &&Conn| conn.wait.is_for_latch();
        let tokens: Vec<Token> =
            self.conns.iter().flatten().map(|conn| &**conn).filter(waits).map(|conn| conn.token).collect();
        tokens.into_iter().for_each(|token| self.unpark(token));
    }

    /// Takes the outcome of a blocked command: a worker that changed its key has served it, or its time was up.
    pub(crate) fn served(&mut self, token: Token, reply: Option<&[u8]>, seen: &Horizon) {
        let Some(mut conn) = self.take_conn(token) else { return };
        let before = conn.out.bytes.len();
        self.gate(&mut conn, before, seen);
        if let Wait::Key(KeyWait::Change(blocked)) = std::mem::take(&mut conn.wait) {
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

    /// Ends the wait of a connection for keys.
    fn leave_keys(&mut self, conn: &Conn, wait: KeyWait) {
        let KeyWait::Change(blocked) = wait else { return };
        self.count_out(conn, &blocked);
        // If it is being served right now, the reply finds no connection, as if the client had left a moment later.
        // The serving worker takes the wait out of its queues.
        if blocked.leave() != Ending::Coming {
            self.leftovers.push(blocked);
        }
    }

    /// Looks at a wait for keys whose time is over, or whose command is to run once more.
    fn look_at_keys(&mut self, token: Token, blocked: &Arc<Blocked>, now: UnixMs) {
        if blocked.deadline.is_none_or(|at| at > now) {
            return self.run_wait_again(token, blocked, now);
        }
        // A worker that serves it at this moment, or has cancelled it, tells how it ended.
        if blocked.leave() == Ending::Ended {
            self.give_up(token, blocked, false);
        }
    }

    /// Runs a command that waits for keys once more if that is due, and notes when to look at it next.
    fn run_wait_again(&mut self, token: Token, blocked: &Blocked, now: UnixMs) {
        let Some(at) = blocked.again() else { return };
        // A worker that changed one of its keys may have run it meanwhile.
        if at <= now && self.paused.is_none() {
            self.engine.run_again(blocked);
        }
        let next = blocked.again().map(|at| at.max(now + SAVE_LOOK_MS));
        self.deadlines.extend(next.map(|at| (at, token)));
    }

    /// Takes ended waits and watches out of the keyspace where that was not possible at once.
    #[inline]
    pub(crate) fn clean_up(&mut self) {
        if !self.leftovers.is_empty() || self.engine.has_leftovers() {
            self.take_leftovers_out();
        }
    }

    #[inline(never)]
    fn take_leftovers_out(&mut self) {
        let leftovers = std::mem::take(&mut self.leftovers);
        for blocked in leftovers {
            if !self.engine.forget(&blocked) {
                self.leftovers.push(blocked);
            }
        }
        self.engine.unwatch_leftovers();
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

    /// Ends waits for keys of commands that their users may not run any more. Redis finds that out when a key changes:
    /// here the change itself serves the command, and must not ask whose it is. So waits are held until this is over.
    pub(crate) fn judge_waits(&mut self) {
        let judged = |conn: &Conn| {
            let blocked = conn.wait.blocked()?;
            let args = blocked.args.args();
            let command = self.node.table.find_command(args.get(0)?)?;
            let command = self.node.table.with_word(command, args.get(1)).unwrap_or(command);
            let denial = rights::refusal(&self.node.users, &mut conn.session.user.clone(), command, args);
            Some((conn.token, blocked.clone(), denial))
        };
        let all: Vec<_> = self.conns.iter().flatten().map(|conn| &**conn).filter_map(judged).collect();
        for (token, blocked, denial) in all {
            match denial {
                Some(denial) => self.deny_wait(token, &blocked, denial),
                None if blocked.release() => self.engine.run_again(&blocked),
                None => {}
            }
        }
    }

    fn deny_wait(&mut self, token: Token, blocked: &Blocked, denial: Denial) {
        if !blocked.cancel() {
            return;
        }
        let Some(mut conn) = self.take_conn(token) else { return };
        self.end_wait(&mut conn);
        let reply = denial.reply();
        let now = self.engine.now();
        if let Some(event) =
            denial.event(acl::Context::TopLevel, session::line_at(&self.node, &conn.session.client, now))
        {
            self.node.users.log().add(now.0 as i64, self.node.config.settings().acllog_max_len, event);
        }
        self.refuse_wait(&mut conn, blocked, &reply);
        self.put_conn(conn);
        self.mark_dirty(token);
        self.resume(token);
    }

    /// Answers a wait whose command may not run any more.
    pub(crate) fn refuse_wait(&mut self, conn: &mut Conn, blocked: &Blocked, error: &[u8]) {
        self.ensure_out(conn);
        let before = conn.out.bytes.len();
        write_error(&mut conn.out.bytes, blocked.protocol, error);
        if let Some(id) = (conn.session.client.last_command.load(Relaxed) as usize).checked_sub(1) {
            add(&self.stats.commands[self.node.table.get(id).counted_as].rejected, 1);
        }
        self.stats.count_error(error);
        self.apply_reply_mode(conn, before);
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
        if conn.is_virtual() && !self.peers.counts_here(conn, node.table.get(id)) {
            return;
        }
        self.meter.exact(node.table.get(id), args, client, self.engine.now(), conn.spent);
        if self.meter.heat.is_on() {
            let cost = Cost { nanos: conn.spent, bytes_in: request_bytes(args), bytes_out: reply.len() as u64 };
            self.tell_heat(conn, node.table.get(id), args, (OneSlot::None, 0), cost);
        }
    }

    /// Answers a wait that CLIENT UNBLOCK has cancelled.
    pub(crate) fn unblock(&mut self, token: Token, wait: &Arc<Blocked>, with_error: bool) {
        let Some(conn) = self.conn(token) else { return };
        if conn.wait.blocked().is_some_and(|blocked| Arc::ptr_eq(blocked, wait)) {
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

    // ---- the operator

    /// The connection waits for the end of CLIENT PAUSE with its command unread.
    pub(crate) fn wait_for_pause(&mut self, conn: &mut Conn) -> Next {
        add(&self.stats.blocked, 1);
        conn.session.client.blocked.store(true, Relaxed);
        conn.wait = Wait::Operator(OperatorWait::Pause);
        self.held_back.push(conn.token);
        self.held_by = self.paused.map(|(kind, _)| kind).or(self.held_by);
        Next::Retry
    }

    /// Ends the wait of a connection for the end of CLIENT PAUSE.
    fn leave_pause(&mut self, conn: &Conn, wait: &OperatorWait) {
        if let OperatorWait::Pause = wait {
            self.held_back.retain(|token| *token != conn.token);
            sub(&self.stats.blocked, 1);
        }
    }

    /// Makes a task wait for the end of a pause, as connections do. False: it need not.
    pub(crate) fn task_waits_for_pause(&mut self, token: Token, writes: bool) -> bool {
        let Some((kind, _)) = self.paused.filter(|(kind, _)| writes || *kind > Pause::Write) else { return false };
        self.held_back.push(token);
        self.held_by = Some(kind);
        true
    }

    /// Checks whether a pause is on, and resumes commands that waited for the end of one.
    pub(crate) fn look_at_pause(&mut self, now: UnixMs) {
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
            if let Wait::Operator(OperatorWait::Pause) = conn.wait {
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
        let until = UnixMs(self.node.clock.unix_us().div_ceil(1000) + ms);
        self.node.pauses.freeze(until);
        conn.wait = Wait::Operator(OperatorWait::Sleep(OwnedArgs::new(args)));
        self.slept_from = self.node.clock.monotonic_ns();
        self.deadlines.insert((until, conn.token));
    }

    // ---- jobs

    /// SAVE: only this connection waits.
    pub(crate) fn await_save(
        &mut self,
        conn: &mut Conn,
        args: Args<'_>,
        checkpoints: Arc<Checkpoints>,
        ticket: Ticket,
    ) {
        conn.wait = Wait::Job(JobWait::Save(OwnedArgs::new(args), checkpoints, ticket));
        self.deadlines.insert((self.engine.now() + SAVE_LOOK_MS, conn.token));
    }

    /// A job: only this connection waits.
    pub(crate) fn await_job(&mut self, conn: &mut Conn, args: Args<'_>, job: Arc<Job>) {
        conn.wait = Wait::Job(JobWait::Job(OwnedArgs::new(args), job));
        self.deadlines.insert((self.engine.now() + SAVE_LOOK_MS, conn.token));
    }

    /// Answers what has waited for a job that has ended, or looks again soon.
    fn look_at_job(&mut self, token: Token, now: UnixMs) {
        let Some(Wait::Job(wait)) = self.conn(token).map(|conn| &conn.wait) else { return };
        match wait {
            JobWait::Save(_, checkpoints, ticket) => {
                // As Redis answers, which gives the reason in its log.
                let of = |good| if good { Ok(Done::Ok) } else { Err(b"ERR".into()) };
                let outcome = checkpoints.outcome(*ticket).map(of);
                self.wake_up_if(token, outcome.as_ref(), now);
            }
            JobWait::Job(_, job) => {
                let job = job.clone();
                self.wake_up_if(token, job.outcome(), now);
            }
        }
    }

    fn wake_up_if(&mut self, token: Token, outcome: Option<&Outcome>, now: UnixMs) {
        match outcome {
            Some(outcome) => self.wake_up(token, outcome),
            None => drop(self.deadlines.insert((now + SAVE_LOOK_MS, token))),
        }
    }

    /// Answers what has waited for a job, or for DEBUG SLEEP.
    fn wake_up(&mut self, token: Token, outcome: &Outcome) {
        let Some(mut conn) = self.take_conn(token) else { return };
        self.ensure_out(&mut conn);
        let before = conn.out.bytes.len();
        let mut reply = Reply::new(&mut conn.out.bytes, conn.session.protocol);
        match outcome {
            Ok(done) => done.write(&mut reply),
            Err(text) => reply.error(text),
        }
        match std::mem::take(&mut conn.wait) {
            Wait::Operator(OperatorWait::Sleep(args)) => {
                conn.spent += self.node.clock.monotonic_ns().since(self.slept_from);
                self.count_ended(&conn, args.args(), b"");
            }
            Wait::Job(JobWait::Save(args, ..) | JobWait::Job(args, _)) => {
                self.count_ended(&conn, args.args(), &conn.out.bytes[before..])
            }
            _ => {}
        }
        self.apply_reply_mode(&mut conn, before);
        if let Ok(Done::Sent(sent)) = outcome {
            let walking = Walking::rest(sent.clone().rest(), conn.session.protocol);
            self.begin_walk(&mut conn, Box::new(walking));
        }
        // It may have asked for its own user to be deleted.
        conn.closing |= self.node.users.is_gone(conn.session.user.principal.user);
        self.put_conn(conn);
        self.mark_dirty(token);
        self.resume(token);
    }
}
