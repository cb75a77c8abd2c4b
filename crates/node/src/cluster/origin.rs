//! The input of links: frames, and the answers of owners to the node that has forwarded commands.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ::membership::frame::{self, Kind};
use ::membership::items::{Item, Lengths, items};
use clocks::UnixMs;
use keyspace::Version;
use resp::Reply;

use super::Role;
use super::peers::give_back;
use super::port::{Forwarding, Port};
use super::remote::{Expect, Remote};
use super::verdict::{Question, Verdict};
use crate::figures::stats::sub;
use crate::push::notice::News;
use crate::worker::Token;
use crate::worker::conn::Conn;
use crate::worker::transfer::output_limit;
use crate::worker::wait::{NodeWait, Wait};

/// Bytes of replies that are acknowledged to the owner at a time.
const ACKNOWLEDGED: usize = 64 * 1024;
/// Bytes that a client has not read, or that are kept for it, above which owners get no further acknowledgement for it.
const AHEAD: usize = 1 << 20;
/// Between two looks at whether another node has decided, in milliseconds.
const VERDICT_LOOK_MS: u64 = 2;
/// Bytes of the buffer of a link that are kept.
const QUERY_KEPT: usize = 1 << 20;

/// The reason why a link cannot go on.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

impl From<&str> for Broken {
    fn from(why: &str) -> Self {
        Self(why.into())
    }
}

const AHEAD_OF_TIME: &str = "a timestamp more than a day ahead: do the clocks of all nodes agree?";
const UNKNOWN: &str = "a virtual connection that there is not";
const UNASKED: &str = "a reply that nobody waits for";

