//! Copies of shards' data as clients see them: a standby is a replica of the owner of its shard.

use ::membership::control::{Following, HeardStandby};
use ::membership::map::Node as Member;
use ::membership::meta::Shard;
use ::membership::{Map, NodeNumber, Standby};
use redolog::{Lsn, STREAM_BITS};

use crate::node::Node;

/// An LSN as clients see the offset of a replica. A later record has a higher one, so nodes with the same offset have the
/// same data. A millisecond has 1024 of them, and all are exact in a `double`.
pub(crate) fn offset(lsn: Lsn) -> u64 {
    lsn.0 >> STREAM_BITS
}

/// The shard that a node stands by for.
pub(crate) fn stands_by_for(map: &Map, index: u16) -> Option<(&Shard, &Standby)> {
    let number = NodeNumber(map.node(index).number);
    let of = |shard: &'_ Shard| shard.standbys.get(&number).is_some_and(|standby| standby.is_wanted);
    let shard = map.shards().iter().find(|shard| of(shard))?;
    Some((shard, shard.standbys.get(&number)?))
}

/// The owner of the data that a node has a copy of, or is to have: its place in the map.
pub(crate) fn primary_of(map: &Map, index: u16) -> Option<u16> {
    stands_by_for(map, index).and_then(|(shard, _)| map.index_of(shard.owner))
}

/// The standbys of a node, as places in the map, and what the metadata say of each.
pub(crate) fn standbys_of(map: &Map, index: u16) -> Vec<(u16, Standby)> {
    let mut all = Vec::new();
    for shard in map.shards_of(map.node(index).id) {
        for (number, standby) in shard.standbys.iter().filter(|(_, standby)| standby.is_wanted) {
            let place = map.nodes().iter().position(|node| node.number == number.0);
            all.extend(place.map(|place| (place as u16, *standby)));
        }
    }
    all
}

/// A standby of this node, as this node knows it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Its node.
    pub(crate) node: Member,
    /// What the metadata say of it.
    pub(crate) standby: Standby,
    /// It holds a lease.
    pub(crate) is_up: bool,
    /// How far it is, and the seconds since it said so. None: it does not follow, or has not said so lately.
    pub(crate) following: Option<(Following, u64)>,
}

impl Seen {
    /// Its address for clients.
    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.node.host, self.node.port)
    }

    /// The offset of what its copy of the log has; 0: it is not known.
    pub(crate) fn offset(&self) -> u64 {
        self.following.map_or(0, |(following, _)| offset(Lsn(following.log.0)))
    }

    /// What an operator reads of it.
    pub(crate) fn state(&self) -> &'static str {
        match (self.standby.is_pinned, self.standby.is_electable) {
            (_, true) => "electable",
            (true, false) => "pinned",
            (false, false) => "given-up",
        }
    }
}

/// The standbys of this node's shard.
pub(crate) fn seen(node: &Node) -> Vec<Seen> {
    let Some(cluster) = node.cluster() else { return Vec::new() };
    let map = cluster.map();
    let Some(me) = map.index_of(cluster.me()) else { return Vec::new() };
    let standbys = standbys_of(&map, me);
    if standbys.is_empty() {
        return Vec::new();
    }
    let (heard, silent) = match cluster.administration() {
        Some(administration) => (administration.standbys(), administration.silent()),
        None => Default::default(),
    };
    let now = node.clock.boot_ns();
    let of = |(index, standby): (u16, Standby)| {
        let member = map.node(index);
        let is_it = |heard: &&HeardStandby| heard.process.node.0 == member.number;
        let heard = heard.iter().find(is_it);
        let ago = |heard: &HeardStandby| now.0.saturating_sub(heard.at.0) / 1_000_000_000;
        Seen {
            node: member.clone(),
            standby,
            is_up: !member.lost && !silent.contains(&member.id),
            following: heard.map(|heard| (heard.following, ago(heard))),
        }
    };
    standbys.into_iter().map(of).collect()
}

/// The owner of the data that this node has a copy of, or is to have.
pub(crate) fn own_primary(node: &Node) -> Option<Member> {
    let cluster = node.cluster()?;
    let map = cluster.map();
    let primary = primary_of(&map, map.index_of(cluster.me())?)?;
    Some(map.node(primary).clone())
}

/// The name of the history of a shard's data: the owner and all standbys have the same.
pub(crate) fn history(node: &Node) -> Option<String> {
    let cluster = node.cluster()?;
    let map = cluster.map();
    let me = map.index_of(cluster.me())?;
    let of_standby = || stands_by_for(&map, me).map(|(shard, _)| shard);
    let mut own = map.shards_of(cluster.me()).filter(|shard| shard.has_standbys());
    let shard = own.next().or_else(of_standby)?.id;
    let mut name = map.cluster()?.to_string();
    name.truncate(32);
    Some(format!("{name}{:08x}", shard.0))
}

/// The offset of what this node has: of the log that it confirms, or of the copy that follows.
pub(crate) fn own_offset(node: &Node) -> u64 {
    match (node.copy(), node.durable()) {
        (Some(copy), _) => offset(copy.figures().passed),
        (None, Some(durable)) => offset(durable.log().marks().all().max().unwrap_or_default()),
        (None, None) => 0,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cluster::copies::tests::{id, status};

    /// A map in which node 2 stands by for the shard of node 1.
    fn map(is_wanted: bool) -> Map {
        let map = Map::clone(&status(&[1, 2, 3], None, &[1, 2, 3]).map);
        let mut shards = map.shards().to_vec();
        let standby = Standby { life: 1, is_pinned: true, is_electable: true, is_wanted };
        shards[0].standbys = [(NodeNumber(2), standby)].into();
        map.with_shards(shards)
    }

    /// A standby at node `n`, which is 3 KB and 12 ms behind.
    pub(crate) fn seen_for_tests(n: u8) -> Seen {
        let map = map(true);
        let index = map.index_of(id(n)).unwrap();
        let cut = Default::default();
        let following =
            Following { log: cut, covered: cut, behind_bytes: 3 << 10, behind_ms: 12, applied_bytes: 0, priority: 100 };
        let standby = Standby { life: 1, is_pinned: true, is_electable: true, is_wanted: true };
        Seen { node: map.node(index).clone(), standby, is_up: true, following: Some((following, 0)) }
    }

    #[test]
    fn a_standby_is_a_replica_of_its_shards_owner() {
        let map1 = map(true);
        let (one, two) = (map1.index_of(id(1)).unwrap(), map1.index_of(id(2)).unwrap());
        assert_eq!((primary_of(&map1, two), primary_of(&map1, one)), (Some(one), None));
        assert_eq!(standbys_of(&map1, one).iter().map(|(index, _)| *index).collect::<Vec<_>>(), [two]);
        assert!(standbys_of(&map1, two).is_empty());
        let without = map(false);
        assert_eq!((primary_of(&without, two), standbys_of(&without, one).len()), (None, 0), "it was taken out");
    }

    #[test]
    fn offsets_are_exact_in_a_double() {
        let highest = offset(Lsn((1 << keyspace::VERSION_BITS) - 1));
        assert_eq!((highest as f64 as u64, (highest - 1) as f64 as u64), (highest, highest - 1));
        assert_eq!(offset(Lsn(5 << STREAM_BITS | 3)), 5);
    }
}
