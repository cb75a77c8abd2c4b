//! The copies of the node's log, for INFO, metrics, the cluster's status, and log lines.

use ::membership::control::{CopyReport, CopyState};
use ::membership::{ShardId, Term};

use crate::figures::amount::human;

/// The copies of a log, as its owner knows them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopiesOfLog {
    /// The shard.
    pub shard: ShardId,
    /// The owner's term.
    pub term: Term,
    /// True if the owner leads; false while another term begins.
    pub leads: bool,
    /// Bytes of blocks that no majority has.
    pub uncommitted_bytes: u64,
    /// All of them, the owner's own log among them.
    pub copies: Vec<CopyOfLog>,
}

/// A copy of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyOfLog {
    /// Its place, as operators write it.
    pub place: String,
    /// True if it is the owner's own log.
    pub is_own: bool,
    /// Its state.
    pub report: CopyReport,
    /// Blocks that are under way to it.
    pub sent: u64,
    /// The reason why it does not answer, or why the own disk takes nothing for now, in words, if it is known.
    pub trouble: Option<String>,
}

impl CopiesOfLog {
    /// How many count for a majority.
    #[must_use]
    pub fn counting(&self) -> usize {
        self.copies.iter().filter(|copy| copy.report.counts).count()
    }

    /// How many of these take blocks.
    #[must_use]
    pub fn answering(&self) -> usize {
        self.copies.iter().filter(|copy| copy.report.counts && copy.report.state == CopyState::Follows).count()
    }

    /// The copies that a log waits for, in words.
    pub(crate) fn awaited(&self) -> String {
        let lack = |copy: &&CopyOfLog| {
            copy.report.counts && (copy.report.state != CopyState::Follows || copy.report.blocks > 0)
        };
        let words: Vec<String> = self.copies.iter().filter(lack).map(CopyOfLog::text).collect();
        format!("{} of {} answer: {}", self.answering(), self.counting(), words.join(", "))
    }
}

impl CopyOfLog {
    /// Its trouble, or how far it is behind, in words.
    #[must_use]
    pub fn text(&self) -> String {
        let place = &self.place;
        match (self.report.state, &self.trouble) {
            (CopyState::Failed, _) => format!("the disk of {place} has failed"),
            (CopyState::Silent, Some(why)) => format!("{place} does not answer ({why})"),
            (CopyState::Silent, None) => format!("{place} does not answer"),
            (CopyState::SetBack, _) => format!("the folder of {place} was set back to an earlier state"),
            (CopyState::Full, _) => format!("{place} has no room"),
            (CopyState::Follows, Some(why)) => format!("{place} is {} behind ({why})", human(self.report.bytes)),
            (CopyState::Follows, None) => format!("{place} is {} behind", human(self.report.bytes)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ::membership::AcceptorId;

    use super::*;

    fn copy(n: u8, state: CopyState, blocks: u64, trouble: Option<&str>) -> CopyOfLog {
        let report = CopyReport { id: AcceptorId([n; 16]), counts: n < 4, state, blocks, bytes: blocks << 10 };
        let place = format!("10.0.0.{n}:6379/-");
        CopyOfLog { place, is_own: n == 1, report, sent: blocks.min(4), trouble: trouble.map(str::to_owned) }
    }

    /// Three copies, and one that is to come.
    pub(crate) fn copies() -> CopiesOfLog {
        let copies = vec![
            copy(1, CopyState::Follows, 0, None),
            copy(2, CopyState::Silent, 9, Some("Connection refused")),
            copy(3, CopyState::Follows, 3, None),
            copy(4, CopyState::Follows, 70, None),
        ];
        CopiesOfLog { shard: ShardId(7), term: Term::ZERO, leads: true, uncommitted_bytes: 3072, copies }
    }

    #[test]
    fn a_log_names_what_it_waits_for() {
        let copies = copies();
        assert_eq!((copies.counting(), copies.answering()), (3, 2));
        let text =
            "2 of 3 answer: 10.0.0.2:6379/- does not answer (Connection refused), 10.0.0.3:6379/- is 3.00K behind";
        assert_eq!(copies.awaited(), text);
        assert_eq!(copy(2, CopyState::Failed, 1, None).text(), "the disk of 10.0.0.2:6379/- has failed");
        let text = "the folder of 10.0.0.2:6379/- was set back to an earlier state";
        assert_eq!(copy(2, CopyState::SetBack, 1, None).text(), text);
        assert_eq!(copy(2, CopyState::Full, 1, None).text(), "10.0.0.2:6379/- has no room");
        assert_eq!(copy(2, CopyState::Silent, 1, None).text(), "10.0.0.2:6379/- does not answer");
    }
}
