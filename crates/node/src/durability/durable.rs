//! Replies wait for the log, workers do not (rule L7).
//!
//! A command that has seen something that is not committed gets a gate in its connection's output: from there on nothing is sent until
//! the watermarks have passed. What goes to other connections (served replies, messages, invalidations) carries what its worker has
//! seen, and gets its gate where it is written.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use engine::Link;
use keyspace::{Horizon, stream_of};
use redolog::{Gate, Log, State, Watermarks};

use crate::durability::backlog::backlog_limit;
use crate::durability::stall::Stall;
use crate::durability::tail::Tail;
use crate::figures::stats::add;
use crate::session::waitaof;
use crate::worker::conn::{Conn, Wait};
use crate::worker::{Token, Worker};

/// A worker writes the log itself as long as syncs take no longer than this, in nanoseconds.
const LEND_NS: u64 = 400_000;

/// The log of a node.
pub struct Durable {
    log: Log,
    /// What workers know of how far it has come.
    marks: Arc<Watermarks>,
    /// See [`Link::late_from`].
    late_from: usize,
    tail: Arc<Tail>,
    /// Whether its disk hangs.
    pub(crate) stall: Stall,
    /// The gates of the workers that have not begun.
    gates: Mutex<Vec<Option<Vec<Gate>>>>,
}

impl Durable {
    /// `gates`: of each worker, one for each stream.
    pub fn new(log: Log, gates: Vec<Vec<Gate>>) -> Self {
        let marks = log.marks().clone();
        Self::with_marks(log, gates, marks, engine::LATE_FROM)
    }

    /// As [`Self::new`], with other watermarks than the log's own, and values that the log's thread writes though they are smaller. For simulations.
    pub fn with_marks(log: Log, gates: Vec<Vec<Gate>>, marks: Arc<Watermarks>, late_from: usize) -> Self {
        Self {
            log,
            marks,
            late_from,
            tail: Arc::default(),
            stall: Stall::default(),
            gates: Mutex::new(gates.into_iter().map(Some).collect()),
        }
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Its tail.
    pub fn tail(&self) -> &Arc<Tail> {
        &self.tail
    }

    /// A worker's access to it; `None` for the second who asks. `promises`: see [`Link`].
    pub(crate) fn link(&self, worker: usize, promises: bool) -> Option<Link> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let gates = gates.get_mut(worker)?.take()?;
        Some(Link { gates, marks: self.marks.clone(), promises, late_from: self.late_from })
    }

    /// Whether everything up to here is on the disk, whatever the setting promises.
    pub(crate) fn is_synced(&self, ends: &Horizon) -> bool {
        let is_synced = |end: &u64| {
            let stream = stream_of(*end) as u16;
            stream >= self.log.streams() || *end <= self.log.synced(stream)
        };
        ends.versions().iter().all(is_synced)
    }

    /// Has what is up to here synced, soon.
    pub(crate) fn sync(&self, upto: impl Iterator<Item = u64>) {
        let mut ends = vec![0; usize::from(self.log.streams())];
        for version in upto {
            if let Some(end) = ends.get_mut(stream_of(version)) {
                *end = version.max(*end);
            }
        }
        self.log.want_synced(&ends);
    }

    /// Why nothing may be written now, if so.
    #[inline]
    pub(crate) fn refusal(&self) -> Option<String> {
        if self.takes_writes() && !self.tail.refuses() { None } else { self.explain() }
    }

    #[cold]
    fn explain(&self) -> Option<String> {
        let why = match self.log.state() {
            State::Running if self.stall.is_on() => {
                format!("the disk has not answered for {} s, see log-stall-timeout", self.stall.waited() / 1000)
            }
            State::Running => return self.tail.refusal(),
            State::Full(lack) => lack.to_string(),
            State::Failed(reason) => reason,
        };
        Some(format!("MISCONF Errors writing to the AOF file: {why}"))
    }
}

