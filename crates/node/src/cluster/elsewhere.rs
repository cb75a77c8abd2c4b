//! Commands at a node that does not have their keys, or not yet.
//!
//! Nodes learn of a map one after the other. A node that is behind waits for the map, with the connection's commands
//! unread (`NodeWait::Map`). The owner waits if it gets a command whose keys are not its own yet by its map. The origin
//! waits if the owner says that it no longer owns the keys by a newer map.
//!
//! The owner then answers with the command itself, which it has not executed. The origin runs it again as the next one
//! of its connection, if no later command has been executed; else the command goes to the new owner, and its reply into
//! its old place ([`super::returned`]). Commands that wait for keys whose slots get another owner do the same, at the
//! owner and, through it, at the origin.

use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use command::KeyAt;
use engine::Ending;
use resp::{Args, Protocol, Reply, ReplyDecoder, ReplyLimits, Value};

use super::Peers;
use super::blocks::EXEC;
use super::kinds::Kind;
use super::origin::keep_watched;
use super::peers::slot_of;
use super::port::{Forwarding, Port};
use super::remote::{Expect, Returned};
use super::route::append_args;
use crate::admission::cluster::TRY_AGAIN;
use crate::session::Replies;
use crate::table::Command;
use crate::worker::conn::Conn;
use crate::worker::next::Next;
use crate::worker::wait::{NodeWait, Wait};
use crate::worker::{Token, write_error};

/// Milliseconds that a connection waits for a map: as long as a lease. A node that hears nothing for so long serves
/// nothing.
const MAP_MS: u64 = 2_000;
/// Milliseconds between two looks at a node that is waited for.
const NODE_LOOK_MS: u64 = 50;
/// After a node has had no lease for so many milliseconds, clients that wait for its keys get an error: no client can
/// push anything to them.
const LAPSED_MS: u64 = 3_000;
/// The name of an owner's answer with a command that it has not executed. It is a push, because no command answers one
/// over a link. The version of its map and the command follow.
pub(super) const ELSEWHERE: &str = "elsewhere";

