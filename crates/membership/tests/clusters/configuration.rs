use std::fs;

use membership::control::{Control, NotConfigured};
use membership::meta::{Setting, VALUE_MAX};

use crate::harness::{Node, Nodes, wait};

fn setting(name: &str, value: impl AsRef<[u8]>) -> Setting {
    Setting { name: name.to_owned(), value: value.as_ref().to_vec() }
}

/// Changes a setting, again if the outcome is not known.
fn set(node: &Node, name: &str, value: impl AsRef<[u8]>) {
    let settings = [setting(name, value)];
    wait("a setting is changed", || match node.configure(&settings) {
        Ok(()) => Some(()),
        Err(NotConfigured::Refused(why)) => panic!("refused: {why}"),
        Err(NotConfigured::Unled(_) | NotConfigured::Unknown(_)) => None,
    });
}

fn has(node: &Node, name: &str) -> Option<Vec<u8>> {
    node.configuration().get(name).map(<[u8]>::to_vec)
}

#[test]
fn a_change_reaches_all_nodes_and_those_that_come_later() {
    let mut nodes = Nodes::formed(76, 3);
    for (i, value) in [b"1", b"2", b"3"].into_iter().enumerate() {
        set(&nodes.nodes[i], "a", value);
        assert_eq!(has(&nodes.nodes[i], "a"), Some(value.to_vec()), "who answers has it");
        wait("all have it", || nodes.nodes.iter().all(|node| has(node, "a") == Some(value.to_vec())).then_some(()));
    }
    nodes.nodes[2].stop();
    set(&nodes.nodes[0], "a", b"4");
    set(&nodes.nodes[1], "b", [0xff, 0]);
    nodes.nodes[2].start();
    wait("it has a lease", || nodes.nodes[2].has_lease().then_some(()));
    let all = [Some(b"4".to_vec()), Some(vec![0xff, 0])];
    assert_eq!(["a", "b"].map(|name| has(&nodes.nodes[2], name)), all, "it has them before it serves");
    nodes.add().start();
    wait("it has a lease", || nodes.nodes[3].has_lease().then_some(()));
    assert_eq!(["a", "b"].map(|name| has(&nodes.nodes[3], name)), all);
    // All nodes start again, and know the last change before they have heard of each other.
    set(&nodes.nodes[0], "a", b"5");
    nodes.nodes.iter_mut().for_each(Node::stop);
    let known = Control::known_configuration(&nodes.nodes[0].settings.folder);
    assert_eq!((known.get("a"), known.get("b")), (Some(&b"5"[..]), Some(&[0xff, 0][..])));
    nodes.nodes.iter_mut().for_each(Node::start);
    nodes.serve();
    assert!(nodes.nodes.iter().all(|node| has(node, "a") == Some(b"5".to_vec())));
}

#[test]
fn a_cluster_begins_with_the_settings_of_its_first_node() {
    let mut nodes = Nodes::prepared(77, 3);
    for (i, node) in nodes.nodes.iter_mut().enumerate() {
        node.settings.configuration = vec![setting("a", format!("{i}"))];
    }
    nodes.nodes[2].settings.configuration.push(setting("b", "2"));
    nodes.nodes.iter_mut().for_each(Node::start);
    nodes.serve();
    for node in &nodes.nodes {
        assert_eq!((has(node, "a"), has(node, "b")), (Some(b"0".to_vec()), None));
    }
    // Only once, even if that node sends it later.
    set(&nodes.nodes[1], "a", b"8");
    nodes.nodes.iter_mut().for_each(Node::stop);
    nodes.nodes[0].settings.configuration = vec![setting("a", "9")];
    nodes.nodes.iter_mut().for_each(Node::start);
    nodes.serve();
    assert!(nodes.nodes.iter().all(|node| has(node, "a") == Some(b"8".to_vec())));
}

