//! Names that participants had before.
//!
//! A node was a participant itself before shards were (`level::SHARD_PARTICIPANTS` of clusters). Records of that time name
//! nodes, and so do attempts that were under way when names changed. A shard, the *heir* of such names, answers for them:
//! it has the log in which the node has written everything that it has ever said.
//!
//! Names stay as they are. A message for an earlier name goes to its heir, and a message of the heir about an attempt in
//! which the earlier name has a part is that one's. No attempt has parts of both: a heir refuses those.

use std::collections::BTreeMap;

use crate::ParticipantId;

/// The heirs of earlier names. A term of an heir is above all lives of these names.
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
