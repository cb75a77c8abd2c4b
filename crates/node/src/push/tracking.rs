//! Client-side caching (CLIENT TRACKING): the clients that track, and how an invalidation gets to them.
//!
//! The engine reports which keys have changed, and which clients have read them. A message then goes to the worker of
//! the client, or of the client it redirects to. That worker writes it behind all replies so far: a client that has
//! been given an old value hears of the change after that. A message that finds its connection moved to another worker
//! follows it.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::Invalidation;
use keyspace::Horizon;
use resp::Protocol;

use super::notice::{News, Notice, encode};
use super::tracker::{BROADCAST, NO_LOOP, ON};
use crate::client::Client;
use crate::node::Node;
use crate::worker::Worker;
use crate::worker::conn::Conn;
use crate::worker::message::Message;
use crate::worker::transfer::output_limit;

/// Keys beyond `tracking-table-max-keys` that a worker forgets in a turn.
const FORGOTTEN_PER_TURN: usize = 1000;

impl Node {
    /// The notice with news for `client`: to the client itself, to the client it redirects to, or to itself if that one
    /// is gone.
    pub(crate) fn notice(&self, client: &Client, news: News, seen: Horizon) -> Notice {
        let (token, own) = (client.token.load(Relaxed), client.id);
        let redirect = client.tracker.redirect.load(Relaxed);
        if redirect == 0 {
            return Notice { client: own, token, of: 0, news, seen };
        }
        match self.clients().get(&redirect) {
            Some(target) => Notice { client: redirect, token: target.token.load(Relaxed), of: own, news, seen },
            None => {
                client.tracker.mark_broken();
                Notice { client: own, token, of: 0, news: News::Broken(redirect), seen }
            }
        }
    }
}

impl Worker {
    /// Sends clients the invalidations that are due. `current`: the connection whose command has just ended, or is
    /// about to begin.
    pub(crate) fn tell_trackers(&mut self, mut current: Option<&mut Conn>) {
        let node = self.node.clone();
        let seen = self.engine.everything_seen();
        for invalidation in self.engine.take_invalidated() {
            match invalidation {
                Invalidation::Key { key, by, readers, changed } => {
                    if !readers.is_empty() {
                        let keys = encode(&[&key]);
                        for client in readers.iter().filter_map(|id| node.trackers.get(*id)) {
                            let tracker = &client.tracker;
                            let own = tracker.is(NO_LOOP) && by == client.id;
                            if tracker.is(ON) && !tracker.is(BROADCAST) && !own {
                                let notice = node.notice(&client, News::Keys(keys.clone()), seen.clone());
                                self.tell_client(notice, &mut current);
                            }
                        }
                    }
                    if changed && node.trackers.prefixes() > 0 {
                        self.news.changed_keys.insert(key, by);
                    }
                }
                Invalidation::All => {
                    for client in node.trackers.all() {
                        self.tell_client(node.notice(&client, News::All, seen.clone()), &mut current);
                    }
                }
            }
        }
    }

    /// Tells clients in BCAST mode which keys have changed since the last time: all with a prefix in one message.
    pub(crate) fn broadcast_changes(&mut self) {
        let keys = std::mem::take(&mut self.news.changed_keys);
        let node = self.node.clone();
        let (seen, mut notices) = (self.engine.everything_seen(), Vec::new());
        for (prefix, clients) in node.trackers.by_prefix().iter() {
            let range = keys.range::<[u8], _>((Bound::Included(&**prefix), Bound::Unbounded));
            let changed: Vec<_> = range.take_while(|(key, _)| key.starts_with(prefix)).collect();
            if changed.is_empty() {
                continue;
            }
            let all = encode(&changed.iter().map(|(key, _)| &***key).collect::<Vec<_>>());
            for client in clients.values() {
                let own = |by: u64| client.tracker.is(NO_LOOP) && by == client.id;
                let news = if changed.iter().any(|(_, by)| own(**by)) {
                    let others: Vec<_> = changed.iter().filter(|(_, by)| !own(**by)).map(|(key, _)| &***key).collect();
                    if others.is_empty() {
                        continue;
                    }
                    encode(&others)
                } else {
                    all.clone()
                };
                notices.push(node.notice(client, News::Keys(news), seen.clone()));
            }
        }
        notices.into_iter().for_each(|notice| self.tell_client(notice, &mut None));
    }

