//! The state of a connection between commands.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ::membership::items::Principal;
use command::flags;
use engine::{Again, WatchedKey};
use keyspace::Key;
use resp::{Args, Batch, Protocol};
use smallvec::SmallVec;
use txn::Lock;

use super::caching::Tracking;
use super::subscriptions::Subscriptions;
use super::transaction::Interactive;
use crate::admission::rights::User;
use crate::client::Client;
use crate::cluster::Answers;
use crate::config::Redirect;
use crate::durability::cut::Exporter;
use crate::table::Command;
use crate::worker::jobs::Parts;

/// The state of a connection between commands.
pub struct Session {
    /// The part of it that other clients and workers may see.
    pub client: Arc<Client>,
    /// Selected logical database.
    pub db: u16,
    /// Protocol of its replies.
    pub protocol: Protocol,
    /// True if it may run commands.
    pub authenticated: bool,
    /// The common name in its certificate, while the node does not know the cluster's users.
    pub certificate: Option<Box<[u8]>>,
    /// The user that its commands run for; for a virtual connection, the one that its origin named.
    pub user: User,
    /// Commands queued since MULTI.
    pub multi: Option<Box<Multi>>,
    /// The transaction since BEGIN.
    pub transaction: Option<Box<Interactive>>,
    /// The memory of the last block, for reuse.
    pub spare_multi: Option<Box<Multi>>,
    /// Watched keys.
    pub watched: Vec<WatchedKey>,
    /// The present command is a block that was undone, and runs again with this (rule K3).
    pub again: Option<Box<Retry>>,
    /// The present command is a script that was undone because it uses keys of other nodes, these among them. It runs
    /// again on copies.
    pub goes_over: Option<Vec<Lock>>,
    /// The present command is a script or a block that was undone, because this node may not go on with it.
    pub undone: Option<Undone>,
    /// In MONITOR mode.
    pub monitors: bool,
    /// Its subscriptions, if it has any.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// Its part of CLIENT TRACKING, while it tracks.
    pub tracking: Option<Box<Tracking>>,
    /// True if tracking was switched on or off by its last command.
    pub tracks_anew: bool,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// Memory was used up when the present command began.
    pub short_of_memory: bool,
    /// The error that the present command answers was counted already, as that of a script's command.
    pub error_is_counted: bool,
    /// The answers of other nodes to the script or block that is the present command.
    pub answers: Option<Box<Answers>>,
    /// The parts of a snapshot that it wants (REPLCONF).
    pub snapshot_parts: Parts,
    /// The export over nodes that it drives.
    pub(crate) exporter: Option<Exporter>,
    /// CLIENT REPLY.
    pub replies: Replies,
    /// The choice of CLUSTER REDIRECT for keys of other nodes, if it was made.
    pub redirect: Option<Redirect>,
    /// READONLY: it reads the copy of another node's data that this node may have.
    pub reads_copies: bool,
    /// The script that is its present command reads that copy.
    pub on_copy: bool,
}

/// The fate of a script or a block that was undone because its node may not go on with it.
pub enum Undone {
    /// The client gets this error.
    Refused(Vec<u8>),
    /// It runs at the node that has its keys by now.
    RunsElsewhere,
}

/// The block between MULTI and EXEC.
#[derive(Default)]
pub struct Multi {
    /// The commands.
    pub queue: Vec<Queued>,
    /// Their arguments, in the same order.
    pub batch: Batch,
    /// A command could not be queued: EXEC will refuse.
    pub aborted: bool,
    /// True if one of them has keys of this node, so that the block does not belong to another node.
    pub here: bool,
    /// Bytes of arguments.
    pub bytes: usize,
    /// EXEC in the client's spelling, if the block ran at other nodes as well: MONITOR shows it.
    pub exec: ExecWord,
    /// For whom it runs over nodes.
    pub user: Principal,
}

/// EXEC as a client types it.
pub type ExecWord = SmallVec<[u8; 8]>;

/// A queued command.
#[derive(Clone, Copy)]
pub struct Queued {
    /// Its id in the table.
    pub command: usize,
    /// Slot and hash of argument 1 if that is its only key.
    pub key: Option<(u16, u64)>,
}

impl Queued {
    /// The key that was hashed when the command was parsed.
    pub fn first<'a>(&self, args: Args<'a>) -> Option<Key<'a>> {
        let (slot, hash) = self.key?;
        Some(Key { bytes: args.get(1)?, hash, slot })
    }
}

