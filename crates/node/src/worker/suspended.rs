//! Commands under way that let others run between their slices: scripts.

use std::sync::Arc;

use resp::{Batch, Decoder, Limits};

use crate::admission::Admitted;
use crate::config::Settings;
use crate::node::Node;
use crate::session::Flow;
use crate::worker::Worker;
use crate::worker::conn::{Conn, Wait};
use crate::worker::execute::{INSISTS, Next};

/// Time for scripts in a turn, in nanoseconds. A script that gets its slice runs until the slice is over, which takes
/// about as long.
const SCRIPTS_NS: u64 = 1_000_000;

impl Worker {
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
            if let Wait::Script(_) = conn.wait {
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
            if let Wait::Script(_) = conn.wait {
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
        let Wait::Script(mut suspended) = std::mem::replace(&mut conn.wait, Wait::No) else { return };
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
            conn.spent += self.meter.settle().saturating_sub(from);
            conn.seen.merge(&self.engine.take_seen());
            match flow {
                Flow::Suspend(suspended) => conn.wait = Wait::Script(suspended),
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
                    self.ran(conn, node, command, args, db, before);
                    conn.start += std::mem::take(&mut conn.suspended);
                    conn.note_command();
                }
            }
        }
        conn.query = query;
    }
}
