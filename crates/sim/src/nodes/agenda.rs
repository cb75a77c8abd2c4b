//! What is going to happen, and when.

use std::collections::BTreeMap;

use membership::BootNs;
use node::Token;

/// Microseconds since the beginning.
pub type Time = u64;

/// What a node's threads do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Chore {
    /// A worker takes a turn.
    Turn(usize),
    /// A stream of the log takes a step.
    Step(usize),
    /// A block of a stream is on the disk.
    Land(usize),
    /// Loaders do something.
    Fetch,
    /// The checkpointer does something.
    Checkpoint,
}

/// What the nodes' control threads do and say to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Talk {
    /// A node wants its lease renewed.
    Renew {
        /// Which.
        from: usize,
    },
    /// That has come to who is believed to lead.
    Asked {
        /// Who asks, in which life.
        from: (usize, u64),
        /// Who is asked.
        to: usize,
        /// When it was sent, by the clock of who asks.
        sent: BootNs,
    },
    /// A majority has answered who leads.
    Confirmed {
        /// Who leads, in which term.
        leader: (usize, u64),
        /// As before.
        from: (usize, u64),
        /// As before.
        sent: BootNs,
    },
    /// The lease has been renewed.
    Granted {
        /// Of whom.
        to: (usize, u64),
        /// As before.
        sent: BootNs,
        /// Where the log was then.
        index: usize,
    },
    /// A node hears of what has been decided.
    Follow {
        /// Which.
        node: usize,
    },
    /// A node that has started says so.
    Announce {
        /// Which, in which life.
        from: (usize, u64),
    },
    /// The nodes look whether somebody leads.
    Elect,
    /// An administrator wants slots to move.
    Move {
        /// From and to which node.
        nodes: (usize, usize),
        /// Which key's.
        key: usize,
    },
}

/// Something that happens.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A node's thread does something, if the node lives its life still.
    Chore {
        /// Which node.
        node: usize,
        /// In which life.
        life: u64,
        /// What it does.
        chore: Chore,
    },
    /// Bytes of a link may arrive: those that this side has sent.
    Arrive {
        /// Which link.
        link: u64,
        /// Which side.
        side: usize,
    },
    /// A link is opened, or cannot be.
    Dial {
        /// Who dials: node, its life, worker, what that calls it.
        from: (usize, u64, usize, Token),
        /// Who is dialed.
        to: usize,
        /// The other end has it.
        accepted: Option<u64>,
    },
    /// A client may ask something.
    Ask {
        /// Which.
        client: usize,
    },
    /// What a client has sent arrives.
    Carry {
        /// Which.
        client: usize,
        /// Over which of its connections.
        connection: u64,
    },
    /// Between control threads.
    Talk(Talk),
    /// Something breaks.
    Fault,
    /// A node begins to hold back who writes.
    HoldBack,
    /// A node that is off is started.
    Start {
        /// Which.
        node: usize,
    },
    /// A node stops at once, if it still lives this life.
    Crash {
        /// Which.
        node: usize,
        /// In which life.
        life: u64,
    },
    /// What was broken is mended.
    Mend(Mend),
}

/// What ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mend {
    /// Nodes reach each other again.
    Partition,
    /// Disks are as fast as they should be.
    Disk {
        /// Of which node.
        node: usize,
    },
    /// The network is as fast as it should be.
    Network,
    /// There is room on the disks.
    Room {
        /// Of which node.
        node: usize,
    },
    /// A control thread hears in time.
    Control {
        /// Of which node.
        node: usize,
    },
}

/// See the module's text.
#[derive(Default)]
pub struct Agenda {
    events: BTreeMap<(Time, u64), Event>,
    next: u64,
}

impl Agenda {
    /// This happens then; after what was put there before for the same time.
    pub fn put(&mut self, at: Time, event: Event) {
        self.events.insert((at, self.next), event);
        self.next += 1;
    }

    /// What happens next.
    pub fn take(&mut self) -> Option<(Time, Event)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }
}
