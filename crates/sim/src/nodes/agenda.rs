//! The events to come, and their times.

use std::collections::BTreeMap;

use membership::{AcceptorId, BootNs};
use node::Token;

/// Microseconds since the beginning.
pub type Time = u64;

/// A step of a node's threads.
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

/// Work of the nodes' control threads, and their messages to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Talk {
    /// A node wants its lease renewed.
    Renew {
        /// Which.
        from: usize,
    },
    /// The request has come to the node that is believed to lead.
    Asked {
        /// The node that asks, and its life.
        from: (usize, u64),
        /// The node that is asked.
        to: usize,
        /// When the request was sent, by the clock of the node that asks.
        sent: BootNs,
    },
    /// A majority has confirmed the leader.
    Confirmed {
        /// The leader, and its term.
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
    /// A node learns of decided entries.
    Follow {
        /// Which.
        node: usize,
    },
    /// A node that has started says so.
    Announce {
        /// Which, in which life.
        from: (usize, u64),
    },
    /// The nodes look whether there is a leader.
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
        /// The client's action.
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
        /// The end that dials: node, its life, worker, the worker's name for it.
        from: (usize, u64, usize, Token),
        /// The end that is dialed.
        to: usize,
        /// The other end has it.
        accepted: Option<u64>,
    },
    /// A client may ask something.
    Ask {
        /// Which.
        client: usize,
    },
    /// Bytes of a client arrive.
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
    /// A node begins to pause its writers.
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
    /// A fault is mended.
    Mend(Mend),
    /// Something of the copies of logs.
    Copies(Copying),
}

/// An event of the copies of logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copying {
    /// The driver of a node wants to reach an acceptor.
    Dial {
        /// The node, and the number of its driver.
        from: (usize, u64),
        /// The acceptor.
        acceptor: AcceptorId,
    },
    /// A request may arrive.
    There {
        /// Over which wire.
        wire: u64,
        /// Over which of its ways.
        way: usize,
    },
    /// A reply may arrive.
    Back {
        /// Over which wire.
        wire: u64,
        /// Over which of its ways.
        way: usize,
    },
    /// The second way of a wire is there, or cannot be had.
    Apart {
        /// Which wire.
        wire: u64,
    },
    /// The owner hears that a wire has ended.
    Lost {
        /// Which.
        wire: u64,
    },
    /// A thread of an acceptor does something.
    Work {
        /// Its folder.
        folder: usize,
        /// The life of its node.
        life: u64,
    },
    /// A node that starts does something.
    Rise {
        /// Which.
        node: usize,
        /// In which life.
        life: u64,
    },
    /// A node looks at the acceptors that the metadata name.
    Keep {
        /// Which.
        node: usize,
        /// In which life.
        life: u64,
    },
    /// A node asks for a term.
    Ask {
        /// Which.
        node: usize,
        /// In which life.
        life: u64,
    },
    /// The own log of a node is wiped.
    Wipe {
        /// Which.
        node: usize,
        /// In which life.
        life: u64,
    },
    /// An operator gives the place of a node anew.
    Replace {
        /// Which.
        node: usize,
    },
    /// An operator gives the shard of a lost node to another one.
    Recover {
        /// The lost one.
        node: usize,
    },
    /// An operator gives the place of a lost node to another one.
    Regroup {
        /// The lost one.
        node: usize,
    },
    /// A node that was given another shard than it runs starts again.
    Again {
        /// Which.
        node: usize,
        /// In which life.
        life: u64,
    },
    /// A node makes folders that the metadata want at it, and reports them.
    Tend {
        /// Which.
        node: usize,
        /// In which life.
        life: u64,
    },
}

/// The thing that ends.
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
    /// Adds an event at this time, after those that were added before for the same time.
    pub fn put(&mut self, at: Time, event: Event) {
        self.events.insert((at, self.next), event);
        self.next += 1;
    }

    /// The next event.
    pub fn take(&mut self) -> Option<(Time, Event)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }
}
