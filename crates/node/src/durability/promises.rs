//! A worker's state of its log: what waits for the log, and what is left for it.

use std::sync::Arc;

use engine::lsn_of;
use keyspace::Version;
use redolog::{Lsn, State};
use smallvec::SmallVec;

use super::backlog::Backlog;
use super::durable::Durable;
use crate::clock::MonoNs;
use crate::node::Node;
use crate::worker::token::Token;

/// A worker writes the log itself while syncs take at most so many nanoseconds.
const LEND_NS: u64 = 400_000;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Promises {
    /// The log, if there is one.
    pub(crate) durable: Option<Arc<Durable>>,
    /// Replies wait for it.
    pub(crate) promised: bool,
    /// Connections whose output waits for the log.
    pub(super) gated: Vec<Token>,
    /// Connections that wait until less is left for the log.
    pub(crate) backlog: Backlog,
    /// Connections that wait for a sync of the log.
    pub(super) syncing: Vec<Token>,
    /// Streams that have records left and were not rung for, a bit each.
    pub(super) unrung: u32,
    /// The time of the first of these, monotonic nanoseconds.
    pub(super) unrung_since: MonoNs,
    /// About how many connections have waited for the log lately, at most.
    waited: usize,
    /// The watermarks at the last look.
    pub(super) marks: SmallVec<[Lsn; 2]>,
    /// The disk of the log hung at the last look.
    pub(super) stalled: bool,
}

impl Promises {
    /// The log, if replies wait for it.
    #[inline]
    pub(crate) fn log(&self) -> Option<&Durable> {
        self.durable.as_deref().filter(|_| self.promised)
    }

    /// True if the log, if there is one, takes changes of the worker's own: otherwise expiry and eviction wait.
    pub(crate) fn may_log(&self) -> bool {
        self.log().is_none_or(Durable::takes_writes) && !self.backlog.is_over()
    }

    /// True if a connection waits for a watermark.
    pub(super) fn awaits(&self) -> bool {
        !self.gated.is_empty() || !self.backlog.is_idle()
    }

    /// True if a connection waits for a sync.
    pub(crate) fn awaits_sync(&self) -> bool {
        !self.syncing.is_empty()
    }

    /// True if records are left that the log was not rung for.
    pub(crate) fn is_unrung(&self) -> bool {
        self.unrung != 0
    }

    /// True if watermarks have moved since the last look, or will never move again.
    pub(super) fn has_moved(&self) -> bool {
        self.durable.as_deref().is_some_and(|durable| {
            durable.log().marks().all().ne(self.marks.iter().copied())
                || matches!(durable.log().state(), State::Failed(_))
        })
    }

    /// Reads the watermarks. Returns whether a version is committed by them.
    pub(super) fn look_at_marks(&mut self, durable: &Durable) -> impl Fn(Version) -> bool + use<> {
        self.marks = durable.log().marks().all().collect();
        let marks = self.marks.clone();
        move |version: Version| marks.get(version.stream()).is_none_or(|mark| lsn_of(version) <= *mark)
    }

    /// Notes records that were left. Returns whether to wait for more before ringing.
    pub(super) fn leave(&mut self, left: u32, now: MonoNs, patience: u64) -> bool {
        if self.unrung == 0 {
            self.unrung_since = now;
        }
        self.unrung |= left;
        now.since(self.unrung_since) < patience
    }

    /// Rings for the records. `may_lend`: the worker itself may write a single stream.
    pub(super) fn ring(&mut self, durable: &Durable, may_lend: bool) {
        let mut unrung = std::mem::take(&mut self.unrung);
        if may_lend && unrung.is_power_of_two() && durable.log().lend(unrung.trailing_zeros() as u16) {
            return;
        }
        while unrung != 0 {
            durable.log().ring(unrung.trailing_zeros() as u16);
            unrung &= unrung - 1;
        }
    }

    /// True if this worker, which `is_idle`, may write the log itself, and wait for the disk. It would only sleep
    /// otherwise: nothing has arrived, and nearly all its clients wait for the log. Where a sync takes long it may not:
    /// clients may send something meanwhile.
    pub(super) fn may_lend(&mut self, durable: &Durable, is_idle: bool) -> bool {
        let waiting = self.gated.len();
        self.waited = waiting.max(self.waited - self.waited.div_ceil(8));
        is_idle && waiting * 2 >= self.waited && durable.log().patience() <= LEND_NS
    }

    /// Notes a command of so many bytes: see [`Backlog::watch`].
    #[inline]
    pub(crate) fn watch_backlog(&mut self, executed: usize, limit: u64, node: &Node) {
        let log = self.durable.as_deref().filter(|_| self.promised);
        self.backlog.watch(executed, limit, log, node);
    }

    /// Checks whether the tail of the log grows faster than it may.
    pub(super) fn rule(&mut self, node: &Node, now: MonoNs) {
        let log = self.durable.as_deref().filter(|_| self.promised);
        self.backlog.rule(log, node, now);
    }

    /// True if commands that wait for the tail have waited long enough. If so, the tail was checked again.
    pub(super) fn is_due(&mut self, node: &Node) -> bool {
        if !self.backlog.is_slowed() {
            return false;
        }
        let now = node.clock.monotonic_ns();
        let is_due = self.backlog.is_due(now);
        if is_due {
            self.rule(node, now);
        }
        is_due
    }
}
