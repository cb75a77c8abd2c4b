//! The leader's part in the placing of copies (`cluster-copies`): a shard's log lies on three machines, and as many of
//! these as are wanted have a standby. Nothing is moved once it has its place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use standby::{Change, Process};
use tokio::time::timeout;

use super::agent::Agent;
use crate::map::{Map, Node};
use crate::meta::{ChangeCopies, Command, DEFAULT_DIR, Group, GroupCommand, Place, Response, Shard};
use crate::{NodeId, NodeNumber, level};

/// The fewest copies of a log that survive the loss of one.
const LOGS_MIN: usize = 3;

/// How long a leader that ends waits for the next one.
const HANDS_OVER: Duration = Duration::from_secs(1);

/// Between two offers to give way.
const BETWEEN: Duration = Duration::from_secs(5);

/// Groups that are made here have this name, and the number of their shard.
const NAME: &str = "shard-";

/// What is to be done next.
#[derive(PartialEq, Eq, Debug)]
enum Next {
    /// Nothing, or nothing before something else has come.
    Nothing,
    Do(Command),
    /// There are too few machines, in words.
    Lacks(String),
}

impl Agent {
    /// Finds a place for a copy that has none, if this node is to do so. Others follow at the next call.
    pub(super) async fn place_copies(self: &Arc<Self>) {
        let copies = usize::from(self.settings.copies);
        if copies < 2 {
            return;
        }
        let map = self.machine.map();
        let members: Vec<NodeId> = map.members().filter(|member| !member.lost).map(|member| member.id).collect();
        let unplaced = match next(&map, &self.answering(&members), copies) {
            Next::Nothing => {
                self.give_way(&map).await;
                String::new()
            }
            Next::Lacks(why) => why,
            Next::Do(command) => {
                tracing::info!("copies get their places: {command}");
                match self.submit(&command).await {
                    Ok(Response::Done { .. }) => String::new(),
                    Ok(Response::Refused(why)) => why.in_words(&map),
                    Err(why) => why,
                }
            }
        };
        let mut volatile = self.volatile();
        if volatile.unplaced != unplaced && !unplaced.is_empty() {
            tracing::warn!("copies have no places yet: {unplaced}");
        }
        volatile.unplaced = unplaced;
    }
}

impl Agent {
    /// Has another voter lead the metadata if this node owns slots, or stands by, and the other does not: an owner that is
    /// lost is taken over as soon as the leader knows, and an election would come first.
    async fn give_way(&self, map: &Map) {
        let now = (self.clock)();
        if now < self.volatile().gave_way.after(BETWEEN.as_nanos() as u64) {
            return;
        }
        let Some(to) = better(map, self.me(), &self.heirs()) else { return };
        self.volatile().gave_way = now;
        tracing::info!("node {to} is to lead the metadata: it has less to do with keys than this one");
        if let Err(why) = self.raft.trigger().transfer_leader(to).await {
            tracing::debug!("node {to} does not lead the metadata: {why}");
        }
    }

    /// The voters that answer and have all that this node has in the metadata's log.
    fn heirs(&self) -> BTreeSet<NodeId> {
        let metrics = self.raft.metrics().borrow_watched().clone();
        let last = metrics.last_log_index.unwrap_or(0);
        let replication = metrics.replication.unwrap_or_default();
        let has_all = |id: &NodeId| replication.get(id).and_then(|at| at.as_ref()).is_some_and(|at| at.index >= last);
        let voters: Vec<NodeId> = metrics.membership_config.membership().voter_ids().filter(has_all).collect();
        self.answering(&voters)
    }

    /// Has another voter lead the metadata if this node does, which ends, and waits until it does. Otherwise nobody would
    /// renew a lease before an election.
    pub(super) async fn hand_over(&self) {
        if timeout(HANDS_OVER, self.has_handed_over()).await.is_err() {
            tracing::debug!("no other node leads the metadata yet");
        }
    }

