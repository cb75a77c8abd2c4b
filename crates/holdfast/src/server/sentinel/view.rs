//! The cluster as clients of Sentinel see it.

use std::collections::{BTreeMap, BTreeSet};

use node::config::Settings;
use sentinel::{Master, Place, View};

use super::seen::{Seen, SeenNode};

/// A node does not serve any more when so many looks in a row have seen it without a lease. A leader that has just been
/// elected knows of no leases before the nodes have renewed theirs.
const SILENT: u8 = 4;

/// The part of the view that the process knows without the metadata.
pub struct Local {
    name: String,
    host: String,
    port: u16,
    sentinel_port: u16,
    is_in_cluster: bool,
    /// How many looks in a row have seen each node without a lease.
    silent: BTreeMap<String, u8>,
}

impl Local {
    pub fn new(settings: &Settings) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            name: text(&settings.sentinel_master_name),
            host: settings.cluster_announce_ip.as_deref().map(text).unwrap_or_default(),
            port: settings.port_of_clients(),
            sentinel_port: settings.sentinel_port,
            is_in_cluster: settings.takes_part_in_cluster(),
            silent: BTreeMap::new(),
        }
    }

    /// The view before anything is known: a server that is no cluster is the master itself. A cluster has none yet.
    pub fn first(&self) -> View {
        let place = Place { host: self.host.clone(), port: self.port, id: "0".repeat(40) };
        let master = Master { name: self.name.clone(), place, is_up: true, epoch: 0, replicas: Vec::new() };
        View {
            version: node::REDIS_VERSION,
            id: "0".repeat(40),
            masters: if self.is_in_cluster { Vec::new() } else { vec![master] },
            others: Vec::new(),
            voters: (1, 1),
        }
    }

    /// The view of what was seen. `before`: the view until now. While the metadata have no leader nobody knows which nodes
    /// serve, so masters stay as they were.
    pub fn view(&mut self, seen: &Seen, before: &View) -> View {
        // One for each machine, however many nodes it has.
        let mut hosts: BTreeSet<&str> = [seen.host.as_str()].into();
        let others = seen.nodes.iter().filter(|node| !node.lost && hosts.insert(&node.place.host));
        let others = others.map(|node| Place { port: self.sentinel_port, ..node.place.clone() }).collect();
        let masters = if seen.is_led {
            self.listen(seen);
            self.masters(seen, before)
        } else {
            before.masters.clone()
        };
        View { version: node::REDIS_VERSION, id: seen.me.clone(), masters, others, voters: seen.voters }
    }

    fn listen(&mut self, seen: &Seen) {
        let counted = seen.nodes.iter().map(|node| {
            let before = self.silent.get(&node.place.id).copied().unwrap_or(SILENT);
            let serves = !node.lost && node.has_lease;
            (node.place.id.clone(), if serves { 0 } else { before.saturating_add(1) })
        });
        self.silent = counted.collect();
    }

    fn serves(&self, node: &SeenNode) -> bool {
        self.silent.get(&node.place.id).is_some_and(|silent| *silent < SILENT)
    }

    /// A node that serves stands for the whole cluster, as every node serves every key. Clients may ask for its role, so it
    /// is no standby. Each shard has its owner.
    fn masters(&self, seen: &Seen, before: &View) -> Vec<Master> {
        let serving: Vec<&SeenNode> = seen.nodes.iter().filter(|node| self.serves(node)).collect();
        let known = before.master(self.name.as_bytes());
        // One that serves stays, so that clients need not turn back to one that is up again.
        let rank = |node: &&&SeenNode| (!node.owns, known.is_none_or(|known| known.place != node.place), node.number);
        let whole = match serving.iter().filter(|node| !node.is_standby).min_by_key(rank) {
            Some(first) => Some(Master {
                name: self.name.clone(),
                place: first.place.clone(),
                is_up: true,
                epoch: seen.epoch,
                replicas: serving.iter().filter(|node| node.number != first.number).map(place).collect(),
            }),
            None => known.map(|master| Master { is_up: false, replicas: Vec::new(), ..master.clone() }),
        };
        let of_shards = seen.shards.iter().filter_map(|shard| {
            let owner = seen.node(&shard.owner)?;
            let standbys = serving.iter().filter(|node| shard.standbys.contains(&node.place.id));
            Some(Master {
                name: format!("shard-{}", shard.number),
                place: owner.place.clone(),
                is_up: self.serves(owner),
                epoch: shard.term,
                replicas: standbys.map(place).collect(),
            })
        });
        whole.into_iter().chain(of_shards).collect()
    }
}

