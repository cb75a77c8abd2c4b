//! Clients that close their connections, or send nothing more, while a command of theirs waits.
//!
//! The end of a stream does not say whether the client still reads: some clients send commands, end the stream, and
//! read the replies. So a short wait ends as usual. A command that waits for longer than a moment is given up with its
//! connection, because its client has most likely gone. Waits whose length the client has chosen (CLIENT PAUSE,
//! WAITAOF) are given up at once, as in Redis.

use clocks::UnixMs;

use crate::worker::Worker;
use crate::worker::conn::Conn;
use crate::worker::wait::Wait;
use crate::worker::waiting::Progress;

/// Milliseconds for which a wait goes on when its client sends nothing more.
const MOMENT_MS: u64 = 300;

fn progress(conn: &Conn) -> Progress {
    (conn.unread(), conn.out.holes())
}

impl Worker {
    /// Notes that the client of this connection sends nothing more, while its command waits.
    pub(crate) fn watch_leaver(&mut self, conn: &mut Conn) {
        if conn.wait.lasts_as_told() {
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

    /// Gives up commands that have waited for longer than a moment for clients that send nothing more.
    pub(crate) fn look_at_leavers(&mut self, now: UnixMs) {
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
                // As in Redis, they run to their end. Their replies are sent as long as the client's system takes them.
                Wait::Steps(_) => false,
                // No command is left to be executed: replies wait for the log, for the client, or for other nodes.
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