    pub(crate) fn tell_client(&mut self, notice: Notice, current: &mut Option<&mut Conn>) {
        if let Some(conn) = current.as_deref_mut().filter(|conn| conn.session.client.id == notice.client) {
            return self.write_notice(conn, notice);
        }
        let here = self.conn(notice.token).is_some_and(|conn| conn.session.client.id == notice.client);
        if here {
            return self.deliver_notice(notice);
        }
        let held = |client: &Arc<Client>| usize::from(client.worker.load(Relaxed)) == self.index;
        match self.node.trackers.get(notice.client).is_some_and(|client| held(&client)) {
            // Its commands that have been read are about to be executed: their replies come behind this.
            true => self.news.in_hand.push(notice),
            false => self.forward(notice),
        }
    }

    /// Sends a connection, which this worker has in hands, the notices that are due before its next command.
    pub(crate) fn tell_in_hand(&mut self, conn: &mut Conn) {
        let id = conn.session.client.id;
        let own = self.news.take_of(id);
        own.into_iter().for_each(|notice| self.write_notice(conn, notice));
        if conn.is_virtual() {
            self.flush_pushes(conn);
        }
    }

    /// Sends notices to the connections that this worker had in hands.
    pub(crate) fn tell_the_rest(&mut self) {
        std::mem::take(&mut self.news.in_hand).into_iter().for_each(|notice| self.deliver_notice(notice));
    }

    /// Sends a notice to the worker that has its client. It is this worker if it has the client in hands, or will hear
    /// that the client has gone.
    fn forward(&mut self, mut notice: Notice) {
        let target = self.node.clients().get(&notice.client).cloned();
        // Clients of other nodes are known here only by what they have read.
        match target.or_else(|| self.node.trackers.get(notice.client)) {
            Some(target) => {
                notice.token = target.token.load(Relaxed);
                let worker = usize::from(target.worker.load(Relaxed));
                self.node.send_from(self.index, worker, Message::Notice(Box::new(notice)));
            }
            None => self.has_gone(&notice),
        }
    }

    /// A client that notices were redirected to has gone: the client that redirects to it is told so.
    fn has_gone(&mut self, notice: &Notice) {
        let origin = self.node.trackers.get(notice.of);
        if let Some(origin) = origin.filter(|o| o.tracker.redirect.load(Relaxed) == notice.client) {
            origin.tracker.mark_broken();
            let token = origin.token.load(Relaxed);
            let news = News::Broken(notice.client);
            self.forward(Notice { client: origin.id, token, of: 0, news, seen: Horizon::default() });
        }
    }

    /// Sends a connection of this worker a notice, or sends the notice after a connection that has moved.
    pub(crate) fn deliver_notice(&mut self, notice: Notice) {
        let Some(mut conn) = self.take_conn(notice.token) else { return self.forward(notice) };
        let token = conn.token;
        if conn.session.client.id != notice.client {
            self.put_conn(conn);
            return self.forward(notice);
        }
        self.write_notice(&mut conn, notice);
        if conn.is_virtual() {
            self.flush_pushes(&mut conn);
        }
        self.put_conn(conn);
        self.mark_dirty(token);
    }

    fn write_notice(&mut self, conn: &mut Conn, notice: Notice) {
        if conn.closing {
            return self.has_gone(&notice);
        }
        let session = &conn.session;
        let listens = notice.of != 0 && session.is_subscribed();
        let protocol = if conn.is_virtual() { Protocol::Resp3 } else { session.protocol };
        let mut bytes = Vec::new();
        notice.news.write(&mut bytes, protocol, listens);
        if conn.holds_news && conn.out.may_write_before_holes() {
            // It may be about a value that the client has, or about one in the reply to come. So it is sent twice.
            let at = conn.out.bytes.len();
            conn.out.insert_behind(None, &bytes);
            self.gate(conn, at, &notice.seen);
        }
        self.push(conn, &bytes, &notice.seen);
    }

    /// Sends a client the news of another node: right behind the last reply of that node so far, which went to the hole
    /// `last`.
    pub(crate) fn tell_behind(&mut self, conn: &mut Conn, news: News, last: Option<u64>) {
        if conn.session.tracking.is_none() || conn.closing {
            // The client has ended tracking meanwhile.
            return;
        }
        let notice = self.node.notice(&conn.session.client, news, Horizon::default());
        if notice.client != conn.session.client.id {
            return self.tell_client(notice, &mut None);
        }
        if conn.is_replying() {
            return self.write_notice(conn, notice);
        }
        self.flush_pushes(conn);
        let mut bytes = Vec::new();
        notice.news.write(&mut bytes, conn.session.protocol, false);
        self.ensure_out(conn);
        conn.out.insert_behind(last, &bytes);
        let limit = output_limit(conn, self.follower.settings());
        self.fed(conn, limit, self.engine.now());
    }

