use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use membership::meta::{Command, LIBRARIES_MAX, Response};

use crate::harness::{Keeper, Node, Nodes, wait};

/// Changes the libraries of version `known`: at once, or, after an error with an unknown outcome, by more tries.
fn change(node: Keeper<'_>, known: u64, payload: &[u8]) {
    wait("libraries are changed", || match node.change(known, payload) {
        Ok(true) => Some(()),
        Ok(false) => {
            assert_eq!(node.libraries(), (known + 1, payload.to_vec()));
            Some(())
        }
        Err(_) => None,
    });
}

#[test]
fn a_change_is_answered_when_all_have_it() {
    let mut nodes = Nodes::formed(70, 3);
    for (known, name) in (0u8..6).zip([&b"a"[..], b"b", b"c", b"d", b"e", b"f"]) {
        change(nodes.nodes[usize::from(known) % 3].keeper(), known.into(), name);
        for node in nodes.nodes.iter().filter(|node| node.has_lease()) {
            assert_eq!(node.libraries(), (u64::from(known) + 1, name.to_vec()));
        }
    }
    // A change that was made from an old version is refused.
    assert!(!wait("it is answered", || nodes.nodes[1].keeper().change(4, b"x").ok()));
    assert_eq!(nodes.nodes[1].libraries(), (6, b"f".to_vec()));

    // A node that is away is not waited for longer than its lease lasts. It has no lease again before it has the
    // changes.
    nodes.nodes[2].stop();
    change(nodes.nodes[0].keeper(), 6, b"g");
    nodes.nodes[2].start();
    wait("it has a lease", || nodes.nodes[2].has_lease().then_some(()));
    assert_eq!(nodes.nodes[2].libraries(), (7, b"g".to_vec()));
    // The same holds for a new node.
    nodes.add().start();
    wait("it has a lease", || nodes.nodes[3].has_lease().then_some(()));
    assert_eq!(nodes.nodes[3].libraries(), (7, b"g".to_vec()));

    // All nodes start again.
    nodes.nodes.iter_mut().for_each(Node::stop);
    nodes.nodes.iter_mut().for_each(Node::start);
    nodes.serve();
    assert!(nodes.nodes.iter().all(|node| node.libraries() == (7, b"g".to_vec())));
}

/// Other nodes do not wait for it, as it has no lease then.
#[test]
fn who_cannot_take_them_does_not_serve() {
    let nodes = Nodes::formed(75, 3);
    let lame = &nodes.nodes[1];
    lame.refuses.store(true, Relaxed);
    change(nodes.nodes[0].keeper(), 0, b"a");
    assert!(!lame.has_lease(), "it has not what was answered");
    let why = "it has not the cluster's libraries of functions: a test says so";
    wait("it says why", || lame.control().reason().contains(why).then_some(()));
    assert!(!lame.has_lease());
    lame.refuses.store(false, Relaxed);
    nodes.serve();
    assert_eq!(lame.libraries(), (1, b"a".to_vec()));
}

#[test]
fn changes_at_once_are_made_one_from_the_other() {
    let nodes = Nodes::formed(71, 3);
    std::thread::scope(|scope| {
        for (node, name) in nodes.nodes.iter().zip([b'a', b'b', b'c']) {
            let node = node.keeper();
            scope.spawn(move || {
                for i in 0..5 {
                    wait("it is added", || {
                        let (known, mut all) = node.libraries();
                        let is_there = all.chunks(2).any(|one| one == [name, i]);
                        all.extend([name, i]);
                        (is_there || node.change(known, &all) == Ok(true)).then_some(())
                    });
                }
            });
        }
    });
    let (_, all) = nodes.nodes[0].libraries();
    let mut all: Vec<&[u8]> = all.chunks(2).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 15, "{all:?}");
}

#[test]
fn without_a_majority_nothing_is_changed() {
    let mut nodes = Nodes::formed(72, 3);
    let leader = nodes.leader();
    (0..3).filter(|node| *node != leader).for_each(|node| nodes.nodes[node].stop());
    let why = nodes.nodes[leader].keeper().change(0, b"a").unwrap_err();
    assert!(why.starts_with("nobody knows whether the libraries are changed: "), "{why}");
}

#[test]
fn what_a_node_has_becomes_the_clusters_that_it_forms() {
    let mut nodes = Nodes::prepared(73, 1);
    nodes.nodes[0].settings.libraries = Some(Arc::from(*b"own"));
    nodes.nodes[0].start();
    nodes.serve();
    assert_eq!(nodes.nodes[0].libraries(), (1, b"own".to_vec()));
    // Only once.
    change(nodes.nodes[0].keeper(), 1, b"other");
    nodes.nodes[0].stop();
    nodes.nodes[0].start();
    nodes.serve();
    assert_eq!(nodes.nodes[0].libraries(), (2, b"other".to_vec()));
}

/// The log of the metadata, which is written with every change, does not keep everything that was ever loaded.
#[test]
fn large_libraries_are_kept_once() {
    let mut nodes = Nodes::formed(74, 3);
    let large = |n: u64| vec![n as u8; LIBRARIES_MAX];
    for known in 0..12 {
        let node = &nodes.nodes[known as usize % 3];
        change(node.keeper(), known, &large(known));
    }
    wait("the logs are cut", || {
        let length = |node: &Node| {
            let files = fs::read_dir(&node.settings.folder).unwrap();
            files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len()).sum::<u64>()
        };
        // It is written with the next change.
        let set = Command::Set { name: "a".to_owned(), value: nodes.nodes[0].map().version().to_string() };
        let set = nodes.nodes[0].submit(set);
        (matches!(set, Ok(Response::Done { .. })) && nodes.nodes.iter().all(|node| length(node) < 6 << 20))
            .then_some(())
    });
    let too_large = vec![0; LIBRARIES_MAX + 1];
    let why = wait("it is refused", || nodes.nodes[0].keeper().change(12, &too_large).err());
    assert!(why.contains("may have 1048576 together"), "{why}");
    nodes.add().start();
    wait("it has a lease", || nodes.nodes[3].has_lease().then_some(()));
    assert_eq!(nodes.nodes[3].libraries(), (12, large(11)));
}

/// As with settings: what a node's files have holds until it has heard of all committed changes of others. Users are
/// among the libraries, and a right that was taken away must not come back.
#[test]
fn a_start_does_not_go_back_behind_what_its_files_have() {
    let mut nodes = Nodes::formed(84, 2);
    // Large ones have the log be cut, so that the start finds an older snapshot.
    let large = |n: u8| vec![n; LIBRARIES_MAX];
    for n in 0..6 {
        change(nodes.nodes[0].keeper(), n.into(), &large(n));
    }
    let length = |node: &Node| {
        let files = fs::read_dir(&node.settings.folder).unwrap();
        files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len()).sum::<u64>()
    };
    for _ in 0..100 {
        if length(&nodes.nodes[0]) < 4 << 20 {
            break;
        }
        #[expect(clippy::disallowed_methods, reason = "tests run by the real clock")]
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    change(nodes.nodes[0].keeper(), 6, b"last");
    nodes.nodes.iter_mut().for_each(Node::stop);
    // Alone it hears of nothing: it takes the last ones, or none.
    nodes.nodes[0].start();
    let mut looks = 0;
    wait("some looks", || {
        looks += 1;
        let (version, payload) = nodes.nodes[0].libraries();
        assert!(version == 0 || payload == b"last", "it has version {version}");
        (looks > 20).then_some(())
    });
    nodes.nodes[1].start();
    nodes.serve();
    assert!(nodes.nodes.iter().all(|node| node.libraries() == (7, b"last".to_vec())));
}
