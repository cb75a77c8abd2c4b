//! What a connection of a worker is: a client, or one end of a link, or a client of another node.

use std::collections::VecDeque;

use super::frames::Stage;
use crate::worker::token::Token;

/// What a connection of a worker's table is.
pub(crate) enum Role {
    /// A client's.
    Client,
    /// A client's of another node, which has forwarded commands: it has no socket.
    Virtual(Box<Virtual>),
    /// This end of a link forwards: the number of the link.
    Origin(usize),
    /// This end of a link executes.
    Owner(Box<Inbound>),
}

impl Role {
    /// Whether it is one end of a link.
    #[inline]
    pub(crate) fn is_link(&self) -> bool {
        matches!(self, Role::Origin(_) | Role::Owner(_))
    }
}

/// What the end of a link knows that executes.
pub(crate) struct Inbound {
    /// Who forwards.
    pub(super) peer: String,
    /// Virtual connections by number.
    pub(super) lines: Vec<Option<Token>>,
    pub(crate) stage: Stage,
    /// It is in the list of those with something to say.
    pub(crate) is_staged: bool,
    /// Of a link that leads back: its other end.
    pub(crate) partner: Option<Token>,
    /// Nothing more is executed for it, and the other end hears so.
    pub(super) has_left: bool,
    /// For which virtual connection the next message of a transaction is, what its node calls its client, and whether
    /// that caches.
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

    /// Whether the other end is another node's, which has not been told that this one leaves.
    pub(crate) fn may_leave(&self) -> bool {
        self.partner.is_none() && !self.has_left
    }

    /// Its virtual connections, of which it then has none.
    pub(crate) fn take_lines(&mut self) -> impl Iterator<Item = Token> + use<> {
        std::mem::take(&mut self.lines).into_iter().flatten()
    }
}

/// What is special about a virtual connection.
pub(crate) struct Virtual {
    pub(super) link: Token,
    pub(super) vc: u32,
    /// What its node calls the client.
    pub(crate) client: u64,
    /// That is this node.
    pub(super) is_home: bool,
    /// The epoch of this node by which its last commands were sent here.
    pub(crate) epoch: u64,
    /// Bytes of output that were said.
    pub(super) said: u64,
    /// Where replies end that were not said as a whole, counted as `said` is.
    pub(super) ends: VecDeque<u64>,
    /// A command was executed whose reply may not have ended.
    pub(super) is_replying: bool,
    /// Lengths of replies, to be said: memory.
    pub(super) lengths: Vec<u32>,
    /// Bytes of what its client must forget that were written since everything was last said.
    pub(super) news: usize,
}