impl Multi {
    /// Adds a command. False: the block would exceed 4 GiB.
    #[must_use]
    pub fn push(&mut self, command: usize, key: Option<(u16, u64)>, args: Args<'_>) -> bool {
        let fits = self.batch.push_copy(args.iter());
        if fits {
            self.queue.push(Queued { command, key });
            self.bytes += args.bytes() + args.len() * size_of::<u64>();
        }
        fits
    }

    /// The queued commands with their arguments.
    pub fn commands(&self) -> impl Iterator<Item = (Queued, Args<'_>)> {
        self.queue.iter().enumerate().map(|(i, queued)| (*queued, self.batch.args(i, &[])))
    }

    /// Forgets everything, and keeps the memory for the next block.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.batch.clear();
        (self.aborted, self.here) = (false, false);
        self.bytes = 0;
        self.exec.clear();
    }
}

/// Which replies a client gets (CLIENT REPLY).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replies {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// None to the command that asks for it, then none to the next.
    SkipNext,
    /// None to this one.
    Skip,
}

/// A session on its way to another worker.
pub struct Detached {
    /// The session.
    pub session: Session,
}

impl Session {
    /// The session of a new connection.
    pub fn new(client: Arc<Client>, authenticated: bool) -> Self {
        Self {
            client,
            db: 0,
            protocol: Protocol::Resp2,
            authenticated,
            certificate: None,
            user: User::DEFAULT,
            multi: None,
            transaction: None,
            spare_multi: None,
            watched: Vec::new(),
            again: None,
            goes_over: None,
            undone: None,
            monitors: false,
            subscriptions: None,
            tracking: None,
            tracks_anew: false,
            no_touch: false,
            short_of_memory: false,
            error_is_counted: false,
            answers: None,
            snapshot_parts: Parts::ALL,
            exporter: None,
            replies: Replies::On,
            redirect: None,
            reads_copies: false,
            on_copy: false,
        }
    }

    /// Chooses the protocol of replies.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        self.client.protocol.store(protocol.number() as u16, Relaxed);
    }

    /// Selects a database.
    pub fn set_db(&mut self, db: u16) {
        self.db = db;
        self.client.db.store(db, Relaxed);
    }

    /// True if the client hears which node has a key of another node, and does not get the reply. Smart clients do, and
    /// others if `cluster-redirect`, which is `default`, says so. CLUSTER REDIRECT comes before both.
    pub fn moves(&self, default: Redirect) -> bool {
        let smart = self.client.peer.smart.then_some(Redirect::Moved);
        self.redirect.or(smart).unwrap_or(default) == Redirect::Moved
    }

    /// True if this command joins the queue of MULTI instead of running.
    pub fn queues(&self, command: &Command) -> bool {
        self.multi.is_some() && command.spec.flags & flags::IN_MULTI == 0
    }

    /// The present command has ended, or (`goes_on`) may go on at another node: the next command does not see its
    /// answers.
    pub(crate) fn end_answers(&mut self, goes_on: bool) {
        match self.answers.as_mut().filter(|_| goes_on) {
            Some(answers) => answers.is_over = true,
            None => self.answers = None,
        }
    }

    /// Ends the block, if there is one. Returns the watched keys, to be unwatched.
    #[must_use]
    pub fn leave_multi(&mut self) -> Vec<WatchedKey> {
        self.leave_block();
        self.take_watched()
    }

    /// Ends the block alone. A block in a workspace (see [`super::Aside`]) does not depend on the client's watched
    /// keys, and does not unwatch them.
    pub fn leave_block(&mut self) {
        self.multi = None;
        self.client.queued.store(-1, Relaxed);
        self.client.queued_bytes.store(0, Relaxed);
    }

    /// Ends all watches. Returns the watched keys, to be unwatched.
    #[must_use]
    pub fn take_watched(&mut self) -> Vec<WatchedKey> {
        self.client.watching.store(0, Relaxed);
        self.client.watched_bytes.store(0, Relaxed);
        std::mem::take(&mut self.watched)
    }

    /// Marks the block as broken: EXEC will refuse.
    pub fn abort_multi(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.aborted = true;
        }
    }
}

/// The state with which an undone block runs again (rule K3).
pub struct Retry {
    /// The engine's part of it.
    pub(super) again: Again,
    /// Its time: see [`super::Block::micros`].
    pub(super) micros: u64,
}
