//! The cluster's metadata: a pure state machine. Nodes that apply the same commands in the same order have the same
//! state. The order is agreed upon elsewhere (by Raft, or by a simulator's log).

mod command;
pub(crate) mod configuration;
mod groups;
#[cfg(test)]
mod groups_test;
#[cfg(test)]
mod levels_test;
mod libraries;
mod response;
mod shards;
#[cfg(test)]
mod shards_test;
mod snapshot;
mod spread;
mod standbys;
#[cfg(test)]
mod standbys_test;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::map::{Map, Node, Range};
use crate::{ClusterId, NodeId, SLOTS, ShardId, level};

pub use command::{ChangeId, Command, Describe, Heard, Kind};
pub use configuration::{CONFIGURATION_MAX, CONFIGURED_MAX, Configuration, Setting, VALUE_MAX};
use groups::Groups;
pub use groups::{
    DEFAULT_DIR, DEFAULT_GROUP, DIR_MAX, GROUP_NAME_MAX, GROUPS_MAX, Group, GroupCommand, GroupRefusal, PLACES_MAX,
    Place, Recover, Report, Reported, Settle, copies,
};
pub use libraries::{LIBRARIES_MAX, Libraries};
pub use response::{Refusal, Response};
use shards::Shards;
pub use shards::{ACCEPTORS_MAX, Acceptor, HAS_LOG, Lead, SHARD_SETTINGS_MAX, SetShard, Shard};
pub use snapshot::Image;
#[cfg(test)]
pub(crate) use snapshot::of_version_3;
pub use standbys::{ChangeCopies, CopiesRefusal, STANDBYS_MAX};

/// Most nodes of a cluster.
pub const NODES_MAX: usize = 1000;

/// The setting of a cluster that forms which says how many of its nodes get slots; without it all do. Only metadata at
/// [`level::STANDBYS`] have it.
pub const SHARDS: &str = "cluster-shards";

/// Most settings that nodes must agree on.
pub const SETTINGS_MAX: usize = 64;

/// Bytes of the longest host, name of a setting, or value of one.
pub const TEXT_MAX: usize = 255;

/// A node in the metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Member {
    kind: Kind,
    number: u32,
    epoch: u64,
    incarnation: u64,
    lost: bool,
    /// The highest level that its build speaks, as far as the metadata know.
    level: u16,
    host: String,
    port: u16,
    bus_port: u16,
    client_port: u16,
    /// The machine that it runs on; empty: it has not said.
    machine: String,
}

/// The state that all nodes have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    cluster: Option<ClusterId>,
    version: u64,
    epoch: u64,
    /// The level that all members speak (rule U1).
    level: u16,
    next_number: u32,
    members: BTreeMap<NodeId, Member>,
    settings: BTreeMap<String, String>,
    configuration: Configuration,
    libraries: Libraries,
    shards: Shards,
    groups: Groups,
    /// By slot, the number of the shard that owns it; 0: none.
    owners: Box<[u32]>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            cluster: None,
            version: 0,
            epoch: 0,
            level: level::FIRST,
            next_number: 1,
            members: BTreeMap::new(),
            settings: BTreeMap::new(),
            configuration: Configuration::default(),
            libraries: Libraries::default(),
            shards: Shards::default(),
            groups: Groups::default(),
            owners: vec![0; SLOTS].into_boxed_slice(),
        }
    }
}

impl State {
    /// The state before any command.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies a command. A refusal changes nothing.
    pub fn apply(&mut self, command: &Command) -> Response {
        let before = self.version;
        let outcome = match command {
            Command::Form { cluster, nodes, settings, level } => self.form(*cluster, nodes, settings, *level),
            _ if self.cluster.is_none() => Err(Refusal::NotFormed),
            Command::Join { node, settings, level } => self.join(Kind::Data, node, settings, *level),
            Command::JoinLog { node, settings, level } => self.join(Kind::Log, node, settings, *level),
            Command::Alive { node, settings, level } => self.alive(node, settings, *level),
            Command::Raise { level, heard } => self.raise_level(*level, heard),
            Command::Locate { id, incarnation, machine } => self.locate(*id, *incarnation, machine),
            Command::Lead(ask) => self.lead(ask),
            Command::SetShard(ask) => self.set_shard(ask),
            Command::Group(change) => self.change_groups(change),
            Command::Copies(ask) => self.change_copies(ask),
            Command::Leave { id } => self.leave(*id),
            Command::Forget { id } => self.forget(*id),
            Command::Set { name, value } => self.set(name, value),
            Command::Configure { first, settings } => self.configure(*first, settings),
            Command::Libraries { known, change, payload } => self.change_libraries(*known, *change, payload),
        };
        match outcome {
            Ok(()) => Response::Done { version: self.version, epoch: self.epoch },
            Err(why) => {
                debug_assert_eq!(self.version, before, "a refusal changes nothing");
                Response::Refused(why)
            }
        }
    }

