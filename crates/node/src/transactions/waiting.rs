//! Commands that wait for keys of several nodes: BLPOP, BLMOVE, XREAD BLOCK and their like.
//!
//! Such a command runs as any command that needs keys of several nodes at once (`workspace.rs`). If it finds nothing,
//! the attempt ends without a trace. The connection then sleeps until an owner reports that one of the keys has changed
//! since it was read, and runs the whole command again. So only a transaction takes elements, and its reply is the
//! client's. A notice that is lost, or comes in vain, costs another attempt and nothing else.
//!
//! The owners are asked with DEBUG AWAIT, a command that waits for its keys as BLPOP does. It goes over virtual
//! connections of its own, which are closed when no client waits any more.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use ::membership::items::Item;
use clocks::UnixMs;
use keyspace::Kind;
use resp::{Batch, Reply, append_request};

use super::block::Block;
use super::fetching::Fetching;
use super::port::{Desk, Port, Transacting};
use crate::admission::rights;
use crate::figures::stats::add;
use crate::session::Multi;
use crate::worker::conn::Conn;
use crate::worker::token::Token;

/// When an owner could not be asked, the command runs again after so many milliseconds.
const AGAIN_MS: u64 = 100;

/// A command that has found nothing.
pub(super) struct Unserved {
    pub(super) wait: command::Block,
    /// Its time.
    pub(super) now: UnixMs,
}

