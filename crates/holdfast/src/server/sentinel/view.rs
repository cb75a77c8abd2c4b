//! The cluster's status as clients of Sentinel see it.

use std::collections::BTreeMap;

use membership::control::{NodeStatus, Status};
use membership::{NodeId, map};
use node::config::Settings;
use sentinel::{Master, Place, View};

/// A node does not serve any more when so many statuses in a row have seen it without a lease. A leader that has just been
/// elected knows of no leases before the nodes have renewed theirs.
const SILENT: u8 = 4;

/// The part of the view that the process knows without the metadata.
pub struct Local {
    name: String,
    host: String,
    port: u16,
    sentinel_port: u16,
    is_in_cluster: bool,
    /// How many statuses in a row have seen each node without a lease.
    silent: BTreeMap<NodeId, u8>,
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

    /// The view of a status. `before`: the view until now. While the metadata have no leader nobody knows which nodes
    /// serve, so masters stay as they were.
    pub fn view(&mut self, status: &Status, before: &View) -> View {
        let map = &status.map;
        if map.nodes().is_empty() {
            return self.first();
        }
        let mine = map.member(status.me).map(|node| node.host.as_str());
        let others = map.nodes().iter().filter(|node| !node.lost && Some(node.host.as_str()) != mine);
        let voters = map.members().zip(&status.nodes).filter(|(node, _)| node.voter);
        // A node has links to those alone that it has to do with. The leader knows the others.
        let answers = |known: &NodeStatus| known.linked || known.lease_ms.is_some_and(|left| left > 0);
        let voters = (voters.clone().count(), voters.filter(|(_, known)| answers(known)).count());
        let masters = match status.leader {
            Some(_) => {
                self.listen(status);
                self.masters(status, before)
            }
            None => before.masters.clone(),
        };
        View {
            version: node::REDIS_VERSION,
            id: status.me.to_string(),
            masters,
            others: others.map(|node| Place { port: self.sentinel_port, ..place(node) }).collect(),
            voters,
        }
    }

    fn listen(&mut self, status: &Status) {
        let members = status.map.members().zip(&status.nodes);
        let counted = members.map(|(node, known)| {
            let before = self.silent.get(&node.id).copied().unwrap_or(SILENT);
            let serves = !node.lost && known.lease_ms.is_some_and(|left| left > 0);
            (node.id, if serves { 0 } else { before.saturating_add(1) })
        });
        self.silent = counted.collect();
    }

    fn serves(&self, node: &map::Node) -> bool {
        self.silent.get(&node.id).is_some_and(|silent| *silent < SILENT)
    }

    /// A node that serves stands for the whole cluster, as every node serves every key. Each shard has its owner.
    fn masters(&self, status: &Status, before: &View) -> Vec<Master> {
        let map = &status.map;
        let mut serving: Vec<&map::Node> = map.nodes().iter().filter(|node| self.serves(node)).collect();
        let known = before.master(self.name.as_bytes());
        // One that serves stays, so that clients need not turn back to one that is up again.
        serving.sort_by_key(|node| (known.is_none_or(|known| known.place != place(node)), node.number));
        let whole = match serving.split_first() {
            Some((first, rest)) => Some(Master {
                name: self.name.clone(),
                place: place(first),
                is_up: true,
                epoch: map.epoch(),
                replicas: rest.iter().map(|node| place(node)).collect(),
            }),
            None => known.map(|master| Master { is_up: false, replicas: Vec::new(), ..master.clone() }),
        };
        let of_shards = map.shards().iter().filter_map(|shard| {
            let owner = map.member(shard.owner)?;
            let name = format!("shard-{}", shard.id.0);
            let (is_up, epoch) = (self.serves(owner), u64::from(shard.term.get()));
            Some(Master { name, place: place(owner), is_up, epoch, replicas: Vec::new() })
        });
        whole.into_iter().chain(of_shards).collect()
    }
}

fn place(node: &map::Node) -> Place {
    Place { host: node.host.clone(), port: node.port, id: node.id.to_string() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use membership::map::Range;
    use membership::{Map, NodeId, Slot};

    use super::*;

    fn local() -> Local {
        let (host, silent) = (String::new(), BTreeMap::new());
        Local { name: "mymaster".into(), host, port: 6379, sentinel_port: 26379, is_in_cluster: true, silent }
    }

    /// The view when all statuses are like this one.
    fn settled(local: &mut Local, status: &Status, before: &View) -> View {
        (0..SILENT).fold(before.clone(), |before, _| local.view(status, &before))
    }

    fn status(leases: [Option<u64>; 3]) -> Status {
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
        Status {
            me: NodeId([2; 20]),
            cluster: None,
            map: Arc::new(map),
            leader: Some(NodeId([2; 20])),
            term: 1,
            lease_ms: 1000,
            reason: String::new(),
            changing: false,
            nodes: nodes.collect(),
        }
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
        leaderless.leader = None;
        let now = settled(&mut local, &leaderless, &first);
        assert_eq!((at(&now), now.has_quorum()), (("10.0.0.1", true, 2), false));
    }
}
