use std::fs;

use membership::{SLOTS, Slot};

use crate::harness::{Nodes, wait};

#[test]
fn three_form_a_cluster_and_all_know_it() {
    let nodes = Nodes::formed(1, 3);
    let map = nodes.nodes[0].map();
    assert_eq!(map.assigned(), SLOTS);
    assert_eq!(map.ranges().len(), 3, "one range each");
    let owners: Vec<_> = [0, 8000, 16383].map(|slot| map.node(map.owner_of(Slot::of(slot)).unwrap()).id).to_vec();
    assert_eq!(owners, nodes.nodes.iter().map(|node| node.id()).collect::<Vec<_>>(), "in the order of the addresses");
    assert!(map.nodes().iter().all(|node| node.voter && !node.lost && node.epoch == 1 && node.port == 7000));
    assert_eq!(map.nodes()[2].host, nodes.nodes[2].settings.bind.ip().to_string());
    for node in &nodes.nodes {
        assert_eq!(node.control().cluster(), map.cluster());
        let maps = node.maps();
        assert!(maps.windows(2).all(|two| two[0].version() <= two[1].version()), "maps do not go back");
        assert_eq!(maps.last().unwrap().version(), map.version(), "each is told");
        assert_eq!(node.control().reason(), "");
    }
}

#[test]
fn five_form_a_cluster_and_outlive_two() {
    let mut nodes = Nodes::formed(2, 5);
    let leader = nodes.leader();
    nodes.nodes[leader].stop();
    nodes.nodes[(leader + 1) % 5].stop();
    nodes.serve();
    assert_eq!(nodes.nodes[nodes.leader()].map().nodes().len(), 5);
}

#[test]
fn a_leader_that_stops_has_another_node_lead() {
    let mut nodes = Nodes::formed(12, 3);
    nodes.serve();
    let leader = nodes.leader();
    nodes.nodes[leader].stop();
    // It has waited for that: no election is to come.
    let others = || (0..3).filter(|node| *node != leader).map(|node| &nodes.nodes[node]);
    assert!(others().any(|node| node.status().leader == Some(node.id())));
}

#[test]
fn a_cluster_is_not_formed_while_a_seed_is_missing() {
    let mut nodes = Nodes::start(3, 3);
    nodes.nodes[1].stop();
    // The cluster may have been formed before: then no message can be seen.
    if nodes.nodes[0].map().cluster().is_none() {
        wait("the seed that is missing is named", || {
            let reason = nodes.nodes[0].control().reason();
            let formed = nodes.nodes[0].control().cluster().is_some();
            (formed || reason.contains("belongs to no cluster yet")).then_some(())
        });
    }
    nodes.nodes[1].start();
    nodes.serve();
}

#[test]
fn a_node_that_listens_everywhere_and_has_no_seeds_is_at_home() {
    let mut nodes = Nodes::none(91);
    for _ in 0..5 {
        nodes.add().settings.bind = "0.0.0.0:0".parse().unwrap();
        let node = nodes.nodes.last_mut().unwrap();
        node.start();
        // It may have been asked for its address before it was formed.
        wait("it says where it is", || node.map().nodes().first().filter(|node| node.host == "127.0.0.1").map(drop));
        wait("it serves", || node.has_lease().then_some(()));
        node.stop();
    }
}

#[test]
fn a_node_without_seeds_is_a_cluster() {
    let mut nodes = Nodes::none(4);
    nodes.add().settings.host = Some("127.0.0.1".to_owned());
    nodes.nodes[0].start();
    nodes.serve();
    assert_eq!(nodes.nodes[0].slots(&nodes.nodes[0].map()), SLOTS);
}

