//! What is settled from outside.

/// Times, in milliseconds. All nodes of a cluster have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Settings {
    /// A participant that has been prepared for so long without an outcome asks the others, and again each time it has passed.
    pub patience_ms: u64,
    /// What has not been answered for so long is sent again.
    pub resend_ms: u64,
    /// An outcome that has not been acknowledged for so long is sent again: longer than the log takes to have it on the disk.
    pub outcome_ms: u64,
    /// D of rule T3: an attempt that only reads counts if all answers came within three quarters of it, and participants keep its locks for so long: clocks differ
    /// by less. A node that has started serves nothing for as long as this.
    pub read_ms: u64,
    /// A participant that has said what is there, or has an attempt wait that asked it first, gives it up if it hears nothing of the coordinator for so long.
    pub hold_ms: u64,
    /// How far ahead the moment is that the first attempt of a transaction over several nodes names: longer than it takes until all of them have executed it, if
    /// nobody is in its way and clocks agree.
    pub moment_ms: u64,
    /// A transaction that was refused is tried again after this; twice that the next time, and so on.
    pub backoff_ms: u64,
    /// But no later than after this.
    pub backoff_max_ms: u64,
}

impl Settings {
    /// Those of nodes.
    pub const DEFAULT: Self = Self {
        patience_ms: 1000,
        resend_ms: 500,
        outcome_ms: 2000,
        read_ms: 200,
        hold_ms: 3000,
        moment_ms: 1000,
        backoff_ms: 1,
        backoff_max_ms: 50,
    };
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}
