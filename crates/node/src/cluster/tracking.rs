//! Client-side caching over nodes: the owners of keys remember which clients have read them, and report changes.
//!
//! A client's virtual connections track as the client does. Their invalidations go into their output, among the
//! replies, in the order in which things happened. So they come over the link behind the replies that they are about,
//! and are written to the client right behind the last of them. Reads of a transaction over nodes are remembered by its
//! parts, whose replies come another way: its client hears of changes behind the reply of the whole.
//!
//! Whenever changes may have been missed, the client forgets everything: when a virtual connection has ended, slots
//! have another owner, a node has begun another life, or this node has had no lease for long. In BCAST mode a client
//! has a virtual connection at every node.

use std::sync::Arc;

use ::membership::items::Item;
use ::membership::{Map, NodeId, Slot};
use command::flags;
use engine::Caller;
use resp::append_request;
use txn::Part;

use super::kinds::Kind;
use super::merge::Merge;
use super::peers::HOME;
use super::port::{Forwarding, Port};
use super::remote::Expect;
use crate::push::notice::News;
use crate::session::{Multi, Replies};
use crate::table::Command;
use crate::transactions::client::For;
use crate::worker::Token;
use crate::worker::conn::Conn;
use crate::worker::next::Next;

/// The question whose answer shows that everything before it was heard.
const QUESTION: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// The owners of slots, with their lives.
fn owners(map: &Map) -> impl Iterator<Item = (Slot, Slot, NodeId, u64)> + '_ {
    let of = |range: &::membership::map::Range| {
        let node = map.node(range.node);
        (range.start, range.end, node.id, node.incarnation)
    };
    map.ranges().iter().map(of)
}

