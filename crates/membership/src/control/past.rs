//! A folder that is an older copy, as of a machine that was set back: later acknowledgements are not in it, votes
//! included. Such a node must not take part.
//!
//! It cannot know by itself. But the leader of the metadata does: a later start of the node has reported to it, or the
//! node has acknowledged entries of Raft's log that its own copy lacks.

use std::sync::Arc;

use openraft::async_runtime::WatchReceiver;
use tokio::time::timeout;

use super::agent::Agent;
use super::disk::Disk;
use super::links::{Op, Reply};
use super::types::Wire;
use crate::NodeId;
use crate::codec::{Malformed, Reader};

/// The leader's knowledge of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Past {
    /// How often it has started; 0: nothing is known.
    pub starts: u64,
    /// The term of the leader.
    pub term: u64,
    /// The last entry of Raft's log that it has acknowledged to this leader; 0: none.
    pub acknowledged: u64,
}

impl Wire for Past {
    fn put(&self, out: &mut Vec<u8>) {
        [self.starts, self.term, self.acknowledged].iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { starts: from.u64()?, term: from.u64()?, acknowledged: from.u64()? })
    }
}

/// The position of a node by its own state.
struct Present {
    starts: u64,
    term: u64,
    last: u64,
}

impl Present {
    fn of(disk: &Disk) -> Self {
        let kept = disk.kept();
        let logged = kept.entries.keys().next_back().copied();
        let last = logged.or(kept.purged.map(|purged| purged.index)).unwrap_or_default();
        Self { starts: kept.incarnation, term: kept.vote.map_or(0, |vote| vote.leader_id().term), last }
    }

    /// The reason why it is older than the leader knows it, in words.
    fn lacks(&self, past: &Past) -> Option<String> {
        if past.starts >= self.starts {
            return Some(format!(
                "by it this is start {} of the node, which has had start {}",
                self.starts, past.starts
            ));
        }
        // A leader of an earlier term may know of entries that another one has replaced since.
        let is_behind = past.term >= self.term && past.acknowledged > self.last;
        is_behind.then(|| format!("its log ends at {}, the node has acknowledged {}", self.last, past.acknowledged))
    }
}

impl Agent {
    /// The knowledge of this node, if it leads, about another one: all that was committed.
    pub async fn past_of(&self, id: NodeId) -> Reply {
        let Some(term) = self.leads() else { return Reply::NotLeader(self.leader().0) };
        let index = match self.confirmed().await {
            Ok(index) => index,
            Err(reply) => return reply,
        };
        let mut applied = self.machine.index();
        let waited = timeout(self.settings.lease, applied.wait_for(|applied| *applied >= index)).await;
        if !matches!(waited, Ok(Ok(_))) {
            return Reply::Failed("the leader has not applied all that is committed".to_owned());
        }
        let starts = self.machine.look(|applied| applied.state.incarnation(id)).unwrap_or_default();
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let acknowledged = metrics.replication.as_ref().and_then(|of| of.get(&id)?.as_ref().map(|last| last.index));
        Reply::Done(Past { starts, term, acknowledged: acknowledged.unwrap_or_default() }.to_bytes())
    }

    /// The reason why this node's folder is an older copy, in words, if it is. `Err`: that cannot be known yet.
    pub async fn is_older_copy(self: &Arc<Self>) -> Result<Option<String>, String> {
        let mut body = Vec::new();
        self.me().put(&mut body);
        let answer = self.ask_leader(Op::Past, &body).await?;
        let past = Past::whole(&answer).map_err(|why| why.to_string())?;
        Ok(Present::of(&self.disk).lacks(&past))
    }

    /// Takes no part in anything any more.
    pub async fn retire(&self, why: &str) {
        let what = format!(
            "this node's folder is an old copy, or it runs twice: {why}. What was acknowledged since is not in it: let it be forgotten, and start it with an empty dir"
        );
        tracing::error!("{what}");
        self.shared.say(format!("this node has no lease: {what}"));
        let _ = self.raft.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let past = Past { starts: 3, term: 2, acknowledged: 9 };
        let golden = b"\x03\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0";
        assert_eq!((past.to_bytes(), Past::whole(golden)), (golden.to_vec(), Ok(past)));
    }

    #[test]
    fn who_lacks_what_is_known_of_it_is_an_older_copy() {
        let present = Present { starts: 4, term: 2, last: 8 };
        let lacks = |starts, term, acknowledged| present.lacks(&Past { starts, term, acknowledged }).is_some();
        assert!(!lacks(0, 2, 0), "nothing is known");
        assert!(!lacks(3, 2, 8));
        assert!(lacks(4, 2, 8) && lacks(5, 2, 8), "it has started since");
        assert!(lacks(3, 2, 9), "it has forgotten an entry");
        assert!(!lacks(3, 1, 9), "which may have been replaced");
    }
}
