//! A server that shuts down executes nothing more, but first answers what it has executed. Replies may wait for the log
//! and for other nodes, and replies over links for more. So its workers go on until they owe no client a reply, but for
//! three seconds at most. Then the remaining clients are closed.
//!
//! Another node learns over a link when all commands that were executed for its clients are answered. So it knows that
//! the others were not executed.

use engine::Ending;

use crate::cluster::Role;
use crate::worker::conn::Conn;
use crate::worker::{Token, Worker};

/// Milliseconds for which a worker goes on.
const LEAVING_MS: u64 = 3_000;

impl Worker {
    /// True if the node shuts down and the worker has done its part: its driver then closes all connections and ends.
    /// To be called between two turns.
    pub fn has_left(&mut self) -> bool {
        self.node.is_stopping() && self.leave()
    }

    /// True if nothing is executed any more.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaves_at.is_some()
    }

    #[cold]
    fn leave(&mut self) -> bool {
        let now = self.node.clock.unix_ms();
        let until = *self.leaves_at.get_or_insert(now + LEAVING_MS);
        if self.halted || until <= now {
            return true;
        }
        self.leave_origins();
        let under_way = self.peers.owes() || self.txn.owes();
        !under_way && !self.conns.iter().flatten().any(|conn| conn.is_owed())
    }

    /// Tells the origins of links that nothing more will be done for their clients.
    fn leave_origins(&mut self) {
        let executes = |conn: &&Conn| matches!(&conn.role, Role::Owner(inbound) if inbound.may_leave());
        let links: Vec<Token> =
            self.conns.iter().flatten().map(|conn| &**conn).filter(executes).map(|conn| conn.token).collect();
        for token in links {
            let Some(mut conn) = self.take_conn(token) else { continue };
            if let Role::Owner(inbound) = &mut conn.role
                && inbound.lines().all(|line| self.is_answered(line))
            {
                inbound.take_lines().for_each(|line| self.closed(line));
                self.forwarding().say_leaving(token, inbound);
            }
            self.put_conn(conn);
        }
    }

    /// True if all commands that were executed for a client of another node are answered. Then no more will be.
    fn is_answered(&mut self, token: Token) -> bool {
        let Some(conn) = self.conn(token) else { return true };
        let ended = match conn.wait.blocked() {
            // Unless it is being served.
            Some(blocked) => blocked.leave() != Ending::Coming,
            None => conn.wait.has_not_begun(),
        };
        ended && conn.unsent() == 0
    }
}

impl Conn {
    /// True if some connection is owed bytes, or is about to be.
    fn is_owed(&self) -> bool {
        let waits_elsewhere = || self.session.client.waits_elsewhere.load(std::sync::atomic::Ordering::Relaxed);
        match &self.role {
            Role::Client => self.owed() > 0 || self.out.has_holes() && !waits_elsewhere(),
            Role::Virtual(_) => self.unsent() > 0,
            Role::Origin(_) => self.owed() > 0,
            // The other end closes it when it hears that this one leaves.
            Role::Owner(inbound) => self.owed() > 0 || inbound.partner.is_none(),
        }
    }
}
