//! The client of a transaction, as its coordinator and its parts know it.

use engine::{Caller, WatchedKey};

/// The keys that a client watches at a node for its block.
#[derive(Clone, Default)]
pub(super) enum Watched {
    /// None.
    #[default]
    Nothing,
    /// These.
    Keys(Vec<WatchedKey>),
    /// The node has lost the watched keys.
    Lost,
}

/// A part's knowledge of its client.
#[derive(Clone, Default)]
pub(super) struct Client {
    /// The keys that it watches here.
    pub(super) watched: Watched,
    /// The caller that it is here.
    pub(super) caller: Caller,
}

impl Client {
    pub(super) fn is_known(&self) -> bool {
        !matches!(self.watched, Watched::Nothing) || self.caller != Caller::default()
    }
}

/// The client for which a block runs, and the virtual connections over which its parts learn of that.
#[derive(Default)]
pub(crate) struct For {
    pub(crate) caller: Caller,
    /// Links, and the numbers of virtual connections.
    pub(crate) lines: Vec<(usize, u32)>,
}

impl For {
    /// The virtual connection over a link has ended.
    pub(crate) fn forget(&mut self, link: usize) {
        self.lines.retain(|(over, _)| *over != link);
    }
}
