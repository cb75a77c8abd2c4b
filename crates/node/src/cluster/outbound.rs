//! The end of a link that forwards.

use std::collections::BTreeSet;

use ::membership::items::Item;
use ::membership::{NodeId, map};
use clocks::UnixMs;

use super::frames::Stage;
use super::probe::Probe;
use crate::scripts::Digest;
use crate::worker::token::Token;

/// Bytes to send, above which no more commands are taken.
pub(super) const LINK_MAX: usize = 4 << 20;

/// A link that is not open after so many milliseconds has failed.
const DIAL_MS: u64 = 2_000;
/// Milliseconds before a link that has failed is dialed again: first, and at most.
const BACKOFF_MS: (u64, u64) = (10, 500);

/// The longest pause between two dials while commands wait for the node: it serves soon after it is back.
const HELD_BACKOFF_MS: u64 = 50;

/// The shortest time that a dial has while commands wait for the node, in milliseconds.
const HELD_DIAL_MS: u64 = 500;

/// Most scripts that are kept for a node until it is back. For others clients get -NOSCRIPT there, and load them again.
pub(super) const OWED_MAX: usize = 1000;

/// A link to be connected.
#[derive(Debug)]
pub struct Dial {
    /// The worker's name for the connection, as for one that it has accepted.
    pub token: Token,
    /// The other node.
    pub node: NodeId,
    /// Its address.
    pub host: String,
    /// See [`Self::host`].
    pub port: u16,
}

/// The pause after so many failures, in milliseconds.
fn backoff(failures: u32) -> u64 {
    (BACKOFF_MS.0 << failures.min(16)).min(BACKOFF_MS.1)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Not before this time.
    Down(UnixMs),
    /// Being connected, until this time.
    Dialing(Token, UnixMs),
    /// The other end takes items.
    Open(Token),
}

/// The user of a virtual connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    Nobody,
    Client(Token),
    /// For the owner's messages to a client that waits.
    Notice(Token),
    /// This node's own.
    Node,
    /// Its client has gone, and the other end does not know yet.
    Gone,
}

/// A link as CLUSTER LINKS shows it.
pub(crate) struct OpenLink {
    /// The other node.
    pub(crate) node: NodeId,
    /// When it was opened.
    pub(crate) since: UnixMs,
    /// Bytes to be sent.
    pub(crate) unsaid: usize,
}

/// See the module's text.
pub(crate) struct Outbound {
    /// The other node; none for the link that leads back.
    pub(crate) node: Option<NodeId>,
    /// The epoch of what it owns.
    pub(crate) epoch: u64,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) state: State,
    pub(crate) stage: Stage,
    /// Bytes that were handed to the driver and are not sent.
    pub(super) unsent: usize,
    /// The other end has said that it executes nothing more than it has answered.
    pub(crate) leaves: bool,
    /// By number.
    pub(super) owners: Vec<Owner>,
    pub(super) free: Vec<u32>,
    /// Connections that wait until fewer bytes wait here.
    pub(super) waiting: Vec<Token>,
    pub(super) failures: u32,
    /// When it was dialed last.
    pub(super) dialed: UnixMs,
    /// For how long it has been dialed in vain: the time of dials, and the pause after each, in milliseconds.
    pub(super) vain_ms: u64,
    /// It was last dialed in vain: it is dialed again, whether or not there are items.
    pub(super) in_vain: bool,
    /// It has been dialed in vain for `cluster-takeover-wait`: commands for its node fail at once until the node answers.
    pub(super) is_lost: bool,
    /// It is being ended because nothing comes over it.
    pub(crate) given_up: bool,
    /// When it was last open, as links and blocks are counted.
    pub(crate) last_open: u64,
    /// When it was opened.
    pub(super) since: UnixMs,
    /// The virtual connection for commands that no client has sent.
    pub(super) own: Option<u32>,
    /// Bytes of answers there that are not acknowledged.
    pub(crate) own_bytes: usize,
    /// Scripts that clients have loaded and the other node has not got.
    pub(super) owed_scripts: BTreeSet<Digest>,
    /// The check whether its other end is at work.
    pub(crate) probe: Probe,
    /// For a link that leads back: its other end.
    pub(super) partner: Option<Token>,
}

