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
    /// Slot and hash of argument 1 if it is the command's only key.
    pub(crate) key: Option<(u16, u64)>,
    /// Slot and hash of the key to prefetch: the only key, or the first key that a script declares, which it is likely
    /// to use.
    pub(super) ahead: Option<(u16, u64)>,
}
