//! The states of logs' copies, as the owners of shards report them.

use quorum::AcceptorId;

use super::agent::Agent;
use crate::codec::{Malformed, Reader, put_count};
use crate::level;
use crate::meta::ACCEPTORS_MAX;

/// Most copies that one process reports: those that count, those that are to, and its own log.
const REPORTED_MAX: usize = 2 * ACCEPTORS_MAX + 1;

/// What an owner hears of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyState {
    /// It takes blocks.
    Follows,
    /// It does not answer.
    Silent,
    /// Its disk has no room.
    Full,
    /// Its disk has failed.
    Failed,
    /// Its folder was set back to an earlier state: it counts for nothing.
    SetBack,
}

/// The state of a copy of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyReport {
    /// Its folder.
    pub id: AcceptorId,
    /// True if its acknowledgements count.
    pub counts: bool,
    /// The state of the owner's connection to it.
    pub state: CopyState,
    /// Blocks that it has not on the disk.
    pub blocks: u64,
    /// Their bytes, roughly.
    pub bytes: u64,
}

impl CopyReport {
    /// As members read it that know no [`CopyState::SetBack`]: the copy does not count either way.
    fn of_earlier_level(self) -> Self {
        let state = if self.state == CopyState::SetBack { CopyState::Failed } else { self.state };
        Self { state, ..self }
    }
}

impl Agent {
    /// The copies of the log that this process owns, where the cluster has room for them.
    pub fn reported_copies(&self) -> Vec<CopyReport> {
        match self.machine.map().level() {
            level::SET_BACK.. => (self.copies)(),
            level::SHARDS.. => (self.copies)().into_iter().map(CopyReport::of_earlier_level).collect(),
            _ => Vec::new(),
        }
    }
}

/// Appends a list. An empty one takes no bytes: a node of an earlier build reads none.
pub fn put(out: &mut Vec<u8>, reports: &[CopyReport]) {
    let reports = &reports[..reports.len().min(REPORTED_MAX)];
    if reports.is_empty() {
        return;
    }
    put_count(out, reports.len());
    for CopyReport { id, counts, state, blocks, bytes } in reports {
        out.extend_from_slice(&id.0);
        out.push(u8::from(*counts));
        out.push(match state {
            CopyState::Follows => 0,
            CopyState::Silent => 1,
            CopyState::Failed => 2,
            CopyState::Full => 3,
            CopyState::SetBack => 4,
        });
        out.extend_from_slice(&blocks.to_le_bytes());
        out.extend_from_slice(&bytes.to_le_bytes());
    }
}

/// The next list in `from`, which may end before it.
///
/// # Errors
/// The bytes are no list.
pub fn read(from: &mut Reader<'_>) -> Result<Vec<CopyReport>, Malformed> {
    if from.is_empty() {
        return Ok(Vec::new());
    }
    let count = from.count(REPORTED_MAX)?;
    let report = |from: &mut Reader<'_>| {
        let (id, counts) = (AcceptorId(from.array()?), from.flag()?);
        let state = match from.u8()? {
            0 => CopyState::Follows,
            1 => CopyState::Silent,
            2 => CopyState::Failed,
            3 => CopyState::Full,
            4 => CopyState::SetBack,
            _ => return Err(Malformed("the state of a copy")),
        };
        Ok(CopyReport { id, counts, state, blocks: from.u64()?, bytes: from.u64()? })
    };
    (0..count).map(|_| report(from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_an_earlier_level_are_told_what_they_know() {
        let of = |state| CopyReport { id: AcceptorId([1; 16]), counts: true, state, blocks: 2, bytes: 3 };
        for (state, told) in [(CopyState::SetBack, CopyState::Failed), (CopyState::Full, CopyState::Full)] {
            assert_eq!(of(state).of_earlier_level(), of(told));
        }
    }
}
