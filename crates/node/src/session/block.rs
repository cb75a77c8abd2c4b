//! What a session knows of a block beyond its latches: what it has to tell others when it ends.

use engine::{Again, BlockRun};
use keyspace::Need;

use super::SessionCtx;
use crate::node::Node;
use crate::pubsub::Kind;

/// A block under way: EXEC, or a script.
pub struct Block {
    /// Its latches and changes.
    pub run: BlockRun,
    /// Messages that it has published.
    messages: Vec<(Kind, Vec<u8>, Vec<u8>)>,
    /// Milliseconds of DEBUG SLEEP in it: it is one moment, and its sleep follows it, but comes before who waits for its keys.
    pub(super) asleep: u64,
}

impl Block {
    pub(super) fn new(run: BlockRun) -> Self {
        Self { run, messages: Vec::new(), asleep: 0 }
    }

    /// Ends it: what it changed and said is told.
    pub(super) fn end(self, ctx: &mut SessionCtx<'_>) {
        ctx.engine.end_block(self.run, self.asleep);
        for (kind, channel, payload) in self.messages {
            ctx.node.publish(usize::from(ctx.engine.index()), kind, &channel, &payload);
        }
    }

    /// Notes a message to be published when the block ends; the number of those it would reach now.
    pub(super) fn publish(&mut self, node: &Node, kind: Kind, channel: &[u8], payload: &[u8]) -> usize {
        let receivers = node.receivers(kind, channel);
        self.messages.push((kind, channel.into(), payload.into()));
        receivers
    }

    /// Undoes it: see [`engine::Engine::undo_block`].
    pub(super) fn undo(self, ctx: &mut SessionCtx<'_>, need: Need) -> Again {
        ctx.engine.undo_block(self.run, need)
    }
}
