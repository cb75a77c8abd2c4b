//! Messages for the subscribers of other nodes: what blocks and scripts publish, and what happens to keys. (PUBLISH itself is a command in which every
//! node has a part.) They leave when what they speak of is committed (rule L7), in their order; a node that is not reached, or does not keep up,
//! misses them.

use std::collections::VecDeque;

use ::membership::items::Item;
use keyspace::Horizon;
use resp::append_request;

use super::peers::HOME;
use crate::push::pubsub::Kind;
use crate::worker::Worker;

/// Bytes of messages that wait for the log at most.
const WAITING_MAX: usize = 64 << 20;

/// What a worker has to tell other nodes' subscribers.
#[derive(Default)]
pub(crate) struct Spread {
    /// Commands, and what they wait for.
    waiting: VecDeque<(Horizon, Vec<u8>)>,
    bytes: usize,
}

impl Spread {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Worker {
    /// A message was published here by itself: the other nodes hear of it.
    pub(crate) fn spread(&mut self, kind: Kind, channel: &[u8], payload: &[u8], seen: &Horizon) {
        let Some(peers) = self.peers.as_deref_mut().filter(|peers| !peers.is_alone()) else { return };
        let spread = &mut peers.spread;
        if spread.bytes > WAITING_MAX {
            return;
        }
        let name: &[u8] = if kind == Kind::Shard { b"SPUBLISH" } else { b"PUBLISH" };
        let mut command = Vec::with_capacity(channel.len() + payload.len() + 64);
        append_request(&mut command, &[name, channel, payload]);
        spread.bytes += command.len();
        spread.waiting.push_back((seen.clone(), command));
    }

    /// Says what is committed.
    pub(crate) fn spread_committed(&mut self) {
        let is_ready = |worker: &Worker| {
            let (seen, _) = worker.peers.as_deref()?.spread.waiting.front()?;
            seen.versions().iter().all(|version| worker.engine.is_committed(*version)).then_some(())
        };
        while is_ready(self).is_some() {
            let Some(peers) = self.peers.as_deref_mut() else { return };
            let Some((_, command)) = peers.spread.waiting.pop_front() else { return };
            peers.spread.bytes -= command.len();
            let links: Vec<usize> = (0..peers.map.nodes().len() as u16).map(|node| peers.link_to(node)).collect();
            for link in links.into_iter().filter(|link| *link != HOME) {
                self.want_link(link);
                let Some(peers) = self.peers.as_deref_mut() else { return };
                peers.links[link].say_by_itself(&command);
            }
        }
    }
}

impl super::link::Outbound {
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
