//! Messages for the subscribers of other nodes: messages of blocks and scripts, and events of keys. (PUBLISH itself is
//! a command in which every node has a part.) They leave when the changes that they are about are committed (rule L7),
//! in their order. A node that is not reached, or does not keep up, misses them.

use std::collections::VecDeque;

use ::membership::items::Item;
use keyspace::Horizon;

/// A worker's messages for other nodes' subscribers.
#[derive(Default)]
pub(crate) struct Spread {
    /// Commands, and the versions that they wait for.
    pub(super) waiting: VecDeque<(Horizon, Vec<u8>)>,
    pub(super) bytes: usize,
}

impl Spread {
    /// True if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl super::outbound::Outbound {
    /// Sends a command that no client has sent. Its reply is dropped.
    pub(crate) fn say_by_itself(&mut self, command: &[u8]) {
        if self.is_full() {
            return;
        }
        let (vc, epoch) = (self.own_line(), self.epoch);
        self.stage.commands(vc, epoch, command);
    }

    /// Takes the reply to such a command.
    pub(crate) fn take_own(&mut self, vc: u32, bytes: usize) {
        const AT_A_TIME: usize = 64 * 1024;
        self.own_bytes += bytes;
        if self.own_bytes >= AT_A_TIME {
            let bytes = std::mem::take(&mut self.own_bytes) as u32;
            self.stage.put(&Item::Credit { vc, bytes });
        }
    }
}
