//! The waits of a connection before its next command can run, in groups: each has one end.
//!
//! The questions that all waits answer are here. The beginning and the end of a group's waits are in one place for
//! each: keys, jobs and the operator in `waits.rs`, the log in `durability/replies.rs`, memory in `limits/room.rs`,
//! other nodes in `cluster`, and steps in `steps.rs`.

use std::sync::Arc;

use engine::{Blocked, Walking};
use resp::OwnedArgs;

use crate::cluster::Verdict;
use crate::durability::awaited::AwaitedCopies;
use crate::durability::checkpoints::{Checkpoints, Ticket};
use crate::session::Suspended;
use crate::worker::jobs::Job;

/// The wait of a connection, grouped by the events that end waits.
#[derive(Default)]
pub(crate) enum Wait {
    /// Nothing.
    #[default]
    No,
    /// Another command of this node ends it.
    Key(KeyWait),
    /// The log ends it.
    Log(LogWait),
    /// Room in memory ends it, after a checkpoint. The present command is in the query buffer and will run again.
    Room,
    /// A thread of the binary ends it, or another part of the node.
    Job(JobWait),
    /// Another node ends it.
    Node(NodeWait),
    /// The end of what an operator has asked for ends it.
    Operator(OperatorWait),
    /// The command ends it by itself, in steps.
    Steps(Steps),
}

/// Waits for other commands.
pub(crate) enum KeyWait {
    /// A latch. The present command is in the query buffer and will run again.
    Latch,
    /// A change of keys. The engine has taken the present command over.
    Change(Arc<Blocked>),
}

/// Waits for the log.
pub(crate) enum LogWait {
    /// The log has much to write. The present command is in the query buffer and will run again.
    Backlog,
    /// Copies or disks are to have what was written, or a time comes (WAIT, WAITAOF).
    Sync(Box<AwaitedCopies>),
}

/// Waits for work that takes long, with the arguments of the command. Then it is answered.
pub(crate) enum JobWait {
    /// A checkpoint (SAVE).
    Save(OwnedArgs, Arc<Checkpoints>, Ticket),
    /// A job (CONFIG SET appendonly).
    Job(OwnedArgs, Arc<Job>),
}

/// Waits for other nodes.
pub(crate) enum NodeWait {
    /// Replies, until so many are to come at most. The present command is in the query buffer and will run, or was
    /// forwarded.
    Replies(usize),
    /// Room in a link. The present command is in the query buffer and will run again.
    Link,
    /// The answer of the node at the other end of this link.
    Answer(usize),
    /// A map by which the present command, still in the query buffer, is where it belongs; a lease, or another node.
    Map,
    /// A question to another node (CLIENT UNBLOCK).
    Verdict(Arc<Verdict>),
}

/// Waits that an operator imposes.
pub(crate) enum OperatorWait {
    /// CLIENT PAUSE is on. The present command is in the query buffer and will run again.
    Pause,
    /// DEBUG SLEEP, with its arguments. Then it is answered.
    Sleep(OwnedArgs),
}

/// Commands that go on in steps.
pub(crate) enum Steps {
    /// A walk over the keyspace.
    Walk(Box<Walking>),
    /// A script. Its command is still in the query buffer.
    Script(Box<Suspended>),
}

impl Wait {
    /// True if there is nothing to wait for.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Wait::No)
    }

    /// The command that waits for a change of keys, if one does.
    #[inline]
    pub(crate) fn blocked(&self) -> Option<&Arc<Blocked>> {
        if let Wait::Key(KeyWait::Change(blocked)) = self { Some(blocked) } else { None }
    }

    #[inline]
    pub(crate) fn is_for_latch(&self) -> bool {
        matches!(self, Wait::Key(KeyWait::Latch))
    }

    #[inline]
    pub(crate) fn is_in_walk(&self) -> bool {
        matches!(self, Wait::Steps(Steps::Walk(_)))
    }

    #[inline]
    pub(crate) fn is_in_script(&self) -> bool {
        matches!(self, Wait::Steps(Steps::Script(_)))
    }

    /// The link whose other end is to answer, if that is waited for.
    pub(crate) fn link_to_answer(&self) -> Option<usize> {
        if let Wait::Node(NodeWait::Answer(link)) = self { Some(*link) } else { None }
    }

    /// True if it waits for replies of other nodes.
    pub(crate) fn is_for_replies(&self) -> bool {
        matches!(self, Wait::Node(NodeWait::Replies(_)))
    }

    /// True if it may last, and has nothing to do with latches and locks: others go on meanwhile.
    #[inline]
    pub(crate) fn outlasts_locks(&self) -> bool {
        match self {
            Wait::No | Wait::Key(_) | Wait::Steps(_) => false,
            Wait::Log(_) | Wait::Room | Wait::Job(_) | Wait::Node(_) | Wait::Operator(_) => true,
        }
    }

    /// True if it ends soon without anything more from the client: what the client sends meanwhile is kept unread.
    pub(crate) fn ends_soon(&self) -> bool {
        match self {
            Wait::Key(KeyWait::Latch) | Wait::Steps(_) => true,
            Wait::Node(NodeWait::Replies(_) | NodeWait::Link | NodeWait::Map) => true,
            Wait::No | Wait::Key(_) | Wait::Log(_) | Wait::Room | Wait::Job(_) => false,
            Wait::Node(_) | Wait::Operator(_) => false,
        }
    }

    /// True if it lasts as long as a client has said: Redis gives it up at once when its own client leaves.
    pub(crate) fn lasts_as_told(&self) -> bool {
        matches!(self, Wait::Operator(OperatorWait::Pause) | Wait::Log(LogWait::Sync(..)))
    }

    /// True if nothing of the present command of another node's client is under way: it is unread, if there is one.
    pub(crate) fn has_not_begun(&self) -> bool {
        let is_unread = matches!(
            self,
            Wait::Key(KeyWait::Latch)
                | Wait::Log(LogWait::Backlog)
                | Wait::Room
                | Wait::Node(NodeWait::Map)
                | Wait::Operator(OperatorWait::Pause)
        );
        is_unread || self.is_over()
    }

    /// True if a reply is being written, or is on its way from another worker.
    pub(crate) fn is_being_answered(&self) -> bool {
        self.is_in_walk() || self.blocked().is_some_and(|blocked| blocked.is_being_served())
    }
}
