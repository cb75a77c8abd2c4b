//! The cluster's metadata: the real state machine and the real leases behind a log that all nodes agree on, which is
//! what Raft promises. There is one order of commands, and a leader completes a confirmation only if no other leader
//! has been elected meanwhile. The world decides which nodes reach each other, and how long messages take.
//!
//! The metadata have no command that moves a slot. Here slots move all the same, so that nodes lose and gain them.

use std::collections::BTreeMap;
use std::sync::Arc;

use membership::leases::Leases;
use membership::map::Range;
use membership::meta::{Command, Describe, GroupCommand, Lead, Recover, Refusal, Response, State};
use membership::{BootNs, ClusterId, Map, NodeId, ShardId, Slot, level};

/// How long a lease lasts, nanoseconds: as in the server.
pub const LEASE_NS: u64 = 2_000_000_000;
/// How often it is renewed, microseconds.
pub const RENEW_US: u64 = 500_000;

/// A node, as far as the metadata go.
struct Voter {
    /// Of the log's entries.
    applied: usize,
    leases: Leases,
    /// The leader, as this node believes.
    asks: usize,
    /// The term in which it believes to lead.
    leads: Option<u64>,
    /// Leases that count when so much has been applied.
    waiting: Vec<(usize, BootNs)>,
}

/// See the module's text.
pub struct Metadata {
    state: State,
    /// Slots that have moved: whose each is. And of nodes that have lost or got one, at which move they last did.
    moved: (BTreeMap<u16, NodeId>, BTreeMap<NodeId, u64>),
    /// How often slots have moved.
    moves: u64,
    /// After each entry of the log.
    maps: Vec<Arc<Map>>,
    voters: Vec<Voter>,
    /// The node that was elected last, and its term.
    elected: (usize, u64),
    /// A planted mistake (P14): participants are named by their nodes.
    names_nodes: bool,
}

/// The name of a node.
pub fn id(node: usize) -> NodeId {
    NodeId([node as u8 + 1; 20])
}

/// The node of a name.
pub fn node_of(id: NodeId) -> usize {
    usize::from(id.0[0]).saturating_sub(1)
}

fn describe(node: usize, incarnation: u64) -> Describe {
    Describe {
        id: id(node),
        incarnation,
        host: format!("10.0.0.{}", node + 1),
        port: 7000 + node as u16,
        bus_port: 17000 + node as u16,
        client_port: 8000 + node as u16,
    }
}

/// The node whose links are dialed at this port.
pub fn node_at(bus_port: u16) -> usize {
    usize::from(bus_port) - 17000
}

impl Metadata {
    /// A cluster of so many nodes has been formed, and others without slots have joined. All know it.
    pub fn new((nodes, spares): (usize, usize), names_nodes: bool) -> Self {
        let mut state = State::new();
        let (mut first, level) =
            ((0..nodes + spares).map(|node| describe(node, 0)).collect::<Vec<Describe>>(), level::HIGHEST);
        let voter = || Voter { applied: 1, leases: Leases::new(LEASE_NS), asks: 0, leads: None, waiting: Vec::new() };
        let voters = first.iter().map(|_| voter()).collect();
        let joining = first.split_off(nodes);
        state.apply(&Command::Form { cluster: ClusterId([9; 20]), nodes: first, settings: Vec::new(), level });
        for node in joining {
            state.apply(&Command::Join { node, settings: Vec::new(), level });
        }
        let maps = vec![Arc::new(state.map(|_| true))];
        Self { state, moved: Default::default(), moves: 0, maps, voters, elected: (0, 0), names_nodes }
    }

    /// The map of now, with the slots that have moved.
    fn map(&self) -> Map {
        let map = self.state.map(|_| true);
        if self.moves == 0 {
            let without_shards = level::SHARD_PARTICIPANTS - 1;
            return if self.names_nodes { map.with_former(Vec::new()).with_level(without_shards) } else { map };
        }
        let (slots, epochs) = &self.moved;
        let mut nodes = map.nodes().to_vec();
        for node in &mut nodes {
            node.epoch = epochs.get(&node.id).map_or(node.epoch, |at| map.epoch() + at);
        }
        let mut ranges: Vec<Range> = Vec::new();
        for slot in Slot::all() {
            let moved = slots.get(&slot.get()).and_then(|id| map.index_of(*id));
            let Some(node) = moved.or(map.owner_of(slot)) else { continue };
            match ranges.last_mut().filter(|last| last.node == node && last.end.get() + 1 == slot.get()) {
                Some(last) => last.end = slot,
                None => ranges.push(Range { start: slot, end: slot, node }),
            }
        }
        let (version, epoch) = (map.version() + self.moves, map.epoch() + self.moves);
        Map::new(map.cluster(), version, epoch, nodes, ranges)
            .with_level(map.level())
            .with_groups(map.groups().to_vec(), map.reported().to_vec())
            .with_shards(map.shards().to_vec())
    }

    /// The map after the last entry.
    pub fn latest(&self) -> &Arc<Map> {
        &self.maps[self.maps.len() - 1]
    }

    /// The node that was elected last.
    pub fn leader(&self) -> usize {
        self.elected.0
    }

    /// True if the node that was elected last still knows that it leads.
    pub fn is_led(&self) -> bool {
        self.voters[self.elected.0].leads == Some(self.elected.1)
    }

    /// The node that a node asks.
    pub fn asks(&self, node: usize) -> usize {
        self.voters[node].asks
    }

    /// The metadata that a node has applied, as a map.
    pub fn known(&self, node: usize) -> &Arc<Map> {
        &self.maps[self.voters[node].applied - 1]
    }

    /// All nodes know what has been decided.
    pub fn all_know(&mut self) {
        let end = self.maps.len();
        self.voters.iter_mut().for_each(|voter| voter.applied = end);
    }

