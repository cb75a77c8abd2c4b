//! How a worker keeps what it promises: replies wait for the log, workers do not (rule L7).
//!
//! A command that has seen a version that is not committed gets a gate in its connection's output. From there on
//! nothing is sent until the watermarks have passed. Messages for other connections (served replies, publications,
//! invalidations) carry the versions that their worker has seen, and get a gate where they are written.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;

use clocks::UnixMs;
use keyspace::Horizon;
use redolog::State;
use resp::Args;

use super::backlog::{Until, backlog_limit};
use super::durable::Durable;
use super::logging::Logging;
use crate::durability::awaited::AwaitedCopies;
use crate::figures::stats::{add, sub};
use crate::table::Command;
use crate::worker::Worker;
use crate::worker::conn::Conn;
use crate::worker::front::may_write;
use crate::worker::next::Next;
use crate::worker::token::Token;
use crate::worker::wait::{LogWait, Wait};

/// Bytes of replies that wait for the log, above which nothing more of their connection is executed.
const REPLIES_MAX: usize = 1 << 20;

impl Worker {
    // ---- replies

    /// The log, if replies wait for it.
    #[inline]
    pub(crate) fn promise(&self) -> Option<&Durable> {
        self.promises.log()
    }

    /// True if the log, if there is one, takes changes of the worker's own: otherwise expiry and eviction wait.
    pub(crate) fn may_log(&self) -> bool {
        self.promises.may_log()
    }

    /// Makes the output of the connection from `at` on wait for `seen`.
    pub(crate) fn gate(&mut self, conn: &mut Conn, at: usize, seen: &Horizon) {
        for &version in seen.versions() {
            if !self.engine.is_committed(version) {
                conn.out.gate(at, version, self.turn);
            }
        }
        if conn.out.is_gated() && !std::mem::replace(&mut conn.gated, true) {
            self.promises.gated.push(conn.token);
        }
    }

    /// Makes the output of the connection from `at` on wait for the versions that the engine has seen.
    pub(crate) fn gate_seen(&mut self, conn: &mut Conn, at: usize) {
        let seen = self.engine.take_seen();
        self.gate(conn, at, &seen);
    }

    /// Opens the gates of a connection whose versions are committed.
    #[inline]
    pub(crate) fn release(&mut self, token: Token) {
        let index = token as u32 as usize;
        if let Some(conn) = self.conns.get_mut(index).and_then(Option::as_mut).filter(|conn| conn.gated) {
            conn.out.release(|version| self.engine.is_committed(version));
        }
    }

    fn awaits(&self) -> bool {
        let spreads = !self.peers.spread.is_empty();
        let prepares = self.peers.is_cluster() && self.txn.awaits_log();
        self.promises.awaits() || spreads || prepares
    }

    /// True if watermarks have moved since [`Self::answer_committed`], and a connection waits for that.
    pub(crate) fn may_answer(&self) -> bool {
        self.awaits() && self.promises.has_moved()
    }

    /// Sends output that has waited for versions that are committed by now. With a failed log, clients that still wait
    /// for it are not answered any more (rule L9).
    pub(crate) fn answer_committed(&mut self) {
        self.turn += 1;
        if !self.awaits() {
            return;
        }
        let Some(durable) = self.promises.durable.clone() else { return };
        if let Some(mailbox) = self.node.mailbox(self.index) {
            mailbox.await_log(false);
        }
        let moved = self.promises.has_moved();
        let limit = backlog_limit(self.follower.settings());
        self.look_at_backlog(&durable, limit, moved);
        if moved {
            self.let_out(&durable);
        }
    }

