//! A shard with its log, nodes, clients, metadata and their leader, and what must hold whatever happens.

mod calm;
mod clients;
pub mod ghosts;
mod log;
mod metadata;
mod owner;
mod standby;
mod steps;

use std::collections::BTreeSet;

use clocks::BootMs;
use quorum::{BlockId, Cut, History, Term};

pub use self::clients::{Command, Kind as CommandKind, State as CommandState};
pub use self::ghosts::Ghosts;
pub use self::log::{Log, Record, Stream};
pub use self::owner::Owner;
pub use self::standby::Standby;
pub use self::steps::{Kind, Step};
use crate::planted::{Mistake, Planted};
use crate::switchover::Patience;
use crate::{Change, Copies, Leader, NodeNumber, Process, Renewal, Settings};

/// A mistake that is made on purpose: inside of a machine, or in what surrounds the machines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Plant {
    None,
    Inside(Mistake),
    /// P7: an owner acknowledges what its own disk has.
    AcknowledgesOwn,
    /// P13: a later life of the owner's node does not rest when it gets the shard back.
    LeadsUnrested,
    /// P22: an owner looks at its lease before the bytes of a command arrive.
    LooksEarly,
}

/// The parts of a world, and how often each fault may happen.
#[derive(Clone, Debug)]
pub struct Plan {
    pub nodes: usize,
    pub streams: usize,
    /// A record is told and followed when a majority has it on the disk; otherwise when the owner's system has it.
    pub always: bool,
    pub commands: u8,
    /// Steps of time.
    pub ticks: u32,
    pub kills: u8,
    pub stops: u8,
    pub losses: u8,
    pub elections: u8,
    pub switchovers: u8,
    pub give_ups: u8,
    pub bootstraps: u8,
    /// Clocks of nodes are a tenth slower than the leader's.
    pub skew: bool,
    pub plant: Plant,
}

impl Plan {
    /// An owner and a standby, and nothing that fails.
    pub fn calm() -> Self {
        Self {
            nodes: 2,
            streams: 1,
            always: true,
            commands: 1,
            ticks: 0,
            kills: 0,
            stops: 0,
            losses: 0,
            elections: 0,
            switchovers: 0,
            give_ups: 0,
            bootstraps: 0,
            skew: false,
            plant: Plant::None,
        }
    }

    pub fn planted(&self) -> Planted {
        if let Plant::Inside(mistake) = self.plant { Planted(Some(mistake)) } else { Planted(None) }
    }

    pub fn has(&self, mistake: Mistake) -> bool {
        self.plant == Plant::Inside(mistake)
    }
}

pub const SETTINGS: Settings =
    Settings { lease_ms: 160, renew_ms: 40, d_ms: 40, calm_ms: 600, useless_ms: 1_000, lag_bytes: 1_000 };

pub const PATIENCE: Patience = Patience {
    near_ms: 10,
    d_ms: 45,
    nearing_ms: 200,
    draining_ms: 40,
    following_ms: 40,
    asking_ms: 15,
    yielding_ms: 30,
};

/// A message under way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Packet {
    /// How far a stream is committed and synced, and the owner's word that it is idle.
    Told {
        to: usize,
        stream: u16,
        committed: BlockId,
        synced: BlockId,
        quiet: Option<(BlockId, Cut)>,
    },
    /// How far a standby is.
    Report {
        to: NodeNumber,
        from: Process,
        covered: Cut,
        applied: Cut,
    },
    Renewal {
        renewal: Renewal,
        sent: BootMs,
        reign: u64,
    },
    Granted {
        to: Process,
        term: Term,
        until: BootMs,
    },
    Yield {
        by: Process,
        term: Term,
        to: NodeNumber,
        is_logged: bool,
        reign: u64,
    },
    Proposal(Change),
    /// An owner's checkpoint.
    Ship {
        to: Process,
        store: Store,
    },
}

/// A durable store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Store {
    pub covered: Cut,
    pub records: BTreeSet<Record>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// It has started.
    Idle,
    /// It waits for a checkpoint.
    Bootstrap,
    Standby(Box<Standby>),
    Owner(Box<Owner>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Running {
    pub role: Role,
    pub is_stopped: bool,
    /// Its last renewal, by its own clock.
    pub renewed: Option<BootMs>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    pub life: u64,
    /// The metadata as the node knows them.
    pub view: Copies,
    pub store: Option<Store>,
    /// Its copy of the log.
    pub folder: Vec<Stream>,
    pub running: Option<Running>,
}

/// How often something may still happen.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Left {
    pub commands: u8,
    pub ticks: u32,
    pub kills: u8,
    pub stops: u8,
    pub losses: u8,
    pub elections: u8,
    pub switchovers: u8,
    pub give_ups: u8,
    pub bootstraps: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    /// True time, in milliseconds.
    pub now: u64,
    pub log: Log,
    /// What the last seal chose.
    pub chosen: Vec<(History, Cut)>,
    pub nodes: Vec<Node>,
    pub metadata: Copies,
    pub leader: Leader,
    pub reign: u64,
    /// A change of the leader's that is under way.
    pub pending: Option<Change>,
    /// Processes that have ended.
    pub ended: Vec<Process>,
    pub commands: Vec<Command>,
    pub network: BTreeSet<Packet>,
    pub left: Left,
    pub ghosts: Ghosts,
}