impl<P: Port> Forwarding<'_, P> {
    /// The connection waits for another map, with its command unread. `None`: it has waited for long enough.
    pub(crate) fn wait_for_map(&mut self, conn: &mut Conn) -> Option<Next> {
        let (now, wait_ms) = (self.engine().now(), self.map_ms());
        let (awaited, peers) = (&mut conn.map, self.peers());
        let version = Some(peers.map.version());
        if awaited.in_vain == version {
            return None;
        }
        if awaited.until == UnixMs::ZERO {
            awaited.until = now + wait_ms;
            self.port.wake_at(awaited.until, conn.token);
        } else if awaited.until <= now {
            awaited.in_vain = version;
            return None;
        }
        conn.wait = Wait::Node(NodeWait::Map);
        Some(Next::Retry)
    }

    /// This node may have been stopped or cut off while a shard changed hands: no less than for the takeover itself.
    fn map_ms(&self) -> u64 {
        self.settings().cluster_takeover_wait.max(MAP_MS)
    }

    /// As [`Self::wait_for_map`], for a client whose command was sent back by a map that is newer than the one here.
    /// `None`: there is no newer one.
    pub(crate) fn wait_for_newer_map(&mut self, conn: &mut Conn, command: &Command) -> Option<Next> {
        if conn.map.version <= self.peers().map.version() {
            return None;
        }
        self.wait_for_map(conn).or_else(|| {
            conn.map.version = 0;
            Some(self.decline(conn, command, TRY_AGAIN))
        })
    }

    /// The connection waits for this node's lease, with its command unread. `None`: the node has been without one for
    /// `cluster-takeover-wait`.
    pub(crate) fn wait_for_lease(&mut self, conn: &mut Conn) -> Option<Next> {
        let (now, wait_ms) = (self.engine().now(), self.settings().cluster_takeover_wait);
        let until = self.peers().unserved_since? + wait_ms;
        self.wait_until(conn, now, until, until)
    }

    /// The connection waits for another node, with its command unread: that node was reached a moment ago, or holds no
    /// lease. `None`: it has waited for `cluster-takeover-wait`.
    pub(crate) fn wait_for_node(&mut self, conn: &mut Conn) -> Option<Next> {
        let (now, wait_ms) = (self.engine().now(), self.settings().cluster_takeover_wait);
        let until = if conn.map.until == UnixMs::ZERO { now + wait_ms } else { conn.map.until };
        self.wait_until(conn, now, until, until.min(now + NODE_LOOK_MS))
    }

    fn wait_until(&mut self, conn: &mut Conn, now: UnixMs, until: UnixMs, look_at: UnixMs) -> Option<Next> {
        if until <= now {
            return None;
        }
        conn.map.until = until;
        self.port.wake_at(look_at, conn.token);
        conn.wait = Wait::Node(NodeWait::Map);
        Some(Next::Retry)
    }

    /// The command of a connection does not wait for a map any more.
    pub(crate) fn leave_map(&mut self, conn: &mut Conn) {
        let until = std::mem::take(&mut conn.map.until);
        if until > UnixMs::ZERO {
            self.port.wake_no_more_at(until, conn.token);
        }
    }

    /// There is a map, or the time to wait for one is over.
    pub(crate) fn resume_from_map(&mut self, token: Token) {
        if let Some(conn) = self.conn(token)
            && let Wait::Node(NodeWait::Map) = conn.wait
        {
            conn.wait = Wait::No;
            self.port.resume(token);
        }
    }

    /// There is a map, or there are users that this node had not heard of.
    pub(crate) fn resume_all_from_map(&mut self) {
        let waiting = self.port.conns().filter(|conn| matches!(conn.wait, Wait::Node(NodeWait::Map)));
        let waiting: Vec<Token> = waiting.map(|conn| conn.token).collect();
        waiting.into_iter().for_each(|token| self.resume_from_map(token));
    }

    /// The map has changed (`changed`), or this node may have been without a lease for long. Commands that wait for
    /// keys that are not available here run again, and get an error or go to the right node.
    pub(crate) fn look_at_blocked(&mut self, changed: bool) {
        let (now, wait_ms) = (self.engine().now(), self.settings().cluster_takeover_wait);
        let peers = self.peers();
        let lapsed = peers.has_lapsed(now, wait_ms);
        if !changed && !lapsed {
            return;
        }
        if lapsed {
            // Other nodes may have this node's former slots. They alone report changes.
            self.flush_trackers();
        }
        if changed {
            self.look_at_all_returned();
            self.resume_all_from_map();
        }
        let peers = self.peers();
        let (map, me) = (peers.map.clone(), peers.my_place());
        let mut positions: Vec<KeyAt> = Vec::new();
        let mut away = |conn: &&Conn| {
            let Some(blocked) = conn.wait.blocked() else { return false };
            let args = blocked.args.args();
            positions.clear();
            blocked.row.spec.keys_of(args, &mut positions);
            let mut keys = positions.iter().filter_map(|at| args.get(at.index));
            lapsed || keys.any(|key| map.owner_of(slot_of(key)) != me)
        };
        let conns = self.port.conns();
        let tokens: Vec<Token> = conns.filter(&mut away).map(|conn| conn.token).collect();
        tokens.into_iter().for_each(|token| self.run_blocked_again(token));
    }

    /// Ends a wait for keys, unless it is being served: its command runs again from the start.
    fn run_blocked_again(&mut self, token: Token) {
        let Some(mut conn) = self.take_conn(token) else { return };
        if let Some(blocked) = conn.wait.blocked()
            && blocked.leave() == Ending::Ended
        {
            let blocked = blocked.clone();
            self.port.end_wait(&mut conn);
            conn.note_unread();
            let mut command = Vec::new();
            append_args(&mut command, blocked.args.args());
            conn.run_next(&command);
        }
        self.put_conn(conn);
        self.port.resume(token);
    }

    /// Answers a command of another node's client with the command itself, which was not executed and will not be. For
    /// EXEC the answer has its whole block. `None`: the block watches keys, which the command alone does not say.
    pub(crate) fn send_back(&mut self, conn: &mut Conn, kind: Kind, args: Args<'_>) -> Option<Next> {
        let version = self.peers().map.version();
        let mut command = Vec::new();
        if kind == Kind::Exec {
            let multi =
                conn.session.multi.as_deref().filter(|multi| !multi.aborted && conn.session.watched.is_empty())?;
            multi.commands().for_each(|(_, args)| append_args(&mut command, args));
            self.port.drop_block(conn);
        } else {
            append_args(&mut command, args);
        }
        let mut reply = Reply::new(&mut conn.out.bytes, Protocol::Resp3);
        reply.push(3);
        reply.simple(ELSEWHERE);
        reply.integer(version as i64);
        reply.bulk(&command);
        Some(Next::Continue)
    }

    /// Takes an owner's answer that sends a command back, if it is one.
    pub(crate) fn take_back(&mut self, conn: &mut Conn, link: usize, expect: Expect, reply: &[u8]) {
        let Some((version, command)) = sent_back(reply) else { return self.answer(conn, expect, reply, true) };
        let owed = match expect {
            Expect::Hole(owed) | Expect::Script(owed) | Expect::Block(owed, _) => owed,
            Expect::Watch(owed, link, before) => {
                keep_watched(conn, link, before);
                owed
            }
            // Other nodes have done their parts.
            Expect::WatchPart(..) | Expect::Part(_) | Expect::Nothing | Expect::Heard(..) => {
                let mut error = Vec::new();
                write_error(&mut error, conn.session.protocol, TRY_AGAIN);
                return self.answer(conn, expect, &error, true);
            }
        };
        let is_block = matches!(expect, Expect::Block(..));
        if let Some(remote) = conn.remote.as_deref_mut() {
            remote.script = None;
            remote.block = None;
        }
        // Once by each map: if the maps contradict each other, that must end.
        if version > conn.map.version
            && owed.wanted
            && !owed.is_resent
            && conn.has_executed_nothing_since()
            && (!is_block || self.queue_again(conn, &command))
        {
            let command = if is_block { EXEC } else { &command };
            conn.map.version = version;
            conn.out.fill(owed.hole, &[], true);
            conn.session.cache_next();
            self.port.look_again(conn.token);
            return conn.run_next(command);
        }
        let until = self.engine().now() + self.map_ms();
        let is_whole = matches!(expect, Expect::Hole(_) | Expect::Block(_, None));
        if is_whole && !owed.is_resent && !conn.session.chooses_what_to_cache() {
            return self.take_returned(conn, Returned { owed, is_block, from: link, version, command, until });
        }
        conn.map.version = conn.map.version.max(version);
        self.stats().count_error(TRY_AGAIN);
        let mut error = Vec::new();
        write_error(&mut error, conn.session.protocol, TRY_AGAIN);
        conn.out.fill(owed.hole, owed.part(&error), true);
    }

    /// Queues the commands of a block that was sent back, as they were before. False: they cannot be queued.
    fn queue_again(&mut self, conn: &mut Conn, commands: &[u8]) -> bool {
        let table = &self.node().table;
        if conn.session.multi.is_some() || table.find_command(b"EXEC").is_none_or(|exec| exec.name != "exec") {
            return false;
        }
        let Some(multi) = self.block_of(commands) else { return false };
        conn.session.client.queued.store(multi.queue.len() as i32, Relaxed);
        conn.session.client.queued_bytes.store(multi.bytes as u64, Relaxed);
        conn.session.multi = Some(multi);
        true
    }
}

