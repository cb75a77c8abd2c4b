//! The end of a link that executes: virtual connections, whose commands come out of frames and whose replies go into
//! frames.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ::membership::items::{Item, Principal};
use resp::Protocol;

use super::Role;
use super::frames::Stage;
use super::kinds::Kind;
use super::merge::Merge;
use super::origin::Broken;
use super::peers::{Peers, give_back};
use super::port::{Forwarding, Port};
use super::role::{Inbound, Virtual};
use crate::admission::rights::User;
use crate::client::{Client, Peer};
use crate::session::Session;
use crate::table::Command;
use crate::worker::Token;
use crate::worker::conn::Conn;
use crate::worker::outgoing::Outgoing;

/// Most virtual connections over one link.
const LINES_MAX: u32 = 1 << 20;
/// Bytes of a virtual connection's output that are under way at most.
const WINDOW: usize = 1 << 20;
/// Most bytes of invalidations that wait for a client to read: a client that reads too slowly forgets everything.
const NEWS_MAX: usize = 1 << 20;
/// Bytes to send over a link above which the output of virtual connections waits.
const LINK_MAX: usize = 4 << 20;

impl Conn {
    /// Notes that a command was executed, if it is a virtual connection. Returns whether it is.
    #[inline]
    pub(crate) fn note_command(&mut self) -> bool {
        let Role::Virtual(line) = &mut self.role else { return false };
        line.is_replying = true;
        self.note_end();
        true
    }

    /// Notes that the last command of a virtual connection will be executed again: its empty reply does not count.
    pub(crate) fn note_unread(&mut self) {
        if let Role::Virtual(line) = &mut self.role {
            line.is_replying = false;
        }
    }

    /// Notes where the reply of the last command ends, if it does.
    #[inline]
    pub(crate) fn note_end(&mut self) {
        let (ended, unsent) = (self.has_ended(), self.out.unsent() as u64);
        if let Role::Virtual(line) = &mut self.role
            && line.is_replying
            && ended
        {
            line.is_replying = false;
            line.ends.push_back(line.said + unsent);
        }
    }

    /// Notes that the last `bytes` bytes answer no command of a virtual connection. They count as a reply of their own.
    pub(crate) fn note_news(&mut self, bytes: usize) {
        let unsent = self.out.unsent() as u64;
        let Role::Virtual(line) = &mut self.role else { return };
        line.ends.push_back(line.said + unsent);
        line.news += bytes;
        if line.news > NEWS_MAX {
            // Its node learns that it has gone, and has the client forget everything.
            (self.cut, self.closing) = (true, true);
        }
    }

    /// True if it is a client of this node.
    #[inline]
    pub(crate) fn is_client(&self) -> bool {
        matches!(self.role, Role::Client)
    }

    /// True if it is a client of another node.
    #[inline]
    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self.role, Role::Virtual(_))
    }
}

impl Peers {
    /// True if a command of a virtual connection counts at this node. A client's command counts once: where it runs, or
    /// at the client's node if all nodes run it. Commands of the node itself, such as those that follow a session, do
    /// not count.
    pub(crate) fn counts_here(&self, conn: &Conn, command: &Command) -> bool {
        let Role::Virtual(line) = &conn.role else { return true };
        match self.kinds[command.id] {
            Kind::Keyed | Kind::Patient | Kind::Script | Kind::Scan | Kind::Slot | Kind::Exec => true,
            Kind::Gather(_) => line.is_home,
            Kind::Own if command.name == "wait" => line.is_home,
            _ => false,
        }
    }

    /// True if the slow log may take a command of a virtual connection. It may take all commands that count, and those
    /// that all nodes run, because some nodes may take longer. Only messages come to nodes also without a client's
    /// command.
    pub(crate) fn is_logged_here(&self, conn: &Conn, command: &Command) -> bool {
        let kind = self.kinds[command.id];
        let is_part = matches!(kind, Kind::Gather(merge) if merge != Merge::Receivers);
        is_part || self.counts_here(conn, command)
    }
}

