//! A block of a session beyond its latches: the messages and commands that others hear of when it ends.

use std::sync::Arc;

use engine::BlockRun;
use keyspace::Need;
use resp::Args;

use super::{Retry, SessionCtx};
use crate::node::Node;
use crate::push::delivery::Kind;
use crate::worker::message::Message;

/// A block under way: EXEC, or a script.
pub struct Block {
    /// Its latches and changes.
    pub run: BlockRun,
    /// Its time as TIME tells it, unix microseconds.
    pub(super) micros: u64,
    /// The version of the slot map by which it began; 0 where there is none.
    pub(crate) map: u64,
    /// It is a script that only reads, on the copy of another node's data that this node has.
    pub(crate) reads_copy: bool,
    /// Messages that it has published.
    messages: Vec<(Kind, Vec<u8>, Vec<u8>)>,
    /// Its commands, as clients in MONITOR mode see them.
    lines: Vec<Arc<[u8]>>,
    /// Milliseconds of DEBUG SLEEP in it. A block is one moment, so the sleep follows it, but before commands that wait
    /// for its keys.
    asleep: u64,
}

impl Block {
    /// `retry`: it was undone and runs again.
    pub(super) fn new(run: BlockRun, ctx: &SessionCtx<'_>, retry: Option<&Retry>) -> Self {
        let micros = retry.map_or_else(|| ctx.node.clock.unix_us(), |retry| retry.micros);
        let map = ctx.peers.map.version();
        let reads_copy = ctx.session.on_copy;
        Self { run, micros, map, reads_copy, messages: Vec::new(), lines: Vec::new(), asleep: 0 }
    }

    /// Ends it: its changes and messages are sent.
    pub(super) fn end(self, ctx: &mut SessionCtx<'_>) {
        ctx.engine.end_block(self.run, self.asleep);
        if let Some(aside) = &mut ctx.aside {
            aside.messages = self.messages;
            aside.lines = self.lines;
            return;
        }
        self.lines.into_iter().for_each(|line| ctx.node.show_line(line));
        let seen = ctx.engine.everything_seen();
        for (kind, channel, payload) in self.messages {
            let worker = usize::from(ctx.engine.index());
            ctx.node.publish(worker, kind, &channel, &payload, &seen);
            if ctx.peers.is_cluster() {
                let message = Message::Spread { kind, channel, payload, seen: seen.clone() };
                ctx.node.send_from(worker, worker, message);
            }
        }
    }

    /// Notes a message to be published when the block ends. Returns how many clients it would reach now.
    pub(super) fn publish(&mut self, node: &Node, kind: Kind, channel: &[u8], payload: &[u8]) -> usize {
        let receivers = node.receivers(kind, channel);
        self.messages.push((kind, channel.into(), payload.into()));
        receivers
    }

    /// Notes a DEBUG SLEEP in it.
    pub(super) fn sleep(&mut self, ctx: &mut SessionCtx<'_>, ms: u64) {
        self.asleep += ms;
        ctx.node.pauses.freeze(ctx.engine.now() + self.asleep);
    }

    /// Notes a command to be shown to clients in MONITOR mode when the block ends. `who`: an address, or "lua".
    pub(super) fn show(&mut self, node: &Node, db: u16, who: &str, args: Args<'_>) {
        self.lines.push(node.monitor_line(db, who, args));
    }

    /// Undoes it: see [`engine::Engine::undo_block`].
    pub(super) fn undo(self, ctx: &mut SessionCtx<'_>, need: Need) -> Retry {
        Retry { again: ctx.engine.undo_block(self.run, need), micros: self.micros }
    }
}
