use membership::control::{CopyReport, CopyState, NodeStatus};
use membership::meta::{Command, Response};
use membership::{AcceptorId, BootNs};

use crate::gate::Gate;
use crate::harness::{Nodes, now, wait};

/// O1: a node that cannot renew its lease knows so by its own clock, and knows the reason.
#[test]
fn a_minority_loses_its_leases_o1() {
    let mut nodes = Nodes::formed(40, 3);
    nodes.nodes[1].stop();
    nodes.nodes[2].stop();
    let alone = &nodes.nodes[0];
    wait("its lease is over", || (!alone.has_lease()).then_some(()));
    wait("it knows why", || alone.control().reason().starts_with("this node has no lease: ").then_some(()));
    // Each reason in turn is text for people: no dump of internal values.
    let mut told = std::collections::BTreeSet::new();
    wait("it says that more must be up", || {
        told.insert(alone.control().reason());
        told.iter().any(|why| why.contains("more than half")).then_some(())
    });
    assert!(told.iter().all(|why| !why.contains(['{', '['])), "{told:?}");
    let until = alone.lease_until();
    assert!(until <= now());
    nodes.nodes[2].start();
    nodes.serve();
    assert!(nodes.nodes[0].lease_until() > until, "two of three are enough");
}

/// O1: no lease is too long, in whatever way it was renewed.
#[test]
fn a_lease_runs_from_the_sending_o1() {
    let nodes = Nodes::formed(41, 3);
    for node in &nodes.nodes {
        let mut last = BootNs::default();
        for _ in 0..10 {
            let until = wait("it is renewed", || Some(node.lease_until()).filter(|&until| until > last));
            assert!(until <= now().after(node.settings.lease.as_nanos() as u64));
            last = until;
        }
        assert_eq!(node.control().reason(), "");
    }
}

/// Every serving node knows the troubles of a serving node, until they are over.
#[test]
fn troubles_are_known_at_every_node() {
    let nodes = Nodes::formed(47, 3);
    let known = |asked: usize| nodes.nodes[asked].status().nodes.into_iter().map(|node| node.trouble);
    for trouble in ["it refuses writes", "it refuses them for another reason", ""] {
        *nodes.nodes[1].trouble.lock().unwrap() = trouble.to_owned();
        for asked in 0..3 {
            wait("it is known", || known(asked).any(|told| told == trouble).then_some(()));
            wait("of this one only", || (known(asked).filter(|told| !told.is_empty()).count() <= 1).then_some(()));
        }
    }
    wait("it is forgotten", || known(0).all(|told| told.is_empty()).then_some(()));
}

/// Every serving node knows the copies that the owner of a shard reports.
#[test]
fn copies_are_known_at_every_node() {
    let nodes = Nodes::formed(49, 3);
    let known = |asked: usize| {
        let of = |node: NodeStatus| node.copies.into_iter().map(move |copy| (node.id, copy));
        nodes.nodes[asked].status().nodes.into_iter().flat_map(of).collect::<Vec<_>>()
    };
    let report = |blocks| CopyReport {
        id: AcceptorId([5; 16]),
        counts: true,
        state: CopyState::Silent,
        blocks,
        bytes: 100 * blocks,
    };
    for reports in [vec![report(1)], vec![report(2)], vec![]] {
        nodes.nodes[1].reports.lock().unwrap().clone_from(&reports);
        let expected: Vec<_> = reports.into_iter().map(|report| (nodes.nodes[1].id(), report)).collect();
        (0..3).for_each(|asked| wait("they are known", || (known(asked) == expected).then_some(())));
    }
}

/// O1: slots are not taken from a node that may hold a lease; they are when the lease is certainly over.
#[test]
fn slots_are_given_away_when_the_lease_is_over_o1() {
    let mut nodes = Nodes::formed(42, 3);
    let (leader, victim) = (nodes.leader(), (nodes.leader() + 1) % 3);
    let id = nodes.nodes[victim].id();
    let refused = nodes.nodes[leader].submit(Command::Forget { id }).unwrap_err();
    assert!(refused.contains("may be alive"), "{refused}");
    let until = nodes.nodes[victim].lease_until();
    nodes.nodes[victim].stop();
    let mut forgotten = None;
    wait("it is forgotten", || {
        let response = nodes.nodes[leader].submit(Command::Forget { id }).ok()?;
        forgotten = Some(now());
        assert!(matches!(response, Response::Done { .. }));
        Some(())
    });
    assert!(forgotten.unwrap() >= until);
    assert_eq!(nodes.nodes[leader].map().nodes().len(), 2);
    // The node has not heard of it, and starts again: it gets no lease, and learns why.
    nodes.nodes[victim].start();
    wait("it is told", || nodes.nodes[victim].control().reason().contains("forgotten").then_some(()));
    assert!(!nodes.nodes[victim].has_lease());
}