    async fn has_handed_over(&self) {
        let (map, me) = (self.machine.map(), self.me());
        let mut metrics = self.raft.metrics();
        while self.leads().is_some() {
            let voters: Vec<NodeId> =
                metrics.borrow_watched().membership_config.membership().voter_ids().filter(|id| *id != me).collect();
            if self.answering(&voters).is_empty() {
                return;
            }
            match heir(&map, me, &self.heirs()) {
                Some(to) => {
                    let asked = self.raft.trigger().transfer_leader(to).await;
                    while asked.is_ok() && metrics.borrow_watched().current_leader != Some(to) {
                        if metrics.changed().await.is_err() {
                            return;
                        }
                    }
                    return tracing::info!("node {to} leads the metadata now");
                }
                // The last entry is under way.
                None if metrics.changed().await.is_err() => return,
                None => {}
            }
        }
    }
}

/// The voter among `up` that is to lead when this node ends: on another machine, which may end as well, if there is one,
/// and with the least to do with keys.
fn heir(map: &Map, me: NodeId, up: &BTreeSet<NodeId>) -> Option<NodeId> {
    let machine = |id: NodeId| map.member(id).map(|member| member.machine.as_str());
    let others = up.iter().copied().filter(|id| *id != me && map.member(*id).is_some());
    others.min_by_key(|id| (machine(*id) == machine(me), burden(map, *id)))
}

/// How much a member has to do with keys: slots of its own, or a copy of another one's.
fn burden(map: &Map, id: NodeId) -> (u8, NodeNumber) {
    let number = map.member(id).map_or(NodeNumber(0), |member| NodeNumber(member.number));
    let is_owner = map.index_of(id).is_some_and(|index| map.slots_of(index) > 0);
    let is_standby = map.shards().iter().any(|shard| shard.standbys.get(&number).is_some_and(|of| of.is_wanted));
    (if is_owner { 2 } else { u8::from(is_standby) }, number)
}

/// The voter among `up` that has the least to do with keys, if it is less than this node.
fn better(map: &Map, me: NodeId, up: &BTreeSet<NodeId>) -> Option<NodeId> {
    let others = up.iter().copied().filter(|id| *id != me && map.member(*id).is_some());
    let best = others.min_by_key(|id| burden(map, *id))?;
    (burden(map, best).0 < burden(map, me).0).then_some(best)
}

/// The next change by which each shard with slots gets a group and `copies - 1` standbys. `up`: the members that answer.
fn next(map: &Map, up: &BTreeSet<NodeId>, copies: usize) -> Next {
    if map.level() < level::STANDBYS {
        return Next::Lacks(format!(
            "copies need level {} of the cluster, which has {}: `holdfast cluster finalize` raises it",
            level::STANDBYS,
            map.level()
        ));
    }
    let with_slots: Vec<&Shard> = map.shards().iter().filter(|shard| map.slots_of_shard(shard) > 0).collect();
    if with_slots.len() > 1 && map.level() < level::SHARD_PARTICIPANTS {
        return Next::Lacks(format!(
            "keys lie on several nodes, and standbys need level {} there: `holdfast cluster finalize` raises it",
            level::SHARD_PARTICIPANTS
        ));
    }
    // The ring would not have its machine, and a node that its shard needs would go to another one.
    let is_somewhere = |owner: &&Node| !owner.lost && owner.machine.is_empty();
    if let Some(owner) = with_slots.iter().filter_map(|shard| map.member(shard.owner)).find(is_somewhere) {
        let place = format!("{}:{}", owner.host, owner.port);
        return Next::Lacks(format!("the node at {place} has slots and has not said on which machine it runs"));
    }
    let mut lacks = Next::Nothing;
    for shard in with_slots {
        match of_shard(map, up, copies, shard) {
            Next::Nothing => {}
            Next::Lacks(why) => lacks = Next::Lacks(why),
            found => return found,
        }
    }
    lacks
}

