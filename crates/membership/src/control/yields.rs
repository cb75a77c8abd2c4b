//! An owner gives its shard up to a standby in order (rule S10): an operator asks the owner, and the owner tells the
//! leader of the metadata when it executes nothing more.

use std::sync::Arc;

use standby::{NodeNumber, Process};

use super::Control;
use super::agent::Agent;
use super::links::{Op, Reply};
use super::types::Wire;
use crate::codec::{Malformed, Reader};
use crate::{NodeId, ShardId, Term};

/// Begins a switchover of this node's shard to a standby. It must not wait: the switchover has not ended when it returns.
/// An error is the reason, in words, why none begins.
pub type OnSwitchover = Arc<dyn Fn(ShardId, NodeNumber) -> Result<(), String> + Send + Sync>;

/// The owner of a term executes nothing more in it, and a standby is to have the shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Yield {
    /// The shard.
    pub shard: ShardId,
    /// Its owner.
    pub by: Process,
    /// The term that the owner has.
    pub term: Term,
    /// The standby.
    pub to: NodeNumber,
    /// No answer to an unlogged read counts any more (rule S7).
    pub is_logged: bool,
}

impl Wire for Yield {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { shard, by, term, to, is_logged } = self;
        for number in [shard.0, by.node.0, term.get(), to.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&by.life.to_le_bytes());
        out.push(u8::from(*is_logged));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (shard, node, term, to) = (ShardId(from.u32()?), NodeNumber(from.u32()?), from.u32()?, from.u32()?);
        let term = Term::new(term).ok_or(Malformed("a term"))?;
        let by = Process { node, life: from.u64()? };
        let is_logged = match from.u8()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed("a flag")),
        };
        Ok(Self { shard, by, term, to: NodeNumber(to), is_logged })
    }
}

/// The wish that the owner of a shard gives it up to a standby.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wish {
    shard: ShardId,
    to: NodeNumber,
}

impl Wire for Wish {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.shard.0.to_le_bytes());
        out.extend_from_slice(&self.to.0.to_le_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { shard: ShardId(from.u32()?), to: NodeNumber(from.u32()?) })
    }
}

impl Agent {
    /// The owner of a shard gives its lease up.
    pub(super) async fn hear_yield(&self, Yield { shard, by, term, to, is_logged }: Yield) -> Reply {
        let Some(reign) = self.leads() else { return Reply::NotLeader(self.leader().0) };
        {
            let mut volatile = self.volatile();
            let shards = self.machine.look(|applied| applied.state.copied_shards());
            let Some(of) = shards.iter().find(|of| of.id == shard) else {
                return Reply::Failed(format!("shard {} has no standbys", shard.0));
            };
            volatile.takeovers.yielded(reign, of, (by, term), (to, is_logged), (self.clock)().ms());
        }
        self.look_at_shards();
        match self.confirmed().await {
            Ok(_) => Reply::Done(Vec::new()),
            Err(reply) => reply,
        }
    }

    /// This node is asked to give its shard up.
    pub(super) fn hear_wish(&self, Wish { shard, to }: Wish) -> Reply {
        match (self.on_switchover)(shard, to) {
            Ok(()) => Reply::Done(Vec::new()),
            Err(why) => Reply::Failed(why),
        }
    }
}

impl Control {
    /// Tells the leader of the metadata that this node, a shard's owner, executes nothing more in its term. The control
    /// thread calls `then` with what came of it: after an error the leader may or may not have heard it.
    pub fn yields(&self, yields: Yield, then: impl FnOnce(Result<(), String>) + Send + 'static) {
        let agent = Arc::clone(&self.agent);
        self.runtime.spawn(async move {
            then(agent.ask_leader(Op::Yield, &yields.to_bytes()).await.map(drop));
        });
    }

    /// Asks the owner of a shard to give it up to a standby. The control thread calls `then` when the owner has begun, or
    /// refuses, in words. Whether the shard changes hands the map shows later.
    pub fn switch_over(
        &self,
        (shard, owner): (ShardId, NodeId),
        to: NodeNumber,
        then: impl FnOnce(Result<(), String>) + Send + 'static,
    ) {
        let agent = Arc::clone(&self.agent);
        self.runtime.spawn(async move {
            let Some(target) = agent.known(owner) else { return then(Err(format!("there is no node {owner}"))) };
            then(match agent.ask(&target, Op::SwitchOver, Wish { shard, to }.to_bytes()).await {
                Ok(Reply::Done(_)) => Ok(()),
                Ok(Reply::NotLeader(_)) => Err("an answer that is none".to_owned()),
                Ok(Reply::Failed(why)) | Err(why) => Err(why),
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let by = Process { node: NodeNumber(3), life: 0x504 };
        let yields =
            Yield { shard: ShardId(0x201), by, term: Term::new(7).unwrap(), to: NodeNumber(9), is_logged: true };
        let bytes = [&[1, 2, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0][..], &[4, 5, 0, 0, 0, 0, 0, 0, 1]].concat();
        assert_eq!(yields.to_bytes(), bytes);
        assert_eq!(Yield::whole(&bytes), Ok(yields));
        let mut wrong = bytes;
        wrong[24] = 2;
        assert!(Yield::whole(&wrong).is_err());
        let wish = Wish { shard: ShardId(1), to: NodeNumber(0x302) };
        assert_eq!(wish.to_bytes(), [1, 0, 0, 0, 2, 3, 0, 0]);
        assert_eq!(Wish::whole(&wish.to_bytes()), Ok(wish));
    }
}
