//! The slot map: the owners of slots, and the places of nodes. It is immutable; a new one replaces the old one as a
//! whole.

use crate::meta::{DEFAULT_GROUP, Group, Place, Reported, Shard, copies};
use crate::{ClusterId, NodeId, SLOTS, ShardId, Slot, level};

/// In the table of owners: none, because the cluster was not formed.
const NOBODY: u16 = u16::MAX;
/// In the table of blocks: its slots have several owners.
const SEVERAL: u16 = u16::MAX - 1;
/// Slots of a block.
const BLOCK: usize = 64;

/// A node of the cluster, or a log-server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its name.
    pub id: NodeId,
    /// Its number, by which it is known as long as it belongs to the cluster. Numbers are not used again.
    pub number: u32,
    /// Where clients and nodes find it: a name or an address.
    pub host: String,
    /// The port for clients.
    pub port: u16,
    /// The port for nodes.
    pub bus_port: u16,
    /// The port for smart clients, which find the owner of a slot by themselves; 0: none of its own.
    pub client_port: u16,
    /// How often it has started.
    pub incarnation: u64,
    /// When it was last given slots: rises with every change of what it owns. 0: it never owned any.
    pub epoch: u64,
    /// True if its folder is gone: another node has replaced it, and no process will answer by this name.
    pub lost: bool,
    /// The highest level that its build speaks, as far as the metadata know (rule U1).
    pub level: u16,
    /// The machine that it runs on (`cluster-host`); empty: it has not said.
    pub machine: String,
    /// True if it votes on the metadata.
    pub voter: bool,
}

impl Node {
    /// The port that smart clients are told.
    pub fn port_for_smart_clients(&self) -> u16 {
        if self.client_port == 0 { self.port } else { self.client_port }
    }

    /// True if clients of either kind reach it at this address.
    pub fn is_at(&self, host: &str, port: i64) -> bool {
        self.host == host && [self.port, self.port_for_smart_clients()].into_iter().any(|of| i64::from(of) == port)
    }
}

/// Slots that follow each other and have one owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The first slot.
    pub start: Slot,
    /// The last slot.
    pub end: Slot,
    /// The owner's index in [`Map::nodes`].
    pub node: u16,
}

impl Range {
    /// How many slots there are, at least one.
    pub fn slots(&self) -> usize {
        usize::from(self.end.get() - self.start.get()) + 1
    }
}

/// The owners of slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    cluster: Option<ClusterId>,
    version: u64,
    epoch: u64,
    level: u16,
    nodes: Vec<Node>,
    log_servers: Vec<Node>,
    ranges: Vec<Range>,
    owners: Box<[u16]>,
    /// For each block of slots with one owner, or none, that owner. Every command asks for owners, and this small table
    /// stays in the cache.
    blocks: Box<[u16]>,
    shards: Vec<Shard>,
    /// For each node, the place of its shard among these.
    owned: Box<[Option<u16>]>,
    groups: Vec<Group>,
    reported: Vec<Reported>,
    gone: Vec<u32>,
    gone_shards: Vec<ShardId>,
    former: Vec<(u32, ShardId)>,
}

/// What became of the log of a node whose shard another node was to take over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Continued<'a> {
    /// This node has it, or will have it before it serves: its present life was given a term of the shard.
    By(&'a Node),
    /// The node that is to have it has not begun a life with it.
    Waits,
    /// It is gone: the shard was dissolved.
    Lost,
}

impl Map {
    /// The map before there is a cluster.
    pub fn empty() -> Self {
        Self::new(None, 0, 0, Vec::new(), Vec::new())
    }

    /// A map of the given nodes and ranges.
    ///
    /// # Panics
    /// If there are 65534 nodes or more, or if a range names a node that there is not.
    pub fn new(cluster: Option<ClusterId>, version: u64, epoch: u64, nodes: Vec<Node>, ranges: Vec<Range>) -> Self {
        assert!(nodes.len() < usize::from(SEVERAL), "too many nodes");
        let mut owners = vec![NOBODY; SLOTS].into_boxed_slice();
        for range in &ranges {
            assert!(usize::from(range.node) < nodes.len(), "a range of no node");
            owners[usize::from(range.start.get())..=usize::from(range.end.get())].fill(range.node);
        }
        let of_block = |block: &[u16]| if block.iter().all(|owner| *owner == block[0]) { block[0] } else { SEVERAL };
        let blocks = owners.chunks(BLOCK).map(of_block).collect();
        let level = level::FIRST;
        let (log_servers, shards, groups, reported) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (gone, gone_shards, former) = (Vec::new(), Vec::new(), Vec::new());
        let owned = vec![None; nodes.len()].into_boxed_slice();
        Self {
            cluster,
            version,
            epoch,
            level,
            nodes,
            log_servers,
            ranges,
            owners,
            blocks,
            shards,
            owned,
            groups,
            reported,
            gone,
            gone_shards,
            former,
        }
    }

