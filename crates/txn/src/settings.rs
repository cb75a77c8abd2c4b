//! The times of the protocol.

/// Times, in milliseconds. All nodes of a cluster have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Settings {
    /// A participant that was prepared for so long without an outcome asks the others, and again after each such time.
    pub patience_ms: u64,
    /// An unanswered message is sent again after so long.
    pub resend_ms: u64,
    /// An unacknowledged outcome is sent again after so long: longer than the log takes to have it on the disk.
    pub outcome_ms: u64,
    /// D of rule T3: participants keep the locks of an attempt that only reads for so long. The attempt counts if all
    /// answers came within three quarters of it, because clocks differ by less. A node that has started serves nothing
    /// for as long as this.
    pub read_ms: u64,
    /// A participant gives an attempt up after so long without a word of its coordinator, if it has sent its values, or
    /// if the attempt waits patiently.
    pub hold_ms: u64,
    /// How far ahead the first attempt of a transaction over several nodes puts its moment. It is longer than all of
    /// them take to execute it, if there is no conflict and clocks agree.
    pub moment_ms: u64,
    /// A refused transaction is tried again after this; twice that the next time, and so on.
    pub backoff_ms: u64,
    /// The longest such pause.
    pub backoff_max_ms: u64,
}

impl Settings {
    /// The times of nodes.
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
