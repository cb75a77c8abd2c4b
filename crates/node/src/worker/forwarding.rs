//! Links and forwarding as the worker and its driver know them: the one place where they and the worker meet.

use std::sync::Arc;

use ::membership::items::Principal;
use clocks::UnixMs;
use engine::{Blocked, Busy, Engine};

use crate::admission::rights::User;
use crate::cluster::port::{Forwarding, Port};
use crate::cluster::{Dial, Inbound, Peers, Remote, Role};
use crate::config::OutputLimit;
use crate::push::notice::News;
use crate::session::Session;
use crate::table::Command;
use crate::worker::Worker;
use crate::worker::conn::Conn;
use crate::worker::next::Next;
use crate::worker::outgoing::Outgoing;
use crate::worker::token::Token;

impl Worker {
    /// The links of this worker, and what is forwarded over them, to go on with.
    #[inline]
    pub(crate) fn forwarding(&mut self) -> Forwarding<'_, Self> {
        Forwarding::new(self)
    }

    /// The next link to connect. The driver then calls [`Self::link_opened`], and the link is one more connection of
    /// the driver's; or it calls [`Self::closed`].
    pub fn next_dial(&mut self) -> Option<Dial> {
        self.peers.next_dial()
    }

    /// A link that was dialed is connected, and its handshake is done. False: the worker wants it no more.
    #[must_use]
    pub fn link_opened(&mut self, token: Token) -> bool {
        self.forwarding().link_opened(token)
    }

    /// Takes an end of a link that another node, of this name, has dialed. Bytes that came with it are handed over as
    /// for any connection.
    pub fn accept_link(&mut self, from: &str, now: UnixMs) -> Token {
        self.forwarding().add_link_end(now, Role::Owner(Box::new(Inbound::new(from, None))))
    }

    /// Sets the user of the commands of a client of this node from now on. False: there is no such client, or it is
    /// owed replies.
    pub fn set_principal(&mut self, client: Token, principal: Principal) -> bool {
        let Some(conn) = self.conn(client).filter(|conn| conn.is_client()) else { return false };
        if conn.unread() > 0 || !conn.is_free() || conn.remote.as_deref().is_some_and(Remote::is_owed) {
            return false;
        }
        conn.session.user = User::new(principal);
        true
    }

    /// The users of commands of other nodes' clients here: the clients' numbers at their nodes, and the principals.
    pub fn principals(&self) -> impl Iterator<Item = (u64, Principal)> + '_ {
        self.conns.iter().flatten().filter_map(|conn| match &conn.role {
            Role::Virtual(line) if !line.is_home => Some((line.client, conn.session.user.principal)),
            _ => None,
        })
    }
}

impl Port for Worker {
    fn conns(&self) -> impl Iterator<Item = &Conn> {
        self.conns.iter().flatten().map(|conn| &**conn)
    }

    fn reserve_token(&mut self) -> Token {
        Worker::reserve_token(self)
    }

    fn install(&mut self, token: Token, session: Session, role: Role) {
        Worker::install(self, token, session, role);
    }

    fn split(&mut self, token: Token) -> Option<(&mut Conn, &mut Engine, &mut Peers)> {
        let conn = self.conns.get_mut(token as u32 as usize)?.as_deref_mut().filter(|conn| conn.token == token)?;
        Some((conn, &mut self.engine, &mut self.peers))
    }

    fn closed(&mut self, token: Token) {
        Worker::closed(self, token);
    }

    fn dispose(&mut self, conn: Box<Conn>) {
        Worker::dispose(self, conn);
    }

    fn release(&mut self, token: Token) {
        Worker::release(self, token);
    }

    fn recycle(&mut self, out: Outgoing) {
        Worker::recycle(self, out);
    }

    fn room(&mut self, token: Token, least: usize) -> Option<&mut Vec<u8>> {
        Worker::room(self, token, least)
    }

    fn overrun(&mut self, token: Token) {
        Worker::overrun(self, token);
    }

    fn check_output_limit(&mut self, conn: &mut Conn, limit: OutputLimit, now: UnixMs) {
        Worker::check_output_limit(self, conn, limit, now);
    }

    fn look_at_stall(&mut self, token: Token) {
        Worker::look_at_stall(self, token);
    }

    fn look_at_thirst(&mut self, conn: &mut Conn) {
        Worker::look_at_thirst(self, conn);
    }

    #[inline]
    fn queue(&mut self, token: Token) {
        self.ready.push_back(token);
    }

    fn resume(&mut self, token: Token) {
        Worker::resume(self, token);
    }

    fn refuse(&mut self, conn: &mut Conn, command: Option<&Command>, text: &[u8]) {
        Worker::refuse(self, conn, command, text);
    }

    fn drop_block(&mut self, conn: &mut Conn) {
        Worker::drop_block(self, conn);
    }

    fn apply_reply_mode(&mut self, conn: &mut Conn, before: usize) {
        Worker::apply_reply_mode(self, conn, before);
    }

    fn count_ran(&mut self, counted_as: usize) {
        self.meter.ran(counted_as);
    }

    #[inline]
    fn is_monitored(&self) -> bool {
        self.monitored
    }

    fn end_wait(&mut self, conn: &mut Conn) {
        Worker::end_wait(self, conn);
    }

    fn wait_for_latch(&mut self, conn: &mut Conn, command: &Command, busy: &Busy) -> Next {
        Worker::wait_for_latch(self, conn, command, busy)
    }

    fn unblock(&mut self, token: Token, wait: &Arc<Blocked>, with_error: bool) {
        Worker::unblock(self, token, wait, with_error);
    }

    fn flush_client(&mut self, conn: &mut Conn) {
        Worker::flush_client(self, conn);
    }

    fn flush_pushes(&mut self, conn: &mut Conn) {
        Worker::flush_pushes(self, conn);
    }

    fn tell_behind(&mut self, conn: &mut Conn, news: News, hole: Option<u64>) {
        Worker::tell_behind(self, conn, news, hole);
    }
}