impl<P: Port> Forwarding<'_, P> {
    /// Notes that a link has received bytes.
    pub(crate) fn note_heard(&mut self, token: Token) {
        let Some(conn) = self.conn(token) else { return };
        if !std::mem::replace(&mut conn.queued, true) {
            self.peers().heard.push(token);
        }
    }

    /// Takes the bytes that links have received.
    pub(crate) fn hear(&mut self) {
        let peers = self.peers();
        let mut heard = std::mem::take(&mut peers.heard);
        for token in heard.drain(..) {
            let Some(mut conn) = self.take_conn(token) else { continue };
            conn.queued = false;
            if let Role::Origin(link) = &conn.role {
                self.peers().links[*link].probe.heard();
            }
            let result = self.hear_from(&mut conn);
            let has_left = self.owner_has_left(&conn.role);
            self.port.look_at_thirst(&mut conn);
            self.put_conn(conn);
            if let Err(why) = result {
                tracing::error!(why = why.0, "a link to another node is closed");
                self.cut(token);
            } else if has_left {
                self.cut(token);
            }
        }
        give_back(&mut self.peers().heard, heard);
    }

    /// True if this end of a link forwards, and the other end executes nothing any more.
    fn owner_has_left(&mut self, role: &Role) -> bool {
        matches!(role, Role::Origin(link) if self.peers().links[*link].leaves)
    }

    fn hear_from(&mut self, conn: &mut Conn) -> Result<(), Broken> {
        let query = std::mem::take(&mut conn.query);
        let mut result = Ok(());
        while result.is_ok() && !conn.closing {
            let frame = match frame::read(&query[conn.start..]) {
                Ok(None) => break,
                Ok(Some(frame)) => frame,
                Err(damaged) => {
                    result = Err(Broken(damaged.to_string()));
                    break;
                }
            };
            result = match frame.kind {
                Kind::Data => self.hear_frame(conn, frame.body),
                Kind::Transactions => self.transactions().hear(&mut conn.role, frame.body),
                _ => Err("a frame that belongs on another link".into()),
            };
            conn.start += frame.size;
        }
        conn.query = query;
        if conn.start == conn.query.len() {
            conn.query.clear();
            conn.query.shrink_to(QUERY_KEPT);
            conn.start = 0;
        } else if conn.start > conn.query.len() / 2 {
            conn.query.drain(..conn.start);
            conn.start = 0;
        }
        result
    }

    fn hear_frame(&mut self, conn: &mut Conn, body: &[u8]) -> Result<(), Broken> {
        for item in items(body) {
            let item = item.map_err(|malformed| Broken(malformed.to_string()))?;
            if let Item::Clock { lsn } = item {
                if !self.engine().hear_of(Version(lsn)) {
                    return Err(AHEAD_OF_TIME.into());
                }
                continue;
            }
            match &mut conn.role {
                Role::Origin(link) => self.hear_owner(*link, &item)?,
                Role::Owner(inbound) => self.hear_origin(conn.token, inbound, &item)?,
                Role::Client | Role::Virtual(_) => return Err("a frame on a connection that is no link".into()),
            }
        }
        Ok(())
    }

    /// Takes an item of an owner.
    fn hear_owner(&mut self, link: usize, item: &Item<'_>) -> Result<(), Broken> {
        let peers = self.peers();
        let out = &mut peers.links[link];
        if let Item::Replies { vc, bytes, .. } = *item
            && let Some(token) = out.waits_for(vc)
        {
            self.transactions().noticed(token, link, vc, bytes.starts_with(b":"));
            return Ok(());
        }
        match *item {
            Item::Replies { vc, lengths, bytes } => match out.client(vc) {
                Ok(Some(token)) => self.hear_replies(token, link, lengths, bytes),
                // Its client has gone, or it has none: the replies are dropped.
                Ok(None) => {
                    out.take_own(vc, bytes.len());
                    Ok(())
                }
                Err(()) => Err(UNKNOWN.into()),
            },
            Item::Unblocked { vc, yes } => {
                let client = out.client(vc).map_err(|()| UNKNOWN)?;
                let remote = client.and_then(|token| self.conn(token)).and_then(|conn| conn.remote.as_deref_mut());
                if let Some(line) = remote.and_then(|remote| remote.line(link)) {
                    line.unblocked(yes);
                }
                Ok(())
            }
            Item::Closed { vc } => {
                if let Some(token) = out.waits_for(vc) {
                    let closed = out.closed(vc).map(|_| ()).map_err(|()| UNKNOWN.into());
                    self.transactions().lose_notice(token, |notice| notice == (link, vc));
                    return closed;
                }
                if let Some(token) = out.closed(vc).map_err(|()| UNKNOWN)? {
                    self.lose_line(token, link, true, true);
                }
                Ok(())
            }
            Item::Leaving => {
                out.leaves = true;
                Ok(())
            }
            _ => Err("what only an origin says".into()),
        }
    }

    fn hear_replies(&mut self, token: Token, link: usize, lengths: Lengths<'_>, bytes: &[u8]) -> Result<(), Broken> {
        let Some(mut conn) = self.take_conn(token) else { return Err(UNKNOWN.into()) };
        self.port.ensure_out(&mut conn);
        let result = self.fill(&mut conn, link, lengths, bytes);
        conn.out.settle();
        self.look_at_answers(&mut conn, link);
        self.put_conn(conn);
        self.mark_dirty(token);
        result
    }

    fn fill(&mut self, conn: &mut Conn, link: usize, lengths: Lengths<'_>, bytes: &[u8]) -> Result<(), Broken> {
        let mut rest = bytes;
        for length in lengths.iter() {
            let (reply, later) = rest.split_at_checked(length).ok_or("replies longer than their bytes")?;
            rest = later;
            let line = conn.remote.as_deref_mut().and_then(|remote| remote.line(link)).ok_or(UNASKED)?;
            let is_sent_back = line.takes_back(reply);
            line.has_begun = false;
            let back = is_sent_back.then(|| std::mem::take(&mut line.sent_back));
            if let Some(news) = back.as_deref().and_then(News::heard) {
                let last = line.last;
                news.into_iter().for_each(|news| self.port.tell_behind(conn, news, last));
                continue;
            }
            let expect = line.expected.pop_front().ok_or(UNASKED)?;
            line.last = expect.hole().or(line.last);
            if let (Expect::Hole(owed), None) = (expect, &back) {
                conn.out.put(owed.hole, owed.part(reply), true);
                continue;
            }
            // The other checks depend on earlier answers.
            conn.out.settle();
            match back {
                Some(reply) => self.take_back(conn, link, expect, &reply),
                None => self.answer(conn, expect, reply, true),
            }
        }
        let line = conn.remote.as_deref_mut().and_then(|remote| remote.line(link)).ok_or(UNASKED)?;
        line.unacknowledged += bytes.len();
        if !rest.is_empty() {
            // The beginning of a long reply.
            let is_sent_back = line.takes_back(rest);
            line.has_begun = true;
            if !is_sent_back {
                let expect = *line.expected.front().ok_or(UNASKED)?;
                self.answer(conn, expect, rest, false);
            }
        }
        Ok(())
    }

    /// Takes a reply for a connection, or, if it is not `whole`, a part of it.
    pub(crate) fn answer(&mut self, conn: &mut Conn, expect: Expect, reply: &[u8], whole: bool) {
        match expect {
            Expect::Hole(owed) => conn.out.fill(owed.hole, owed.part(reply), whole),
            Expect::Script(owed) => self.answer_script(conn, owed, reply, whole),
            Expect::Block(owed, db) => {
                if self.block_goes_over(conn, owed, reply) {
                    return;
                }
                if let Some(db) = db
                    && let Some(remote) = conn.remote.as_deref_mut()
                    && remote.has_run(reply, whole) == Some(true)
                {
                    conn.session.set_db(db);
                }
                conn.out.fill(owed.hole, owed.part(reply), whole);
            }
            Expect::Watch(owed, link, before) => {
                note_watch(conn, link, before, reply);
                conn.out.fill(owed.hole, owed.part(reply), whole);
            }
            Expect::WatchPart(part, link, before) => {
                note_watch(conn, link, before, reply);
                self.gather(conn, part, reply, whole);
            }
            Expect::Nothing => {}
            Expect::Heard(link, again) => self.hears_everything(conn, link, again, reply),
            Expect::Part(part) => self.gather(conn, part, reply, whole),
        }
    }

    /// Replies have come for a connection over a link: resumes what can go on.
    pub(crate) fn look_at_answers(&mut self, conn: &mut Conn, link: usize) {
        conn.show_output();
        let (limit, now) = (output_limit(conn, self.settings()), self.engine().now());
        self.port.check_output_limit(conn, limit, now);
        self.acknowledge(conn);
        let holes = conn.out.holes();
        if !conn.pushes.is_empty() {
            self.port.flush_pushes(conn);
        }
        if holes == 0 {
            conn.over_nodes = false;
            conn.remote.iter_mut().for_each(|remote| remote.forwarded = 0);
        }
        match conn.wait {
            Wait::Node(NodeWait::Replies(most)) if holes <= most => conn.wait = Wait::No,
            Wait::Node(NodeWait::Answer(over)) if over == link => {
                let waits =
                    |conn: &mut Conn| conn.remote.as_deref_mut()?.line(link).map(|line| !line.expected.is_empty());
                if waits(conn) == Some(true) {
                    return;
                }
                conn.wait = Wait::No;
                self.count_unblocked(conn);
            }
            _ => return,
        }
        if conn.ended && conn.unread() == 0 {
            conn.closing = true;
        } else if !std::mem::replace(&mut conn.queued, true) {
            self.port.queue(conn.token);
        }
    }

    /// Makes CLIENT UNBLOCK wait, whose client waits for another node.
    pub(crate) fn await_verdict(&mut self, conn: &mut Conn, verdict: Arc<Verdict>) {
        conn.wait = Wait::Node(NodeWait::Verdict(verdict));
        let at = self.engine().now() + VERDICT_LOOK_MS;
        self.port.wake_at(at, conn.token);
    }

    /// Looks at a wait for other nodes, whose time may be over.
    pub(crate) fn look_at_nodes(&mut self, token: Token, now: UnixMs) {
        let Some(Wait::Node(wait)) = self.conn(token).map(|conn| &conn.wait) else { return };
        match wait {
            NodeWait::Verdict(verdict) => match verdict.get() {
                Some(yes) => self.answer_verdict(token, yes),
                None => self.port.wake_at(now + VERDICT_LOOK_MS, token),
            },
            NodeWait::Map => self.resume_from_map(token),
            NodeWait::Replies(_) => self.transactions().look_at_wait(token, now),
            NodeWait::Link | NodeWait::Answer(_) => {}
        }
    }

    fn answer_verdict(&mut self, token: Token, yes: bool) {
        let Some(mut conn) = self.take_conn(token) else { return };
        conn.wait = Wait::No;
        self.port.ensure_out(&mut conn);
        let before = conn.out.bytes.len();
        Reply::new(&mut conn.out.bytes, conn.session.protocol).integer(yes.into());
        self.port.apply_reply_mode(&mut conn, before);
        self.put_conn(conn);
        self.mark_dirty(token);
        self.port.resume(token);
    }

    /// Ends the wait of a connection for other nodes.
    pub(crate) fn leave_answers(&self, conn: &Conn, wait: &NodeWait) {
        if let NodeWait::Replies(_) | NodeWait::Answer(_) = wait {
            self.count_unblocked(conn);
        }
    }

    /// Notes that a connection no longer waits for another node, if it did.
    pub(crate) fn count_unblocked(&self, conn: &Conn) {
        conn.session.client.waits_elsewhere.store(false, Relaxed);
        if conn.session.client.blocked.swap(false, Relaxed) {
            sub(&self.stats().blocked, 1);
        }
    }

    /// Acknowledges replies to owners: of the next reply as far as the client reads, of others as far as they are kept.
    pub(crate) fn acknowledge(&mut self, conn: &mut Conn) {
        let ready = conn.out.sendable() + conn.in_flight;
        let (next, kept) = (conn.out.next_hole(), conn.out.kept());
        let Some(remote) = conn.remote.as_deref_mut() else { return };
        for (link, line) in remote.lines.iter_mut().enumerate() {
            let Some(line) = line.as_mut().filter(|line| line.unacknowledged >= ACKNOWLEDGED) else { continue };
            let ahead = match line.expected.front() {
                Some(expect) => match expect.hole() {
                    Some(hole) if Some(hole) != next => kept,
                    Some(_) => ready,
                    None => 0,
                },
                None => ready,
            };
            if ahead > AHEAD {
                continue;
            }
            let bytes = std::mem::take(&mut line.unacknowledged) as u32;
            self.peers().links[link].stage.put(&Item::Credit { vc: line.vc, bytes });
        }
    }

    /// Notes that a client with commands at other nodes has read something.
    pub(crate) fn look_at_debts(&mut self, token: Token) {
        let has_debts = |remote: &Remote| remote.lines.iter().flatten().any(|line| line.unacknowledged >= ACKNOWLEDGED);
        if self.conn(token).and_then(|conn| conn.remote.as_deref()).is_some_and(has_debts)
            && let Some(mut conn) = self.take_conn(token)
        {
            self.acknowledge(&mut conn);
            self.put_conn(conn);
        }
    }

    /// A client that waits for keys of another node sends nothing more. It is given up, as a client that waits here,
    /// and no element is taken for it any more.
    pub(crate) fn leave_wait_elsewhere(&mut self, conn: &mut Conn, link: usize) {
        let Some(remote) = conn.remote.as_deref_mut() else { return };
        let Some(line) = remote.lines.get_mut(link).and_then(Option::take) else { return };
        self.peers().links[link].close(line.vc);
        for expect in line.expected {
            if let Expect::Hole(owed) = expect {
                conn.out.fill(owed.hole, &[], true);
            }
        }
        conn.wait = Wait::No;
        self.count_unblocked(conn);
        self.port.end_session(conn);
    }

    /// A client has gone: its virtual connections are closed.
    pub(crate) fn leave_nodes(&mut self, conn: &mut Conn) {
        let Some(remote) = conn.remote.take() else { return };
        for (link, line) in remote.lines.into_iter().enumerate() {
            if let Some(line) = line {
                self.peers().links[link].close(line.vc);
            }
        }
    }

    /// Asks the owner to end the wait of a client there.
    pub(crate) fn unblock_elsewhere(&mut self, token: Token, with_error: bool, question: Question) {
        let Some(conn) = self.conn(token) else { return };
        if conn.wait.is_for_replies() {
            return question.answer(self.transactions().unblock(token, with_error));
        }
        let Some(link) = conn.wait.link_to_answer() else { return };
        let Some(line) = conn.remote.as_deref_mut().and_then(|remote| remote.line(link)) else { return };
        line.questions.push_back(question);
        let vc = line.vc;
        self.peers().links[link].stage.put(&Item::Unblock { vc, with_error });
    }
}

/// A WATCH over a link was answered; `before` keys were watched there before it.
fn note_watch(conn: &mut Conn, link: usize, before: usize, reply: &[u8]) {
    // A refused WATCH watches nothing, and must not break the next block.
    let kept = if reply.first() == Some(&b'-') { before } else { usize::MAX };
    keep_watched(conn, link, kept);
}

/// Drops watched keys of a connection over a link, except the first ones.
pub(crate) fn keep_watched(conn: &mut Conn, link: usize, kept: usize) {
    if let Some(line) = conn.remote.as_deref_mut().and_then(|remote| remote.line(link)) {
        line.watched.truncate(kept);
        line.watches = !line.watched.is_empty();
    }
}