    /// The cluster; none before it was formed.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// Rises with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The level of the cluster, which all its members speak (rule U1). It never falls.
    pub fn level(&self) -> u16 {
        self.level
    }

    /// True if the node belongs to the cluster.
    pub fn has(&self, id: NodeId) -> bool {
        self.members.contains_key(&id)
    }

    /// The incarnation known of a node.
    pub fn incarnation(&self, id: NodeId) -> Option<u64> {
        self.members.get(&id).map(|member| member.incarnation)
    }

    /// Nodes in the order of their numbers, and whether each is lost.
    pub fn nodes(&self) -> Vec<(NodeId, bool)> {
        self.by_number().into_iter().map(|(id, member)| (id, member.lost)).collect()
    }

    /// How many slots a node owns.
    pub fn slots_of(&self, id: NodeId) -> usize {
        self.shards.of(id).map(|shard| self.slots_of_shard(shard.id)).sum()
    }

    fn slots_of_shard(&self, shard: ShardId) -> usize {
        self.owners.iter().filter(|&&owner| owner == shard.0).count()
    }

    /// The value that nodes must agree on.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// The settings that are the cluster's.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The libraries of functions.
    pub fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    /// The map of this state; `voter` tells which nodes vote on the metadata.
    pub fn map(&self, voter: impl Fn(NodeId) -> bool) -> Map {
        let as_node = |(id, member): (NodeId, &Member)| Node {
            id,
            number: member.number,
            host: member.host.clone(),
            port: member.port,
            bus_port: member.bus_port,
            client_port: member.client_port,
            incarnation: member.incarnation,
            epoch: member.epoch,
            lost: member.lost,
            level: member.level,
            machine: member.machine.clone(),
            voter: voter(id),
        };
        let of_kind = |kind: Kind| self.by_number().into_iter().filter(move |(_, member)| member.kind == kind);
        let nodes: Vec<Node> = of_kind(Kind::Data).map(as_node).collect();
        let log_servers = of_kind(Kind::Log).map(as_node).collect();
        let index: BTreeMap<NodeId, u16> = nodes.iter().enumerate().map(|(i, node)| (node.id, i as u16)).collect();
        let mut ranges: Vec<Range> = Vec::new();
        for (start, end, shard) in spread::runs(&self.owners) {
            let owner = self.shards.all.get(&ShardId(shard)).and_then(|shard| index.get(&shard.owner));
            let Some(&node) = owner else { continue };
            match ranges.last_mut().filter(|last| last.node == node && last.end.get() + 1 == start.get()) {
                Some(last) => last.end = end,
                None => ranges.push(Range { start, end, node }),
            }
        }
        let Shards { all, gone_nodes, gone, former, .. } = &self.shards;
        Map::new(self.cluster, self.version, self.epoch, nodes, ranges)
            .with_level(self.level)
            .with_log_servers(log_servers)
            .with_groups(self.groups.all(), self.groups.reported())
            .with_shards(all.values().cloned().collect())
            .with_gone(gone_nodes.iter().copied().collect(), gone.iter().copied().collect())
            .with_former(former.iter().map(|(number, shard)| (*number, *shard)).collect())
    }

    fn by_number(&self) -> Vec<(NodeId, &Member)> {
        let mut nodes: Vec<_> = self.members.iter().map(|(id, member)| (*id, member)).collect();
        nodes.sort_by_key(|(_, member)| member.number);
        nodes
    }

    fn form(
        &mut self,
        cluster: ClusterId,
        nodes: &[Describe],
        settings: &[(String, String)],
        level: u16,
    ) -> Result<(), Refusal> {
        if self.cluster.is_some() {
            return Err(Refusal::AlreadyFormed);
        }
        if nodes.is_empty() || nodes.len() > NODES_MAX || settings.len() > SETTINGS_MAX {
            return Err(Refusal::TooMany);
        }
        let mut ordered: Vec<&Describe> = nodes.iter().collect();
        ordered.sort_by(|a, b| a.place().cmp(&b.place()));
        if ordered.windows(2).any(|two| two[0].place() == two[1].place()) || !distinct(nodes) {
            return Err(Refusal::SameAddress);
        }
        self.cluster = Some(cluster);
        self.version = 1;
        self.epoch = 1;
        self.level = level.max(level::FIRST);
        self.settings = settings.iter().cloned().collect();
        for node in &ordered {
            self.add(Kind::Data, node, self.level);
        }
        let wanted = self.settings.get(SHARDS).and_then(|wanted| wanted.parse().ok());
        let owners = wanted.filter(|wanted| (1..ordered.len()).contains(wanted)).unwrap_or(ordered.len());
        for (slot, number) in spread::evenly(owners).enumerate() {
            self.owners[slot] = number as u32 + 1;
        }
        let numbers = 1..=owners as u32;
        self.members.values_mut().filter(|member| numbers.contains(&member.number)).for_each(|member| member.epoch = 1);
        Ok(())
    }

