//! Participants that others continue.
//!
//! The owner of a shard may be lost for good, and the shard's log be taken over by another node. The records of that log
//! name the lost participant, and so do those of all others. From then on the new owner, the *heir*, answers for it:
//! it has all that the lost one has ever said, because nothing was said that was not on a majority of the copies.
//!
//! Names stay as they are. A message for a lost participant goes to its heir, and a message of the heir about an attempt
//! in which a lost one has a part is that one's. No attempt has parts of both: a heir refuses those.

use std::collections::BTreeMap;

use crate::ParticipantId;

/// Which participants are continued, and by whom.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Heirs(BTreeMap<ParticipantId, ParticipantId>);

impl Heirs {
    /// `heir` has the log of `lost` from now on. Returns false if that was known.
    pub(crate) fn add(&mut self, lost: ParticipantId, heir: ParticipantId) -> bool {
        self.0.insert(lost, heir) != Some(heir)
    }

    /// The participant that answers for this one: mostly itself.
    pub fn of(&self, participant: ParticipantId) -> ParticipantId {
        self.0.get(&participant).copied().unwrap_or(participant)
    }

    /// True if this participant answers for another one, too.
    pub fn has(&self, heir: ParticipantId) -> bool {
        self.0.values().any(|known| *known == heir)
    }

    /// True if another one answers for this participant.
    pub fn is_continued(&self, participant: ParticipantId) -> bool {
        self.of(participant) != participant
    }

    /// The participant among `members` for which `from` speaks.
    pub(crate) fn named(
        &self,
        from: ParticipantId,
        members: impl IntoIterator<Item = ParticipantId>,
    ) -> Option<ParticipantId> {
        members.into_iter().find(|member| *member == from || self.of(*member) == from)
    }
}
