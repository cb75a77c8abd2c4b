//! The bytes that wait for the log are bounded. While more than `log-backlog` bytes are left for it and not on the
//! disk, because the disk is slower than the clients or hangs, commands that write wait. Later commands of their
//! connections wait with them, and soon these are not read any more. Nothing is refused or dropped; clients that only
//! read are served.
//!
//! Commands that write also wait while the log's tail grows faster than it may ([`crate::durability::tail`]).

use clocks::UnixMs;

use crate::clock::MonoNs;
use crate::config::Settings;
use crate::durability::durable::Durable;
use crate::durability::tail::{Ruling, Seen};
use crate::node::Node;
use crate::worker::token::Token;

/// Bytes of executed commands before the worker looks whether commands may have to wait for the tail.
const WATCH_BYTES: usize = 16 * 1024;
/// After so many of these looks it checks how much waits for the log, or at each one while it is near.
const LOOKS: u8 = 8;

/// The wait of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// Until less is left for the log.
    LessIsLeft,
    /// Until fewer of its replies wait for the log.
    Answered,
}

/// A worker's state of the backlog.
#[derive(Default)]
pub(crate) struct Backlog {
    /// More waits for the log than may.
    is_over: bool,
    /// The ruling about the tail: [`Ruling::Go`] if it may grow.
    seen: Seen,
    ruling: Option<Ruling>,
    /// Connections that wait for it to be less.
    waiting: Vec<Token>,
    /// Connections that wait until fewer of their replies wait for the log.
    unanswered: Vec<Token>,
    /// Bytes of commands that were executed since the last look.
    executed: usize,
    /// Looks since the last check.
    looks: u8,
}

impl Backlog {
    /// True if there is nothing to check.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.unanswered.is_empty() && !self.is_over
    }

    /// True if commands that write wait.
    pub(super) fn holds(&self) -> bool {
        self.is_over || matches!(self.ruling, Some(Ruling::Wait(_)))
    }

    /// True if more waits for the log than may.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// True if the tail grows faster than it may.
    pub(crate) fn is_slowed(&self) -> bool {
        self.ruling.is_some()
    }

    /// Makes a connection or a task wait.
    pub(super) fn wait(&mut self, token: Token, until: Until) {
        match until {
            Until::LessIsLeft => self.waiting.push(token),
            Until::Answered => self.unanswered.push(token),
        }
    }

    /// Ends its wait.
    pub(super) fn leave(&mut self, token: Token) {
        self.waiting.retain(|other| *other != token);
        self.unanswered.retain(|other| *other != token);
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.unanswered.len()
    }

    /// Takes the connections that wait until fewer of their replies wait for the log.
    pub(super) fn take_unanswered(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.unanswered)
    }

    /// Takes the connections that wait to write, if they may.
    pub(super) fn take_writers(&mut self) -> Vec<Token> {
        if self.holds() { Vec::new() } else { std::mem::take(&mut self.waiting) }
    }

    /// Notes a command of so many bytes, and checks now and then whether more waits for the log than may.
    #[inline]
    pub(super) fn watch(&mut self, executed: usize, limit: u64, log: Option<&Durable>, node: &Node) {
        self.executed += executed;
        if self.executed >= WATCH_BYTES {
            self.look_between(limit, log, node);
        }
    }

    #[cold]
    fn look_between(&mut self, limit: u64, log: Option<&Durable>, node: &Node) {
        self.executed = 0;
        self.looks += 1;
        let is_near = log.is_some_and(|durable| durable.tail().is_near());
        if is_near {
            self.rule(log, node, node.clock.monotonic_ns());
        }
        if is_near || self.looks >= LOOKS {
            self.looks = 0;
            self.is_over |= log.is_some_and(|durable| durable.log().backlog() > limit && durable.takes_writes());
        }
    }

    /// Checks how much waits for the log. Returns whether it was more than may.
    pub(super) fn look(&mut self, durable: &Durable, limit: u64) -> bool {
        // So that not every block checks again.
        let least = if self.is_over { limit / 2 } else { limit };
        // Without room for them writes are refused, not kept.
        let is_over = durable.log().backlog() > least && durable.takes_writes();
        std::mem::replace(&mut self.is_over, is_over)
    }

    /// Forgets the waits: there is no log any more.
    pub(super) fn forget(&mut self) {
        (self.is_over, self.ruling) = (false, None);
    }

    /// Checks whether the tail of the log grows faster than it may.
    pub(super) fn rule(&mut self, log: Option<&Durable>, node: &Node, now: MonoNs) {
        let Some(durable) = log else { return };
        let (log, tail) = (durable.log(), durable.tail());
        if self.ruling.is_none() && !tail.is_near() {
            return;
        }
        if tail.is_quiet(now.0)
            && let Some(store) = node.checkpoints().and_then(|checkpoints| checkpoints.store())
        {
            tail.flushing(store.figures().flush_steps, now.0);
        }
        let ruling = match durable.takes_writes() {
            true => tail.rule(tail.position(log), &mut self.seen, now.0),
            // Then writes are refused, not kept.
            false => Ruling::Go,
        };
        self.ruling = Some(ruling).filter(|ruling| *ruling != Ruling::Go);
    }

    /// True if connections that wait for the tail have waited long enough, by its last size.
    pub(super) fn is_due(&self, now: MonoNs) -> bool {
        match self.ruling {
            None => false,
            Some(Ruling::Wait(until)) => now.0 >= until,
            Some(_) => true,
        }
    }

    /// When the next check is due, if it is `now`.
    pub(crate) fn deadline(&self, now: UnixMs) -> Option<UnixMs> {
        (self.ruling.is_some() && !self.waiting.is_empty()).then_some(now + 1)
    }
}

/// Bytes that may wait for the log: fewer where the system limits memory, because they are copied on their way.
pub(crate) fn backlog_limit(settings: &Settings) -> u64 {
    if headroom::is_limited() { settings.log_backlog.min(headroom::talk() / 4) } else { settings.log_backlog }
}