    fn add(&mut self, kind: Kind, node: &Describe, level: u16) {
        let member = Member {
            kind,
            number: self.next_number,
            epoch: 0,
            incarnation: node.incarnation,
            lost: false,
            level,
            host: node.host.clone(),
            port: node.port,
            bus_port: node.bus_port,
            client_port: node.client_port,
            machine: String::new(),
        };
        self.next_number += 1;
        self.members.insert(node.id, member);
        if kind == Kind::Data {
            self.shards.add(node.id);
        }
    }

    /// The node at the place that `node` claims cannot be found there any more.
    fn displace(&mut self, node: &Describe) {
        for (id, member) in &mut self.members {
            member.lost |= node.displaces(*id, &member.host, member.bus_port);
        }
    }

    fn agrees(&self, settings: &[(String, String)]) -> Result<(), Refusal> {
        for (name, theirs) in settings {
            if let Some(ours) = self.settings.get(name).filter(|ours| *ours != theirs) {
                let (name, ours, theirs) = (name.clone(), ours.clone(), theirs.clone());
                return Err(Refusal::Disagrees { name, ours, theirs });
            }
        }
        Ok(())
    }

    fn join(&mut self, kind: Kind, node: &Describe, settings: &[(String, String)], level: u16) -> Result<(), Refusal> {
        if kind == Kind::Log && self.level < level::SHARDS {
            return Err(Refusal::EarlierLevel { has: self.level, needs: level::SHARDS });
        }
        if self.members.contains_key(&node.id) {
            return self.alive(node, settings, level);
        }
        let level = self.said(level, level::FIRST);
        self.reaches(node.id, level)?;
        self.agrees(settings)?;
        if self.members.len() >= NODES_MAX || self.next_number.max(self.shards.next) == u32::MAX {
            return Err(Refusal::TooMany);
        }
        self.displace(node);
        self.add(kind, node, level);
        self.version += 1;
        Ok(())
    }

    /// The level of a node that was reported with this one, and was known with another. A leader that does not know the
    /// cluster's level yet reports 0. No level below the first one is kept: snapshots have no room for it.
    fn said(&self, level: u16, known: u16) -> u16 {
        match level {
            _ if self.level == level::FIRST => level::FIRST,
            0 => known,
            level => level,
        }
    }

    /// Checks that a node whose build speaks up to `level` may be a member.
    fn reaches(&self, id: NodeId, level: u16) -> Result<(), Refusal> {
        if level < self.level { Err(Refusal::LowLevel { id, has: level, needs: self.level }) } else { Ok(()) }
    }

    fn alive(&mut self, node: &Describe, settings: &[(String, String)], level: u16) -> Result<(), Refusal> {
        let Some(member) = self.members.get(&node.id) else { return Err(Refusal::Unknown(node.id)) };
        // A life keeps its place: another place is another life of the same count, begun with a copy of the folder.
        let elsewhere = !member.host.is_empty() && (&member.host, member.bus_port) != (&node.host, node.bus_port);
        if node.incarnation < member.incarnation || node.incarnation == member.incarnation && elsewhere {
            return Err(Refusal::EarlierLife { id: node.id, known: member.incarnation });
        }
        let level = self.said(level, member.level);
        self.reaches(node.id, level)?;
        self.agrees(settings)?;
        let now = Member {
            incarnation: node.incarnation,
            lost: false,
            level,
            host: node.host.clone(),
            port: node.port,
            bus_port: node.bus_port,
            client_port: node.client_port,
            machine: member.machine.clone(),
            ..*member
        };
        if now == *member {
            return Ok(());
        }
        self.displace(node);
        self.members.insert(node.id, now);
        self.version += 1;
        Ok(())
    }

