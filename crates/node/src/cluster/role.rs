//! The roles of a worker's connections: a client, one end of a link, or a client of another node.

use std::collections::VecDeque;

use super::frames::Stage;
use crate::worker::token::Token;

/// The role of a connection in a worker's table.
pub(crate) enum Role {
    /// A client's.
    Client,
    /// A client of another node, which has forwarded commands: it has no socket.
    Virtual(Box<Virtual>),
    /// This end of a link forwards: the number of the link.
    Origin(usize),
    /// This end of a link executes.
    Owner(Box<Inbound>),
}

impl Role {
    /// True if it is one end of a link.
    #[inline]
    pub(crate) fn is_link(&self) -> bool {
        matches!(self, Role::Origin(_) | Role::Owner(_))
    }
}

/// The state of the end of a link that executes.
pub(crate) struct Inbound {
    /// The node that forwards.
    pub(super) peer: String,
    /// Virtual connections by number.
    pub(super) lines: Vec<Option<Token>>,
    pub(crate) stage: Stage,
    /// It is in the list of links with items to send.
    pub(crate) is_staged: bool,
    /// For a link that leads back: its other end.
    pub(crate) partner: Option<Token>,
    /// Nothing more is executed for it, and the other end knows.
    pub(super) has_left: bool,
    /// The virtual connection that the next message of a transaction is for, the client's number at its node, and
    /// whether the client caches.
    pub(crate) next_for: Option<(u32, u64, bool)>,
}

impl Inbound {
    pub(crate) fn new(peer: &str, partner: Option<Token>) -> Self {
        let (lines, stage) = (Vec::new(), Stage::default());
        Self { peer: peer.into(), lines, stage, is_staged: false, partner, has_left: false, next_for: None }
    }

    pub(crate) fn line(&self, vc: u32) -> Option<Token> {
        *self.lines.get(vc as usize)?
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = Token> + '_ {
        self.lines.iter().flatten().copied()
    }

    /// True if the other end belongs to another node, which does not know yet that this one leaves.
    pub(crate) fn may_leave(&self) -> bool {
        self.partner.is_none() && !self.has_left
    }

    /// Takes its virtual connections out.
    pub(crate) fn take_lines(&mut self) -> impl Iterator<Item = Token> + use<> {
        std::mem::take(&mut self.lines).into_iter().flatten()
    }
}

/// The state of a virtual connection.
pub(crate) struct Virtual {
    pub(super) link: Token,
    pub(super) vc: u32,
    /// The client's number at its node.
    pub(crate) client: u64,
    /// That node is this one.
    pub(crate) is_home: bool,
    /// The epoch of this node by which its last commands were sent here.
    pub(crate) epoch: u64,
    /// Bytes of output that were sent.
    pub(super) said: u64,
    /// The ends of replies that were not sent as a whole, counted as `said` is.
    pub(super) ends: VecDeque<u64>,
    /// A command was executed whose reply may not have ended.
    pub(super) is_replying: bool,
    /// Lengths of replies that are to be sent: memory for reuse.
    pub(super) lengths: Vec<u32>,
    /// Bytes of invalidations that were written since everything was last sent.
    pub(super) news: usize,
}