fn of_shard(map: &Map, up: &BTreeSet<NodeId>, copies: usize, shard: &Shard) -> Next {
    let Some(owner) = map.member(shard.owner).filter(|owner| !owner.machine.is_empty()) else { return Next::Nothing };
    let Some(group) = map.group_of(shard) else { return log_of(map, up, copies, (shard, owner)) };
    // Its owner brings them up first.
    let is_settled = shard.settled.len() > 1 && shard.pending.is_none();
    let wanted = shard.standbys.values().filter(|standby| standby.is_wanted).count();
    if !is_settled || wanted + 1 >= copies {
        return Next::Nothing;
    }
    let of = |number: &NodeNumber| map.nodes().iter().find(|node| node.number == number.0);
    let used: BTreeSet<&str> = shard.standbys.keys().filter_map(of).chain([owner]).map(|node| &*node.machine).collect();
    let ring = Ring::of(map, copies);
    let reserved = reserved(map, &ring, (shard, owner));
    // The one that the group was made for may not answer for a moment, or not yet to a leader that has just begun.
    let is_left = |node: &Node| reserved.contains(&node.id) || ring.leaves(owner, node);
    let may = |node: &&Node| {
        let has_log = shard.settled.iter().any(|acceptor| acceptor.node == node.id);
        has_log && is_free(map, up, node) && !is_left(node) && !used.contains(&*node.machine)
    };
    // In the order of the places: the first ones were chosen for it.
    let mut places = group.places.iter().filter_map(|place| map.member(place.member));
    match places.find(may) {
        Some(node) => {
            let standby = Process { node: NodeNumber(node.number), life: node.incarnation };
            Next::Do(Command::Copies(ChangeCopies { shard: shard.id, change: Change::Pin { standby } }))
        }
        None => Next::Lacks(format!(
            "shard {} lacks {} of {} standbys: no other machine with a place in group {} has a node without keys",
            shard.id.0,
            copies - 1 - wanted,
            copies - 1,
            group.name
        )),
    }
}

/// True if a node has nothing, and is nothing's standby. One that an operator has taken out stays out.
fn is_free(map: &Map, up: &BTreeSet<NodeId>, node: &Node) -> bool {
    let index = map.index_of(node.id);
    let is_standby = map.shards().iter().any(|shard| shard.standbys.contains_key(&NodeNumber(node.number)));
    up.contains(&node.id) && !node.lost && !is_standby && index.is_some_and(|index| map.slots_of(index) == 0)
}

/// The nodes that other shards' groups were made for, but those that this shard comes first at. Two shards may want one
/// node: of the two exactly one gives way, or neither would ever have it.
fn reserved(map: &Map, ring: &Ring, (shard, owner): (&Shard, &Node)) -> BTreeSet<NodeId> {
    let of_standbys = |group: &Group| -> Vec<NodeId> {
        // The first places behind the owner's are those of future standbys.
        group.places.iter().skip(1).take(ring.copies - 1).map(|place| place.member).collect()
    };
    let made_for = |shard: &Shard| {
        let group = map.group_of(shard).filter(|group| group.name.starts_with(NAME));
        group.map_or_else(Vec::new, of_standbys)
    };
    let own = made_for(shard);
    let comes_first = |other: &Shard, node: NodeId| {
        let is_due = |owner: &Node| map.member(node).is_some_and(|node| ring.is_due(owner, node));
        let is_others = map.member(other.owner).is_some_and(is_due);
        (!is_due(owner), !own.contains(&node), shard.id) < (!is_others, false, other.id)
    };
    let others = map.shards().iter().filter(|other| other.id != shard.id);
    others
        .flat_map(|other| made_for(other).into_iter().map(move |node| (other, node)))
        .filter(|(other, node)| !comes_first(other, *node))
        .map(|(_, node)| node)
        .collect()
}

/// Machines with nodes as a ring: each shard's standbys are on those that follow its owner's. Any other order may leave the
/// last shard with a node of its own machine.
struct Ring<'a> {
    machines: BTreeSet<&'a str>,
    copies: usize,
    /// The owners of shards that have no group yet.
    waiting: Vec<&'a Node>,
}

impl<'a> Ring<'a> {
    /// An owner that does not answer counts: it will, and then nobody moves what another shard has taken.
    fn of(map: &'a Map, copies: usize) -> Self {
        let waiting =
            map.shards().iter().filter(|shard| map.slots_of_shard(shard) > 0 && map.group_of(shard).is_none());
        let owners = waiting.filter_map(|shard| map.member(shard.owner)).filter(|owner| !owner.lost);
        let machines = map.nodes().iter().filter(|node| !node.lost && !node.machine.is_empty());
        Self { machines: machines.map(|node| &*node.machine).collect(), copies, waiting: owners.collect() }
    }