impl World {
    /// A shard without keys that node 0 owns. The others will be standbys.
    pub fn new(plan: &Plan) -> Self {
        let owner = Process { node: NodeNumber(0), life: 1 };
        let mut metadata = Copies::new(Term::new(1).expect("a term"), owner);
        metadata.planted = plan.planted();
        let mut leader = Leader::new(SETTINGS);
        leader.planted = plan.planted();
        leader.reign(1, &metadata, BootMs(0));
        let node = |at: usize| Node {
            life: 1,
            view: metadata.clone(),
            store: (at == 0).then(Store::default),
            folder: vec![Stream::default(); plan.streams],
            running: Some(Running { role: Role::Idle, is_stopped: false, renewed: None }),
        };
        Self {
            now: 0,
            log: Log::new(plan.streams),
            chosen: Vec::new(),
            nodes: (0..plan.nodes).map(node).collect(),
            metadata: metadata.clone(),
            leader,
            reign: 1,
            pending: None,
            ended: Vec::new(),
            commands: Vec::new(),
            network: BTreeSet::new(),
            left: Left {
                commands: plan.commands,
                ticks: plan.ticks,
                kills: plan.kills,
                stops: plan.stops,
                losses: plan.losses,
                elections: plan.elections,
                switchovers: plan.switchovers,
                give_ups: plan.give_ups,
                bootstraps: plan.bootstraps,
            },
            ghosts: Ghosts::default(),
        }
    }

    /// One with an owner that serves, and counted standbys.
    pub fn led(plan: &Plan) -> Self {
        let mut world = Self::new(plan);
        world.calms(plan);
        world.left.ticks = plan.ticks;
        world
    }

    pub fn process(&self, at: usize) -> Process {
        Process { node: NodeNumber(at as u32), life: self.nodes[at].life }
    }

    /// The clock of a node.
    pub fn clock(&self, plan: &Plan, at: usize) -> BootMs {
        let rate = if plan.skew && !at.is_multiple_of(2) { 9 } else { 10 };
        BootMs(1_000 * at as u64 + self.now * rate / 10)
    }

    /// The clock of the metadata's leader.
    pub fn leaders_clock(&self) -> BootMs {
        BootMs(self.now)
    }

    /// The role of a node's process that turns.
    pub fn role(&mut self, at: usize) -> Option<&mut Role> {
        self.nodes[at].running.as_mut().filter(|running| !running.is_stopped).map(|running| &mut running.role)
    }

    pub fn owner(&mut self, at: usize) -> Option<&mut Owner> {
        if let Some(Role::Owner(owner)) = self.role(at) { Some(owner) } else { None }
    }

    pub fn standby(&mut self, at: usize) -> Option<&mut Standby> {
        if let Some(Role::Standby(standby)) = self.role(at) { Some(standby) } else { None }
    }

    pub fn is_up(&self, at: usize) -> bool {
        self.nodes[at].running.as_ref().is_some_and(|running| !running.is_stopped)
    }

    /// A process ends. Its clients find their connections closed.
    pub fn kill(&mut self, plan: &Plan, at: usize) {
        if self.nodes[at].running.take().is_some() {
            let process = self.process(at);
            self.ended.push(process);
            self.lose(plan, process);
        }
    }

    /// A node starts. Its copy of the log may have lost what was not synced: the bits of `kept` say how much.
    pub fn start(&mut self, at: usize, kept: u64) {
        let synced = self.log.synced.clone();
        let node = &mut self.nodes[at];
        node.life += 1;
        node.running = Some(Running { role: Role::Idle, is_stopped: false, renewed: None });
        for (stream, (folder, synced)) in node.folder.iter_mut().zip(synced).enumerate() {
            let sure = folder.blocks.iter().filter(|of| of.block.id.sequence <= synced.sequence).count();
            let lost = (kept >> (4 * stream) & 3) as usize;
            folder.blocks.truncate(folder.blocks.len().saturating_sub(lost).max(sure));
        }
    }

    /// A process has to start again.
    pub fn start_again(&mut self, plan: &Plan, at: usize) {
        self.kill(plan, at);
        self.start(at, 0);
    }

    pub fn deliver(&mut self, plan: &Plan, packet: Packet) {
        match packet {
            Packet::Told { to, stream, committed, synced, quiet } => {
                self.told(plan, to, stream, (committed, synced, quiet));
            }
            Packet::Report { to, from, covered, applied } => self.reported(plan, to.0 as usize, from, covered, applied),
            Packet::Renewal { renewal, sent, reign } => self.renewed(renewal, sent, reign),
            Packet::Granted { to, term, until } => self.granted(plan, to, term, until),
            Packet::Yield { by, term, to, is_logged, reign } if reign == self.reign => {
                self.leader.yielded(by, term, to, is_logged);
            }
            Packet::Yield { .. } => {}
            Packet::Proposal(change) => drop(self.metadata.apply(change)),
            Packet::Ship { to, store } => self.shipped(plan, to, store),
        }
    }
}