    /// Makes a client forget everything, before and behind the replies that are owed to it: they may be older than the
    /// present.
    pub(crate) fn flush_client(&mut self, conn: &mut Conn) {
        self.tell_behind(conn, News::All, None);
        if !conn.out.has_holes() || conn.session.tracking.is_none() {
            return;
        }
        let notice = self.node.notice(&conn.session.client, News::All, Horizon::default());
        if notice.client == conn.session.client.id {
            let mut bytes = Vec::new();
            notice.news.write(&mut bytes, conn.session.protocol, false);
            conn.out.bytes.extend_from_slice(&bytes);
        }
    }

    /// Writes a message to a client beside its replies: behind the reply that is being written, if there is one.
    pub(crate) fn push(&mut self, conn: &mut Conn, bytes: &[u8], seen: &Horizon) {
        if bytes.is_empty() {
            return;
        }
        self.beside_replies(conn, seen).extend_from_slice(bytes);
        if !conn.pushes.is_empty() && !conn.is_virtual() {
            self.flush_pushes(conn);
        }
        let limit = output_limit(conn, self.follower.settings());
        self.fed(conn, limit, self.engine.now());
    }

    /// Where to write a message beside replies. It leaves when `seen` is committed.
    pub(crate) fn beside_replies<'c>(&mut self, conn: &'c mut Conn, seen: &Horizon) -> &'c mut Vec<u8> {
        if !conn.is_replying() && !conn.is_virtual() && (!conn.out.has_holes() || !conn.out.may_write_before_holes()) {
            // Behind replies to come it is in its place, too: behind those that were written here.
            self.flush_pushes(conn);
            self.ensure_out(conn);
            let at = conn.out.bytes.len();
            self.gate(conn, at, seen);
            return &mut conn.out.bytes;
        }
        if conn.pushes.is_empty() {
            self.news.pushing.push(conn.token);
        }
        conn.pushes_seen.merge(seen);
        &mut conn.pushes
    }

    /// Writes messages that had to wait for the end of a reply.
    pub(crate) fn flush_pushes(&mut self, conn: &mut Conn) {
        if !conn.pushes.is_empty() && !conn.is_replying() {
            self.ensure_out(conn);
            conn.note_end();
            let (at, seen) = (conn.out.bytes.len(), std::mem::take(&mut conn.pushes_seen));
            self.gate(conn, at, &seen);
            if conn.out.may_write_before_holes() {
                conn.out.wrote_before_holes(conn.pushes.len());
            }
            let pushed = conn.pushes.len();
            conn.out.bytes.append(&mut conn.pushes);
            conn.note_news(pushed);
        }
    }

    /// Checks connections whose replies had to come first.
    pub(crate) fn look_at_pushes(&mut self) {
        for token in std::mem::take(&mut self.news.pushing) {
            let Some(mut conn) = self.take_conn(token) else { continue };
            self.flush_pushes(&mut conn);
            if !conn.pushes.is_empty() {
                self.news.pushing.push(token);
            }
            self.put_conn(conn);
            self.mark_dirty(token);
        }
    }

    /// Forgets keys beyond `max` that were read for clients; all of them once no client tracks. A part of them each
    /// turn.
    pub(crate) fn limit_tracked(&mut self, max: u64) {
        let tracking = &self.node.engine.tracking;
        self.news.above_tracked = false;
        if tracking.keys() == 0 {
            return;
        }
        let max = match self.node.trackers.count() {
            0 => 0,
            _ if max == 0 => return,
            _ => max,
        };
        if tracking.keys() > max {
            self.news.above_tracked = !self.engine.forget_reads(max, FORGOTTEN_PER_TURN);
            self.tell_trackers(None);
        }
    }
}

impl Conn {
    /// True if a reply is being written, or is on its way from another worker: messages for the client come behind it.
    fn is_replying(&self) -> bool {
        self.wait.is_being_answered() || self.holds_news
    }
}