#[test]
fn the_leader_knows_who_holds_leases() {
    let mut nodes = Nodes::formed(43, 3);
    let leader = nodes.leader();
    let other = (leader + 1) % 3;
    let status = wait("all hold leases", || {
        let status = nodes.nodes[other].status();
        status.nodes.iter().all(|node| node.lease_ms.is_some_and(|ms| ms > 0)).then_some(status)
    });
    assert_eq!((status.leader, status.nodes.len()), (Some(nodes.nodes[leader].id()), 3));
    assert!(status.lease_ms <= 2000 && status.reason.is_empty());
    let gone = nodes.nodes[other].id();
    nodes.nodes[other].stop();
    wait("one does not", || {
        let status = nodes.nodes[leader].status();
        status.nodes.iter().any(|node| node.id == gone && node.lease_ms == Some(0)).then_some(())
    });
}

#[test]
fn all_know_who_is_silent() {
    let mut nodes = Nodes::formed(45, 3);
    let gone = (nodes.leader() + 1) % 3;
    let id = nodes.nodes[gone].id();
    assert!(nodes.nodes.iter().all(|node| node.control().silent().is_empty()));
    nodes.nodes[gone].stop();
    for left in [(gone + 1) % 3, (gone + 2) % 3] {
        let node = &nodes.nodes[left];
        wait("it is silent", || node.control().silent().iter().eq([&id]).then_some(()));
    }
    nodes.nodes[gone].start();
    nodes.serve();
    wait("it is not any more", || nodes.nodes.iter().all(|node| node.control().silent().is_empty()).then_some(()));
}

/// O1: a leader that has lost its lease may have been deposed without having heard of it. Others may hold leases of
/// another leader.
#[test]
fn a_leader_without_a_lease_says_of_nobody_that_it_is_silent_o1() {
    let mut nodes = Nodes::formed(46, 3);
    let leader = nodes.leader();
    for other in [(leader + 1) % 3, (leader + 2) % 3] {
        nodes.nodes[other].stop();
    }
    let left = &nodes.nodes[leader];
    wait("it knows that nobody has a lease", || {
        let status = left.status();
        status.nodes.iter().all(|node| node.lease_ms == Some(0)).then_some(())
    });
    assert!(left.control().silent().is_empty());
}

/// O1: a node that can renew, but does not hear of decisions, has no lease: it might serve slots that it no longer
/// owns.
#[test]
fn who_does_not_hear_of_changes_has_no_lease_o1() {
    let mut nodes = Nodes::none(44);
    let places: Vec<_> =
        (1..=3).map(|n| std::net::SocketAddr::from(([127, 45, std::process::id() as u8, n], 17001))).collect();
    let mut gates = Vec::new();
    for place in &places {
        let node = nodes.add();
        gates.push(Gate::new(*place, node.settings.bind));
        node.settings.host = Some(place.ip().to_string());
        node.settings.bus_port = place.port();
        node.settings.seeds = places.iter().map(|place| (place.ip().to_string(), place.port())).collect();
    }
    nodes.nodes.iter_mut().for_each(|node| node.start());
    nodes.serve();
    let leader = nodes.leader();
    let deaf = (leader + 1) % 3;
    gates[deaf].close();
    // The other two, a majority, decide.
    wait("something is decided that it does not hear of", || {
        nodes.nodes[leader].submit(Command::Set { name: "a".to_owned(), value: now().0.to_string() }).ok()?;
        let node = &nodes.nodes[deaf];
        (!node.has_lease() && node.map().version() < nodes.nodes[leader].map().version()).then_some(())
    });
    wait("it knows why", || nodes.nodes[deaf].control().reason().starts_with("this node has no lease: ").then_some(()));
    assert!(nodes.nodes[leader].has_lease() || nodes.nodes[(leader + 2) % 3].has_lease());
    gates[deaf].open();
    nodes.serve();
}
