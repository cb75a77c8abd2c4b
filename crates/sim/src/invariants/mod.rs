//! The invariants, one file for each. Some check the replies to clients, some the records of the log.

pub mod acknowledged;
pub mod backup;
pub mod blocks;
pub mod counts;
pub mod cut;
pub mod digest;
pub mod expiry;
pub mod failed;
pub mod full;
pub mod revived;
pub mod seen;
pub mod store;
pub mod truncation;

use std::fmt;

use redolog::Lsn;

use crate::ledger::Records;
use crate::machine::Start;

/// Something that must hold does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which invariant.
    pub rule: &'static str,
    /// The evidence.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// The result of checking an invariant.
pub type Verdict = Result<(), Violation>;

/// An invariant does not hold.
///
/// # Errors
///
/// Always: this is the error.
pub fn violated(rule: &'static str, what: impl fmt::Display) -> Verdict {
    Err(Violation { rule, what: what.to_string() })
}

/// The knowledge when a machine stopped, and the findings of the next start.
pub struct Restart<'a> {
    /// Watermarks when it stopped.
    pub marks: &'a [Lsn],
    /// The end of each stream on the disk at that time, whatever had been promised.
    pub synced: &'a [Lsn],
    /// Acknowledged writes must be there.
    pub keeps_promises: bool,
    /// All records of the life that ended, lost ones included.
    pub written: &'a Records,
    /// Those of them that were found.
    pub found: &'a Records,
    /// The findings of the start.
    pub start: &'a Start,
}

impl Restart<'_> {
    /// True if a record of this stream survived.
    pub fn survived(&self, (lsn, stream): (Lsn, u16)) -> bool {
        self.start.ends.get(usize::from(stream)).is_some_and(|end| lsn <= *end)
    }

    /// How many positions did not.
    pub fn lost(&self) -> u64 {
        self.written.keys().filter(|at| !self.survived(**at)).count() as u64
    }
}
