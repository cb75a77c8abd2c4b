//! How those who are prepared find out without the coordinator (rules T4, T5).
//!
//! A prepared participant that hears nothing asks all others. Their answers are for good, so whoever asks, and whenever, comes to the same
//! verdict, and the coordinator does as well: nobody need know whether it is alive. All prepared: the transaction is committed, and its client may
//! have been told. One that is not prepared and says so will not be: nobody can have been told.
//!
//! Of a participant that is lost for good nobody knows what it said, and to whom. It counts as prepared: what a client may have been told is kept.
//! (If it had refused, and only a coordinator knew that has ended, too, the client may have been told of an error. One of the two must be wrong, and
//! this is the rarer one.) But others may have refused because of what it said to them, or may still hear it: so those who are left commit when each
//! of them has said that it has done neither, and will not (`Status::Bereft`). The coordinator, which may know as well, must have ended, or have left
//! it to them (`Message::Leave`).

use std::collections::BTreeMap;

use crate::{Member, ParticipantId, Status};

/// What follows from the answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Commit,
    /// All that are left are prepared.
    Presume,
    Abort,
    /// Somebody has not answered, or waits for locks: it may go either way.
    Open,
}

/// What the others have answered to a participant that is prepared.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Inquiry {
    answers: BTreeMap<ParticipantId, Status>,
}

impl Inquiry {
    pub(crate) fn answered(&mut self, participant: ParticipantId, status: Status) {
        self.answers.insert(participant, status);
    }

    /// The members that may have something new to say: what the others said is for good.
    pub(crate) fn open<'a>(
        &'a self,
        me: ParticipantId,
        members: &'a [Member],
        lost: &'a [ParticipantId],
    ) -> impl Iterator<Item = Member> + 'a {
        let open = move |member: &&Member| {
            let said = match self.answers.get(&member.id) {
                Some(Status::Prepared) => lost.is_empty(),
                Some(Status::Bereft { lost: known }) => *known >= lost.len() as u64,
                _ => false,
            };
            member.id != me && !lost.contains(&member.id) && !said
        };
        members.iter().filter(open).copied()
    }

    /// What `me`, which is prepared, knows now. `lost`: members that nobody hears any more, the coordinator as little.
    pub(crate) fn verdict(&self, me: ParticipantId, members: &[Member], lost: &[ParticipantId]) -> Verdict {
        let of = |wanted: &[Status]| self.answers.values().any(|status| wanted.contains(status));
        let is_prepared = |member: &Member| {
            let answer = self.answers.get(&member.id);
            member.id == me || matches!(answer, Some(Status::Prepared | Status::Bereft { .. }))
        };
        if of(&[Status::Committed]) {
            Verdict::Commit
        } else if of(&[Status::Refused, Status::Aborted]) {
            Verdict::Abort
        } else if members.iter().all(is_prepared) {
            Verdict::Commit
        } else if !lost.is_empty() && self.open(me, members, lost).next().is_none() {
            Verdict::Presume
        } else {
            Verdict::Open
        }
    }
}
