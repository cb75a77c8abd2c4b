//! Parts of a reply that are to come from several nodes.

use resp::Protocol;

use super::answers::Question;
use super::merge::Merge;
use super::unknown::is_unknown;

/// A command under way at several nodes.
pub(crate) struct Gather {
    pub(super) merge: Merge,
    pub(super) parts: Vec<Vec<u8>>,
    /// The links over which they come; empty where that does not matter.
    pub(super) links: Vec<usize>,
    /// Nodes that do not answer are left out.
    pub(super) leaves_out: bool,
    /// Replies that have not come.
    pub(super) missing: usize,
    pub(super) then: Then,
    pub(super) protocol: Protocol,
}

/// The use of the replies.
pub(super) enum Then {
    /// They become one reply, which goes here. True if the client wants it.
    Reply((u64, bool)),
    /// They answer a question of a block or script, which goes on: its connection, which waits, or this attempt of it.
    Answer(Box<Question>, Option<u64>, Option<(u64, u32)>),
}

impl Gather {
    /// Bytes that have come.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// True if its client can stay connected when it is unknown what a node has done (rule T9). A message may be lost,
    /// a script may be killed twice, and the reply to a change says how many nodes have made it.
    pub(crate) fn says_what_is_unknown(&self) -> bool {
        matches!(self.merge, Merge::Receivers | Merge::Change | Merge::Kill | Merge::Done | Merge::First)
            || self.leaves_out
            || self.only_looks()
            || matches!(self.then, Then::Answer(..))
    }

    /// The question belongs to this attempt of a block by now.
    pub(crate) fn goes_on_with(&mut self, which: (u64, u32)) {
        if let Then::Answer(_, _, goes_on) = &mut self.then {
            *goes_on = Some(which);
        }
    }

    /// See [`Merge::only_looks`].
    pub(crate) fn only_looks(&self) -> bool {
        self.merge.only_looks()
    }

    /// The reply, and the links of the nodes that were left out.
    pub(super) fn conclude(mut self, chance: u64) -> (Vec<u8>, Vec<usize>) {
        let failed = |part: &Vec<u8>| part.starts_with(b"-CLUSTERDOWN") || is_unknown(part);
        let mut silent = Vec::new();
        if self.leaves_out && !self.parts.iter().all(failed) {
            silent =
                self.links.iter().zip(&self.parts).filter(|(_, part)| failed(part)).map(|(link, _)| *link).collect();
            self.parts.retain(|part| !failed(part));
        }
        (self.merge.merge(&self.parts, self.protocol, chance), silent)
    }

    /// Notes that the rest of one of the replies will not come.
    pub(crate) fn forget(&mut self, part: usize) {
        self.parts.get_mut(part).into_iter().for_each(Vec::clear);
    }
}
