//! Nodes that are lost for good, and others that have their logs.

use std::collections::BTreeMap;
use std::sync::Arc;

use membership::map::Range;
use membership::meta::Shard;
use membership::{Map, ShardId, Term};

use super::{Net, even_map};
use crate::ledger::Disks;

/// The map of `owners` nodes with slots, and of others without any. Each of `recoveries` is a lost node, and the node
/// that has taken over its shard, in its second life; `waits`: that of the last one has not begun.
pub fn recovered_map(owners: usize, nodes: usize, version: u64, recoveries: &[(usize, usize)], waits: bool) -> Map {
    let (all, even) = (even_map(nodes, version), even_map(owners, version));
    let mut members = all.nodes().to_vec();
    let (mut ranges, mut former) = (even.ranges().to_vec(), Vec::new());
    // Of each its number, its owner, the owner's life, and the term.
    let mut shards: Vec<(u32, usize, u64, u32)> = (0..owners).map(|node| (node as u32 + 1, node, 1, 2)).collect();
    for (at, &(lost, heir)) in recoveries.iter().enumerate() {
        let waits = waits && at + 1 == recoveries.len();
        let shard = shards.iter_mut().find(|(_, owner, ..)| *owner == lost).expect("it has a shard");
        (shard.1, shard.2, shard.3) = (heir, if waits { 0 } else { 2 }, shard.3 + u32::from(!waits));
        members[heir].incarnation = if waits { 1 } else { 2 };
        former.push((members[lost].number, ShardId(shard.0)));
        let is_its = |range: &&mut Range| range.node == lost as u16;
        ranges.iter_mut().filter(is_its).for_each(|range| range.node = heir as u16);
    }
    former.sort_unstable();
    let shard = |(id, owner, incarnation, term): (u32, usize, u64, u32)| Shard {
        id: ShardId(id),
        owner: all.nodes()[owner].id,
        incarnation,
        term: Term::new(term).expect("a term"),
        group: String::new(),
        settled: Vec::new(),
        pending: None,
        pending_since: Term::ZERO,
        streams: 0,
        settings: BTreeMap::new(),
        standbys: BTreeMap::new(),
        rests_ms: 0,
    };
    let shards = shards.into_iter().map(shard).collect();
    Map::new(all.cluster(), version, 1, members, ranges)
        .with_level(membership::level::HIGHEST)
        .with_shards(shards)
        .with_former(former)
}

/// The same map, after these nodes were removed.
pub fn without(map: &Map, version: u64, removed: &[usize]) -> Map {
    let index = |node: u16| node - removed.iter().filter(|removed| **removed < usize::from(node)).count() as u16;
    let nodes = map.nodes().iter().enumerate().filter(|(at, _)| !removed.contains(at));
    let ranges = map.ranges().iter().map(|range| Range { node: index(range.node), ..*range });
    let former = map.former_owners().filter_map(|number| Some((number, map.shard_of_former(number)?)));
    Map::new(map.cluster(), version, 1, nodes.map(|(_, node)| node.clone()).collect(), ranges.collect())
        .with_level(map.level())
        .with_shards(map.shards().to_vec())
        .with_former(former.collect())
        .with_gone(removed.iter().map(|node| *node as u32 + 1).collect(), Vec::new())
}

impl Net {
    /// All nodes but the lost ones get this map.
    pub fn hear(&mut self, map: Map, lost: &[usize]) {
        let map = Arc::new(map);
        let nodes = (0..self.machines.len()).filter(|node| !lost.contains(node));
        nodes.for_each(|node| self.machines[node].cluster.set_map(map.clone()));
    }

    /// The machine of a node is gone, but for what was on the disk of its log, of which there are copies. It still runs,
    /// and nobody hears it.
    pub fn loses(&mut self, node: usize) -> Disks {
        (0..self.machines.len()).for_each(|other| self.cut(node, other));
        self.clients.iter_mut().filter(|client| client.end.0 == node).for_each(|client| client.closed = true);
        self.unreachable.push(node);
        self.stalled.push(node);
        self.machines[node].ledger.take().expect("it has a log").disks.after_power_cut()
    }

    /// A node starts with the log of a lost one. The others hear of it.
    pub fn recovers(&mut self, disks: Disks, heir: usize, map: Map) {
        (0..self.machines.len()).for_each(|other| self.cut(heir, other));
        self.clients.iter_mut().filter(|client| client.end.0 == heir).for_each(|client| client.closed = true);
        let (life, seed) = (map.nodes()[heir].incarnation, self.chance(u64::MAX));
        let (started, map) = (node::Clock::boot_ns(&*self.clock), Arc::new(map));
        let machine = self.setup.start((heir, life, false), started, map.clone(), &self.clock, seed >> 1, Some(disks));
        self.machines[heir] = machine;
        let lost = self.unreachable.clone();
        self.hear(Map::clone(&map), &lost);
    }
}
