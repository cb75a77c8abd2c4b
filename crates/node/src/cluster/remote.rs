//! The state of a client's connection at other nodes: a virtual connection each, and the replies that it is owed.

use std::collections::VecDeque;

use ::membership::items::Principal;
use clocks::UnixMs;
use resp::{OwnedArgs, append_request};

use super::gathering::Gather;
use super::verdict::Question;
use crate::session::caching::Mode;
use crate::session::{Multi, Session};

/// Most bytes of reads that a connection keeps for a link. With more under way it is closed instead.
const KEPT_MAX: usize = 16 << 10;

/// A reply that is to come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expect {
    /// The reply goes into a hole of the output.
    Hole(Owed),
    /// As before, for a script, which is kept: it may have to run over nodes.
    Script(Owed),
    /// As before, for a block: the database that it selects, if it runs.
    Block(Owed, Option<u16>),
    /// As before, for a WATCH over this link, and how many keys were watched there before it.
    Watch(Owed, usize, usize),
    /// It is one of the replies to a WATCH that become one; the rest as before.
    WatchPart(usize, usize, usize),
    /// It belongs nowhere.
    Nothing,
    /// It is one of the replies that become one.
    Part(usize),
    /// It says that the other end of this link knows every key that the client is to hear of (BCAST), and whether the
    /// client has missed something before.
    Heard(usize, bool),
}

/// A reply that is a part of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    /// Its place.
    pub(crate) hole: u64,
    /// True if the client wants it.
    pub(crate) wanted: bool,
    /// The database that the client had selected.
    pub(crate) db: u16,
    /// The command was sent back, and is under way by a later map than others of its connection.
    pub(crate) is_resent: bool,
}

impl Owed {
    /// The part of a reply that the client gets.
    #[inline]
    pub(crate) fn part(self, reply: &[u8]) -> &[u8] {
        if self.wanted { reply } else { &[] }
    }
}

impl Expect {
    /// The hole that it goes to, if it goes to one by itself.
    pub(crate) fn hole(self) -> Option<u64> {
        match self {
            Expect::Hole(owed) | Expect::Script(owed) | Expect::Block(owed, _) | Expect::Watch(owed, ..) => {
                Some(owed.hole)
            }
            Expect::WatchPart(..) | Expect::Nothing | Expect::Part(_) | Expect::Heard(..) => None,
        }
    }
}

/// The reads under way over a line, as they were sent.
#[derive(Default)]
pub(crate) struct Reads {
    /// Those since no reply was outstanding: answered ones first.
    pub(super) bytes: Vec<u8>,
    /// Something else is under way as well, or was a moment ago, or they were too many.
    pub(super) is_mixed: bool,
}

impl Reads {
    /// Notes a command before it is sent. `is_first`: no reply is outstanding.
    #[inline]
    pub(crate) fn note(&mut self, is_first: bool, command: &[u8], is_read: bool) {
        if is_first {
            self.bytes.clear();
            self.is_mixed = false;
        }
        self.is_mixed |= !is_read || self.bytes.len() + command.len() > KEPT_MAX;
        if !self.is_mixed {
            self.bytes.extend_from_slice(command);
        }
    }
}

/// This end of a virtual connection.
pub(crate) struct Line {
    /// Its number on the link.
    pub(crate) vc: u32,
    /// The session as the owner knows it. The database is unknown after a block that selects one, which may not have
    /// run.
    pub(crate) db: Option<u16>,
    pub(crate) protocol: u8,
    pub(crate) no_touch: bool,
    /// The user that was named for its commands.
    pub(crate) principal: Principal,
    /// Outstanding replies, in their order.
    pub(crate) expected: VecDeque<Expect>,
    /// The next of them has begun to come.
    pub(crate) has_begun: bool,
    /// The commands under way, if they only read.
    pub(crate) reads: Reads,
    /// The part of a command that is being sent back.
    pub(crate) sent_back: Vec<u8>,
    /// Questions under way: was the client unblocked?
    pub(crate) questions: VecDeque<Question>,
    /// It watches keys.
    pub(crate) watches: bool,
    /// How the session there tracks.
    pub(crate) tracking: Mode,
    /// The owner there knows every key that the client is to hear of (BCAST).
    pub(crate) is_heard: bool,
    /// The hole that the last whole reply went to, if it went to one.
    pub(crate) last: Option<u64>,
    /// The watched keys, with their databases; empty if it watches none.
    pub(crate) watched: Vec<(u16, Box<[u8]>)>,
    /// Bytes that have come and are not acknowledged: the owner sends only so many ahead.
    pub(crate) unacknowledged: usize,
}

