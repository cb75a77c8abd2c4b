//! What waits for the log is bounded. While more than `log-backlog` bytes have been left for it and are not on the disk, because that
//! is slower than the clients or hangs, commands that write wait with what follows them on their connections, which are soon not read
//! any more. Nothing is refused or dropped; who does not write is served.
//!
//! So they do while the log's tail grows faster than it may ([`crate::tail`]).

use std::sync::atomic::Ordering::Relaxed;

use resp::Args;

use crate::config::Settings;
use crate::durability::durable::Durable;
use crate::durability::tail::{Ruling, Seen};
use crate::figures::stats::add;
use crate::table::Command;
use crate::worker::conn::{Conn, Wait};
use crate::worker::execute::Next;
use crate::worker::{Token, Worker};

/// Bytes of replies that wait for the log after which nothing more of their connection is executed.
const REPLIES_MAX: usize = 1 << 20;

/// Bytes of commands that are executed before the worker looks again.
const WATCH_BYTES: usize = 128 * 1024;
/// The same while the tail may have to wait.
const WATCH_BYTES_NEAR: usize = 16 * 1024;

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// That less is left for the log.
    LessIsLeft,
    /// That less of what it was answered waits for the log.
    Answered,
}

/// What a worker knows of it.
#[derive(Default)]
pub(crate) struct Backlog {
    /// More waits for the log than may.
    is_over: bool,
    /// What was seen of the tail, and what that means: [`Ruling::Go`] if nothing.
    seen: Seen,
    ruling: Option<Ruling>,
    /// Connections that wait for it to be less.
    waiting: Vec<Token>,
    /// Connections that wait until less of what they were answered waits for it.
    unanswered: Vec<Token>,
    /// Bytes of commands that were executed since it has looked.
    executed: usize,
}

impl Backlog {
    /// Whether nothing is to be looked at.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.unanswered.is_empty() && !self.is_over
    }

    /// Whether commands that write wait.
    fn holds(&self) -> bool {
        self.is_over || matches!(self.ruling, Some(Ruling::Wait(_)))
    }

    /// Whether more waits for the log than may.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the tail grows faster than it may.
    pub(crate) fn is_slowed(&self) -> bool {
        self.ruling.is_some()
    }

    /// When it wants to be looked at, if it is `now`; unix milliseconds.
    pub(crate) fn deadline(&self, now: u64) -> Option<u64> {
        (self.ruling.is_some() && !self.waiting.is_empty()).then_some(now + 1)
    }
}

/// Bytes that may wait for the log: less where the system limits memory, as what waits is copied on its way.
pub(crate) fn backlog_limit(settings: &Settings) -> u64 {
    if headroom::is_limited() { settings.log_backlog.min(headroom::talk() / 4) } else { settings.log_backlog }
}

impl Worker {
    /// For what the command has to wait, if for something.
    pub(crate) fn must_wait_for_log(&self, conn: &Conn, command: &Command, args: Args<'_>) -> Option<Until> {
        let writes = || !conn.session.queues(command) && self.may_write(conn, command, args);
        if self.backlog.holds() && writes() {
            return Some(Until::LessIsLeft);
        }
        (conn.out.is_gated() && conn.unsent() > REPLIES_MAX).then_some(Until::Answered)
    }

    /// The connection waits for the log, with its command unread.
    pub(crate) fn wait_for_log(&mut self, conn: &mut Conn, until: Until) -> Next {
        conn.wait = Wait::Log;
        match until {
            Until::LessIsLeft => {
                add(&self.stats.slowed, u64::from(self.backlog.is_slowed()));
                self.backlog.waiting.push(conn.token);
            }
            Until::Answered => self.backlog.unanswered.push(conn.token),
        }
        self.show_waiting();
        Next::Retry
    }

    /// A task that writes waits as connections do that write. False: it need not.
    pub(crate) fn task_waits_for_log(&mut self, token: Token) -> bool {
        let holds = self.backlog.holds();
        if holds {
            self.backlog.waiting.push(token);
            self.show_waiting();
        }
        holds
    }