/// A node that listens everywhere is found at the address that the seeds name.
#[test]
fn a_node_that_listens_everywhere_learns_its_address_from_the_seeds() {
    let mut nodes = Nodes::none(9);
    let first = 20_000 + (std::process::id() % 1000) as u16 * 4;
    let seeds: Vec<_> = (0..2).map(|n| (format!("127.0.9.{}", n + 1), first + n)).collect();
    for n in 0..3 {
        let node = nodes.add();
        node.settings.bind = std::net::SocketAddr::from(([0, 0, 0, 0], first + n));
        node.settings.seeds = seeds.clone();
    }
    nodes.nodes.iter_mut().take(2).for_each(|node| node.start());
    nodes.serve();
    nodes.nodes[2].start();
    nodes.serve();
    let map = nodes.nodes[0].map();
    let hosts: Vec<&str> = map.nodes().iter().map(|node| node.host.as_str()).collect();
    assert_eq!(hosts, ["127.0.9.1", "127.0.9.2", "127.0.0.1"], "or, of who is no seed, where it has come from");
    nodes.nodes.iter_mut().for_each(|node| node.stop());
    nodes.nodes.iter_mut().for_each(|node| node.start());
    nodes.serve();
    assert_eq!(nodes.nodes[0].map().nodes().iter().map(|node| node.host.as_str()).collect::<Vec<_>>(), hosts);
}

#[test]
fn who_has_the_wrong_secret_or_another_cluster_is_refused() {
    let mut nodes = Nodes::formed(5, 2);
    let stranger = nodes.add();
    stranger.settings.secret = std::sync::Arc::from(*b"guess");
    stranger.start();
    let stranger = &nodes.nodes[2];
    wait("the secret is refused", || stranger.control().reason().contains("wrong secret").then_some(()));
    assert_eq!(stranger.control().cluster(), None);

    // A node of another cluster finds its cluster in its folder, and no node that speaks with it.
    let mut other = Nodes::none(6);
    other.add().settings.host = Some("127.0.0.1".to_owned());
    other.nodes[0].start();
    other.serve();
    other.nodes[0].stop();
    let folder = other.nodes[0].settings.folder.clone();
    nodes.nodes[1].stop();
    nodes.nodes[1].wipe();
    fs::create_dir_all(&nodes.nodes[1].settings.folder).unwrap();
    fs::copy(folder.join("state"), nodes.nodes[1].settings.folder.join("state")).unwrap();
    nodes.nodes[1].start();
    let asked = nodes.nodes[1].control().cluster();
    assert_ne!(asked, nodes.nodes[0].control().cluster());
    nodes.nodes[1].control().dial(nodes.nodes[0].id(), 1);
    assert!(nodes.nodes[1].no_link().1.contains("has no node"));
    wait("the first one says so", || {
        let reason = nodes.nodes[0].control().reason();
        (reason.contains("no lease")).then_some(())
    });
}

#[test]
fn settings_that_must_agree_are_compared() {
    let mut nodes = Nodes::formed(7, 2);
    let third = nodes.add();
    third.settings.agreed = vec![("databases".to_owned(), "32".to_owned())];
    third.start();
    let told = "databases is 32 at this node and 16 in the cluster";
    wait("the setting is named", || nodes.nodes[2].control().reason().contains(told).then_some(()));
    nodes.nodes[2].stop();
    nodes.nodes[2].settings.agreed[0].1 = "16".to_owned();
    nodes.nodes[2].start();
    nodes.serve();
}

#[test]
fn a_damaged_state_stops_the_start_and_stays_as_it_is() {
    let mut nodes = Nodes::formed(8, 1);
    let id = nodes.nodes[0].id();
    let again = nodes.nodes[0].settings.clone();
    nodes.nodes.push(crate::harness::Node::new(again));
    let why = nodes.nodes[1].try_start().unwrap_err().to_string();
    assert!(why.contains("another server uses this folder"), "{why}");
    nodes.nodes.pop();
    nodes.nodes[0].stop();
    let file = nodes.nodes[0].settings.folder.join("state");
    let good = fs::read(&file).unwrap();
    for at in [0, 9, 13, 40, good.len() - 1] {
        let mut damaged = good.clone();
        damaged[at] ^= 0x40;
        fs::write(&file, &damaged).unwrap();
        let why = nodes.nodes[0].try_start().unwrap_err().to_string();
        assert!(why.contains("state: damaged"), "{why}");
        assert_eq!(fs::read(&file).unwrap(), damaged, "nothing was changed");
    }
    fs::write(&file, &good[..good.len() / 2]).unwrap();
    assert!(nodes.nodes[0].try_start().is_err());
    fs::write(&file, &good).unwrap();
    nodes.nodes[0].start();
    nodes.serve();
    assert_eq!((nodes.nodes[0].id(), nodes.nodes[0].control().incarnation()), (id, 2));
}