    /// The same map, with these log-servers in the order of their numbers.
    pub fn with_log_servers(self, log_servers: Vec<Node>) -> Self {
        Self { log_servers, ..self }
    }

    /// The same map, with these shards in the order of their numbers.
    pub fn with_shards(self, shards: Vec<Shard>) -> Self {
        let of = |node: &Node| shards.iter().position(|shard| shard.owner == node.id).map(|at| at as u16);
        let owned = self.nodes.iter().map(of).collect();
        Self { shards, owned, ..self }
    }

    /// The same map, with these groups and acceptors.
    pub fn with_groups(self, groups: Vec<Group>, reported: Vec<Reported>) -> Self {
        Self { groups, reported, ..self }
    }

    /// The same map, where the nodes of these numbers were removed for good, and these shards dissolved. Both ascend.
    pub fn with_gone(self, gone: Vec<u32>, gone_shards: Vec<ShardId>) -> Self {
        Self { gone, gone_shards, ..self }
    }

    /// The same map, where other nodes have taken over the shards of the nodes of these numbers, which ascend.
    pub fn with_former(self, former: Vec<(u32, ShardId)>) -> Self {
        Self { former, ..self }
    }

    /// The same map, in a cluster of this level.
    pub fn with_level(self, level: u16) -> Self {
        Self { level, ..self }
    }

    /// The level that all nodes speak (rule U1).
    #[inline]
    pub fn level(&self) -> u16 {
        self.level
    }