impl<P: Port> Transacting<'_, P> {
    /// A command has found nothing: it waits.
    pub(super) fn sleep_over_nodes(&mut self, which: (u64, u32), unserved: Unserved) {
        let (boot_ms, now) = (self.now(), self.engine().now());
        let mut events = Vec::new();
        let coordinator = self.txn().coordinator.as_mut();
        let ended = coordinator.is_some_and(|coordinator| coordinator.give_up(boot_ms, which, &mut events));
        self.carry_out(events);
        if !ended {
            // The attempt was void already: there is another one.
            return;
        }
        let Some((mut block, mut conn)) = self.take_running(which.0) else { return };
        let Unserved { wait, now: began } = unserved;
        block.replace_arguments(&wait.replaced);
        let token = block.token;
        let begins = block.waiting.is_none();
        let waiting = block.waiting.get_or_insert_default();
        if begins {
            // The owners' clocks may be ahead of this one. No wait ends early.
            waiting.deadline = wait.deadline.map(|at| now + at.since(began) + 1);
            if let Some(at) = waiting.deadline {
                self.port.wake_at(at, token);
            }
            conn.session.client.waits_elsewhere.store(true, Relaxed);
            if !conn.session.client.blocked.swap(true, Relaxed) {
                add(&self.stats().blocked, 1);
            }
        }
        waiting.again = wait.again.map(|at| now + at.since(began));
        if waiting.deadline.is_some_and(|at| at <= now) {
            self.port.put_conn(conn);
            return self.answer_waiting(&block, |reply| reply.null_array());
        }
        if conn.ended {
            // No client would get an element that is taken now.
            self.port.put_conn(conn);
            return self.answer_nobody(&block);
        }
        self.ask_for_notices(&conn, &mut block, &wait);
        // It has been given nothing, and may sleep for long.
        self.port.tell_held_news(&mut conn);
        self.port.put_conn(conn);
        self.port.mark_dirty(token);
        let before = self.txn().sleeping.insert(token, block);
        debug_assert!(before.is_none(), "a connection waits for one command at a time");
    }

    /// Asks the owners of these arguments to report when the keys are no longer as they were read.
    fn ask_for_notices(&mut self, conn: &Conn, block: &mut Block, wait: &command::Block) {
        let Desk { peers, engine, .. } = self.desk();
        let Some(fetching) = block.fetching.as_deref() else { return };
        let mut of_owners: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
        let Some((_, args)) = block.multi.commands().next() else { return };
        let kind: &[u8] = match wait.kind {
            Kind::List if !wait.when_gone => b"LIST",
            Kind::ZSet if !wait.when_gone => b"ZSET",
            Kind::Stream if !wait.when_gone => b"STREAM",
            _ => b"ANY",
        };
        let begin = || [&b"DEBUG"[..], b"AWAIT", kind].map(<[u8]>::to_vec).to_vec();
        for key in wait.keys.iter().filter_map(|at| args.get(*at)) {
            let Ok(owner) = peers.owner(key) else { continue };
            let words = of_owners.entry(owner).or_insert_with(begin);
            words.push(fetching.version_of(block.db, key).to_string().into());
            words.push(key.to_vec());
        }
        let Some(waiting) = block.waiting.as_deref_mut() else { return };
        let (mut links, says_principals) = (Vec::new(), peers.says_principals());
        for (owner, words) in of_owners {
            let link = peers.link_to(owner);
            let out = &mut peers.links[link];
            links.push(link);
            if out.is_full() {
                waiting.look_by(engine.now() + AGAIN_MS);
                continue;
            }
            let (vc, epoch) = (out.open_notice(block.token), out.epoch);
            out.stage.put(&Item::Open { vc, client: conn.session.client.id, db: block.db, protocol: 2 });
            if says_principals {
                out.stage.put(&Item::Principal { vc, principal: conn.session.user.principal });
            }
            let mut bytes = Vec::new();
            append_request(&mut bytes, &words);
            out.stage.commands(vc, epoch, &bytes);
            waiting.notices.push((link, vc));
        }
        if let Some(at) = waiting.again {
            self.port.wake_at(at, block.token);
        }
        links.into_iter().for_each(|link| self.port.want_link(link));
    }

    /// An owner has reported to a waiting client; `changed`: a key has changed.
    pub(crate) fn noticed(&mut self, token: Token, link: usize, vc: u32, changed: bool) {
        let Desk { txn, engine, .. } = self.desk();
        let Some(block) = txn.sleeping.get_mut(&token) else { return };
        let Some(waiting) = block.waiting.as_deref_mut().filter(|waiting| waiting.notices.contains(&(link, vc))) else {
            return;
        };
        if changed {
            return self.try_again(token);
        }
        // It does not know of the keys what this node does: soon it may.
        let again = waiting.look_by(engine.now() + AGAIN_MS);
        self.port.wake_at(again, token);
    }

    /// A link over which a report was to come to a waiting client has ended.
    pub(crate) fn lose_notices(&mut self, token: Token, link: usize) {
        self.lose_notice(token, |(over, _)| over == link);
    }

    /// Clients wait for reports that will not come, over these links and virtual connections. The numbers mean nothing
    /// any more.
    pub(crate) fn lose_notice(&mut self, token: Token, lost: impl Fn((usize, u32)) -> bool) {
        let Some(waiting) = self.txn().sleeping.get_mut(&token).and_then(|block| block.waiting.as_deref_mut()) else {
            return;
        };
        let before = waiting.notices.len();
        waiting.notices.retain(|notice| !lost(*notice));
        if waiting.notices.len() < before {
            self.try_again(token);
        }
    }

    /// The map has changed: keys may be elsewhere.
    pub(super) fn wake_all_over_nodes(&mut self) {
        for token in self.txn().sleeping.keys().copied().collect::<Vec<_>>() {
            self.try_again(token);
        }
    }

    fn wake(&mut self, token: Token) -> Option<Block> {
        let Desk { txn, peers, .. } = self.desk();
        let mut block = txn.sleeping.remove(&token)?;
        let waiting = block.waiting.get_or_insert_default();
        for (link, vc) in waiting.notices.drain(..) {
            peers.links[link].close(vc);
        }
        if let Some(at) = waiting.again.take() {
            self.port.wake_no_more_at(at, token);
        }
        Some(block)
    }

    /// Runs a command again that waits.
    fn try_again(&mut self, token: Token) {
        let Some(mut block) = self.wake(token) else { return };
        if let Some(conn) = self.port.conn(token) {
            conn.holds_news = conn.session.tracking.is_some();
        }
        let (node, databases) = (self.node().clone(), self.settings().databases);
        let (now, time, clock) = (self.now(), self.engine().hybrid_time(), self.node().clock.unix_ms());
        let Desk { txn, peers, .. } = self.desk();
        let session = (block.db, block.protocol);
        let planned = peers
            .plan_fetching((&node, databases), &block.multi, (&[], &[]), session, &[])
            .and_then(|parts| peers.refusal(&parts).map_or(Ok(parts), Err));
        let mut parts = match planned {
            Ok(parts) => parts,
            Err(text) => return self.answer_waiting(&block, |reply| reply.error(&text)),
        };
        let Some(coordinator) = txn.coordinator.as_mut() else { return };
        txn.copies.name_in(&mut parts);
        block.fetching = Some(Fetching::new(parts.clone(), Vec::new(), clock));
        let mut events = Vec::new();
        let sequence = coordinator.begin_fetching(now, time, parts, &mut events);
        txn.blocks.insert(sequence, block);
        self.carry_out(events);
    }

    fn answer_waiting(&mut self, block: &Block, write: impl FnOnce(&mut Reply<'_>)) {
        let mut bytes = Vec::new();
        write(&mut Reply::new(&mut bytes, block.protocol));
        self.answer_block(block, &bytes, None);
    }

    /// Ends the wait of a connection from its own side. `None`: it does not wait, or may be being served.
    fn end_wait_over_nodes(&mut self, token: Token) -> Option<Block> {
        if let Some(block) = self.wake(token) {
            return Some(block);
        }
        let now = self.now();
        let txn = self.txn();
        let waits = |block: &Block| block.token == token && block.waiting.is_some();
        let sequence = txn.blocks.iter().find_map(|(sequence, block)| waits(block).then_some(*sequence))?;
        let mut events = Vec::new();
        let withdrawn = txn.coordinator.as_mut()?.withdraw(now, sequence, &mut events);
        self.carry_out(events);
        let (mut block, mut conn) = self.take_running(sequence)?;
        if !withdrawn {
            self.port.put_conn(conn);
            self.put_running(sequence, block);
            return None;
        }
        self.stop_workspace(&mut conn, &mut block);
        self.port.put_conn(conn);
        Some(block)
    }

    /// The time of something has come for which a connection may wait.
    pub(crate) fn look_at_wait(&mut self, token: Token, now: UnixMs) {
        let txn = self.txn();
        let waiting = |block: &'_ Block| block.waiting.as_deref().map(|waiting| (waiting.deadline, waiting.again));
        let sleeping = txn.sleeping.get(&token);
        let trying = || txn.blocks.values().find(|block| block.token == token);
        let Some((deadline, again)) = sleeping.or_else(trying).and_then(waiting) else { return };
        if deadline.is_some_and(|at| at <= now) {
            if let Some(block) = self.end_wait_over_nodes(token) {
                self.answer_waiting(&block, |reply| reply.null_array());
            }
        } else if again.is_some_and(|at| at <= now) {
            self.try_again(token);
        }
    }

    /// A client that waits for keys of several nodes sends nothing more: it is given up, unless it is being served.
    pub(crate) fn leave_wait(&mut self, token: Token) {
        if let Some(block) = self.end_wait_over_nodes(token) {
            self.answer_nobody(&block);
        }
    }

    fn answer_nobody(&mut self, block: &Block) {
        self.answer_counted(block, &[]);
        if let Some(mut conn) = self.port.take_conn(block.token) {
            self.port.end_session(&mut conn);
            self.port.put_conn(conn);
        }
    }

    /// CLIENT UNBLOCK of a client that waits for keys of several nodes. Returns true if the client was waiting.
    pub(crate) fn unblock(&mut self, token: Token, with_error: bool) -> bool {
        let Some(block) = self.end_wait_over_nodes(token) else { return false };
        self.answer_waiting(&block, |reply| match with_error {
            true => reply.error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            // As everywhere, whatever the command answers inside MULTI.
            false => reply.null_array(),
        });
        true
    }

    /// Users have changed: commands that their users may not run any more do not wait on.
    pub(crate) fn judge_waits(&mut self) {
        let tokens: Vec<Token> = self.txn().sleeping.keys().copied().collect();
        for token in tokens {
            let node = self.node().clone();
            let Some(user) = self.port.conn(token).map(|conn| conn.session.user) else { continue };
            let Some(block) = self.txn().sleeping.get(&token) else { continue };
            let denied = block.multi.commands().next().and_then(|(queued, args)| {
                rights::refusal(&node.users, &mut user.clone(), node.table.get(queued.command), args)
            });
            let Some(denial) = denied else { continue };
            if let Some(block) = self.end_wait_over_nodes(token) {
                self.answer_waiting(&block, |reply| reply.error(denial.reply()));
            }
        }
    }

    /// The client of a connection has gone. False: it was not asleep.
    pub(super) fn abandon_wait(&mut self, token: Token) -> bool {
        let block = self.wake(token);
        block.inspect(|block| self.forget_deadline(block)).is_some()
    }

    /// A command that has waited is answered.
    pub(super) fn forget_deadline(&mut self, block: &Block) {
        if let Some(at) = block.waiting.as_deref().and_then(|waiting| waiting.deadline) {
            self.port.wake_no_more_at(at, block.token);
        }
    }
}

impl Block {
    /// When the command runs again, it is still about what came after it ran first.
    fn replace_arguments(&mut self, replaced: &[(usize, Vec<u8>)]) {
        let Some((queued, args)) = self.multi.commands().next().filter(|_| !replaced.is_empty()) else { return };
        let replacement = |at| replaced.iter().find(|(i, _)| *i == at).map(|(_, arg)| arg.as_slice());
        let words = args.iter().enumerate().map(|(at, arg)| replacement(at).unwrap_or(arg));
        let (mut batch, mut multi) = (Batch::new(), Box::<Multi>::default());
        if batch.push_copy(words) && multi.push(queued.command, None, batch.args(0, &[])) {
            self.multi = multi;
        }
    }
}
