use std::collections::BTreeSet;

use membership::control::Status;
use membership::meta::{Command, Refusal, Response};
use membership::{Map, SLOTS};

use crate::harness::{Node, Nodes, wait};

#[test]
fn the_cluster_outlives_its_leader_which_comes_back_as_itself() {
    let mut nodes = Nodes::formed(20, 3);
    let leader = nodes.leader();
    let id = nodes.nodes[leader].id();
    nodes.nodes[leader].stop();
    nodes.serve();
    let next = nodes.leader();
    assert_ne!(next, leader);
    nodes.nodes[next].done(&Command::Set { name: "while".to_owned(), value: "away".to_owned() });
    let version = nodes.nodes[next].map().version();
    nodes.nodes[leader].start();
    nodes.serve();
    assert_eq!(nodes.nodes[leader].id(), id);
    let map = nodes.nodes[leader].map();
    assert!(map.version() > version, "it knows what it has missed");
    let node = map.node(map.index_of(id).unwrap());
    assert_eq!((node.incarnation, node.voter, node.lost), (2, true, false));
    assert_eq!(map.nodes().len(), 3);
}

#[test]
fn a_command_waits_for_the_next_leader() {
    let mut nodes = Nodes::formed(44, 3);
    nodes.vote(3);
    let leader = nodes.leader();
    nodes.nodes[leader].stop();
    let other = (leader + 1) % 3;
    let set = Command::Set { name: "while".to_owned(), value: "none leads".to_owned() };
    let answer = nodes.nodes[other].submit(set);
    assert!(matches!(answer, Ok(Response::Done { .. })), "{answer:?}");
}

#[test]
fn all_may_start_again() {
    let mut nodes = Nodes::formed(21, 3);
    let before = nodes.nodes[0].map();
    for _ in 0..2 {
        nodes.nodes.iter_mut().for_each(|node| node.stop());
        nodes.nodes.iter_mut().for_each(|node| node.start());
        nodes.serve();
    }
    let after = nodes.nodes[0].map();
    assert_eq!(after.cluster(), before.cluster());
    assert_eq!(after.ranges(), before.ranges());
    assert!(after.nodes().iter().all(|node| node.incarnation == 3));
}

#[test]
fn a_fourth_joins_votes_and_leaves() {
    let mut nodes = Nodes::formed(22, 3);
    nodes.add().start();
    nodes.serve();
    let fourth = &nodes.nodes[3];
    wait("it votes", || {
        let map = fourth.map();
        map.node(map.index_of(fourth.id())?).voter.then_some(())
    });
    assert_eq!(fourth.slots(&fourth.map()), 0);
    let owner = nodes.nodes[0].id();
    let slots = nodes.nodes[0].slots(&nodes.nodes[0].map()) as u32;
    let refused = fourth.submit(Command::Leave { id: owner });
    assert_eq!(refused, Ok(Response::Refused(Refusal::OwnsSlots { id: owner, slots })));
    let id = fourth.id();
    nodes.nodes[0].done(&Command::Leave { id });
    nodes.nodes[3].stop();
    wait("it is gone", || nodes.nodes[..3].iter().all(|node| node.map().index_of(id).is_none()).then_some(()));
    nodes.serve();
}

/// A cluster of one that others have joined: so many nodes in all.
fn grown(test: u8, nodes: usize) -> Nodes {
    let mut all = Nodes::formed(test, 1);
    for _ in 1..nodes {
        all.add().start();
    }
    all.serve();
    all
}

/// The voters change in two steps, and the leader may stop between them: it or the next leader goes on.
#[test]
fn a_change_of_who_votes_is_finished() {
    let mut nodes = Nodes::formed(29, 1);
    for _ in 1..4 {
        nodes.add().start();
    }
    wait("some vote", || (nodes.nodes[0].map().nodes().iter().filter(|node| node.voter).count() > 1).then_some(()));
    nodes.nodes[0].stop();
    nodes.nodes[0].start();
    nodes.vote(4);
    // The first node is not needed any more.
    nodes.nodes[0].stop();
    nodes.leader();
    nodes.nodes[0].start();
    nodes.serve();
}

