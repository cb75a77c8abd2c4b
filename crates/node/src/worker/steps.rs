//! Commands under way that let others run between their steps: scripts, and walks over the keyspace.

use std::sync::Arc;

use engine::{Step, Walking};
use resp::{Batch, Decoder, Limits};

use crate::admission::Admitted;
use crate::config::Settings;
use crate::figures::cost::{Cost, request_bytes};
use crate::figures::heat::OneSlot;
use crate::node::Node;
use crate::session::{Flow, Replies, Suspended};
use crate::worker::Worker;
use crate::worker::conn::Conn;
use crate::worker::next::{INSISTS, Next};
use crate::worker::token::Token;
use crate::worker::wait::{Steps, Wait};

/// Time for scripts in a turn, in nanoseconds. A script that gets its slice runs until the slice is over, which takes
/// about as long.
const SCRIPTS_NS: u64 = 1_000_000;
/// Time for walks in a turn, in nanoseconds.
const WALKS_NS: u64 = 1_000_000;
/// Unread bytes of a client, above which its walk waits: so a long reply is not in memory as a whole.
const WALK_AHEAD: usize = 1 << 20;

impl Worker {
    // ---- walks

    /// Makes the command of a connection a walk over the keyspace.
    pub(crate) fn begin_walk(&mut self, conn: &mut Conn, walking: Box<Walking>) {
        conn.wait = Wait::Steps(Steps::Walk(walking));
        self.walks.push_back(conn.token);
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
        if self.peers.is_cluster() {
            self.forwarding().look_at_debts(token);
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
            if conn.wait.is_in_walk()
                && let Wait::Steps(Steps::Walk(mut walking)) = std::mem::take(&mut conn.wait)
            {
                self.ensure_out(&mut conn);
                let before = conn.out.bytes.len();
                let step = self.engine.step_walk(&mut walking, token, &mut conn.out.bytes);
                self.gate_seen(&mut conn, before);
                if self.meter.heat.is_on() {
                    let (ends, bytes) =
                        (matches!(step, Step::Done), conn.out.bytes.len().saturating_sub(before) as u64);
                    let (peers, now) = (&self.peers, self.engine.now());
                    let is_own = |slot| peers.is_here(slot);
                    self.meter.heat.wrote((token, ends), &self.node.table, is_own, bytes, now);
                }
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
                        conn.wait = Wait::Steps(Steps::Walk(walking));
                    }
                    // A busy latch is tried again next turn: walks are patient.
                    Step::More | Step::Busy(_) => {
                        conn.wait = Wait::Steps(Steps::Walk(walking));
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

    // ---- scripts

    /// Makes the script of a connection, which has run for long, go on in slices.
    pub(crate) fn begin_script(&mut self, conn: &mut Conn, suspended: Box<Suspended>) {
        conn.wait = Wait::Steps(Steps::Script(suspended));
        self.scripts.push_back(conn.token);
    }

    /// Lets scripts go on, as many as there is time for. The others are first next time.
    pub(crate) fn step_scripts(&mut self, node: &Arc<Node>, settings: &Arc<Settings>) {
        if self.scripts.is_empty() && self.orphans.is_empty() {
            return;
        }
        let begun = node.clock.monotonic_ns();
        for _ in 0..self.orphans.len() {
            let Some(mut conn) = self.orphans.pop_front() else { break };
            self.go_on(&mut conn, node, settings);
            // A script that was undone has never run: its client is gone.
            if conn.wait.is_in_script() {
                self.orphans.push_back(conn);
            } else {
                self.engine.cancel_reservation(conn.token);
                self.forget_claims(conn.token);
                self.engine.unwatch_later(std::mem::take(&mut conn.session.watched));
            }
            if node.clock.monotonic_ns() >= begun + SCRIPTS_NS / 2 {
                break;
            }
        }
        for _ in 0..self.scripts.len() {
            let Some(token) = self.scripts.pop_front() else { break };
            let Some(mut conn) = self.take_conn(token) else { continue };
            self.go_on(&mut conn, node, settings);
            if conn.wait.is_in_script() {
                self.scripts.push_back(token);
                self.put_conn(conn);
            } else {
                self.finish(conn, true, settings);
            }
            if node.clock.monotonic_ns() >= begun + SCRIPTS_NS {
                break;
            }
        }
    }

    /// Lets a connection's command go on, and does what follows if it has ended.
    fn go_on(&mut self, conn: &mut Conn, node: &Arc<Node>, settings: &Arc<Settings>) {
        let Wait::Steps(Steps::Script(mut suspended)) = std::mem::take(&mut conn.wait) else { return };
        let query = std::mem::take(&mut conn.query);
        let unread = &query[conn.start..];
        let mut batch = Batch::new();
        // The command was admitted already, whatever the limits are now.
        let limits = Limits { proto_max_bulk_len: usize::MAX, authenticated: true };
        let _ = Decoder::new().decode(unread, &limits, 1, &mut batch);
        let found = if batch.is_empty() { None } else { node.table.find_command(&batch.args(0, unread)[0]) };
        if let Some(command) = found {
            let args = batch.args(0, unread);
            let (db, from) = (conn.session.db, self.meter.settle());
            let mut out = std::mem::take(&mut suspended.out);
            let (insists, waited) = (conn.fetches >= INSISTS, conn.fetches > 0);
            let goes_on = Admitted::goes_on(command, &*suspended);
            let mut ctx = self.session_ctx(conn, node, settings, goes_on, args);
            ctx.out = &mut out;
            (ctx.engine.insists, ctx.engine.waited) = (insists, waited);
            let flow = suspended.go_on(&mut ctx);
            (self.engine.insists, self.engine.waited) = (false, false);
            self.engine.clock().set_touching(true);
            conn.spent += self.meter.settle().since(from);
            conn.seen.merge(&self.engine.take_seen());
            match flow {
                Flow::Suspend(suspended) => conn.wait = Wait::Steps(Steps::Script(suspended)),
                Flow::Busy(busy) => {
                    // It runs again, from the start, unless that is refused.
                    if self.wait_for_latch(conn, command, &busy) != Next::Retry {
                        conn.start += std::mem::take(&mut conn.suspended);
                        conn.note_command();
                    }
                }
                flow => {
                    self.waits_no_more(conn);
                    conn.session.answers = None;
                    self.ensure_out(conn);
                    self.engine.parts.copy_into(&mut out);
                    let before = conn.out.bytes.len();
                    let seen = std::mem::take(&mut conn.seen);
                    self.gate(conn, before, &seen);
                    conn.out.bytes.append(&mut out);
                    conn.closing |= matches!(flow, Flow::Close);
                    self.meter.exact(command, args, &conn.session.client, self.engine.now(), conn.spent);
                    if self.meter.heat.is_on() {
                        let bytes_out = conn.out.bytes.len().saturating_sub(before) as u64;
                        let cost = Cost { nanos: conn.spent, bytes_in: request_bytes(args), bytes_out };
                        self.tell_heat(conn, command, args, (OneSlot::None, 0), cost);
                    }
                    self.ran(conn, node, command, args, db, before);
                    conn.start += std::mem::take(&mut conn.suspended);
                    conn.note_command();
                }
            }
        }
        conn.query = query;
    }
}
