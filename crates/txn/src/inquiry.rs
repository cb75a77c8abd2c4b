//! How those who are prepared find out without the coordinator (rules T4, T5).
//!
//! A prepared participant that hears nothing asks all others. Their answers are for good, so whoever asks, and whenever, comes to the same
//! verdict, and the coordinator does as well: nobody need know whether it is alive. All prepared: the transaction is committed, and its client may have been told.
//! One that is not prepared and says so will not be: nobody can have been told.

use std::collections::BTreeMap;

use crate::{Member, NodeId, Status};

/// What follows from the answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Commit,
    Abort,
    /// Somebody has not answered, or waits for locks: it may go either way.
    Open,
}

/// What the others have answered to a participant that is prepared.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Inquiry {
    answers: BTreeMap<NodeId, Status>,
}

impl Inquiry {
    pub(crate) fn answered(&mut self, node: NodeId, status: Status) {
        self.answers.insert(node, status);
    }

    /// The members that may have something new to say: what the others said is for good.
    pub(crate) fn open<'a>(&'a self, me: NodeId, members: &'a [Member]) -> impl Iterator<Item = Member> + 'a {
        let open =
            move |member: &&Member| member.node != me && self.answers.get(&member.node) != Some(&Status::Prepared);
        members.iter().filter(open).copied()
    }

    /// What `me`, which is prepared, knows now.
    pub(crate) fn verdict(&self, me: NodeId, members: &[Member]) -> Verdict {
        let of = |wanted: &[Status]| self.answers.values().any(|status| wanted.contains(status));
        if of(&[Status::Committed]) {
            Verdict::Commit
        } else if of(&[Status::Refused, Status::Aborted]) {
            Verdict::Abort
        } else if self.open(me, members).next().is_none() {
            Verdict::Commit
        } else {
            Verdict::Open
        }
    }
}