#[test]
fn a_leader_may_leave() {
    // The first node owns all slots, so the others may go.
    let mut nodes = grown(28, 4);
    nodes.vote(4);
    while nodes.leader() == 0 {
        nodes.nodes[0].stop();
        // One of the rest leads.
        nodes.leader();
        nodes.nodes[0].start();
        nodes.serve();
    }
    nodes.vote(4);
    let goes = nodes.leader();
    let id = nodes.nodes[goes].id();
    nodes.nodes[goes].done(&Command::Leave { id });
    wait("it does not vote", || {
        let left = nodes.nodes.iter().filter(|node| node.id() != id);
        let knows = |node: &Node| node.map().index_of(id).is_none() && node.status().leader.is_some_and(|l| l != id);
        left.into_iter().all(knows).then_some(())
    });
    let gone = &nodes.nodes[goes];
    wait("it is told", || gone.control().reason().contains("the cluster has no node").then_some(()));
    wait("its lease is over", || (!gone.has_lease()).then_some(()));
    nodes.nodes[goes].stop();
    // Two of three are enough again.
    nodes.nodes[goes % 3 + 1].stop();
    nodes.serve();
}

#[test]
fn who_leaves_votes_on_where_too_few_others_answer() {
    let mut nodes = grown(30, 3);
    nodes.vote(3);
    let (down, id) = (nodes.nodes[1].id(), nodes.nodes[2].id());
    nodes.nodes[1].stop();
    nodes.serve();
    let held = |status: Status| status.nodes.iter().find(|node| node.id == down).and_then(|node| node.lease_ms);
    wait("it is known to be down", || (held(nodes.nodes[0].status()) == Some(0)).then_some(()));
    let why = nodes.nodes[0].submit(Command::Leave { id }).unwrap_err();
    assert!(why.contains("it still votes"), "{why}");
    // One of the two that are left could not decide this alone.
    nodes.nodes[0].done(&Command::Set { name: "who".to_owned(), value: "decides".to_owned() });
    assert!(nodes.nodes[0].status().changing);
    nodes.nodes[1].start();
    wait("it does not vote", || {
        let status = nodes.nodes[0].status();
        (status.leader.is_some_and(|leader| leader != id) && !status.changing).then_some(())
    });
    nodes.nodes[2].stop();
    nodes.serve();
}

#[test]
fn the_sixth_learns_and_does_not_vote() {
    let mut nodes = grown(23, 6);
    let voters = |map: &Map| map.nodes().iter().filter(|node| node.voter).count();
    wait("five vote", || (voters(&nodes.nodes[0].map()) == 5).then_some(()));
    assert_eq!(nodes.nodes[0].map().nodes().len(), 6);
    // It votes in the place of a node that goes.
    let id = nodes.nodes[2].id();
    nodes.nodes[0].done(&Command::Leave { id });
    nodes.nodes[2].stop();
    wait("the sixth votes", || {
        let map = nodes.nodes[0].map();
        let sixth = map.index_of(nodes.nodes[5].id())?;
        (map.node(sixth).voter && voters(&map) == 5 && map.nodes().len() == 5).then_some(())
    });
}

