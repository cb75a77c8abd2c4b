//! A block under way: EXEC, a command, or a COMMIT with keys of several nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use clocks::{BootMs, UnixMs};
use engine::WatchedKey;
use resp::{Protocol, Reply};
use txn::{Lock, ParticipantId};

use super::client::{For, Watched};
use super::fetching::Fetching;
use super::split::{Join, join};
use super::wire;
use crate::session::transaction::Interactive;
use crate::session::{ExecWord, Multi};
use crate::worker::token::Token;

/// A block under way.
pub(super) struct Block {
    pub(super) token: Token,
    /// True if the block is a single command, not an EXEC.
    pub(super) alone: bool,
    /// The place of its reply in the client's output, and true if the client wants the reply.
    pub(super) hole: (u64, bool),
    pub(super) multi: Box<Multi>,
    /// Keys that the client watches at this node.
    pub(super) watched: Vec<WatchedKey>,
    /// Keys that the client watches at other nodes.
    pub(super) elsewhere: Vec<Elsewhere>,
    /// Database and protocol of the session.
    pub(super) db: u16,
    pub(super) protocol: Protocol,
    pub(super) answers: Vec<Answer>,
    /// The database that is selected after the block.
    pub(super) selected: u16,
    /// Present if the block runs here, on copies.
    pub(super) fetching: Option<Box<Fetching>>,
    /// Present if the block is the COMMIT of this transaction.
    pub(super) commit: Option<Box<Interactive>>,
    /// When the owners first said that they do not own the keys, while the map still says that they do.
    pub(super) moved_since: Option<BootMs>,
    /// Present if the command found nothing, and waits or tries again.
    pub(super) waiting: Option<Box<Waiting>>,
    /// The client for which it runs, and its virtual connections if that client caches.
    pub(super) runs: For,
    /// See [`Multi::exec`].
    pub(super) exec: ExecWord,
    /// True if it may run with other blocks in one transaction.
    pub(super) joins: bool,
    /// Keys beside those of its commands that were known to be needed when it came.
    pub(super) known: Vec<Lock>,
    /// True if its client has gone. The block has run, and may be committed with others.
    pub(super) gone: bool,
}

/// How a command waits.
#[derive(Default)]
pub(super) struct Waiting {
    /// When the command gives up.
    pub(super) deadline: Option<UnixMs>,
    /// When the command tries again even if no key has changed.
    pub(super) again: Option<UnixMs>,
    /// The links over which owners announce a changed key, and the virtual connections for that.
    pub(super) notices: Vec<(usize, u32)>,
}

impl Waiting {
    /// Makes the command try again at this time at the latest. Returns when it will.
    pub(super) fn look_by(&mut self, at: UnixMs) -> UnixMs {
        *self.again.insert(self.again.map_or(at, |before| before.min(at)))
    }
}

/// The keys that a client watches at this node and at others.
pub(super) type Watches<'a> = (&'a [WatchedKey], &'a [Elsewhere]);

/// The keys that a client watches at another node.
pub(super) struct Elsewhere {
    pub(super) link: usize,
    pub(super) watch: wire::Watch,
    pub(super) keys: Vec<(u16, Box<[u8]>)>,
}

/// Where the reply to a command comes from.
pub(super) enum Answer {
    Whole(ParticipantId),
    Here(Vec<u8>),
    /// The reply is joined from several participants, each of which has these of the command's keys.
    Split(Join, Vec<(ParticipantId, Vec<usize>)>),
}

impl Block {
    /// A block of one command, such as those between BEGIN and COMMIT, or a COMMIT.
    pub(super) fn new(
        token: Token,
        hole: (u64, bool),
        multi: Box<Multi>,
        (db, protocol): (u16, Protocol),
        fetching: Option<Box<Fetching>>,
    ) -> Self {
        Self {
            token,
            alone: true,
            hole,
            multi,
            watched: Vec::new(),
            elsewhere: Vec::new(),
            db,
            protocol,
            answers: Vec::new(),
            selected: db,
            fetching,
            commit: None,
            moved_since: None,
            waiting: None,
            runs: For::default(),
            exec: ExecWord::new(),
            joins: false,
            known: Vec::new(),
            gone: false,
        }
    }

    /// The keys that its client watches.
    pub(super) fn watches(&self) -> Watches<'_> {
        (&self.watched, &self.elsewhere)
    }

    /// The keys that its client watches at this node.
    pub(super) fn watched_here(&self) -> Watched {
        Watched::Keys(self.watched.clone())
    }

    /// True if its commands have other owners now.
    pub(super) fn is_elsewhere(&self, answers: &[Answer]) -> bool {
        let of = |answer: &Answer| match answer {
            Answer::Here(_) => Vec::new(),
            Answer::Whole(id) => vec![*id],
            Answer::Split(_, of) => of.iter().map(|(id, _)| *id).collect(),
        };
        self.answers.iter().map(of).ne(answers.iter().map(of))
    }

    /// The reply of EXEC, made of the replies of its parts.
    pub(super) fn reply(&self, replies: &[(ParticipantId, Arc<[u8]>)]) -> Option<Vec<u8>> {
        let mut rest: BTreeMap<ParticipantId, &[u8]> = replies.iter().map(|(id, bytes)| (*id, &**bytes)).collect();
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, self.protocol);
        if !self.alone {
            reply.array(self.answers.len());
        }
        for answer in &self.answers {
            match answer {
                Answer::Here(bytes) => reply.raw(bytes),
                Answer::Split(how, of) => {
                    let mut parts = Vec::with_capacity(of.len());
                    for (id, numbers) in of {
                        parts.push((wire::take_bytes(rest.get_mut(id)?).ok()?, &**numbers));
                    }
                    reply.raw(&join(*how, &parts, self.protocol)?);
                }
                Answer::Whole(id) => reply.raw(wire::take_bytes(rest.get_mut(id)?).ok()?),
            }
        }
        Some(out)
    }
}