    pub(crate) fn let_out(&mut self, durable: &Durable) {
        let failed = matches!(durable.log().state(), State::Failed(_));
        let hangs = durable.stall.is_on();
        if let Some(why) = durable.refusal().filter(|_| failed) {
            self.transactions().log_failed(&why);
        }
        let is_committed = self.promises.look_at_marks(durable);
        let mut gated = std::mem::take(&mut self.promises.gated);
        gated.retain(|&token| {
            let Some(conn) = self.conn(token) else { return false };
            conn.gated = conn.out.release(&is_committed);
            let (gated, sendable) = (conn.gated, conn.out.is_due());
            if gated && (failed || hangs) {
                self.cut_off(token);
                return false;
            }
            if sendable || !gated {
                self.mark_dirty(token);
            }
            gated
        });
        self.promises.gated.append(&mut gated);
    }

    /// There is no log any more. Output that it has committed leaves; clients that wait for the rest are not answered
    /// (rule L9).
    pub(crate) fn forget_log(&mut self) {
        self.promises.promised = false;
        let Some(durable) = self.promises.durable.take() else { return };
        self.let_out(&durable);
        for token in std::mem::take(&mut self.promises.gated) {
            self.cut_off(token);
        }
        self.end_syncs(&durable);
        self.engine.log_to(None);
        self.promises.unrung = 0;
        self.promises.marks.clear();
        self.forget_shortage();
        self.forget_backlog();
    }

    /// Makes WAITAOF wait.
    pub(crate) fn wait_for_sync(&mut self, conn: &mut Conn, awaited: Box<AwaitedCopies>) {
        add(&self.stats.blocked, 1);
        conn.session.client.blocked.store(true, Relaxed);
        conn.wait = Wait::Log(LogWait::Sync(awaited));
        self.promises.syncing.push(conn.token);
    }

    /// Answers the WAIT and WAITAOF commands whose sync or timeout has come.
    pub(crate) fn look_at_syncs(&mut self, now: UnixMs) {
        if self.promises.syncing.is_empty() {
            return;
        }
        let Some(durable) = self.promises.durable.clone() else { return };
        self.answer_syncs(&durable, now);
    }

    /// Answers all WAITAOF commands: there is no log to wait for any more.
    fn end_syncs(&mut self, durable: &Durable) {
        self.answer_syncs(durable, UnixMs::NEVER);
    }

    fn answer_syncs(&mut self, durable: &Durable, now: UnixMs) {
        let failed = matches!(durable.log().state(), State::Failed(_));
        for token in std::mem::take(&mut self.promises.syncing) {
            let Some(mut conn) = self.take_conn(token) else { continue };
            let mut cut_off = false;
            if let Wait::Log(LogWait::Sync(awaited)) = &conn.wait {
                let mut reply = Vec::new();
                if awaited.answer(durable, now, &mut reply, conn.session.protocol) {
                    self.end_wait(&mut conn);
                    self.ensure_out(&mut conn);
                    let before = conn.out.bytes.len();
                    conn.out.bytes.extend_from_slice(&reply);
                    self.apply_reply_mode(&mut conn, before);
                    self.resume_soon(&mut conn);
                } else if failed {
                    // Rule L9: it will never be known what is on the disk.
                    cut_off = true;
                } else {
                    self.promises.syncing.push(token);
                }
            }
            self.put_conn(conn);
            match cut_off {
                true => self.cut_off(token),
                false => self.mark_dirty(token),
            }
        }
    }

    fn resume_soon(&mut self, conn: &mut Conn) {
        if !std::mem::replace(&mut conn.queued, true) {
            self.ready.push_back(conn.token);
        }
    }

    /// Called at the end of a turn. Rings for the records that were left, if there is nothing more to execute, or if
    /// they have waited for as long as a sync takes. All records until then are one group. A thread that moves a
    /// watermark wakes this worker, if a connection waits for that.
    pub(crate) fn await_log(&mut self) {
        let left = self.engine.take_left();
        if left == 0 && !self.promises.is_unrung() && !self.awaits() {
            return;
        }
        let Some(durable) = self.promises.durable.clone() else { return };
        if left != 0 {
            let now = self.node.clock.monotonic_ns();
            durable.tail().left_unknown(self.engine.take_unknown());
            self.promises.rule(&self.node, now);
            if self.promises.leave(left, now, durable.log().patience()) {
                return;
            }
        }
        let may_lend = left == 0 && self.may_lend(&durable);
        self.promises.ring(&durable, may_lend);
        if let Some(mailbox) = self.node.mailbox(self.index).filter(|_| self.awaits()) {
            mailbox.await_log(true);
        }
    }

