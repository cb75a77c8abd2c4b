//! Clients that send nothing more while a command of theirs waits, because they have closed their connections.
//!
//! The end of a stream does not say whether the client still reads: some send commands, end the stream, and read the replies. So a wait that is short ends as
//! ever. A command whose wait lasts for longer than a moment is given up with its connection, as its client has most likely gone. Waits that last as long as a
//! client says (CLIENT PAUSE, WAITAOF) are given up at once, as Redis does it.

use crate::worker::Worker;
use crate::worker::conn::{Conn, Wait};
use crate::worker::waiting::Progress;

/// How long a wait goes on when its client sends nothing more, in milliseconds.
const MOMENT_MS: u64 = 300;

fn progress(conn: &Conn) -> Progress {
    (conn.unread(), conn.out.holes())
}

impl Worker {
    /// The client of this connection sends nothing more, and it does not end now.
    pub(crate) fn watch_leaver(&mut self, conn: &mut Conn) {
        if let Wait::Pause | Wait::Sync(..) = conn.wait {
            self.end_wait(conn);
            self.end_session(conn);
        }
        if conn.closing && conn.out.is_done() {
            return;
        }
        let progress = progress(conn);
        if conn.left_at.replace(progress) != Some(progress) {
            self.leavers.0.push_back((self.engine.now() + MOMENT_MS, conn.token, progress));
        }
    }

    /// Gives up what has waited for longer than a moment for clients that send nothing more.
    pub(crate) fn look_at_leavers(&mut self, now: u64) {
        while let Some((at, token, before)) = self.leavers.0.front().copied() {
            if at > now {
                break;
            }
            self.leavers.0.pop_front();
            let Some(mut conn) = self.take_conn(token) else { continue };
            if progress(&conn) != before {
                self.watch_leaver(&mut conn);
                self.put_conn(conn);
                continue;
            }
            self.node.dismiss(conn.session.client.id);
            let gives_up = match conn.wait {
                // As in Redis, they run to their end. Replies go out as far as the client reads: if it does not, its system says so.
                Wait::Script(_) | Wait::Walk(_) => false,
                // Nothing is left to be executed: what was answered waits for the log, or for the client, or for other nodes.
                Wait::No => conn.out.has_holes(),
                _ => true,
            };
            self.put_conn(conn);
            if gives_up {
                self.cut_off(token);
            }
        }
    }
}