fn place(node: &&SeenNode) -> Place {
    node.place.clone()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use membership::control::{NodeStatus, Status};
    use membership::map::{self, Range};
    use membership::{Map, NodeId, Slot};

    use super::super::seen;
    use super::*;

    fn local() -> Local {
        let (host, silent) = (String::new(), BTreeMap::new());
        Local { name: "mymaster".into(), host, port: 6379, sentinel_port: 26379, is_in_cluster: true, silent }
    }

    /// The view when all statuses are like this one.
    fn settled(local: &mut Local, status: &Seen, before: &View) -> View {
        (0..SILENT).fold(before.clone(), |before, _| local.view(status, &before))
    }

    /// Three nodes that own slots.
    fn status(leases: [Option<u64>; 3]) -> Seen {
        let node = |number: u32| map::Node {
            id: NodeId([number as u8; 20]),
            number,
            host: format!("10.0.0.{number}"),
            port: 6379,
            bus_port: 16379,
            client_port: 0,
            incarnation: 1,
            epoch: 1,
            lost: false,
            level: 12,
            machine: String::new(),
            voter: true,
        };
        let ranges = vec![Range { start: Slot::FIRST, end: Slot::LAST, node: 0 }];
        let map = Map::new(None, 1, 5, (1..=3).map(node).collect(), ranges);
        let nodes = (1..=3u8).zip(leases).map(|(number, lease_ms)| NodeStatus {
            id: NodeId([number; 20]),
            linked: number == 2,
            lease_ms,
            level: None,
            trouble: String::new(),
            copies: Vec::new(),
            standing: None,
        });
        let status = Status {
            me: NodeId([2; 20]),
            cluster: None,
            map: Arc::new(map),
            leader: Some(NodeId([2; 20])),
            term: 1,
            lease_ms: 1000,
            reason: String::new(),
            changing: false,
            nodes: nodes.collect(),
        };
        let mut seen = Seen::of(&status).unwrap();
        assert_eq!(seen.nodes.iter().map(|node| node.owns).collect::<Vec<_>>(), [true, false, false]);
        seen.nodes.iter_mut().for_each(|node| node.owns = true);
        seen
    }

    fn at(view: &View) -> (&str, bool, usize) {
        let master = view.master(b"mymaster").unwrap();
        (&master.place.host, master.is_up, master.replicas.len())
    }

    #[test]
    fn the_master_is_a_node_that_serves() {
        let mut local = local();
        let first = local.view(&status([Some(900), Some(1000), Some(800)]), &local.first());
        assert_eq!((at(&first), first.voters), (("10.0.0.1", true, 2), (3, 3)));
        let others: Vec<_> = first.others.iter().map(|other| (other.host.as_str(), other.port)).collect();
        assert_eq!(others, [("10.0.0.1", 26379), ("10.0.0.3", 26379)]);
        let gone = status([Some(0), Some(1000), Some(800)]);
        assert_eq!(at(&local.view(&gone, &first)), ("10.0.0.1", true, 2), "a new leader may not have heard it yet");
        let second = settled(&mut local, &gone, &first);
        assert_eq!(at(&second), ("10.0.0.2", true, 1));
        assert_eq!(sentinel::news(&first, &second)[0].text, "mymaster 10.0.0.1 6379 10.0.0.2 6379");
        let back = local.view(&status([Some(900), Some(1000), Some(800)]), &second);
        assert_eq!(at(&back), ("10.0.0.2", true, 2));
        let none = settled(&mut local, &status([Some(0); 3]), &second);
        assert_eq!((at(&none), none.has_quorum()), (("10.0.0.2", false, 0), false));
    }

    #[test]
    fn masters_stay_while_the_metadata_have_no_leader() {
        let mut local = local();
        let first = local.view(&status([Some(900), Some(1000), Some(800)]), &local.first());
        let mut leaderless = status([None, Some(1000), None]);
        leaderless.is_led = false;
        let now = settled(&mut local, &leaderless, &first);
        assert_eq!((at(&now), now.has_quorum()), (("10.0.0.1", true, 2), false));
    }

    #[test]
    fn a_standby_is_no_master_of_anything() {
        let mut local = local();
        let all = [Some(900), Some(1000), Some(800)];
        let first = local.view(&status(all), &local.first());
        assert_eq!(at(&first), ("10.0.0.1", true, 2));
        // The second one takes over, and the first one is its standby.
        let mut after = status(all);
        for (at, node) in after.nodes.iter_mut().enumerate() {
            (node.owns, node.is_standby) = (at == 1, at == 0);
        }
        let id = |at: usize| after.nodes[at].place.id.clone();
        after.shards = vec![seen::SeenShard { number: 1, term: 2, owner: id(1), standbys: vec![id(0)] }];
        let second = local.view(&after, &first);
        assert_eq!(at(&second), ("10.0.0.2", true, 2));
        let heard: Vec<String> = sentinel::news(&first, &second).into_iter().map(|news| news.text).collect();
        assert!(heard.contains(&"mymaster 10.0.0.1 6379 10.0.0.2 6379".to_owned()), "{heard:?}");
        let shard = second.master(b"shard-1").unwrap();
        let of_shard: Vec<&str> = shard.replicas.iter().map(|place| &*place.host).collect();
        assert_eq!((&*shard.place.host, of_shard), ("10.0.0.2", vec!["10.0.0.1"]));
    }

    #[test]
    fn a_machine_with_two_nodes_is_one_sentinel() {
        let mut local = local();
        let mut seen = status([Some(900), Some(1000), Some(800)]);
        seen.nodes[0].place.host = seen.nodes[2].place.host.clone();
        let view = local.view(&seen, &local.first());
        assert_eq!(view.others.iter().map(|other| &*other.host).collect::<Vec<_>>(), ["10.0.0.3"]);
    }
}