impl Conn {
    /// Has a command run before all that is unread.
    pub(crate) fn run_next(&mut self, command: &[u8]) {
        let mut query = command.to_vec();
        query.extend_from_slice(&self.query[self.start..]);
        (self.query, self.start) = (query, 0);
        self.decoder.forget();
        (self.missing, self.lacking, self.large_until) = (0, 0, 0);
    }

    /// True if the command whose reply is outstanding is the last that was executed, or is about to be.
    fn has_executed_nothing_since(&self) -> bool {
        let waits = matches!(self.wait, Wait::No | Wait::Node(NodeWait::Replies(_) | NodeWait::Answer(_)));
        let tries = self.busy > 0 || self.fetches > 0 || self.session.again.is_some() || self.map.until > UnixMs::ZERO;
        let is_last = self.out.holes() == 1 && self.out.behind_holes() == 0;
        is_last && waits && !tries && self.session.replies == Replies::On && !self.closing
    }
}

/// The command that an owner has sent back, and the version of its map.
fn sent_back(reply: &[u8]) -> Option<(u64, Vec<u8>)> {
    // It is as long as it was when it was admitted, and may be more than one value.
    let limits = ReplyLimits { bulk_bytes_max: usize::MAX, ..ReplyLimits::default() };
    let Ok(Some((Value::Push(parts), _))) = ReplyDecoder::new(limits).next(reply) else { return None };
    let [Value::Simple(name), Value::Integer(version), Value::Bulk(command)] = &parts[..] else { return None };
    (**name == *ELSEWHERE.as_bytes()).then(|| (*version as u64, command.to_vec()))
}

impl Peers {
    /// True if this node has had no lease for long. True only once.
    fn has_lapsed(&mut self, now: UnixMs, wait_ms: u64) -> bool {
        if self.serves {
            (self.lapses_at, self.unserved_since, self.awaits_lease) = (None, None, true);
            return false;
        }
        self.awaits_lease = now < *self.unserved_since.get_or_insert(now) + wait_ms;
        let at = *self.lapses_at.get_or_insert(now + LAPSED_MS);
        if at > now {
            return false;
        }
        self.lapses_at = Some(UnixMs::NEVER);
        at < UnixMs::NEVER
    }

    /// When that is to be checked.
    pub(crate) fn lapse_due(&self) -> Option<UnixMs> {
        self.lapses_at.filter(|at| *at < UnixMs::NEVER)
    }
}
