//! Levels of nodes, known by handshakes, and the raising of the cluster's level (rule U1).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use openraft::EntryPayload;

use super::agent::Agent;
use super::kept::Kept;
use crate::handshake::{Peer, Refusal};
use crate::meta::{Command, Heard, State};
use crate::{NodeId, level};

/// The levels in handshakes, and the one that the cluster asks of its nodes.
#[derive(Clone, Default)]
pub struct Levels {
    /// By node: the life that it was in, and the level of that.
    heard: Arc<Mutex<BTreeMap<NodeId, (u64, u16)>>>,
    /// The cluster's level, as this node has applied it.
    cluster: Arc<AtomicU16>,
}

impl Levels {
    /// Sets the cluster's level.
    pub fn apply(&self, level: u16) {
        self.cluster.store(level, Ordering::Release);
    }

    /// Notes the level of a node that has proved its identity.
    ///
    /// # Errors
    ///
    /// It does not reach the cluster's level, and is refused.
    pub fn hear(&self, peer: &Peer) -> Result<(), Refusal> {
        let (node, life, has) = (peer.party.node, peer.party.incarnation, peer.highest);
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let known = heard.entry(node).or_default();
        if life >= known.0 {
            *known = (life, has);
        }
        let needs = self.cluster.load(Ordering::Acquire);
        if has < needs { Err(Refusal::LowLevel { node, needs, has }) } else { Ok(()) }
    }

    /// The level that a node has spoken in this life.
    pub fn of(&self, node: NodeId, life: u64) -> Option<u16> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.get(&node).filter(|known| known.0 == life).map(|known| known.1)
    }
}

/// The level that a node's files name. A change that may not be committed does not count: until the level rises, a node
/// may go back to a build that does not know it (rule U1).
pub fn known(kept: &Kept) -> u16 {
    state_of(kept, kept.committed.map_or(0, |last| last.index)).level()
}

/// The metadata in a node's files, up to this place of Raft's log.
pub fn state_of(kept: &Kept, upto: u64) -> State {
    let snapshot = kept.snapshot.as_ref();
    let last = snapshot.and_then(|snapshot| snapshot.meta.last_log_id).map_or(0, |last| last.index);
    let state = snapshot.and_then(|snapshot| State::restore(&snapshot.snapshot).ok());
    let mut state = state.unwrap_or_default();
    for (_, entry) in kept.entries.range(last + 1..).take_while(|(index, _)| **index <= upto) {
        if let EntryPayload::Normal(command) = &entry.payload {
            state.apply(command);
        }
    }
    state
}

/// Sets the level of the build in a command about a node. If the cluster has no level, the command stays as nodes
/// without levels read it.
pub fn with_level(command: Command, of_cluster: u16, of_node: u16) -> Command {
    match command {
        Command::Join { node, settings, .. } if of_cluster > level::FIRST => {
            Command::Join { node, settings, level: of_node }
        }
        Command::Alive { node, settings, .. } if of_cluster > level::FIRST => {
            Command::Alive { node, settings, level: of_node }
        }
        Command::JoinLog { node, settings, .. } => Command::JoinLog { node, settings, level: of_node },
        Command::Join { node, settings, .. } => Command::Join { node, settings, level: 0 },
        Command::Alive { node, settings, .. } => Command::Alive { node, settings, level: 0 },
        other => other,
    }
}

impl Agent {
    /// The highest level that all these nodes have spoken; [`level::FIRST`] if one was not heard.
    pub fn lowest_level(&self, nodes: impl Iterator<Item = (NodeId, u64)>) -> u16 {
        let of = |(id, life)| if id == self.me() { level::HIGHEST } else { self.levels.of(id, life).unwrap_or(0) };
        nodes.map(of).min().unwrap_or(0).clamp(level::FIRST, level::HIGHEST)
    }

    /// Checks that the level may rise, as far as this node knows.
    ///
    /// # Errors
    ///
    /// A member is known to speak no higher level. The error names it and its place.
    pub fn may_rise(&self) -> Result<(), String> {
        let map = self.machine.map();
        if map.level() >= level::HIGHEST {
            return Ok(());
        }
        for node in map.members().filter(|node| !node.lost && node.id != self.me()) {
            if let Some(has) = self.levels.of(node.id, node.incarnation).filter(|has| *has <= map.level()) {
                return Err(format!(
                    "node {} at {}:{} runs a build that speaks up to level {has}, which the cluster has: every node needs a newer build first",
                    node.id, node.host, node.port
                ));
            }
        }
        Ok(())
    }

    /// The levels of all members, as this node, which leads, has heard them, and the level that they all speak.
    ///
    /// # Errors
    ///
    /// A node that was not heard, or speaks no higher level.
    pub fn raise(&self) -> Result<Command, String> {
        self.may_rise()?;
        let (map, me) = (self.machine.map(), self.me());
        if map.level() >= level::HIGHEST {
            // It has been raised already.
            return Ok(Command::Raise { level: map.level(), heard: Vec::new() });
        }
        let now = (self.clock)();
        let mut heard = Vec::new();
        for node in map.members().filter(|node| !node.lost) {
            let (id, incarnation) = (node.id, node.incarnation);
            let is_up = self.volatile().leases.held(id, now) > 0;
            let has = if id == me { Some(level::HIGHEST) } else { self.levels.of(id, incarnation).filter(|_| is_up) };
            let Some(level) = has else {
                return Err(format!(
                    "node {id} at {}:{} holds no lease: the level rises when all nodes are up",
                    node.host, node.port
                ));
            };
            heard.push(Heard { id, incarnation, level });
        }
        let lowest = heard.iter().map(|one| one.level).min().unwrap_or(level::FIRST).min(level::HIGHEST);
        if lowest <= map.level() {
            return Err(format!("the cluster is at level {lowest}, the highest that all of its nodes speak"));
        }
        Ok(Command::Raise { level: lowest, heard })
    }
}
