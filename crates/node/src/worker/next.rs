//! The facts about a command before it runs, and the fate of its connection after it.

/// After a command has waited so often for keys of the store, it reads the store itself.
pub(crate) const INSISTS: u32 = 4;

/// The fate of a connection after a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The next command.
    Continue,
    /// No further command now: the connection waits or closes.
    Stop,
    /// The same command again, later.
    Retry,
}

/// The findings of the parser about a command.
#[derive(Clone, Copy, Default)]
pub(crate) struct Item {
    /// Id + 1 in the table, 0 if there is no such command.
    pub(crate) command: u32,
    /// The command may look at its connection as other clients see it.
    pub(super) looks: bool,
    /// Argument 1 is the command's only key: slot and hash are those of it.
    pub(super) has_key: bool,
    /// The key of this slot and hash is to be prefetched: the only key, or the first key that a script declares, which
    /// it is likely to use.
    pub(super) is_ahead: bool,
    pub(super) slot: u16,
    pub(super) hash: u64,
}

impl Item {
    /// Slot and hash of argument 1 if it is the command's only key.
    #[inline]
    pub(crate) fn key(&self) -> Option<(u16, u64)> {
        self.has_key.then_some((self.slot, self.hash))
    }

    /// Slot and hash of the key to prefetch.
    #[inline]
    pub(super) fn ahead(&self) -> Option<(u16, u64)> {
        self.is_ahead.then_some((self.slot, self.hash))
    }
}