    /// The connection no longer does.
    pub(crate) fn leave_log(&mut self, token: Token) {
        self.backlog.waiting.retain(|other| *other != token);
        self.backlog.unanswered.retain(|other| *other != token);
        self.show_waiting();
    }

    fn show_waiting(&self) {
        let waiting = self.backlog.waiting.len() + self.backlog.unanswered.len();
        self.stats.awaits_log.store(waiting as u64, Relaxed);
    }

    /// A command of so many bytes was executed: looks now and then whether more waits for the log by now than may.
    #[inline]
    pub(crate) fn watch_backlog(&mut self, executed: usize, limit: u64) {
        self.backlog.executed += executed;
        if self.backlog.executed < WATCH_BYTES_NEAR {
            return;
        }
        let is_near = self.promise().is_some_and(|durable| durable.tail().is_near());
        if is_near {
            let now = self.node.clock.monotonic_ns();
            self.watch_tail(now);
        }
        if is_near || self.backlog.executed >= WATCH_BYTES {
            self.backlog.executed = 0;
            self.backlog.is_over |=
                self.promise().is_some_and(|durable| durable.log().backlog() > limit && durable.takes_writes());
        }
    }

    /// Looks how much waits for the log, and lets connections go on if it is little. `moved`: some of it has been committed.
    pub(crate) fn look_at_backlog(&mut self, durable: &Durable, limit: u64, moved: bool) {
        let log = durable.log();
        // Not after every block again.
        let least = if self.backlog.is_over { limit / 2 } else { limit };
        let was_over = self.backlog.is_over;
        // Without room for them writes are refused, not kept.
        self.backlog.is_over = log.backlog() > least && durable.takes_writes();
        if moved || was_over {
            let unanswered = std::mem::take(&mut self.backlog.unanswered);
            self.let_go_on(unanswered);
            self.let_writers_go_on();
        }
    }

    /// There is no log to wait for any more.
    pub(crate) fn forget_backlog(&mut self) {
        (self.backlog.is_over, self.backlog.ruling) = (false, None);
        let unanswered = std::mem::take(&mut self.backlog.unanswered);
        self.let_go_on(unanswered);
        self.let_writers_go_on();
    }

    /// Looks whether the tail grows faster than it may.
    pub(crate) fn watch_tail(&mut self, now: u64) {
        let Some(durable) = self.durable.as_deref().filter(|_| self.promised) else { return };
        let (log, tail) = (durable.log(), durable.tail());
        if self.backlog.ruling.is_none() && !tail.is_near() {
            return;
        }
        if tail.is_quiet(now)
            && let Some(store) = self.node.checkpoints().and_then(|checkpoints| checkpoints.store())
        {
            tail.flushing(store.figures().flush_steps, now);
        }
        let ruling = match durable.takes_writes() {
            true => tail.rule(tail.position(log), &mut self.backlog.seen, now),
            // Then they are refused, not kept.
            false => Ruling::Go,
        };
        self.backlog.ruling = Some(ruling).filter(|ruling| *ruling != Ruling::Go);
    }

    /// Lets connections go on that wait for the tail, if they have waited long enough.
    pub(crate) fn look_at_tail(&mut self) {
        let until = match self.backlog.ruling {
            None => return,
            Some(Ruling::Wait(until)) => until,
            Some(_) => 0,
        };
        let now = self.node.clock.monotonic_ns();
        if now >= until {
            self.watch_tail(now);
            self.let_writers_go_on();
        }
    }

    fn let_writers_go_on(&mut self) {
        if !self.backlog.holds() {
            let waiting = std::mem::take(&mut self.backlog.waiting);
            self.let_go_on(waiting);
        }
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
            if let Wait::Log = conn.wait {
                conn.wait = Wait::No;
                self.resume(token);
            }
        }
        self.show_waiting();
    }
}