impl Line {
    /// Makes the session there follow this one, in its turn among the commands. `say` sends a command.
    pub(crate) fn follow(&mut self, session: &Session, tracking: Mode, mut say: impl FnMut(&[u8])) {
        let mut request = |words: &[&[u8]]| {
            let mut bytes = Vec::new();
            append_request(&mut bytes, words);
            say(&bytes);
            self.expected.push_back(Expect::Nothing);
        };
        if self.tracking != tracking {
            tracking.follow(self.tracking, session, &mut request);
        }
        let mut command = |words: &[&str]| request(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        let protocol = session.protocol.number() as u8;
        if self.db != Some(session.db) {
            command(&["SELECT", &session.db.to_string()]);
        }
        if self.protocol != protocol {
            command(&["HELLO", &protocol.to_string()]);
        }
        if self.no_touch != session.no_touch {
            command(&["CLIENT", "NO-TOUCH", if session.no_touch { "ON" } else { "OFF" }]);
        }
        (self.db, self.protocol, self.no_touch) = (Some(session.db), protocol, session.no_touch);
        self.tracking = tracking;
    }

    /// True if the session there is the same as this one.
    #[inline]
    pub(crate) fn follows(&self, session: &Session, tracking: Mode) -> bool {
        let is_same = (self.db, self.protocol, self.no_touch)
            == (Some(session.db), session.protocol.number() as u8, session.no_touch);
        is_same && self.tracking == tracking && self.principal == session.user.principal
    }
}

impl Line {
    /// True if these bytes belong to a command that is sent back, which is kept until it is whole. No other answer over
    /// a link begins as a push.
    #[inline]
    pub(crate) fn takes_back(&mut self, some: &[u8]) -> bool {
        let is_sent_back = if self.has_begun { !self.sent_back.is_empty() } else { some.first() == Some(&b'>') };
        if is_sent_back {
            self.sent_back.extend_from_slice(some);
        }
        is_sent_back
    }
}

/// A script that was sent to where its keys are.
pub(crate) struct Script {
    pub(crate) command: usize,
    pub(crate) args: OwnedArgs,
    /// How its reply begins.
    pub(crate) reply: Vec<u8>,
}

/// A block with scripts that was sent to where its keys are.
pub(crate) struct Forwarded {
    pub(crate) multi: Box<Multi>,
    pub(crate) link: usize,
    /// The keys that the client watches there.
    pub(crate) watched: Vec<(u16, Box<[u8]>)>,
}

/// A command, or the commands of a block, that an owner has sent back.
pub(crate) struct Returned {
    pub(crate) owed: Owed,
    pub(crate) is_block: bool,
    /// The link over which it came back.
    pub(crate) from: usize,
    /// The version of the owner's map.
    pub(crate) version: u64,
    pub(crate) command: Vec<u8>,
    /// When to wait for that map no longer.
    pub(crate) until: UnixMs,
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct Remote {
    /// By link.
    pub(crate) lines: Vec<Option<Line>>,
    /// Replies that become one.
    pub(crate) gather: Option<Box<Gather>>,
    /// A script under way at another node, until it is known whether it is done there. There is one at most.
    pub(crate) script: Option<Box<Script>>,
    /// A block with scripts under way at another node, as before, and its watched keys there.
    pub(crate) block: Option<Box<Forwarded>>,
    /// Commands that were sent back and wait for a map, in their order.
    pub(crate) returned: VecDeque<Returned>,
    /// Keys that were watched elsewhere are not any more: the next block does not run.
    pub(crate) lost_watch: bool,
    /// The beginning of the reply of a block that selects a database. There is one at most: nothing is forwarded with
    /// it or behind it.
    pub(crate) beginning: Vec<u8>,
    /// Bytes of commands forwarded since the last time that no reply was outstanding.
    pub(crate) forwarded: usize,
    /// The links over which commands were forwarded that may change something.
    pub(crate) changed: Vec<usize>,
}

impl Remote {
    /// Takes a part of the reply of a block that selects a database. Returns whether the block has run, once the reply
    /// is whole: a block that has not run answers nil or an error.
    pub(crate) fn has_run(&mut self, reply: &[u8], whole: bool) -> Option<bool> {
        const NIL: &[u8] = b"*-1";
        let lacking = NIL.len() - self.beginning.len();
        self.beginning.extend_from_slice(&reply[..reply.len().min(lacking)]);
        if !whole {
            return None;
        }
        let beginning = std::mem::take(&mut self.beginning);
        Some(!(beginning.starts_with(b"-") || beginning.starts_with(b"_") || beginning == NIL))
    }

    /// Notes that a command that may change something is forwarded over a link.
    #[inline]
    pub(crate) fn note_change(&mut self, link: usize) {
        if !self.changed.contains(&link) {
            self.changed.push(link);
        }
    }

    /// The virtual connection over a link.
    pub(crate) fn line(&mut self, link: usize) -> Option<&mut Line> {
        self.lines.get_mut(link)?.as_mut()
    }

    /// The place of a virtual connection that is to be opened.
    pub(crate) fn place(&mut self, link: usize) -> &mut Option<Line> {
        if self.lines.len() <= link {
            self.lines.resize_with(link + 1, || None);
        }
        &mut self.lines[link]
    }

    /// Bytes of replies that have come and that will become one.
    pub(crate) fn gathered(&self) -> usize {
        self.gather.as_ref().map_or(0, |gather| gather.len())
    }

    /// True if a reply is outstanding.
    pub(crate) fn is_owed(&self) -> bool {
        self.lines.iter().flatten().any(|line| !line.expected.is_empty())
    }

    /// The links over which keys are watched.
    pub(crate) fn watching(&self) -> impl Iterator<Item = usize> + '_ {
        let watches = |line: &Option<Line>| line.as_ref().is_some_and(|line| line.watches);
        self.lines.iter().enumerate().filter(move |(_, line)| watches(line)).map(|(link, _)| link)
    }
}

impl Line {
    /// Takes the owner's verdict.
    pub(crate) fn unblocked(&mut self, yes: bool) {
        if let Some(question) = self.questions.pop_front() {
            question.answer(yes);
        }
    }
}