impl<P: Port> Forwarding<'_, P> {
    /// Clients of this worker that cache, and have not gone.
    fn trackers(&self) -> Vec<Token> {
        let tracks = |conn: &&Conn| conn.session.tracking.is_some() && conn.is_client() && !conn.closing;
        self.port.conns().filter(tracks).map(|conn| conn.token).collect()
    }

    /// Makes all clients that cache forget everything.
    pub(crate) fn flush_trackers(&mut self) {
        for token in self.trackers() {
            let Some(mut conn) = self.take_conn(token) else { continue };
            self.port.flush_client(&mut conn);
            self.put_conn(conn);
            self.mark_dirty(token);
        }
    }

    /// The map has changed. The former owner of a slot reports no more changes, so clients forget everything.
    pub(crate) fn flush_for_map(&mut self, before: &Arc<Map>) {
        if self.node().trackers.count() == 0 {
            return;
        }
        let peers = self.peers();
        if !owners(before).eq(owners(&peers.map)) {
            self.flush_trackers();
        }
        for token in self.trackers() {
            let Some(mut conn) = self.take_conn(token) else { continue };
            self.hear_all(&mut conn, true);
            self.put_conn(conn);
        }
    }

    /// The session of a connection tracks in another way than before its command, which has answered from `start` on.
    pub(crate) fn track_over_nodes(&mut self, conn: &mut Conn, command: &Command, start: usize) -> Next {
        conn.session.tracks_anew = false;
        if !conn.is_client() {
            return Next::Continue;
        }
        let mode = conn.session.tracking_mode();
        let lines = conn.remote.as_deref_mut().map(|remote| remote.lines.iter_mut().enumerate());
        let followed: Vec<usize> = lines
            .into_iter()
            .flatten()
            .filter_map(|(link, line)| Some((link, line.as_mut()?)))
            .filter(|(_, line)| line.tracking.is_on() && line.tracking != mode)
            .map(|(link, line)| {
                line.is_heard = false;
                link
            })
            .collect();
        for link in followed {
            self.line_over(conn, link);
        }
        let unheard = self.unheard(conn, true);
        if command.name != "client|tracking" || unheard.is_empty() || conn.session.replies != Replies::On {
            self.hear_all(conn, true);
            return Next::Continue;
        }
        // It is done when all nodes know of it: from then on the client misses nothing.
        conn.out.truncate(start);
        self.begin_gathering(conn, Merge::Done, unheard.len());
        let questions = [QUESTION, QUESTION].concat();
        for (part, link) in unheard.into_iter().enumerate() {
            self.ask(conn, link, None, &questions, [Expect::Heard(link, false), Expect::Part(part)]);
        }
        Next::Stop
    }

    /// Links to nodes that do not broadcast to a client in BCAST mode. Nodes that are being asked count only if the
    /// client asks `anew`.
    fn unheard(&mut self, conn: &mut Conn, anew: bool) -> Vec<usize> {
        let moves = conn.session.moves(self.settings().cluster_redirect);
        let peers = self.peers();
        // A client that finds nodes by itself hears from each node about that node's keys.
        if !conn.session.tracking_mode().broadcasts() || moves {
            return Vec::new();
        }
        let links: Vec<usize> = (0..peers.map.nodes().len() as u16).map(|node| peers.link_to(node)).collect();
        let is_heard = |link: usize| {
            let line = conn.remote.as_deref().and_then(|remote| remote.lines.get(link)?.as_ref());
            let asked = |expect: &Expect| !anew && matches!(expect, Expect::Heard(..));
            line.is_some_and(|line| line.is_heard || line.expected.iter().any(asked))
        };
        links.into_iter().filter(|link| *link != HOME && !is_heard(*link)).collect()
    }

    /// Asks all nodes to broadcast to a client in BCAST mode. `again`: it may have missed something.
    fn hear_all(&mut self, conn: &mut Conn, again: bool) {
        for link in self.unheard(conn, false) {
            // A node out of reach is asked when it is back: see [`Self::hear_all_over`].
            if !self.peers().links[link].is_out_of_reach() {
                self.ask(conn, link, None, QUESTION, [Expect::Heard(link, again)]);
            }
        }
    }

    /// A link is open: the node at its other end is asked to broadcast to clients in BCAST mode.
    pub(crate) fn hear_all_over(&mut self, link: usize) {
        if self.node().trackers.prefixes() == 0 || link == HOME {
            return;
        }
        for token in self.trackers() {
            let Some(mut conn) = self.take_conn(token) else { continue };
            self.hear_all(&mut conn, true);
            self.put_conn(conn);
        }
    }

    /// The node at the other end of a link broadcasts to a client from now on. `again`: the client may have missed
    /// something before.
    pub(crate) fn hears_everything(&mut self, conn: &mut Conn, link: usize, again: bool, reply: &[u8]) {
        let Some(line) = conn.remote.as_deref_mut().and_then(|remote| remote.line(link)) else { return };
        line.is_heard = reply.first() == Some(&b'+');
        if again {
            self.port.flush_client(conn);
        }
    }

    /// A virtual connection that tracked has ended: no node reports changes to its client any more.
    pub(crate) fn lose_news(&mut self, conn: &mut Conn, link: usize, was_open: bool) {
        let token = conn.token;
        self.txn().forget_lines(token, link);
        if was_open {
            self.port.flush_client(conn);
        }
        self.hear_all(conn, true);
    }

    /// Repeats CLIENT CACHING at the other end of a link for the command that goes there next.
    pub(crate) fn say_caching(&mut self, conn: &mut Conn, link: usize) {
        if let Some(word) = conn.session.caching_word() {
            let mut bytes = Vec::new();
            append_request(&mut bytes, &["CLIENT", "CACHING", word]);
            self.ask(conn, link, None, &bytes, [Expect::Nothing]);
        }
    }

    /// Names the client of a block to its parts, while its connection is at hand. Invalidations for the client from now
    /// on come behind its reply.
    pub(crate) fn runs_for(&mut self, conn: &mut Conn, multi: &Multi, parts: &[Part]) -> For {
        if conn.session.tracking.is_none() || !conn.is_client() {
            return For::default();
        }
        let mut caller = conn.session.caller();
        conn.session.end_caching();
        conn.holds_news = true;
        let table = self.node().clone();
        let kinds = &self.peers().kinds;
        let reads = |id: usize| {
            let is_script = kinds[id] == Kind::Script;
            is_script || table.table.get(id).spec.has(flags::READONLY)
        };
        caller.caches &= multi.queue.iter().any(|queued| reads(queued.command));
        let mut runs = For { caller, lines: Vec::new() };
        self.tell_parts(conn, parts, &mut runs);
        runs
    }

    /// A block is about to ask these parts.
    pub(crate) fn tell_parts(&mut self, conn: &mut Conn, parts: &[Part], runs: &mut For) {
        if runs.caller == Caller::default() {
            return;
        }
        for part in parts {
            let link = self.peers().link_to_member(part.member.id);
            let Some(link) = link.filter(|link| *link != HOME) else { continue };
            let vc = self.line_over(conn, link);
            runs.forget(link);
            runs.lines.push((link, vc));
        }
    }

    /// Names the client that the next message of a transaction over a link is for.
    pub(crate) fn say_for_whom(&mut self, sequence: u64, link: usize) {
        let Some((runs, token)) = self.txn().runs_for(sequence) else { return };
        let caller = runs.caller;
        if caller == Caller::default() {
            return;
        }
        let known = runs.lines.iter().find(|(over, _)| *over == link).map(|(_, vc)| *vc);
        let vc = match known {
            Some(vc) => Some(vc),
            None => self.take_conn(token).map(|mut conn| {
                let vc = self.line_over(&mut conn, link);
                self.put_conn(conn);
                vc
            }),
        };
        let Some(vc) = vc else { return };
        if let Some(runs) = self.txn().runs_for_mut(sequence).filter(|_| known.is_none()) {
            runs.lines.push((link, vc));
        }
        self.peers().links[link].stage.put(&Item::For { vc, client: caller.client, caches: caller.caches });
    }

    /// The virtual connection of another node for which a part runs, if it is there.
    pub(crate) fn caller_of(&mut self, token: Option<Token>, client: u64, caches: bool) -> Caller {
        let node = self.node().clone();
        let Some(conn) = token.and_then(|token| self.conn(token)) else { return Caller::default() };
        let is_it = matches!(&conn.role, super::Role::Virtual(line) if line.client == client);
        if !is_it {
            return Caller::default();
        }
        if caches {
            conn.session.track_ahead(&node);
        }
        Caller { client: conn.session.client.id, caches }
    }

    /// The reply to a block is there. If its client caches, it is written when the owners have confirmed that their
    /// earlier invalidations have arrived: the reply came another way. `shown`: keys that a transaction between BEGIN
    /// and COMMIT was shown. False: there is nothing to wait for.
    pub(crate) fn answer_behind_news<'k>(
        &mut self,
        conn: &mut Conn,
        (runs, shown): (&For, impl Iterator<Item = &'k [u8]>),
        hole: (u64, bool),
        reply: &[u8],
    ) -> bool {
        let is_in_transaction = conn.session.transaction.is_some();
        let Some(tracking) = conn.session.tracking.as_deref_mut().filter(|_| conn.holds_news) else { return false };
        if is_in_transaction {
            tracking.transacted.extend(shown.map(Box::from));
        }
        let has_line = |link: &usize| conn.remote.as_deref_mut().is_some_and(|remote| remote.line(*link).is_some());
        let links: Vec<usize> = runs.lines.iter().map(|(link, _)| *link).filter(has_line).collect();
        if links.is_empty() || conn.closing {
            return false;
        }
        self.answer_behind(conn, hole, reply, (&links, QUESTION));
        true
    }

    /// A block is answered, or waits. Invalidations for its client that waited come now.
    pub(crate) fn tell_held_news(&mut self, conn: &mut Conn) {
        if std::mem::take(&mut conn.holds_news) {
            self.port.flush_pushes(conn);
            self.forget_transacted(conn);
        }
    }

    /// If a transaction between BEGIN and COMMIT is over, its client forgets the keys that it was shown in it.
    pub(crate) fn forget_transacted(&mut self, conn: &mut Conn) {
        if conn.session.transaction.is_some() {
            return;
        }
        let Some(tracking) = conn.session.tracking.as_deref_mut() else { return };
        let keys = std::mem::take(&mut tracking.transacted);
        if !keys.is_empty() {
            self.port.tell_behind(conn, News::of(keys.iter().map(|key| &**key)), None);
        }
    }
}