    /// True if this worker may write the log itself, and wait for the disk.
    fn may_lend(&mut self, durable: &Durable) -> bool {
        let is_idle = !self.has_work() && self.dirty.is_empty() && !self.peers.is_cluster();
        self.promises.may_lend(durable, is_idle)
    }

    // ---- commands that wait

    /// The wait of the command, if it has to wait.
    pub(crate) fn must_wait_for_log(&self, conn: &Conn, command: &Command, args: Args<'_>) -> Option<Until> {
        let writes = || !conn.session.queues(command) && may_write(&self.node, conn, command, args);
        if self.promises.backlog.holds() && writes() {
            return Some(Until::LessIsLeft);
        }
        (conn.out.is_gated() && conn.unsent() > REPLIES_MAX).then_some(Until::Answered)
    }

    /// The connection waits for the log, with its command unread.
    pub(crate) fn wait_for_log(&mut self, conn: &mut Conn, until: Until) -> Next {
        conn.wait = Wait::Log(LogWait::Backlog);
        if until == Until::LessIsLeft {
            add(&self.stats.slowed, u64::from(self.promises.backlog.is_slowed()));
        }
        self.promises.backlog.wait(conn.token, until);
        self.show_waiting();
        Next::Retry
    }

    /// Makes a task that writes wait, as connections do that write. False: it need not.
    pub(crate) fn task_waits_for_log(&mut self, token: Token) -> bool {
        let holds = self.promises.backlog.holds();
        if holds {
            self.promises.backlog.wait(token, Until::LessIsLeft);
            self.show_waiting();
        }
        holds
    }

    /// Ends the connection's wait.
    pub(crate) fn leave_log(&mut self, conn: &Conn, wait: &LogWait) {
        match wait {
            LogWait::Backlog => {
                self.promises.backlog.leave(conn.token);
                self.show_waiting();
            }
            LogWait::Sync(..) => {
                conn.session.client.blocked.store(false, Relaxed);
                sub(&self.stats.blocked, 1);
            }
        }
    }

    fn show_waiting(&self) {
        self.stats.awaits_log.store(self.promises.backlog.len() as u64, Relaxed);
    }

    /// Checks how much waits for the log, and resumes connections if it is little. `moved`: some of it was committed.
    fn look_at_backlog(&mut self, durable: &Durable, limit: u64, moved: bool) {
        let was_over = self.promises.backlog.look(durable, limit);
        if moved || was_over {
            let unanswered = self.promises.backlog.take_unanswered();
            self.let_go_on(unanswered);
            self.let_writers_go_on();
        }
    }

    /// There is no log to wait for any more.
    fn forget_backlog(&mut self) {
        self.promises.backlog.forget();
        let unanswered = self.promises.backlog.take_unanswered();
        self.let_go_on(unanswered);
        self.let_writers_go_on();
    }

    /// Resumes connections that wait for the tail, if they have waited long enough.
    pub(crate) fn look_at_tail(&mut self) {
        if self.promises.is_due(&self.node) {
            self.let_writers_go_on();
        }
    }

    fn let_writers_go_on(&mut self) {
        let writers = self.promises.backlog.take_writers();
        self.let_go_on(writers);
    }

    fn let_go_on(&mut self, waiting: Vec<Token>) {
        if waiting.is_empty() {
            return;
        }
        for token in waiting {
            if self.unpark_task(token) {
                continue;
            }
            let Some(conn) = self.conn(token) else { continue };
            if let Wait::Log(LogWait::Backlog) = conn.wait {
                conn.wait = Wait::No;
                self.resume(token);
            }
        }
        self.show_waiting();
    }

