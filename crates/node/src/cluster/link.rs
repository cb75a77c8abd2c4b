//! The end of a link that forwards. It is dialed when there are items to send, and again after a pause when that fails.
//!
//! Items wait here until the other end has answered the handshake. If that fails, no item has left: the link is dialed
//! again and again, and items wait for `cluster-takeover-wait`. A node that starts again within that time costs clients a
//! pause. After it, the clients that wait get an error, and further commands get the error at once.
//! If a link ends later, forwarded commands may have been executed, so the clients that wait for replies are closed
//! (rule T9), except for reads, which run [again](super::reads_again). If the other end has said that it leaves, it has executed nothing that it has not answered.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ::membership::items::Item;
use clocks::UnixMs;
use resp::append_request;

use super::frames::Stage;
use super::outbound::Outbound;
use super::outbound::{Dial, LINK_MAX, OWED_MAX, State};
use super::peers::{HOME, Peers, give_back};
use super::port::{Forwarding, Port};
use super::probe::Probe;
use super::remote::{Expect, Line, Remote};
use super::unknown::unknown;
use super::{Inbound, Role};
use crate::client::{Client, Peer};
use crate::session::Session;
use crate::transactions::port::Desk;
use crate::worker::conn::Conn;
use crate::worker::wait::{NodeWait, Wait};
use crate::worker::{Token, write_error};

impl Peers {
    /// The next link to connect.
    pub(crate) fn next_dial(&mut self) -> Option<Dial> {
        let (token, link) = self.dials.pop()?;
        let link = &self.links[link];
        Some(Dial { token, node: link.node?, host: link.host.clone(), port: link.port })
    }

    /// When a link has to be checked.
    pub(crate) fn link_deadline(&self) -> Option<UnixMs> {
        let peers = self;
        if !peers.is_cluster() {
            return None;
        }
        peers.links.iter().filter_map(Outbound::deadline).chain(peers.probes_due()).chain(peers.lapse_due()).min()
    }
}