    /// The leader applies a command.
    ///
    /// # Errors
    ///
    /// It is refused.
    pub fn submit(&mut self, command: &Command) -> Result<(), Refusal> {
        let response = self.state.apply(command);
        self.append(None);
        self.catch_up();
        match response {
            Response::Refused(why) => Err(why),
            Response::Done { .. } => Ok(()),
        }
    }

    /// True if a node can be given the shard of a lost one, as far as the metadata know.
    pub fn may_recover(&self, shard: ShardId, to: usize) -> bool {
        self.state.may_recover(shard, id(to)).is_ok()
    }

    /// The leader gives the shard of a lost node to another one, if the lost one can have no lease any more. True if it
    /// has.
    pub fn recover(&mut self, shard: ShardId, (from, to): (usize, usize), now: BootNs) -> bool {
        let (leader, term) = self.elected;
        let voter = &mut self.voters[leader];
        if voter.leads != Some(term) || voter.leases.fence(term, id(from), now).is_err() {
            return false;
        }
        let recover = Command::Group(GroupCommand::Recover(Recover { shard, to: id(to) }));
        let is_done = self.submit(&recover).is_ok();
        self.voters[leader].leases.release(id(from));
        is_done
    }

    fn append(&mut self, command: Option<&Command>) {
        if let Some(command) = command {
            self.state.apply(command);
        }
        self.maps.push(Arc::new(self.map()));
    }

    /// A majority elects a node.
    pub fn elect(&mut self, node: usize, now: BootNs) {
        let term = self.elected.1 + 1;
        self.elected = (node, term);
        self.append(None);
        let voter = &mut self.voters[node];
        (voter.leads, voter.asks) = (Some(term), node);
        voter.leases.lead(term, now);
    }

    /// A node has started again: it knows what its folder has.
    pub fn restart(&mut self, node: usize) {
        let voter = &mut self.voters[node];
        (voter.leads, voter.leases) = (None, Leases::new(LEASE_NS));
        voter.waiting.clear();
    }

    /// A renewal has come to a node: the term in which that leads, if it believes so and grants it.
    pub fn asked(&mut self, to: usize, from: (usize, u64), now: BootNs) -> Option<u64> {
        let known = self.known(to).clone();
        let voter = &mut self.voters[to];
        let term = voter.leads?;
        let incarnation = known.nodes().iter().find(|node| node.id == id(from.0))?.incarnation;
        (incarnation == from.1 && voter.leases.grant(term, id(from.0), now)).then_some(term)
    }

    /// The position of the log, if a node still leads in this term.
    pub fn confirmed(&self, leader: (usize, u64)) -> Option<usize> {
        (self.elected == leader).then_some(self.maps.len())
    }

    /// A node is granted a lease, which counts from when it has applied so much.
    pub fn granted(&mut self, to: usize, index: usize, until: BootNs) {
        self.voters[to].waiting.push((index, until));
    }

    /// Until when a node has a lease, as far as it is new.
    pub fn due(&mut self, node: usize) -> Option<BootNs> {
        let voter = &mut self.voters[node];
        let applied = voter.applied;
        let due = voter.waiting.iter().filter(|(index, _)| *index <= applied).map(|(_, until)| *until).max();
        voter.waiting.retain(|(index, _)| *index > applied);
        due
    }

    /// A node learns of this many more entries, and of the leader. True: something was new.
    pub fn follow(&mut self, node: usize, entries: usize) -> bool {
        let (elected, end) = (self.elected, self.maps.len());
        let voter = &mut self.voters[node];
        voter.asks = elected.0;
        voter.leads = voter.leads.filter(|term| elected == (node, *term));
        let before = voter.applied;
        voter.applied = end.min(before + entries);
        voter.applied > before
    }

    /// The leader applies the entries there are.
    fn catch_up(&mut self) {
        let (leader, end) = (self.elected.0, self.maps.len());
        self.voters[leader].applied = end;
    }

    /// The leader hears that a node has started. True if all nodes know it or will.
    pub fn announce(&mut self, (from, incarnation): (usize, u64)) -> bool {
        let (leader, term) = self.elected;
        if self.voters[leader].leads != Some(term) {
            return false;
        }
        let alive = Command::Alive { node: describe(from, incarnation), settings: Vec::new(), level: level::HIGHEST };
        self.state.apply(&alive);
        if self.latest().groups().is_empty() {
            // A log without copies is read by this start alone: it can have its term at once.
            let shard = self.latest().shards_of(id(from)).next().map(|shard| (shard.id, shard.term));
            let lead = |(shard, known)| Command::Lead(Lead { shard, known, id: id(from), incarnation, of_log: 0 });
            shard.map(lead).iter().for_each(|lead| drop(self.state.apply(lead)));
        }
        self.append(None);
        self.catch_up();
        true
    }

    /// The leader gives a slot to another node, if its owner can have no lease any more. True if it has.
    pub fn assign(&mut self, (from, to): (usize, usize), slot: u16, now: BootNs) -> bool {
        let (leader, term) = self.elected;
        let voter = &mut self.voters[leader];
        if voter.leads != Some(term) || voter.leases.fence(term, id(from), now).is_err() {
            return false;
        }
        let map = self.latest();
        let is_owner = map.owner_of(Slot::of(slot)).is_some_and(|owner| map.node(owner).id == id(from));
        if is_owner && from != to {
            self.moves += 1;
            self.moved.0.insert(slot, id(to));
            self.moved.1.extend([from, to].map(|node| (id(node), self.moves)));
        }
        self.append(None);
        self.catch_up();
        self.voters[leader].leases.release(id(from));
        is_owner
    }
}