    // ---- a disk that hangs

    /// Checks whether the disk of the log hangs. If it does, closes the clients that wait for it.
    pub(crate) fn look_at_stall_of_log(&mut self, now: UnixMs) {
        let stalled = self.promises.stalled;
        let is_quiet = |durable: &Durable| !durable.stall.is_on() && !stalled && !durable.stall.is_due(now);
        if self.promise().is_none_or(is_quiet) {
            return;
        }
        let Some(durable) = self.promises.durable.clone() else { return };
        let timeout = self.follower.settings().log_stall_timeout.saturating_mul(1000);
        let copies = || durable.copies().map(|copies| copies.awaited());
        if durable.stall.look(durable.log(), now, timeout, copies) {
            let copies = durable.stall.copies();
            match durable.stall.is_on() {
                true if durable.log().state() != State::Running => tracing::warn!(
                    "The log could not write accepted records for {} s, for lack of a next segment: clients that wait for them are closed",
                    durable.stall.waited() / 1000
                ),
                true if copies.is_some() => tracing::warn!(
                    "The log has waited for its copies for {} s: commands that write are refused, and clients that wait for it are closed, until a majority has it: {}",
                    durable.stall.waited() / 1000,
                    copies.unwrap_or_default()
                ),
                true => tracing::warn!(
                    "The disk of the log has not answered for {} s: commands that write are refused, and clients that wait for it are closed, until it does",
                    durable.stall.waited() / 1000
                ),
                false if durable.log().state() != State::Running => {
                    tracing::info!("The log has written its accepted records. It still has no next segment")
                }
                false if copies.is_some() => {
                    tracing::info!("A majority of the copies has the log again: commands that write are accepted")
                }
                false => tracing::info!("The disk of the log answers again: commands that write are accepted"),
            }
            self.node.look_all();
        }
        let is_on = durable.stall.is_on();
        if is_on {
            self.let_out(&durable);
        }
        if is_on && !std::mem::replace(&mut self.promises.stalled, is_on) {
            // Their outcome is unknown here.
            let blocks = self.txn.clients();
            blocks.into_iter().for_each(|token: Token| self.cut(token));
            self.transactions().tell_stuck();
        }
        self.promises.stalled = is_on;
    }

    // ---- the log is switched

    /// Executes nothing until it is told to go on. If a script is under way, it does go on: the script holds latches,
    /// and its record is not whole.
    pub(crate) fn stand_still(&mut self, heard: &Sender<bool>) {
        self.halted = self.scripts.is_empty() && self.orphans.is_empty();
        // If the receiver has gone, its thread has gone.
        let _ = heard.send(self.halted);
    }

    pub(crate) fn stand_still_no_more(&mut self) {
        self.halted = false;
    }

    pub(crate) fn change_logging(&mut self, logging: Logging, heard: &Sender<()>) {
        match logging {
            Logging::Begins(durable) => {
                debug_assert!(self.halted && self.promises.durable.is_none(), "one log at a time");
                let link = durable.link(self.index, false);
                self.engine.log_to(link);
                self.promises.durable = Some(durable);
            }
            Logging::Leads(durable) => {
                debug_assert!(self.halted && self.promises.durable.is_none(), "one log at a time");
                self.engine.log_to(durable.link(self.index, true));
                (self.promises.durable, self.promises.promised) = (Some(durable), true);
                self.engine.only_read(false);
            }
            Logging::Rests(rests) => self.engine.only_read(rests),
            Logging::Promises => {
                self.engine.promise();
                self.promises.promised = self.promises.durable.is_some();
            }
            Logging::Ends => {
                debug_assert!(self.halted, "every worker ends at the same moment");
                self.engine.log_no_more();
            }
            Logging::Forgotten => self.forget_log(),
        }
        let _ = heard.send(());
    }
}