/// Four nodes of one machine vote until there are two other machines. From then on one of each votes: the cluster
/// decides after the loss of the first machine, whose node may have led.
#[test]
fn voters_are_spread_over_machines() {
    let mut nodes = Nodes::prepared(33, 4);
    for node in &mut nodes.nodes {
        node.settings.machine = "one".to_owned();
        node.start();
    }
    nodes.serve();
    nodes.vote(4);
    let leader = nodes.leader();
    for machine in ["two", "three"] {
        let node = nodes.add();
        node.settings.machine = machine.to_owned();
        node.start();
    }
    nodes.serve();
    nodes.vote(3);
    let machines = |map: &Map| -> Vec<String> {
        let voters = map.nodes().iter().filter(|node| node.voter);
        // Which of the later ones was taken in first is open.
        voters.map(|node| node.machine.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    };
    assert_eq!(machines(&nodes.nodes[4].map()), ["one", "three", "two"], "node {leader} led");
    nodes.nodes[..4].iter_mut().for_each(Node::stop);
    let set = Command::Set { name: "who".to_owned(), value: "decides".to_owned() };
    nodes.nodes[4].done(&set);
    nodes.serve();
}

#[test]
fn a_wiped_node_comes_back_as_a_new_one_and_never_votes_as_the_old_one() {
    let mut nodes = Nodes::formed(24, 3);
    let old = nodes.nodes[2].id();
    nodes.nodes[2].stop();
    nodes.nodes[2].wipe();
    nodes.nodes[2].start();
    assert_ne!(nodes.nodes[2].id(), old, "it has another name: nobody counts its votes as the old one's");
    nodes.serve();
    let (map, new) = (nodes.nodes[0].map(), &nodes.nodes[2]);
    let lost = map.node(map.index_of(old).unwrap());
    assert!(lost.lost, "another is in its place");
    assert_eq!(map.slots_of(map.index_of(old).unwrap()), 5461, "its slots stay with it");
    assert_eq!(new.slots(&map), 0);
    wait("the new one votes instead of the old one", || {
        let map = new.map();
        let votes = |id| map.index_of(id).is_some_and(|index| map.node(index).voter);
        (votes(new.id()) && !votes(old)).then_some(())
    });
    // Until an administrator forgets the old node.
    nodes.nodes[0].done(&Command::Forget { id: old });
    wait("the new one owns them", || {
        nodes
            .nodes
            .iter()
            .all(|node| new.slots(&node.map()) == 5461 && node.map().index_of(old).is_none())
            .then_some(())
    });
    assert_eq!(nodes.nodes[0].map().assigned(), SLOTS);
}

/// After one start without it, its name and the number of its start are those that the others know.
#[test]
fn an_old_copy_of_a_folder_is_refused() {
    for (test, starts) in [(25, 2), (92, 1)] {
        let mut nodes = Nodes::formed(test, 3);
        nodes.nodes[2].stop();
        let file = nodes.nodes[2].settings.folder.join("state");
        let copy = std::fs::read(&file).unwrap();
        for _ in 0..starts {
            nodes.nodes[2].start();
            nodes.serve();
            nodes.nodes[2].stop();
        }
        std::fs::write(&file, copy).unwrap();
        nodes.nodes[2].start();
        wait("it is refused", || nodes.nodes[2].control().reason().contains("old copy").then_some(()));
        let id = nodes.nodes[2].id();
        wait("the others know that it does not serve", || {
            nodes.nodes[0].control().silent().contains(&id).then_some(())
        });
        assert!(!nodes.nodes[2].has_lease());
        nodes.nodes[2].stop();
        nodes.nodes[2].wipe();
        nodes.nodes[2].start();
        nodes.serve();
        assert_ne!(nodes.nodes[2].id(), id);
    }
}

/// A machine is set back to an earlier state while it ran. The others have not heard of a later start, but the node has
/// acknowledged entries that it does not know now.
#[test]
fn a_folder_that_has_forgotten_what_it_acknowledged_is_refused() {
    let mut nodes = Nodes::formed(93, 3);
    let leader = nodes.leader();
    let back = (leader + 1) % 3;
    let file = nodes.nodes[back].settings.folder.join("state");
    let copy = std::fs::read(&file).unwrap();
    for round in 0..3 {
        nodes.nodes[leader].done(&Command::Set { name: "round".to_owned(), value: round.to_string() });
    }
    let version = nodes.nodes[leader].map().version();
    wait("it hears of all", || (nodes.nodes[back].map().version() >= version).then_some(()));
    nodes.nodes[back].stop();
    std::fs::write(&file, copy).unwrap();
    nodes.nodes[back].start();
    wait("it is refused", || nodes.nodes[back].control().reason().contains("has acknowledged").then_some(()));
    assert!(!nodes.nodes[back].has_lease());
}

#[test]
fn a_copy_of_a_folder_that_was_at_rest_is_refused_while_its_node_runs() {
    let mut nodes = Nodes::formed(90, 3);
    nodes.nodes[2].stop();
    let original = nodes.nodes[2].settings.folder.clone();
    let copy = nodes.add().settings.folder.clone();
    std::fs::create_dir_all(&copy).unwrap();
    for file in std::fs::read_dir(original).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    nodes.nodes[2].start();
    wait("the original serves", || nodes.nodes[2].has_lease().then_some(()));
    nodes.nodes[3].start();
    wait("it is refused", || nodes.nodes[3].control().reason().contains("runs twice").then_some(()));
    assert!(!nodes.nodes[3].has_lease());
    nodes.nodes[3].stop();
    nodes.serve();
}

/// A node with a wrong address of its own must not make the node at that address lost.
#[test]
fn nobody_takes_the_place_of_a_node_that_is_alive() {
    let mut nodes = Nodes::formed(94, 3);
    let (id, taken) = (nodes.nodes[0].id(), nodes.nodes[0].settings.bind);
    let intruder = nodes.add();
    intruder.settings.host = Some(taken.ip().to_string());
    intruder.settings.bus_port = taken.port();
    intruder.start();
    wait("it is refused, or lets the other be lost", || {
        let refused = nodes.nodes[3].control().reason().contains(&format!("is where node {id} is"));
        (refused || nodes.nodes[1].map().nodes().len() > 3).then_some(())
    });
    let map = nodes.nodes[1].map();
    assert_eq!((map.nodes().len(), map.node(map.index_of(id).unwrap()).lost), (3, false));
    // Once that node is gone, it may join there.
    nodes.nodes[0].stop();
    wait("it joins", || {
        let map = nodes.nodes[1].map();
        map.node(map.index_of(id)?).lost.then_some(())
    });
    assert_eq!(nodes.nodes[1].map().nodes().len(), 4);
}

#[test]
fn a_node_may_move_to_another_place() {
    let mut nodes = Nodes::formed(26, 3);
    let id = nodes.nodes[1].id();
    nodes.nodes[1].stop();
    let elsewhere = nodes.nodes[1].settings.bind.port() + 1;
    nodes.nodes[1].settings.bind.set_port(elsewhere);
    nodes.nodes[1].settings.port = 7001;
    nodes.nodes[1].start();
    nodes.serve();
    let map = nodes.nodes[0].map();
    let node = map.node(map.index_of(id).unwrap());
    assert_eq!((node.bus_port, node.port, node.incarnation, node.lost), (elsewhere, 7001, 2, false));
    // The others find it there: it is needed for a majority.
    nodes.nodes[2].stop();
    nodes.serve();
}

#[test]
fn a_long_history_is_a_snapshot() {
    let mut nodes = Nodes::formed(27, 1);
    for n in 0..300 {
        nodes.nodes[0].done(&Command::Set { name: "n".to_owned(), value: n.to_string() });
    }
    let version = nodes.nodes[0].map().version();
    let file = || std::fs::metadata(nodes.nodes[0].settings.folder.join("state")).unwrap().len();
    assert!(file() < 25_000, "{} bytes: the log is cut", file());
    nodes.add().start();
    nodes.serve();
    assert!(nodes.nodes[1].map().version() > version, "who joins gets the snapshot");
    nodes.nodes.iter_mut().for_each(|node| node.stop());
    nodes.nodes.iter_mut().for_each(|node| node.start());
    nodes.serve();
    assert_eq!(nodes.nodes[1].map().ranges(), nodes.nodes[0].map().ranges());
}
