//! The state of an attempt.

use std::collections::BTreeSet;
use std::sync::Arc;

use clocks::BootMs;

use super::Action;
use crate::inquiry::Inquiry;
use crate::{Lock, Member, Message, ParticipantId, Prepare, Prepared, Recipient, Status, TxnId};

/// The answer that a node waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Want {
    Status,
    Acknowledged,
}

/// The state of the record of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Logged {
    No,
    Appending,
    Yes,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Phase {
    /// Its locks were asked for. Fetches: to send the values.
    Queued { prepare: Arc<Prepare>, fetches: bool },
    /// Its commands run. Cancelled: it is refused when they have.
    Executing { prepare: Arc<Prepare>, cancelled: bool },
    /// It has its locks, and has sent its values.
    Fetched { prepare: Arc<Prepare>, found: Arc<[u8]> },
    /// It only read (rule T3), and holds its locks until the coordinator ends it or the time is over.
    Held { locks: Arc<[Lock]>, replies: Arc<[u8]> },
    /// Its Prepare is in the log and not committed.
    Appending { prepared: Arc<Prepared>, replies: Arc<[u8]> },
    /// Its Prepare is committed. Replies are of this life only.
    Prepared { prepared: Arc<Prepared>, replies: Option<Arc<[u8]>>, inquiry: Inquiry },
    /// The outcome is in the log and not committed.
    Deciding { commit: bool, members: Arc<[Member]> },
    /// `owing`: the coordinator is gone, and these have not acknowledged yet.
    Committed { members: Arc<[Member]>, owing: Option<BTreeSet<ParticipantId>> },
    /// The Abort is committed.
    Aborted,
    /// It takes no part in the attempt.
    Refused { logged: Logged },
}

/// The requests of an attempt since its Fetch. Empty, once it proceeds or is over.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Wider {
    /// The last round in which it was asked for more; 0: none.
    pub(super) round: u32,
    /// The keys of each round. They are put together only where that is needed: a script may have thousands of rounds.
    pub(super) locks: Vec<Arc<[Lock]>>,
}

impl Wider {
    /// All locks and claims of the attempt, which began with these.
    pub(super) fn with(&self, first: &Arc<[Lock]>) -> Arc<[Lock]> {
        if self.locks.is_empty() {
            return Arc::clone(first);
        }
        let further = self.locks.iter().flat_map(|locks| locks.iter());
        Lock::normalized(first.iter().chain(further).cloned().collect())
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Attempt {
    pub(super) phase: Phase,
    pub(super) wider: Wider,
    /// The nodes to answer when the record in flight is committed.
    pub(super) waiting: BTreeSet<(Recipient, Want)>,
    pub(super) due: Option<BootMs>,
    /// The coordinator leaves it to the remaining participants.
    pub(super) left: bool,
}

impl Attempt {
    pub(super) fn new(phase: Phase) -> Self {
        Self { phase, wider: Wider::default(), waiting: BTreeSet::new(), due: None, left: false }
    }

    /// It takes no part, and holds nothing any more.
    pub(super) fn end(&mut self) {
        (self.phase, self.wider) = (Phase::Refused { logged: Logged::No }, Wider::default());
    }

    /// Gives back all its locks and claims, the first part of which is this.
    pub(super) fn unlock(&self, tx: TxnId, prepare: &Prepare) -> Action {
        Action::Unlock { tx, locks: self.wider.with(&prepare.locks) }
    }

    /// The message with the values that were asked for last.
    pub(super) fn fetched(&self, tx: TxnId, found: &Arc<[u8]>) -> Message {
        Message::Fetched { tx, round: self.wider.round, found: Arc::clone(found) }
    }

    /// Its present status; `None`: it waits for the log.
    pub(super) fn status(&self) -> Option<Status> {
        match &self.phase {
            Phase::Queued { .. } | Phase::Executing { .. } | Phase::Fetched { .. } | Phase::Held { .. } => {
                Some(Status::Pending)
            }
            Phase::Appending { .. } => None,
            Phase::Prepared { .. } => Some(Status::Prepared),
            // True whether or not the own record survives: all have prepared, or one has refused.
            Phase::Deciding { commit: true, .. } | Phase::Committed { .. } => Some(Status::Committed),
            Phase::Deciding { commit: false, .. } | Phase::Aborted => Some(Status::Aborted),
            Phase::Refused { logged: Logged::Yes } => Some(Status::Refused),
            Phase::Refused { .. } => None,
        }
    }
}
