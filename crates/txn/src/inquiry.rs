//! How prepared participants find the outcome without the coordinator (rules T4, T5).
//!
//! A prepared participant that hears nothing asks all others. Their answers are for good. So every inquiry, whenever it
//! is made, comes to the same verdict, and so does the coordinator: no participant needs to know whether it is alive.
//! All prepared: the transaction is committed, and its client may have been answered. A participant that says that it
//! is not prepared never will be: no client can have been answered.
//!
//! The answers of a participant that is lost for good are unknown. It counts as prepared, so that a reply that a client
//! may have got stays true. (If it had refused, and only a coordinator knew that has ended, too, the client may have
//! got an error. One of the two must be wrong, and this case is the rarer one.) But other participants may have refused
//! because of its answer to them, or may still hear it. So the remaining participants commit when each of them has said
//! that it has done neither, and will not (`Status::Bereft`). The coordinator, which may know as well, must have ended,
//! or have left it to them (`Message::Leave`).

use std::collections::BTreeMap;

use crate::{Member, ParticipantId, Status};

/// The conclusion from the answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Commit,
    /// All remaining participants are prepared.
    Presume,
    Abort,
    /// A participant has not answered, or waits for locks: it may go either way.
    Open,
}

/// The other participants' answers to a prepared one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Inquiry {
    answers: BTreeMap<ParticipantId, Status>,
}

impl Inquiry {
    pub(crate) fn answered(&mut self, participant: ParticipantId, status: Status) {
        self.answers.insert(participant, status);
    }

    /// The members that may have a new answer: the others' answers are for good. `others`: all but the one that asks.
    pub(crate) fn open<'a>(
        &'a self,
        others: &'a [Member],
        lost: &'a [ParticipantId],
    ) -> impl Iterator<Item = Member> + 'a {
        let open = move |member: &&Member| {
            let said = match self.answers.get(&member.id) {
                Some(Status::Prepared) => lost.is_empty(),
                Some(Status::Bereft { lost: known }) => *known >= lost.len() as u64,
                _ => false,
            };
            !lost.contains(&member.id) && !said
        };
        others.iter().filter(open).copied()
    }

    /// The verdict of a participant that is prepared. `lost`: members that are not heard any more; nor is the
    /// coordinator.
    pub(crate) fn verdict(&self, others: &[Member], lost: &[ParticipantId]) -> Verdict {
        let of = |wanted: &[Status]| self.answers.values().any(|status| wanted.contains(status));
        let is_prepared =
            |member: &Member| matches!(self.answers.get(&member.id), Some(Status::Prepared | Status::Bereft { .. }));
        if of(&[Status::Committed]) {
            Verdict::Commit
        } else if of(&[Status::Refused, Status::Aborted]) {
            Verdict::Abort
        } else if others.iter().all(is_prepared) {
            Verdict::Commit
        } else if !lost.is_empty() && self.open(others, lost).next().is_none() {
            Verdict::Presume
        } else {
            Verdict::Open
        }
    }
}