    fn at(&self, node: &Node) -> Option<usize> {
        self.machines.iter().position(|machine| *machine == node.machine)
    }

    /// Machines from the owner's to the node's.
    fn distance(&self, owner: &Node, node: &Node) -> usize {
        match (self.at(owner), self.at(node)) {
            (Some(owner), Some(node)) => (node + self.machines.len() - owner) % self.machines.len(),
            // Behind all others.
            _ => self.machines.len(),
        }
    }

    fn is_due(&self, owner: &Node, node: &Node) -> bool {
        (1..self.copies).contains(&self.distance(owner, node))
    }

    /// True if a node is to be left to another shard, which has no group yet. A node for this owner's may be there later.
    fn leaves(&self, owner: &Node, node: &Node) -> bool {
        let is_others = |other: &&Node| other.id != owner.id && self.is_due(other, node);
        !self.is_due(owner, node) && self.waiting.iter().any(is_others)
    }
}

/// The group of a shard that has none: places on as many machines, the owner's first, then those of future standbys, then
/// log-servers of machines without nodes, then others.
fn log_of(map: &Map, up: &BTreeSet<NodeId>, copies: usize, (shard, owner): (&Shard, &Node)) -> Next {
    let name = format!("{NAME}{}", shard.id.0);
    if map.groups().iter().any(|group| group.name == name) {
        return Next::Do(Command::Group(GroupCommand::Use { name, shards: vec![shard.id] }));
    }
    let count = copies.max(LOGS_MIN);
    let mut load: BTreeMap<NodeId, usize> = BTreeMap::new();
    for place in map.groups().iter().flat_map(|group| &group.places) {
        *load.entry(place.member).or_default() += 1;
    }
    let ring = Ring::of(map, copies);
    let rank = |node: &Node| (ring.distance(owner, node), load.get(&node.id).copied().unwrap_or(0), node.number);
    let mut used: BTreeSet<&str> = [&*owner.machine].into();
    let mut places = vec![owner.id];
    let mut take = |most: usize, test: &dyn Fn(&Node) -> bool| {
        while places.len() < most {
            let may = |node: &&Node| {
                up.contains(&node.id) && !node.lost && !node.machine.is_empty() && !used.contains(&*node.machine)
            };
            let next = map.members().filter(may).filter(|node| test(node)).min_by_key(|node| rank(node));
            let Some(next) = next else { break };
            used.insert(&next.machine);
            places.push(next.id);
        }
        places.len()
    };
    let reserved = reserved(map, &ring, (shard, owner));
    let with_standbys =
        take(copies, &|node| is_free(map, up, node) && !reserved.contains(&node.id) && !ring.leaves(owner, node));
    let is_log_server = |node: &Node| map.log_servers().iter().any(|server| server.id == node.id);
    let has_nodes = |machine: &str| map.nodes().iter().any(|node| !node.lost && node.machine == machine);
    // One beside nodes is there for its machine's vote. A place at a node may become that of a standby.
    take(count, &|node| is_log_server(node) && !has_nodes(&node.machine));
    take(count, &|node| !is_log_server(node));
    let all = take(count, &|_| true);
    if with_standbys < copies || all < count {
        return Next::Lacks(format!(
            "the log of shard {} has no copies: {count} machines are needed, {} of them with a node without keys, and {all} are there (`cluster-host` names a node's machine)",
            shard.id.0,
            copies - 1
        ));
    }
    let places = places.into_iter().map(|member| Place { member, dir: DEFAULT_DIR.to_owned() }).collect();
    Next::Do(Command::Group(GroupCommand::Add(Group { name, places })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{Describe, Lead, Report, SHARDS, Settle, State};
    use crate::{AcceptorId, ClusterId, ShardId};

    fn id(n: u8) -> NodeId {
        NodeId([n; 20])
    }

    fn describe(n: u8) -> Describe {
        let (port, bus_port) = (100 + u16::from(n), 200 + u16::from(n));
        Describe { id: id(n), incarnation: 1, host: "h".to_owned(), port, bus_port, client_port: 0 }
    }

    fn done(state: &mut State, command: Command) {
        let response = state.apply(&command);
        assert!(matches!(response, Response::Done { .. }), "{command}: {response:?}");
    }

    /// Nodes on these machines, of which the first one has all slots, and a log-server for each of the rest.
    fn cluster(machines: &[&str], log_servers: &[&str]) -> State {
        of_shards(1, machines, log_servers)
    }

    /// As [`cluster`], where so many of the first nodes share the slots.
    fn of_shards(shards: usize, machines: &[&str], log_servers: &[&str]) -> State {
        let (mut state, level) = (State::new(), level::HIGHEST);
        let nodes: Vec<Describe> = (1..).take(machines.len()).map(describe).collect();
        let settings = vec![(SHARDS.to_owned(), shards.to_string())];
        state.apply(&Command::Form { cluster: ClusterId([7; 20]), nodes, settings, level });
        let first = machines.len() as u8 + 1;
        for node in (first..).take(log_servers.len()).map(describe) {
            done(&mut state, Command::JoinLog { node, settings: Vec::new(), level });
        }
        for (n, machine) in (1..).zip(machines.iter().chain(log_servers)) {
            done(&mut state, Command::Locate { id: id(n), incarnation: 1, machine: (*machine).to_owned() });
        }
        state
    }

    fn next_of(state: &State, copies: usize) -> Next {
        let map = state.map(|_| true);
        let up = map.members().map(|member| member.id).collect();
        next(&map, &up, copies)
    }

    fn members(next: &Next) -> Vec<NodeId> {
        match next {
            Next::Do(Command::Group(GroupCommand::Add(group))) => {
                group.places.iter().map(|place| place.member).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_node_of_those_that_form_a_cluster_has_all_slots_if_it_says_so() {
        let map = cluster(&["a", "b", "c"], &[]).map(|_| true);
        assert_eq!([0, 1, 2].map(|node| map.slots_of(node)), [crate::SLOTS, 0, 0]);
        assert_eq!([0, 1, 2].map(|node| map.node(node).epoch), [1, 0, 0]);
    }

    #[test]
    fn a_log_lies_on_three_machines_and_none_twice() {
        assert_eq!(members(&next_of(&cluster(&["a", "a", "b", "b", "c"], &[]), 2)), [1, 3, 5].map(id));
        assert_eq!(
            members(&next_of(&cluster(&["a", "b", "c", "d"], &["e"]), 2)),
            [1, 2, 5].map(id),
            "a log-server first"
        );
        assert_eq!(
            members(&next_of(&cluster(&["a", "b", "c", "d"], &["e"]), 3)),
            [1, 2, 3].map(id),
            "or more standbys"
        );
        assert_eq!(
            members(&next_of(&cluster(&["a", "b", "c"], &["a", "b", "c"]), 2)),
            [1, 2, 3].map(id),
            "log-servers beside nodes only vote"
        );
        for few in [&["a", "b"][..], &["a", "a", "a", "b"], &["a"]] {
            assert!(
                matches!(next_of(&cluster(few, &[]), 2), Next::Lacks(why) if why.contains("3 machines")),
                "{few:?}"
            );
        }
        let why = next_of(&cluster(&["a"], &["b", "c"]), 2);
        assert!(matches!(why, Next::Lacks(_)), "log-servers hold no data: {why:?}");
        let map = cluster(&["a", "b", "c"], &[]).map(|_| true);
        let up = [1, 2].map(id).into();
        assert!(matches!(next(&map, &up, 2), Next::Lacks(_)), "one that does not answer gets nothing");
    }

    /// The third machine's second node comes late. Its shard's standby is on the first machine all the same, and the second
    /// shard's waits for that node: nobody would have one for the third shard.
    #[test]
    fn a_node_that_comes_late_leaves_no_shard_without_a_standby() {
        comes_late(of_shards(3, &["a", "b", "c", "a", "b"], &[]), 6, false);
    }

    /// The ring is of machines that may have standbys.
    #[test]
    fn neither_a_log_server_nor_a_node_that_has_not_said_where_it_runs_is_in_the_ring() {
        comes_late(of_shards(3, &["a", "b", "c", "a", "b"], &["d"]), 7, false);
        comes_late(of_shards(3, &["a", "b", "c", "a", "b"], &[]), 6, true);
    }

    /// The node that comes late is this one. `is_known`: it is a member before, and has not said where it runs.
    fn comes_late(mut state: State, late: u8, is_known: bool) {
        let join = |state: &mut State| {
            done(state, Command::Join { node: describe(late), settings: Vec::new(), level: level::HIGHEST });
        };
        if is_known {
            join(&mut state);
        }
        let mut standbys = Vec::new();
        let mut place = |state: &mut State| {
            while let Next::Do(command) = next_of(state, 2) {
                if let Command::Group(GroupCommand::Add(group)) = &command {
                    standbys.push((group.places[0].member, group.places[1].member));
                }
                done(state, command);
            }
            standbys.clone()
        };
        assert_eq!(place(&mut state), [(1, 5), (3, 4)].map(|(owner, standby)| (id(owner), id(standby))));
        if !is_known {
            join(&mut state);
        }
        done(&mut state, Command::Locate { id: id(late), incarnation: 1, machine: "c".to_owned() });
        assert_eq!(place(&mut state)[2], (id(2), id(late)));
    }

    /// Folders for a shard's log are reported at all places, and its owner leads with them.
    fn settles(state: &mut State, shard: ShardId, members: &[u8]) {
        let of = |state: &State| state.map(|_| true).shards().iter().find(|of| of.id == shard).unwrap().clone();
        for n in members {
            let place = Place { member: id(*n), dir: DEFAULT_DIR.to_owned() };
            let mut folder = [*n; 16];
            folder[15] = shard.0 as u8;
            let report = Report { shard, place, incarnation: 1, id: AcceptorId(folder), streams: 1 };
            done(state, Command::Group(GroupCommand::Report(report)));
        }
        let (known, owner) = (of(state).term, of(state).owner);
        done(state, Command::Lead(Lead { shard, known, id: owner, incarnation: 1, of_log: 0 }));
        let (term, acceptors) = (of(state).term, of(state).pending.unwrap().iter().map(|one| one.id).collect());
        let settle = Settle { shard, id: owner, incarnation: 1, term, acceptors };
        done(state, Command::Group(GroupCommand::Settle(settle)));
    }

    /// The second shard's log has its copies, and the third one's has none yet. A leader that has just begun has not heard
    /// the node that is to be the second shard's standby. It leaves the third shard's alone.
    #[test]
    fn a_node_that_does_not_answer_for_a_moment_leaves_no_shard_without_a_standby() {
        let mut state = of_shards(3, &["a", "b", "c", "a", "b", "c"], &[]);
        for _ in 0..4 {
            let Next::Do(command) = next_of(&state, 2) else { panic!("{:?}", next_of(&state, 2)) };
            done(&mut state, command);
        }
        let map = state.map(|_| true);
        let [first, second, third] = [0, 1, 2].map(|at| map.shards()[at].clone());
        assert_eq!([&first, &second, &third].map(|shard| map.group_of(shard).is_some()), [true, true, false]);
        let places: Vec<u8> = map.group_of(&second).unwrap().places.iter().map(|place| place.member.0[0]).collect();
        assert_eq!(places[..2], [2, 6]);
        assert!(places.contains(&4), "the node that the third shard needs has a place: {places:?}");
        settles(&mut state, second.id, &places);
        let map = state.map(|_| true);
        let up: BTreeSet<NodeId> = [1, 2, 3, 4, 5].map(id).into();
        let of_second = of_shard(&map, &up, 2, map.shards().iter().find(|shard| shard.id == second.id).unwrap());
        assert!(matches!(&of_second, Next::Lacks(_)), "{of_second:?}");
    }

    /// Does what is to be done while these nodes answer. Each log that has got its group has its copies at once.
    fn place_while(state: &mut State, up: &BTreeSet<NodeId>, copies: usize) -> Next {
        loop {
            match next(&state.map(|_| true), up, copies) {
                Next::Do(command) => done(state, command),
                other => return other,
            }
            let map = state.map(|_| true);
            for shard in map.shards().iter().filter(|shard| shard.settled.len() < LOGS_MIN) {
                if let Some(group) = map.group_of(shard) {
                    let members: Vec<u8> = group.places.iter().map(|place| place.member.0[0]).collect();
                    settles(state, shard.id, &members);
                }
            }
        }
    }

    /// Owners and their standbys.
    fn standbys(state: &State) -> Vec<(u8, Vec<u32>)> {
        let map = state.map(|_| true);
        let with_slots = map.shards().iter().filter(|shard| map.slots_of_shard(shard) > 0);
        let of = |shard: &Shard| shard.standbys.keys().map(|number| number.0).collect();
        with_slots.map(|shard| (shard.owner.0[0], of(shard))).collect()
    }

    /// Neither node of the third machine answers while the copies get their places, and its log-server does.
    #[test]
    fn a_machine_that_is_slow_leaves_no_shard_without_a_standby() {
        let mut state = of_shards(3, &["a", "b", "c", "a", "b", "c"], &["a", "b", "c"]);
        let slow = [1, 2, 4, 5, 7, 8, 9].map(id).into();
        assert!(matches!(place_while(&mut state, &slow, 2), Next::Lacks(_)), "it is to wait");
        assert_eq!(place_while(&mut state, &(1..=9).map(id).collect(), 2), Next::Nothing);
        assert_eq!(standbys(&state), [(1, vec![5]), (2, vec![6]), (3, vec![4])]);
    }

    /// A group was made for a node that another shard's owner needs. One of the two has it.
    #[test]
    fn two_shards_that_want_one_node_do_not_both_give_way() {
        for others in [&["a", "b", "c"][..], &["a", "b", "c", "a"]] {
            let mut state = of_shards(3, &["a", "b", "c", "a", "b", "c"], others);
            let places: Vec<Place> = [2, 4, 9].map(|n| Place { member: id(n), dir: DEFAULT_DIR.to_owned() }).into();
            let name = format!("{NAME}2");
            done(&mut state, Command::Group(GroupCommand::Add(Group { name, places })));
            let up: BTreeSet<NodeId> = state.map(|_| true).members().map(|member| member.id).collect();
            let left = place_while(&mut state, &up, 2);
            assert_eq!(standbys(&state), [(1, vec![5]), (2, vec![]), (3, vec![4])]);
            assert!(matches!(&left, Next::Lacks(why) if why.contains("shard 2 lacks 1")), "{left:?}");
            let map = state.map(|_| true);
            assert!(map.shards().iter().filter(|of| map.slots_of_shard(of) > 0).all(|of| of.settled.len() == 3));
        }
    }

    /// Machines and nodes are slow in many orders, and say where they run in as many. Once all answer, all have copies.
    #[test]
    fn in_whatever_order_nodes_are_slow_each_shard_has_its_standbys_in_the_end() {
        let clusters = [
            (2, &["a", "b", "c", "a", "b", "c"][..], &["a", "b", "c"][..]),
            (2, &["a", "b", "c", "a", "b", "c"], &[]),
            (2, &["a", "b", "c", "d", "a", "b", "c", "d"], &["a", "b", "c", "d"]),
            (2, &["b", "c", "d", "b", "c", "d", "a", "e"], &["b", "c", "d"]),
            (2, &["a", "b", "c", "d", "d", "d"], &["a", "b", "c"]),
            (3, &["a", "b", "c", "a", "b", "c", "a", "b", "c"], &["a", "b", "c"]),
        ];
        for seed in 0..120_u64 {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut one_in = |n: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random.is_multiple_of(n)
            };
            let (copies, nodes, logs) = clusters[seed as usize % clusters.len()];
            let owners = if nodes.len() == 8 && !nodes.contains(&"e") { 4 } else { 3 };
            let machines: Vec<&str> = nodes.iter().chain(logs).copied().collect();
            let mut state = of_shards(owners, nodes, logs);
            let locate = |state: &mut State, n: usize, machine: &str| {
                let id = id(n as u8 + 1);
                done(state, Command::Locate { id, incarnation: 1, machine: machine.to_owned() });
            };
            let mut unsaid: Vec<usize> = (0..machines.len()).filter(|_| one_in(3)).collect();
            unsaid.iter().for_each(|n| locate(&mut state, *n, ""));
            for _ in 0..6 {
                let slow: Vec<&str> = machines.iter().copied().filter(|_| one_in(6)).collect();
                let is_up = |n: &usize| if slow.contains(&machines[*n]) { one_in(3) } else { !one_in(5) };
                let up = (0..machines.len()).filter(is_up).map(|n| id(n as u8 + 1)).collect();
                place_while(&mut state, &up, copies);
                unsaid.retain(|n| {
                    let says = one_in(3);
                    if says {
                        locate(&mut state, *n, machines[*n]);
                    }
                    !says
                });
            }
            unsaid.iter().for_each(|n| locate(&mut state, *n, machines[*n]));
            let all = (1..).take(machines.len()).map(id).collect();
            let (left, standbys) = (place_while(&mut state, &all, copies), standbys(&state));
            assert_eq!(left, Next::Nothing, "seed {seed}: {standbys:?}");
            assert!(standbys.iter().all(|(_, of)| of.len() + 1 == copies), "seed {seed}: {standbys:?}");
        }
    }

    /// Three machines with two nodes each, of which the first ones have slots.
    #[test]
    fn each_of_three_shards_has_a_standby_on_the_next_machine() {
        let mut state = of_shards(3, &["a", "b", "c", "a", "b", "c"], &[]);
        let mut standbys = Vec::new();
        for _ in 0..3 {
            standbys.push(members(&next_of(&state, 2))[1]);
            // The group, and its use.
            for _ in 0..2 {
                let Next::Do(command) = next_of(&state, 2) else { panic!("{:?}", next_of(&state, 2)) };
                done(&mut state, command);
            }
        }
        assert_eq!(standbys, [5, 6, 4].map(id), "each is on another machine, and none is taken twice");
        assert_eq!(next_of(&state, 2), Next::Nothing, "their owners bring the copies up first");
    }

    #[test]
    fn an_owner_does_not_lead_if_another_voter_may() {
        let state = cluster(&["a", "b", "c"], &["d"]);
        let map = state.map(|_| true);
        let of = |me: u8, up: &[u8]| better(&map, id(me), &up.iter().copied().map(id).collect());
        assert_eq!(of(1, &[1, 2, 3]), Some(id(2)), "the first one has all slots");
        assert_eq!(of(1, &[1, 4]), Some(id(4)), "a log-server has none");
        assert_eq!(of(1, &[1]), None);
        assert_eq!(of(2, &[1, 2, 3, 4]), None, "it has as little to do as any");
    }

    /// All that is proposed is done, up to the standby. Then nothing is left to do.
    #[test]
    fn a_shard_gets_a_group_then_a_standby() {
        let mut state = cluster(&["a", "a", "b", "c"], &[]);
        for _ in 0..2 {
            let Next::Do(command) = next_of(&state, 2) else { panic!("{:?}", next_of(&state, 2)) };
            done(&mut state, command);
        }
        assert_eq!(next_of(&state, 2), Next::Nothing, "its owner brings the copies up first");
        let shard = ShardId(1);
        let of = |state: &State| state.map(|_| true).shards().iter().find(|of| of.id == shard).unwrap().clone();
        settles(&mut state, shard, &[1, 3, 4]);
        let standby = |n: u32| Process { node: NodeNumber(n), life: 1 };
        let pin = |n| Next::Do(Command::Copies(ChangeCopies { shard, change: Change::Pin { standby: standby(n) } }));
        assert_eq!(next_of(&state, 2), pin(3), "the second node is on the owner's machine");
        let Next::Do(command) = next_of(&state, 2) else { panic!() };
        done(&mut state, command);
        assert_eq!(next_of(&state, 2), Next::Nothing);
        assert_eq!(next_of(&state, 3), pin(4));
        let out = Command::Copies(ChangeCopies { shard, change: Change::Remove { standby: standby(3) } });
        done(&mut state, out);
        assert_eq!(next_of(&state, 2), pin(4), "one that an operator has taken out stays out");
        assert_eq!(of(&state).owner, id(1));
    }
}