    fn locate(&mut self, id: NodeId, incarnation: u64, machine: &str) -> Result<(), Refusal> {
        if self.level < level::MACHINES {
            return Err(Refusal::LowLevel { id, has: self.level, needs: level::MACHINES });
        }
        let Some(member) = self.members.get_mut(&id) else { return Err(Refusal::Unknown(id)) };
        if incarnation != member.incarnation {
            return Err(Refusal::EarlierLife { id, known: member.incarnation });
        }
        if member.machine != machine {
            machine.clone_into(&mut member.machine);
            self.version += 1;
        }
        Ok(())
    }

    /// Raises the level, if each member has spoken the new one in its present life.
    fn raise_level(&mut self, level: u16, heard: &[Heard]) -> Result<(), Refusal> {
        if level <= self.level {
            return Ok(());
        }
        let of = |id: &NodeId, member: &Member| {
            heard.iter().find(|one| one.id == *id && one.incarnation == member.incarnation).map(|one| one.level)
        };
        for (id, member) in self.members.iter().filter(|(_, member)| !member.lost) {
            let has = of(id, member).unwrap_or(member.level);
            if has < level {
                return Err(Refusal::LowLevel { id: *id, has, needs: level });
            }
        }
        for (id, member) in &mut self.members {
            member.level = of(id, member).unwrap_or(member.level);
        }
        self.level = level;
        self.version += 1;
        Ok(())
    }

    fn leave(&mut self, id: NodeId) -> Result<(), Refusal> {
        let Some(member) = self.members.get(&id) else { return Ok(()) };
        let (number, slots) = (member.number, self.slots_of(id));
        if slots > 0 {
            return Err(Refusal::OwnsSlots { id, slots: slots as u32 });
        }
        self.is_free(id)?;
        self.remove(id, number);
        Ok(())
    }

    /// A node goes for good.
    fn remove(&mut self, id: NodeId, number: u32) {
        self.members.remove(&id);
        self.shards.dissolve(id, number);
        self.consider_all();
        self.version += 1;
    }

    fn forget(&mut self, id: NodeId) -> Result<(), Refusal> {
        let Some(member) = self.members.get(&id) else { return Err(Refusal::Unknown(id)) };
        let number = member.number;
        self.is_free(id)?;
        self.is_last_copy(id)?;
        let may_inherit = |shard: &&Shard| shard.owner != id && !self.members.get(&shard.owner).is_none_or(|m| m.lost);
        let heirs: Vec<ShardId> = self.shards.all.values().filter(may_inherit).map(|shard| shard.id).collect();
        let is_orphan = |slot: &usize| self.shards.of(id).any(|shard| shard.id.0 == self.owners[*slot]);
        let orphans: Vec<usize> = (0..SLOTS).filter(is_orphan).collect();
        if heirs.is_empty() {
            return Err(Refusal::LastNode);
        }
        let owned = |heir: &ShardId| (self.slots_of_shard(*heir), heir.0);
        let shares = spread::level(heirs.iter().map(owned).collect(), orphans.len());
        let mut orphans = orphans.into_iter();
        if orphans.len() > 0 {
            self.epoch += 1;
        }
        for (heir, share) in shares {
            for slot in orphans.by_ref().take(share) {
                self.owners[slot] = heir;
            }
            if share > 0 {
                self.raise(ShardId(heir));
            }
        }
        self.remove(id, number);
        Ok(())
    }

    /// The owner of this shard gets the current epoch.
    fn raise(&mut self, shard: ShardId) {
        let owner = self.shards.all.get(&shard).map(|shard| shard.owner);
        if let Some(member) = owner.and_then(|owner| self.members.get_mut(&owner)) {
            member.epoch = self.epoch;
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        if self.settings.get(name).is_some_and(|known| known == value) {
            return Ok(());
        }
        if self.settings.len() >= SETTINGS_MAX && !self.settings.contains_key(name) {
            return Err(Refusal::TooMany);
        }
        self.settings.insert(name.to_owned(), value.to_owned());
        self.version += 1;
        Ok(())
    }

    fn configure(&mut self, first: bool, settings: &[Setting]) -> Result<(), Refusal> {
        if self.configuration.change(first, settings)? {
            self.version += 1;
        }
        Ok(())
    }

    fn change_libraries(&mut self, known: u64, change: ChangeId, payload: &Arc<[u8]>) -> Result<(), Refusal> {
        if self.libraries.change(known, change, payload)? {
            self.version += 1;
        }
        Ok(())
    }
}

/// True if all have names of their own.
fn distinct(nodes: &[Describe]) -> bool {
    let mut names: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
    names.sort_unstable();
    names.windows(2).all(|two| two[0] != two[1])
}
