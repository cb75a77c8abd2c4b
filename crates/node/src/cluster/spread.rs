//! Messages for the subscribers of other nodes: what blocks and scripts publish, and what happens to keys. (PUBLISH itself is a command in which every
//! node has a part.) They leave when what they speak of is committed (rule L7), in their order; a node that is not reached, or does not keep up,
//! misses them.

use std::collections::VecDeque;

use ::membership::items::Item;
use keyspace::Horizon;

/// What a worker has to tell other nodes' subscribers.
#[derive(Default)]
pub(crate) struct Spread {
    /// Commands, and what they wait for.
    pub(super) waiting: VecDeque<(Horizon, Vec<u8>)>,
    pub(super) bytes: usize,
}

impl Spread {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl super::outbound::Outbound {
    /// Says a command that no client has sent. What is answered, nobody hears.
    pub(crate) fn say_by_itself(&mut self, command: &[u8]) {
        if self.is_full() {
            return;
        }
        let (vc, epoch) = (self.own_line(), self.epoch);
        self.stage.commands(vc, epoch, command);
    }

    /// Something was answered to such a command.
    pub(crate) fn take_own(&mut self, vc: u32, bytes: usize) {
        const AT_A_TIME: usize = 64 * 1024;
        self.own_bytes += bytes;
        if self.own_bytes >= AT_A_TIME {
            let bytes = std::mem::take(&mut self.own_bytes) as u32;
            self.stage.put(&Item::Credit { vc, bytes });
        }
    }
}