impl<P: Port> Forwarding<'_, P> {
    /// Takes an item of the origin of a link.
    pub(crate) fn hear_origin(&mut self, link: Token, inbound: &mut Inbound, item: &Item<'_>) -> Result<(), Broken> {
        if inbound.has_left {
            // It was sent before the other end knew that.
            return Ok(());
        }
        match *item {
            Item::Open { vc, client, db, protocol } => self.open_line(link, inbound, vc, client, db, protocol),
            Item::Commands { vc, epoch, bytes } => {
                if let Some(token) = inbound.line(vc) {
                    self.feed(token, epoch, bytes);
                }
                Ok(())
            }
            Item::Credit { vc, bytes } => {
                let Some(token) = inbound.line(vc) else { return Ok(()) };
                let Some(conn) = self.conn(token) else { return Ok(()) };
                conn.in_flight = conn.in_flight.saturating_sub(bytes as usize);
                self.mark_dirty(token);
                self.port.look_at_stall(token);
                Ok(())
            }
            Item::Unblock { vc, with_error } => {
                let Some(token) = inbound.line(vc) else { return Ok(()) };
                let wait = self.conn(token).and_then(|conn| conn.session.client.seat.interrupt());
                let yes = wait.is_some();
                if let Some(wait) = wait {
                    self.port.unblock(token, &wait, with_error);
                }
                inbound.stage.put(&Item::Unblocked { vc, yes });
                self.note_staged(link, inbound);
                Ok(())
            }
            Item::Close { vc } => {
                if let Some(token) = inbound.lines.get_mut(vc as usize).and_then(Option::take) {
                    self.port.closed(token);
                    inbound.stage.put(&Item::Closed { vc });
                    self.note_staged(link, inbound);
                }
                Ok(())
            }
            Item::Principal { vc, principal } => self.take_principal(inbound.line(vc), principal),
            Item::For { vc, client, caches } => {
                inbound.next_for = Some((vc, client, caches));
                Ok(())
            }
            _ => Err("what only an owner says".into()),
        }
    }

    /// Sets the user of the further commands of a virtual connection.
    fn take_principal(&mut self, line: Option<Token>, principal: Principal) -> Result<(), Broken> {
        let Some(conn) = line.and_then(|token| self.conn(token)).filter(|conn| !conn.closing) else { return Ok(()) };
        // A client that becomes another user is owed nothing: so no command is judged by the rights of another user.
        let is_owed = conn.unread() > 0 || !conn.wait.is_over();
        if is_owed && principal.user != conn.session.user.principal.user {
            return Err("another user of commands that have not run".into());
        }
        conn.session.user = User::new(principal);
        Ok(())
    }

    /// Tells the origin that nothing more is executed for its clients than was answered.
    pub(crate) fn say_leaving(&mut self, link: Token, inbound: &mut Inbound) {
        inbound.has_left = true;
        inbound.stage.put(&Item::Leaving);
        self.note_staged(link, inbound);
    }

    fn note_staged(&mut self, link: Token, inbound: &mut Inbound) {
        if !std::mem::replace(&mut inbound.is_staged, true) {
            self.peers().staged.push(link);
        }
    }

    fn open_line(
        &mut self,
        link: Token,
        inbound: &mut Inbound,
        vc: u32,
        client: u64,
        db: u16,
        protocol: u8,
    ) -> Result<(), Broken> {
        if vc >= LINES_MAX || inbound.line(vc).is_some() {
            return Err("a virtual connection that is open already".into());
        }
        let (token, name) = (self.port.reserve_token(), client);
        let is_home = inbound.partner.is_some();
        let known = is_home.then(|| self.node().clients().get(&client).map(|client| client.peer.clone())).flatten();
        let peer = known.unwrap_or_else(|| Peer { address: format!("{}:{client}", inbound.peer), ..Peer::default() });
        let client = Client::new(self.node().next_client_id(), peer, self.engine().now(), self.index() as u16, token);
        let mut session = Session::new(Arc::new(client), true);
        if name == 0 {
            // The other node itself. It is no user, whatever `default` may do.
            session.user = User::NODE;
        }
        let sound = set(&mut session, db, protocol, self.settings().databases);
        let line = Virtual {
            link,
            vc,
            client: name,
            is_home,
            epoch: 0,
            said: 0,
            ends: VecDeque::new(),
            is_replying: false,
            lengths: Vec::new(),
            news: 0,
        };
        self.port.install(token, session, Role::Virtual(Box::new(line)));
        let index = vc as usize;
        if inbound.lines.len() <= index {
            inbound.lines.resize(index + 1, None);
        }
        inbound.lines[index] = Some(token);
        sound
    }

    /// Takes commands for a virtual connection.
    fn feed(&mut self, token: Token, epoch: u64, bytes: &[u8]) {
        let limit = self.settings().client_query_buffer_limit;
        let now = self.engine().now();
        if let Some(query) = self.port.room(token, bytes.len()) {
            query.extend_from_slice(bytes);
        }
        let Some(conn) = self.conn(token) else { return };
        if let Role::Virtual(line) = &mut conn.role {
            line.epoch = epoch;
        }
        conn.session.client.last_active.store(now.0, Relaxed);
        if conn.unread() as u64 > limit {
            return self.port.overrun(token);
        }
        if conn.is_free() && !conn.queued {
            conn.queued = true;
            self.port.queue(token);
        }
    }

    /// Puts the output of virtual connections into frames.
    pub(crate) fn speak(&mut self) {
        let peers = self.peers();
        let mut speaking = std::mem::take(&mut peers.speaking);
        for token in speaking.drain(..) {
            self.port.release(token);
            let Some(mut conn) = self.take_conn(token) else { continue };
            conn.dirty = false;
            if self.speak_for(&mut conn) {
                self.port.dispose(conn);
            } else {
                self.put_conn(conn);
            }
        }
        give_back(&mut self.peers().speaking, speaking);
    }

    /// Puts the output of a virtual connection into frames. True: it was closed.
    fn speak_for(&mut self, conn: &mut Conn) -> bool {
        conn.note_end();
        let sendable = conn.out.sendable().min(WINDOW.saturating_sub(conn.in_flight));
        let (closing, cut) = (conn.closing, conn.cut);
        let is_over = |out: &Outgoing| closing && (cut || out.is_done());
        let was_over = is_over(&conn.out);
        let Role::Virtual(line) = &mut conn.role else { return false };
        let Some((end, engine, peers)) = self.port.split(line.link) else { return true };
        let Conn { role: Role::Owner(inbound), out, in_flight, .. } = end else { return true };
        let unsaid = inbound.stage.len() + out.unsent() + *in_flight;
        if unsaid > LINK_MAX && inbound.partner.is_none() && !was_over {
            // Checked again in the next turn, which comes when a part was sent.
            conn.dirty = true;
            peers.speaking.push(conn.token);
            return false;
        }
        let mut left = if cut { 0 } else { sendable };
        while left > 0 {
            let plain = conn.out.plain();
            let mixed;
            let bytes = if plain.is_empty() {
                mixed = conn.out.next_piece(left.min(Stage::PIECE));
                &mixed[..]
            } else {
                &plain[..plain.len().min(left).min(Stage::PIECE)]
            };
            let n = bytes.len();
            if n == 0 {
                break;
            }
            line.lengths.clear();
            let until = line.said + n as u64;
            while let Some(end) = line.ends.front().copied().filter(|end| *end <= until) {
                line.ends.pop_front();
                line.lengths.push((end - line.said) as u32);
                line.said = end;
            }
            line.said = until;
            inbound.stage.replies(line.vc, &line.lengths, bytes);
            let local = engine.local();
            conn.out.advance(n, |part| local.let_go(part));
            conn.in_flight += n;
            left -= n;
        }
        // No other call comes when the last of it was sent.
        let done = is_over(&conn.out);
        if done {
            inbound.stage.put(&Item::Closed { vc: line.vc });
            inbound.lines[line.vc as usize] = None;
        }
        let staged = !inbound.stage.is_empty() && !std::mem::replace(&mut inbound.is_staged, true);
        if staged {
            peers.staged.push(line.link);
        }
        if conn.out.is_done() {
            line.news = 0;
            let out = conn.out.take();
            self.port.recycle(out);
        } else {
            conn.out.compact(0);
        }
        done
    }

    /// A link has ended: its virtual connections end, too.
    pub(crate) fn owner_ended(&mut self, inbound: &Inbound) {
        for token in inbound.lines() {
            self.port.closed(token);
        }
    }
}

fn set(session: &mut Session, db: u16, protocol: u8, databases: u16) -> Result<(), Broken> {
    if db >= databases {
        return Err("a database that there is not: `databases` must be the same everywhere".into());
    }
    session.set_db(db);
    session.set_protocol(if protocol == 3 { Protocol::Resp3 } else { Protocol::Resp2 });
    Ok(())
}
