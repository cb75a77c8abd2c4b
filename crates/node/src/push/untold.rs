//! Messages for clients, beside their replies, that a worker has not sent yet.

use std::collections::BTreeMap;

use super::notice::Notice;
use crate::worker::token::Token;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Untold {
    /// Keys that have changed, and the client that changed each: for clients in BCAST mode.
    pub(crate) changed_keys: BTreeMap<Box<[u8]>, u64>,
    /// Connections that get messages when their replies have ended.
    pub(super) pushing: Vec<Token>,
    /// There are more keys than `tracking-table-max-keys`.
    pub(super) above_tracked: bool,
    /// Notices for connections whose commands this worker is just executing.
    pub(super) in_hand: Vec<Notice>,
}

impl Untold {
    /// True if a look is due within a millisecond.
    pub(crate) fn is_due(&self) -> bool {
        !self.pushing.is_empty() || self.above_tracked
    }

    /// True if there are notices for connections that this worker has in hands.
    #[inline]
    pub(crate) fn has_in_hand(&self) -> bool {
        !self.in_hand.is_empty()
    }

    /// Takes the notices for the client with this id.
    pub(super) fn take_of(&mut self, client: u64) -> Vec<Notice> {
        self.in_hand.extract_if(.., |notice| notice.client == client).collect()
    }
}
