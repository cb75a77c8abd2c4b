//! Messages in order, as connections carry them, and how many of them there may be.

use std::collections::{BTreeMap, VecDeque};

use super::{Packet, Plan, World};
use crate::{Order, Request, StreamId};

const AGAIN: &str = "an owner asks for the same blocks again and again";

/// Messages under way to and from each acceptor, by its two ways. Those of one way keep their order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Lines {
    all: BTreeMap<(usize, bool, bool), VecDeque<Packet>>,
    /// Blocks that were asked for, and that were sent.
    reads: usize,
    appends: usize,
}

impl Lines {
    /// How many lines have something.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The next message of a line.
    pub fn next(&mut self, line: usize) -> Option<Packet> {
        let key = *self.all.keys().nth(line)?;
        let line = self.all.get_mut(&key)?;
        let packet = line.pop_front();
        if line.is_empty() {
            self.all.remove(&key);
        }
        packet
    }

    fn push(&mut self, packet: Packet, apart: bool) {
        match &packet {
            Packet::To(_, Request { order: Order::Read { .. }, .. }) => self.reads += 1,
            Packet::To(_, Request { order: Order::Append { .. }, .. }) => self.appends += 1,
            _ => {}
        }
        let (Packet::To(at, _) | Packet::From(at, _)) = &packet;
        self.all.entry((*at, matches!(packet, Packet::To(..)), apart)).or_default().push_back(packet);
    }
}

impl World {
    /// A message goes on its way.
    pub fn send(&mut self, packet: Packet, apart: bool) {
        match &mut self.lines {
            Some(lines) => lines.push(packet, apart),
            None => drop(self.network.insert(packet)),
        }
    }

    /// An owner asks for no more blocks than its acceptors lack, and sends no more than twice as many. `stray`: so many
    /// messages of before were under way, out of their order.
    pub fn check_sent(&self, plan: &Plan, host: usize, stray: usize) -> Result<(), &'static str> {
        let (owner, Some(sent)) = (&self.hosts[host].owner, &self.lines) else { return Ok(()) };
        let last = |stream| owner.history(StreamId(stream)).map_or(0, |history| history.last().sequence as usize);
        let blocks: usize = (0..plan.streams as u16).map(last).sum();
        let most = owner.peers().count() * (blocks + stray);
        if sent.reads > most || sent.appends > 2 * most { Err(AGAIN) } else { Ok(()) }
    }
}