    /// Numbers of nodes that were removed for good, ascending: none of them comes back.
    pub fn gone(&self) -> impl Iterator<Item = u32> + '_ {
        self.gone.iter().copied()
    }

    /// Shards that were dissolved, ascending. Their numbers say nothing about nodes.
    pub fn gone_shards(&self) -> &[ShardId] {
        &self.gone_shards
    }

    /// Numbers of nodes whose shard another node has taken over, or was to take over, ascending. They may be gone. None
    /// of them owns a shard, or will own another one than that.
    pub fn former_owners(&self) -> impl Iterator<Item = u32> + '_ {
        self.former.iter().map(|(number, _)| *number)
    }

    /// The shard that a former owner had. It may be gone. None: the node of this number is no former owner.
    pub fn shard_of_former(&self, number: u32) -> Option<ShardId> {
        let at = self.former.binary_search_by_key(&number, |(former, _)| *former).ok()?;
        Some(self.former[at].1)
    }

    /// The node that has the log of a former owner. None: it is none.
    pub fn continued(&self, number: u32) -> Option<Continued<'_>> {
        let at = self.former.binary_search_by_key(&number, |(former, _)| *former).ok()?;
        let shard = self.shards.iter().find(|shard| shard.id == self.former[at].1);
        Some(match shard.map(|shard| (shard.incarnation, self.index_of(shard.owner))) {
            Some((1.., Some(owner))) => Continued::By(self.node(owner)),
            Some(_) => Continued::Waits,
            None => Continued::Lost,
        })
    }

    /// All shards, in the order of their numbers.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The log groups, in the order of their names.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The acceptors that have reported themselves.
    pub fn reported(&self) -> &[Reported] {
        &self.reported
    }

    /// The name of the group that a shard uses; none if its log has no copies.
    pub fn group_of<'a>(&'a self, shard: &'a Shard) -> Option<&'a Group> {
        let name = if shard.group.is_empty() { DEFAULT_GROUP } else { &shard.group };
        self.groups.iter().find(|group| group.name == name)
    }

    /// The places where copies of a shard's log belong, the owner's own log first; empty if it has no copies.
    pub fn copies_of(&self, shard: &Shard) -> Vec<Place> {
        self.group_of(shard).map_or_else(Vec::new, |group| copies(&group.places, shard.id, shard.owner))
    }

    /// The copies of a shard's data, as the rules of standbys have them. None: the map has no such owner.
    pub fn data_copies(&self, shard: &Shard) -> Option<standby::Copies> {
        self.index_of(shard.owner).map(|owner| shard.copies(self.node(owner).number))
    }

    /// How many slots a shard has. A node owns one shard, and the slots of a node are its shard's.
    pub fn slots_of_shard(&self, shard: &Shard) -> usize {
        self.index_of(shard.owner).map_or(0, |owner| self.slots_of(owner))
    }

    /// The shard that the node with this index owns: it owns one at most.
    #[inline]
    pub fn shard_at(&self, index: u16) -> Option<&Shard> {
        let at = self.owned[usize::from(index)]?;
        self.shards.get(usize::from(at))
    }

    /// The shard of this number.
    pub fn shard(&self, id: ShardId) -> Option<&Shard> {
        self.shards.binary_search_by_key(&id, |shard| shard.id).ok().map(|at| &self.shards[at])
    }

    /// The shards of a node.
    pub fn shards_of(&self, id: NodeId) -> impl Iterator<Item = &Shard> {
        self.shards.iter().filter(move |shard| shard.owner == id)
    }

    /// The cluster; none before it was formed.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// Rises with every change of the metadata: maps of one cluster with the same version are equal, except for the
    /// voters.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The highest epoch of a node (`cluster_current_epoch`).
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// All nodes, in the order of their numbers. An index holds for this map only. Log-servers are not among them: they
    /// have no keys.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The members that hold copies of logs and nothing else, in the order of their numbers.
    pub fn log_servers(&self) -> &[Node] {
        &self.log_servers
    }

    /// All members: the nodes, then the log-servers.
    pub fn members(&self) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.iter().chain(&self.log_servers)
    }

    /// The member of this name.
    pub fn member(&self, id: NodeId) -> Option<&Node> {
        self.members().find(|member| member.id == id)
    }

    /// All slots that have an owner, ascending, in as few ranges as there can be.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The index of the owner of `slot`; none if the cluster has not been formed.
    #[inline]
    pub fn owner_of(&self, slot: Slot) -> Option<u16> {
        let slot = usize::from(slot.get());
        let owner = match self.blocks[slot / BLOCK] {
            SEVERAL => self.owners[slot],
            owner => owner,
        };
        (owner != NOBODY).then_some(owner)
    }

    /// The node with this index.
    #[inline]
    pub fn node(&self, index: u16) -> &Node {
        &self.nodes[usize::from(index)]
    }

    /// The index of the node of this name.
    pub fn index_of(&self, id: NodeId) -> Option<u16> {
        self.nodes.iter().position(|node| node.id == id).map(|index| index as u16)
    }

    /// The ranges of the node with this index, ascending.
    pub fn ranges_of(&self, index: u16) -> impl Iterator<Item = Range> + '_ {
        self.ranges.iter().copied().filter(move |range| range.node == index)
    }

    /// How many slots the node with this index owns.
    pub fn slots_of(&self, index: u16) -> usize {
        self.ranges_of(index).map(|range| range.slots()).sum()
    }

    /// How many slots have an owner (`cluster_slots_assigned`).
    pub fn assigned(&self) -> usize {
        self.ranges.iter().map(Range::slots).sum()
    }

    /// How many nodes own slots (`cluster_size`).
    pub fn owners(&self) -> usize {
        (0..self.nodes.len() as u16).filter(|&index| self.ranges_of(index).next().is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u32) -> Node {
        Node {
            id: NodeId([number as u8; 20]),
            number,
            host: "127.0.0.1".to_owned(),
            port: 7000,
            bus_port: 17000,
            client_port: 8000,
            incarnation: 1,
            epoch: 1,
            lost: false,
            level: level::FIRST,
            machine: String::new(),
            voter: true,
        }
    }

    #[test]
    fn a_map_says_who_owns_what() {
        let range = |start, end, node| Range { start: Slot::of(start), end: Slot::of(end), node };
        let ranges = vec![range(0, 99, 0), range(100, 100, 1), range(101, 16383, 0)];
        let map = Map::new(Some(ClusterId([9; 20])), 4, 2, vec![node(1), node(2), node(3)], ranges.clone());
        assert_eq!([0, 99, 100, 101, 16383].map(|slot| map.owner_of(Slot::of(slot))), [0, 0, 1, 0, 0].map(Some));
        assert_eq!(map.ranges_of(0).collect::<Vec<_>>(), [ranges[0], ranges[2]]);
        assert_eq!((map.slots_of(0), map.slots_of(1), map.slots_of(2)), (SLOTS - 1, 1, 0));
        assert_eq!((map.assigned(), map.owners()), (SLOTS, 2));
        assert_eq!((map.index_of(NodeId([3; 20])), map.index_of(NodeId([4; 20]))), (Some(2), None));
        assert_eq!(map.node(1).number, 2);
        assert_eq!(map, map.clone());
        assert_eq!(map.gone().count(), 0);
        let map = Map::new(None, 5, 2, vec![node(2), node(4)], Vec::new());
        let map = map.with_gone(vec![1, 3, 5, 6], vec![ShardId(2)]);
        assert_eq!((map.gone().collect::<Vec<_>>(), map.gone_shards()), (vec![1, 3, 5, 6], &[ShardId(2)][..]));
    }

    #[test]
    fn before_the_cluster_is_formed_nobody_owns_anything() {
        let map = Map::empty();
        assert_eq!(
            (map.owner_of(Slot::FIRST), map.owner_of(Slot::LAST), map.assigned(), map.owners()),
            (None, None, 0, 0)
        );
        assert_eq!((map.cluster(), map.version()), (None, 0));
    }

    #[test]
    fn owners_may_change_anywhere() {
        let range = |start, end, node| Range { start: Slot::of(start), end: Slot::of(end), node };
        let ranges = vec![range(70, 191, 0), range(192, 8000, 1)];
        let map = Map::new(None, 1, 1, vec![node(1), node(2)], ranges.clone());
        for slot in Slot::all() {
            let owner = ranges.iter().find(|range| (range.start..=range.end).contains(&slot)).map(|range| range.node);
            assert_eq!(map.owner_of(slot), owner, "{slot}");
        }
    }
}