impl Outbound {
    pub(super) fn new(node: Option<NodeId>) -> Self {
        Self {
            node,
            epoch: 0,
            host: String::new(),
            port: 0,
            state: State::Down(UnixMs::ZERO),
            stage: Stage::default(),
            unsent: 0,
            leaves: false,
            owners: Vec::new(),
            free: Vec::new(),
            waiting: Vec::new(),
            failures: 0,
            dialed: UnixMs::ZERO,
            vain_ms: 0,
            in_vain: false,
            is_lost: false,
            given_up: false,
            last_open: 0,
            since: UnixMs::ZERO,
            own: None,
            own_bytes: 0,
            owed_scripts: BTreeSet::new(),
            probe: Probe::default(),
            partner: None,
        }
    }

    pub(crate) fn to(member: &map::Node) -> Self {
        Self::new(Some(member.id))
    }

    /// The link that leads back.
    pub(crate) fn home() -> Self {
        Self::new(None)
    }

    /// Takes the node's entry of the map.
    pub(crate) fn look_up(&mut self, member: &map::Node) {
        (self.host, self.port) = (member.host.clone(), member.bus_port);
        self.epoch = member.epoch;
    }

    /// True if no more may be sent for now.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.stage.len() + self.unsent > LINK_MAX
    }

    /// True if there are bytes to send, and they can be sent.
    pub(crate) fn has_something_to_say(&self) -> bool {
        matches!(self.state, State::Open(_)) && !self.stage.is_empty()
    }

    /// A number for a virtual connection of this client.
    pub(crate) fn open(&mut self, client: Token) -> u32 {
        self.number(Owner::Client(client))
    }

    /// A number for a virtual connection over which the owner sends messages to this client, which waits.
    pub(crate) fn open_notice(&mut self, client: Token) -> u32 {
        self.number(Owner::Notice(client))
    }

    /// The client that waits for messages over a virtual connection, if that is what it is for.
    pub(crate) fn waits_for(&self, vc: u32) -> Option<Token> {
        match self.owners.get(vc as usize) {
            Some(Owner::Notice(token)) => Some(*token),
            _ => None,
        }
    }

    /// The virtual connection for commands that no client has sent.
    pub(crate) fn own_line(&mut self) -> u32 {
        if let Some(vc) = self.own {
            return vc;
        }
        let vc = self.number(Owner::Node);
        self.stage.put(&Item::Open { vc, client: 0, db: 0, protocol: 2 });
        *self.own.insert(vc)
    }

    pub(super) fn number(&mut self, owner: Owner) -> u32 {
        let vc = self.free.pop().unwrap_or_else(|| {
            self.owners.push(Owner::Nobody);
            self.owners.len() as u32 - 1
        });
        self.owners[vc as usize] = owner;
        vc
    }

    /// Notes that the client's end of a virtual connection has gone.
    pub(crate) fn close(&mut self, vc: u32) {
        if let Some(owner) = self.owners.get_mut(vc as usize) {
            *owner = Owner::Gone;
            self.stage.put(&Item::Close { vc });
        }
    }

    /// The client of a virtual connection; `Ok(None)` if it has gone. `Err`: there is none.
    pub(crate) fn client(&self, vc: u32) -> Result<Option<Token>, ()> {
        match self.owners.get(vc as usize) {
            Some(Owner::Client(token)) => Ok(Some(*token)),
            Some(Owner::Gone | Owner::Node | Owner::Notice(_)) => Ok(None),
            _ => Err(()),
        }
    }

    /// Notes that the other end has closed a virtual connection. Returns its client, if it has one.
    pub(crate) fn closed(&mut self, vc: u32) -> Result<Option<Token>, ()> {
        let client = self.client(vc)?;
        self.own = self.own.filter(|own| *own != vc);
        self.owners[vc as usize] = Owner::Nobody;
        self.free.push(vc);
        Ok(client)
    }

    /// The entry of CLUSTER LINKS.
    pub(crate) fn shown(&self) -> Option<OpenLink> {
        let State::Open(_) = self.state else { return None };
        Some(OpenLink { node: self.node?, since: self.since, unsaid: self.stage.len() + self.unsent })
    }

    /// This end of it, if it is open.
    pub(crate) fn open_end(&self) -> Option<Token> {
        if let State::Open(token) = self.state { Some(token) } else { None }
    }

    /// This end of it, if it is open or being opened.
    pub(crate) fn end(&self) -> Option<Token> {
        match self.state {
            State::Open(token) | State::Dialing(token, _) => Some(token),
            State::Down(_) => None,
        }
    }

    /// True if clients have virtual connections at its other end.
    pub(crate) fn is_used(&self) -> bool {
        self.owners.iter().any(|owner| matches!(owner, Owner::Client(_) | Owner::Notice(_)))
    }

    /// True if it is not being opened: it has just ended, or was dialed in vain.
    pub(crate) fn is_down(&self, now: UnixMs) -> bool {
        self.is_out_of_reach() || matches!(self.state, State::Down(until) if until > now)
    }

    /// When the next action is due.
    pub(super) fn deadline(&self) -> Option<UnixMs> {
        match self.state {
            State::Down(until) if self.in_vain || !self.stage.is_empty() || !self.owed_scripts.is_empty() => {
                Some(until)
            }
            State::Dialing(_, until) => Some(until),
            _ => None,
        }
    }

    /// True if items for it would wait in vain: it has been dialed for `cluster-takeover-wait`.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        self.is_lost && self.open_end().is_none()
    }

    /// True if it ended, or could not be opened, and items wait for the next dial.
    pub(super) fn holds(&self) -> bool {
        self.in_vain && !self.is_lost
    }

    /// True if its node does not answer since a moment ago: whoever is sent there finds nobody.
    pub(super) fn is_silent(&self) -> bool {
        self.failures > 0 && !self.is_lost && self.open_end().is_none()
    }

    /// Bytes of commands that wait for a node that does not answer.
    pub(super) fn held_bytes(&self) -> usize {
        if self.holds() { self.stage.len() } else { 0 }
    }

    /// True if it has been dialed in vain for at least so many milliseconds. A dial counts for [`DIAL_MS`] at most: a
    /// machine that has stood still as a whole has not dialed.
    pub(crate) fn is_out_of_reach_for(&self, ms: u64) -> bool {
        self.is_out_of_reach() && self.vain_ms > ms
    }

    /// Drops the items. Returns the clients that had virtual connections, and those that waited to send.
    pub(super) fn forget(&mut self) -> (Vec<Token>, Vec<Token>) {
        self.stage.clear();
        (self.own, self.own_bytes) = (None, 0);
        self.free.clear();
        let (mut clients, mut waiting) = (Vec::new(), Vec::new());
        for owner in std::mem::take(&mut self.owners) {
            match owner {
                Owner::Client(token) => clients.push(token),
                Owner::Notice(token) => waiting.push(token),
                Owner::Nobody | Owner::Node | Owner::Gone => {}
            }
        }
        (clients, waiting)
    }

    /// Notes that it is being dialed. Its last dial before commands are refused is shorter, so that they do not wait
    /// much longer than `wait_ms`: `cluster-takeover-wait`.
    pub(super) fn dial(&mut self, token: Token, now: UnixMs, wait_ms: u64) {
        let left = wait_ms.saturating_sub(self.vain_ms);
        let most = if self.is_lost { DIAL_MS } else { left.clamp(HELD_DIAL_MS, DIAL_MS) };
        (self.state, self.dialed) = (State::Dialing(token, now + most), now);
    }

    /// Notes that it has ended, or could not be opened. `wait_ms`: `cluster-takeover-wait`.
    pub(super) fn fail(&mut self, now: UnixMs, wait_ms: u64) {
        self.in_vain = self.open_end().is_none() || self.given_up;
        let was_dialed = matches!(self.state, State::Dialing(..));
        // Also if it was given up early: a stopped process takes connections, and answers none.
        let unanswered = if was_dialed { now.abs_diff(self.dialed).min(DIAL_MS) } else { 0 };
        let most = if self.is_lost { u64::MAX } else { HELD_BACKOFF_MS };
        let pause = backoff(self.failures).min(most);
        self.vain_ms += pause + unanswered;
        self.is_lost = self.in_vain && self.vain_ms >= wait_ms;
        self.state = State::Down(now + pause);
        self.failures = self.failures.saturating_add(1);
        self.probe = Probe::default();
        (self.unsent, self.partner) = (0, None);
    }
}