impl Worker {
    /// The log, if anybody waits for it.
    #[inline]
    pub(crate) fn promise(&self) -> Option<&Durable> {
        self.durable.as_deref().filter(|_| self.promised)
    }

    /// Whether the log, if there is one, takes what the worker would change by itself: expiry and eviction can wait.
    pub(crate) fn may_log(&self) -> bool {
        self.promise().is_none_or(Durable::takes_writes) && !self.backlog.is_over()
    }

    /// What is written to the connection from `at` on waits for `seen`.
    pub(crate) fn gate(&mut self, conn: &mut Conn, at: usize, seen: &Horizon) {
        for &version in seen.versions() {
            if !self.engine.is_committed(version) {
                conn.out.gate(at, version, self.turn);
            }
        }
        if conn.out.is_gated() && !std::mem::replace(&mut conn.gated, true) {
            self.gated.push(conn.token);
        }
    }

    /// What is written to the connection from `at` on waits for what the engine has seen.
    pub(crate) fn gate_seen(&mut self, conn: &mut Conn, at: usize) {
        let seen = self.engine.take_seen();
        self.gate(conn, at, &seen);
    }

    /// Lets out what a connection no longer has to keep.
    #[inline]
    pub(crate) fn release(&mut self, token: Token) {
        let index = token as u32 as usize;
        if let Some(conn) = self.conns.get_mut(index).and_then(Option::as_mut).filter(|conn| conn.gated) {
            conn.out.release(|version| self.engine.is_committed(version));
        }
    }

    fn awaits(&self) -> bool {
        let spreads = self.peers.as_ref().is_some_and(|peers| !peers.spread.is_empty());
        let prepares = self.peers.as_ref().is_some_and(|peers| peers.tx.awaits_log());
        !self.gated.is_empty() || !self.backlog.is_idle() || spreads || prepares
    }

    /// Whether watermarks have moved since [`Self::answer_committed`], and somebody waits for that.
    pub(crate) fn may_answer(&self) -> bool {
        self.awaits() && self.durable.as_ref().is_some_and(|durable| self.has_moved(durable))
    }

    fn has_moved(&self, durable: &Durable) -> bool {
        durable.log.marks().all().ne(self.marks.iter().copied()) || matches!(durable.log.state(), State::Failed(_))
    }

    /// Sends what has waited for what is committed by now. With a log that has failed, nobody is answered any more who waits for it
    /// (rule L9).
    pub(crate) fn answer_committed(&mut self) {
        self.turn += 1;
        if !self.awaits() {
            return;
        }
        let Some(durable) = self.durable.clone() else { return };
        if let Some(mailbox) = self.node.mailbox(self.index) {
            mailbox.await_log(false);
        }
        let moved = self.has_moved(&durable);
        let limit = backlog_limit(self.follower.settings());
        self.look_at_backlog(&durable, limit, moved);
        if moved {
            self.let_out(&durable);
        }
    }

