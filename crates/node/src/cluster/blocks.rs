//! EXEC and WATCH of a connection: a block is sent to one other node as a whole, or begun over several nodes.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use resp::{Args, Reply, append_request};

use super::merge::Merge;
use super::peers::{HOME, slot_of};
use super::port::{Forwarding, Port};
use super::remote::{Expect, Forwarded, Owed};
use super::route::{GOES_OVER, append_args};
use crate::admission::cluster::{NO_OWNER, Runs, SEVERAL, of_watch};
use crate::session::{Replies, watch_keys};
use crate::table::Command;
use crate::transactions::coordinator::Begun;
use crate::transactions::exec::{Needs, Way};
use crate::transactions::port::Desk;
use crate::worker::conn::Conn;
use crate::worker::next::Next;
use crate::worker::wait::{NodeWait, Wait};
use crate::worker::write_error;

const UNWATCH: &[u8] = b"*1\r\n$7\r\nUNWATCH\r\n";
pub(super) const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
pub(crate) const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Commands over nodes of one client that may be under way.
const FOLLOWING_MAX: usize = 64;

impl<P: Port> Forwarding<'_, P> {
    /// The nodes that the block of a connection needs.
    pub(crate) fn needs_of_block(&mut self, conn: &Conn) -> Needs {
        let Some(multi) = &conn.session.multi else { return Needs::NONE };
        let databases = self.settings().databases;
        let Desk { peers, node, .. } = self.desk();
        peers.needs_of((&node.table, databases), multi)
    }

    /// EXEC. `None`: the block runs here, or is refused as everywhere.
    pub(crate) fn route_exec(&mut self, conn: &mut Conn, command: &Command, args: Args<'_>) -> Option<Next> {
        if conn.session.multi.as_ref().is_none_or(|multi| multi.aborted) {
            self.forget_watched_elsewhere(conn, None);
            return self.in_turn(conn, false);
        }
        let needs = self.needs_of_block(conn);
        let link = match self.peers().way_of(&needs, conn) {
            Way::Here { quick } => return self.in_turn(conn, quick),
            Way::At(link) => link,
            Way::Over => return Some(self.exec_over_nodes(conn, command, args)),
            Way::Broken => {
                self.forget_watched_elsewhere(conn, None);
                self.break_block(conn);
                return Some(Next::Continue);
            }
            Way::NoLease => {
                if let Some(next) = self.wait_for_lease(conn) {
                    return Some(next);
                }
                let why = self.peers().no_lease();
                return Some(self.refuse_block(conn, command, &why));
            }
            Way::Refused(why) => return Some(self.refuse_block(conn, command, &why)),
        };
        Some(self.forward_block(conn, link, (command, args), needs.db))
    }

    fn refuse_block(&mut self, conn: &mut Conn, command: &Command, why: &[u8]) -> Next {
        self.forget_watched_elsewhere(conn, None);
        self.port.refuse(conn, Some(command), why);
        Next::Continue
    }

    /// A command with keys of several nodes, each of which it works on alone.
    pub(crate) fn run_over_nodes(&mut self, conn: &mut Conn, command: &Command, args: Args<'_>) -> Next {
        let follows = conn.over_nodes && conn.session.goes_over.is_none() && conn.out.holes() < FOLLOWING_MAX;
        if !follows && let Some(next) = self.in_turn(conn, false) {
            return next;
        }
        match self.transactions().begin(conn, command, Some(args)) {
            Begun::Waits => Next::Stop,
            Begun::Later => self.wait_for_replies(conn, 0),
            Begun::Refused(text) => self.decline(conn, command, &text),
        }
    }

    /// Takes the reply of another node to a script, or a part of it.
    pub(crate) fn answer_script(&mut self, conn: &mut Conn, owed: Owed, reply: &[u8], whole: bool) {
        let Some(remote) = conn.remote.as_deref_mut() else { return };
        let Some(mut script) = remote.script.take() else {
            return conn.out.fill(owed.hole, owed.part(reply), whole);
        };
        script.reply.extend_from_slice(reply);
        if !whole && GOES_OVER.starts_with(&script.reply) {
            remote.script = Some(script);
            return;
        }
        if script.reply != GOES_OVER {
            if self.port.is_monitored() {
                self.node().show_to_monitors(&conn.session.client, conn.session.db, script.args.args());
            }
            return conn.out.fill(owed.hole, owed.part(&script.reply), whole);
        }
        let node = self.node().clone();
        let command = node.table.get(script.command);
        conn.session.cache_next();
        let begun =
            self.transactions().begin_at(conn, command, Some(script.args.args()), Some((owed.hole, owed.wanted)));
        if let Begun::Refused(text) = begun {
            self.stats().count_error(&text);
            let mut error = Vec::new();
            write_error(&mut error, conn.session.protocol, &text);
            conn.out.fill(owed.hole, owed.part(&error), true);
        }
    }

    /// EXEC of a block with keys of several nodes.
    pub(crate) fn exec_over_nodes(&mut self, conn: &mut Conn, command: &Command, args: Args<'_>) -> Next {
        if let Some(next) = self.in_turn(conn, false) {
            return next;
        }
        if conn.remote.as_deref().is_some_and(|remote| remote.lost_watch) {
            self.forget_watched_elsewhere(conn, None);
            self.break_block(conn);
            return Next::Continue;
        }
        if let Some(next) = self.ask_for_block(conn, true) {
            return next;
        }
        note_word(conn, args);
        match self.transactions().begin(conn, command, None) {
            Begun::Waits => Next::Stop,
            Begun::Later => self.wait_for_replies(conn, 0),
            Begun::Refused(text) => {
                self.forget_watched_elsewhere(conn, None);
                self.port.refuse(conn, Some(command), &text);
                Next::Continue
            }
        }
    }

    fn forward_block(
        &mut self,
        conn: &mut Conn,
        link: usize,
        (command, args): (&Command, Args<'_>),
        db: Option<u16>,
    ) -> Next {
        // The selected database, and whether scripts need keys of other nodes, are known when the block has run.
        let has_scripts = self.has_scripts(conn);
        if let Some(next) = self.may_forward(conn, link, db.is_some() || has_scripts) {
            return next;
        }
        note_word(conn, args);
        let Some(mut multi) = conn.session.multi.take() else { return Next::Continue };
        let mut bytes = MULTI.to_vec();
        multi.commands().for_each(|(_, args)| append_args(&mut bytes, args));
        bytes.extend_from_slice(EXEC);
        let queued = multi.queue.len();
        let owed = self.place_of_reply(conn);
        let expected = std::iter::repeat_with(|| Expect::Nothing).take(1 + queued);
        let last = Expect::Block(owed, db);
        self.say_caching(conn, link);
        self.ask(conn, link, None, &bytes, expected.chain([last]));
        conn.remote.iter_mut().for_each(|remote| remote.note_change(link));
        let mut watched = Vec::new();
        if let Some(line) = conn.remote.as_deref_mut().and_then(|remote| remote.line(link)) {
            line.watches = false;
            watched = std::mem::take(&mut line.watched);
            line.db = line.db.filter(|_| db.is_none());
        }
        // It counts where it runs.
        self.note_forwarded(conn, command, None);
        if has_scripts {
            // It is shown when it is known where it ran.
            let block = Box::new(Forwarded { multi, link, watched });
            conn.remote.get_or_insert_default().block = Some(block);
        } else {
            // A block that was lost with its link is of no more use.
            conn.remote.iter_mut().for_each(|remote| remote.block = None);
            self.show_block(conn, &multi);
            multi.clear();
            conn.session.spare_multi = Some(multi);
        }
        let watched = conn.session.leave_multi();
        self.engine().unwatch_later(watched);
        match db.is_some() || has_scripts {
            true => {
                conn.wait = Wait::Node(NodeWait::Replies(0));
                Next::Stop
            }
            false => Next::Continue,
        }
    }

    fn has_scripts(&self, conn: &Conn) -> bool {
        let is_script = |id: usize| self.node().table.get(id).spec.has(command::flags::RUNS_SCRIPT);
        conn.session.multi.as_ref().is_some_and(|multi| multi.queue.iter().any(|queued| is_script(queued.command)))
    }

    /// Takes the reply of another node to a block with scripts. Returns whether the block was undone there, and runs
    /// over nodes.
    pub(crate) fn block_goes_over(&mut self, conn: &mut Conn, owed: Owed, reply: &[u8]) -> bool {
        let Some(block) = conn.remote.as_deref_mut().and_then(|remote| remote.block.take()) else { return false };
        let Forwarded { multi, link, watched } = *block;
        if reply != GOES_OVER {
            self.show_block(conn, &multi);
            return false;
        }
        if let Some(line) = conn.remote.as_deref_mut().and_then(|remote| remote.line(link)) {
            line.watches = !watched.is_empty();
            line.watched = watched;
        }
        if self.node().table.find_command(b"EXEC").is_none_or(|exec| exec.name != "exec") {
            // No code runs it again by the client's name: it has another one.
            self.forget_watched_elsewhere(conn, None);
            self.stats().count_error(SEVERAL);
            let mut error = Vec::new();
            write_error(&mut error, conn.session.protocol, SEVERAL);
            conn.out.fill(owed.hole, owed.part(&error), true);
            return true;
        }
        conn.session.client.queued.store(multi.queue.len() as i32, Relaxed);
        conn.session.client.queued_bytes.store(multi.bytes as u64, Relaxed);
        // In the client's spelling.
        let mut exec = Vec::new();
        append_request(&mut exec, &[&*multi.exec]);
        conn.session.multi = Some(multi);
        conn.session.goes_over = Some(Vec::new());
        if !owed.wanted && conn.session.replies == Replies::On {
            conn.session.replies = Replies::Skip;
        }
        conn.out.fill(owed.hole, &[], true);
        conn.session.cache_next();
        self.port.look_again(conn.token);
        conn.run_next(&exec);
        true
    }

    /// Answers EXEC that a watched key has changed, or may have.
    fn break_block(&mut self, conn: &mut Conn) {
        let before = conn.out.bytes.len();
        self.port.drop_block(conn);
        Reply::new(&mut conn.out.bytes, conn.session.protocol).null_array();
        self.port.apply_reply_mode(conn, before);
    }

    /// Ends the watches at other nodes, except over one link.
    pub(crate) fn forget_watched_elsewhere(&mut self, conn: &mut Conn, but: Option<usize>) {
        let Some(remote) = conn.remote.as_deref_mut() else { return };
        remote.lost_watch = false;
        let links: Vec<usize> = remote.watching().filter(|link| Some(*link) != but).collect();
        for link in links {
            if let Some(line) = conn.remote.as_deref_mut().and_then(|remote| remote.line(link)) {
                line.watches = false;
                line.watched.clear();
            }
            self.ask(conn, link, None, UNWATCH, [Expect::Nothing]);
        }
    }

    /// WATCH. `None`: all of its keys are here.
    pub(crate) fn route_watch(
        &mut self,
        conn: &mut Conn,
        command: &Command,
        args: Args<'_>,
        raw: &[u8],
    ) -> Option<Next> {
        if conn.session.multi.is_some() {
            return self.in_turn(conn, false);
        }
        let peers = self.peers();
        match of_watch(peers.place_of(command, args, None), peers.me, peers.serves) {
            Runs::At(owner) => {
                let link = peers.link_to(owner);
                if let Some(next) = self.may_forward(conn, link, true) {
                    return Some(next);
                }
                let owed = self.place_of_reply(conn);
                let before = watched_over(conn, link);
                self.ask(conn, link, Some(args), raw, [Expect::Watch(owed, link, before)]);
                watch_over(conn, link, args.iter().skip(1));
                self.count_forwarded(conn, command, Some(args));
                // The watched keys are known when it has been answered.
                conn.wait = Wait::Node(NodeWait::Replies(0));
                Some(Next::Stop)
            }
            Runs::NoLease => {
                let text = peers.no_lease();
                Some(self.decline(conn, command, &text))
            }
            Runs::Refused(error) => Some(self.decline(conn, command, error)),
            Runs::OverNodes => Some(self.watch_over_nodes(conn, command, args)),
            Runs::Here | Runs::WithItsBlock | Runs::Moved(..) => self.in_turn(conn, false),
        }
    }

    /// WATCH of keys of several nodes: each node watches its own.
    fn watch_over_nodes(&mut self, conn: &mut Conn, command: &Command, args: Args<'_>) -> Next {
        if let Some(next) = self.in_turn(conn, false) {
            return next;
        }
        let peers = self.peers();
        let mut of_nodes: BTreeMap<usize, Vec<&[u8]>> = BTreeMap::new();
        for key in args.iter().skip(1) {
            let Some(owner) = peers.map.owner_of(slot_of(key)) else {
                return self.decline(conn, command, NO_OWNER);
            };
            of_nodes.entry(peers.link_to(owner)).or_default().push(key);
        }
        if of_nodes.contains_key(&HOME) && !peers.serves {
            let text = peers.no_lease();
            return self.decline(conn, command, &text);
        }
        if let Some(full) = of_nodes.keys().copied().find(|link| *link != HOME && peers.links[*link].is_full()) {
            self.wait_for_link(conn, full);
            return Next::Retry;
        }
        if let Some(keys) = of_nodes.remove(&HOME)
            && let Err(busy) = watch_keys(self.engine(), &mut conn.session, &keys, conn.token)
        {
            return self.port.wait_for_latch(conn, command, &busy);
        }
        self.begin_gathering(conn, Merge::Same, of_nodes.len());
        for (part, (link, keys)) in of_nodes.into_iter().enumerate() {
            let before = watched_over(conn, link);
            let mut bytes = Vec::new();
            append_request(&mut bytes, &[&[&b"WATCH"[..]], &*keys].concat());
            self.ask(conn, link, None, &bytes, [Expect::WatchPart(part, link, before)]);
            watch_over(conn, link, keys.into_iter());
        }
        self.count_forwarded(conn, command, Some(args));
        Next::Stop
    }
}

/// Notes the client's spelling of EXEC.
fn note_word(conn: &mut Conn, args: Args<'_>) {
    if let Some(multi) = conn.session.multi.as_deref_mut() {
        multi.exec = args.get(0).unwrap_or_default().into();
    }
}

/// How many keys a connection watches over a link.
fn watched_over(conn: &mut Conn, link: usize) -> usize {
    let line = conn.remote.as_deref_mut().and_then(|remote| remote.line(link));
    line.map_or(0, |line| line.watched.len())
}

/// Notes that a connection is about to watch keys over a link on which commands were sent for it.
fn watch_over<'a>(conn: &mut Conn, link: usize, keys: impl Iterator<Item = &'a [u8]>) {
    let db = conn.session.db;
    let Some(line) = conn.remote.as_deref_mut().and_then(|remote| remote.line(link)) else { return };
    for key in keys {
        if !line.watched.iter().any(|(other, known)| *other == db && **known == *key) {
            line.watched.push((db, key.into()));
        }
    }
}