#[test]
fn changes_at_once_end_the_same_everywhere() {
    let nodes = Nodes::formed(78, 3);
    std::thread::scope(|scope| {
        for (i, node) in nodes.nodes.iter().enumerate() {
            let control = node.control();
            scope.spawn(move || {
                for n in 0..20 {
                    let settings = vec![setting("a", format!("{i}-{n}")), setting(&format!("own{i}"), format!("{n}"))];
                    wait("it is changed", || {
                        let (sender, receiver) = std::sync::mpsc::channel();
                        control.configure(settings.clone(), move |changed| drop(sender.send(changed)));
                        receiver.recv().unwrap().ok()
                    });
                }
            });
        }
    });
    let all = wait("all are the same", || {
        let first = nodes.nodes[0].configuration();
        nodes.nodes.iter().all(|node| node.configuration() == first).then_some(first)
    });
    for i in 0..3 {
        assert_eq!(all.get(&format!("own{i}")), Some(&b"19"[..]), "nobody's is lost");
    }
    assert!(all.get("a").is_some_and(|value| value.ends_with(b"-19")));
}

#[test]
fn without_a_majority_no_setting_is_changed() {
    let mut nodes = Nodes::formed(79, 3);
    set(&nodes.nodes[0], "a", b"1");
    let leader = nodes.leader();
    (0..3).filter(|node| *node != leader).for_each(|node| nodes.nodes[node].stop());
    let why = nodes.nodes[leader].configure(&[setting("a", b"2")]).unwrap_err();
    assert!(matches!(&why, NotConfigured::Unled(_)), "{why}");
    assert_eq!(has(&nodes.nodes[leader], "a"), Some(b"1".to_vec()));
}

/// A client does not hear that the outcome is unknown if only the leader has gone.
#[test]
fn a_change_waits_for_another_leader() {
    let mut nodes = Nodes::formed(83, 3);
    set(&nodes.nodes[0], "a", b"1");
    let leader = nodes.leader();
    nodes.nodes[leader].stop();
    let other = (leader + 1) % 3;
    wait("it is changed", || match nodes.nodes[other].configure(&[setting("a", b"2")]) {
        Ok(()) => Some(()),
        // On a busy machine an election may take long.
        Err(NotConfigured::Unled(_)) => None,
        Err(why) => panic!("{why}"),
    });
    assert_eq!(has(&nodes.nodes[other], "a"), Some(b"2".to_vec()));
}

#[test]
fn what_is_too_large_is_refused() {
    let nodes = Nodes::formed(80, 1);
    let many: Vec<Setting> = (0..40).map(|n| setting(&n.to_string(), vec![1; VALUE_MAX])).collect();
    let why = wait("it is refused", || match nodes.nodes[0].configure(&many) {
        Err(NotConfigured::Refused(why)) => Some(why),
        other => panic!("{other:?}"),
    });
    assert!(why.contains("may have 32768"), "{why}");
}

/// A change of a setting writes no libraries.
#[test]
fn a_change_writes_one_small_file() {
    let nodes = Nodes::formed(81, 1);
    let node = &nodes.nodes[0];
    let large = vec![7; 1 << 20];
    wait("libraries are changed", || node.keeper().change(0, &large).ok());
    set(node, "a", b"1");
    let length = |name: &str| fs::metadata(node.settings.folder.join(name)).unwrap().len();
    assert!(length("state") < 4096, "{} bytes", length("state"));
    let names = fs::read_dir(&node.settings.folder).unwrap().map(|entry| entry.unwrap().file_name());
    let libraries: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("libraries-")).collect();
    assert_eq!(libraries.len(), 1, "{libraries:?}");
    assert!(length(&libraries[0].to_string_lossy()) > 1 << 20);
}

/// The contents of a node's files hold until it has heard of all committed changes of others.
#[test]
fn a_start_does_not_go_back_behind_what_its_files_have() {
    let mut nodes = Nodes::formed(82, 2);
    set(&nodes.nodes[0], "a", b"1");
    set(&nodes.nodes[0], "a", b"2");
    nodes.nodes.iter_mut().for_each(Node::stop);
    // Alone it hears of nothing: it takes what it found, or nothing.
    nodes.nodes[0].start();
    let mut looks = 0;
    wait("some looks", || {
        looks += 1;
        assert_ne!(has(&nodes.nodes[0], "a"), Some(b"1".to_vec()));
        (looks > 10).then_some(())
    });
    nodes.nodes[1].start();
    nodes.serve();
    assert!(nodes.nodes.iter().all(|node| has(node, "a") == Some(b"2".to_vec())));
}