    pub(crate) fn let_out(&mut self, durable: &Durable) {
        let failed = matches!(durable.log.state(), State::Failed(_));
        let hangs = durable.stall.is_on();
        if let Some(why) = durable.refusal().filter(|_| failed) {
            self.tx_log_failed(&why);
        }
        self.marks = durable.log.marks().all().collect();
        let marks = self.marks.clone();
        let mut gated = std::mem::take(&mut self.gated);
        gated.retain(|&token| {
            let Some(conn) = self.conn(token) else { return false };
            conn.gated = conn.out.release(|version| marks.get(stream_of(version)).is_none_or(|mark| version <= *mark));
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
        self.gated.append(&mut gated);
    }

    /// There is no log any more. What it has committed goes out; who waits for what it has not is not answered (rule L9).
    pub(crate) fn forget_log(&mut self) {
        self.promised = false;
        let Some(durable) = self.durable.take() else { return };
        self.let_out(&durable);
        for token in std::mem::take(&mut self.gated) {
            self.cut_off(token);
        }
        self.end_syncs(&durable);
        self.engine.log_to(None);
        self.unrung = 0;
        self.marks.clear();
        self.forget_shortage();
        self.forget_backlog();
    }

    /// WAITAOF waits.
    pub(crate) fn wait_for_sync(&mut self, conn: &mut Conn, ends: Horizon, until: Option<u64>) {
        add(&self.stats.blocked, 1);
        conn.session.client.blocked.store(true, Relaxed);
        conn.wait = Wait::Sync(ends, until);
        self.syncing.push(conn.token);
    }

    /// Answers those WAITAOF whose time has come, one way or the other.
    pub(crate) fn look_at_syncs(&mut self, now: u64) {
        if self.syncing.is_empty() {
            return;
        }
        let Some(durable) = self.durable.clone() else { return };
        self.answer_syncs(&durable, now);
    }

    /// Answers WAITAOF, whatever there is to say: there is no log to wait for any more.
    fn end_syncs(&mut self, durable: &Durable) {
        self.answer_syncs(durable, u64::MAX);
    }

    fn answer_syncs(&mut self, durable: &Durable, now: u64) {
        let failed = matches!(durable.log.state(), State::Failed(_));
        for token in std::mem::take(&mut self.syncing) {
            let Some(mut conn) = self.take_conn(token) else { continue };
            let mut cut_off = false;
            if let Wait::Sync(ends, until) = &conn.wait {
                let synced = durable.is_synced(ends);
                if synced || until.is_some_and(|until| until <= now) || now == u64::MAX {
                    self.end_wait(&mut conn);
                    self.ensure_out(&mut conn);
                    let before = conn.out.bytes.len();
                    waitaof::answer(&mut conn.out.bytes, conn.session.protocol, synced);
                    self.apply_reply_mode(&mut conn, before);
                    self.resume_soon(&mut conn);
                } else if failed {
                    // Rule L9: it will never be said what is on the disk.
                    cut_off = true;
                } else {
                    self.syncing.push(token);
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

    /// At the end of a turn: the log hears of what has been left when there is nothing more to execute, or it has waited for as long as
    /// a sync takes: what is left until then is one group. Whoever moves a watermark wakes this worker, if somebody waits for that.
    pub(crate) fn await_log(&mut self) {
        let left = self.engine.take_left();
        if left | self.unrung == 0 && !self.awaits() {
            return;
        }
        let Some(durable) = self.durable.clone() else { return };
        if left != 0 {
            let now = self.node.clock.monotonic_ns();
            if self.unrung == 0 {
                self.unrung_since = now;
            }
            self.unrung |= left;
            durable.tail().left_unknown(self.engine.take_unknown());
            self.watch_tail(now);
            if now.saturating_sub(self.unrung_since) < durable.log.patience() {
                return;
            }
        }
        let mut unrung = std::mem::take(&mut self.unrung);
        if left == 0
            && self.may_lend(&durable)
            && unrung.is_power_of_two()
            && durable.log.lend(unrung.trailing_zeros() as u16)
        {
            unrung = 0;
        }
        while unrung != 0 {
            durable.log.ring(unrung.trailing_zeros() as u16);
            unrung &= unrung - 1;
        }
        if let Some(mailbox) = self.node.mailbox(self.index).filter(|_| self.awaits()) {
            mailbox.await_log(true);
        }
    }

    /// Whether this worker may write the log itself, and wait for the disk: it would only sleep otherwise, since nothing has arrived, and about all
    /// who are served now wait for the log. Not where a sync takes long: others may send something meanwhile.
    fn may_lend(&mut self, durable: &Durable) -> bool {
        let waiting = self.gated.len();
        self.waited = waiting.max(self.waited - self.waited.div_ceil(8));
        let is_idle = !self.has_work() && self.dirty.is_empty() && self.peers.is_none();
        is_idle && waiting * 2 >= self.waited && durable.log.patience() <= LEND_NS
    }
}
