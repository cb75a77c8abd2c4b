//! The part of the cluster's status that clients of Sentinel are to see, also as text: a node tells it to its agent.

use membership::NodeNumber;
use membership::control::{NodeStatus, Status};
use sentinel::Place;

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenNode {
    pub place: Place,
    pub number: u32,
    pub has_lease: bool,
    /// It owns slots.
    pub owns: bool,
    /// It has a copy of another node's data, or is to have one: ROLE there says so.
    pub is_standby: bool,
    /// No process will answer by its name.
    pub lost: bool,
}

/// A shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenShard {
    pub number: u32,
    pub term: u64,
    /// The name of its owner.
    pub owner: String,
    /// The names of the standbys that may take over.
    pub standbys: Vec<String>,
}

/// A cluster.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Seen {
    /// The name of the node that has seen it, and its host.
    pub me: String,
    pub host: String,
    /// The name of the cluster.
    pub cluster: String,
    /// The version of the map: one with less is older.
    pub version: u64,
    pub epoch: u64,
    /// The metadata have a leader, so leases are known.
    pub is_led: bool,
    /// How many members vote, and how many of these answer.
    pub voters: (usize, usize),
    pub nodes: Vec<SeenNode>,
    /// Those with slots.
    pub shards: Vec<SeenShard>,
}

impl Seen {
    /// None: there is no cluster yet.
    pub fn of(status: &Status) -> Option<Self> {
        let map = &status.map;
        if map.nodes().is_empty() {
            return None;
        }
        let with_status = || map.members().zip(&status.nodes);
        let holds = |known: &NodeStatus| known.lease_ms.is_some_and(|left| left > 0);
        // A node has links to those alone that it has to do with. The leader knows the others.
        let answers = |known: &NodeStatus| known.linked || holds(known);
        let voters = with_status().filter(|(node, _)| node.voter);
        let voters = (voters.clone().count(), voters.filter(|(_, known)| answers(known)).count());
        let stands_by = |number: u32| {
            let number = NodeNumber(number);
            map.shards().iter().any(|shard| shard.standbys.get(&number).is_some_and(|standby| standby.is_wanted))
        };
        let nodes = map.nodes().iter().map(|node| {
            let known = with_status().find(|(member, _)| member.id == node.id).map(|(_, known)| known);
            SeenNode {
                place: Place { host: node.host.clone(), port: node.port, id: node.id.to_string() },
                number: node.number,
                has_lease: known.is_some_and(holds),
                owns: map.index_of(node.id).is_some_and(|index| map.slots_of(index) > 0),
                is_standby: stands_by(node.number),
                lost: node.lost,
            }
        });
        let name = |number: &NodeNumber| map.nodes().iter().find(|node| node.number == number.0);
        // Every node without slots has a shard as well.
        let shards = map.shards().iter().filter(|shard| map.slots_of_shard(shard) > 0).map(|shard| {
            let electable = shard.standbys.iter().filter(|(_, standby)| standby.is_electable);
            SeenShard {
                number: shard.id.0,
                term: u64::from(shard.term.get()),
                owner: shard.owner.to_string(),
                standbys: electable.filter_map(|(number, _)| Some(name(number)?.id.to_string())).collect(),
            }
        });
        Some(Self {
            me: status.me.to_string(),
            host: map.member(status.me).map(|node| node.host.clone()).unwrap_or_default(),
            cluster: map.cluster().map(|cluster| cluster.to_string()).unwrap_or_default(),
            version: map.version(),
            epoch: map.epoch(),
            is_led: status.leader.is_some(),
            voters,
            nodes: nodes.collect(),
            shards: shards.collect(),
        })
    }

    /// The node of this name.
    pub fn node(&self, id: &str) -> Option<&SeenNode> {
        self.nodes.iter().find(|node| node.place.id == id)
    }

    /// True if this is older than what has that version of that cluster.
    pub fn is_before(&self, cluster: &str, version: u64) -> bool {
        self.cluster == cluster && self.version < version
    }

    /// Lines of words between tabs.
    pub fn text(&self) -> String {
        let Self { me, host, cluster, version, epoch, is_led, voters, nodes, shards } = self;
        let (of, answer) = voters;
        let mut text = format!("cluster\t{cluster}\t{version}\t{epoch}\t{is_led}\t{of}\t{answer}\t{me}\t{host}\n");
        for SeenNode { place: Place { host, port, id }, number, has_lease, owns, is_standby, lost } in nodes {
            text += &format!("node\t{number}\t{has_lease}\t{owns}\t{is_standby}\t{lost}\t{id}\t{port}\t{host}\n");
        }
        for SeenShard { number, term, owner, standbys } in shards {
            text += &format!("shard\t{number}\t{term}\t{owner}\t{}\n", standbys.join(" "));
        }
        text
    }

    /// Reads [`Self::text`]. None: it is none.
    pub fn read(text: &str) -> Option<Self> {
        let mut seen: Option<Self> = None;
        for line in text.lines() {
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["cluster", cluster, version, epoch, is_led, of, answer, me, host] => {
                    let (version, epoch) = (version.parse().ok()?, epoch.parse().ok()?);
                    let (is_led, voters) = (is_led.parse().ok()?, (of.parse().ok()?, answer.parse().ok()?));
                    let (me, host, cluster) = (me.to_owned(), host.to_owned(), cluster.to_owned());
                    seen = Some(Self { me, host, cluster, version, epoch, is_led, voters, ..Self::default() });
                }
                ["node", number, has_lease, owns, is_standby, lost, id, port, host] => {
                    seen.as_mut()?.nodes.push(SeenNode {
                        place: Place { host: host.to_owned(), port: port.parse().ok()?, id: id.to_owned() },
                        number: number.parse().ok()?,
                        has_lease: has_lease.parse().ok()?,
                        owns: owns.parse().ok()?,
                        is_standby: is_standby.parse().ok()?,
                        lost: lost.parse().ok()?,
                    });
                }
                ["shard", number, term, owner, standbys] => seen.as_mut()?.shards.push(SeenShard {
                    number: number.parse().ok()?,
                    term: term.parse().ok()?,
                    owner: owner.to_owned(),
                    standbys: standbys.split_whitespace().map(str::to_owned).collect(),
                }),
                _ => return None,
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_has_seen_is_read_from_its_text() {
        let node = |number: u32| SeenNode {
            place: Place { host: format!("fe80::{number}"), port: 6379, id: format!("{number:040}") },
            number,
            has_lease: number == 1,
            owns: number == 1,
            is_standby: number == 2,
            lost: number == 3,
        };
        let (owner, standbys) = (format!("{:040}", 1), vec![format!("{:040}", 2), format!("{:040}", 3)]);
        let shards = vec![
            SeenShard { number: 1, term: 7, owner: owner.clone(), standbys },
            SeenShard { number: 2, term: 8, owner: owner.clone(), standbys: Vec::new() },
        ];
        let nodes = (1..=3).map(node).collect();
        let seen = Seen {
            me: owner,
            host: "fe80::1".to_owned(),
            cluster: "7".repeat(40),
            version: 9,
            epoch: 4,
            is_led: true,
            voters: (3, 2),
            nodes,
            shards,
        };
        assert_eq!(Seen::read(&seen.text()), Some(seen.clone()));
        assert!(seen.is_before(&seen.cluster, 10) && !seen.is_before(&seen.cluster, 9) && !seen.is_before("8", 10));
        for other in ["", "no cluster yet", "node\t1", "shard\t1\t1\tx\t"] {
            assert_eq!(Seen::read(other), None, "{other}");
        }
    }
}