impl<P: Port> Forwarding<'_, P> {
    /// A link that was dialed is connected, and its handshake is done: its items leave. False: it is no longer needed.
    pub(crate) fn link_opened(&mut self, token: Token) -> bool {
        let Some(Conn { role: Role::Origin(link), .. }) = self.conn(token) else { return false };
        let (link, now) = (*link, self.engine().now());
        let out = &mut self.peers().links[link];
        (out.state, out.failures, out.vain_ms) = (State::Open(token), 0, 0);
        (out.in_vain, out.is_lost, out.since, out.probe) = (false, false, now, Probe::default());
        self.transactions().linked(link);
        self.tell_owed_scripts(link);
        self.hear_all_over(link);
        true
    }

    /// Notes a loaded script for the nodes at these links, which have not got it. They get it when they are reached.
    pub(crate) fn owe_script(&mut self, loaded: &[u8], links: &[usize]) {
        let peers = self.peers();
        let digest = loaded.split(|byte| *byte == b'\n').nth(1).and_then(|line| line.trim_ascii_end().try_into().ok());
        let Some(digest) = digest else { return };
        for link in links {
            let out = &mut peers.links[*link];
            if out.owed_scripts.len() < OWED_MAX {
                out.owed_scripts.insert(digest);
            }
        }
    }

    fn tell_owed_scripts(&mut self, link: usize) {
        let Desk { peers, node, .. } = self.desk();
        let out = &mut peers.links[link];
        for digest in std::mem::take(&mut out.owed_scripts) {
            // A script that was flushed meanwhile is not needed.
            let Some(known) = node.scripts.find(&digest) else { continue };
            let mut command = Vec::new();
            append_request(&mut command, &[&b"SCRIPT"[..], b"LOAD", known.source.body()]);
            out.say_by_itself(&command);
        }
    }

    pub(crate) fn add_link_end(&mut self, now: UnixMs, role: Role) -> Token {
        let token = self.port.reserve_token();
        let client = Client::new(0, Peer::default(), now, self.index() as u16, token);
        self.port.install(token, Session::new(Arc::new(client), true), role);
        token
    }

    /// Makes sure that a link will be open.
    pub(crate) fn want_link(&mut self, link: usize) {
        let now = self.engine().now();
        let peers = self.peers();
        match peers.links[link].state {
            State::Down(until) if until <= now => {}
            _ => return,
        }
        let token = self.add_link_end(now, Role::Origin(link));
        if link != HOME {
            let wait_ms = self.settings().cluster_takeover_wait;
            let peers = self.peers();
            peers.links[link].dial(token, now, wait_ms);
            return peers.dials.push((token, link));
        }
        let other = self.add_link_end(now, Role::Owner(Box::new(Inbound::new("", Some(token)))));
        let home = &mut self.peers().links[HOME];
        (home.state, home.partner) = (State::Open(token), Some(other));
    }

    /// Checks the links.
    pub(crate) fn look_at_links(&mut self, now: UnixMs) {
        for link in 0..self.peers().links.len() {
            let peers = self.peers();
            let out = &mut peers.links[link];
            match out.state {
                State::Down(until) if until <= now && out.deadline().is_some() => {
                    // A node that has left is not dialed.
                    out.in_vain &= out.node.is_some_and(|node| peers.map.index_of(node).is_some());
                    if out.deadline().is_some() {
                        self.want_link(link);
                    }
                }
                State::Dialing(token, until) if until <= now => self.port.closed(token),
                State::Open(token) => {
                    let unsent = self.conn(token).map_or(0, |conn| conn.owed());
                    let peers = self.peers();
                    let out = &mut peers.links[link];
                    out.unsent = unsent;
                    if !out.waiting.is_empty() && out.stage.len() + unsent < LINK_MAX / 2 {
                        let waiting = std::mem::take(&mut out.waiting);
                        self.go_on_saying(waiting);
                    }
                }
                _ => {}
            }
        }
        let held: usize = self.peers().links.iter().map(Outbound::held_bytes).sum();
        self.stats().held_bytes.store(held as u64, Relaxed);
    }

    /// Makes the connection wait, with its command unread, until fewer bytes wait for a link.
    pub(crate) fn wait_for_link(&mut self, conn: &mut Conn, link: usize) {
        conn.wait = Wait::Node(NodeWait::Link);
        self.peers().links[link].waiting.push(conn.token);
    }

    fn go_on_saying(&mut self, waiting: Vec<Token>) {
        for token in waiting {
            if let Some(conn) = self.conn(token)
                && matches!(conn.wait, Wait::Node(NodeWait::Link))
            {
                conn.wait = Wait::No;
                self.port.resume(token);
            }
        }
    }

    /// Hands frames to the driver, unless they may wait for more.
    pub(crate) fn flush_links(&mut self) {
        let (clock, reads) = (self.engine().last_version(), self.stats().reads.load(Relaxed));
        let peers = self.peers();
        let (news, waits) = (clock > peers.told, peers.has_staged() && peers.patience.lasts(reads));
        let mut all = true;
        for link in 0..self.peers().links.len() {
            let out = &mut self.peers().links[link];
            let State::Open(token) = out.state else { continue };
            if out.stage.is_empty() {
                continue;
            }
            if waits && out.partner.is_none() && out.stage.may_wait() {
                all = false;
                continue;
            }
            if news && link != HOME {
                out.stage.put(&Item::Clock { lsn: clock.0 });
            }
            let (partner, mut stage) = (out.partner, std::mem::take(&mut out.stage));
            self.say(token, partner, &mut stage);
            // Its memory is reused.
            self.peers().links[link].stage = stage;
        }
        let mut staged = std::mem::take(&mut self.peers().staged);
        for token in staged.drain(..) {
            let Some(Conn { role: Role::Owner(inbound), .. }) = self.conn(token) else { continue };
            if waits && inbound.partner.is_none() && inbound.stage.may_wait() {
                all = false;
                self.peers().staged.push(token);
                continue;
            }
            inbound.is_staged = false;
            if news && inbound.partner.is_none() {
                inbound.stage.put(&Item::Clock { lsn: clock.0 });
            }
            let (partner, mut stage) = (inbound.partner, std::mem::take(&mut inbound.stage));
            self.say(token, partner, &mut stage);
            if let Some(Conn { role: Role::Owner(inbound), .. }) = self.conn(token) {
                inbound.stage = stage;
            }
        }
        give_back(&mut self.peers().staged, staged);
        if all {
            self.peers().told = self.peers().told.max(clock);
        }
    }

    /// Hands a frame to the driver, or to the other end if that is here.
    fn say(&mut self, token: Token, partner: Option<Token>, stage: &mut Stage) {
        if let Some(other) = partner {
            if let Some(conn) = self.conn(other) {
                stage.flush(&mut conn.query);
                self.note_heard(other);
            }
            return;
        }
        if let Some(mut conn) = self.take_conn(token) {
            self.port.ensure_out(&mut conn);
            stage.flush(&mut conn.out.bytes);
            self.put_conn(conn);
            self.mark_dirty(token);
        }
    }

    /// A link has ended, or could not be opened.
    pub(crate) fn link_ended(&mut self, link: usize) {
        let (now, wait_ms) = (self.engine().now(), self.settings().cluster_takeover_wait);
        let out = &mut self.peers().links[link];
        let was_open = out.open_end().is_some();
        out.fail(now, wait_ms);
        let is_given_up = std::mem::take(&mut out.given_up);
        let is_lost = out.is_lost;
        if was_open || is_lost {
            self.tell_of_end(link, was_open);
        }
        if is_given_up && is_lost {
            // Transactions need not wait for a dial that fails.
            self.tell_of_end(link, false);
        }
        if was_open {
            // The map may have said before that the node has lost its slots.
            self.reroute_held();
        }
    }

    /// Answers items for links that were dialed in vain, without waiting for the next dial.
    pub(crate) fn look_at_vain_words(&mut self) {
        for link in 0..self.peers().links.len() {
            let in_vain = |out: &Outbound| out.is_out_of_reach() && !out.stage.is_empty();
            if in_vain(&self.peers().links[link]) {
                self.tell_of_end(link, false);
            }
        }
    }

    /// Tells the waiting clients that items for a link, or replies over it, will not arrive. `was_open`: some items may
    /// have left.
    pub(super) fn tell_of_end(&mut self, link: usize, was_open: bool) {
        let out = &mut self.peers().links[link];
        let (clients, asleep) = out.forget();
        let waiting = std::mem::take(&mut out.waiting);
        let may_be_done = was_open && !std::mem::take(&mut out.leaves);
        self.transactions().link_ended(link, was_open);
        for token in clients {
            self.lose_line(token, link, was_open, may_be_done);
        }
        for token in asleep {
            self.transactions().lose_notices(token, link);
        }
        self.go_on_saying(waiting);
    }

    /// A connection has lost its state at another node. `may_be_done`: its outstanding commands may have been executed
    /// there.
    pub(crate) fn lose_line(&mut self, token: Token, link: usize, was_open: bool, may_be_done: bool) {
        let Some(mut conn) = self.take_conn(token) else { return };
        let Some(mut line) = take_line(&mut conn, link) else { return self.put_conn(conn) };
        let may_not_lie = |remote: &Remote| remote.gather.as_ref().is_some_and(|gather| gather.says_what_is_unknown());
        let says_so = conn.remote.as_deref().is_some_and(may_not_lie);
        let matters = |expect: &Expect| match expect {
            Expect::Nothing | Expect::Heard(..) => false,
            Expect::Part(_) => !says_so,
            Expect::Hole(..) | Expect::Script(..) | Expect::Block(..) | Expect::Watch(..) | Expect::WatchPart(..) => {
                true
            }
        };
        self.port.ensure_out(&mut conn);
        if may_be_done && line.expected.iter().any(matters) {
            let is_repeated = self.read_again(&mut conn, link, &line);
            self.put_conn(conn);
            return if is_repeated { self.mark_dirty(token) } else { self.cut(token) };
        }
        let only_looks =
            conn.remote.as_deref().and_then(|remote| remote.gather.as_ref()).is_some_and(|g| g.only_looks());
        let why = match may_be_done {
            false => self.unreached(link),
            true if only_looks => {
                format!("CLUSTERDOWN The node{} cannot be reached: it has not answered", self.place(link))
            }
            true => unknown(&self.place(link)),
        };
        let why = why.into_bytes();
        while let Some(expect) = line.expected.pop_front() {
            let mut error = Vec::new();
            write_error(&mut error, conn.session.protocol, &why);
            if let (Expect::Part(part), Some(remote)) = (expect, conn.remote.as_deref_mut()) {
                remote.gather.iter_mut().for_each(|gather| gather.forget(part));
            }
            self.answer(&mut conn, expect, &error, true);
        }
        if line.tracking.is_on() {
            self.lose_news(&mut conn, link, was_open);
        }
        self.look_at_answers(&mut conn, link);
        self.put_conn(conn);
        self.mark_dirty(token);
    }

    /// The error for a command that has not left this node, or was not executed at the other one.
    pub(super) fn unreached(&mut self, link: usize) -> String {
        format!("CLUSTERDOWN The node{} cannot be reached: the command was not executed there", self.place(link))
    }

    /// The address of the node at the other end of this link: ` at HOST:PORT`, or nothing if it is unknown.
    fn place(&mut self, link: usize) -> String {
        let peers = self.peers();
        let place = peers.links[link].node.and_then(|node| {
            let node = peers.map.node(peers.map.index_of(node)?);
            Some(format!(" at {}:{}", node.host, node.port))
        });
        place.unwrap_or_default()
    }
}

/// Takes a connection's state at the other end of a link, which is lost: keys that it has watched there may have changed.
pub(super) fn take_line(conn: &mut Conn, link: usize) -> Option<Line> {
    let remote = conn.remote.as_deref_mut()?;
    let line = remote.lines.get_mut(link)?.take()?;
    remote.lost_watch |= line.watches;
    Some(line)
}
